//! What a visitor is shown of a page, by force or by decision: what resolve and variants share, so
//! that they decide alike.

use serde_json::Value as Json;

use super::context::Call;
use super::handler::Room;
use crate::http::params::Param;
use crate::json;
use crate::problem::{self, Problem};
use crate::resolve::decide::Deciding;
use crate::resolve::explain::explain;
use crate::resolve::path::RoutePath;
use crate::resolve::variants::{Asked, Choice, NoVariants};
use crate::resolve::visitor_context::Visitor;
use crate::resolve::{decide, route};
use crate::site::snapshot::format::ArchivedPage;

/// A page, and what is shown of it.
pub(super) struct Shown<'a> {
    pub(super) page: &'a ArchivedPage,
    pub(super) choice: Choice,
    /// What `variants` asked for, where it was given.
    pub(super) asked: Option<Asked<'a>>,
    /// `decisions` and `visitor`, where `explain` asked why.
    pub(super) why: Option<(Json, Json)>,
}

/// Takes what `variants` asks for, or decides for the visitor.
pub(super) fn shown<'a>(
    call: &Call<'a>,
    page: &'a ArchivedPage,
    explain: bool,
    room: &mut Room,
) -> Result<Shown<'a>, Problem<'a>> {
    let Some(asked) = asked(call, page)? else {
        return decided(call, page, explain, room);
    };
    let choice = decide::forced(page, &asked);
    let why = explain.then(|| {
        seen(call, room, |visitor, deciding| ask_why(call, page, visitor, (&choice, true), deciding))
    });
    Ok(Shown { page, why: why.transpose()?, choice, asked: Some(asked) })
}

/// Decides for the visitor, whatever `variants` says.
pub(super) fn decided<'a>(
    call: &Call<'a>,
    page: &'a ArchivedPage,
    explain: bool,
    room: &mut Room,
) -> Result<Shown<'a>, Problem<'a>> {
    seen(call, room, |visitor, deciding| {
        let choice = deciding.decide(call.site(), page, visitor, call.published.patterns());
        let why = explain.then(|| ask_why(call, page, visitor, (&choice, false), deciding));
        Shown { page, choice, asked: None, why }
    })
}

/// Hands the visitor over, as the log and the request know it at this moment.
fn seen<'a, R>(
    call: &Call<'a>,
    room: &mut Room,
    then: impl FnOnce(&Visitor<'_>, &mut Deciding) -> R,
) -> Result<R, Problem<'a>> {
    let Room { agents, agent_table, deciding, visitors, .. } = room;
    let agent = call.user_agent().map(|agent| agent_table.facts(agents, agent));
    let visitor = call.visitor(agent.unwrap_or_default())?;
    // A crawler gets the baseline, whoever it says it is.
    let known = visitor.anon_id.filter(|_| !visitor.agent.crawler).zip(visitors.as_mut());
    Ok(match known {
        None => then(&visitor, deciding),
        Some((anon_id, visitors)) => {
            let pinned = visitors.pin();
            let profile = pinned.anonymous(&call.site().site, anon_id);
            then(&Visitor { profile, ..visitor }, deciding)
        }
    })
}

fn ask_why(
    call: &Call<'_>,
    page: &ArchivedPage,
    visitor: &Visitor<'_>,
    choice: (&Choice, bool),
    deciding: &mut Deciding,
) -> (Json, Json) {
    explain(deciding, call.site(), page, visitor, choice, call.published.patterns())
}

fn asked<'a>(call: &Call<'a>, page: &ArchivedPage) -> Result<Option<Asked<'a>>, Problem<'a>> {
    let Some(text) = call.params.sent(Param::Variants) else {
        return Ok(None);
    };
    let name = Param::Variants.name();
    let asked = Asked::read(text, page).map_err(|reason| {
        let expected = match reason {
            NoVariants::Malformed => {
                "'zone:key' pairs joined by ',', each part 1 to 64 letters, digits, '_' or '-'"
            }
            NoVariants::Doubled => "each zone at most once",
            NoVariants::TooMany => "at most 64 pairs",
        };
        Problem::new(problem::INVALID_VARIANTS, expected, text).at(name)
    })?;
    let strict = call.params.switch(Param::Strict)?;
    if strict && let Some((_, key)) = asked.unknown().next() {
        let expected = "zones and keys that the route has";
        return Err(Problem::new(problem::UNKNOWN_VARIANT, expected, key).at(name));
    }
    Ok(Some(asked))
}

impl Shown<'_> {
    /// Appends `,"decisions":[...],"visitor":{...}` where `explain` asked for them.
    pub(super) fn reasons(&self, out: &mut Vec<u8>) {
        if let Some((decisions, visitor)) = &self.why {
            out.extend_from_slice(b",\"decisions\":");
            out.extend_from_slice(decisions.to_string().as_bytes());
            out.extend_from_slice(b",\"visitor\":");
            out.extend_from_slice(visitor.to_string().as_bytes());
        }
    }

    /// Appends `"variants":...,"selected":{...}`, and leaves the canonical string in `canonical`.
    pub(super) fn selection(&self, canonical: &mut Vec<u8>, out: &mut Vec<u8>) {
        canonical.clear();
        self.choice.canonical(self.page, canonical);
        out.extend_from_slice(b"\"variants\":\"");
        out.extend_from_slice(canonical);
        out.extend_from_slice(b"\",\"selected\":{");
        for (i, (_, variant)) in self.choice.shown(self.page).enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(variant.selected.as_bytes());
        }
        out.push(b'}');
    }
}

/// Appends `"site":...,"route":...`.
pub(super) fn address(call: &Call<'_>, path: &RoutePath, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"site\":\"");
    out.extend_from_slice(call.site().site.as_bytes());
    out.extend_from_slice(b"\",\"route\":");
    json::string(out, path.text());
}

/// Appends the members of a pattern's `params`.
pub(super) fn params(pattern: &str, path: &RoutePath, out: &mut Vec<u8>) {
    for (i, (name, value)) in route::params(pattern, path).enumerate() {
        if i > 0 {
            out.push(b',');
        }
        json::string(out, name);
        out.push(b':');
        json::string(out, value);
    }
}
