//! The selection of variants for a page, forced or decided. Resolve and variants share it, so that they decide alike.

use serde_json::{Value as Json, json};

use super::answer_table::{AnswerKey, AnswerKind};
use super::context::{Inspection, RequestContext};
use super::scratch::VisitorScratch;
use super::visitor_token::TokenAnswer;
use crate::events::time;
use crate::http::params::Param;
use crate::json;
use crate::problem::{self, Problem};
use crate::record::IdKind;
use crate::resolve::decide::DecisionBuffers;
use crate::resolve::explain::explain;
use crate::resolve::path::RoutePath;
use crate::resolve::variants::{Choice, ForcedVariants, VariantsError};
use crate::resolve::visitor_context::Visitor;
use crate::resolve::{decide, route};
use crate::site::snapshot::format::{ArchivedPage, ArchivedRoute, ArchivedZone};
use crate::visitors::lookup::ProfileReader;
use crate::visitors::profile::last_context::LastContext;

/// A page and its selected variants.
pub(super) struct Selection<'a> {
    pub(super) page: &'a ArchivedPage,
    pub(super) choice: Choice,
    /// True if rules decided, at least in the zones that `override` does not name.
    pub(super) is_decided: bool,
    pub(super) is_crawler: bool,
    /// True if the server knows too little of the visitor to decide: the zones have their default variants.
    pub(super) is_stale: bool,
    /// The pairs of `variants` or `override`.
    forced: Option<ForcedVariants<'a>>,
    /// True if the request has `explain=1`, `now` or `visitor=1`, so that no cache may store the response.
    pub(super) is_inspected: bool,
    /// The members that few requests ask for. Boxed, so that the others do not copy them.
    extras: Option<Box<Extras>>,
}

/// The members that a request asks for with `explain=1` or `visitor=1`.
struct Extras {
    /// The members `decisions` and `visitor`.
    explanation: Option<(Json, Json)>,
    token: TokenAnswer,
}

/// Selects the variants of `variants`, or decides for the visitor.
///
/// # Errors
/// `invalid_variants`, `unknown_variant`, `invalid_anon_id`, `invalid_param`.
pub(super) fn select_variants<'a>(
    context: &RequestContext<'a>,
    page: &'a ArchivedPage,
    inspection: Inspection,
    scratch: &mut VisitorScratch,
) -> Result<Selection<'a>, Problem<'a>> {
    let Some(text) = context.params.get_even_if_empty(Param::Variants) else {
        return select_for_visitor(context, page, inspection, scratch);
    };
    let forced = parse_forced_variants(context, Param::Variants, text, page)?;
    let choice = decide::choose_forced(page, &forced);
    let explanation = inspection.explain.then(|| {
        with_visitor(context, inspection, scratch, |visitor, origin, buffers| {
            explain_choice(context, page, visitor, origin, &choice, &|_| true, buffers)
        })
    });
    let explanation = explanation.transpose()?;
    let is_inspected = inspection.is_requested();
    Ok(Selection {
        page,
        choice,
        is_decided: false,
        is_crawler: false,
        is_stale: false,
        forced: Some(forced),
        is_inspected,
        extras: explanation.map(|explanation| Extras::new(Some(explanation), TokenAnswer::NotRequested)),
    })
}

/// Decides for the visitor, except in the zones of `override`. Ignores `variants`.
///
/// # Errors
/// `invalid_variants`, `unknown_variant`, `invalid_anon_id`, `invalid_param`.
pub(super) fn select_for_visitor<'a>(
    context: &RequestContext<'a>,
    page: &'a ArchivedPage,
    inspection: Inspection,
    scratch: &mut VisitorScratch,
) -> Result<Selection<'a>, Problem<'a>> {
    context.params.flag(Param::Strict)?;
    // A match, because `transpose` copies the choice of all zones once more.
    let forced = match context.params.get(Param::Override) {
        Some(text) => Some(parse_forced_variants(context, Param::Override, text, page)?),
        None => None,
    };
    let decided = with_visitor(context, inspection, scratch, |visitor, origin, buffers| {
        let patterns = context.published.patterns();
        let choice = buffers.decide(context.site(), page, visitor, patterns, forced.as_ref());
        let is_forced =
            |zone: &ArchivedZone| forced.as_ref().is_some_and(|forced| forced.has_zone(&zone.name));
        let extras = (inspection.explain || inspection.token).then(|| {
            let explain = || explain_choice(context, page, visitor, origin, &choice, &is_forced, buffers);
            let explanation = inspection.explain.then(explain);
            let token =
                if inspection.token { seal_past(context, visitor) } else { TokenAnswer::NotRequested };
            Extras::new(explanation, token)
        });
        (choice, visitor.agent.is_crawler, visitor.is_stale, extras)
    });
    let (choice, is_crawler, is_stale, extras) = decided?;
    let is_inspected = inspection.is_requested() || inspection.token;
    Ok(Selection { page, choice, is_decided: true, is_crawler, is_stale, forced, is_inspected, extras })
}

impl Extras {
    #[cold]
    fn new(explanation: Option<(Json, Json)>, token: TokenAnswer) -> Box<Self> {
        Box::new(Self { explanation, token })
    }

    /// Appends `,"decisions":[...],"visitor":{...}` and `,"visitorToken":...`, as far as they were requested.
    #[cold]
    fn write(&self, out: &mut Vec<u8>) {
        if let Some((decisions, visitor)) = &self.explanation {
            out.extend_from_slice(b",\"decisions\":");
            out.extend_from_slice(decisions.to_string().as_bytes());
            out.extend_from_slice(b",\"visitor\":");
            out.extend_from_slice(visitor.to_string().as_bytes());
        }
        self.token.write_member(out);
    }
}

/// Calls `callback` with the visitor as the request and the profile describe it, now or at the time of `inspection`. For an
/// explanation on the admin address it also passes the origin of the recorded values.
fn with_visitor<'a, R>(
    context: &RequestContext<'a>,
    inspection: Inspection,
    scratch: &mut VisitorScratch,
    callback: impl FnOnce(&Visitor<'_>, Option<Box<Json>>, &mut DecisionBuffers) -> R,
) -> Result<R, Problem<'a>> {
    let VisitorScratch { user_agent_parser, user_agent_cache, decision_buffers, profiles, node_gate, cookie } =
        scratch;
    let ids = context.visitor_ids(cookie)?;
    let pinned = profiles.as_mut().map(ProfileReader::pin);
    // The profile is loaded into the cache while the request is read.
    let lookup = pinned.as_ref().zip(ids.lookup_id()).map(|(pinned, (id_kind, id))| {
        let key = pinned.key(&context.site().site, id_kind, id);
        pinned.prefetch_word(key);
        (pinned, key)
    });
    let agent =
        context.user_agent().map(|agent| user_agent_cache.get_or_parse_bytes(user_agent_parser, agent));
    if let Some((pinned, key)) = lookup {
        pinned.prefetch_record(key);
    }
    let mut visitor = context.visitor(ids, agent.unwrap_or_default(), inspection.now_ms);
    let last_context;
    let origin = if inspection.takes_recorded {
        last_context = lookup.and_then(|(pinned, key)| pinned.profile(key)?.last_context());
        last_context.as_ref().map(|last_context| take_recorded(context, last_context, &mut visitor))
    } else {
        None
    };
    visitor.is_stale = lookup.is_some() && node_gate.as_ref().is_some_and(|gate| !gate.decides());
    if visitor.is_stale && context.request.headers.has_preference(b"handling", b"strict") {
        let sentence =
            "This node lacks events of the visitor, and the request prefers no answer to a stale one.";
        return Err(Problem::new(problem::JOINING, sentence));
    }
    // A crawler gets the baseline, also with the ID of a visitor. Without a closure, the profile is decoded in its place.
    if let Some((pinned, key)) = lookup
        && !visitor.gets_baseline()
    {
        visitor.profile = pinned.profile(key);
    }
    Ok(callback(&visitor, origin, decision_buffers))
}

/// Returns the token of a visitor with an ID, unless it gets the baseline in any case.
#[cold]
fn seal_past(context: &RequestContext<'_>, visitor: &Visitor<'_>) -> TokenAnswer {
    let anon_id = visitor.anon_id.map(|id| (IdKind::Anon, id));
    let id = anon_id.or_else(|| visitor.user_id.map(|id| (IdKind::User, id)));
    match id.filter(|_| !visitor.gets_baseline()) {
        Some((id_kind, id)) => context.token_sealer.seal(context.published, id_kind, id, visitor.profile),
        None => TokenAnswer::Nothing,
    }
}

/// Replaces members of the visitor by recorded ones. Returns the origin of these.
#[cold]
fn take_recorded<'v>(
    context: &RequestContext<'_>,
    last_context: &'v LastContext,
    visitor: &mut Visitor<'v>,
) -> Box<Json> {
    let members = context.take_recorded(&last_context.values, visitor);
    Box::new(json!({ "at": time::to_text(last_context.at_ms), "members": members }))
}

fn explain_choice(
    context: &RequestContext<'_>,
    page: &ArchivedPage,
    visitor: &Visitor<'_>,
    recorded_origin: Option<Box<Json>>,
    choice: &Choice,
    is_forced: &dyn Fn(&ArchivedZone) -> bool,
    buffers: &mut DecisionBuffers,
) -> (Json, Json) {
    let patterns = context.published.patterns();
    let (mut decisions, mut document) =
        explain(buffers, context.site(), page, visitor, choice, is_forced, patterns);
    let hidden_traits = context.hidden_traits();
    hidden_traits.remove_from(&mut decisions);
    hidden_traits.remove_from(&mut document);
    if let Some(origin) = recorded_origin {
        document["recorded"] = *origin;
    }
    (decisions, document)
}

/// Parses the pairs `text` of the parameter `param`.
fn parse_forced_variants<'a>(
    context: &RequestContext<'a>,
    param: Param,
    text: &'a str,
    page: &ArchivedPage,
) -> Result<ForcedVariants<'a>, Problem<'a>> {
    let forced = ForcedVariants::parse(text, page).map_err(|reason| {
        let expected = match reason {
            VariantsError::Malformed => {
                "'zone:key' pairs joined by ',', each part 1 to 64 letters, digits, '_' or '-'"
            }
            VariantsError::DuplicateZone => "each zone at most once",
            VariantsError::TooManyPairs => "at most 64 pairs",
        };
        Problem::invalid_value(problem::INVALID_VARIANTS, expected, text).at(param.name())
    })?;
    if context.params.flag(Param::Strict)?
        && let Some(unknown) = forced.unknown(page).next()
    {
        let pair = text.split(',').find(|pair| pair.split_once(':') == Some(unknown)).unwrap_or(unknown.1);
        let problem = Problem::with_value(problem::UNKNOWN_VARIANT, "The route has no variant {}.", pair);
        return Err(problem.at(param.name()));
    }
    Ok(forced)
}

impl Selection<'_> {
    /// Returns whether the page lacks the zone or the key of a requested pair.
    pub(super) fn has_unknown_pairs(&self) -> bool {
        self.forced.as_ref().is_some_and(ForcedVariants::has_unknown)
    }

    fn unknown_pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let forced = self.forced.iter().filter(|forced| forced.has_unknown());
        forced.flat_map(|forced| forced.unknown(self.page))
    }

    /// Appends `"variants":...,"selected":{...}` and the members after it: `experiments_text`, warnings and the extras.
    /// Writes the canonical string to `canonical_variants`.
    pub(super) fn write_members(
        &self,
        canonical_variants: &mut Vec<u8>,
        experiments_text: &[u8],
        out: &mut Vec<u8>,
    ) {
        canonical_variants.clear();
        self.choice.write_canonical(self.page, canonical_variants);
        out.extend_from_slice(b"\"variants\":\"");
        out.extend_from_slice(canonical_variants);
        out.extend_from_slice(b"\",\"selected\":{");
        for (i, (_, variant)) in self.choice.selected(self.page).enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(variant.selected.as_bytes());
        }
        out.push(b'}');
        if self.is_decided {
            out.extend_from_slice(b",\"experiments\":\"");
            out.extend_from_slice(experiments_text);
            out.push(b'"');
        }
        self.write_warnings(out);
        if let Some(extras) = &self.extras {
            extras.write(out);
        }
    }

    fn write_warnings(&self, out: &mut Vec<u8>) {
        if !self.has_unknown_pairs() {
            return;
        }
        for (i, (zone, key)) in self.unknown_pairs().enumerate() {
            out.extend_from_slice(if i == 0 { b",\"warnings\":[" } else { b"," });
            // Zones and keys consist of letters, digits, '_' and '-', so they need no escapes.
            out.extend_from_slice(b"{\"code\":\"unknown_variant\",\"zone\":\"");
            out.extend_from_slice(zone.as_bytes());
            out.extend_from_slice(b"\",\"key\":\"");
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(b"\"}");
        }
        out.push(b']');
    }

    /// Sets `key` to that of the answer with this selection, or clears it if the answer depends on more than a key.
    /// `experiments_text` are empty if no rules decided.
    #[inline]
    pub(super) fn set_answer_key(
        &self,
        context: &RequestContext<'_>,
        kind: AnswerKind,
        route_index: u32,
        route: &ArchivedRoute,
        experiments_text: &[u8],
        key: &mut AnswerKey,
    ) {
        let has_key = !self.is_inspected
            && !self.is_stale
            && !self.has_unknown_pairs()
            && !route.is_pattern
            && self.page.embedded.is_empty();
        if !has_key {
            return key.clear();
        }
        let choice = self.choice.as_bytes(self.page);
        let hash = context.published.hash();
        key.set(kind, context.accepts_gzip(), &hash, route_index, choice, experiments_text);
    }

    /// Appends the parts of the selection that change the body to the input of the ETag. A NUL precedes the
    /// experiments, and no pair contains it.
    pub(super) fn write_etag_input(&self, experiments_text: &[u8], etag_input: &mut Vec<u8>) {
        etag_input.extend_from_slice(self.choice.as_bytes(self.page));
        for (zone, key) in self.unknown_pairs() {
            etag_input.extend_from_slice(zone.as_bytes());
            etag_input.push(b':');
            etag_input.extend_from_slice(key.as_bytes());
            etag_input.push(b',');
        }
        if self.is_decided {
            etag_input.push(0);
            etag_input.extend_from_slice(experiments_text);
        }
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
