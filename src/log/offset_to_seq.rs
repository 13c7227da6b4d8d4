//! A lookup from a byte offset of a file to the seq of the record there.

use std::io;
use std::path::Path;

use super::format::BATCH_HEADER_BYTES;
use super::scan::{BatchScanner, ScanItem};
use crate::storage::disk::Disk;

/// A lookup of records by offset. It works on any file and finds the records of whole batches, also in torn
/// and void tails.
pub(crate) struct SeqLocator {
    scan: BatchScanner,
}

impl SeqLocator {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// An I/O error.
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        let file = disk.open(path)?;
        let end = file.length()?;
        let mut scan = BatchScanner::new(file, end);
        // Begin at 0, because a quarantined tail has no header.
        scan.seek(0);
        Ok(Self { scan })
    }

    /// Returns the seq of the record that contains the byte at `offset`. Callers must ask in ascending order.
    ///
    /// # Errors
    /// An I/O error.
    pub(crate) fn seq_at(&mut self, offset: u64) -> io::Result<Option<u64>> {
        while let Some(item) = self.scan.next()? {
            let (item_offset, bytes, seq) = match item {
                ScanItem::Damage { offset, bytes } => (offset, bytes, None),
                ScanItem::Batch { offset: batch_offset, batch } => {
                    let offset = offset.checked_sub(batch_offset + BATCH_HEADER_BYTES as u64);
                    let seq = offset.and_then(|offset| batch.records.seq_at(offset as usize));
                    (batch_offset, batch.bytes.len() as u64, seq)
                }
            };
            if offset < item_offset + bytes {
                self.scan.seek(item_offset);
                return Ok(seq);
            }
        }
        Ok(None)
    }
}
