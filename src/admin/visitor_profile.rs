//! The answer of `GET /visitors`: the profile of a visitor, its last context and its enrolments.

use serde_json::{Value as Json, json};

use super::visitors::VisitorQuery;
use crate::events::time;
use crate::log::Queue;
use crate::resolve::visitor_context::profile_json;
use crate::site::catalog::catalog::Catalog;
use crate::site::snapshot::format::ArchivedSite;
use crate::visitors::erasure::ClusterErasure;
use crate::visitors::lookup::ProfileReader;
use crate::visitors::profile::enrolments::{Enrolments, HOUR_MS};
use crate::visitors::profile::last_context::LastContext;
use crate::visitors::profile::profile::Profile;

/// Returns the profile of a visitor. The seq is read first, so the profile is of that seq or a later one.
/// With a cluster this holds for the position in the stream, and the seq is that of the own log.
pub(super) fn visitor_json(
    profiles: &mut ProfileReader,
    queue: &Queue,
    cluster: Option<&dyn ClusterErasure>,
    catalog: &Catalog,
    query: &VisitorQuery<'_>,
) -> Json {
    let seq = queue.metrics().last_seq();
    let position = cluster.map(ClusterErasure::position);
    let visitors = profiles.pin();
    let profile = query.find_profile(&visitors);
    let aliases: Vec<&str> = profile.iter().flat_map(Profile::anon_ids).collect();
    let document = profile_json(profile, profile.map_or(0, |profile| profile.visits()));
    let context = profile.and_then(|profile| profile.last_context()).map(|context| context_json(&context));
    let mut body = json!({ "site": query.site, "known": profile.is_some(), "aliases": aliases, "seq": seq.to_string(),
        "context": context, "profile": document,
        "enrolments": enrolments_json(profile.as_ref(), catalog.by_site_id(query.site).map(|snapshot| snapshot.site())) });
    if let Some(position) = position {
        body["position"] = json!(position.to_string());
    }
    body
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
