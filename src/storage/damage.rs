//! The damaged places of a data directory, as its readers meet them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::scrub::DAMAGED_PLACES_MAX;

/// The damaged places that the readers of a data directory know. Clones share them. All readers report here, so that
/// each place is counted once, and is logged once in the life of a process.
#[derive(Debug, Clone, Default)]
pub struct KnownDamage(Arc<Mutex<Places>>);

#[derive(Debug, Default)]
struct Places {
    /// The offsets by file name. True if the place was logged.
    files: BTreeMap<String, BTreeMap<u64, bool>>,
    count: usize,
    /// True if a place was left out and this was logged.
    is_over: bool,
}

impl Places {
    /// Returns the mark of a place, which is added if it is new. `None` at the limit.
    fn mark(&mut self, file: &str, offset: u64) -> Option<&mut bool> {
        let is_new = self.files.get(file).is_none_or(|offsets| !offsets.contains_key(&offset));
        if is_new && self.count >= DAMAGED_PLACES_MAX {
            return None;
        }
        self.count += usize::from(is_new);
        Some(self.files.entry(file.to_owned()).or_default().entry(offset).or_insert(false))
    }

    /// Drops the places of a file for which `is_kept` returns false. Returns whether there was one.
    fn retain(&mut self, file: &str, is_kept: impl Fn(u64, bool) -> bool) -> bool {
        let Some(offsets) = self.files.get_mut(file) else { return false };
        let before = offsets.len();
        offsets.retain(|offset, is_logged| is_kept(*offset, *is_logged));
        let dropped = before - offsets.len();
        if offsets.is_empty() {
            self.files.remove(file);
        }
        self.count -= dropped;
        dropped > 0
    }
}

impl KnownDamage {
    /// Returns the number of known places, at most [`DAMAGED_PLACES_MAX`].
    pub fn count(&self) -> u64 {
        self.places().count as u64
    }

    /// Adds a place, and logs it if it was not logged before.
    pub fn report(&self, file: &str, offset: u64, finding: &dyn Display) {
        if self.note(file, offset) {
            tracing::error!(%finding, "found damage in the data directory");
        }
    }

    /// Adds a place. Returns true if the caller must log it.
    pub fn note(&self, file: &str, offset: u64) -> bool {
        let mut places = self.places();
        if let Some(is_logged) = places.mark(file, offset) {
            return !std::mem::replace(is_logged, true);
        }
        if !std::mem::replace(&mut places.is_over, true) {
            tracing::error!(known = DAMAGED_PLACES_MAX, "found more damage; run `parallax check`");
        }
        false
    }

    /// Adds a place that an earlier process has found. It is logged when a reader meets it again.
    pub fn restore(&self, file: &str, offset: u64) {
        self.places().mark(file, offset);
    }

    /// Drops the places of a file that a check of the whole file has not found. A file that was not replaced keeps
    /// those that a reader of this process has met. Returns whether a place was dropped.
    pub fn settle(&self, file: &str, found_offsets: &BTreeSet<u64>, is_replaced: bool) -> bool {
        let is_kept = |offset, is_logged| found_offsets.contains(&offset) || (is_logged && !is_replaced);
        self.places().retain(file, is_kept)
    }

    /// Drops the places of a file that was deleted or replaced on purpose.
    pub fn forget(&self, file: &str) {
        self.places().retain(file, |_, _| false);
    }

    /// Returns whether a place of a file is known.
    pub fn knows(&self, file: &str) -> bool {
        self.places().files.contains_key(file)
    }

    /// Returns whether a place of a file was not logged, because only an earlier process has met it.
    pub fn has_unlogged(&self, file: &str) -> bool {
        self.places().files.get(file).is_some_and(|offsets| offsets.values().any(|is_logged| !is_logged))
    }

    /// Returns the names of the files with a known place.
    pub fn files(&self) -> Vec<String> {
        self.places().files.keys().cloned().collect()
    }

    /// Returns the file and the offset of each known place.
    pub fn all(&self) -> Vec<(String, u64)> {
        let places = self.places();
        let each = places.files.iter();
        each.flat_map(|(file, offsets)| offsets.keys().map(|offset| (file.clone(), *offset))).collect()
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
