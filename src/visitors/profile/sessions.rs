//! The visits of a visitor, separated by periods without activity.
//!
//! The profile keeps the newest visits as disjoint spans of time, so that a late event is added to its visit
//! in any order of arrival. Earlier visits are only counted. Two times belong to one visit if at most
//! `VISIT_TIMEOUT_MS` separates them.

use super::varint::{Decoder, put_number};
use crate::limits::{VISIT_TIMEOUT_MS, VISITS_KEPT};

/// The first and last time of a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Visit {
    start_ms: i64,
    end_ms: i64,
}

/// The visits of one visitor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Visits {
    earlier: u64,
    /// Newest first.
    kept: Vec<Visit>,
}

impl Visits {
    pub(super) fn count(&self) -> u64 {
        self.earlier.saturating_add(self.kept.len() as u64)
    }

    /// Adds activity at `at_ms`. Activity older than all kept visits changes nothing if earlier visits
    /// were counted, because it may belong to one of those.
    pub(super) fn add(&mut self, at_ms: i64) {
        let begun_by = |visit: &Visit| visit.start_ms.saturating_sub(VISIT_TIMEOUT_MS) <= at_ms;
        let place = self.kept.iter().position(begun_by).unwrap_or(self.kept.len());
        match self.kept.get_mut(place) {
            Some(visit) if at_ms <= visit.end_ms.saturating_add(VISIT_TIMEOUT_MS) => {
                visit.start_ms = visit.start_ms.min(at_ms);
                visit.end_ms = visit.end_ms.max(at_ms);
                self.merge_with_earlier(place);
            }
            None if place == VISITS_KEPT && self.earlier > 0 => {}
            _ => {
                self.kept.insert(place, Visit { start_ms: at_ms, end_ms: at_ms });
                self.drop_oldest();
            }
        }
    }

    /// Merges a visit whose start was moved back with the visit before it, if they now meet.
    fn merge_with_earlier(&mut self, place: usize) {
        let Some(earlier) = self.kept.get(place + 1).copied() else { return };
        let visit = &mut self.kept[place];
        if meet(earlier, *visit) {
            visit.start_ms = visit.start_ms.min(earlier.start_ms);
            self.kept.remove(place + 1);
        }
    }

    fn drop_oldest(&mut self) {
        let over = self.kept.len().saturating_sub(VISITS_KEPT);
        self.kept.truncate(VISITS_KEPT);
        self.earlier = self.earlier.saturating_add(over as u64);
    }

    /// Merges the visits of another profile into these. The counts add up: two visits that meet become
    /// one span but still count as two.
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

    /// Appends the encoded visits. Times are differences that count back from `base_ms`.
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

    pub(super) fn decode(bytes: &mut Decoder<'_>, base_ms: i64) -> Option<Self> {
        let (earlier, kept) = decode_counts(bytes)?;
        let mut before_ms = base_ms;
        let visits = (0..kept).map(|_| {
            let end_ms = before_ms.wrapping_sub(bytes.number()? as i64);
            let start_ms = end_ms.wrapping_sub(bytes.number()? as i64);
            before_ms = start_ms;
            Some(Visit { start_ms, end_ms })
        });
        Some(Self { earlier, kept: visits.collect::<Option<_>>()? })
    }

    /// Skips the encoded visits and returns only their number.
    pub(super) fn decode_count(bytes: &mut Decoder<'_>) -> Option<u64> {
        let (earlier, kept) = decode_counts(bytes)?;
        for _ in 0..2 * kept {
            bytes.number()?;
        }
        Some(earlier.saturating_add(kept as u64))
    }
}

fn decode_counts(bytes: &mut Decoder<'_>) -> Option<(u64, usize)> {
    let (earlier, kept) = (bytes.number()?, bytes.number()?);
    (kept <= VISITS_KEPT as u64).then_some((earlier, kept as usize))
}

/// Returns whether at most `VISIT_TIMEOUT_MS` separates the end of one visit from the start of the
/// next.
fn meet(earlier: Visit, later: Visit) -> bool {
    later.start_ms.saturating_sub(VISIT_TIMEOUT_MS) <= earlier.end_ms
}
