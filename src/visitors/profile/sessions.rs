//! The visits of a visitor, separated by periods without activity.
//!
//! The profile keeps the newest visits as disjoint spans of time, so that a late event is added to its visit
//! in any order of arrival. Earlier visits are only counted. Two times belong to one visit if at most
//! `VISIT_TIMEOUT_MS` separates them.

use std::cmp::Reverse;

use super::varint::{Decoder, put_number};
use crate::limits::{VISIT_TIMEOUT_MS, VISITS_KEPT};

/// The first and last time of a visit.
#[derive(Debug, Clone, Copy, Default)]
struct Visit {
    start_ms: i64,
    end_ms: i64,
}

/// The visits of one visitor.
#[derive(Debug, Clone, Default)]
pub(super) struct Visits {
    earlier: u64,
    /// Newest first. Elements from `kept_count` on are unused.
    kept: [Visit; VISITS_KEPT],
    kept_count: usize,
}

impl Visits {
    pub(super) fn count(&self) -> u64 {
        self.earlier.saturating_add(self.kept_count as u64)
    }

    fn kept(&self) -> &[Visit] {
        &self.kept[..self.kept_count]
    }

    /// Adds activity at `at_ms`. Activity older than all kept visits changes nothing if earlier visits
    /// were counted, because it may belong to one of those.
    pub(super) fn add(&mut self, at_ms: i64) {
        let begun_by = |visit: &Visit| visit.start_ms.saturating_sub(VISIT_TIMEOUT_MS) <= at_ms;
        let place = self.kept().iter().position(begun_by).unwrap_or(self.kept_count);
        match self.kept[..self.kept_count].get_mut(place) {
            Some(visit) if at_ms <= visit.end_ms.saturating_add(VISIT_TIMEOUT_MS) => {
                visit.start_ms = visit.start_ms.min(at_ms);
                visit.end_ms = visit.end_ms.max(at_ms);
                self.merge_with_earlier(place);
            }
            None if place == VISITS_KEPT && self.earlier > 0 => {}
            _ => self.insert(place, Visit { start_ms: at_ms, end_ms: at_ms }),
        }
    }

    /// Inserts a visit. Beyond `VISITS_KEPT` the oldest is only counted.
    fn insert(&mut self, index: usize, visit: Visit) {
        if self.kept_count == VISITS_KEPT {
            self.earlier = self.earlier.saturating_add(1);
        } else {
            self.kept_count += 1;
        }
        if index < self.kept_count {
            self.kept.copy_within(index..self.kept_count - 1, index + 1);
            self.kept[index] = visit;
        }
    }

    /// Merges a visit whose start was moved back with the visit before it, if they now meet.
    fn merge_with_earlier(&mut self, index: usize) {
        let Some(earlier) = self.kept().get(index + 1).copied() else { return };
        let visit = &mut self.kept[index];
        if meet(earlier, *visit) {
            visit.start_ms = visit.start_ms.min(earlier.start_ms);
            self.kept.copy_within(index + 2..self.kept_count, index + 1);
            self.kept_count -= 1;
        }
    }

    /// Merges the visits of another profile into these. The counts add up: two visits that meet become
    /// one span but still count as two.
    pub(super) fn merge(&mut self, other: &Self) {
        let count = self.count().saturating_add(other.count());
        let mut all = [self.kept(), other.kept()].concat();
        all.sort_unstable_by_key(|visit| (Reverse(visit.end_ms), visit.start_ms));
        let mut place = 0;
        while place + 1 < all.len() {
            let earlier = all[place + 1];
            if meet(earlier, all[place]) {
                all[place].start_ms = all[place].start_ms.min(earlier.start_ms);
                all.remove(place + 1);
            } else {
                place += 1;
            }
        }
        all.truncate(VISITS_KEPT);
        self.kept[..all.len()].copy_from_slice(&all);
        self.kept_count = all.len();
        self.earlier = count - self.kept_count as u64;
    }

    /// Appends the encoded visits. Times are differences that count back from `base_ms`.
    pub(super) fn encode(&self, base_ms: i64, out: &mut Vec<u8>) {
        put_number(out, self.earlier);
        put_number(out, self.kept_count as u64);
        let mut before_ms = base_ms;
        for visit in self.kept() {
            put_number(out, before_ms.wrapping_sub(visit.end_ms) as u64);
            put_number(out, visit.end_ms.wrapping_sub(visit.start_ms) as u64);
            before_ms = visit.start_ms;
        }
    }

    pub(super) fn decode(decoder: &mut Decoder<'_>, base_ms: i64) -> Option<Self> {
        let (earlier, kept_count) = decode_counts(decoder)?;
        let mut visits = Self { earlier, kept_count, ..Self::default() };
        let mut before_ms = base_ms;
        for visit in &mut visits.kept[..kept_count] {
            visit.end_ms = before_ms.wrapping_sub(decoder.number()? as i64);
            visit.start_ms = visit.end_ms.wrapping_sub(decoder.number()? as i64);
            before_ms = visit.start_ms;
        }
        Some(visits)
    }

    /// Skips the encoded visits. Returns their number, and the end of the newest one.
    pub(super) fn decode_count(decoder: &mut Decoder<'_>, base_ms: i64) -> Option<(u64, Option<i64>)> {
        let (earlier, kept) = decode_counts(decoder)?;
        if kept == 0 {
            return Some((earlier, None));
        }
        let newest_end_ms = base_ms.wrapping_sub(decoder.number()? as i64);
        for _ in 1..2 * kept {
            decoder.number()?;
        }
        Some((earlier.saturating_add(kept as u64), Some(newest_end_ms)))
    }
}

fn decode_counts(decoder: &mut Decoder<'_>) -> Option<(u64, usize)> {
    let earlier = decoder.number()?;
    let kept = decoder.number()?;
    (kept <= VISITS_KEPT as u64).then_some((earlier, kept as usize))
}

/// Returns whether at most `VISIT_TIMEOUT_MS` separates the end of one visit from the start of the
/// next.
fn meet(earlier_visit: Visit, later_visit: Visit) -> bool {
    later_visit.start_ms.saturating_sub(VISIT_TIMEOUT_MS) <= earlier_visit.end_ms
}
