//! Reads the events of the visitors that a search has found.

use super::count::{Candidate, ListedVisitor, listed};
use super::latest::{Activity, activity_of};
use super::question::VisitorsQuestion;
use super::records::RecordedRow;
use super::search::{FoundVisitor, FoundVisitors};
use super::values::VisitorReader;
use crate::insights::columns::key::VisitorKey;
use crate::insights::columns::reader::Columns;
use crate::insights::questions::credits::RowLocation;
use crate::insights::questions::limits::{Limits, ScanError};
use crate::insights::questions::plan::Plan;
use crate::insights::questions::scan::ScanSummary;
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::values::NO_VALUE;

/// A row of the result of a search.
pub(super) struct FoundRow {
    /// The IDs of the row.
    pub ids: RecordedRow,
    /// `None` if the log has no event of the visitor.
    pub listed: Option<ListedVisitor>,
}

/// An ID of a found visitor.
struct FoundId {
    hash: u64,
    /// The index of the visitor.
    owner: usize,
    /// `None` for a user ID.
    anon_id: Option<String>,
}

/// The events of a found visitor.
struct FoundActivity {
    latest: Candidate,
    first_ms: i64,
    last_ms: i64,
    views: u64,
    events: u64,
}

impl FoundActivity {
    fn add(activity: &mut Option<Self>, candidate: Candidate) {
        let Activity { first_ms, last_ms, views, events, .. } = candidate.activity;
        match activity {
            None => *activity = Some(Self { latest: candidate, first_ms, last_ms, views, events }),
            Some(found) => {
                found.first_ms = found.first_ms.min(first_ms);
                found.last_ms = found.last_ms.max(last_ms);
                found.views += views;
                found.events += events;
                if candidate > found.latest {
                    found.latest = candidate;
                }
            }
        }
    }

    /// Returns the candidate of the latest event, with the sums of all events.
    fn into_candidate(self) -> Candidate {
        let Self { latest, first_ms, last_ms, views, events } = self;
        let activity = Activity { first_ms, last_ms, views, events, ..latest.activity };
        Candidate { activity, ..latest }
    }
}

/// Reads the events of found visitors. The rows have the order of the list. Those without an event are the last ones.
///
/// # Errors
/// Returns an error if a file is damaged, or if the question takes too much time or memory.
pub(super) fn count_found(
    files: &[&Columns],
    question: &VisitorsQuestion,
    found_visitors: &FoundVisitors,
    key: VisitorKey,
    site: &SiteFacts,
    limits: &Limits<'_>,
) -> Result<Vec<FoundRow>, ScanError> {
    let ids = ids_of(found_visitors, key, &site.site);
    let hashes: Vec<u64> = ids.iter().map(|id| id.hash).collect();
    let mut activities: Vec<Option<FoundActivity>> = found_visitors.visitors.iter().map(|_| None).collect();
    let plan = Plan { locates: true, ..question.plan(site, None) };
    let reader = VisitorReader { files, plan: &plan, limits };
    reader.read(&hashes, &mut ScanSummary::default(), &mut |hash, rows, _| {
        let activity = activity_of(rows, question, None, NO_VALUE);
        let owner = hashes.binary_search(&hash).ok().map(|index| ids[index].owner);
        if let Some((activity, owner)) = activity.zip(owner) {
            let row = activity.latest.row;
            let location = RowLocation { file: row.value, position: row.order };
            FoundActivity::add(&mut activities[owner], Candidate::new(files, hash, location, activity));
        }
    })?;
    let mut rows = Vec::new();
    let mut candidates = Vec::new();
    for (visitor, activity) in found_visitors.visitors.iter().zip(activities) {
        let candidate = activity.map(FoundActivity::into_candidate);
        let latest = candidate.as_ref().and_then(|candidate| hashes.binary_search(&candidate.hash).ok());
        let anon_id = latest.and_then(|index| ids[index].anon_id.clone());
        let anon_id = anon_id.or_else(|| visitor.anon_ids.last().cloned());
        let ids = RecordedRow { anon_id, user_id: visitor.user_id.clone(), ..RecordedRow::default() };
        rows.push((candidate.as_ref().map(Candidate::rank), FoundRow { ids, listed: None }));
        candidates.extend(candidate);
    }
    candidates.sort_unstable_by(|a, b| b.cmp(a));
    rows.sort_by(|(a, row), (b, other)| b.cmp(a).then_with(|| row.ids.ids().cmp(&other.ids.ids())));
    let listed = listed(files, question, site, None, limits, candidates)?;
    let mut rows: Vec<FoundRow> = rows.into_iter().map(|(_, row)| row).collect();
    rows.iter_mut().zip(listed).for_each(|(row, listed)| row.listed = Some(listed));
    Ok(rows)
}

/// Returns the IDs of the visitors, sorted by their hashes.
fn ids_of(found_visitors: &FoundVisitors, key: VisitorKey, site: &str) -> Vec<FoundId> {
    let mut ids = Vec::new();
    for (owner, FoundVisitor { anon_ids, user_id }) in found_visitors.visitors.iter().enumerate() {
        let anonymous = anon_ids.iter().map(|id| (key.hash(site, b'a', id), Some(id.clone())));
        let user = user_id.iter().map(|id| (key.hash(site, b'u', id), None));
        ids.extend(anonymous.chain(user).map(|(hash, anon_id)| FoundId { hash, owner, anon_id }));
    }
    ids.sort_by_key(|id| id.hash);
    ids.dedup_by_key(|id| id.hash);
    ids
}
