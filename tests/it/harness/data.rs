//! The data directory of a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use super::temporary_directory;

/// The data directory of a server.
pub(super) enum Data {
    Temporary(TempDir),
    Given(PathBuf),
}

impl Data {
    pub(super) fn temporary() -> Arc<Self> {
        Arc::new(Self::Temporary(temporary_directory()))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Temporary(directory) => directory.path(),
            Self::Given(directory) => directory,
        }
    }
}

impl Drop for Data {
    /// Deletes the note of the log's ID that a server wrote beside the directory.
    fn drop(&mut self) {
        let note = self.path().file_name().map(|name| format!(".{}.log-id", name.to_string_lossy()));
        let _ = note.map(|note| std::fs::remove_file(self.path().with_file_name(note)));
    }
}
