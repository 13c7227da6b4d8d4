//! The answer of `GET /visitors`: the profile of a visitor, its last context and its enrolments.

use serde_json::{Value as Json, json};

use crate::events::time;
use crate::resolve::visitor_context::profile_json;
use crate::site::snapshot::format::ArchivedSite;
use crate::visitors::profile::enrolments::{Enrolments, HOUR_MS};
use crate::visitors::profile::last_context::LastContext;
use crate::visitors::profile::profile::Profile;

/// Returns the profile of a visitor at a seq. `site` is the served version.
pub(super) fn visitor_json(
    site_id: &str,
    profile: Option<Profile<'_>>,
    seq: u64,
    site: Option<&ArchivedSite>,
) -> Json {
    let aliases: Vec<&str> = profile.iter().flat_map(Profile::anon_ids).collect();
    let document = profile_json(profile, profile.map_or(0, |profile| profile.visits()));
    let context = profile.and_then(|profile| profile.last_context()).map(|context| context_json(&context));
    json!({ "site": site_id, "known": profile.is_some(), "aliases": aliases, "seq": seq.to_string(),
        "context": context, "profile": document, "enrolments": enrolments_json(profile.as_ref(), site) })
}

/// Returns the enrolments of the ID that the request names. `experiment` is null if the served site does not have the phase.
fn enrolments_json(profile: Option<&Profile<'_>>, site: Option<&ArchivedSite>) -> Json {
    let enrolments = profile.map_or(Enrolments::NONE, Profile::enrolments);
    let key_of = |hash: u32| {
        let mut experiments = site.into_iter().flat_map(|site| site.experiments.iter());
        experiments.find(|experiment| experiment.phase_hash.to_native() == hash).map(|one| one.key.get())
    };
    let enrolment = |(hash, hour): (u32, u32)| {
        let exposed_ms = i64::from(hour) * HOUR_MS;
        json!({ "experiment": key_of(hash), "phase": format!("{hash:08x}"), "lastExposure": time::to_text(exposed_ms) })
    };
    enrolments.iter().map(enrolment).collect()
}

fn context_json(last_context: &LastContext) -> Json {
    let agent = last_context.values.agent();
    let country = last_context.values.country();
    json!({
        "at": time::to_text(last_context.at_ms), "device": agent.device.name(), "os": agent.os.name(),
        "browser": agent.browser.name(), "country": country.as_ref().and_then(|code| str::from_utf8(code).ok()),
        "language": last_context.values.language(),
    })
}
