//! The states of the snapshot files, as of the last scan, for the admin address.

use std::sync::{Arc, Mutex, PoisonError};

use super::super::snapshot::open::Snapshot;

/// Snapshot files that a list has. A list for people needs no more, and a directory may have 100,000 files. Refused
/// files come first.
pub(crate) const FILES_LISTED_MAX: usize = 1_000;

/// The state of a snapshot file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileState {
    /// Nothing of the file is served.
    Refused,
    /// The file, or the last valid content of its name, is served.
    Served,
    /// A file of the same site has a higher version.
    Superseded,
}

impl FileState {
    /// Returns the name of the state in responses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Served => "served",
            Self::Superseded => "superseded",
        }
    }
}

/// A snapshot file.
#[derive(Clone)]
pub struct FileStatus {
    pub name: String,
    /// The site ID and the version; `None` if the file does not show them.
    pub site: Option<(String, u64)>,
    /// The length of the file; `None` if the file cannot be read.
    pub bytes: Option<u64>,
    pub state: FileState,
    /// The reason why the file is refused.
    pub reason: Option<String>,
    /// The snapshot in the file; `None` if the server could not open it.
    pub snapshot: Option<Arc<Snapshot>>,
}

/// The files of a directory.
#[derive(Default)]
pub struct FileList {
    /// At most [`FILES_LISTED_MAX`] files, by state, then by name.
    pub files: Vec<FileStatus>,
    /// The number of further files.
    pub more: usize,
    /// The valid snapshots of all files, which the server has in memory.
    pub snapshots: Vec<Arc<Snapshot>>,
}

impl FileList {
    /// Returns the file with a name as the list has it.
    pub(crate) fn find(&self, name: &str) -> Option<&FileStatus> {
        self.files.iter().find(|file| file.name == name)
    }
}

/// The list of the last scan. Clones share it.
#[derive(Clone, Default)]
pub struct CurrentFiles(Arc<Mutex<Arc<FileList>>>);

impl CurrentFiles {
    /// Returns the list of the last scan.
    pub fn load(&self) -> Arc<FileList> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set(&self, list: FileList) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(list);
    }
}
