//! Restores a backup: copies a data directory to an empty or new one. The copy is another log, because it will
//! give the seqs after the backup to other records. So it gets an ID of its own.
//!
//! The copy gets a temporary name beside its target. It is complete and synced before it gets its name, so an
//! interrupted restore leaves no directory that a server would use.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::storage::disk::{Disk, DiskFile, append_all, copy_range, list_if_present, read_full};
use crate::visitors::checkpoint::directory::seq_of;
use crate::visitors::checkpoint::format::{self as checkpoint, trailer_to_bytes};
use crate::visitors::checkpoint::reader::CheckpointReader;
use crate::visitors::log::format as segment;
use crate::visitors::log::{COLUMNS_KEY_FILE, COLUMNS_SUFFIX, LogId, parse_segment_name};

/// Suffix of the directory while it is being written.
const UNFINISHED: &str = ".restoring";

/// The size of a restored directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RestoreSummary {
    /// The ID of the new log.
    pub log_id: LogId,
    /// Number of files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// An error of a restore. The target is as it was before.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackupError {
    /// The target has files.
    #[error("{} is not empty; choose a directory that is empty or does not exist", dir.display())]
    NotEmpty {
        /// The target.
        dir: PathBuf,
    },
    /// The operating system returned an error.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// Copies the data directory `backup`, its secret included, to `target`, which is empty or does not exist.
///
/// # Errors
/// The target is not empty, or an I/O error occurs.
pub(crate) fn restore(disk: &dyn Disk, backup: &Path, target: &Path) -> Result<RestoreSummary, BackupError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| BackupError::Io { path, source }
    };
    if !list_if_present(disk, target).map_err(failed(target))?.is_empty() {
        return Err(BackupError::NotEmpty { dir: target.to_owned() });
    }
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unfinished = unfinished_path(target);
    disk.create_directory(&unfinished).map_err(failed(&unfinished))?;
    for name in disk.list(&unfinished).map_err(failed(&unfinished))? {
        disk.unlink(&unfinished.join(&name)).map_err(failed(&unfinished))?;
    }
    let mut summary = RestoreSummary { log_id: LogId::random(), files: 0, bytes: 0 };
    for name in disk.list(backup).map_err(failed(backup))?.iter().filter(|name| is_needed(name)) {
        let copied = copy_file(disk, &backup.join(name), &unfinished.join(name), summary.log_id);
        summary.bytes += copied.map_err(failed(&backup.join(name)))?;
        summary.files += 1;
    }
    let renamed = disk.sync_directory(&unfinished).and_then(|()| disk.rename(&unfinished, target));
    renamed.and_then(|()| disk.sync_directory(parent)).map_err(failed(target))?;
    Ok(summary)
}

/// Returns whether a file is part of a backup. Names that begin with a dot are files that were being written. The
/// column files and their key are derived from the log.
fn is_needed(name: &str) -> bool {
    !name.starts_with('.') && !name.ends_with(COLUMNS_SUFFIX) && name != COLUMNS_KEY_FILE
}

/// Returns a path beside `target`, also if it ends with a slash.
fn unfinished_path(target: &Path) -> PathBuf {
    let mut name = target.components().as_path().as_os_str().to_owned();
    name.push(UNFINISHED);
    PathBuf::from(name)
}

/// Copies and syncs a file. In segments and checkpoints it changes the ID of the log. Returns the length of the
/// copy in bytes.
fn copy_file(disk: &dyn Disk, from: &Path, to: &Path, log_id: LogId) -> io::Result<u64> {
    let source = disk.open(from)?;
    let name = from.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut copy = disk.create(to)?;
    if parse_segment_name(name).is_some() {
        copy_segment(&*source, &mut *copy, log_id)?;
    } else if seq_of(name).is_some() {
        copy_checkpoint(disk, from, &mut *copy, log_id)?;
    } else {
        copy_range(&*source, 0..u64::MAX, &mut *copy)?;
    }
    copy.sync_data()?;
    copy.length()
}

fn copy_segment(from: &dyn DiskFile, to: &mut dyn DiskFile, log_id: LogId) -> io::Result<()> {
    let mut head = [0; segment::HEADER_BYTES];
    let length = read_full(from, &mut head, 0)?;
    let header = segment::Header::from_bytes(&head[..length])
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "damaged header"))?;
    append_all(to, &segment::Header { log_id, ..header }.to_bytes())?;
    copy_range(from, segment::HEADER_BYTES as u64..u64::MAX, to)
}

/// Copies a checkpoint. Its trailer has the checksum of the header, so the copy has a new one.
fn copy_checkpoint(disk: &dyn Disk, from: &Path, to: &mut dyn DiskFile, log_id: LogId) -> io::Result<()> {
    let opened = CheckpointReader::open(disk, from)
        .map_err(|error| io::Error::new(ErrorKind::InvalidData, error.to_string()))?;
    let header = checkpoint::Header { log_id, ..*opened.header() }.to_bytes();
    let begin = checkpoint::HEADER_BYTES as u64;
    let end = opened.parts().iter().last().map_or(begin, |part| part.offset + part.bytes);
    append_all(to, &header)?;
    copy_range(&*disk.open(from)?, begin..end, to)?;
    append_all(to, &trailer_to_bytes(opened.parts(), &header, end))
}
