//! A cache of the entries of anonymous IDs, for a pass over the records of a log.

use std::collections::HashMap;
use std::sync::Arc;

use super::TieEntry;
use crate::limits::TIE_CACHE_ENTRIES_MAX;
use crate::record::IdTag;

/// A cache of entries by anonymous ID, with a limit on the number of entries.
#[derive(Debug, Default)]
pub struct TieCache {
    entries: HashMap<IdTag, Arc<[TieEntry]>>,
    /// The entries of all IDs, and one for each ID.
    size: usize,
}

impl TieCache {
    /// Returns the entries of an anonymous ID, if the cache has them.
    pub fn get(&self, anon_tag: IdTag) -> Option<&Arc<[TieEntry]>> {
        self.entries.get(&anon_tag)
    }

    /// Adds the entries of an anonymous ID. At [`TIE_CACHE_ENTRIES_MAX`] it first forgets all others. A list that
    /// exceeds the limit alone is not added.
    pub fn insert(&mut self, anon_tag: IdTag, entries: Arc<[TieEntry]>) {
        let size = 1 + entries.len();
        if size > TIE_CACHE_ENTRIES_MAX {
            return;
        }
        if self.size + size > TIE_CACHE_ENTRIES_MAX {
            self.entries.clear();
            self.size = 0;
        }
        let before = self.entries.insert(anon_tag, entries);
        self.size += size - before.map_or(0, |before| 1 + before.len());
    }
}
