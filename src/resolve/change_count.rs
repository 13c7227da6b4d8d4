//! Counts the enrolled IDs and the known visitors that a publication concerns, over the table of profiles.

use super::audience_results::{OpenResults, open_results};
use super::open_decision::{OpenConditions, OpenVisitor, OpenZone, differ};
use crate::condition::OpenResult;
use crate::record::IdKind;
use crate::site::comparison::SiteComparison;
use crate::site::snapshot::open::Snapshot;
use crate::url::PageUrl;
use crate::visitors::enrolment_counts::EnrolmentCounts;
use crate::visitors::lookup::PinnedProfiles;
use crate::visitors::profile::enrolments::Enrolments;
use crate::visitors::profile::profile::Profile;

/// A count of a publication.
pub(crate) struct ChangeCount<'s> {
    /// The site ID.
    site: &'s str,
    before: Option<CountedVersion<'s>>,
    after: CountedVersion<'s>,
    comparison: SiteComparison,
    enrolments: EnrolmentCounts,
    url: PageUrl,
}

/// A version of the site, with the zones that differ.
struct CountedVersion<'s> {
    snapshot: &'s Snapshot,
    conditions: OpenConditions<'s>,
    /// In the order of the comparison. `None` if [`ZoneChange`](crate::site::comparison::zones::ZoneChange) has none.
    zones: Vec<Option<OpenZone<'s>>>,
}

impl<'s> ChangeCount<'s> {
    /// Creates a count for a comparison of two versions of a site. `before` is `None` if the site is new.
    pub(crate) fn new(
        before: Option<&'s Snapshot>,
        after: &'s Snapshot,
        mut comparison: SiteComparison,
    ) -> Self {
        comparison.visitor_count = Some(0);
        let before = before.map(|snapshot| {
            let mut conditions = OpenConditions::new(snapshot.site());
            let zones = comparison.zones.iter().map(|zone| Some(conditions.add_zone(zone.before?)));
            CountedVersion { zones: zones.collect(), snapshot, conditions }
        });
        let mut conditions = OpenConditions::new(after.site());
        let zones = comparison.zones.iter().map(|zone| Some(conditions.add_zone(zone.after?)));
        let zones = zones.collect();
        let site = after.site().site.get();
        let enrolments = EnrolmentCounts::new(site, comparison.phase_hashes());
        let after = CountedVersion { snapshot: after, conditions, zones };
        Self { site, before, after, comparison, enrolments, url: PageUrl::new() }
    }

    /// Counts a shard of the table. Returns the number of its entries, or `None` after the last shard.
    pub(crate) fn add_shard(&mut self, profiles: &PinnedProfiles<'_>, shard_index: usize) -> Option<usize> {
        self.enrolments.add_shard(profiles, shard_index)?;
        profiles.visit_shard(shard_index, &mut |profile| {
            if profile.site() == self.site {
                self.add_visitor(profiles, profile);
            }
        })
    }

    /// Returns the comparison with the numbers.
    pub(crate) fn finish(mut self) -> SiteComparison {
        self.comparison.add_enrolments(self.enrolments.by_phase());
        self.comparison
    }

    fn add_visitor(&mut self, profiles: &PinnedProfiles<'_>, profile: &Profile<'_>) {
        let Self { site, before, after, comparison, url, .. } = self;
        if comparison.zones.is_empty() && comparison.audiences.is_empty() {
            return comparison.add_visitor(&[], &[], &[]);
        }
        let now_ms = comparison.now_ms;
        let results = |version: &CountedVersion<'_>| {
            open_results(version.snapshot, profile, url, now_ms, &version.conditions.programs)
        };
        let newer = VersionResults { version: after, results: results(after) };
        let Some(before) = before else {
            return comparison.add_visitor(&[], &newer.results.audiences, &[]);
        };
        let older = VersionResults { version: before, results: results(before) };
        let mut changes = ZoneResults(vec![None; comparison.zones.len()]);
        for (id_kind, id) in ids_of(profile) {
            let found = profiles.find(site, id_kind, id);
            let enrolments = found.map_or(Enrolments::NONE, |profile| profile.enrolments());
            changes.add_id(
                &older.visitor(id, enrolments, now_ms),
                &newer.visitor(id, enrolments, now_ms),
                &before.zones,
                &after.zones,
            );
        }
        let zones: Vec<OpenResult> =
            changes.0.into_iter().map(|change| change.unwrap_or(OpenResult::No)).collect();
        comparison.add_visitor(&older.results.audiences, &newer.results.audiences, &zones);
    }
}

/// A version with the results of its conditions for one visitor.
struct VersionResults<'v, 's> {
    version: &'v CountedVersion<'s>,
    results: OpenResults,
}

impl VersionResults<'_, '_> {
    fn visitor<'a>(&'a self, id: &'a str, enrolments: Enrolments<'a>, now_ms: i64) -> OpenVisitor<'a> {
        OpenVisitor::new(&self.version.conditions, &self.results.conditions, id, enrolments, now_ms)
    }
}

/// For each zone that differs whether a visitor gets another variant, with every ID so far. `None` before the first ID.
struct ZoneResults(Vec<Option<OpenResult>>);

impl ZoneResults {
    /// Adds an ID of the visitor. A visitor whose IDs have different results may get another variant.
    fn add_id(
        &mut self,
        older: &OpenVisitor<'_>,
        newer: &OpenVisitor<'_>,
        older_zones: &[Option<OpenZone<'_>>],
        newer_zones: &[Option<OpenZone<'_>>],
    ) {
        for (index, result) in self.0.iter_mut().enumerate() {
            let [before, after] = [&older_zones[index], &newer_zones[index]];
            let older_decisions = match before {
                Some(zone) => older.decide(zone),
                None => after.as_ref().map(|zone| vec![zone.decision_without_zone()]),
            };
            let newer_decisions = match after {
                Some(zone) => newer.decide(zone),
                None => before.as_ref().map(|zone| vec![zone.decision_without_zone()]),
            };
            let change = older_decisions.zip(newer_decisions).map(|(older, newer)| differ(&older, &newer));
            let change = change.unwrap_or(OpenResult::Open);
            *result = Some(match *result {
                Some(earlier) if earlier != change => OpenResult::Open,
                _ => change,
            });
        }
    }
}

/// Returns the IDs by which a request can name a visitor.
fn ids_of<'a>(profile: &Profile<'a>) -> impl Iterator<Item = (IdKind, &'a str)> {
    let anon_ids = profile.anon_ids().map(|id| (IdKind::Anon, id));
    anon_ids.chain(profile.user_id().map(|id| (IdKind::User, id)))
}
