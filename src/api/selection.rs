//! The selection of variants for a page, forced or decided. Resolve and variants share it, so that they decide alike.

use serde_json::Value as Json;

use super::context::RequestContext;
use super::scratch::Scratch;
use crate::http::params::Param;
use crate::json;
use crate::problem::{self, Problem};
use crate::resolve::decide::DecisionBuffers;
use crate::resolve::explain::explain;
use crate::resolve::path::RoutePath;
use crate::resolve::variants::{Choice, ForcedVariants, VariantsError};
use crate::resolve::visitor_context::Visitor;
use crate::resolve::{decide, route};
use crate::site::snapshot::format::ArchivedPage;

/// A page and its selected variants.
pub(super) struct Selection<'a> {
    pub(super) page: &'a ArchivedPage,
    pub(super) choice: Choice,
    /// The forced variants, if the request has `variants`.
    pub(super) forced: Option<ForcedVariants<'a>>,
    /// The members `decisions` and `visitor`, if the request has `explain=1`.
    pub(super) explanation: Option<(Json, Json)>,
}

/// Selects the forced variants, or decides for the visitor.
///
/// # Errors
/// `invalid_variants`, `unknown_variant`, `invalid_anon_id`.
pub(super) fn select_variants<'a>(
    context: &RequestContext<'a>,
    page: &'a ArchivedPage,
    explain: bool,
    scratch: &mut Scratch,
) -> Result<Selection<'a>, Problem<'a>> {
    let Some(forced) = parse_forced_variants(context, page)? else {
        return select_for_visitor(context, page, explain, scratch);
    };
    let choice = decide::choose_forced(page, &forced);
    let explanation = explain.then(|| {
        with_visitor(context, scratch, |visitor, buffers| {
            explain_choice(context, page, visitor, (&choice, true), buffers)
        })
    });
    Ok(Selection { page, explanation: explanation.transpose()?, choice, forced: Some(forced) })
}

/// Decides for the visitor, and ignores `variants`.
///
/// # Errors
/// `invalid_anon_id`.
pub(super) fn select_for_visitor<'a>(
    context: &RequestContext<'a>,
    page: &'a ArchivedPage,
    explain: bool,
    scratch: &mut Scratch,
) -> Result<Selection<'a>, Problem<'a>> {
    with_visitor(context, scratch, |visitor, buffers| {
        let choice = buffers.decide(context.site(), page, visitor, context.published.patterns());
        let explanation = explain.then(|| explain_choice(context, page, visitor, (&choice, false), buffers));
        Selection { page, choice, forced: None, explanation }
    })
}

/// Calls `then` with the visitor as the request and the profile describe it now.
fn with_visitor<'a, R>(
    context: &RequestContext<'a>,
    scratch: &mut Scratch,
    then: impl FnOnce(&Visitor<'_>, &mut DecisionBuffers) -> R,
) -> Result<R, Problem<'a>> {
    let Scratch { user_agent_parser, user_agent_cache, decision_buffers, profiles, .. } = scratch;
    let agent = context.user_agent().map(|agent| user_agent_cache.get_or_parse(user_agent_parser, agent));
    let visitor = context.visitor(context.anon_id()?, agent.unwrap_or_default());
    // A crawler gets the baseline, also with the ID of a visitor.
    let profile_of = visitor.anon_id.filter(|_| !visitor.agent.is_crawler).zip(profiles.as_mut());
    Ok(match profile_of {
        None => then(&visitor, decision_buffers),
        Some((anon_id, profiles)) => {
            let pinned = profiles.pin();
            let profile = pinned.by_anon_id(&context.site().site, anon_id);
            then(&Visitor { profile, ..visitor }, decision_buffers)
        }
    })
}

fn explain_choice(
    context: &RequestContext<'_>,
    page: &ArchivedPage,
    visitor: &Visitor<'_>,
    choice: (&Choice, bool),
    buffers: &mut DecisionBuffers,
) -> (Json, Json) {
    explain(buffers, context.site(), page, visitor, choice, context.published.patterns())
}

fn parse_forced_variants<'a>(
    context: &RequestContext<'a>,
    page: &ArchivedPage,
) -> Result<Option<ForcedVariants<'a>>, Problem<'a>> {
    let Some(text) = context.params.get_even_if_empty(Param::Variants) else {
        return Ok(None);
    };
    let name = Param::Variants.name();
    let forced = ForcedVariants::parse(text, page).map_err(|reason| {
        let expected = match reason {
            VariantsError::Malformed => {
                "'zone:key' pairs joined by ',', each part 1 to 64 letters, digits, '_' or '-'"
            }
            VariantsError::DuplicateZone => "each zone at most once",
            VariantsError::TooManyPairs => "at most 64 pairs",
        };
        Problem::invalid_value(problem::INVALID_VARIANTS, expected, text).at(name)
    })?;
    let strict = context.params.flag(Param::Strict)?;
    if strict && let Some(unknown) = forced.unknown().next() {
        let pair = text.split(',').find(|pair| pair.split_once(':') == Some(unknown)).unwrap_or(unknown.1);
        let problem = Problem::with_value(problem::UNKNOWN_VARIANT, "The route has no variant {}.", pair);
        return Err(problem.at(name));
    }
    Ok(Some(forced))
}

impl Selection<'_> {
    /// Appends `,"decisions":[...],"visitor":{...}` if an explanation was requested.
    pub(super) fn write_explanation(&self, out: &mut Vec<u8>) {
        if let Some((decisions, visitor)) = &self.explanation {
            out.extend_from_slice(b",\"decisions\":");
            out.extend_from_slice(decisions.to_string().as_bytes());
            out.extend_from_slice(b",\"visitor\":");
            out.extend_from_slice(visitor.to_string().as_bytes());
        }
    }

    /// Appends `"variants":...,"selected":{...}`, and writes the canonical string to `canonical`.
    pub(super) fn write_variants(&self, canonical: &mut Vec<u8>, out: &mut Vec<u8>) {
        canonical.clear();
        self.choice.write_canonical(self.page, canonical);
        out.extend_from_slice(b"\"variants\":\"");
        out.extend_from_slice(canonical);
        out.extend_from_slice(b"\",\"selected\":{");
        for (i, (_, variant)) in self.choice.selected(self.page).enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(variant.selected.as_bytes());
        }
        out.push(b'}');
    }
}

/// Appends `"site":...,"route":...`.
pub(super) fn write_site_and_route(context: &RequestContext<'_>, path: &RoutePath, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"site\":\"");
    out.extend_from_slice(context.site().site.as_bytes());
    out.extend_from_slice(b"\",\"route\":");
    json::write_string(out, path.text());
}

/// Appends the members of `params`: the values of a pattern's parameters.
pub(super) fn write_route_params(pattern: &str, path: &RoutePath, out: &mut Vec<u8>) {
    for (i, (name, value)) in route::params(pattern, path).enumerate() {
        if i > 0 {
            out.push(b',');
        }
        json::write_string(out, name);
        out.push(b':');
        json::write_string(out, value);
    }
}
