//! The tombstones of a log, and the erasure that a killed process has left: the file `erasing` names it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::LogError;
use super::directory::{LogDirectory, segment_name};
use super::scan::{BatchScanner, ScanItem};
use crate::record::{Record, RecordKind, TombstoneKey, VisitorId};
use crate::storage::disk::Disk;

/// An erasure that was interrupted, or that runs now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterruptedErasure {
    /// The seq that its first tombstone has or was to have. 0 if the file `erasing` has none.
    pub seq: u64,
    /// The time of the request by the wall clock, in milliseconds. `None` if an earlier release wrote the file.
    pub requested_ms: Option<i64>,
    /// True if the log has its tombstone. Otherwise nothing was erased, and nothing will be.
    pub is_begun: bool,
}

impl InterruptedErasure {
    /// Finds the erasure that the file `erasing` of a directory names.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn find(directory: &LogDirectory) -> io::Result<Option<Self>> {
        let Some((seq, requested_ms)) = directory.erasing()? else { return Ok(None) };
        let mut is_begun = false;
        each_tombstone(directory, seq, &mut |_, _| is_begun = true)?;
        Ok(Some(Self { seq, requested_ms, is_begun }))
    }
}

/// Passes the tombstones of the segments that begin at `from_seq` or later to `visit_tombstone`. They are the first records of
/// their segment.
pub(super) fn each_tombstone(
    directory: &LogDirectory,
    from_seq: u64,
    visit_tombstone: &mut dyn FnMut(u64, &Record<'_>),
) -> io::Result<()> {
    for first_seq in directory.segments()?.into_iter().filter(|first_seq| *first_seq >= from_seq) {
        match each_tombstone_of(directory, first_seq, visit_tombstone) {
            // Retention has deleted the segment meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
    }
    Ok(())
}

fn each_tombstone_of(
    directory: &LogDirectory,
    first_seq: u64,
    visit_tombstone: &mut dyn FnMut(u64, &Record<'_>),
) -> io::Result<()> {
    let file = directory.open_file(&segment_name(first_seq))?;
    let end = file.length()?;
    let mut scan = BatchScanner::new(file, end);
    while let Some(ScanItem::Batch { batch, .. }) = scan.next()? {
        for (seq, record) in batch.records.iter() {
            if record.kind != RecordKind::Tombstone {
                return Ok(());
            }
            visit_tombstone(seq, &record);
        }
    }
    Ok(())
}

/// Returns whether an erasure has named this ID, or may have: a quarantined tail can hold anything.
///
/// # Errors
/// The disk fails.
pub(crate) fn may_have_erased(
    disk: Arc<dyn Disk>,
    dir: &Path,
    key: &TombstoneKey,
    visitor_id: VisitorId<'_>,
) -> Result<bool, LogError> {
    let directory = LogDirectory::open_read_only(disk, dir);
    let failed = |error| LogError::io(dir, error);
    let mut is_named = !directory.quarantined_files().map_err(failed)?.is_empty();
    each_tombstone(&directory, 0, &mut |_, record| {
        is_named |= key.is_tombstone_of(record, visitor_id);
    })
    .map_err(failed)?;
    Ok(is_named)
}
