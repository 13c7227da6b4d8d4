//! The comparison of two versions of a site: the changes of its experiments, its holdout, its zones and its audiences, which an author
//! reads before a publication.
//!
//! Input are the site that is served, the site that replaces it, and a time. [`super::catalog::phases`] has the rule by which a
//! change begins a phase. `crate::resolve::change_count` adds the numbers of visitors.

mod audiences;
pub(crate) mod conditions;
mod counts;
mod denied;
pub(crate) mod entries;
mod holdout;
mod known_visitors;
mod members;
mod render;
pub(crate) mod zones;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use self::audiences::AudienceChange;
use self::holdout::HoldoutChange;
pub(crate) use self::members::metrics_json;
use self::members::{METRICS, MemberChange, SiteExperiment};
use self::zones::ZoneChange;
use super::catalog::phases::Phase;
use super::snapshot::format::{ArchivedSite, Standing};
use crate::condition::OpenResult;

/// A kind of change of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// The older version does not have the experiment.
    New,
    /// The newer version does not have the experiment.
    Removed,
    /// The variants, weights, seed or holdout change, so a phase begins.
    NewPhase,
    /// The coverage changes. The phase goes on.
    Ramped,
    Namespace,
    /// The begin, the end or the winner changes.
    Rescheduled,
    /// The experiment runs, and had not started before.
    Started,
    /// The experiment has not started, and had before.
    Postponed,
    /// The experiment runs, and had ended before.
    Resumed,
    /// The experiment ended without a winner.
    Ended,
    /// The experiment ended with a winner, or has another winner.
    Decided,
    Metrics,
}

impl ChangeKind {
    /// Returns the name that the JSON document has.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Removed => "removed",
            Self::NewPhase => "new_phase",
            Self::Ramped => "ramped",
            Self::Namespace => "namespace",
            Self::Rescheduled => "rescheduled",
            Self::Started => "started",
            Self::Postponed => "postponed",
            Self::Resumed => "resumed",
            Self::Ended => "ended",
            Self::Decided => "decided",
            Self::Metrics => "metrics",
        }
    }
}

/// The standing of an experiment in one of the two versions.
#[derive(Debug, Clone, PartialEq)]
struct Side {
    standing: Standing,
    /// The arm that all visitors get, except those in the holdout of the site, if the experiment is decided.
    winner: Option<String>,
    /// True if the site has a holdout.
    has_site_holdout: bool,
    /// True if no new visitor takes part now.
    is_closed: bool,
    /// The time from which new visitors take part again, if the experiment is closed, in milliseconds since 1970.
    opens_ms: Option<i64>,
    /// The hash that the enrolments of this definition have.
    phase_hash: u32,
    /// The number of IDs with such an enrolment, if it was counted.
    enrolled_count: Option<u64>,
}

impl Side {
    fn new(version: SiteExperiment<'_>, now_ms: i64) -> Self {
        let SiteExperiment { site, experiment } = version;
        let standing = experiment.standing(now_ms);
        let winner = match standing {
            Standing::Decided(arm) => Some(experiment.arms[arm].as_str().to_owned()),
            Standing::NotStarted | Standing::Running | Standing::Ended => None,
        };
        let steps = experiment.coverages.iter().filter(|step| step.share.to_native() > 0.0);
        let mut opening = steps.map(|step| step.from_ms.to_native()).filter(|from_ms| *from_ms > now_ms);
        let is_closed = standing == Standing::Running && experiment.coverage(now_ms) == 0.0;
        Self {
            standing,
            winner,
            has_site_holdout: site.holdout.is_some(),
            is_closed,
            opens_ms: opening.next().filter(|_| is_closed),
            phase_hash: experiment.phase_hash.to_native(),
            enrolled_count: None,
        }
    }

    /// Returns the kind of change from this standing to that of the newer version.
    fn change(&self, newer: &Self) -> Option<ChangeKind> {
        // The index of the winner changes with the order of the arms.
        if self.standing.name() == newer.standing.name() && self.winner == newer.winner {
            return None;
        }
        Some(match newer.standing {
            Standing::NotStarted => ChangeKind::Postponed,
            Standing::Running if self.standing == Standing::NotStarted => ChangeKind::Started,
            Standing::Running => ChangeKind::Resumed,
            Standing::Ended => ChangeKind::Ended,
            Standing::Decided(_) => ChangeKind::Decided,
        })
    }
}

/// The change of one experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentChange {
    /// The key of the experiment.
    pub key: String,
    /// The kinds of change. Never empty.
    pub kinds: Vec<ChangeKind>,
    /// The members that differ. All members if only one version has the experiment.
    pub members: Vec<MemberChange>,
    /// The members by which a phase begins. Empty without [`ChangeKind::NewPhase`].
    pub phase_members: Vec<&'static str>,
    before: Option<Side>,
    after: Option<Side>,
}

impl ExperimentChange {
    /// Compares the two versions of an experiment. `None` if nothing changes.
    fn between(before: SiteExperiment<'_>, after: SiteExperiment<'_>, now_ms: i64) -> Option<Self> {
        let members = before.changes(after);
        let phase = |version: SiteExperiment<'_>| Phase::begin(version.experiment, now_ms);
        let phase_members = phase(before).members_of_new_phase(&phase(after));
        let differs = |names: &[&str]| members.iter().any(|change| names.contains(&change.member));
        let side = |version: SiteExperiment<'_>| Side::new(version, now_ms);
        let kinds = [
            (!phase_members.is_empty()).then_some(ChangeKind::NewPhase),
            differs(&["coverage"]).then_some(ChangeKind::Ramped),
            differs(&["namespace"]).then_some(ChangeKind::Namespace),
            differs(&["from", "to", "winner"]).then_some(ChangeKind::Rescheduled),
            side(before).change(&side(after)),
            differs(&METRICS).then_some(ChangeKind::Metrics),
        ];
        let kinds: Vec<ChangeKind> = kinds.into_iter().flatten().collect();
        (!kinds.is_empty()).then(|| Self {
            key: after.experiment.key.get().to_owned(),
            kinds,
            members,
            phase_members,
            before: Some(side(before)),
            after: Some(side(after)),
        })
    }

    fn new(after: SiteExperiment<'_>, now_ms: i64) -> Self {
        let change = |(member, value)| MemberChange { member, before: Json::Null, after: value };
        let side = Side::new(after, now_ms);
        let ended = match side.standing {
            Standing::NotStarted | Standing::Running => None,
            Standing::Ended => Some(ChangeKind::Ended),
            Standing::Decided(_) => Some(ChangeKind::Decided),
        };
        Self {
            key: after.experiment.key.get().to_owned(),
            kinds: std::iter::once(ChangeKind::New).chain(ended).collect(),
            members: after.members().into_iter().map(change).collect(),
            phase_members: Vec::new(),
            before: None,
            after: Some(side),
        }
    }

    fn removed(before: SiteExperiment<'_>, now_ms: i64) -> Self {
        let change = |(member, value)| MemberChange { member, before: value, after: Json::Null };
        Self {
            key: before.experiment.key.get().to_owned(),
            kinds: vec![ChangeKind::Removed],
            members: before.members().into_iter().map(change).collect(),
            phase_members: Vec::new(),
            before: Some(Side::new(before, now_ms)),
            after: None,
        }
    }
}

/// The differences between two versions of a site.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteComparison {
    /// The time at which the standings are compared, in milliseconds since 1970.
    pub now_ms: i64,
    /// The experiments that change, sorted by key.
    pub changes: Vec<ExperimentChange>,
    /// The number of experiments that do not change.
    pub unchanged_count: usize,
    /// The change of the site's holdout. `None` if it does not change.
    pub holdout: Option<HoldoutChange>,
    /// The zones that change, sorted by name. Empty if the site is new.
    pub zones: Vec<ZoneChange>,
    /// The audiences that change, sorted by key.
    pub audiences: Vec<AudienceChange>,
    /// The number of known visitors of the site, if they were counted.
    pub visitor_count: Option<u64>,
}

impl SiteComparison {
    /// Returns the number of warnings.
    pub(crate) fn warning_count(&self) -> usize {
        usize::from(self.holdout.as_ref().is_some_and(|change| change.warning().is_some()))
    }

    /// Returns the hashes of the phases of both versions, which their enrolments have.
    pub(crate) fn phase_hashes(&self) -> impl Iterator<Item = u32> {
        let sides = self.changes.iter().flat_map(|change| [&change.before, &change.after]);
        sides.flatten().map(|side| side.phase_hash)
    }

    /// Adds the numbers of enrolled IDs, by the hash of the phase.
    pub(crate) fn add_enrolments(&mut self, by_phase: &BTreeMap<u32, u64>) {
        let sides = self.changes.iter_mut().flat_map(|change| [&mut change.before, &mut change.after]);
        for side in sides.flatten() {
            side.enrolled_count = by_phase.get(&side.phase_hash).copied();
        }
    }

    /// Counts a known visitor with these results of the audiences of both versions. `zones` says for each changed zone whether the
    /// visitor gets another variant.
    pub(crate) fn add_visitor(&mut self, before: &[OpenResult], after: &[OpenResult], zones: &[OpenResult]) {
        *self.visitor_count.get_or_insert(0) += 1;
        self.audiences.iter_mut().for_each(|change| change.add_visitor(before, after));
        self.zones.iter_mut().zip(zones).for_each(|(change, result)| change.visitors.add(*result));
    }
}

/// Compares two versions of a site at a time. `before` is `None` if the site is new.
pub fn compare(before: Option<&ArchivedSite>, after: &ArchivedSite, now_ms: i64) -> SiteComparison {
    let older = before.map(by_key).unwrap_or_default();
    let newer = by_key(after);
    let keys: BTreeSet<&str> = older.keys().chain(newer.keys()).copied().collect();
    let key_count = keys.len();
    let changes = keys.into_iter().filter_map(|key| {
        let before = older.get(key).copied();
        let Some(after) = newer.get(key).copied() else {
            return before.map(|before| ExperimentChange::removed(before, now_ms));
        };
        match before {
            Some(before) => ExperimentChange::between(before, after, now_ms),
            None => Some(ExperimentChange::new(after, now_ms)),
        }
    });
    let changes: Vec<ExperimentChange> = changes.collect();
    SiteComparison {
        now_ms,
        unchanged_count: key_count - changes.len(),
        changes,
        holdout: HoldoutChange::between(before, after, now_ms),
        zones: before.map_or_else(Vec::new, |before| zones::find_changes(before, after, now_ms)),
        audiences: audiences::find_changes(before, after),
        visitor_count: None,
    }
}

fn by_key(site: &ArchivedSite) -> BTreeMap<&str, SiteExperiment<'_>> {
    let experiments = site.experiments.iter();
    experiments.map(|experiment| (experiment.key.get(), SiteExperiment { site, experiment })).collect()
}
