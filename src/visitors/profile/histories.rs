//! The histories of a profile being modified.
//!
//! Most events change one history and leave the others as they are. So the histories stay encoded, and a changed one
//! takes its place among them. Only a merge and a limit decode all of them.

use std::borrow::Cow;

use super::history::{self, HistoryEntry};

/// The histories of event names, or of pages, of a profile being modified. Sorted by name.
#[derive(Debug, Clone)]
pub(super) enum BoundedHistories<'a> {
    Encoded(EncodedHistories<'a>),
    Decoded(Vec<HistoryEntry<'a>>),
}

/// The entries of a section, of which at most one is changed or added.
#[derive(Debug, Clone)]
pub(super) struct EncodedHistories<'a> {
    /// The entries before the changed one.
    before: &'a [u8],
    changed: Option<HistoryEntry<'a>>,
    is_added: bool,
    /// The entries after the changed one.
    after: &'a [u8],
    /// The base of the encoded times.
    base_ms: i64,
}

impl Default for BoundedHistories<'_> {
    fn default() -> Self {
        Self::new(&[], 0)
    }
}

impl<'a> BoundedHistories<'a> {
    /// Creates the histories of a section.
    pub(super) fn new(section: &'a [u8], base_ms: i64) -> Self {
        Self::Encoded(EncodedHistories {
            before: &[],
            changed: None,
            is_added: false,
            after: section,
            base_ms,
        })
    }

    /// Adds one occurrence of `name`.
    pub(super) fn add(&mut self, name: Cow<'a, [u8]>, at_ms: i64) {
        if let Self::Encoded(encoded) = self
            && encoded.changed.is_none()
        {
            return encoded.add(name, at_ms);
        }
        let entries = self.decode();
        match search(entries, &name) {
            Ok(place) => entries[place].add(at_ms),
            Err(place) => entries.insert(place, HistoryEntry::new(name, at_ms)),
        }
    }

    /// Merges the histories of another profile into these.
    pub(super) fn merge(&mut self, mut other: Self) {
        let entries = self.decode();
        for theirs in other.decode().drain(..) {
            match search(entries, &theirs.name) {
                Ok(place) => entries[place].merge(&theirs),
                Err(place) => entries.insert(place, theirs),
            }
        }
    }

    /// Removes the least recent histories until at most `count_max` are left.
    pub(super) fn truncate(&mut self, count_max: usize) {
        // A profile in the table is within the limit.
        if matches!(self, Self::Encoded(encoded) if !encoded.is_added || encoded.count() <= count_max) {
            return;
        }
        while self.decode().len() > count_max
            && let Some((place, ..)) = self.least_recent()
        {
            self.decode().remove(place);
        }
    }

    /// Returns the least recent history: its index, last time and name.
    pub(super) fn least_recent(&mut self) -> Option<(usize, i64, &[u8])> {
        let entries = self.decode();
        let recency = |(place, found): (usize, &'_ HistoryEntry<'a>)| (found.last_ms, place);
        let (last_ms, place) = entries.iter().enumerate().map(recency).min()?;
        Some((place, last_ms, &entries[place].name))
    }

    /// Keeps the histories whose names `is_kept` accepts.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&[u8]) -> bool) {
        self.decode().retain(|history| is_kept(&history.name));
    }

    /// Removes a history and returns its encoded length.
    pub(super) fn remove(&mut self, index: usize, base_ms: i64) -> usize {
        self.decode().remove(index).encoded_len(base_ms)
    }

    pub(super) fn encode(&self, base_ms: i64, out: &mut Vec<u8>) {
        match self {
            Self::Encoded(encoded) => {
                history::rebase(encoded.before, encoded.base_ms, base_ms, out);
                encoded.changed.iter().for_each(|entry| entry.encode(base_ms, out));
                history::rebase(encoded.after, encoded.base_ms, base_ms, out);
            }
            Self::Decoded(entries) => entries.iter().for_each(|entry| entry.encode(base_ms, out)),
        }
    }

    /// Decodes all histories, unless they are decoded.
    fn decode(&mut self) -> &mut Vec<HistoryEntry<'a>> {
        if let Self::Encoded(encoded) = self {
            *self = Self::Decoded(encoded.decode());
        }
        match self {
            Self::Decoded(entries) => entries,
            Self::Encoded(_) => unreachable!("the histories were decoded"),
        }
    }
}

impl<'a> EncodedHistories<'a> {
    /// Adds one occurrence of `name`. No entry is changed yet.
    fn add(&mut self, name: Cow<'a, [u8]>, at_ms: i64) {
        let section = self.after;
        let (at, found) = history::find_place(section, &name, self.base_ms);
        (self.before, self.after) = section.split_at(at);
        self.is_added = found.is_none();
        self.changed = Some(match found {
            Some((mut entry, after)) => {
                self.after = after;
                entry.add(at_ms);
                entry
            }
            None => HistoryEntry::new(name, at_ms),
        });
    }

    fn count(&self) -> usize {
        let counts = [self.before, self.after].map(|section| history::entries(section).count());
        counts[0] + counts[1] + usize::from(self.changed.is_some())
    }

    fn decode(&mut self) -> Vec<HistoryEntry<'a>> {
        let [before, after] =
            [self.before, self.after].map(|section| history::decode_entries(section, self.base_ms));
        before.chain(self.changed.take()).chain(after).collect()
    }
}

fn search(entries: &[HistoryEntry<'_>], name: &[u8]) -> Result<usize, usize> {
    entries.binary_search_by(|found| (*found.name).cmp(name))
}
