//! The file operations of the authoring commands, on the disk of this machine.
//!
//! Without the feature `server`, `hosted/local_files.rs` replaces this file: it has the same functions, over the files that the host
//! has read.

use std::ffi::OsString;
use std::fs::{self, DirEntry, File, FileType};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::storage;

/// An entry of a directory.
pub(crate) struct Entry(DirEntry);

impl Entry {
    /// Returns the name.
    pub(crate) fn name(&self) -> OsString {
        self.0.file_name()
    }

    /// Returns whether the name is UTF-8.
    pub(crate) fn is_utf8(&self) -> bool {
        self.0.file_name().to_str().is_some()
    }

    /// Returns the kind.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn kind(&self) -> io::Result<EntryKind> {
        self.0.file_type().map(EntryKind::from)
    }
}

/// The kind of an entry of a directory. A link is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Directory,
    Link,
    /// A pipe, a socket or a device.
    Special,
}

impl From<FileType> for EntryKind {
    fn from(file_type: FileType) -> Self {
        match () {
            () if file_type.is_dir() => Self::Directory,
            () if file_type.is_symlink() => Self::Link,
            () if file_type.is_file() => Self::File,
            () => Self::Special,
        }
    }
}

/// Announces that the command will read a path. The disk needs no time to prepare it.
pub(crate) fn announce(_path: &Path) {}

/// Ends the reading of several paths.
///
/// # Errors
/// None. A host that reads the paths between two runs has one.
pub(crate) fn finish_reading() -> io::Result<()> {
    Ok(())
}

/// Returns the absolute path without links.
///
/// # Errors
/// The system's error.
pub(crate) fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize()
}

/// Returns the entries of a directory, in no order.
///
/// # Errors
/// The system's error.
pub(crate) fn read_directory(path: &Path) -> io::Result<impl Iterator<Item = io::Result<Entry>>> {
    Ok(fs::read_dir(path)?.map(|entry| entry.map(Entry)))
}

/// Returns whether the path exists. A link to nothing does not.
pub(crate) fn exists(path: &Path) -> bool {
    path.exists()
}

/// Returns whether the path is a directory, or a link to one.
pub(crate) fn is_directory(path: &Path) -> bool {
    path.is_dir()
}

/// Returns whether the path is a file, or a link to one.
pub(crate) fn is_file(path: &Path) -> bool {
    path.is_file()
}

/// Reads a file up to a number of bytes.
///
/// # Errors
/// The system's error.
pub(crate) fn read_at_most(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(length.saturating_add(1).min(bytes_max));
    file.take(bytes_max as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the first bytes of a regular file, without waiting for a pipe or a device.
///
/// # Errors
/// As for `storage::open_regular`.
pub(crate) fn read_first_bytes(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let (file, _) = storage::open_regular(path)?;
    let mut bytes = Vec::new();
    file.take(bytes_max as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Creates a directory, and those above it.
///
/// # Errors
/// The system's error.
pub(crate) fn create_directories(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Writes a file. Another process can see a part of it.
///
/// # Errors
/// The system's error.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(path, bytes)
}

/// Writes a file that appears under its name complete and durable.
///
/// # Errors
/// The system's error, or the path cannot be replaced by a file.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    storage::write_atomic(path, bytes)
}

/// Deletes a file.
///
/// # Errors
/// The system's error.
pub(crate) fn delete_file(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}
