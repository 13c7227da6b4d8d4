//! Columns of sealed segments without a column file. A sealed segment has no column file if the disk is full, or if the
//! program is `parallax insights`, which writes nothing into the data directory.
//!
//! Memory holds such columns up to a limit. If the columns exceed the limit, the least recently used ones are dropped,
//! and built again when a question reads them.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::build::ColumnBuilder;
use super::goals::SitesGoals;
use super::key::VisitorKey;
use crate::log::{SegmentRecords, SegmentSpan};
use crate::storage::damage::KnownDamage;
use crate::storage::disk::Disk;

/// The columns of sealed segments that have no column file.
pub(crate) struct UnstoredColumns {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    key: VisitorKey,
    /// The maximum number of bytes of the columns in memory.
    bytes_max: u64,
    cache: Mutex<ColumnCache>,
    known_damage: KnownDamage,
}

/// The columns in memory.
#[derive(Default)]
struct ColumnCache {
    /// The first entry is the least recently used.
    entries: VecDeque<CacheEntry>,
    /// The sum of the lengths of all entries.
    bytes: u64,
}

/// The columns of one segment, in the format of a column file.
struct CacheEntry {
    first_seq: u64,
    goals: Arc<SitesGoals>,
    bytes: Arc<Vec<u8>>,
}

impl UnstoredColumns {
    pub(crate) fn new(disk: Arc<dyn Disk>, directory: &Path, key: VisitorKey, bytes_max: u64) -> Self {
        let directory = directory.to_owned();
        let known_damage = KnownDamage::default();
        Self { disk, directory, key, bytes_max, cache: Mutex::default(), known_damage }
    }

    /// Returns a value with the same settings and an empty cache. When the returned value reads a segment, it
    /// reports damage to `known_damage`.
    pub(crate) fn reporting_to(&self, known_damage: KnownDamage) -> Self {
        let unstored = Self::new(Arc::clone(&self.disk), &self.directory, self.key, self.bytes_max);
        Self { known_damage, ..unstored }
    }

    /// Returns the list to which readers of the log report damage.
    pub(crate) fn known_damage(&self) -> &KnownDamage {
        &self.known_damage
    }

    /// Keeps the columns of a segment in memory. Then drops the least recently used columns until the others fit in the
    /// limit.
    pub(crate) fn keep(&self, first_seq: u64, goals: Arc<SitesGoals>, bytes: Arc<Vec<u8>>) {
        let mut cache = self.lock();
        cache.bytes += bytes.len() as u64;
        cache.entries.push_back(CacheEntry { first_seq, goals, bytes });
        while cache.bytes > self.bytes_max
            && let Some(dropped) = cache.entries.pop_front()
        {
            cache.bytes -= dropped.bytes.len() as u64;
        }
    }

    /// Drops all columns from memory.
    pub(super) fn clear(&self) {
        *self.lock() = ColumnCache::default();
    }

    /// Returns the size of the columns in memory, in bytes.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.lock().bytes
    }

    /// Returns the columns of a sealed segment with these goals from memory. If they are not in memory, builds them.
    ///
    /// # Errors
    /// Returns an error if the segment cannot be read.
    pub(super) fn find_or_build(
        &self,
        span: SegmentSpan,
        last_seq: u64,
        goals: &Arc<SitesGoals>,
    ) -> io::Result<Arc<Vec<u8>>> {
        let is_same =
            |entry: &CacheEntry| entry.first_seq == span.first_seq && Arc::ptr_eq(&entry.goals, goals);
        let mut cache = self.lock();
        if let Some(index) = cache.entries.iter().position(is_same)
            && let Some(entry) = cache.entries.remove(index)
        {
            let bytes = Arc::clone(&entry.bytes);
            cache.entries.push_back(entry);
            return Ok(bytes);
        }
        drop(cache);
        let mut builder = ColumnBuilder::new(span.first_seq, self.key).with_goals(Arc::clone(goals));
        let mut records =
            SegmentRecords::open(&self.disk, &self.directory, span, last_seq, &self.known_damage)?;
        records.read(&mut |batch| {
            batch.iter().for_each(|(_, record)| builder.add(&record));
            ControlFlow::Continue(())
        })?;
        let bytes = Arc::new(builder.to_bytes(last_seq));
        self.keep(span.first_seq, Arc::clone(goals), Arc::clone(&bytes));
        Ok(bytes)
    }

    fn lock(&self) -> MutexGuard<'_, ColumnCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
