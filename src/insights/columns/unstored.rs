//! The columns of sealed segments that have no column file, because the disk has no room for one or because
//! `parallax insights` writes nothing into the data directory.
//!
//! Memory holds them up to a limit. Beyond it they are built again whenever a question reads them.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::build::{ColumnBuilder, VisitorKey};
use crate::storage::damage::KnownDamage;
use crate::storage::disk::Disk;
use crate::visitors::log::{SegmentRecords, SegmentSpan};

/// The columns that have no column file.
pub(crate) struct UnstoredColumns {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    key: VisitorKey,
    /// Bytes of the columns in memory.
    bytes_max: u64,
    kept: Mutex<Kept>,
    known_damage: KnownDamage,
}

/// The columns in memory, with their first seqs. The last one was used last.
#[derive(Default)]
struct Kept {
    files: VecDeque<(u64, Arc<Vec<u8>>)>,
    bytes: u64,
}

impl UnstoredColumns {
    pub(crate) fn new(disk: Arc<dyn Disk>, directory: &Path, key: VisitorKey, bytes_max: u64) -> Self {
        let (directory, kept) = (directory.to_owned(), Mutex::default());
        Self { disk, directory, key, bytes_max, kept, known_damage: KnownDamage::default() }
    }

    /// Returns columns of the same log, whose reader reports the damage that it meets.
    pub(crate) fn reporting_to(&self, known_damage: KnownDamage) -> Self {
        let unreported = Self::new(Arc::clone(&self.disk), &self.directory, self.key, self.bytes_max);
        Self { known_damage, ..unreported }
    }

    /// Returns the place where readers of the log report damage.
    pub(crate) fn known_damage(&self) -> &KnownDamage {
        &self.known_damage
    }

    /// Keeps the columns of a segment in memory. Drops those that were not used for the longest time.
    pub(crate) fn keep(&self, first_seq: u64, bytes: Arc<Vec<u8>>) {
        let mut kept = self.lock();
        kept.bytes += bytes.len() as u64;
        kept.files.push_back((first_seq, bytes));
        while kept.bytes > self.bytes_max
            && let Some((_, dropped)) = kept.files.pop_front()
        {
            kept.bytes -= dropped.len() as u64;
        }
    }

    /// Drops all columns from memory.
    pub(crate) fn clear(&self) {
        *self.lock() = Kept::default();
    }

    /// Returns the bytes of the columns in memory.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.lock().bytes
    }

    /// Returns the columns of a sealed segment.
    ///
    /// # Errors
    /// The segment cannot be read.
    pub(crate) fn find_or_build(&self, span: SegmentSpan, last_seq: u64) -> io::Result<Arc<Vec<u8>>> {
        let mut kept = self.lock();
        if let Some(at) = kept.files.iter().position(|(first_seq, _)| *first_seq == span.first_seq)
            && let Some(found) = kept.files.remove(at)
        {
            let bytes = Arc::clone(&found.1);
            kept.files.push_back(found);
            return Ok(bytes);
        }
        drop(kept);
        let mut builder = ColumnBuilder::new(span.first_seq, self.key);
        let mut records =
            SegmentRecords::open(&self.disk, &self.directory, span, last_seq, &self.known_damage)?;
        records.read(&mut |batch| {
            batch.iter().for_each(|(_, record)| builder.add(&record));
            ControlFlow::Continue(())
        })?;
        let bytes = Arc::new(builder.to_bytes(last_seq));
        self.keep(span.first_seq, Arc::clone(&bytes));
        Ok(bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
