//! The checkpoint files in the log's directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::data_files::{CHECKPOINT_SUFFIX as SUFFIX, seq_in_name};
use crate::log::{is_erasing, parse_segment_name};
use crate::storage::disk::{Disk, DiskFile, list_if_present};

/// Name of a checkpoint while it is being written.
const TEMPORARY_NAME: &str = ".checkpoint";

/// The log's directory, for reading checkpoints. Writing them also requires the log's lock.
#[derive(Clone)]
pub struct CheckpointDirectory {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl CheckpointDirectory {
    /// Creates a handle of the directory at `path`.
    pub fn new(disk: Arc<dyn Disk>, path: &Path) -> Self {
        Self { disk, path: path.to_owned() }
    }

    /// Returns the disk that contains the directory.
    pub fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// Returns the path of the checkpoint of `seq`.
    pub fn path_of(&self, seq: u64) -> PathBuf {
        self.path.join(checkpoint_name(seq))
    }

    /// Returns the seqs of all checkpoints in the directory, ascending. A missing directory has none.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn seqs(&self) -> io::Result<Vec<u64>> {
        let names = list_if_present(&*self.disk, &self.path)?;
        let mut seqs: Vec<u64> = names.iter().filter_map(|name| seq_of(name)).collect();
        seqs.sort_unstable();
        Ok(seqs)
    }

    /// Returns whether an erasure has begun and has not ended.
    pub(crate) fn is_erasing(&self) -> io::Result<bool> {
        is_erasing(&*self.disk, &self.path)
    }

    /// Returns the first seq of the oldest segment, or 0 without a segment.
    pub(crate) fn first_log_seq(&self) -> io::Result<u64> {
        let names = self.disk.list(&self.path)?;
        Ok(names.iter().filter_map(|name| parse_segment_name(name)).min().unwrap_or(0))
    }

    /// Deletes the unfinished file of a crash or a failure.
    pub(super) fn remove_temporary(&self) -> io::Result<()> {
        ignore_not_found(self.disk.unlink(&self.path.join(TEMPORARY_NAME)))
    }

    /// Creates the temporary file of a new checkpoint.
    pub(super) fn create_temporary(&self) -> io::Result<Box<dyn DiskFile>> {
        self.remove_temporary()?;
        self.disk.create(&self.path.join(TEMPORARY_NAME))
    }

    /// Renames the temporary file to its final name and syncs the directory. The file itself must be
    /// synced already.
    pub(super) fn install(&self, seq: u64) -> io::Result<()> {
        self.disk.rename(&self.path.join(TEMPORARY_NAME), &self.path_of(seq))?;
        self.sync()
    }

    /// Makes the names of the files durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.disk.sync_directory(&self.path)
    }

    /// Deletes a checkpoint.
    pub(super) fn remove(&self, seq: u64) -> io::Result<()> {
        ignore_not_found(self.disk.unlink(&self.path_of(seq)))
    }
}

/// Returns the file name of the checkpoint of `seq`.
pub fn checkpoint_name(seq: u64) -> String {
    format!("{seq:020}{SUFFIX}")
}

/// Returns the seq in the name of a checkpoint. `None` for other files.
pub(crate) fn seq_of(name: &str) -> Option<u64> {
    seq_in_name(name, SUFFIX)
}

fn ignore_not_found(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}
