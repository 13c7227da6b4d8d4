//! A consistent copy of the table as of one moment, made in chunks while the table changes (copy on update).
//!
//! The copy visits the nodes of the eviction lists by number. It skips a node that was put after the copy
//! began: its put order is higher. If a node that was not visited yet is replaced or removed, the copy saves
//! its old record and passes it on with the next chunk. The saved records have a limit in bytes. At the limit
//! the copy is aborted. Otherwise a table that changes faster than it is copied would be in memory twice.

use std::collections::VecDeque;

use super::entry::{EntryVisitor, cost};
use super::eviction::{EvictionEntry, EvictionLists};
use super::table::{RecordPtr, Table};

/// Memory for entries that changed before a running copy of the table reached them, the cost per entry
/// included. Beyond it the copy is aborted. It lasts for one second at 200,000 events per second of different
/// visitors.
pub const COPY_PRESERVED_BYTES_MAX: usize = 64 << 20;

impl Table {
    /// Begins a copy of the table as it is now. Ends a copy that is in progress.
    pub fn begin_copy(&mut self) {
        self.end_copy();
        self.copy_aborted = false;
        self.copy = Some(SnapshotCopy::new(&self.eviction));
    }

    /// Visits up to `nodes_max` nodes and passes their entries to `visit`, in no particular order. Returns
    /// true when the copy is complete. Without a copy in progress it passes nothing and returns false.
    pub fn copy_chunk(&mut self, nodes_max: usize, visit: &mut EntryVisitor<'_>) -> bool {
        let Some(mut copying) = self.copy.take() else { return false };
        for _ in 0..nodes_max {
            let step = copying.step(&self.eviction);
            match step {
                CopyStep::Saved(placed) | CopyStep::InTable(placed) => {
                    let (key, value) = self.key_and_value(&placed);
                    visit(key, value, placed.class, placed.order);
                }
                CopyStep::Skipped => {}
                CopyStep::Done => return true,
            }
            if let CopyStep::Saved(placed) = step {
                self.retire(placed.item);
            }
        }
        self.copy = Some(copying);
        self.maintain();
        false
    }

    /// Passes all entries to `visit`, in no particular order. A copy in progress does not change.
    pub fn visit(&self, visit: &mut EntryVisitor<'_>) {
        for placed in (0..self.eviction.node_count()).filter_map(|node| self.eviction.get(node)) {
            let (key, value) = self.key_and_value(&placed);
            visit(key, value, placed.class, placed.order);
        }
    }

    /// Returns whether a copy is in progress. It is not after the copy is complete or was aborted.
    pub fn is_copying(&self) -> bool {
        self.copy.is_some()
    }

    /// Returns whether the last copy was aborted because its saved records reached their limit.
    pub fn was_copy_aborted(&self) -> bool {
        self.copy_aborted
    }

    /// Releases the record of an entry that was replaced or removed. If a copy still needs the record,
    /// the copy saves it.
    pub(super) fn release(&mut self, node_index: u32, entry: EvictionEntry<RecordPtr>) {
        let (key, value) = self.key_and_value(&entry);
        let cost = cost(value.len());
        if let Some(mut digest) = self.digest {
            digest.remove(key, value, entry.class);
            self.digest = Some(digest);
        }
        self.cost -= cost;
        match &mut self.copy {
            Some(copying) if copying.needs(node_index, entry.order) => {
                let saved_bytes = copying.save(entry, cost as usize);
                if saved_bytes > COPY_PRESERVED_BYTES_MAX {
                    self.end_copy();
                    self.copy_aborted = true;
                }
            }
            _ => self.retire(entry.item),
        }
    }

    fn end_copy(&mut self) {
        let saved = self.copy.take().into_iter().flat_map(SnapshotCopy::into_saved);
        saved.for_each(|record| self.retire(record));
    }
}

/// A copy in progress.
#[derive(Debug)]
pub(super) struct SnapshotCopy<T> {
    /// The next node to visit.
    next_node: u32,
    /// Number of nodes when the copy began.
    node_end: u32,
    /// Nodes with this put order or a higher one were put after the copy began.
    order_end: u64,
    saved: VecDeque<(EvictionEntry<T>, usize)>,
    saved_bytes: usize,
}

/// The result of one step of a copy.
pub(super) enum CopyStep<T> {
    /// A saved entry. It is no longer in the table, so the caller retires it.
    Saved(EvictionEntry<T>),
    InTable(EvictionEntry<T>),
    /// A node that does not belong to the copy.
    Skipped,
    Done,
}

impl<T: Copy> SnapshotCopy<T> {
    /// Begins a copy as of now.
    pub(super) fn new(eviction_lists: &EvictionLists<T>) -> Self {
        let node_end = eviction_lists.node_count();
        let order_end = eviction_lists.next_order();
        Self { next_node: 0, node_end, order_end, saved: VecDeque::new(), saved_bytes: 0 }
    }

    /// Returns whether a node with this put order belongs to the copy and was not visited yet.
    pub(super) fn needs(&self, node_index: u32, order: u64) -> bool {
        order < self.order_end && node_index >= self.next_node
    }

    /// Saves an entry that leaves the table. Returns the bytes of all saved entries.
    pub(super) fn save(&mut self, entry: EvictionEntry<T>, bytes: usize) -> usize {
        self.saved.push_back((entry, bytes));
        self.saved_bytes += bytes;
        self.saved_bytes
    }

    /// Returns the next entry of the copy. Saved entries go first.
    pub(super) fn step(&mut self, eviction_lists: &EvictionLists<T>) -> CopyStep<T> {
        if let Some((placed, bytes)) = self.saved.pop_front() {
            self.saved_bytes -= bytes;
            return CopyStep::Saved(placed);
        }
        if self.next_node == self.node_end {
            return CopyStep::Done;
        }
        self.next_node += 1;
        let placed = eviction_lists.get(self.next_node - 1).filter(|placed| placed.order < self.order_end);
        placed.map_or(CopyStep::Skipped, CopyStep::InTable)
    }

    /// Returns all saved records.
    pub(super) fn into_saved(self) -> impl Iterator<Item = T> {
        self.saved.into_iter().map(|(placed, _)| placed.item)
    }
}
