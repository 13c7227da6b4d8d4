//! The reasons why an import ends.

use std::io;
use std::path::{Path, PathBuf};

use crate::log::LogError;
use crate::visitors::restored_erasures::UnfinishedError;

/// An error of an import. Nothing has the name of the target then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportError {
    /// The target has files.
    #[error("{} is not empty; choose a directory that is empty or does not exist", dir.display())]
    NotEmpty { dir: PathBuf },
    /// The target is no directory that a rename can replace.
    #[error("{} is a mount point or a link; choose a directory in it that does not exist", dir.display())]
    NotReplaceable { dir: PathBuf },
    /// An input cannot be imported.
    #[error("cannot import {}: {reason}", path.display())]
    Input { path: PathBuf, reason: String },
    /// The unfinished import has other inputs or settings.
    #[error(
        "{} is of an import with {difference}; run the command again as it was, or delete this directory to begin again",
        dir.display()
    )]
    Other { dir: PathBuf, difference: String },
    /// Another process imports into the same directory.
    #[error("{}: another import uses this directory; wait until it has ended", dir.display())]
    Busy { dir: PathBuf },
    /// No input has a record to import.
    #[error("no record was imported, so {} was not created", dir.display())]
    Empty { dir: PathBuf, refused: u64 },
    /// The disk has too little room.
    #[error(
        "the disk of {} has {free_bytes} bytes free, and the import needs about {needed_bytes}: three times its inputs",
        dir.display()
    )]
    NoSpace { dir: PathBuf, free_bytes: u64, needed_bytes: u64 },
    /// A data directory cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The erasures are not finished.
    #[error("cannot finish the erasures: {0}; run the command again")]
    Unfinished(#[from] UnfinishedError),
    /// The operating system returned an error.
    #[error("{}: {source}; run the command again to continue", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl ImportError {
    /// Returns a function that adds the path to an error.
    pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { path: path.clone(), source }
    }
}
