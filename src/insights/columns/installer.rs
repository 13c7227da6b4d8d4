//! Writes column files into the data directory of a server.
//!
//! A file is written completely under a temporary name, and then renamed. It gets its final name only if no erasure ran
//! from the start of the reading until the rename. It keeps this name only if its segment still exists.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::format::{ColumnFileError, parse_column_file_name};
use super::key::VisitorKey;
use super::key::{load_or_draw_key, store_key};
use crate::limits::COLUMNS_FREE_BYTES_MIN;
use crate::log::{Queue, UNFINISHED_COLUMNS, column_file_name, is_erasing, segment_name};
use crate::storage::damage::KnownDamage;
use crate::storage::disk::{Disk, FileIdentity, append_all};

/// The temporary name of the file that the thread `columns` writes. An erasure deletes files with a temporary name.
const BUILT_FILE: &str = UNFINISHED_COLUMNS[0];
/// The temporary name of the file that the thread `insights` writes.
const ASKED_FILE: &str = UNFINISHED_COLUMNS[1];

/// The segment from which a column file is built.
#[derive(Debug, Clone, Copy)]
pub struct ColumnSource {
    pub first_seq: u64,
    /// Identifies the segment file. Later a different segment file can have the same file name.
    pub segment: FileIdentity,
    /// The erasure generation before the segment was read.
    pub generation: u64,
}

/// A writer of column files.
#[derive(Clone)]
pub struct ColumnInstaller {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    log: Queue,
}

impl ColumnInstaller {
    /// Creates the writer of the column files of a log.
    pub fn new(disk: Arc<dyn Disk>, directory: &Path, queue: Queue) -> Self {
        Self { disk, directory: directory.to_owned(), log: queue }
    }

    /// Returns the erasure generation. The caller must read the generation first and the segment after that.
    pub(crate) fn generation(&self) -> u64 {
        self.log.metrics().generation().now()
    }

    /// Writes a column file and gives it its name. The thread `insights` calls this. Returns false in two cases: an
    /// erasure may have changed the segment, or retention has deleted the segment.
    pub(crate) fn write_and_install(&self, source: ColumnSource, bytes: &[u8]) -> io::Result<bool> {
        Ok(self.write(ASKED_FILE, source, bytes)? && self.install(ASKED_FILE, source)?)
    }

    /// Writes a column file under its temporary name. The thread `columns` calls this. Returns false in the same cases
    /// as `install`.
    pub(crate) fn write_built(&self, source: ColumnSource, bytes: &[u8]) -> io::Result<bool> {
        self.write(BUILT_FILE, source, bytes)
    }

    /// Gives its final name to the file that the thread `columns` has written. Returns false in the same cases as
    /// [`write_and_install`](Self::write_and_install).
    ///
    /// # Errors
    /// Returns an error if the disk returns one.
    pub fn install_built(&self, source: ColumnSource) -> io::Result<bool> {
        self.install(BUILT_FILE, source)
    }

    fn write(&self, temporary_name: &str, source: ColumnSource, bytes: &[u8]) -> io::Result<bool> {
        if !self.is_current(source)? {
            return Ok(false);
        }
        let path = self.directory.join(temporary_name);
        ignore_missing(self.disk.unlink(&path))?;
        self.check_free_bytes(bytes.len() as u64)?;
        let mut file = self.disk.create(&path)?;
        // An erasure that begins after this check deletes the temporary file.
        if !self.is_current(source)? {
            self.discard(temporary_name);
            return Ok(false);
        }
        let result = append_all(&mut *file, bytes).and_then(|()| file.sync_data());
        // After an error the temporary file is deleted. This frees the space on a full disk.
        result.map(|()| true).inspect_err(|_| self.discard(temporary_name))
    }

    /// Returns true if two conditions hold: no erasure ran from the start of the reading until now, and the directory
    /// still has the segment.
    fn is_current(&self, source: ColumnSource) -> io::Result<bool> {
        let is_same = source.generation.is_multiple_of(2) && self.generation() == source.generation;
        Ok(is_same && self.has_segment(source)?)
    }

    /// Returns an error if fewer than [`COLUMNS_FREE_BYTES_MIN`] bytes would be free after the file is written. The log
    /// needs these bytes.
    fn check_free_bytes(&self, file_bytes: u64) -> io::Result<()> {
        let free_bytes = self.disk.free_bytes(&self.directory)?;
        if free_bytes < COLUMNS_FREE_BYTES_MIN.saturating_add(file_bytes) {
            let text = format!(
                "{free_bytes} bytes are free; column files leave {COLUMNS_FREE_BYTES_MIN} bytes to the log"
            );
            return Err(io::Error::new(io::ErrorKind::StorageFull, text));
        }
        Ok(())
    }

    fn install(&self, temporary_name: &str, source: ColumnSource) -> io::Result<bool> {
        let result = self.rename(temporary_name, source);
        if !matches!(result, Ok(true)) {
            // The file may contain records that an erasure has removed from the log.
            self.discard(temporary_name);
        }
        result
    }

    /// Deletes a temporary file.
    fn discard(&self, temporary_name: &str) {
        // If it cannot be deleted, the next write under this name or the next start of the server deletes it.
        let _ = self.disk.unlink(&self.directory.join(temporary_name));
    }

    fn rename(&self, temporary_name: &str, source: ColumnSource) -> io::Result<bool> {
        let name = column_file_name(source.first_seq);
        let from = self.directory.join(temporary_name);
        let to = self.directory.join(name);
        let rename = || self.disk.rename(&from, &to);
        match self.log.metrics().generation().if_unchanged(source.generation, rename) {
            Some(renamed) => renamed?,
            None => return Ok(false),
        }
        self.known_damage().forget(&column_file_name(source.first_seq));
        // Retention deletes a segment first and its column file second. So if the segment still exists here, retention
        // will later delete the column file too.
        let exists = self.has_segment(source);
        if !matches!(exists, Ok(true)) {
            self.delete(source.first_seq);
        }
        self.disk.sync_directory(&self.directory).and(exists)
    }

    fn has_segment(&self, source: ColumnSource) -> io::Result<bool> {
        match self.disk.identity(&self.directory.join(segment_name(source.first_seq))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            other => other.map(|segment| segment == source.segment),
        }
    }

    /// Deletes the column file of a segment.
    pub(crate) fn delete(&self, first_seq: u64) {
        let name = column_file_name(first_seq);
        // If the file cannot be deleted, a later reader reports its damage again, or the next start of the server
        // deletes it.
        if self.disk.unlink(&self.directory.join(&name)).is_ok() {
            self.known_damage().forget(&name);
        }
    }

    /// Returns the list to which readers of the log report damage.
    pub(crate) fn known_damage(&self) -> &KnownDamage {
        self.log.metrics().damage()
    }

    /// Reports the damage of a column file. The report stays in the list until the file is built again or deleted.
    pub(crate) fn report(&self, first_seq: u64, error: &ColumnFileError) {
        if let ColumnFileError::Damaged(_) = error {
            let file = column_file_name(first_seq);
            self.known_damage().report(&file, 0, &format_args!("{file}: {error}"));
        }
    }
}

/// Prepares the data directory at a start. Deletes all temporary files, and each column file whose segment does not
/// exist. If Insights is off or an erasure is not finished, deletes all column files, because they may contain records
/// that were erased from the log. Returns the key of the visitor hashes.
///
/// # Errors
/// Returns an error if the directory cannot be read or written.
pub(crate) fn prepare_directory(disk: &dyn Disk, directory: &Path, is_on: bool) -> io::Result<VisitorKey> {
    let names = disk.list(directory)?;
    let keeps_files = is_on && !is_erasing(disk, directory)?;
    for name in &names {
        let is_temporary = [ASKED_FILE, BUILT_FILE].contains(&name.as_str());
        let is_stale = parse_column_file_name(name)
            .is_some_and(|first_seq| !keeps_files || !names.contains(&segment_name(first_seq)));
        if is_temporary || is_stale {
            ignore_missing(disk.unlink(&directory.join(name)))?;
        }
    }
    disk.sync_directory(directory)?;
    let (key, is_new) = load_or_draw_key(disk, directory)?;
    if is_new && is_on {
        store_key(disk, directory, key)?;
    }
    Ok(key)
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}
