//! The phases of experiments: the arms, bucket ranges and seed of each, and the time when the server first served them.
//!
//! A change of one of these begins a phase, because it moves visitors to another arm. A result covers one
//! phase. Input are the served snapshots, in the order of their publications. [`super::phases_file`] keeps
//! the phases in the data directory. Previews have none.

use std::collections::{BTreeMap, BTreeSet};

use super::super::snapshot::format::{ArchivedExperiment, ArchivedSite};
use crate::condition;
use crate::limits::{PHASES_BYTES_MAX, PHASES_KEPT_MAX, PHASES_MAX};

/// An arm of a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseArm {
    /// The key of its variant.
    pub key: String,
    /// The start and the end of its range of visitors, from 0 to 1.
    pub range: (f64, f64),
}

impl PhaseArm {
    /// Returns the share of all visitors that see the arm.
    pub(crate) fn length(&self) -> f64 {
        self.range.1 - self.range.0
    }
}

/// A time in which the arms, the ranges and the seed of an experiment did not change.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// The time when the server first served it, in milliseconds since 1970.
    pub from_ms: i64,
    /// The arms in the authored order.
    pub arms: Vec<PhaseArm>,
    /// The seed that is hashed with the visitor's ID.
    pub seed: String,
}

impl Phase {
    /// Returns the phase that begins with this definition. `None` for a forged one with a malformed range.
    pub(crate) fn begin(experiment: &ArchivedExperiment, from_ms: i64) -> Option<Self> {
        let arms = experiment.arms.iter().zip(experiment.ranges.iter()).map(|(key, range)| {
            let range = (range.from.to_native(), range.to.to_native());
            is_range(range.0, range.1).then(|| PhaseArm { key: key.as_str().to_owned(), range })
        });
        let arms = arms.collect::<Option<Vec<_>>>()?;
        Some(Self { from_ms, arms, seed: experiment.seed.as_str().to_owned() })
    }

    fn has_same_definition(&self, other: &Self) -> bool {
        self.arms == other.arms && self.seed == other.seed
    }

    /// Returns the share of visitors that take part, as authored.
    pub fn coverage(&self) -> f64 {
        self.shares().1
    }

    /// Returns the share of each arm in the visitors that take part, as authored. All are 0 if nobody takes part.
    pub fn weights(&self) -> impl Iterator<Item = f64> {
        self.shares().0.into_iter()
    }

    /// Returns the weights and the coverage. For ranges that no authored numbers give, such as those of a forged
    /// snapshot, they are calculated from the lengths of the ranges.
    fn shares(&self) -> (Vec<f64>, f64) {
        let ranges: Vec<_> = self.arms.iter().map(|arm| arm.range).collect();
        condition::authored_shares(&ranges).unwrap_or_else(|| {
            let lengths = || self.arms.iter().map(PhaseArm::length);
            let coverage: f64 = lengths().sum();
            let weight = |length: f64| if coverage > 0.0 { length / coverage } else { 0.0 };
            let weights = lengths().map(weight).map(condition::without_residue);
            (weights.collect(), condition::without_residue(coverage))
        })
    }

    /// Returns the memory of a phase of this experiment. Its part of the file is smaller.
    fn memory_bytes(&self, site: &str, key: &str) -> usize {
        let arms: usize = self.arms.iter().map(|arm| arm.key.len() + size_of::<PhaseArm>()).sum();
        arms + self.seed.len() + size_of::<Self>() + site.len() + key.len()
    }
}

/// Returns whether both ends are numbers in this order.
pub(super) fn is_range(start: f64, end: f64) -> bool {
    start.is_finite() && end.is_finite() && start <= end
}

/// The phases of each experiment of a site, by key, oldest first.
pub(super) type ExperimentPhases = BTreeMap<String, Vec<Phase>>;

/// The phases of all experiments.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Phases {
    /// By site ID.
    pub(super) by_site: BTreeMap<String, ExperimentPhases>,
}

impl Phases {
    /// Returns the kept phases of an experiment, oldest first. Empty if none is known.
    pub fn of(&self, site: &str, key: &str) -> &[Phase] {
        self.by_site.get(site).and_then(|experiments| experiments.get(key)).map_or(&[], Vec::as_slice)
    }

    /// Returns the experiments of a site with a kept phase, by key.
    pub fn experiments(&self, site: &str) -> impl Iterator<Item = (&str, &[Phase])> {
        let experiments = self.by_site.get(site).into_iter().flatten();
        experiments.map(|(key, phases)| (key.as_str(), phases.as_slice()))
    }

    /// Returns the number of kept phases.
    pub(crate) fn count(&self) -> usize {
        self.by_site.values().flat_map(BTreeMap::values).map(Vec::len).sum()
    }

    /// Begins a phase for each served experiment whose definition differs from its newest phase.
    pub fn observe<'s>(&mut self, sites: impl Iterator<Item = &'s ArchivedSite>, now_ms: i64) {
        let mut current = BTreeSet::new();
        for site in sites.filter(|site| site.preview.is_none()) {
            for experiment in site.experiments.iter() {
                let Some(phase) = Phase::begin(experiment, now_ms.max(0)) else { continue };
                current.insert((site.site.get(), experiment.key.get()));
                self.add(&site.site, &experiment.key, phase);
            }
        }
        self.trim(&current);
    }

    fn add(&mut self, site: &str, key: &str, mut phase: Phase) {
        let phases = self.by_site.entry(site.to_owned()).or_default().entry(key.to_owned()).or_default();
        if let Some(newest) = phases.last() {
            if newest.has_same_definition(&phase) {
                return;
            }
            // A clock that was set back does not change the order.
            phase.from_ms = phase.from_ms.max(newest.from_ms);
        }
        phases.push(phase);
        let surplus = phases.len().saturating_sub(PHASES_KEPT_MAX);
        phases.drain(..surplus);
    }

    /// Drops phases until all fit their limits: first the oldest of those that are not served, then the newest of the
    /// served ones, so that no experiment seems to begin again.
    fn trim(&mut self, current_experiments: &BTreeSet<(&str, &str)>) {
        let mut order = Vec::new();
        for (site, experiments) in &self.by_site {
            for (key, phases) in experiments {
                let is_current = current_experiments.contains(&(site.as_str(), key.as_str()));
                for (index, phase) in phases.iter().enumerate() {
                    let is_served = is_current && index + 1 == phases.len();
                    let age = if is_served { -phase.from_ms } else { phase.from_ms };
                    let bytes = phase.memory_bytes(site, key);
                    order.push(((is_served, age), bytes, (site.clone(), key.clone())));
                }
            }
        }
        let mut count = order.len();
        let mut bytes = order.iter().map(|(_, bytes, _)| bytes).sum::<usize>();
        order.sort_by_key(|(age, ..)| *age);
        for (_, phase_bytes, (site, key)) in order {
            if count <= PHASES_MAX && bytes <= PHASES_BYTES_MAX {
                break;
            }
            count -= 1;
            bytes -= phase_bytes;
            // Within an experiment the order is that of the times, so the first phase is the one to drop.
            if let Some(phases) =
                self.by_site.get_mut(&site).and_then(|experiments| experiments.get_mut(&key))
            {
                phases.remove(0);
            }
        }
        self.by_site.values_mut().for_each(|experiments| experiments.retain(|_, phases| !phases.is_empty()));
        self.by_site.retain(|_, experiments| !experiments.is_empty());
    }
}
