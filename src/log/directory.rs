//! The log directory: its lock, its file names, and the atomic creation and replacement of its files.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::LogError;
use super::format::{
    NUMBER_FILE_BYTES, SECRET_BYTES, oldest_from_bytes, oldest_to_bytes, secret_from_bytes, secret_to_bytes,
};
use crate::data_files::{SEGMENT_SUFFIX as SUFFIX, seq_in_name};
use crate::limits::SEQ_MAX;
use crate::storage::disk::{
    DirectoryLock, Disk, DiskFile, FileIdentity, FileLock, FileLockMode, append_all, copy_range, read_full,
};

/// Name of the file with the first seq that retention has kept.
pub(crate) const OLDEST_FILE: &str = "oldest";
const ERASING: &str = "erasing";
/// Name of the file with the key of the digests in tombstones.
pub(crate) const SECRET_FILE: &str = "secret";
const NEW: &str = ".new";
const REWRITTEN: &str = ".rewritten";
/// Name of the file with the progress of the scrub.
pub(crate) const SCRUB_FILE: &str = "scrub";
/// Suffix of the column file of a segment, which `insights` derives from it.
pub(crate) const COLUMNS_SUFFIX: &str = ".columns";
/// Temporary names of a column file: one that the thread `columns` built, and one that a question needs.
pub(crate) const UNFINISHED_COLUMNS: [&str; 2] = [".columns", ".columns-asked"];
/// Name of the file with the key of the visitor hashes in column files.
pub(crate) const COLUMNS_KEY_FILE: &str = "columns-key";
const TORN: &str = ".torn-";

/// Bytes that a probe writes. A disk without this much room holds no batch of usual size.
const PROBE_BYTES: usize = 64 * 1024;

/// The content of the file `oldest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OldestSeq {
    /// There is no such file: retention has not deleted anything yet.
    Absent,
    /// The first seq that retention has kept.
    Seq(u64),
    /// The file is damaged. Nothing may be deleted because of it.
    Damaged,
}

/// A callback that writes the content of a new file.
type FillFile<'a> = &'a mut dyn FnMut(&mut dyn DiskFile) -> io::Result<()>;

/// The log directory, and the lock that allows changing it. An erasure works on a clone, in parallel with the
/// writer.
#[derive(Clone)]
pub struct LogDirectory {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    /// The lock, held until the last clone is dropped. Readers have none.
    lock: Option<Arc<dyn DirectoryLock>>,
    /// The error with which the directory could not be created. It is then not locked yet.
    missing: Option<Arc<str>>,
}

impl LogDirectory {
    /// Locks the directory for its only writer, and creates it if it is missing.
    ///
    /// # Errors
    /// [`LogError::Locked`] if another process has locked it, otherwise an I/O error.
    pub fn lock(disk: Arc<dyn Disk>, dir: &Path) -> Result<Self, LogError> {
        disk.create_directory(dir).map_err(|error| LogError::io(dir, error))?;
        let lock = disk.lock(dir).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => LogError::Locked { dir: dir.to_owned() },
            _ => LogError::io(dir, error),
        })?;
        Ok(Self { disk, root: dir.to_owned(), lock: Some(lock.into()), missing: None })
    }

    /// Locks the directory, or returns one that is missing and cannot be created.
    ///
    /// # Errors
    /// As for [`lock`](Self::lock), if the directory exists.
    pub(crate) fn lock_or_wait(disk: Arc<dyn Disk>, dir: &Path) -> Result<Self, LogError> {
        match Self::lock(Arc::clone(&disk), dir) {
            Err(LogError::Io { source, .. }) if is_absent(&*disk, dir) => {
                Ok(Self { missing: Some(source.to_string().into()), ..Self::open_read_only(disk, dir) })
            }
            other => other,
        }
    }

    /// Returns the reason why the directory could not be created, if it is not locked because of that.
    pub(crate) fn creation_error(&self) -> Option<LogError> {
        let source = io::Error::other(self.missing.as_deref()?.to_owned());
        Some(LogError::io(&self.root, source))
    }

    /// Creates and locks the directory if it was missing at the start.
    ///
    /// # Errors
    /// The directory cannot be created, another process has locked it, or it has files of a log.
    pub(crate) fn lock_if_created(&mut self) -> Result<(), LogError> {
        if self.missing.is_none() {
            return Ok(());
        }
        let locked = Self::lock(Arc::clone(&self.disk), &self.root)?;
        let names = locked.disk.list(&locked.root).map_err(|error| LogError::io(&locked.root, error))?;
        if names.iter().any(|name| name.ends_with(SUFFIX) || name.ends_with(".checkpoint")) {
            return Err(LogError::Appeared { dir: self.root.clone() });
        }
        *self = locked;
        Ok(())
    }

    /// Checks that the directory can be written: writes and deletes a small file.
    pub(crate) fn probe(&self) -> io::Result<()> {
        self.check_identity()?;
        ignore_not_found(self.disk.unlink(&self.path(NEW)))?;
        let mut file = self.disk.create(&self.path(NEW))?;
        let result = append_all(&mut *file, &[0; PROBE_BYTES]).and_then(|()| file.sync_data());
        ignore_not_found(self.disk.unlink(&self.path(NEW)))?;
        result
    }

    /// Returns the directory for a reader, without the lock. A writer may be using it.
    pub(crate) fn open_read_only(disk: Arc<dyn Disk>, dir: &Path) -> Self {
        Self { disk, root: dir.to_owned(), lock: None, missing: None }
    }

    /// Checks that the path still leads to the locked directory. If not, another server may be using the
    /// directory at the path.
    ///
    /// # Errors
    /// The directory was removed, moved or replaced, or an I/O error occurs.
    pub(crate) fn check_identity(&self) -> io::Result<()> {
        let Some(lock) = &self.lock else { return Ok(()) };
        if self.find_identity(&self.root)? == Some(lock.identity()?) {
            return Ok(());
        }
        let root = self.root.display();
        Err(io::Error::other(format!(
            "the data directory {root} was removed, moved or replaced; restore it, or restart the server"
        )))
    }

    /// Returns the identity of the file or directory at `path`. Returns `None` if there is none.
    pub(crate) fn find_identity(&self, path: &Path) -> io::Result<Option<FileIdentity>> {
        if_exists(self.disk.identity(path))
    }

    /// Returns the path of the file `name`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the first seqs of all segments, from their names, in ascending order.
    pub(crate) fn segments(&self) -> io::Result<Vec<u64>> {
        let names = self.disk.list(&self.root)?;
        let mut seqs: Vec<u64> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
        seqs.sort_unstable();
        Ok(seqs)
    }

    /// Makes the content of the last segment durable.
    pub(crate) fn sync_last_segment(&self) -> io::Result<()> {
        let last = self.segments()?.pop();
        last.map_or(Ok(()), |first_seq| self.open_file(&segment_name(first_seq))?.sync_data())
    }

    /// Opens a file for reading.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open(&self.path(name))
    }

    /// Opens a file for reading. Returns `None` if there is none.
    pub(crate) fn find_file(&self, name: &str) -> io::Result<Option<Box<dyn DiskFile>>> {
        if_exists(self.open_file(name))
    }

    /// Reads a small file, or the first `bytes_max` + 1 bytes of a longer one. Returns `None` if there is none.
    pub(crate) fn read_small(&self, name: &str, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.find_file(name)? else { return Ok(None) };
        let mut bytes = vec![0; bytes_max + 1];
        let length = read_full(&*file, &mut bytes, 0)?;
        bytes.truncate(length);
        Ok(Some(bytes))
    }

    /// Replaces `name` atomically and durably by a file that `fill` writes. The returned file accepts
    /// appends.
    ///
    /// # Errors
    /// The first I/O error. `name` is then the old file or the new one, now and after a crash.
    pub(crate) fn install(&self, name: &str, fill: FillFile<'_>) -> io::Result<Box<dyn DiskFile>> {
        self.install_through(NEW, name, fill)
    }

    /// Replaces a file, as [`install`](Self::install) does, for an erasure that runs in parallel with the
    /// writer.
    pub(crate) fn install_rewritten(&self, name: &str, fill: FillFile<'_>) -> io::Result<()> {
        self.install_through(REWRITTEN, name, fill).map(drop)
    }

    fn install_through(
        &self,
        temporary_name: &str,
        name: &str,
        fill: FillFile<'_>,
    ) -> io::Result<Box<dyn DiskFile>> {
        ignore_not_found(self.disk.unlink(&self.path(temporary_name)))?;
        let mut file = self.disk.create(&self.path(temporary_name))?;
        fill(&mut *file)?;
        file.sync_data()?;
        self.rename(temporary_name, name)?;
        Ok(file)
    }

    /// Renames a file durably. Replaces an existing file of the new name.
    pub(crate) fn rename(&self, old_name: &str, new_name: &str) -> io::Result<()> {
        self.disk.rename(&self.path(old_name), &self.path(new_name))?;
        self.sync()
    }

    /// Deletes a file durably.
    pub(crate) fn delete(&self, name: &str) -> io::Result<()> {
        ignore_not_found(self.disk.unlink(&self.path(name)))?;
        self.sync()
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.disk.sync_directory(&self.root)
    }

    /// Deletes the temporary files that a crash or a failure left.
    pub(crate) fn delete_temporary_files(&self) -> io::Result<()> {
        [NEW, REWRITTEN].iter().try_for_each(|name| ignore_not_found(self.disk.unlink(&self.path(name))))
    }

    /// Records durably that an erasure begins: the seq that its first tombstone will have, and the present time in
    /// milliseconds.
    pub(crate) fn set_erasing(&self, seq: u64, now_ms: i64) -> io::Result<()> {
        let bytes = [seq.to_le_bytes(), now_ms.to_le_bytes()].concat();
        self.install(ERASING, &mut |file| append_all(file, &bytes)).map(drop)
    }

    /// Returns the seq of the first tombstone whose erasure may not be finished, or 0 if the file does not state it,
    /// and the time of the request. Files of earlier releases have no time.
    pub(crate) fn erasing(&self) -> io::Result<Option<(u64, Option<i64>)>> {
        let Some(bytes) = self.read_small(ERASING, 2 * size_of::<u64>())? else { return Ok(None) };
        Ok(Some(match bytes.as_chunks() {
            ([seq], []) => (u64::from_le_bytes(*seq), None),
            ([seq, time_ms], []) => (u64::from_le_bytes(*seq), Some(i64::from_le_bytes(*time_ms))),
            _ => (0, None),
        }))
    }

    /// Locks the directory against erasures by other processes (shared), or against backups (exclusive). The lock is on the
    /// file `secret`, which each log has and each backup needs. Returns `None` if the file is missing: then no backup can be
    /// made.
    ///
    /// # Errors
    /// `WouldBlock` if another process holds the other lock, otherwise an I/O error.
    pub(crate) fn lock_erasures(&self, mode: FileLockMode) -> io::Result<Option<FileLock>> {
        if_exists(self.disk.lock_file(&self.path(SECRET_FILE), mode))
    }

    /// Returns whether a server has locked the directory.
    pub(crate) fn is_in_use(&self) -> bool {
        self.disk.lock(&self.root).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Records durably that the erasure has ended.
    pub(crate) fn end_erasure(&self) -> io::Result<()> {
        self.delete(ERASING)
    }

    /// Reads the key of the digests in tombstones. Returns `None` if there is no file `secret`.
    ///
    /// # Errors
    /// An I/O error, or `InvalidData` if the file is damaged.
    pub(crate) fn secret(&self) -> io::Result<Option<[u8; 32]>> {
        let Some(bytes) = self.read_small(SECRET_FILE, SECRET_BYTES)? else { return Ok(None) };
        let damaged = || {
            io::Error::new(io::ErrorKind::InvalidData, "the file `secret` is damaged; restore it from a copy")
        };
        secret_from_bytes(&bytes).map(Some).ok_or_else(damaged)
    }

    /// Writes the key of the digests in tombstones.
    pub(crate) fn set_secret(&self, key: &[u8; 32]) -> io::Result<()> {
        let bytes = secret_to_bytes(key);
        self.install(SECRET_FILE, &mut |file| append_all(file, &bytes)).map(drop)
    }

    /// Returns the names of the quarantined tails.
    pub(crate) fn quarantined_files(&self) -> io::Result<Vec<String>> {
        let mut names = self.disk.list(&self.root)?;
        names.retain(|name| name.get(20..).is_some_and(|suffix| suffix.starts_with(TORN)));
        names.sort_unstable();
        Ok(names)
    }

    /// Reads the file `oldest`.
    pub(crate) fn oldest(&self) -> io::Result<OldestSeq> {
        let Some(bytes) = self.read_small(OLDEST_FILE, NUMBER_FILE_BYTES)? else {
            return Ok(OldestSeq::Absent);
        };
        Ok(oldest_from_bytes(&bytes).map_or(OldestSeq::Damaged, OldestSeq::Seq))
    }

    /// Expires all seqs below `seq` durably. The segments still exist after this.
    pub(crate) fn set_oldest(&self, seq: u64) -> io::Result<()> {
        let bytes = oldest_to_bytes(seq);
        self.install(OLDEST_FILE, &mut |file| append_all(file, &bytes)).map(drop)
    }

    /// Deletes an expired segment, its column file, and the tails that were cut from it.
    pub(crate) fn delete_segment(&self, first_seq: u64) -> io::Result<()> {
        let torn = torn_prefix(first_seq);
        for name in self.disk.list(&self.root)?.iter().filter(|name| name.starts_with(&torn)) {
            ignore_not_found(self.disk.unlink(&self.path(name)))?;
        }
        // The column file is last: a thread that installs one looks for its segment afterwards.
        ignore_not_found(self.disk.unlink(&self.path(&segment_name(first_seq))))?;
        ignore_not_found(self.disk.unlink(&self.path(&column_file_name(first_seq))))
    }

    /// Deletes the column files that are being written. Their writer gives them no name after the erasure has begun.
    pub(super) fn delete_unfinished_columns(&self) -> io::Result<()> {
        UNFINISHED_COLUMNS.iter().try_for_each(|name| ignore_not_found(self.disk.unlink(&self.path(name))))
    }

    /// Deletes the column file of a segment durably, if there is one.
    pub(crate) fn delete_column_file(&self, first_seq: u64) -> io::Result<()> {
        let deleted = if_exists(self.disk.unlink(&self.path(&column_file_name(first_seq))))?;
        deleted.map_or(Ok(()), |()| self.sync())
    }

    /// Copies `offsets` of a segment to a new file and returns the name of that file.
    pub(crate) fn quarantine(&self, first_seq: u64, offsets: Range<u64>) -> io::Result<String> {
        let torn = torn_prefix(first_seq);
        let names = self.disk.list(&self.root)?;
        let numbers = names.iter().filter_map(|name| name.strip_prefix(&torn)?.parse::<u64>().ok());
        let name = format!("{torn}{}", numbers.max().unwrap_or(0) + 1);
        let segment = self.open_file(&segment_name(first_seq))?;
        self.install(&name, &mut |file| copy_range(&*segment, offsets.clone(), file))?;
        Ok(name)
    }

    /// Truncates a segment to `length` bytes.
    pub(crate) fn truncate_segment(&self, first_seq: u64, length: u64) -> io::Result<()> {
        self.disk.truncate(&self.path(&segment_name(first_seq)), length)
    }
}

/// Returns whether `dir` contains a log. A log always has at least one segment, the one being written.
///
/// # Errors
/// An I/O error: `NotFound` if there is no such directory.
pub(crate) fn contains_log(disk: &dyn Disk, dir: &Path) -> io::Result<bool> {
    Ok(disk.list(dir)?.iter().any(|name| parse_segment_name(name).is_some()))
}

/// Returns whether `dir` has the marker of an erasure, which may have begun and has not ended.
///
/// # Errors
/// The directory cannot be listed.
pub(crate) fn is_erasing(disk: &dyn Disk, dir: &Path) -> io::Result<bool> {
    Ok(disk.list(dir)?.iter().any(|name| name == ERASING))
}

/// Returns the file name of the segment that begins with `first_seq`.
pub fn segment_name(first_seq: u64) -> String {
    format!("{first_seq:020}{SUFFIX}")
}

/// Returns the name of the column file of the segment that begins with `first_seq`.
pub(crate) fn column_file_name(first_seq: u64) -> String {
    format!("{first_seq:020}{COLUMNS_SUFFIX}")
}

/// Returns whether retention has expired the segment that begins with `first_seq`.
///
/// # Errors
/// An I/O error.
pub(crate) fn is_expired(disk: &Arc<dyn Disk>, dir: &Path, first_seq: u64) -> io::Result<bool> {
    let oldest = LogDirectory::open_read_only(Arc::clone(disk), dir).oldest()?;
    Ok(matches!(oldest, OldestSeq::Seq(oldest) if first_seq < oldest))
}

/// Parses the first seq in a segment's name. Returns `None` for other names.
pub fn parse_segment_name(name: &str) -> Option<u64> {
    seq_in_name(name, SUFFIX).filter(|seq| *seq <= SEQ_MAX)
}

fn is_absent(disk: &dyn Disk, dir: &Path) -> bool {
    disk.identity(dir).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn torn_prefix(first_seq: u64) -> String {
    format!("{first_seq:020}{TORN}")
}

fn ignore_not_found(result: io::Result<()>) -> io::Result<()> {
    if_exists(result).map(drop)
}

fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}
