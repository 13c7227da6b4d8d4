//! The phases of experiments: the arms, weights, seed and holdout of each, and its coverages with the times when the server
//! first served them.
//!
//! A change of the arms, weights, seed or holdout begins a phase, because it moves visitors to another arm. A change of the
//! coverage moves no visitor with a recorded exposure: the phase goes on. A result covers one phase. Input are the served
//! snapshots, in the order of their publications. [`super::phases_file`] keeps the phases in the data directory. Previews have
//! none.

use std::collections::{BTreeMap, BTreeSet};

use super::super::snapshot::format::{ArchivedExperiment, ArchivedSite, ArchivedSiteHoldout};
use crate::condition::RESIDUE_MAX;
use crate::limits::{COVERAGES_KEPT_MAX, PHASES_BYTES_MAX, PHASES_KEPT_MAX, PHASES_MAX};
use crate::record::{HELD_OUT, NOT_HELD_OUT, SITE_HOLDOUT};

/// An arm of a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseArm {
    /// The key of its variant.
    pub key: String,
    /// Its share of the visitors that take part, as authored.
    pub weight: f64,
}

impl PhaseArm {
    /// Returns whether another arm has this weight. A weight of file format 1 differs by the residue of its calculation.
    fn has_weight_of(&self, other: &Self) -> bool {
        (self.weight - other.weight).abs() < RESIDUE_MAX
    }
}

/// A coverage, and the time when the server first served it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coverage {
    /// In milliseconds since 1970.
    pub from_ms: i64,
    /// The share of visitors that take part, as authored.
    pub share: f64,
}

/// A time in which no visitor moved to another arm.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// The arms in the authored order.
    pub arms: Vec<PhaseArm>,
    /// The seed that is hashed with the visitor's ID.
    pub seed: String,
    /// The share of visitors that are held out.
    pub holdout: f64,
    /// The coverages, oldest first. Never empty. Steps of a ramp can be in the future.
    pub coverages: Vec<Coverage>,
    /// The end of the experiment, in milliseconds since 1970.
    pub to_ms: Option<i64>,
}

impl Phase {
    /// Returns the phase that begins with this definition. It has the coverage at that time, and the later steps of a ramp.
    pub(crate) fn begin(experiment: &ArchivedExperiment, from_ms: i64) -> Self {
        let arms = experiment.arms.iter().zip(experiment.weights.iter());
        let arms =
            arms.map(|(key, weight)| PhaseArm { key: key.as_str().to_owned(), weight: weight.to_native() });
        let steps = experiment
            .coverages
            .iter()
            .map(|step| Coverage { from_ms: step.from_ms.to_native(), share: step.share.to_native() });
        let present = Coverage { from_ms, share: experiment.coverage(from_ms) };
        Self {
            arms: arms.collect(),
            seed: experiment.seed.as_str().to_owned(),
            holdout: experiment.holdout.to_native(),
            coverages: std::iter::once(present).chain(steps.filter(|step| step.from_ms > from_ms)).collect(),
            // The file has 0 for no end.
            to_ms: experiment.to_ms.as_ref().map(|to_ms| to_ms.to_native().max(1)),
        }
    }

    /// Returns the phase of the site's holdout that begins with this definition. Its arms are the two groups.
    pub(crate) fn of_holdout(holdout: &ArchivedSiteHoldout, from_ms: i64) -> Self {
        let share = holdout.share.to_native();
        let arm = |key: &str, weight| PhaseArm { key: key.to_owned(), weight };
        Self {
            arms: vec![arm(HELD_OUT, share), arm(NOT_HELD_OUT, 1.0 - share)],
            seed: holdout.seed.as_str().to_owned(),
            holdout: 0.0,
            coverages: vec![Coverage { from_ms, share: 1.0 }],
            to_ms: None,
        }
    }

    /// Moves the begin to a later time.
    fn begin_at(&mut self, from_ms: i64) {
        let present = Coverage { from_ms, share: self.coverage(from_ms).share };
        self.coverages.retain(|coverage| coverage.from_ms > from_ms);
        self.coverages.insert(0, present);
    }

    /// Returns the time when the server first served the phase, in milliseconds since 1970.
    pub fn from_ms(&self) -> i64 {
        self.coverages[0].from_ms
    }

    /// Returns the coverage at a time. Before the phase it is the first one.
    pub fn coverage(&self, time_ms: i64) -> Coverage {
        self.coverages[self.coverage_at(time_ms)]
    }

    /// Returns the index of the coverage that was served at a time. Before the phase it is the first one.
    pub(crate) fn coverage_at(&self, time_ms: i64) -> usize {
        self.coverages.partition_point(|coverage| coverage.from_ms <= time_ms).saturating_sub(1)
    }

    /// Returns the authored members by which a newer definition begins a phase. Empty if the phase goes on: every enrolled
    /// visitor keeps the arm.
    pub(crate) fn members_of_new_phase(&self, newer: &Self) -> Vec<&'static str> {
        let keys = |phase: &Self| phase.arms.iter().map(|arm| arm.key.clone()).collect::<Vec<_>>();
        let mut arms = self.arms.iter().zip(&newer.arms);
        let members = [
            ("variants", keys(self) != keys(newer)),
            ("weights", !arms.all(|(arm, newer)| arm.has_weight_of(newer))),
            ("seed", self.seed != newer.seed),
            ("holdout", self.holdout != newer.holdout),
        ];
        members.into_iter().filter(|(_, differs)| *differs).map(|(member, _)| member).collect()
    }

    /// Goes on with a newer definition. Returns whether that is possible.
    fn go_on(&mut self, newer: &Self) -> bool {
        if !self.members_of_new_phase(newer).is_empty() {
            return false;
        }
        self.arms.clone_from(&newer.arms);
        self.to_ms = newer.to_ms;
        // The steps that were not reached are replaced by those of the newer definition.
        let now_ms = newer.from_ms();
        self.coverages.retain(|coverage| coverage.from_ms <= now_ms);
        let is_same = self.coverages.last().is_some_and(|last| last.share == newer.coverages[0].share);
        self.coverages.extend(&newer.coverages[usize::from(is_same)..]);
        while self.coverages.len() > COVERAGES_KEPT_MAX {
            self.coverages.remove(1);
        }
        true
    }

    /// Returns the memory of a phase of this experiment. Its part of the file is smaller.
    fn memory_bytes(&self, site: &str, key: &str) -> usize {
        let arms: usize = self.arms.iter().map(|arm| arm.key.len() + size_of::<PhaseArm>()).sum();
        let coverages = self.coverages.len() * size_of::<Coverage>();
        arms + coverages + self.seed.len() + size_of::<Self>() + site.len() + key.len()
    }
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

    /// Returns the experiments of a site with a kept phase, by key. The holdout of the site is none.
    pub fn experiments(&self, site: &str) -> impl Iterator<Item = (&str, &[Phase])> {
        let experiments =
            self.by_site.get(site).into_iter().flatten().filter(|(key, _)| *key != SITE_HOLDOUT);
        experiments.map(|(key, phases)| (key.as_str(), phases.as_slice()))
    }

    /// Returns the number of kept phases.
    pub(crate) fn count(&self) -> usize {
        self.by_site.values().flat_map(BTreeMap::values).map(Vec::len).sum()
    }

    /// Begins a phase for each served experiment whose definition does not go on with its newest phase.
    pub fn observe<'s>(&mut self, sites: impl Iterator<Item = &'s ArchivedSite>, now_ms: i64) {
        let mut current = BTreeSet::new();
        for site in sites.filter(|site| site.preview.is_none()) {
            for experiment in site.experiments.iter() {
                let phase = Phase::begin(experiment, now_ms.max(0));
                current.insert((site.site.get(), experiment.key.get()));
                self.add(&site.site, &experiment.key, phase);
            }
            if let Some(holdout) = site.holdout.as_ref() {
                current.insert((site.site.get(), SITE_HOLDOUT));
                self.add(&site.site, SITE_HOLDOUT, Phase::of_holdout(holdout, now_ms.max(0)));
            }
        }
        self.trim(&current);
    }

    fn add(&mut self, site: &str, key: &str, mut phase: Phase) {
        let phases = self.by_site.entry(site.to_owned()).or_default().entry(key.to_owned()).or_default();
        if let Some(newest) = phases.last_mut() {
            // A clock that was set back does not change the order.
            phase.begin_at(phase.from_ms().max(newest.from_ms()));
            if newest.go_on(&phase) {
                return;
            }
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
                    let age = if is_served { -phase.from_ms() } else { phase.from_ms() };
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
