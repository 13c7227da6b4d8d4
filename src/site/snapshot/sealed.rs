//! Opens snapshot files: seals, maps and verifies them, in this order.
//!
//! The server serves exactly the bytes that it verified. It copies the file into memory that nobody can
//! change or truncate afterwards (see `storage::copy_sealed`), and reads only that copy. So truncating the
//! file cannot raise SIGBUS, and one verification is valid for every later access.
//!
//! This file has one `unsafe` block: the map.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use memmap2::Mmap;

use super::format::HEADER_BYTES;
use super::open::{Snapshot, SnapshotBudget, SnapshotError, parse_header};
use crate::little_endian::u64_at;
use crate::storage;

/// Mapped memory that nobody can change.
pub(super) type SealedBytes = Mmap;

impl Snapshot {
    /// Opens the file at `path` with memory from `budget`.
    ///
    /// # Errors
    /// The first reason to reject the file.
    pub fn open(path: &Path, budget: &SnapshotBudget) -> Result<Self, SnapshotError> {
        let (mut file, stamp) = storage::open_regular(path)?;
        Self::open_file(&mut file, stamp.length, budget)
    }

    /// Opens a regular file of `file_bytes` bytes.
    ///
    /// # Errors
    /// The first reason to reject the file.
    pub fn open_file(
        file: &mut File,
        file_bytes: u64,
        budget: &SnapshotBudget,
    ) -> Result<Self, SnapshotError> {
        // Check the header alone first, so that a large file that is not a complete snapshot costs nothing.
        parse_header(&read_header_bytes(file)?, file_bytes)?;
        let charge = budget.reserve(file_bytes)?;
        Self::open_sealed(map(&storage::copy_sealed(file, file_bytes)?)?, charge, budget)
    }

    /// Opens a compiled snapshot that is in no file.
    ///
    /// # Errors
    /// The first reason to reject it.
    pub fn open_bytes(bytes: &[u8], budget: &SnapshotBudget) -> Result<Self, SnapshotError> {
        let charge = budget.reserve(bytes.len() as u64)?;
        Self::open_sealed(map(&storage::seal(bytes)?)?, charge, budget)
    }

    /// Returns whether the header of the file at `path` has the same hash as this snapshot.
    pub fn matches_header_at(&self, path: &Path) -> bool {
        let announced = storage::open_regular(path)
            .map_err(SnapshotError::from)
            .and_then(|(file, stamp)| parse_header(&read_header_bytes(&file)?, stamp.length));
        announced.is_ok_and(|header| header.hash == self.hash())
    }
}

/// Maps sealed memory.
fn map(copy: &File) -> std::io::Result<SealedBytes> {
    // SAFETY: the file is our own memfd with the seals SHRINK, GROW and WRITE: no process can change or
    // truncate the mapped bytes, for as long as they are mapped.
    unsafe { Mmap::map(copy) }
}

/// Returns the site version in the header of the file at `path`, or `None` if it is no snapshot that this release
/// reads.
pub(crate) fn read_version(path: &Path) -> Option<u64> {
    let (file, stamp) = storage::open_regular(path).ok()?;
    parse_header(&read_header_bytes(&file).ok()?, stamp.length).ok().map(|header| header.version)
}

/// Returns the size of the file that begins with these bytes, according to its header.
///
/// # Errors
/// The bytes are not the begin of a snapshot that this release reads.
pub(crate) fn announced_bytes(first_bytes: &[u8]) -> Result<u64, SnapshotError> {
    let file_bytes = match first_bytes.first_chunk::<HEADER_BYTES>() {
        Some(head) => u64_at(head, 16).saturating_add(HEADER_BYTES as u64),
        None => first_bytes.len() as u64,
    };
    parse_header(first_bytes, file_bytes).map(|header| header.payload_length + HEADER_BYTES as u64)
}

fn read_header_bytes(file: &File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    file.take(HEADER_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
