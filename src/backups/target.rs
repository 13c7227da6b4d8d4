//! The target directory: its lock, and the names and states of the backups in it.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::MakeBackupError;
use crate::events::time;
use crate::log::{LogId, log_id};
use crate::storage::access::create_lockable;
use crate::storage::directory_of;
use crate::storage::disk::{Disk, FileLock, FileLockMode, RealDisk};

const LOCK_FILE: &str = ".lock";
const DAMAGED: &str = ".damaged";
const INCOMPLETE: &str = ".incomplete";
const PARTIAL: &str = ".partial";
/// Length of a name, such as `20261128T094158Z`.
const NAME_CHARS: usize = 16;
/// Characters of a time of RFC 3339 up to its seconds.
const SECOND_CHARS: usize = 19;

/// The state of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BackupState {
    /// All files are there and were sound.
    Complete,
    /// The data directory was damaged.
    Damaged,
    /// Files were deleted because of an erasure.
    Incomplete,
}

/// A backup in the target directory.
#[derive(Debug, Clone)]
pub(crate) struct Backup {
    /// The time at which it was begun, as in `20261128T094158Z`. The order of these texts is that of the times.
    pub(crate) time: String,
    pub(crate) path: PathBuf,
    pub(crate) state: BackupState,
    /// The log that it is a copy of. `None` if that cannot be read.
    pub(crate) log_id: Option<LogId>,
}

impl Backup {
    /// Returns whether it is a copy of the log with this ID. Of a log that cannot be read nothing is known.
    pub(crate) fn is_of(&self, log_id: Option<LogId>) -> bool {
        log_id.is_some() && self.log_id == log_id
    }
}

/// The target directory, locked for one run.
pub(crate) struct Target {
    path: PathBuf,
    _lock: FileLock,
}

impl Target {
    /// Locks the target directory of the backups of `directory`. Creates it if it is missing.
    ///
    /// # Errors
    /// One of the directories is inside the other one, another run has locked the target, or an I/O error occurs.
    pub(crate) fn open(path: &Path, directory: &Path) -> Result<Self, MakeBackupError> {
        let failed = |error| MakeBackupError::io(path, error);
        let real_directory =
            fs::canonicalize(directory).map_err(|error| MakeBackupError::reading(directory, error))?;
        let real_path = canonicalize_new(path).map_err(failed)?;
        if real_path.starts_with(&real_directory) || real_directory.starts_with(&real_path) {
            return Err(MakeBackupError::Nested { target: path.to_owned(), directory: directory.to_owned() });
        }
        RealDisk.create_directory(path).map_err(failed)?;
        let lock_path = path.join(LOCK_FILE);
        create_lockable(&lock_path).map_err(|error| MakeBackupError::io(&lock_path, error))?;
        let lock = RealDisk.lock_file(&lock_path, FileLockMode::Exclusive);
        let lock = lock.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => MakeBackupError::Locked { target: path.to_owned() },
            _ => MakeBackupError::io(&lock_path, error),
        })?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Deletes the directories that an interrupted run has left. Returns their number.
    ///
    /// # Errors
    /// An I/O error.
    pub(crate) fn delete_partial(&self) -> Result<usize, MakeBackupError> {
        let names = self.names()?.into_iter().filter(|name| is_partial(name));
        let deleted = names.map(|name| {
            let path = self.path.join(name);
            fs::remove_dir_all(&path).map_err(|error| MakeBackupError::io(&path, error))
        });
        Ok(deleted.collect::<Result<Vec<_>, _>>()?.len())
    }

    /// Returns the backups, in the order of their times.
    ///
    /// # Errors
    /// An I/O error.
    pub(crate) fn backups(&self) -> Result<Vec<Backup>, MakeBackupError> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let mut backups = Vec::new();
        for name in self.names()? {
            let Some((time, state)) = parse_name(&name) else { continue };
            let path = self.path.join(&name);
            // A backup that cannot be read, such as that of another release, is left alone.
            let log_id = log_id(&disk, &path).ok().flatten();
            backups.push(Backup { time: time.to_owned(), path, state, log_id });
        }
        backups.sort_by(|a, b| (&a.time, &a.path).cmp(&(&b.time, &b.path)));
        Ok(backups)
    }

    /// Creates the directory of a new backup. Returns its time and its path.
    ///
    /// # Errors
    /// An I/O error.
    pub(crate) fn begin(&self, now_ms: i64) -> Result<(String, PathBuf), MakeBackupError> {
        let names = self.names()?;
        let times = names.iter().filter_map(|name| to_ms(parse_name(name)?.0));
        // The order of the names is that of the backups, also within a second and after a clock has moved back.
        let begun_ms = times.max().map_or(now_ms, |newest_ms| now_ms.max(newest_ms + 1_000));
        let time = time_name(begun_ms);
        let partial = self.path.join(format!(".{time}{PARTIAL}"));
        RealDisk.create_directory(&partial).map_err(|error| MakeBackupError::io(&partial, error))?;
        Ok((time, partial))
    }

    /// Gives a finished backup its name, durably.
    ///
    /// # Errors
    /// An I/O error.
    pub(crate) fn finish(
        &self,
        time: &str,
        partial_path: &Path,
        state: BackupState,
    ) -> Result<PathBuf, MakeBackupError> {
        let path = self.path.join(format!("{time}{}", suffix(state)));
        self.rename(partial_path, &path)?;
        Ok(path)
    }

    /// Changes the state of a backup, durably.
    ///
    /// # Errors
    /// An I/O error.
    pub(crate) fn set_incomplete(&self, backup: &mut Backup) -> Result<(), MakeBackupError> {
        if backup.state != BackupState::Incomplete {
            let path = self.path.join(format!("{}{INCOMPLETE}", backup.time));
            self.rename(&backup.path, &path)?;
            backup.path = path;
            backup.state = BackupState::Incomplete;
        }
        Ok(())
    }

    /// Deletes a backup. If the process is killed meanwhile, the next run deletes the rest.
    ///
    /// # Errors
    /// An I/O error.
    pub(crate) fn delete(&self, backup: &Backup) -> Result<(), MakeBackupError> {
        let partial = self.path.join(format!(".{}{PARTIAL}", backup.time));
        self.rename(&backup.path, &partial)?;
        fs::remove_dir_all(&partial).map_err(|error| MakeBackupError::io(&partial, error))
    }

    fn rename(&self, old_path: &Path, new_path: &Path) -> Result<(), MakeBackupError> {
        let renamed = RealDisk.rename(old_path, new_path).and_then(|()| RealDisk.sync_directory(&self.path));
        renamed.map_err(|error| MakeBackupError::io(old_path, error))
    }

    fn names(&self) -> Result<Vec<String>, MakeBackupError> {
        RealDisk.list(&self.path).map_err(|error| MakeBackupError::io(&self.path, error))
    }
}

/// Returns the path without links of a directory that may be missing.
fn canonicalize_new(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let absolute = std::path::absolute(path)?;
            let Some(name) = absolute.file_name() else { return Err(error) };
            Ok(canonicalize_new(directory_of(&absolute))?.join(name))
        }
        other => other,
    }
}

/// Returns the name of a backup that begins now.
fn time_name(now_ms: i64) -> String {
    let mut name: String = time::to_text(now_ms).chars().take(SECOND_CHARS).collect();
    name.retain(|c| !matches!(c, '-' | ':'));
    name + "Z"
}

fn suffix(state: BackupState) -> &'static str {
    match state {
        BackupState::Complete => "",
        BackupState::Damaged => DAMAGED,
        BackupState::Incomplete => INCOMPLETE,
    }
}

/// Parses the name of a backup. Returns `None` for other names.
fn parse_name(name: &str) -> Option<(&str, BackupState)> {
    let (time, rest) = name.split_at_checked(NAME_CHARS)?;
    let states = [BackupState::Complete, BackupState::Damaged, BackupState::Incomplete];
    let state = states.into_iter().find(|state| suffix(*state) == rest)?;
    is_time(time).then_some((time, state))
}

fn is_partial(name: &str) -> bool {
    name.strip_prefix('.').and_then(|name| name.strip_suffix(PARTIAL)).is_some_and(is_time)
}

/// Returns whether a text is a time such as `20261128T094158Z`.
fn is_time(text: &str) -> bool {
    to_ms(text).is_some()
}

/// Parses the time in a name, in milliseconds. Returns `None` for a text of another form.
fn to_ms(text: &str) -> Option<i64> {
    let is_right = |(at, byte): (usize, u8)| match at {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    if text.len() != NAME_CHARS || !text.bytes().enumerate().all(is_right) {
        return None;
    }
    let part = |range: Range<usize>| &text[range];
    let day = format!("{}-{}-{}", part(0..4), part(4..6), part(6..8));
    time::parse(&format!("{day}T{}:{}:{}Z", part(9..11), part(11..13), part(13..15)))
}
