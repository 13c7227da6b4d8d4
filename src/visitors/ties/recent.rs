//! The entries since the last checkpoint, in seq order. A copy shares all chunks but the last one.

use std::sync::Arc;

use super::TieEntry;

/// Entries of a chunk: 224 KiB, which a copy of the last chunk takes at most.
const CHUNK_ENTRIES: usize = 4096;

/// The entries since a checkpoint.
#[derive(Debug, Clone, Default)]
pub struct RecentTies {
    chunks: Vec<Arc<Vec<TieEntry>>>,
    tail: Vec<TieEntry>,
}

impl RecentTies {
    /// Adds an entry with a higher seq than all others, or with the same.
    pub fn push(&mut self, entry: TieEntry) {
        self.tail.push(entry);
        if self.tail.len() == CHUNK_ENTRIES {
            self.chunks.push(Arc::new(std::mem::take(&mut self.tail)));
        }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum::<usize>() + self.tail.len()
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over all entries.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &TieEntry> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).chain(&self.tail)
    }

    /// Iterates over the entries after a seq, in descending order.
    pub fn after(&self, seq: u64) -> impl Iterator<Item = &TieEntry> {
        self.iter().rev().take_while(move |entry| entry.seq > seq)
    }

    /// Returns all entries, sorted by anonymous ID and seq.
    pub fn sorted(&self) -> Vec<TieEntry> {
        let mut entries: Vec<TieEntry> = self.iter().copied().collect();
        entries.sort_unstable();
        entries
    }

    /// Removes the entries up to a seq, which a checkpoint has.
    pub fn remove_through(&mut self, seq: u64) {
        for chunk in &mut self.chunks {
            if chunk.first().is_some_and(|first| first.seq <= seq) {
                Arc::make_mut(chunk).retain(|entry| entry.seq > seq);
            }
        }
        self.chunks.retain(|chunk| !chunk.is_empty());
        self.tail.retain(|entry| entry.seq > seq);
    }
}
