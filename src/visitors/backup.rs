//! Restores a backup: copies a data directory to an empty or new one. The copy is another log, because it will
//! give the seqs after the backup to other records. So it gets an ID of its own. On a node of a cluster it is the same log: the
//! stream decides about its records.
//!
//! The copy gets a temporary name beside its target. It is complete and synced before it gets its name, so an
//! interrupted restore leaves no directory that a server would use. Erasures that the backup lacks, and those that it has in
//! part, are carried out in the copy before that.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::audit_files::{copy_audit_log, delete_audit_log};
use crate::data_files::AUDIT_DIRECTORY;
use crate::log::format as segment;
use crate::log::{
    COLUMNS_KEY_FILE, COLUMNS_SUFFIX, ErasureSummary, ListedTombstone, LogError, LogId, SCRUB_FILE, SeqRange,
    TombstoneScan, last_received_ms, parse_segment_name, scan_tombstones,
};
use crate::record::TombstoneKey;
use crate::storage::directory_of;
use crate::storage::disk::{Disk, DiskFile, append_all, copy_range, list_if_present, read_full};
use crate::visitors::checkpoint::directory::{CheckpointDirectory, seq_of};
use crate::visitors::checkpoint::format::{self as checkpoint, trailer_to_bytes};
use crate::visitors::checkpoint::reader::CheckpointReader;
use crate::visitors::checkpoint::restore::seqs_for_copy;
use crate::visitors::erasure_list::ErasureList;
use crate::visitors::restored_erasures::{self, UnfinishedError};

/// Suffix of the directory while it is being written.
const UNFINISHED: &str = ".restoring";
/// Name of the directory with the own log of a node. Only the data directory of a node of a cluster has it.
pub(crate) const OUTBOX_DIRECTORY: &str = "outbox";
/// Name of the file with the identity of a node. The backup of a data directory has it, and no outbox.
pub(crate) const NODE_FILE: &str = "node";

/// The size of a restored directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RestoreSummary {
    /// The ID of the new log.
    pub log_id: LogId,
    /// Number of files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The received time of the last record of the backup, in milliseconds. `None` if it has no record.
    pub last_received_ms: Option<i64>,
    /// The last seq of the backup.
    pub last_seq: u64,
    /// True if it is the directory of a node of a cluster, which has its own list of erasures.
    pub is_of_node: bool,
    /// The number of tombstones that the backup lacked.
    pub missing_tombstones: usize,
    /// The result of the erasures in the copy. `None` if the backup had all of them.
    pub erased: Option<ErasureSummary>,
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
    /// A node of a cluster needs no list of erasures.
    #[error(
        "{} is the directory of a node of a cluster, which carries out the erasures of the cluster by itself and needs no list of erasures",
        dir.display()
    )]
    OfNode {
        /// The backup.
        dir: PathBuf,
    },
    /// The list has the erasures of another log.
    #[error("it has the erasures of the log {listed}, and the backup is of the log {found}")]
    OtherLog {
        /// The ID of the log in the list.
        listed: LogId,
        /// The ID of the log of the backup.
        found: LogId,
    },
    /// The list was made with another key.
    #[error(
        "it was made with another file `secret` than that of the backup, so it names nobody in the backup"
    )]
    OtherSecret,
    /// The backup cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The erasures in the copy are not finished.
    #[error("cannot finish the erasures in {}: {cause}; try again", dir.display())]
    Unfinished {
        /// The copy.
        dir: PathBuf,
        /// The reason.
        cause: UnfinishedError,
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

/// Copies the data directory `backup_dir`, its secret included, to `target_dir`, which is empty or does not exist. Carries out the
/// erasures of `list` that the backup lacks, and finishes those that it has in part.
///
/// # Errors
/// The target is not empty, the list is of another log, or an I/O error occurs.
pub(crate) fn restore(
    disk: &Arc<dyn Disk>,
    backup_dir: &Path,
    target_dir: &Path,
    list: Option<&ErasureList>,
) -> Result<RestoreSummary, BackupError> {
    if !list_if_present(&**disk, target_dir).map_err(io_error(target_dir))?.is_empty() {
        return Err(BackupError::NotEmpty { dir: target_dir.to_owned() });
    }
    let (scan, missing) = compare(disk, backup_dir, list)?;
    let last_received_ms = last_received_ms(disk, backup_dir, &scan.range)?;
    let parent = directory_of(target_dir);
    let unfinished = unfinished_path(target_dir);
    let mut summary = RestoreSummary {
        log_id: LogId::random(),
        files: 0,
        bytes: 0,
        last_received_ms,
        last_seq: scan.range.last,
        is_of_node: is_of_node(&**disk, backup_dir).map_err(io_error(backup_dir))?,
        missing_tombstones: missing.len(),
        erased: None,
    };
    if let Some(log_id) = scan.range.log_id.filter(|_| summary.is_of_node) {
        summary.log_id = log_id;
    }
    copy_files(disk, backup_dir, &unfinished, &scan.range, &mut summary)?;
    if !summary.is_of_node {
        let erased = restored_erasures::carry_out(disk, &unfinished, &missing, &scan);
        let failed = |cause| BackupError::Unfinished { dir: unfinished.clone(), cause };
        summary.erased = erased.map_err(failed)?;
    }
    let renamed = disk.sync_directory(&unfinished).and_then(|()| disk.rename(&unfinished, target_dir));
    renamed.and_then(|()| disk.sync_directory(parent)).map_err(io_error(target_dir))?;
    Ok(summary)
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> BackupError + use<> {
    let path = path.to_owned();
    move |source| BackupError::Io { path: path.clone(), source }
}

/// Reads the tombstones of a backup, and finds those of a list that it lacks.
fn compare(
    disk: &Arc<dyn Disk>,
    backup_dir: &Path,
    list: Option<&ErasureList>,
) -> Result<(TombstoneScan, Vec<ListedTombstone>), BackupError> {
    let scan = scan_tombstones(disk, backup_dir)?;
    let Some(list) = list else { return Ok((scan, Vec::new())) };
    if is_of_node(&**disk, backup_dir).map_err(io_error(backup_dir))? {
        return Err(BackupError::OfNode { dir: backup_dir.to_owned() });
    }
    if let Some(found) = scan.range.log_id.filter(|found| *found != list.log_id) {
        return Err(BackupError::OtherLog { listed: list.log_id, found });
    }
    let key = TombstoneKey::read(Arc::clone(disk), backup_dir)?;
    if key.is_none_or(|key| key.check() != list.secret_check) {
        return Err(BackupError::OtherSecret);
    }
    let missing = list.missing_in(&scan);
    Ok((scan, missing))
}

/// Returns whether a directory is of a node of a cluster.
///
/// # Errors
/// The directory cannot be listed.
pub(crate) fn is_of_node(disk: &dyn Disk, dir: &Path) -> io::Result<bool> {
    Ok(disk.list(dir)?.iter().any(|name| [OUTBOX_DIRECTORY, NODE_FILE].contains(&name.as_str())))
}

/// Copies the files of a backup to the directory `unfinished_dir`, without the files that an interrupted restore has
/// left there. Counts them in `summary`.
fn copy_files(
    disk: &Arc<dyn Disk>,
    backup_dir: &Path,
    unfinished_dir: &Path,
    log_range: &SeqRange,
    summary: &mut RestoreSummary,
) -> Result<(), BackupError> {
    let checkpoints = seqs_for_copy(&CheckpointDirectory::new(Arc::clone(disk), backup_dir), log_range)
        .map_err(io_error(backup_dir))?;
    let is_kept = |name: &str| is_needed(name) && seq_of(name).is_none_or(|seq| checkpoints.contains(&seq));
    disk.create_directory(unfinished_dir).map_err(io_error(unfinished_dir))?;
    delete_audit_log(&**disk, unfinished_dir).map_err(io_error(unfinished_dir))?;
    let left = disk.list(unfinished_dir).map_err(io_error(unfinished_dir))?;
    for name in left.iter().filter(|name| *name != AUDIT_DIRECTORY) {
        disk.unlink(&unfinished_dir.join(name)).map_err(io_error(unfinished_dir))?;
    }
    for name in disk.list(backup_dir).map_err(io_error(backup_dir))?.iter().filter(|name| is_kept(name)) {
        let copied = copy_file(&**disk, &backup_dir.join(name), &unfinished_dir.join(name), summary.log_id);
        summary.bytes += copied.map_err(io_error(&backup_dir.join(name)))?;
        summary.files += 1;
    }
    let audit_log = copy_audit_log(&**disk, backup_dir, unfinished_dir, |_, _| Ok(()));
    let audit_log = audit_log.map_err(io_error(&backup_dir.join(AUDIT_DIRECTORY)))?;
    summary.files += audit_log.files;
    summary.bytes += audit_log.bytes;
    Ok(())
}

/// Returns whether a file is part of a backup. Names that begin with a dot are files that were being written. The
/// column files and their key are derived from the log. The scrub has read the files of the backup, and not the copies. The
/// directory of the audit log is copied separately. The stream has the records of an outbox.
pub(super) fn is_needed(name: &str) -> bool {
    !name.starts_with('.')
        && !name.ends_with(COLUMNS_SUFFIX)
        && ![COLUMNS_KEY_FILE, SCRUB_FILE, AUDIT_DIRECTORY, OUTBOX_DIRECTORY].contains(&name)
}

/// Returns a path beside `target_dir`, also if it ends with a slash.
fn unfinished_path(target_dir: &Path) -> PathBuf {
    let mut name = target_dir.components().as_path().as_os_str().to_owned();
    name.push(UNFINISHED);
    PathBuf::from(name)
}

/// Copies and syncs a file. In segments and checkpoints it changes the ID of the log. Returns the length of the
/// copy in bytes.
fn copy_file(disk: &dyn Disk, source_path: &Path, target_path: &Path, log_id: LogId) -> io::Result<u64> {
    let source = disk.open(source_path)?;
    let name = source_path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut copy = disk.create(target_path)?;
    if parse_segment_name(name).is_some() {
        copy_segment(&*source, &mut *copy, log_id)?;
    } else if seq_of(name).is_some() {
        copy_checkpoint(disk, source_path, &mut *copy, Some(log_id))?;
    } else {
        copy_range(&*source, 0..u64::MAX, &mut *copy)?;
    }
    copy.sync_data()?;
    copy.length()
}

fn copy_segment(source_file: &dyn DiskFile, target_file: &mut dyn DiskFile, log_id: LogId) -> io::Result<()> {
    let mut head = [0; segment::HEADER_BYTES];
    let length = read_full(source_file, &mut head, 0)?;
    let header = segment::Header::from_bytes(&head[..length])
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "damaged header"))?;
    append_all(target_file, &segment::Header { log_id, ..header }.to_bytes())?;
    copy_range(source_file, segment::HEADER_BYTES as u64..u64::MAX, target_file)
}

/// Copies a checkpoint in the present format, with another ID of the log if there is one. Its trailer has the checksum of the
/// header, so the copy has a new one.
pub(super) fn copy_checkpoint(
    disk: &dyn Disk,
    source_path: &Path,
    target_file: &mut dyn DiskFile,
    new_log_id: Option<LogId>,
) -> io::Result<()> {
    let opened = CheckpointReader::open(disk, source_path)
        .map_err(|error| io::Error::new(ErrorKind::InvalidData, error.to_string()))?;
    let log_id = new_log_id.unwrap_or(opened.header().log_id);
    let header = checkpoint::Header { log_id, ..*opened.header() }.to_bytes();
    let begin = checkpoint::HEADER_BYTES as u64;
    let end = opened.parts().iter().last().map_or(begin, |part| part.offset + part.bytes);
    append_all(target_file, &header)?;
    copy_range(&*disk.open(source_path)?, begin..end, target_file)?;
    append_all(target_file, &trailer_to_bytes(opened.parts(), &header, end))
}
