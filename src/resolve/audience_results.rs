//! The audiences of a known visitor without a request, and further conditions.
//!
//! Device, country and language are those of the visitor's last context. The fields of a request, such as the URL, are open.

use super::decide::SiteAudiences;
use super::visitor_context::{Visitor, VisitorContext, is_of_request};
use crate::condition::program::ArchivedProgram;
use crate::condition::{AudienceResults, Evaluator, Memo, OpenResult};
use crate::record::RecordContext;
use crate::site::snapshot::open::Snapshot;
use crate::url::PageUrl;
use crate::visitors::profile::profile::Profile;

/// The results of conditions for one visitor.
pub(crate) struct OpenResults {
    /// By the index of the audience.
    pub(crate) audiences: Vec<OpenResult>,
    /// The results of further conditions, in their order.
    pub(crate) conditions: Vec<OpenResult>,
}

/// Returns for each audience of a site whether the visitor with this profile belongs to it at a time. `url` is empty.
pub(crate) fn audience_results(
    snapshot: &Snapshot,
    profile: &Profile<'_>,
    url: &PageUrl,
    now_ms: i64,
) -> Vec<OpenResult> {
    open_results(snapshot, profile, url, now_ms, &[]).audiences
}

/// Returns the results of the audiences of a site, and those of further conditions of it. `url` is empty.
pub(crate) fn open_results(
    snapshot: &Snapshot,
    profile: &Profile<'_>,
    url: &PageUrl,
    now_ms: i64,
    conditions: &[&ArchivedProgram],
) -> OpenResults {
    let site = snapshot.site();
    let values = profile.last_context().map(|context| context.values);
    let visitor = Visitor {
        anon_id: None,
        user_id: None,
        is_user_unverified: false,
        profile: Some(*profile),
        agent: values.map(RecordContext::agent).unwrap_or_default(),
        locale: values.as_ref().and_then(RecordContext::language).map(str::as_bytes),
        country: values.and_then(RecordContext::country),
        url: None,
        referrer: None,
        now_ms,
        is_present: false,
        is_stale: false,
    };
    let document = VisitorContext::new(site, &visitor, url);
    let audiences = SiteAudiences(&site.audiences);
    let mut memo = Memo::default();
    let mut evaluator = Evaluator {
        document: &document,
        audiences: &audiences,
        patterns: snapshot.patterns(),
        params: &[],
        memo: &mut memo,
    };
    let is_open = |code| is_of_request(code, profile);
    let mut known: AudienceResults = vec![None; site.audiences.len()];
    for (index, audience) in site.audiences.iter().enumerate() {
        if known[index].is_none() {
            let result = evaluator.holds_while_open(&audience.condition.program, &is_open, &mut known);
            known[index] = Some(result);
        }
    }
    let conditions =
        conditions.iter().map(|program| evaluator.holds_while_open(program, &is_open, &mut known)).collect();
    let audiences = known.into_iter().map(|result| result.unwrap_or(OpenResult::Open)).collect();
    OpenResults { audiences, conditions }
}
