//! Checks of every checksum of a segment or of the whole log directory.

use std::path::Path;
use std::sync::Arc;

use super::LogError;
use super::directory::{LogDirectory, SECRET_FILE, parse_segment_name};
use super::erase::InterruptedErasure;
use super::erase::secret::TombstoneKey;
use super::log_clock;
use super::record::{Record, RecordKind};
use super::verify::{Damage, DamageKind, LogScan, SegmentItem, SegmentReader, damage_in};
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
    let directory = LogDirectory::open_read_only(disk, dir);
    let failed = |error| LogError::io(dir, error);
    let mut survey = LogScan::of_directory(&directory)?;
    survey.raise_watermark(durable_seq);
    if !has_secret(&directory).map_err(failed)? {
        survey.damage.push(damage_in(SECRET_FILE, 0, 0, DamageKind::Secret, 0..0));
    }
    survey.damage.extend(log_clock::find_damage(&directory).map_err(failed)?);
    let interrupted_erasure = interrupted_erasure(&directory).map_err(failed)?;
    Ok(CheckReport { interrupted_erasure, ..check(&directory, survey)? })
}

/// Returns whether the log in `dir` has the tombstone of an erasure that is not finished.
///
/// # Errors
/// The disk fails.
pub(crate) fn has_begun_erasure(disk: &Arc<dyn Disk>, dir: &Path) -> std::io::Result<bool> {
    let directory = LogDirectory::open_read_only(Arc::clone(disk), dir);
    Ok(InterruptedErasure::find(&directory)?.is_some_and(|erasure| erasure.is_begun))
}

/// Returns the erasure that a killed server has left. That of a running server is in progress, or its request has got
/// an error.
fn interrupted_erasure(directory: &LogDirectory) -> std::io::Result<Option<InterruptedErasure>> {
    let found = InterruptedErasure::find(directory)?;
    Ok(found.filter(|_| !directory.is_in_use()))
}

/// Returns whether the directory has an intact key of its tombstones.
fn has_secret(directory: &LogDirectory) -> std::io::Result<bool> {
    match TombstoneKey::load(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Ok(false),
        other => other.map(|key| key.is_some()),
    }
}

/// Checks one segment alone.
///
/// # Errors
/// `InvalidInput` if the name is not a segment's, an I/O error, or a format version that this release does
/// not know.
pub fn check_file(disk: Arc<dyn Disk>, path: &Path) -> Result<CheckReport, LogError> {
    let (directory, survey) = scan_segment_file(disk, path)?;
    check(&directory, survey)
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
    let survey = LogScan::of_segment(&directory, named_seq)?;
    Ok((directory, survey))
}

fn check(directory: &LogDirectory, survey: LogScan) -> Result<CheckReport, LogError> {
    let mut checked = CheckReport { damage: survey.damage, ..CheckReport::default() };
    for place in &survey.segments {
        let failed = |error| LogError::io(&directory.path(&place.file_name()), error);
        let mut walk = match SegmentReader::new(directory, place, survey.durable_watermark) {
            // Retention has deleted the segment meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            other => other.map_err(failed)?,
        };
        checked.segments += 1;
        while let Some(passage) = walk.next().map_err(failed)? {
            match passage {
                SegmentItem::Damage(finding) => checked.damage.push(finding),
                SegmentItem::Batch { batch, .. } => {
                    checked.batches += 1;
                    checked.records += u64::from(batch.records.count);
                    let is_void = |(_, record): &(u64, Record<'_>)| record.kind == RecordKind::Void;
                    checked.void_records += batch.records.iter().filter(is_void).count() as u64;
                }
            }
        }
    }
    Ok(checked)
}
