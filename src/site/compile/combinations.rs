//! What a page can show: every combination of variants that some rules could choose.
//!
//! For each zone that is there: `default`, or a variant that some rule names. Conditions are not
//! reasoned about: each may hold or not. The zones of one experiment take the same arm, so an
//! arm is chosen when the first of them is met; a visitor may also be in none.
//!
//! Found in order of the number of pairs: all with none, then with one, ... Each round walks the
//! page's zones and gives up a branch that has too many pairs already.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::{COMBINATION_STEPS_MAX, COMBINATIONS_COUNTED_MAX, COMBINATIONS_LISTED_MAX};
use crate::site::snapshot::format::{Page, Part, Rule, Zone};

/// The combinations of a page.
pub(super) struct Combinations {
    /// The first ones, by number of pairs, then by text.
    pub(super) first: Vec<String>,
    /// All that were counted.
    pub(super) counted: usize,
    /// Whether `first` is not all.
    pub(super) truncated: bool,
}

pub(super) fn of(page: &Page) -> Combinations {
    let mut first = Vec::new();
    let mut search = Search { page, pairs: 0, steps: 0, found: BTreeSet::new(), fell_short: false };
    let mut counted = 0;
    for pairs in 0..=page.zones.len() {
        search.pairs = pairs;
        search.found.clear();
        search.fell_short = false;
        search.walk(&mut zones(&page.parts), &mut State::default(), COMBINATIONS_COUNTED_MAX - counted);
        counted += search.found.len();
        let room = COMBINATIONS_LISTED_MAX - first.len();
        first.extend(search.found.iter().take(room).cloned());
        // Longer combinations exist only where a branch was given up for want of pairs.
        if counted == COMBINATIONS_COUNTED_MAX || search.is_exhausted() || !search.fell_short {
            break;
        }
    }
    let truncated = counted > first.len() || search.is_exhausted();
    Combinations { first, counted, truncated }
}

/// The zones of `parts`, last first, so that the next one is popped.
fn zones(parts: &[Part]) -> Vec<u8> {
    let zone = |part: &Part| match part {
        Part::Zone(index) => Some(*index),
        Part::Piece(_) | Part::Query(_) => None,
    };
    parts.iter().rev().filter_map(zone).collect()
}

/// A branch of the search.
#[derive(Default)]
struct State {
    /// The pairs chosen so far; sorted, as a canonical string is: by zone.
    pairs: BTreeMap<u8, u8>,
    /// The arm of each experiment that was met; None: the visitor is in none.
    arms: BTreeMap<u16, Option<usize>>,
}

struct Search<'p> {
    page: &'p Page,
    /// How many pairs a combination must have.
    pairs: usize,
    steps: usize,
    found: BTreeSet<String>,
    fell_short: bool,
}

impl Search<'_> {
    fn is_exhausted(&self) -> bool {
        self.steps >= COMBINATION_STEPS_MAX
    }

    /// Decides the zones of `open` one after the other, in every way.
    fn walk(&mut self, open: &mut Vec<u8>, state: &mut State, room: usize) {
        self.steps += 1;
        if self.found.len() >= room || self.is_exhausted() {
            return;
        }
        let Some(index) = open.pop() else {
            if state.pairs.len() == self.pairs {
                self.found.insert(self.canonical(state));
            }
            return;
        };
        self.zone(index, 0, &mut Vec::new(), open, state, room);
        open.push(index);
    }

    /// Tries the rules from `rule` on, each matching or not.
    fn zone(
        &mut self,
        index: u8,
        rule: usize,
        tried: &mut Vec<u8>,
        open: &mut Vec<u8>,
        state: &mut State,
        room: usize,
    ) {
        let page = self.page;
        let zone: &Zone = &page.zones[usize::from(index)];
        match zone.rules.get(rule) {
            None => self.show(index, 0, tried, open, state, room),
            Some(Rule::When { variant, .. }) => {
                self.show(index, *variant, tried, open, state, room);
                self.zone(index, rule + 1, tried, open, state, room);
            }
            Some(Rule::Experiment { experiment, arms, when }) => match state.arms.get(experiment).copied() {
                None => {
                    for arm in (0..arms.len()).map(Some).chain([None]) {
                        state.arms.insert(*experiment, arm);
                        // What was shown under another arm may be shown under this one again.
                        self.zone(index, rule, &mut tried.clone(), open, state, room);
                    }
                    state.arms.remove(experiment);
                }
                Some(Some(arm)) => {
                    self.show(index, arms.get(arm).copied().unwrap_or(0), tried, open, state, room);
                    if when.is_some() {
                        self.zone(index, rule + 1, tried, open, state, room);
                    }
                }
                Some(None) => self.zone(index, rule + 1, tried, open, state, room),
            },
        }
    }

    fn show(
        &mut self,
        index: u8,
        variant: u8,
        tried: &mut Vec<u8>,
        open: &mut Vec<u8>,
        state: &mut State,
        room: usize,
    ) {
        if tried.contains(&variant) {
            return;
        }
        tried.push(variant);
        if variant != 0 {
            if state.pairs.len() == self.pairs {
                self.fell_short = true;
                return;
            }
            state.pairs.insert(index, variant);
        }
        let page = self.page;
        let parts = &page.zones[usize::from(index)].variants[usize::from(variant)].parts;
        let before = open.len();
        open.extend(zones(parts));
        self.walk(open, state, room);
        open.truncate(before);
        state.pairs.remove(&index);
    }

    fn canonical(&self, state: &State) -> String {
        let pair = |(zone, variant): (&u8, &u8)| {
            self.page.zones[usize::from(*zone)].variants[usize::from(*variant)].pair.as_str()
        };
        state.pairs.iter().map(pair).collect::<Vec<_>>().join(",")
    }
}
