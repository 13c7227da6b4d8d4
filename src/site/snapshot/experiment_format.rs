//! The part of the snapshot format that describes experiments: their arms, their weights and the metrics of
//! their results.

use rkyv::{Archive, Serialize};

use super::format::{ArchivedRule, ArchivedSite, ArchivedZone};
use crate::checksum::hash128;
use crate::condition;
use crate::site::goals::SiteGoals;
use crate::varint::put_sized;

/// An experiment. It is the same in every zone that uses it.
#[derive(Debug, Archive, Serialize)]
pub struct Experiment {
    /// The key that rules refer to.
    pub key: Box<str>,
    /// Hashed with the anon ID: the authored seed, or the key if there is none.
    pub seed: String,
    /// The [`crate::condition::seed_hash`] of the seed.
    pub seed_hash: u32,
    /// The variant key of each arm.
    pub arms: Vec<String>,
    /// The share of each arm in the visitors that take part. A decision calculates the ranges of [0, 1) from the weights
    /// and the coverage.
    pub weights: Vec<f64>,
    /// The shares of new visitors that take part, sorted by time, at least one. Before the first one no new visitor takes part.
    pub coverages: Vec<CoverageStep>,
    /// The time before which the rule does not match, in milliseconds since 1970.
    pub from_ms: Option<i64>,
    /// The time from which the rule shows the winner, or does not match.
    pub to_ms: Option<i64>,
    /// The index of the arm that all visitors get from `to_ms` on.
    pub winner: Option<u8>,
    /// The part of a namespace that the experiment has.
    pub namespace: Option<NamespaceShare>,
    /// Fraction of all visitors that are held out. 0 for none.
    pub holdout: f64,
    /// The [`phase_hash`] of the experiment. An enrolment names it.
    pub phase_hash: u32,
    /// The metrics of its result.
    pub metrics: Metrics,
}

/// A share of new visitors, and the time from which it applies.
#[derive(Debug, Clone, Copy, PartialEq, Archive, Serialize)]
pub struct CoverageStep {
    /// In milliseconds since 1970. The smallest `i64` for a coverage without a time.
    pub from_ms: i64,
    /// From 0 to 1.
    pub share: f64,
}

/// The standing of an experiment at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    NotStarted,
    Running,
    /// Ended without a winner.
    Ended,
    /// Ended with the arm that has this index.
    Decided(usize),
}

impl Standing {
    /// Returns the standing of an experiment with this begin, this end and the arm with this index as winner.
    pub(crate) fn at(now_ms: i64, from_ms: Option<i64>, to_ms: Option<i64>, winner: Option<usize>) -> Self {
        if from_ms.is_some_and(|from_ms| now_ms < from_ms) {
            return Self::NotStarted;
        }
        if to_ms.is_none_or(|to_ms| now_ms < to_ms) {
            return Self::Running;
        }
        winner.map_or(Self::Ended, Self::Decided)
    }

    /// Returns the name that answers have.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NotStarted => "not_started",
            Self::Running => "running",
            Self::Ended => "ended",
            Self::Decided(_) => "decided",
        }
    }
}

impl ArchivedExperiment {
    pub(crate) fn standing(&self, now_ms: i64) -> Standing {
        let from_ms = self.from_ms.as_ref().map(|from_ms| from_ms.to_native());
        let to_ms = self.to_ms.as_ref().map(|to_ms| to_ms.to_native());
        Standing::at(now_ms, from_ms, to_ms, self.winner.as_ref().map(|arm| usize::from(*arm)))
    }

    /// Returns the share of new visitors that take part.
    pub(crate) fn coverage(&self, now_ms: i64) -> f64 {
        let step = self.coverages.iter().rfind(|step| step.from_ms.to_native() <= now_ms);
        step.map_or(0.0, |step| step.share.to_native())
    }
}

/// The metrics of an experiment, as authored. They change no decision. [`crate::site::experiment_metrics`]
/// has the syntax.
#[derive(Debug, Clone, Default, PartialEq, Archive, Serialize)]
pub struct Metrics {
    /// The key of a goal of the site, an event name, or `page:` and a path.
    pub goal: Option<String>,
    /// The path of the property of the goal's events that is added up. Only with an event as goal.
    pub value: Option<String>,
    /// The path of the property with the currency of the value.
    pub currency: Option<String>,
    /// The limit of the value of one visitor: an amount, a quantile such as `p99`, or `none`. `None` for the default.
    pub cap: Option<String>,
    /// The goals that must not get worse, at most 16.
    pub guardrails: Vec<Guardrail>,
    /// The planned number of visitors of two compared arms together.
    pub planned: Option<u64>,
    /// The time after the first exposure in which a goal counts. `None` for no limit.
    pub window: Option<String>,
    /// The names of the dimensions by which the result is divided too, at most 4.
    pub segments: Vec<String>,
}

/// A goal that must not get worse.
#[derive(Debug, Clone, PartialEq, Archive, Serialize)]
pub struct Guardrail {
    /// An event name, or `page:` and a path.
    pub goal: String,
    /// The largest tolerated loss, as a positive fraction of the baseline.
    pub margin: f64,
    /// True if fewer visitors that reach the goal are better.
    pub lower_is_better: bool,
}

/// A half-open range of numbers.
#[derive(Debug, Clone, Copy, Archive, Serialize)]
pub struct Range {
    /// First value inside the range.
    pub from: f64,
    /// First value after the range.
    pub to: f64,
}

/// A split of the visitors among experiments that must not overlap.
#[derive(Debug, Archive, Serialize)]
pub struct Namespace {
    /// Hashed with the anon ID.
    pub name: String,
    /// The phase hashes of its experiments, sorted. A visitor that is enrolled in one of them does not get into another one.
    pub phase_hashes: Vec<u32>,
}

/// The part of a namespace that an experiment has.
#[derive(Debug, Archive, Serialize)]
pub struct NamespaceShare {
    /// The index of the namespace in the site.
    pub namespace: u16,
    /// The experiment's range of [0, 1).
    pub range: Range,
}

/// The goals of a site, the properties of its breakdowns, and the rule that credits their conversions to visits.
#[derive(Debug, Archive, Serialize)]
pub struct Goals {
    /// The goals as JSON. `SiteGoals` reads it.
    pub list: String,
    /// The properties of events that column files keep for breakdowns, sorted. Each one is the path below `properties`.
    pub properties: Vec<String>,
    /// The longest time between a visit and a conversion that is credited to it, in milliseconds.
    pub attribution_window_ms: i64,
    /// True if conversions are credited to the first visit with a source, and not to the last.
    pub attributes_first: bool,
}

impl ArchivedSite {
    /// Returns the goals, and the properties of breakdowns. The verification of the snapshot has parsed them before.
    pub(crate) fn site_goals(&self) -> SiteGoals {
        let properties = self.goals.properties.iter().map(|name| name.as_str());
        SiteGoals::parse(&self.site, &self.goals.list, properties).unwrap_or_default()
    }
}

/// The holdout of a site: the visitors that see no experiment, so that the effect of all experiments together can be
/// measured.
#[derive(Debug, Archive, Serialize)]
pub struct SiteHoldout {
    /// Fraction of all visitors that are held out.
    pub share: f64,
    /// The authored seed, or the site ID if there is none.
    pub seed: String,
    /// The [`SiteHoldout::seed_hash`] of the seed.
    pub seed_hash: u32,
    /// True if no rule at all applies to a held-out visitor.
    pub covers_rules: bool,
}

impl SiteHoldout {
    /// Returns the hash of a seed. The text before the seed keeps the visitors apart from those of an experiment with the same
    /// seed.
    pub(crate) fn seed_hash(seed: &str) -> u32 {
        condition::seed_hash(&format!("site-holdout:{seed}"))
    }
}

impl ArchivedSiteHoldout {
    /// Returns whether the rules of a zone do not apply to held-out visitors.
    pub(crate) fn concerns(&self, zone: &ArchivedZone) -> bool {
        let is_experiment = |rule: &ArchivedRule| matches!(rule, ArchivedRule::Experiment { .. });
        zone.rules.iter().any(|rule| self.covers_rules || is_experiment(rule))
    }

    /// Returns whether an ID is held out.
    pub(crate) fn holds_out(&self, id: &str) -> bool {
        condition::hash_after_seed(self.seed_hash.to_native(), id) < self.share.to_native()
    }
}

/// Returns a hash of all that decides the arm of an ID in an experiment, except the coverage and the namespace. Visitors with
/// the same hash keep their arms.
pub fn phase_hash<'a>(
    key: &str,
    seed: &str,
    arms: impl Iterator<Item = (&'a str, f64)>,
    holdout: f64,
) -> u32 {
    let mut input = Vec::new();
    put_sized(&mut input, key.as_bytes());
    put_sized(&mut input, seed.as_bytes());
    input.extend(holdout.to_le_bytes());
    for (arm, weight) in arms {
        put_sized(&mut input, arm.as_bytes());
        input.extend(weight.to_le_bytes());
    }
    hash128(&input) as u32
}
