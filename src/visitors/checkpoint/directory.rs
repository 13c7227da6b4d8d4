//! The names of checkpoints in the log's folder.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::storage::disk::{Disk, DiskFile};

const SUFFIX: &str = ".checkpoint";
/// One that is being written.
const UNFINISHED: &str = ".checkpoint";
/// Behind the name of one that nobody may read again.
const REFUSED: &str = ".refused";

/// The folder, for whoever reads checkpoints, or writes them and has the log's lock.
#[derive(Clone)]
pub struct Folder {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl Folder {
    /// The one at `path`.
    pub fn new(disk: Arc<dyn Disk>, path: &Path) -> Self {
        Self { disk, path: path.to_owned() }
    }

    /// What its files are reached through.
    pub fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// Where the checkpoint of `seq` is.
    pub fn path_of(&self, seq: u64) -> PathBuf {
        self.path.join(checkpoint_name(seq))
    }

    /// The seqs of the checkpoints that are there, ascending.
    ///
    /// # Errors
    /// What the system says.
    pub fn seqs(&self) -> io::Result<Vec<u64>> {
        let names = self.disk.list(&self.path)?;
        let mut seqs: Vec<u64> = names.iter().filter_map(|name| seq_of(name)).collect();
        seqs.sort_unstable();
        Ok(seqs)
    }

    /// Takes away what a crash or a failure left half made.
    pub(super) fn clear(&self) -> io::Result<()> {
        unless_absent(self.disk.unlink(&self.path.join(UNFINISHED)))
    }

    /// Begins a file that is not there yet.
    pub(super) fn create(&self) -> io::Result<Box<dyn DiskFile>> {
        self.clear()?;
        self.disk.create(&self.path.join(UNFINISHED))
    }

    /// Gives the file that was begun its name, durably; it has been synced.
    pub(super) fn install(&self, seq: u64) -> io::Result<()> {
        self.disk.rename(&self.path.join(UNFINISHED), &self.path_of(seq))?;
        self.disk.sync_folder(&self.path)
    }

    /// Deletes a checkpoint.
    pub(super) fn remove(&self, seq: u64) -> io::Result<()> {
        unless_absent(self.disk.unlink(&self.path_of(seq)))
    }

    /// Deletes those that were put aside.
    pub(super) fn remove_refused(&self) -> io::Result<()> {
        let refused = |name: &String| name.strip_suffix(REFUSED).and_then(seq_of).is_some();
        let names = self.disk.list(&self.path)?;
        names.iter().filter(|name| refused(name)).try_for_each(|name| self.disk.unlink(&self.path.join(name)))
    }

    /// Sees to it, durably, that nobody reads a checkpoint again.
    pub(super) fn refuse(&self, seq: u64) -> io::Result<()> {
        let refused = self.path.join(checkpoint_name(seq) + REFUSED);
        self.disk.rename(&self.path_of(seq), &refused)?;
        self.disk.sync_folder(&self.path)
    }
}

/// The name of the checkpoint of `seq`.
pub fn checkpoint_name(seq: u64) -> String {
    format!("{seq:020}{SUFFIX}")
}

/// The seq that a checkpoint's name tells; `None` for another file.
pub fn seq_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let is_number = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

fn unless_absent(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}
