//! Experiments: one definition for each key, however many zones it stands in.

use std::collections::BTreeMap;

use crate::condition;
use crate::limits::EXPERIMENTS_MAX;
use crate::site::snapshot::format::{Experiment, Namespace, Range};
use crate::site::source::diagnostics::{Mistake, Mistakes, push_token};
use crate::site::source::types::{self, Node, Route, Rule, Zone};

/// How far the weights' sum may be from 1: thirds are written with four digits.
const WEIGHTS_TOLERANCE: f64 = 0.0001;

pub(super) struct Experiments {
    by_key: BTreeMap<String, Experiment>,
}

impl Experiments {
    /// Collects the experiments of all routes; reports what is wrong with them, and where two
    /// zones disagree.
    pub(super) fn collect(routes: &[(String, Route)], mistakes: &mut Mistakes) -> Self {
        let mut met = BTreeMap::new();
        for (file, route) in routes {
            if let Route::Page(page) = route {
                let mut collector = Collector { file, met: &mut met, mistakes };
                collector.zones(&page.layout.zones, "/layout");
            }
        }
        if met.len() > EXPERIMENTS_MAX {
            let expected = format!("at most {EXPERIMENTS_MAX} experiments");
            mistakes.add(Mistake::of_value("site.json", "", expected, met.len().to_string()));
        }
        let by_key = met.into_iter().map(|(key, (_, experiment))| (key.to_owned(), compile(experiment)));
        Self { by_key: by_key.collect() }
    }

    /// The index of an experiment that was collected.
    pub(super) fn index(&self, key: &str) -> u16 {
        self.by_key.keys().position(|k| k == key).map_or(0, |at| at as u16)
    }

    pub(super) fn finish(self) -> Vec<Experiment> {
        self.by_key.into_values().collect()
    }
}

struct Collector<'s, 'm> {
    file: &'s str,
    /// By key: the file and the definition that were met first.
    met: &'m mut BTreeMap<&'s str, (&'s str, &'s types::Experiment)>,
    mistakes: &'m mut Mistakes,
}

impl<'s> Collector<'s, '_> {
    fn zones(&mut self, zones: &'s types::Members<super::super::source::pattern::Name, Zone>, pointer: &str) {
        for (name, zone) in &zones.0 {
            let pointer = format!("{pointer}/zones/{name}");
            match zone {
                Zone::Plain(nodes) => self.nodes(nodes, &pointer),
                Zone::Personalized(zone) => {
                    self.nodes(&zone.default, &format!("{pointer}/default"));
                    for (key, nodes) in &zone.variants.0 {
                        self.nodes(nodes, &format!("{pointer}/variants/{key}"));
                    }
                    for (i, rule) in zone.rules.iter().enumerate() {
                        if let Rule::Experiment { experiment, .. } = rule {
                            self.experiment(experiment, &format!("{pointer}/rules/{i}/experiment"));
                        }
                    }
                }
            }
        }
    }

    fn nodes(&mut self, nodes: &'s [Node], pointer: &str) {
        for (i, node) in nodes.iter().enumerate() {
            if let Some(zones) = &node.zones {
                self.zones(zones, &format!("{pointer}/{i}"));
            }
        }
    }

    fn experiment(&mut self, experiment: &'s types::Experiment, pointer: &str) {
        self.weights(experiment, pointer);
        if let Some((_, from, to)) = &experiment.namespace
            && from.0 > to.0
        {
            let came = format!("{} to {}", from.0, to.0);
            self.wrong(pointer, "namespace", "a range whose begin is not behind its end".to_owned(), came);
        }
        let Some((file, first)) = self.met.get(&*experiment.key).copied() else {
            self.met.insert(&experiment.key, (self.file, experiment));
            return;
        };
        for (member, agrees) in [
            (
                "weights",
                first.weights == experiment.weights && first.variants.len() == experiment.variants.len(),
            ),
            ("coverage", first.coverage == experiment.coverage),
            ("seed", first.seed == experiment.seed),
            ("namespace", first.namespace == experiment.namespace),
            ("holdout", first.holdout == experiment.holdout),
        ] {
            if !agrees {
                let expected = format!(
                    "the `{member}` that experiment `{}` has in `{file}`, since its zones move together",
                    experiment.key
                );
                self.wrong(pointer, "", expected, "another".to_owned());
            }
        }
    }

    fn weights(&mut self, experiment: &types::Experiment, pointer: &str) {
        let Some(weights) = &experiment.weights else { return };
        let sum: f64 = weights.iter().map(|w| w.0).sum();
        if weights.len() != experiment.variants.len() {
            let expected = format!("{} weights, one for each of `variants`", experiment.variants.len());
            self.wrong(pointer, "weights", expected, weights.len().to_string());
        } else if (sum - 1.0).abs() > WEIGHTS_TOLERANCE {
            let expected = "weights whose sum is 1".to_owned();
            self.wrong(
                pointer,
                "weights",
                expected,
                format!("weights whose sum is {}", (sum * 1e6).round() / 1e6),
            );
        }
    }

    fn wrong(&mut self, pointer: &str, member: &str, expected: String, came: String) {
        let mut pointer = pointer.to_owned();
        if !member.is_empty() {
            push_token(&mut pointer, member);
        }
        self.mistakes.add(Mistake::of_value(self.file, pointer, expected, came));
    }
}

fn compile(experiment: &types::Experiment) -> Experiment {
    let weights: Option<Vec<f64>> = experiment.weights.as_ref().map(|w| w.iter().map(|w| w.0).collect());
    let ranges =
        condition::bucket_ranges(experiment.variants.len(), experiment.coverage.0, weights.as_deref());
    let namespace = experiment.namespace.as_ref().map(|(name, from, to)| Namespace {
        name: name.to_string(),
        range: Range { from: from.0, to: to.0 },
    });
    Experiment {
        key: experiment.key.to_string(),
        seed: experiment.seed.clone().unwrap_or_else(|| experiment.key.to_string()),
        ranges: ranges.map(|(from, to)| Range { from, to }).collect(),
        namespace,
        holdout: experiment.holdout.map_or(0.0, |h| h.0),
    }
}
