//! Finds the copies of a file of the log that an erasure has rewritten since.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::super::directory::parse_segment_name;
use super::super::format::HEADER_BYTES;
use super::super::scan::{BatchScanner, ScanItem};
use crate::storage::disk::{Disk, read_full};

/// Returns whether an erasure has rewritten a segment or a quarantined tail since `copy_path` was copied from it:
/// `present_path` has other bytes in the place of a whole batch. A segment that has only grown, or that was sealed, has
/// the same batches in the same places.
///
/// # Errors
/// An I/O error.
pub(crate) fn is_rewritten(disk: &Arc<dyn Disk>, copy_path: &Path, present_path: &Path) -> io::Result<bool> {
    let copy = disk.open(copy_path)?;
    let present = disk.open(present_path)?;
    let name = copy_path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let end = copy.length()?;
    let mut scanner = BatchScanner::new(copy, end);
    // A quarantined tail has no header.
    scanner.seek(if parse_segment_name(name).is_some() { HEADER_BYTES as u64 } else { 0 });
    let mut bytes = Vec::new();
    while let Some(item) = scanner.next()? {
        let ScanItem::Batch { offset, batch } = item else { continue };
        bytes.resize(batch.bytes.len(), 0);
        let length = read_full(&*present, &mut bytes, offset)?;
        if bytes[..length] != *batch.bytes {
            return Ok(true);
        }
    }
    Ok(false)
}
