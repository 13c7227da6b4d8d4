//! Copies the files of a data directory, and links those that an earlier backup has already.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::{MakeBackupError, Target};
use crate::clock;
use crate::data_files::{AUDIT_DIRECTORY, LINKS_FILE, audit_number_in_name};
use crate::log::{
    self, COLUMNS_SUFFIX, LogDirectory, OldestSeq, SCRUB_FILE, SECRET_FILE, parse_segment_name,
};
use crate::storage::copied_file::{copy_private, link};
use crate::storage::disk::{Disk, FileLock, FileLockMode, RealDisk, list_if_present};
use crate::storage::{FileStamp, disk_space, read_stamp};
use crate::visitors::checkpoint::directory::seq_of;

/// Time limit for erasures that are in progress. One takes seconds for gigabytes.
const ERASURE_TIMEOUT: Duration = Duration::from_secs(600);
/// Pause between two attempts to lock the data directory. The server is another process, which sends no signal.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Copies with the lock until one is consistent. Each repetition means that retention has deleted a segment meanwhile, and
/// that a checkpoint was made.
const ATTEMPTS_MAX: u32 = 5;

/// The number and the size of the files of a backup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CopySummary {
    pub(crate) files: usize,
    pub(crate) copied_bytes: u64,
    /// The files that are links to those of the previous backup.
    pub(crate) linked_files: usize,
}

/// A file of the copy.
#[derive(Debug, Clone, Copy)]
struct CopiedFile {
    /// The stamp of the original when it was copied.
    original: FileStamp,
    is_link: bool,
}

/// A copy of a data directory that is being made.
pub(crate) struct Copier<'a> {
    directory: &'a Path,
    copy: PathBuf,
    /// The newest complete backup of the same log.
    previous: Option<PathBuf>,
    copied: BTreeMap<String, CopiedFile>,
    is_stopped: &'a dyn Fn() -> bool,
}

impl<'a> Copier<'a> {
    /// Creates a copy of `directory` at `copy`, which is an empty directory. Unchanged segments of `previous` become links.
    /// `is_stopped` ends the copy.
    pub(crate) fn new(
        directory: &'a Path,
        copy: PathBuf,
        previous: Option<PathBuf>,
        is_stopped: &'a dyn Fn() -> bool,
    ) -> Self {
        Self { directory, copy, previous, copied: BTreeMap::new(), is_stopped }
    }

    /// Copies all files.
    ///
    /// # Errors
    /// A file cannot be read or written, an erasure does not end, or `is_stopped` returns true.
    pub(crate) fn copy(&mut self, target: &Target) -> Result<CopySummary, MakeBackupError> {
        self.require_space(target)?;
        // The last one is still written to.
        let segments = self.names(|name| parse_segment_name(name).is_some())?;
        let closed = segments.split_last().map_or(&[][..], |(_, closed)| closed);
        closed.iter().try_for_each(|name| self.copy_file(name, true))?;
        let _lock = self.lock_erasures()?;
        let mut attempts = 1;
        while !self.copy_changed()? {
            if attempts == ATTEMPTS_MAX {
                return Err(MakeBackupError::TooSlow {
                    directory: self.directory.to_owned(),
                    target: target.path().to_owned(),
                });
            }
            attempts += 1;
        }
        self.copy_audit_log()?;
        self.sync()?;
        self.summary()
    }

    /// Copies the linked segments that are damaged in the previous backup, and all linked audit files, from the data directory. Returns
    /// their number.
    ///
    /// # Errors
    /// As for [`copy`](Self::copy).
    pub(crate) fn replace_damaged_links(&mut self) -> Result<usize, MakeBackupError> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let linked = self.copied.iter().filter(|(_, file)| file.is_link);
        let linked: Vec<String> = linked.map(|(name, _)| name.clone()).collect();
        let mut damaged = Vec::new();
        for name in linked {
            if parse_segment_name(&name).is_none() {
                damaged.push(name);
                continue;
            }
            let report = log::check_file(Arc::clone(&disk), &self.copy.join(&name))?;
            if report.damage.iter().any(|damage| damage.kind.is_unexpected()) {
                damaged.push(name);
            }
        }
        let _lock = self.lock_erasures()?;
        self.previous = None;
        for name in &damaged {
            self.remove(name)?;
            self.copy_file(name, false)?;
        }
        self.sync()?;
        Ok(damaged.len())
    }

    /// Returns the number and the size of the files.
    ///
    /// # Errors
    /// A file of the copy cannot be read.
    pub(crate) fn summary(&self) -> Result<CopySummary, MakeBackupError> {
        let mut summary = CopySummary::default();
        for (name, file) in &self.copied {
            let path = self.copy.join(name);
            let stamp = read_stamp(&path).map_err(|error| MakeBackupError::io(&path, error))?;
            summary.files += 1;
            summary.linked_files += usize::from(file.is_link);
            summary.copied_bytes += if file.is_link { 0 } else { stamp.length };
        }
        Ok(summary)
    }

    /// Copies the files that are new or have changed. Returns whether the copied checkpoints and segments belong together.
    fn copy_changed(&mut self) -> Result<bool, MakeBackupError> {
        while self.copy_checkpoints()? {}
        let segments = self.names(|name| parse_segment_name(name).is_some())?;
        for (number, name) in segments.iter().enumerate() {
            self.copy_file(name, number + 1 < segments.len())?;
        }
        let others = self
            .names(|name| is_needed(name) && parse_segment_name(name).is_none() && seq_of(name).is_none())?;
        others.iter().try_for_each(|name| self.copy_file(name, false))?;
        let secret = self.directory.join(SECRET_FILE);
        if !self.copied.contains_key(SECRET_FILE) {
            return Err(MakeBackupError::NoSecret { path: secret });
        }
        self.remove_deleted()?;
        self.is_consistent()
    }

    /// Copies the files of the audit log. The server only appends to the last one, so a copy of its first bytes ends with a whole
    /// record, or with a part of one, which is no damage.
    fn copy_audit_log(&mut self) -> Result<(), MakeBackupError> {
        let names = self.audit_files()?;
        if names.is_empty() {
            return Ok(());
        }
        let copy = self.copy.join(AUDIT_DIRECTORY);
        let failed = |error| MakeBackupError::io(&copy, error);
        RealDisk.create_directory(&copy).map_err(failed)?;
        for (number, name) in names.iter().enumerate() {
            self.copy_file(name, number + 1 < names.len())?;
        }
        RealDisk.sync_directory(&copy).map_err(failed)
    }

    /// Returns the paths of the audit files in the data directory, in the order of their records.
    fn audit_files(&self) -> Result<Vec<String>, MakeBackupError> {
        let dir = self.directory.join(AUDIT_DIRECTORY);
        let names = list_if_present(&RealDisk, &dir);
        let mut names = names.map_err(|error| MakeBackupError::reading(&dir, error))?;
        names.retain(|name| audit_number_in_name(name).is_some());
        names.sort_unstable();
        Ok(names.iter().map(|name| format!("{AUDIT_DIRECTORY}/{name}")).collect())
    }

    /// Copies the checkpoints that have no copy. Returns whether there was one: then a newer one may have replaced it.
    fn copy_checkpoints(&mut self) -> Result<bool, MakeBackupError> {
        let checkpoints = self.names(|name| seq_of(name).is_some())?;
        let new: Vec<&String> = checkpoints.iter().filter(|name| !self.copied.contains_key(*name)).collect();
        new.iter().try_for_each(|name| self.copy_file(name, false))?;
        Ok(!new.is_empty())
    }

    /// Removes the copies of files that the server has deleted: a segment by retention, a checkpoint that newer ones replace,
    /// the mark of a finished erasure.
    fn remove_deleted(&mut self) -> Result<(), MakeBackupError> {
        let present = self.names(|_| true)?;
        let deleted: Vec<String> =
            self.copied.keys().filter(|name| !present.contains(name)).cloned().collect();
        deleted.iter().try_for_each(|name| self.remove(name))
    }

    /// Returns whether a copied checkpoint has all records before the first segment that retention has kept.
    fn is_consistent(&self) -> Result<bool, MakeBackupError> {
        let copy = LogDirectory::open_read_only(Arc::new(RealDisk), &self.copy);
        let oldest = copy.oldest().map_err(|error| MakeBackupError::io(&self.copy, error))?;
        let OldestSeq::Seq(oldest) = oldest else { return Ok(true) };
        let newest = self.copied.keys().filter_map(|name| seq_of(name)).max();
        Ok(newest.is_none_or(|seq| seq + 1 >= oldest))
    }

    /// Copies or links a file, unless it has not changed since it was copied. A file that was deleted meanwhile has no copy.
    fn copy_file(&mut self, name: &str, is_closed: bool) -> Result<(), MakeBackupError> {
        let path = self.directory.join(name);
        let failed = |error| MakeBackupError::reading(&path, error);
        let stamp = match read_stamp(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            other => other.map_err(failed)?,
        };
        if self.copied.get(name).is_some_and(|copied| copied.original == stamp) {
            return Ok(());
        }
        if (self.is_stopped)() {
            return Err(MakeBackupError::Interrupted);
        }
        self.remove(name)?;
        let copy_path = self.copy.join(name);
        if is_closed
            && self.linkable(name, &stamp).is_some_and(|previous| link(&previous, &copy_path).is_ok())
        {
            self.copied.insert(name.to_owned(), CopiedFile { original: stamp, is_link: true });
            return Ok(());
        }
        // The server appends to the last segment. A copy of all its bytes could have a later batch without an earlier one, because the
        // bytes are read one after another.
        let byte_limit = match parse_segment_name(name).filter(|_| !is_closed) {
            Some(_) => match log::batches_end(&RealDisk, &path) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                other => other.map_err(failed)?,
            },
            None => u64::MAX,
        };
        match copy_private(&path, &copy_path, byte_limit, clock::now_ms(), self.is_stopped) {
            Ok(original) => _ = self.copied.insert(name.to_owned(), CopiedFile { original, is_link: false }),
            Err(error) if error.kind() == ErrorKind::NotFound && !path.exists() => {}
            // The original is opened first, and only for reading.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(failed(error)),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(MakeBackupError::Interrupted),
            Err(source) => return Err(MakeBackupError::Copy { path, copy: copy_path, source }),
        }
        Ok(())
    }

    /// Returns the path of the same file in the previous backup, if it has one.
    fn linkable(&self, name: &str, stamp: &FileStamp) -> Option<PathBuf> {
        let path = self.previous.as_ref()?.join(name);
        read_stamp(&path).ok().filter(|previous| previous.is_copy_of(stamp)).map(|_| path)
    }

    /// Removes a copy, if there is one.
    fn remove(&mut self, name: &str) -> Result<(), MakeBackupError> {
        if self.copied.remove(name).is_none() {
            return Ok(());
        }
        let path = self.copy.join(name);
        RealDisk.unlink(&path).map_err(|error| MakeBackupError::io(&path, error))
    }

    fn sync(&self) -> Result<(), MakeBackupError> {
        RealDisk.sync_directory(&self.copy).map_err(|error| MakeBackupError::io(&self.copy, error))
    }

    /// Locks the data directory against erasures. Waits for one that is in progress.
    fn lock_erasures(&self) -> Result<FileLock, MakeBackupError> {
        let directory = LogDirectory::open_read_only(Arc::new(RealDisk), self.directory);
        let secret = directory.path(SECRET_FILE);
        let begun = clock::instant();
        loop {
            match directory.lock_erasures(FileLockMode::Shared) {
                Ok(Some(lock)) => return Ok(lock),
                Ok(None) => return Err(MakeBackupError::NoSecret { path: secret }),
                Err(error) if error.kind() != ErrorKind::WouldBlock => {
                    return Err(MakeBackupError::reading(&secret, error));
                }
                Err(_) if (self.is_stopped)() => return Err(MakeBackupError::Interrupted),
                Err(_) if clock::instant().duration_since(begun) > ERASURE_TIMEOUT => {
                    return Err(MakeBackupError::Erasing { directory: self.directory.to_owned() });
                }
                Err(_) => thread::sleep(LOCK_POLL_INTERVAL),
            }
        }
    }

    /// Checks that the target has space for the files that will not be links, before anything is written.
    fn require_space(&self, target: &Target) -> Result<(), MakeBackupError> {
        let mut needed_bytes = 0;
        for name in self.names(|_| true)?.into_iter().chain(self.audit_files()?) {
            // A file that has vanished takes no space.
            let Ok(stamp) = read_stamp(&self.directory.join(&name)) else { continue };
            let may_be_link = parse_segment_name(&name).is_some() || name.starts_with(AUDIT_DIRECTORY);
            let is_link = may_be_link && self.linkable(&name, &stamp).is_some();
            needed_bytes += if is_link { 0 } else { stamp.length };
        }
        let space = disk_space(&self.copy).map_err(|error| MakeBackupError::io(&self.copy, error))?;
        if space.free_bytes >= needed_bytes {
            return Ok(());
        }
        let target = target.path().to_owned();
        Err(MakeBackupError::NoSpace { target, needed_bytes, free_bytes: space.free_bytes })
    }

    /// Returns the names of the needed files of the data directory that `is_wanted` accepts, in order.
    fn names(&self, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<String>, MakeBackupError> {
        let failed = |error| MakeBackupError::reading(self.directory, error);
        let mut names = Vec::new();
        for entry in fs::read_dir(self.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let is_file = entry.file_type().map_err(failed)?.is_file();
            let name = entry.file_name().into_string().ok().filter(|name| is_needed(name) && is_wanted(name));
            names.extend(name.filter(|_| is_file));
        }
        names.sort_unstable();
        Ok(names)
    }
}

/// Returns whether a file is part of a backup. Names that begin with a dot are files that are being written. Column files are
/// derived from the log, and the scrub has read the files of the data directory and not the copies. A restored directory must not open a
/// link that was revoked after the backup.
fn is_needed(name: &str) -> bool {
    !name.starts_with('.') && !name.ends_with(COLUMNS_SUFFIX) && ![SCRUB_FILE, LINKS_FILE].contains(&name)
}
