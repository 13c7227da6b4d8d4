//! Checks of every checksum of a segment or of the whole log directory.

use std::path::Path;
use std::sync::Arc;

use super::LogError;
use super::directory::{LogDirectory, SECRET_FILE, parse_segment_name};
use super::log_clock;
use super::tombstones::InterruptedErasure;
use super::verify::{
    Damage, DamageKind, LogScan, SegmentEntry, SegmentItem, SegmentReader, damage_in, read_segment_entry,
};
use crate::record::{Record, RecordKind, TombstoneKey};
use crate::storage::disk::Disk;

/// The results of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Segments that were checked.
    pub segments: usize,
    /// Valid batches.
    pub batches: u64,
    /// Records in these batches.
    pub records: u64,
    /// Records in these batches whose content was erased.
    pub void_records: u64,
    /// All damage, including torn and void tails.
    pub damage: Vec<Damage>,
    /// The erasure that a killed server has left.
    pub interrupted_erasure: Option<InterruptedErasure>,
}

/// Checks all segments of a directory, and that no record up to `durable_seq` is missing. That seq is the
/// greatest of the checkpoints, read before this call. A server may be writing to the directory.
///
/// # Errors
/// An I/O error, or a format version that this release does not know.
pub fn check_directory(disk: Arc<dyn Disk>, dir: &Path, durable_seq: u64) -> Result<CheckReport, LogError> {
    let directory = LogDirectory::open_read_only(Arc::clone(&disk), dir);
    let failed = |error| LogError::io(dir, error);
    let mut scan = LogScan::of_directory(&directory)?;
    scan.raise_watermark(durable_seq);
    scan.damage.extend(check_key(&disk, dir).map_err(failed)?);
    scan.damage.extend(log_clock::find_damage(&directory).map_err(failed)?);
    // The erasure of a running server is in progress, or its request has got an error.
    let erasure = InterruptedErasure::find(&directory).map_err(failed)?;
    let interrupted_erasure = erasure.filter(|_| !directory.is_in_use());
    Ok(CheckReport { interrupted_erasure, ..check(&directory, scan)? })
}

/// Returns whether the log in `dir` has the tombstone of an erasure that is not finished.
///
/// # Errors
/// The disk fails.
pub(crate) fn has_begun_erasure(disk: &Arc<dyn Disk>, dir: &Path) -> std::io::Result<bool> {
    let directory = LogDirectory::open_read_only(Arc::clone(disk), dir);
    Ok(InterruptedErasure::find(&directory)?.is_some_and(|erasure| erasure.is_begun))
}

/// Checks one segment alone.
///
/// # Errors
/// `InvalidInput` if the name is not a segment's, an I/O error, or a format version that this release does
/// not know.
pub fn check_file(disk: Arc<dyn Disk>, path: &Path) -> Result<CheckReport, LogError> {
    let (directory, scan) = scan_segment_file(disk, path)?;
    check(&directory, scan)
}

/// Scans the directory of the segment at `path`, as if the segment were alone in it.
pub(super) fn scan_segment_file(
    disk: Arc<dyn Disk>,
    path: &Path,
) -> Result<(LogDirectory, LogScan), LogError> {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(parse_segment_name);
    let Some(named_seq) = name else {
        let error = std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            "not the name of a segment, which is 20 digits and .segment",
        );
        return Err(LogError::io(path, error));
    };
    let directory = LogDirectory::open_read_only(disk, path.parent().unwrap_or(Path::new("")));
    let scan = LogScan::of_segment(&directory, named_seq)?;
    Ok((directory, scan))
}

fn check(directory: &LogDirectory, scan: LogScan) -> Result<CheckReport, LogError> {
    let mut report = CheckReport { damage: scan.damage, ..CheckReport::default() };
    for segment in &scan.segments {
        report.add_segment(directory, segment, scan.durable_watermark)?;
    }
    Ok(report)
}

/// Checks a segment to which nothing is written any more, and returns its unexpected damage. Reads it alone, so that
/// a slow reader of many segments does not read all headers again for each of them. A segment that retention has
/// deleted has no damage.
///
/// # Errors
/// An I/O error, or a format version that this release does not know.
pub(crate) fn check_sealed(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    first_seq: u64,
    next_seq: u64,
) -> Result<Vec<Damage>, LogError> {
    check_closed(&LogDirectory::open_read_only(Arc::clone(disk), dir), first_seq, next_seq)
}

/// Checks a segment, as [`check_sealed`] does.
pub(super) fn check_closed(
    directory: &LogDirectory,
    first_seq: u64,
    next_seq: u64,
) -> Result<Vec<Damage>, LogError> {
    let mut report = CheckReport::default();
    if let Some(entry) = read_segment_entry(directory, first_seq, &mut report.damage)? {
        let entry = SegmentEntry { void_from_seq: next_seq, ..entry };
        report.add_segment(directory, &entry, next_seq - 1)?;
    }
    report.damage.retain(|damage| damage.kind.is_unexpected());
    Ok(report.damage)
}

/// Checks the key of the tombstones of the log in `dir`. Returns the damage.
///
/// # Errors
/// An I/O error.
pub(crate) fn check_key(disk: &Arc<dyn Disk>, dir: &Path) -> std::io::Result<Option<Damage>> {
    match TombstoneKey::load(&LogDirectory::open_read_only(Arc::clone(disk), dir)) {
        Ok(Some(_)) => Ok(None),
        Err(error) if error.kind() != std::io::ErrorKind::InvalidData => Err(error),
        Ok(None) | Err(_) => Ok(Some(damage_in(SECRET_FILE, 0, 0, DamageKind::Secret, 0..0))),
    }
}

impl CheckReport {
    /// Adds the content and the damage of a segment. `durable_watermark` is the watermark of its directory.
    fn add_segment(
        &mut self,
        directory: &LogDirectory,
        segment: &SegmentEntry,
        durable_watermark: u64,
    ) -> Result<(), LogError> {
        let failed = |error| LogError::io(&directory.path(&segment.file_name()), error);
        let mut reader = match SegmentReader::new(directory, segment, durable_watermark) {
            // Retention has deleted the segment meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(failed)?,
        };
        self.segments += 1;
        while let Some(item) = reader.next().map_err(failed)? {
            match item {
                SegmentItem::Damage(damage) => self.damage.push(damage),
                SegmentItem::Batch { batch, .. } => {
                    self.batches += 1;
                    self.records += u64::from(batch.records.count);
                    let is_void = |(_, record): &(u64, Record<'_>)| record.kind == RecordKind::Void;
                    self.void_records += batch.records.iter().filter(is_void).count() as u64;
                }
            }
        }
        Ok(())
    }
}
