//! When a visitor was there: visits, told apart by silence.
//!
//! The newest visits are kept as spans that do not touch, so that what comes late finds its visit, whatever the order; earlier ones
//! are a count. Two times belong to one visit where no more than `VISIT_SILENCE_MS` lie between them.

use super::varint::{Bytes, put_number};
use crate::limits::{VISIT_SILENCE_MS, VISITS_KEPT};

/// A visit's first and last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Visit {
    start_ms: i64,
    end_ms: i64,
}

/// The visits of one visitor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Visits {
    earlier: u64,
    /// The newest first.
    kept: Vec<Visit>,
}

impl Visits {
    pub(super) fn count(&self) -> u64 {
        self.earlier.saturating_add(self.kept.len() as u64)
    }

    /// Something happened. What is older than all visits that are kept, where earlier ones are only counted, may belong to one of
    /// those: it changes nothing.
    pub(super) fn add(&mut self, at_ms: i64) {
        let begun_by = |visit: &Visit| visit.start_ms.saturating_sub(VISIT_SILENCE_MS) <= at_ms;
        let place = self.kept.iter().position(begun_by).unwrap_or(self.kept.len());
        match self.kept.get_mut(place) {
            Some(visit) if at_ms <= visit.end_ms.saturating_add(VISIT_SILENCE_MS) => {
                visit.start_ms = visit.start_ms.min(at_ms);
                visit.end_ms = visit.end_ms.max(at_ms);
                self.join_with_earlier(place);
            }
            None if place == VISITS_KEPT && self.earlier > 0 => {}
            _ => {
                self.kept.insert(place, Visit { start_ms: at_ms, end_ms: at_ms });
                self.forget();
            }
        }
    }

    /// Joins a visit that has begun earlier than it did with the one before it, if they meet now.
    fn join_with_earlier(&mut self, place: usize) {
        let Some(earlier) = self.kept.get(place + 1).copied() else { return };
        let visit = &mut self.kept[place];
        if meet(earlier, *visit) {
            visit.start_ms = visit.start_ms.min(earlier.start_ms);
            self.kept.remove(place + 1);
        }
    }

    fn forget(&mut self) {
        let over = self.kept.len().saturating_sub(VISITS_KEPT);
        self.kept.truncate(VISITS_KEPT);
        self.earlier = self.earlier.saturating_add(over as u64);
    }

    /// Takes in another visitor's. Counts add: visits that meet become one span and stay two.
    pub(super) fn merge(&mut self, other: &Self) {
        let count = self.count().saturating_add(other.count());
        self.kept.extend_from_slice(&other.kept);
        self.kept.sort_unstable_by_key(|visit| (std::cmp::Reverse(visit.end_ms), visit.start_ms));
        let mut place = 0;
        while place + 1 < self.kept.len() {
            let earlier = self.kept[place + 1];
            if meet(earlier, self.kept[place]) {
                let visit = &mut self.kept[place];
                visit.start_ms = visit.start_ms.min(earlier.start_ms);
                self.kept.remove(place + 1);
            } else {
                place += 1;
            }
        }
        self.kept.truncate(VISITS_KEPT);
        self.earlier = count - self.kept.len() as u64;
    }

    /// Appends them; times are differences, from `base_ms` back.
    pub(super) fn encode(&self, base_ms: i64, out: &mut Vec<u8>) {
        put_number(out, self.earlier);
        put_number(out, self.kept.len() as u64);
        let mut before_ms = base_ms;
        for visit in &self.kept {
            put_number(out, before_ms.wrapping_sub(visit.end_ms) as u64);
            put_number(out, visit.end_ms.wrapping_sub(visit.start_ms) as u64);
            before_ms = visit.start_ms;
        }
    }

    pub(super) fn decode(bytes: &mut Bytes<'_>, base_ms: i64) -> Option<Self> {
        let (earlier, kept) = counts(bytes)?;
        let mut before_ms = base_ms;
        let visits = (0..kept).map(|_| {
            let end_ms = before_ms.wrapping_sub(bytes.number()? as i64);
            let start_ms = end_ms.wrapping_sub(bytes.number()? as i64);
            before_ms = start_ms;
            Some(Visit { start_ms, end_ms })
        });
        Some(Self { earlier, kept: visits.collect::<Option<_>>()? })
    }

    /// How many there are, where only that is asked for.
    pub(super) fn skip(bytes: &mut Bytes<'_>) -> Option<u64> {
        let (earlier, kept) = counts(bytes)?;
        for _ in 0..2 * kept {
            bytes.number()?;
        }
        Some(earlier.saturating_add(kept as u64))
    }
}

fn counts(bytes: &mut Bytes<'_>) -> Option<(u64, usize)> {
    let (earlier, kept) = (bytes.number()?, bytes.number()?);
    (kept <= VISITS_KEPT as u64).then_some((earlier, kept as usize))
}

/// Whether less than the silence that ends a visit lies between the end of one and the beginning of another.
fn meet(earlier: Visit, later: Visit) -> bool {
    later.start_ms.saturating_sub(VISIT_SILENCE_MS) <= earlier.end_ms
}
