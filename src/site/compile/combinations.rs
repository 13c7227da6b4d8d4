//! The combinations of variants that a page can show.
//!
//! Each visible zone shows `default` or a variant that one of its rules names. The search does not interpret
//! conditions: each can match or not. Zones of one experiment use the same arm, so the search chooses the arm
//! at the first of them. It also tries visitors outside the experiment.
//!
//! The search finds combinations by their number of pairs: first those with none, then with one, and so on.
//! Each round walks the zones of the page and prunes branches that have too many pairs.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::{COMBINATIONS_COUNTED_MAX, COMBINATIONS_LISTED_MAX};
use crate::site::snapshot::format::{Page, Part, Rule, Zone};

/// Number of steps that `compile` takes to count the combinations of one route: a hundred for each
/// combination. After that it marks them as truncated.
const COMBINATION_STEPS_MAX: usize = 100 * COMBINATIONS_COUNTED_MAX;

/// The combinations of a page.
pub(super) struct Combinations {
    /// The first combinations, by number of pairs, then by text.
    pub(super) first: Vec<String>,
    /// The number of combinations, at most `COMBINATIONS_COUNTED_MAX`.
    pub(super) counted: usize,
    /// True if `first` is incomplete.
    pub(super) truncated: bool,
}

pub(super) fn find_combinations(page: &Page) -> Combinations {
    let mut first = Vec::new();
    let mut search =
        Search { page, pairs: 0, found_max: 0, steps: 0, found: BTreeSet::new(), was_pruned: false };
    let mut counted = 0;
    for pairs in 0..=page.zones.len() {
        search.pairs = pairs;
        search.found.clear();
        search.was_pruned = false;
        search.found_max = COMBINATIONS_COUNTED_MAX - counted;
        search.walk(&mut zones_reversed(&page.parts), &mut SearchState::default());
        counted += search.found.len();
        let room = COMBINATIONS_LISTED_MAX - first.len();
        first.extend(search.found.iter().take(room).cloned());
        // Combinations with more pairs exist only if a branch was pruned.
        if counted == COMBINATIONS_COUNTED_MAX || search.is_exhausted() || !search.was_pruned {
            break;
        }
    }
    let truncated = counted > first.len() || search.is_exhausted();
    Combinations { first, counted, truncated }
}

/// Returns the zones of `parts` in reverse order, so that `pop` returns the next one.
fn zones_reversed(parts: &[Part]) -> Vec<u8> {
    let zone = |part: &Part| match part {
        Part::Zone(index) => Some(*index),
        Part::Piece(_) | Part::RouteValue(..) | Part::Query(_) => None,
    };
    parts.iter().rev().filter_map(zone).collect()
}

/// A branch of the search.
#[derive(Default)]
struct SearchState {
    /// The chosen pairs, sorted by zone as in a canonical string.
    pairs: BTreeMap<u8, u8>,
    /// The arm of each experiment reached so far; `None` if the visitor is not in the experiment.
    arms: BTreeMap<u16, Option<usize>>,
}

struct Search<'p> {
    page: &'p Page,
    /// The number of pairs that a combination of this round has.
    pairs: usize,
    /// The number of combinations after which this round ends.
    found_max: usize,
    steps: usize,
    found: BTreeSet<String>,
    was_pruned: bool,
}

impl Search<'_> {
    fn is_exhausted(&self) -> bool {
        self.steps >= COMBINATION_STEPS_MAX
    }

    /// Tries all variants of the next zone in `zone_indexes`, and recursively of the zones after it.
    fn walk(&mut self, zone_indexes: &mut Vec<u8>, state: &mut SearchState) {
        self.steps += 1;
        if self.found.len() >= self.found_max || self.is_exhausted() {
            return;
        }
        let Some(index) = zone_indexes.pop() else {
            if state.pairs.len() == self.pairs {
                self.found.insert(self.canonical_string(state));
            }
            return;
        };
        self.try_rules(index, 0, &mut Vec::new(), zone_indexes, state);
        zone_indexes.push(index);
    }

    /// Tries the rules from `rule_index` on, each with and without a match.
    fn try_rules(
        &mut self,
        zone_index: u8,
        rule_index: usize,
        tried_variants: &mut Vec<u8>,
        zone_indexes: &mut Vec<u8>,
        state: &mut SearchState,
    ) {
        let page = self.page;
        let zone: &Zone = &page.zones[usize::from(zone_index)];
        match zone.rules.get(rule_index) {
            None => self.try_variant(zone_index, 0, tried_variants, zone_indexes, state),
            Some(Rule::Audience { variant, .. } | Rule::When { variant, .. }) => {
                self.try_variant(zone_index, *variant, tried_variants, zone_indexes, state);
                self.try_rules(zone_index, rule_index + 1, tried_variants, zone_indexes, state);
            }
            Some(Rule::Experiment { experiment, arms, when }) => match state.arms.get(experiment).copied() {
                None => {
                    for arm in (0..arms.len()).map(Some).chain([None]) {
                        state.arms.insert(*experiment, arm);
                        // Each arm gets its own copy of `tried_variants`: it may show a variant that another arm
                        // showed.
                        self.try_rules(
                            zone_index,
                            rule_index,
                            &mut tried_variants.clone(),
                            zone_indexes,
                            state,
                        );
                    }
                    state.arms.remove(experiment);
                }
                Some(Some(arm)) => {
                    let variant = arms.get(arm).copied().unwrap_or(0);
                    self.try_variant(zone_index, variant, tried_variants, zone_indexes, state);
                    if when.is_some() {
                        self.try_rules(zone_index, rule_index + 1, tried_variants, zone_indexes, state);
                    }
                }
                Some(None) => self.try_rules(zone_index, rule_index + 1, tried_variants, zone_indexes, state),
            },
        }
    }

    fn try_variant(
        &mut self,
        zone_index: u8,
        variant_index: u8,
        tried_variants: &mut Vec<u8>,
        zone_indexes: &mut Vec<u8>,
        state: &mut SearchState,
    ) {
        if tried_variants.contains(&variant_index) {
            return;
        }
        tried_variants.push(variant_index);
        if variant_index != 0 {
            if state.pairs.len() == self.pairs {
                self.was_pruned = true;
                return;
            }
            state.pairs.insert(zone_index, variant_index);
        }
        let page = self.page;
        let parts = &page.zones[usize::from(zone_index)].variants[usize::from(variant_index)].parts;
        let before = zone_indexes.len();
        zone_indexes.extend(zones_reversed(parts));
        self.walk(zone_indexes, state);
        zone_indexes.truncate(before);
        state.pairs.remove(&zone_index);
    }

    fn canonical_string(&self, state: &SearchState) -> String {
        let pair = |(zone, variant): (&u8, &u8)| {
            self.page.zones[usize::from(*zone)].variants[usize::from(*variant)].pair.as_str()
        };
        state.pairs.iter().map(pair).collect::<Vec<_>>().join(",")
    }
}
