//! The changes of audiences, and the known visitors who enter or leave one.

use std::collections::{BTreeMap, BTreeSet};

use super::conditions::ConditionIdentities;
use super::known_visitors::{PartChangeKind, VisitorRange};
use crate::condition::OpenResult;
use crate::site::snapshot::format::ArchivedSite;

/// The change of one audience.
#[derive(Debug, Clone, PartialEq)]
pub struct AudienceChange {
    /// The key of the audience.
    pub key: String,
    pub kind: PartChangeKind,
    /// The index in the older site.
    before: Option<usize>,
    /// The index in the newer site.
    after: Option<usize>,
    /// The known visitors who enter or leave it.
    pub(super) visitors: VisitorRange,
}

impl AudienceChange {
    /// Counts a known visitor with these results of the audiences of both sites.
    pub(super) fn add_visitor(&mut self, before: &[OpenResult], after: &[OpenResult]) {
        let result = |index: Option<usize>, results: &[OpenResult]| {
            index.and_then(|index| results.get(index)).copied().unwrap_or(OpenResult::No)
        };
        let results = [result(self.before, before), result(self.after, after)];
        self.visitors.add(match results.contains(&OpenResult::Open) {
            true => OpenResult::Open,
            false => (results[0] != results[1]).into(),
        });
    }
}

/// Returns the audiences that differ, sorted by key. The older site is `None` if the newer one is its first version.
pub(super) fn find_changes(before: Option<&ArchivedSite>, after: &ArchivedSite) -> Vec<AudienceChange> {
    let older = before.map(by_key).unwrap_or_default();
    let newer = by_key(after);
    let older_conditions = before.map(ConditionIdentities::new);
    let newer_conditions = ConditionIdentities::new(after);
    let keys: BTreeSet<&str> = older.keys().chain(newer.keys()).copied().collect();
    let changes = keys.into_iter().filter_map(|key| {
        let [before_index, after_index] = [&older, &newer].map(|indexes| indexes.get(key).copied());
        let before_identity =
            before_index.zip(older_conditions.as_ref()).map(|(index, older)| older.of_audience(index));
        if before_identity.is_some()
            && before_identity == after_index.map(|index| newer_conditions.of_audience(index))
        {
            return None;
        }
        let kind = match before_index {
            None => PartChangeKind::New,
            Some(_) if after_index.is_none() => PartChangeKind::Removed,
            Some(_) => PartChangeKind::Changed,
        };
        let key = key.to_owned();
        Some(AudienceChange {
            key,
            kind,
            before: before_index,
            after: after_index,
            visitors: VisitorRange::default(),
        })
    });
    changes.collect()
}

fn by_key(site: &ArchivedSite) -> BTreeMap<&str, usize> {
    site.audiences.iter().enumerate().map(|(index, audience)| (audience.key.as_str(), index)).collect()
}
