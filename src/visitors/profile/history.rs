//! How often something happened, and when: of one event's name, or of one page.
//!
//! ```text
//! entry = bytes:number of what follows | name:sized | count:number | base - last:number | rest
//! rest  = the differences of the newest TIMES_KEPT times, newest first | from the oldest of those back to the first, where
//!         there were more
//! ```
//!
//! The entries of a profile ascend by their names' bytes. `rest` does not depend on the profile's base, so that what did not change
//! is copied.

use std::borrow::Cow;

use super::varint::{Bytes, number_len, put_number, put_sized, sized_len};
use crate::limits::TIMES_KEPT;

const KEPT: usize = TIMES_KEPT as usize;

/// What a profile knows of one event or page.
#[derive(Debug, Clone, Copy)]
pub struct History<'a> {
    /// How often it happened.
    pub count: u64,
    /// When it happened first.
    pub first_ms: i64,
    /// When it happened last.
    pub last_ms: i64,
    rest: &'a [u8],
}

impl<'a> History<'a> {
    fn new(count: u64, last_ms: i64, rest: &'a [u8]) -> Self {
        let mut history = Self { count, first_ms: last_ms, last_ms, rest };
        history.first_ms = Times::of(history).first_ms;
        history
    }

    /// The last times, the newest first; at most `TIMES_KEPT`.
    pub fn times(self) -> impl Iterator<Item = i64> {
        let mut rest = Bytes(self.rest);
        let kept = self.count.min(TIMES_KEPT) as usize;
        let earlier = (1..kept).map_while(move |_| Some(rest.number()? as i64));
        std::iter::once(0).chain(earlier).scan(self.last_ms, |time_ms, back_ms| {
            *time_ms = time_ms.wrapping_sub(back_ms);
            Some(*time_ms)
        })
    }
}

/// The newest times and the first.
struct Times {
    /// The newest first; those behind `count` are nothing.
    kept: [i64; KEPT],
    count: usize,
    first_ms: i64,
}

impl Times {
    fn of(history: History<'_>) -> Self {
        let mut times = Self { kept: [0; KEPT], count: 0, first_ms: history.last_ms };
        let mut rest = Bytes(history.rest);
        let kept = history.count.clamp(1, TIMES_KEPT) as usize;
        times.kept[0] = history.last_ms;
        times.count = 1;
        while times.count < kept {
            let Some(back_ms) = rest.number() else { break };
            times.first_ms = times.first_ms.wrapping_sub(back_ms as i64);
            times.kept[times.count] = times.first_ms;
            times.count += 1;
        }
        if history.count > TIMES_KEPT {
            times.first_ms = times.first_ms.wrapping_sub(rest.number().unwrap_or_default() as i64);
        }
        times
    }

    fn add(&mut self, time_ms: i64) {
        self.first_ms = self.first_ms.min(time_ms);
        let place = self.kept[..self.count].iter().position(|kept| *kept < time_ms).unwrap_or(self.count);
        if place < KEPT {
            self.count = (self.count + 1).min(KEPT);
            self.kept.copy_within(place..self.count - 1, place + 1);
            self.kept[place] = time_ms;
        }
    }

    fn last_ms(&self) -> i64 {
        self.kept[0]
    }

    fn rest(&self, count: u64) -> Vec<u8> {
        let mut rest = Vec::with_capacity(5 * self.count);
        let kept = &self.kept[..self.count];
        kept.windows(2).for_each(|two| put_number(&mut rest, two[0].wrapping_sub(two[1]) as u64));
        if count > TIMES_KEPT {
            put_number(&mut rest, kept[kept.len() - 1].wrapping_sub(self.first_ms) as u64);
        }
        rest
    }
}

/// One entry, as it is while a profile changes.
#[derive(Debug, Clone)]
pub(super) struct Entry<'a> {
    pub name: Cow<'a, [u8]>,
    count: u64,
    pub last_ms: i64,
    rest: Cow<'a, [u8]>,
}

impl<'a> Entry<'a> {
    pub(super) fn once(name: Cow<'a, [u8]>, at_ms: i64) -> Self {
        Self { name, count: 1, last_ms: at_ms, rest: Cow::Borrowed(&[]) }
    }

    fn history(&self) -> History<'_> {
        History { count: self.count, first_ms: self.last_ms, last_ms: self.last_ms, rest: &self.rest }
    }

    /// It happened once more.
    pub(super) fn add(&mut self, at_ms: i64) {
        let mut times = Times::of(self.history());
        times.add(at_ms);
        self.become_those(&times, 1);
    }

    /// Takes in what another profile knows of the same.
    pub(super) fn merge(&mut self, other: &Self) {
        let mut times = Times::of(self.history());
        let others = Times::of(other.history());
        others.kept[..others.count].iter().for_each(|time_ms| times.add(*time_ms));
        times.first_ms = times.first_ms.min(others.first_ms);
        self.become_those(&times, other.count);
    }

    fn become_those(&mut self, times: &Times, more: u64) {
        self.count = self.count.saturating_add(more);
        self.last_ms = times.last_ms();
        self.rest = Cow::Owned(times.rest(self.count));
    }

    fn inner_len(&self, base_ms: i64) -> usize {
        let back = number_len(base_ms.wrapping_sub(self.last_ms) as u64);
        sized_len(self.name.len()) + number_len(self.count) + back + self.rest.len()
    }

    pub(super) fn encoded_len(&self, base_ms: i64) -> usize {
        sized_len(self.inner_len(base_ms))
    }

    pub(super) fn encode(&self, base_ms: i64, out: &mut Vec<u8>) {
        put_number(out, self.inner_len(base_ms) as u64);
        put_sized(out, &self.name);
        put_number(out, self.count);
        put_number(out, base_ms.wrapping_sub(self.last_ms) as u64);
        out.extend_from_slice(&self.rest);
    }
}

/// All entries of a section, where they lie: each name, and what stands behind it.
pub(super) fn entries<'a>(section: &'a [u8]) -> impl Iterator<Item = (&'a [u8], Bytes<'a>)> + Clone {
    let mut section = Bytes(section);
    std::iter::from_fn(move || {
        let mut entry = Bytes(section.sized()?);
        Some((entry.sized()?, entry))
    })
}

/// What stands behind a name.
pub(super) fn history<'a>(mut entry: Bytes<'a>, base_ms: i64) -> Option<History<'a>> {
    let (count, last_ms) = (entry.number()?, base_ms.wrapping_sub(entry.number()? as i64));
    Some(History::new(count, last_ms, entry.0))
}

/// The same, for a profile that is to change.
pub(super) fn decode<'a>(section: &'a [u8], base_ms: i64) -> Option<Vec<Entry<'a>>> {
    let entry = |(name, mut entry): (&'a [u8], Bytes<'a>)| {
        let (count, last_ms) = (entry.number()?, base_ms.wrapping_sub(entry.number()? as i64));
        Some(Entry { name: Cow::Borrowed(name), count, last_ms, rest: Cow::Borrowed(entry.0) })
    };
    entries(section).map(entry).collect()
}
