//! Experiments: one definition per key, even if several zones use it.

use std::collections::{BTreeMap, BTreeSet};

use super::metrics::{self, CollectedMetrics};
use super::operands::parse_time_ms;
use super::schedule;
use crate::condition;
use crate::limits::{EXPERIMENTS_BYTES_MAX, EXPERIMENTS_MAX};
use crate::site::snapshot::format::{Experiment, Namespace, NamespaceShare, Range, SiteHoldout, phase_hash};
use crate::site::source::diagnostics::{Diagnostics, join_token};
use crate::site::source::pattern::Name;
use crate::site::source::read::Source;
use crate::site::source::types::{self, Node, Route, Rule, Zone};

/// Allowed difference between 1 and the sum of the weights, so that thirds can be written with four digits. A
/// larger difference is an error.
const WEIGHTS_TOLERANCE: f64 = 0.0001;

pub(super) struct Experiments {
    by_key: BTreeMap<String, Experiment>,
    /// The names of the namespaces, sorted.
    namespaces: Vec<String>,
}

impl Experiments {
    /// Collects the experiments of all routes. Reports invalid experiments, and zones with conflicting
    /// definitions.
    pub(super) fn collect(source: &Source, diagnostics: &mut Diagnostics) -> Self {
        let no_goals = BTreeMap::new();
        let goals = source.site.as_ref().map_or(&no_goals, |site| &site.goals);
        let mut met = BTreeMap::new();
        for (file, route) in &source.routes {
            if let Route::Page(page) = route {
                let mut collector = ExperimentCollector { file, by_key: &mut met, diagnostics };
                page.layout.for_each_rule(&mut |pointer, rule| {
                    if let Rule::Experiment { experiment, .. } = rule {
                        collector.visit_experiment(experiment, &format!("{pointer}/experiment"));
                    }
                });
            }
        }
        if met.len() > EXPERIMENTS_MAX {
            let expected = format!("at most {EXPERIMENTS_MAX} experiments");
            diagnostics.add_titled("site.json", "", "too many experiments", expected, met.len());
        }
        met.values().for_each(|collected| collected.metrics.check_value(goals, diagnostics));
        let namespaces = met.values().filter_map(|collected| collected.first.1.namespace.as_ref());
        let namespaces: BTreeSet<&str> = namespaces.map(|(name, ..)| &**name).collect();
        let namespaces: Vec<String> = namespaces.into_iter().map(str::to_owned).collect();
        let compiled = met.values().map(|collected| compile_experiment(collected, &namespaces));
        let by_key = met.keys().map(|key| (*key).to_owned()).zip(compiled).collect();
        Self { by_key, namespaces }
    }

    /// Returns the index of a collected experiment.
    pub(super) fn index(&self, key: &str) -> u16 {
        self.by_key.keys().position(|k| k == key).map_or(0, |at| at as u16)
    }

    /// Returns the experiments and their namespaces.
    pub(super) fn finish(self) -> (Vec<Experiment>, Vec<Namespace>) {
        let experiments: Vec<Experiment> = self.by_key.into_values().collect();
        let namespaces = self.namespaces.into_iter().zip(0..).map(|(name, index)| {
            let is_in = |experiment: &&Experiment| {
                experiment.namespace.as_ref().is_some_and(|share| share.namespace == index)
            };
            let hashes = experiments.iter().filter(is_in).map(|experiment| experiment.phase_hash);
            let mut phase_hashes: Vec<u32> = hashes.collect();
            phase_hashes.sort_unstable();
            Namespace { name, phase_hashes }
        });
        let namespaces = namespaces.collect();
        (experiments, namespaces)
    }
}

/// Returns the holdout of a site.
pub(super) fn compile_holdout(site: &types::Site) -> Option<SiteHoldout> {
    let holdout = site.holdout.as_ref()?;
    let seed = holdout.seed.clone().unwrap_or_else(|| site.site.to_string());
    // An authored -0 becomes 0, so that equal shares have equal bytes.
    let share = holdout.share.0 + 0.0;
    Some(SiteHoldout { share, seed_hash: SiteHoldout::seed_hash(&seed), seed, covers_rules: holdout.rules })
}

/// Reports a page whose `experiments` could be longer than a header can be.
pub(super) fn check_text_length(file: &str, layout: &types::Layout, diagnostics: &mut Diagnostics) {
    let mut pairs = BTreeMap::new();
    let in_zones = longest_pairs_in_zones(&layout.zones, &mut pairs);
    // A zone shows one of its experiments, and zones may share one. So the text is not longer than either sum.
    let bytes = in_zones.min(pairs.values().sum()).saturating_sub(",".len());
    if bytes > EXPERIMENTS_BYTES_MAX {
        let expected = format!(
            "experiment keys and variant keys whose longest list, as in `X-Experiments`, is at most {EXPERIMENTS_BYTES_MAX} bytes"
        );
        let title = "the names of experiments and variants are too long";
        diagnostics.add_titled(file, "/layout", title, expected, format!("{bytes} bytes"));
    }
}

/// Returns the length of the longest pairs that the zones can show together, each with a comma. Adds the
/// longest pair of each experiment to `pair_lengths`.
fn longest_pairs_in_zones<'s>(
    zones: &'s types::Members<Name, Zone>,
    pair_lengths: &mut BTreeMap<&'s str, usize>,
) -> usize {
    let mut bytes = 0;
    for (_, zone) in &zones.0 {
        bytes += match zone {
            Zone::Plain(nodes) => longest_pairs_in_nodes(nodes, pair_lengths),
            Zone::Personalized(zone) => {
                let experiments = zone.rules.iter().filter_map(|rule| match rule {
                    Rule::Experiment { experiment, .. } => Some(&**experiment),
                    Rule::Audience { .. } | Rule::When { .. } => None,
                });
                let add = |experiment: &'s types::Experiment| {
                    let longest = pair_lengths.entry(&experiment.key).or_default();
                    *longest = (*longest).max(longest_pair(experiment));
                    longest_pair(experiment)
                };
                let own = experiments.map(add).max().unwrap_or(0);
                let variants = zone.variants.0.iter().map(|(_, nodes)| nodes);
                let variants = variants.chain([&zone.default]);
                own + variants.map(|nodes| longest_pairs_in_nodes(nodes, pair_lengths)).max().unwrap_or(0)
            }
        };
    }
    bytes
}

fn longest_pairs_in_nodes<'s>(nodes: &'s [Node], pair_lengths: &mut BTreeMap<&'s str, usize>) -> usize {
    let zones = nodes.iter().filter_map(|node| node.zones.as_ref());
    zones.map(|zones| longest_pairs_in_zones(zones, pair_lengths)).sum()
}

/// Returns the length of `key:variant,` with the longest variant. A holdout has the variant `~`.
fn longest_pair(experiment: &types::Experiment) -> usize {
    let variants = experiment.variants.iter().map(|variant| variant.len());
    experiment.key.len() + ":,".len() + variants.max().unwrap_or(0)
}

/// An experiment of one or more zones.
struct CollectedExperiment<'s> {
    /// The file of the first zone, and its definition.
    first: (&'s str, &'s types::Experiment),
    metrics: CollectedMetrics<'s>,
}

struct ExperimentCollector<'s, 'm> {
    file: &'s str,
    by_key: &'m mut BTreeMap<&'s str, CollectedExperiment<'s>>,
    diagnostics: &'m mut Diagnostics,
}

impl<'s> ExperimentCollector<'s, '_> {
    fn visit_experiment(&mut self, experiment: &'s types::Experiment, pointer: &str) {
        self.check_weights(experiment, pointer);
        schedule::check(experiment, &mut |member, title, expected, actual| {
            self.report(&format!("{pointer}/{member}"), "", title.to_owned(), expected, actual);
        });
        if let Some((_, from, to)) = &experiment.namespace
            && from.0 > to.0
        {
            let actual = format!("{} to {}", from.0, to.0);
            let expected = "a range whose start is not after its end".to_owned();
            self.report(pointer, "namespace", "invalid range of a namespace".to_owned(), expected, actual);
        }
        let collected = self.by_key.entry(&experiment.key).or_insert_with(|| CollectedExperiment {
            first: (self.file, experiment),
            metrics: CollectedMetrics::default(),
        });
        let diagnostics = &mut *self.diagnostics;
        let mut zone = metrics::Zone { file: self.file, pointer, key: &experiment.key, diagnostics };
        collected.metrics.add(&mut zone, experiment);
        let (file, first) = collected.first;
        for (member, agrees) in [
            ("variants", first.variants == experiment.variants),
            ("weights", first.weights == experiment.weights),
            ("coverage", first.coverage == experiment.coverage),
            ("seed", first.seed == experiment.seed),
            ("namespace", first.namespace == experiment.namespace),
            ("holdout", first.holdout == experiment.holdout),
            ("from", first.from == experiment.from),
            ("to", first.to == experiment.to),
            ("winner", first.winner == experiment.winner),
        ] {
            if !agrees {
                let expected = format!(
                    "the same `{member}` as in `{file}`, because all zones of the experiment share one definition"
                );
                let title = format!("conflicting `{member}` of experiment `{}`", experiment.key);
                self.report(pointer, "", title, expected, format!("another `{member}`"));
            }
        }
    }

    fn check_weights(&mut self, experiment: &types::Experiment, pointer: &str) {
        let Some(weights) = &experiment.weights else { return };
        let sum: f64 = weights.iter().map(|w| w.0).sum();
        if weights.len() != experiment.variants.len() {
            let expected = format!("{} weights, one for each of `variants`", experiment.variants.len());
            let title = "wrong number of weights".to_owned();
            self.report(pointer, "weights", title, expected, weights.len().to_string());
        } else if (sum - 1.0).abs() > WEIGHTS_TOLERANCE {
            let expected = "weights whose sum is 1".to_owned();
            let actual = format!("weights whose sum is {}", (sum * 1e6).round() / 1e6);
            self.report(pointer, "weights", "the sum of the weights is not 1".to_owned(), expected, actual);
        }
    }

    fn report(&mut self, pointer: &str, member: &str, title: String, expected: String, actual: String) {
        let pointer = if member.is_empty() { pointer.to_owned() } else { join_token(pointer, member) };
        self.diagnostics.add_titled(self.file, pointer, title, expected, actual);
    }
}

fn compile_experiment(collected_experiment: &CollectedExperiment<'_>, namespaces: &[String]) -> Experiment {
    let (_, experiment) = collected_experiment.first;
    // An authored -0 becomes 0, so that equal weights have equal bytes.
    let weights: Vec<f64> = match &experiment.weights {
        Some(weights) => weights.iter().map(|weight| weight.0 + 0.0).collect(),
        None => condition::equal_weights(experiment.variants.len()).collect(),
    };
    let namespace = experiment.namespace.as_ref().map(|(name, from, to)| NamespaceShare {
        namespace: namespaces
            .binary_search_by(|known| known.as_str().cmp(name))
            .map_or(0, |index| index as u16),
        range: Range { from: from.0, to: to.0 },
    });
    let holdout = experiment.holdout.map_or(0.0, |holdout| holdout.0 + 0.0);
    let seed = experiment.seed.clone().unwrap_or_else(|| experiment.key.to_string());
    let arms = experiment.variants.iter().map(|arm| &**arm).zip(weights.iter().copied());
    Experiment {
        key: (*experiment.key).into(),
        phase_hash: phase_hash(&experiment.key, &seed, arms, holdout),
        seed_hash: condition::seed_hash(&seed),
        seed,
        arms: experiment.variants.iter().map(|variant| variant.to_string()).collect(),
        weights,
        coverages: schedule::coverages(&experiment.coverage),
        from_ms: experiment.from.as_deref().and_then(parse_time_ms),
        to_ms: experiment.to.as_deref().and_then(parse_time_ms),
        winner: schedule::winner(experiment),
        namespace,
        holdout,
        metrics: collected_experiment.metrics.compile(),
    }
}
