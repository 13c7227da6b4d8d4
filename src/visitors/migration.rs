//! Migrates a data directory to the formats of this release: makes a copy in these formats beside it, compares the copy
//! with the original, and gives it the name of the original.
//!
//! ```text
//! NAME                    CONTENT
//! DIR                     the data directory: the original, and after the exchange the migrated copy
//! DIR.migrating           with a marker: a copy that is not finished. Without one: the original, directly after the exchange
//! DIR.before-migration    the original, when everything is done
//! ```
//!
//! The copy has the file `.migration`, the marker, from its first moment until it has the name of the original. So after a
//! crash at any moment each of the directories is known, `DIR` is whole, and the next run deletes a copy or finishes the names.
//!
//! The log keeps its ID and its seqs, so the positions of exports stay valid. A step from one format version to the next
//! is in [`copy_segment`]. From log format 2 to 3 only the version in the header changes: a record of version 2 means the
//! same in version 3.
//!
//! A checkpoint of an earlier release is copied only if the log no longer has all records. Otherwise the next start folds the log.
//! The audit log is copied as it is. Column files are not copied. The server builds them again.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::audit_files::{audit_log_bytes, copy_audit_log, delete_audit_log};
use super::backup::{copy_checkpoint, is_needed, is_of_node};
use super::checkpoint::directory::{CheckpointDirectory, seq_of};
use super::checkpoint::reader::CheckpointReader;
use super::checkpoint::restore::seqs_for_copy;
use super::comparison::{CompareError, compare_checkpoints, compare_files, compare_logs};
use crate::data_files::AUDIT_DIRECTORY;
use crate::log::format::{self as segment, header_version};
use crate::log::{self, LogError, SeqRange, parse_segment_name};
use crate::storage::disk::{Disk, DiskFile, RealDisk, append_all, copy_range, list_if_present, read_full};
use crate::storage::{access, directory_of};

/// The file that marks a copy.
const MARKER: &str = ".migration";
/// Suffix of the copy.
const UNFINISHED: &str = ".migrating";
/// Suffix of the original, when the copy has its name.
const ORIGINAL: &str = ".before-migration";
/// Bytes of a block of the file system. A file takes whole blocks.
const BLOCK_BYTES: u64 = 4096;

/// The result of a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Migration {
    /// All files had the present formats. Nothing was changed.
    NotNeeded,
    /// An earlier run had made the copy and was interrupted. The original now has this name.
    Finished {
        /// The original directory.
        original: PathBuf,
    },
    /// The directory was migrated.
    Done(MigrationSummary),
}

/// The content of a migrated directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MigrationSummary {
    /// The original directory.
    pub original: PathBuf,
    /// The number of segments that had an earlier format.
    pub segments: usize,
    /// The number of records in all segments, which were compared.
    pub records: u64,
    /// The number of profiles that were compared. `None` if the next start folds them.
    pub profiles: Option<u64>,
    /// The damage of the log, which the copy has too.
    pub damage: Vec<String>,
}

/// An error of a migration. The data directory is as it was before.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MigrationError {
    /// A server or another command uses the directory.
    #[error("{} is in use; stop the server that uses it", .0.display())]
    InUse(PathBuf),
    /// A node of a cluster keeps its log as it is.
    #[error(
        "{} is the directory of a node of a cluster. A node opens its log as it is and reads its visitors from the cluster, so it \
         needs no migration",
        .0.display()
    )]
    OfNode(PathBuf),
    /// The place of the copy, or of the original, is taken.
    #[error("{} exists; move it away or delete it, and try again", .0.display())]
    Exists(PathBuf),
    /// The target has files.
    #[error("{} is not empty; choose a directory that is empty or does not exist", .0.display())]
    NotEmpty(PathBuf),
    /// The target is inside the data directory.
    #[error("{} is inside the data directory; choose another place", .0.display())]
    Nested(PathBuf),
    /// The file system is too full.
    #[error("the copy needs {needed} bytes and {} has {free} bytes left; free some, or choose another disk with -o NEWDIR", dir.display())]
    NoSpace {
        /// The directory in which the copy is made.
        dir: PathBuf,
        /// Bytes of the copy.
        needed: u64,
        /// Free bytes.
        free: u64,
    },
    /// The directory cannot get the name of the original.
    #[error("cannot migrate {} in place: {source}; write the migrated directory to another place with -o NEWDIR", dir.display())]
    NotInPlace {
        /// The data directory.
        dir: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The copy cannot be used.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The operating system returned an error.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// Migrates the data directory `dir` in place. The original keeps its content and gets another name.
///
/// # Errors
/// The directory is in use, the copy cannot be made or differs, or its name cannot be exchanged.
pub(crate) fn migrate(dir: &Path) -> Result<Migration, MigrationError> {
    let dir = dir.components().as_path();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let _lock = disk.lock(dir).map_err(|error| lock_error(dir, error))?;
    let [copy_dir, original] = [UNFINISHED, ORIGINAL].map(|suffix| with_suffix(dir, suffix));
    if let Some(finished) = finish_interrupted(&disk, dir, &copy_dir, &original)? {
        return Ok(finished);
    }
    let Some(plan) = Plan::of(&disk, dir)? else { return Ok(Migration::NotNeeded) };
    if original.exists() {
        return Err(MigrationError::Exists(original));
    }
    let not_in_place = |source| MigrationError::NotInPlace { dir: dir.to_owned(), source };
    begin_copy(&*disk, &copy_dir).map_err(not_in_place)?;
    let summary = plan.copy(&disk, &copy_dir).inspect_err(|_| discard(&copy_dir))?;
    if let Err(error) = RealDisk.exchange(dir, &copy_dir) {
        discard(&copy_dir);
        return Err(not_in_place(error));
    }
    name_original(&*disk, dir, &copy_dir, &original)?;
    Ok(Migration::Done(MigrationSummary { original, ..summary }))
}

/// Migrates the data directory `dir` into the directory `target`, which is empty or does not exist. A new one gets its name when it is
/// complete. An existing one, such as a mount point, has the marker until then.
///
/// # Errors
/// As for [`migrate`].
pub(crate) fn migrate_to(dir: &Path, target: &Path) -> Result<Migration, MigrationError> {
    let target = target.components().as_path();
    let parent = fs::canonicalize(directory_of(target)).map_err(io_error(directory_of(target)))?;
    if parent.starts_with(dir) {
        return Err(MigrationError::Nested(target.to_owned()));
    }
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let _lock = disk.lock(dir).map_err(|error| lock_error(dir, error))?;
    let names = file_names(&*disk, target).map_err(io_error(target))?;
    if !names.is_empty() && !names.iter().any(|name| name == MARKER) {
        return Err(MigrationError::NotEmpty(target.to_owned()));
    }
    let Some(plan) = Plan::of(&disk, dir)? else { return Ok(Migration::NotNeeded) };
    // An interrupted run has left an unfinished copy.
    delete_files(&*disk, target)?;
    if target.exists() {
        begin_copy(&*disk, target).map_err(io_error(target))?;
        let summary = plan.copy(&disk, target).inspect_err(|_| _ = delete_files(&*disk, target))?;
        remove_marker(&*disk, target)?;
        return Ok(Migration::Done(summary));
    }
    let copy_dir = with_suffix(target, UNFINISHED);
    delete_copy(&*disk, &copy_dir)?;
    begin_copy(&*disk, &copy_dir).map_err(io_error(&copy_dir))?;
    let summary = plan.copy(&disk, &copy_dir).inspect_err(|_| discard(&copy_dir))?;
    let renamed = disk.rename(&copy_dir, target).and_then(|()| disk.sync_directory(directory_of(target)));
    renamed.inspect_err(|_| discard(&copy_dir)).map_err(io_error(target))?;
    remove_marker(&*disk, target)?;
    Ok(Migration::Done(summary))
}

fn lock_error(dir: &Path, error: io::Error) -> MigrationError {
    match error.kind() {
        io::ErrorKind::WouldBlock => MigrationError::InUse(dir.to_owned()),
        _ => io_error(dir)(error),
    }
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> MigrationError + use<> {
    let path = path.to_owned();
    move |source| MigrationError::Io { path: path.clone(), source }
}

fn with_suffix(dir: &Path, suffix: &str) -> PathBuf {
    let mut name = dir.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Finishes or deletes the files of a run that was interrupted. Returns a result if the copy has the name of the original.
fn finish_interrupted(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    copy_dir: &Path,
    original: &Path,
) -> Result<Option<Migration>, MigrationError> {
    if !is_marked(&**disk, dir)? {
        delete_copy(&**disk, copy_dir)?;
        return Ok(None);
    }
    if copy_dir.exists() {
        name_original(&**disk, dir, copy_dir, original)?;
    } else {
        remove_marker(&**disk, dir)?;
    }
    Ok(Some(Migration::Finished { original: original.to_owned() }))
}

/// Gives the original its last name after the exchange. Then the copy is the data directory.
fn name_original(
    disk: &dyn Disk,
    dir: &Path,
    copy_dir: &Path,
    original: &Path,
) -> Result<(), MigrationError> {
    let parent = directory_of(dir);
    let renamed = disk
        .sync_directory(parent)
        .and_then(|()| disk.rename(copy_dir, original))
        .and_then(|()| disk.sync_directory(parent));
    renamed.map_err(io_error(original))?;
    remove_marker(disk, dir)
}

fn is_marked(disk: &dyn Disk, dir: &Path) -> Result<bool, MigrationError> {
    let names = list_if_present(disk, dir).map_err(io_error(dir))?;
    Ok(names.iter().any(|name| name == MARKER))
}

fn remove_marker(disk: &dyn Disk, dir: &Path) -> Result<(), MigrationError> {
    let removed = disk.unlink(&dir.join(MARKER)).and_then(|()| disk.sync_directory(dir));
    removed.map_err(io_error(dir))
}

/// Creates the directory of the copy with its marker.
fn begin_copy(disk: &dyn Disk, copy_dir: &Path) -> io::Result<()> {
    disk.create_directory(copy_dir)?;
    disk.create(&copy_dir.join(MARKER))?.sync_data()?;
    disk.sync_directory(copy_dir)
}

/// Returns the names of the regular files of a directory. A mount point can have the directory `lost+found`. A missing directory has
/// no files.
fn file_names(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<String>> {
    let mut names = list_if_present(disk, dir)?;
    names.retain(|name| dir.join(name).symlink_metadata().is_ok_and(|metadata| metadata.is_file()));
    Ok(names)
}

/// Deletes the directory of a copy that is not finished, if there is one.
///
/// # Errors
/// The directory has files and no marker, so it is no copy.
fn delete_copy(disk: &dyn Disk, copy_dir: &Path) -> Result<(), MigrationError> {
    if !copy_dir.exists() {
        return Ok(());
    }
    let names = disk.list(copy_dir).map_err(io_error(copy_dir))?;
    if !names.is_empty() && !names.iter().any(|name| name == MARKER) {
        return Err(MigrationError::Exists(copy_dir.to_owned()));
    }
    delete_files(disk, copy_dir)?;
    remove_directory_if_present(&copy_dir.join(AUDIT_DIRECTORY))?;
    fs::remove_dir(copy_dir).map_err(io_error(copy_dir))
}

fn remove_directory_if_present(dir: &Path) -> Result<(), MigrationError> {
    match fs::remove_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(dir)(error)),
        _ => Ok(()),
    }
}

/// Deletes the files of a directory, the marker last.
fn delete_files(disk: &dyn Disk, copy_dir: &Path) -> Result<(), MigrationError> {
    let failed = io_error(copy_dir);
    delete_audit_log(disk, copy_dir).map_err(&failed)?;
    let mut names = file_names(disk, copy_dir).map_err(&failed)?;
    names.sort_by_key(|name| name == MARKER);
    names.iter().try_for_each(|name| disk.unlink(&copy_dir.join(name))).map_err(failed)
}

/// Deletes the copy after an error, which is reported instead of an error here. The next run deletes the remaining files.
fn discard(copy_dir: &Path) {
    let _ = delete_copy(&RealDisk, copy_dir);
}

/// The files that a migration copies.
struct Plan {
    dir: PathBuf,
    /// The files, without checkpoints, and their lengths.
    files: BTreeMap<String, u64>,
    /// The checkpoints, and their lengths.
    checkpoints: BTreeMap<String, u64>,
    /// The number of segments of an earlier format.
    earlier_segments: usize,
    range: SeqRange,
}

impl Plan {
    /// Plans a migration. Returns `None` if all files have the present formats.
    fn of(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Option<Self>, MigrationError> {
        let failed = io_error(dir);
        if is_of_node(&**disk, dir).map_err(&failed)? {
            return Err(MigrationError::OfNode(dir.to_owned()));
        }
        let range = log::seq_range(Arc::clone(disk), dir)?;
        let mut plan = Self {
            dir: dir.to_owned(),
            files: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            earlier_segments: 0,
            range,
        };
        let checkpoint_dir = CheckpointDirectory::new(Arc::clone(disk), dir);
        let kept_seqs = seqs_for_copy(&checkpoint_dir, &range).map_err(&failed)?;
        let mut earlier_checkpoints = 0;
        for name in file_names(&**disk, dir).map_err(&failed)?.into_iter().filter(|name| is_needed(name)) {
            let path = dir.join(&name);
            let bytes = disk.open(&path).and_then(|file| file.length()).map_err(io_error(&path))?;
            if parse_segment_name(&name).is_some() {
                let version = segment_version(&**disk, &path).map_err(io_error(&path))?;
                let is_earlier = version.is_some_and(|version| version < segment::FORMAT_VERSION);
                plan.earlier_segments += usize::from(is_earlier);
            }
            let Some(seq) = seq_of(&name) else {
                plan.files.insert(name, bytes);
                continue;
            };
            let opened = CheckpointReader::open(&**disk, &path);
            earlier_checkpoints += usize::from(opened.is_ok_and(|reader| reader.is_of_earlier_fold()));
            if kept_seqs.contains(&seq) {
                plan.checkpoints.insert(name, bytes);
            }
        }
        Ok((plan.earlier_segments + earlier_checkpoints > 0).then_some(plan))
    }

    /// Makes the copy in `copy_dir` and compares it with the original.
    fn copy(&self, disk: &Arc<dyn Disk>, copy_dir: &Path) -> Result<MigrationSummary, MigrationError> {
        self.check_space(&**disk, copy_dir)?;
        for name in self.files.keys().chain(self.checkpoints.keys()) {
            let [source, target] = [&self.dir, copy_dir].map(|dir: &Path| dir.join(name));
            copy_file(&**disk, name, &source, &target).map_err(io_error(&target))?;
        }
        copy_audit_log(&**disk, &self.dir, copy_dir, access::copy_access).map_err(io_error(copy_dir))?;
        let [audit, audit_copy] = [&self.dir, copy_dir].map(|dir: &Path| dir.join(AUDIT_DIRECTORY));
        if audit_copy.exists() {
            access::copy_access(&audit, &audit_copy).map_err(io_error(&audit_copy))?;
        }
        access::copy_access(&self.dir, copy_dir).map_err(io_error(copy_dir))?;
        disk.sync_directory(copy_dir).map_err(io_error(copy_dir))?;
        let compared = compare_logs(disk, &self.dir, copy_dir, &self.range)?;
        for name in self.files.keys().filter(|name| parse_segment_name(name).is_none()) {
            compare_files(&**disk, &self.dir, copy_dir, name)?;
        }
        let mut profiles = None;
        for name in self.checkpoints.keys() {
            profiles = Some(compare_checkpoints(&**disk, &self.dir, copy_dir, name)?);
        }
        Ok(MigrationSummary {
            original: self.dir.clone(),
            segments: self.earlier_segments,
            records: compared.record_count,
            profiles,
            damage: compared.damage,
        })
    }

    fn check_space(&self, disk: &dyn Disk, dir: &Path) -> Result<(), MigrationError> {
        let free = disk.free_bytes(dir).map_err(io_error(dir))?;
        let files = self.files.values().chain(self.checkpoints.values());
        let audit_bytes = audit_log_bytes(disk, &self.dir).map_err(io_error(&self.dir))?;
        let needed = files.map(|bytes| bytes.next_multiple_of(BLOCK_BYTES)).sum::<u64>() + audit_bytes;
        if free < needed {
            return Err(MigrationError::NoSpace { dir: dir.to_owned(), needed, free });
        }
        Ok(())
    }
}

/// Copies and syncs a file in the present format.
fn copy_file(disk: &dyn Disk, name: &str, source_path: &Path, target_path: &Path) -> io::Result<()> {
    let source = disk.open(source_path)?;
    let mut copy = disk.create(target_path)?;
    if parse_segment_name(name).is_some() {
        copy_segment(&*source, &mut *copy)?;
    } else if seq_of(name).is_some() {
        copy_checkpoint(disk, source_path, &mut *copy, None)?;
    } else {
        copy_range(&*source, 0..u64::MAX, &mut *copy)?;
    }
    copy.sync_data()?;
    access::copy_access(source_path, target_path)
}

/// Copies a segment in the present format. A damaged header is copied as it is.
fn copy_segment(source: &dyn DiskFile, copy: &mut dyn DiskFile) -> io::Result<()> {
    let mut head = [0; segment::HEADER_BYTES];
    let length = read_full(source, &mut head, 0)?;
    match segment::Header::from_bytes(&head[..length]) {
        Ok(header) => append_all(copy, &header.to_bytes())?,
        Err(_) => append_all(copy, &head[..length])?,
    }
    copy_range(source, length as u64..u64::MAX, copy)
}

/// Returns the format version of a segment. `None` if its header is damaged.
fn segment_version(disk: &dyn Disk, path: &Path) -> io::Result<Option<u32>> {
    let mut head = [0; segment::HEADER_BYTES];
    let length = read_full(&*disk.open(path)?, &mut head, 0)?;
    Ok(header_version(&head[..length], segment::SEGMENT_MAGIC))
}
