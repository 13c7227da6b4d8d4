//! Histories: how often and when an event name or a page occurred.
//!
//! ```text
//! entry = length of the following bytes:number | name:sized | count:number | base - last:number | rest
//! rest  = the differences between the newest TIMES_KEPT times, newest first
//!         | from the oldest of those back to the first, if there were more
//! ```
//!
//! The entries of a profile are sorted by the bytes of their names. `rest` does not depend on the base of the
//! profile, so unchanged entries are copied.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::varint::{Decoder, number_len, put_number, put_sized, sized_len};
use crate::limits::TIMES_KEPT;

const TIMES_LEN: usize = TIMES_KEPT as usize;
/// Largest encoded length of a number, in bytes: seven bits of 64 in each.
const NUMBER_BYTES_MAX: usize = 10;

/// The history of one event name or one page.
#[derive(Debug, Clone, Copy)]
pub struct History<'a> {
    /// Number of occurrences.
    pub count: u64,
    /// Time of the first occurrence.
    pub first_ms: i64,
    /// Time of the last occurrence.
    pub last_ms: i64,
    rest: &'a [u8],
}

impl<'a> History<'a> {
    fn new(count: u64, last_ms: i64, differences: &'a [u8]) -> Self {
        let mut history = Self { count, first_ms: last_ms, last_ms, rest: differences };
        history.first_ms = KeptTimes::from_history(history).first_ms;
        history
    }

    /// Returns the newest times, at most `TIMES_KEPT`, newest first.
    pub fn times(self) -> impl Iterator<Item = i64> {
        let mut rest = Decoder(self.rest);
        let kept = self.count.min(TIMES_KEPT) as usize;
        let earlier = (1..kept).map_while(move |_| Some(rest.number()? as i64));
        std::iter::once(0).chain(earlier).scan(self.last_ms, |time_ms, back_ms| {
            *time_ms = time_ms.wrapping_sub(back_ms);
            Some(*time_ms)
        })
    }
}

/// The newest times and the first time of a history.
struct KeptTimes {
    /// Newest first. Elements from `count` on are unused.
    kept: [i64; TIMES_LEN],
    count: usize,
    first_ms: i64,
}

impl KeptTimes {
    fn from_history(history: History<'_>) -> Self {
        let mut times = Self { kept: [0; TIMES_LEN], count: 0, first_ms: history.last_ms };
        let mut rest = Decoder(history.rest);
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

    fn add(&mut self, at_ms: i64) {
        self.first_ms = self.first_ms.min(at_ms);
        let place = self.kept[..self.count].iter().position(|kept| *kept < at_ms).unwrap_or(self.count);
        if place < TIMES_LEN {
            self.count = (self.count + 1).min(TIMES_LEN);
            self.kept.copy_within(place..self.count - 1, place + 1);
            self.kept[place] = at_ms;
        }
    }

    fn last_ms(&self) -> i64 {
        self.kept[0]
    }

    fn rest(&self, total_count: u64) -> Vec<u8> {
        let mut rest = Vec::with_capacity(5 * self.count);
        let kept = &self.kept[..self.count];
        kept.windows(2).for_each(|two| put_number(&mut rest, two[0].wrapping_sub(two[1]) as u64));
        if total_count > TIMES_KEPT {
            put_number(&mut rest, kept[kept.len() - 1].wrapping_sub(self.first_ms) as u64);
        }
        rest
    }
}

/// A history of a profile being modified.
#[derive(Debug, Clone)]
pub(super) struct HistoryEntry<'a> {
    pub name: Cow<'a, [u8]>,
    count: u64,
    pub last_ms: i64,
    rest: Cow<'a, [u8]>,
}

impl<'a> HistoryEntry<'a> {
    pub(super) fn new(name: Cow<'a, [u8]>, at_ms: i64) -> Self {
        Self { name, count: 1, last_ms: at_ms, rest: Cow::Borrowed(&[]) }
    }

    /// Decodes the part of an entry after its name.
    fn decode(name: &'a [u8], mut decoder: Decoder<'a>, base_ms: i64) -> Option<Self> {
        let count = decoder.number()?;
        let last_ms = base_ms.wrapping_sub(decoder.number()? as i64);
        Some(Self { name: Cow::Borrowed(name), count, last_ms, rest: Cow::Borrowed(decoder.0) })
    }

    fn decode_history(&self) -> History<'_> {
        History { count: self.count, first_ms: self.last_ms, last_ms: self.last_ms, rest: &self.rest }
    }

    /// Adds one occurrence.
    pub(super) fn add(&mut self, at_ms: i64) {
        if at_ms >= self.last_ms && self.count < TIMES_KEPT {
            return self.add_newest(at_ms);
        }
        let mut times = KeptTimes::from_history(self.decode_history());
        times.add(at_ms);
        self.set_times(&times, 1);
    }

    /// Adds an occurrence that is not before the last one. While the history keeps all times, `rest` only gets one more
    /// difference at its front.
    fn add_newest(&mut self, at_ms: i64) {
        let mut rest = Vec::with_capacity(NUMBER_BYTES_MAX + self.rest.len());
        put_number(&mut rest, at_ms.wrapping_sub(self.last_ms) as u64);
        rest.extend_from_slice(&self.rest);
        (self.count, self.last_ms, self.rest) = (self.count + 1, at_ms, Cow::Owned(rest));
    }

    /// Merges the history of the same name in another profile into this one.
    pub(super) fn merge(&mut self, other: &Self) {
        let mut times = KeptTimes::from_history(self.decode_history());
        let others = KeptTimes::from_history(other.decode_history());
        others.kept[..others.count].iter().for_each(|time_ms| times.add(*time_ms));
        times.first_ms = times.first_ms.min(others.first_ms);
        self.set_times(&times, other.count);
    }

    fn set_times(&mut self, times: &KeptTimes, extra_count: u64) {
        self.count = self.count.saturating_add(extra_count);
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

/// Iterates over the encoded entries of a section: each name, and a decoder for the bytes after it.
pub(super) fn entries<'a>(section: &'a [u8]) -> impl Iterator<Item = (&'a [u8], Decoder<'a>)> + Clone {
    let mut section = Decoder(section);
    std::iter::from_fn(move || {
        let mut entry = Decoder(section.sized()?);
        Some((entry.sized()?, entry))
    })
}

/// Decodes the part of an entry after its name.
pub(super) fn history<'a>(mut decoder: Decoder<'a>, base_ms: i64) -> Option<History<'a>> {
    let count = decoder.number()?;
    let last_ms = base_ms.wrapping_sub(decoder.number()? as i64);
    Some(History::new(count, last_ms, decoder.0))
}

/// Iterates over the entries of a section, decoded for a profile being modified.
pub(super) fn decode_entries<'a>(section: &'a [u8], base_ms: i64) -> impl Iterator<Item = HistoryEntry<'a>> {
    entries(section).map_while(move |(name, entry)| HistoryEntry::decode(name, entry, base_ms))
}

/// Finds the place of `name` in a section: the offset of its entry, or of the first entry that sorts after it. Returns
/// the entry, if there is one, with the bytes after it.
pub(super) fn find_place<'a>(
    section: &'a [u8],
    name: &[u8],
    base_ms: i64,
) -> (usize, Option<(HistoryEntry<'a>, &'a [u8])>) {
    let mut rest = Decoder(section);
    loop {
        let at = section.len() - rest.0.len();
        let Some(mut entry) = rest.sized().map(Decoder) else { return (at, None) };
        let Some(found) = entry.sized() else { return (at, None) };
        match found.cmp(name) {
            Ordering::Less => {}
            Ordering::Equal => {
                let entry = HistoryEntry::decode(found, entry, base_ms);
                return (at, entry.map(|entry| (entry, rest.0)));
            }
            Ordering::Greater => return (at, None),
        }
    }
}

/// Appends the entries of a section with other times: those of `section` count back from `from_ms`, the appended ones
/// from `to_ms`.
pub(super) fn rebase(section: &[u8], from_ms: i64, to_ms: i64, out: &mut Vec<u8>) {
    if from_ms == to_ms {
        return out.extend_from_slice(section);
    }
    let more_ms = to_ms.wrapping_sub(from_ms) as u64;
    let mut section = Decoder(section);
    while let Some(entry) = section.sized() {
        let mut rest = Decoder(entry);
        if rest.sized().and_then(|_name| rest.number()).is_none() {
            return;
        }
        let head = &entry[..entry.len() - rest.0.len()];
        let Some(back_ms) = rest.number() else { return };
        let back_ms = back_ms.wrapping_add(more_ms);
        put_number(out, (head.len() + number_len(back_ms) + rest.0.len()) as u64);
        out.extend_from_slice(head);
        put_number(out, back_ms);
        out.extend_from_slice(rest.0);
    }
}
