//! Backups of a data directory: complete and verified copies in a target directory, made beside a running server.
//!
//! # Target directory
//!
//! ```text
//! NAME                          CONTENT
//! 20261128T094158Z              a complete backup; its name is the UTC time at which it was begun
//! 20261128T094158Z.damaged      a copy of a data directory with damage, so that nothing newer is lost; the next run replaces it
//! 20261128T094158Z.incomplete   a backup without the segments that an erasure has rewritten since (`--forget-erased`)
//! .20261128T094158Z.partial     being written or deleted; the next run deletes it
//! .lock                         locked by the run, so that there is one at a time
//! ```
//!
//! All other names belong to other programs, and are left alone. A target directory can have backups of several logs.
//!
//! # Order of the copies
//!
//! The server writes a checkpoint after the records before it are durable, so checkpoints are copied before segments.
//! It deletes a segment after the file `oldest` says so, and after a newer checkpoint has its records. So `oldest` is copied after
//! the segments, and the copy is made again if no copied checkpoint reaches it.
//!
//! The closed segments are copied before the lock is acquired that excludes erasures, because that can take long. With the lock,
//! those that have changed since are copied again, and then all other files.

mod copier;
mod forget;
mod target;

use std::io;
use std::path::{Path, PathBuf};

pub(crate) use self::copier::{Copier, CopySummary};
pub(crate) use self::forget::{Forgotten, forget_erased};
pub(crate) use self::target::{Backup, BackupState, Target};
use crate::log::LogError;

/// An error of a backup. The earlier backups are as they were before.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MakeBackupError {
    /// Another process makes a backup in the same target directory.
    #[error("another backup in {} is in progress; wait until it has finished", target.display())]
    Locked {
        /// The target directory.
        target: PathBuf,
    },
    /// An erasure has not ended in the time limit.
    #[error("an erasure has been in progress in {} for 10 minutes; make the backup later", directory.display())]
    Erasing {
        /// The data directory.
        directory: PathBuf,
    },
    /// One of the two directories is inside the other one.
    #[error("{} and {} are inside each other; choose a target outside of the data directory, on another disk", target.display(), directory.display())]
    Nested {
        /// The target directory.
        target: PathBuf,
        /// The data directory.
        directory: PathBuf,
    },
    /// The user may not read a file of the data directory.
    #[error(
        "cannot read {}: {source}; run the command as the user of the server, or as a member of the group of `serve --data-group`, which gives each file to this group at its next start",
        path.display()
    )]
    Unreadable {
        /// The file or the data directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The data directory has no file `secret`.
    #[error(
        "{} is missing, and without it nothing can tell which visitors were erased; put it back from a copy, or start the server, which makes a new one",
        path.display()
    )]
    NoSecret {
        /// The path of the file.
        path: PathBuf,
    },
    /// The target has too little space.
    #[error(
        "the backup needs {needed_bytes} bytes, and {} has {free_bytes} bytes free; delete older backups (--keep), or choose another disk",
        target.display()
    )]
    NoSpace {
        /// The target directory.
        target: PathBuf,
        /// The bytes of the files that would be copied.
        needed_bytes: u64,
        /// The bytes that may be written.
        free_bytes: u64,
    },
    /// Retention has deleted segments faster than they could be copied.
    #[error("retention deletes segments of {} faster than they can be copied to {}; use a faster disk", directory.display(), target.display())]
    TooSlow {
        /// The data directory.
        directory: PathBuf,
        /// The target directory.
        target: PathBuf,
    },
    /// A signal has ended the backup.
    #[error("the backup was interrupted")]
    Interrupted,
    /// A file could not be copied.
    #[error("cannot copy {} to {}: {source}", path.display(), copy.display())]
    Copy {
        /// The file of the data directory.
        path: PathBuf,
        /// Its copy.
        copy: PathBuf,
        /// The error of one of them.
        source: io::Error,
    },
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

impl MakeBackupError {
    fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    /// Returns the error of a file of the data directory.
    pub(crate) fn reading(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Unreadable { path, source },
            io::ErrorKind::Interrupted => Self::Interrupted,
            _ => Self::Io { path, source },
        }
    }
}
