//! Opens snapshot files: seals, maps and verifies them, in this order.
//!
//! The server serves exactly the bytes that it verified. It copies the file into memory that nobody can
//! change or truncate afterwards (see `storage::copy_sealed`), and reads only that copy. So truncating the
//! file cannot raise SIGBUS, and one verification is valid for every later access.
//!
//! This file has two `unsafe` blocks: the map, and the access after the verification.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::Mmap;

use super::format::{
    ARCHIVE_ALIGNMENT, ArchivedSite, FORMAT_VERSION, HASH_OFFSET, HEADER_BYTES, Header, MAGIC, VERSION_MAX,
};
use super::pieces::Pieces;
use super::verify;
use crate::condition::Patterns;
use crate::limits::{ARCHIVE_BYTES_MAX, PIECE_DATA_BYTES_MAX};
use crate::little_endian::{u32_at, u64_at};
use crate::storage;

/// A verified snapshot in sealed memory.
pub struct Snapshot {
    map: Mmap,
    header: Header,
    patterns: Patterns,
    /// Reservations for the map and the patterns. They return the memory to the budget on drop.
    _reservations: [Reservation; 2],
}

/// The reason why a snapshot file is rejected.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("cannot be read: {0}; let the server read the file, or delete it")]
    Unreadable(#[from] std::io::Error),
    #[error(
        "not a snapshot: the first bytes are not the magic number of a snapshot file; copy the file again, or compile the site again"
    )]
    NotASnapshot,
    #[error("incomplete: {actual} of {expected} bytes; copy the file again")]
    Incomplete { expected: u64, actual: u64 },
    #[error(
        "unsupported format version {0}, this server reads {FORMAT_VERSION}; compile the site again with this release's `parallax compile`"
    )]
    UnsupportedFormat(u32),
    #[error("damaged: {0}; copy the file again, or compile the site again")]
    Damaged(&'static str),
    #[error("invalid content: {0}; compile the site again")]
    Invalid(String),
    #[error("its tracking ID is {actual}, and this server serves only {accepted} (--tracking-id)")]
    OtherTrackingId { actual: String, accepted: String },
    #[error(
        "snapshot memory exhausted: {needed} bytes needed, {used} of {bound} bytes in use; raise --snapshots-memory"
    )]
    BudgetExceeded { needed: u64, used: u64, bound: u64 },
}

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
        Self::open_sealed(&storage::copy_sealed(file, file_bytes)?, charge, budget)
    }

    /// Opens a compiled snapshot that is in no file.
    ///
    /// # Errors
    /// The first reason to reject it.
    pub fn open_bytes(bytes: &[u8], budget: &SnapshotBudget) -> Result<Self, SnapshotError> {
        let charge = budget.reserve(bytes.len() as u64)?;
        Self::open_sealed(&storage::seal(bytes)?, charge, budget)
    }

    /// Maps and verifies sealed memory. `charge` is the reservation of its size.
    fn open_sealed(copy: &File, charge: Reservation, budget: &SnapshotBudget) -> Result<Self, SnapshotError> {
        // SAFETY: the file is our own memfd with the seals SHRINK, GROW and WRITE: no process can change or
        // truncate the mapped bytes, for as long as they are mapped.
        let map = unsafe { Mmap::map(copy) }?;
        let header = parse_header(&map, map.len() as u64)?;
        let payload = &map[HEADER_BYTES..];
        if header.compute_hash(payload) != header.hash {
            return Err(SnapshotError::Damaged("the content does not match the hash in the header"));
        }
        let (piece_data, archive) = payload.split_at(header.piece_data_length as usize);
        let site = rkyv::access::<ArchivedSite, rkyv::rancor::Error>(archive)
            .map_err(|error| SnapshotError::Invalid(error.to_string()))?;
        verify::verify_site(site, piece_data).map_err(|reason| SnapshotError::Invalid(reason.to_owned()))?;
        if site.version.to_native() != header.version {
            return Err(SnapshotError::Invalid("header and content have different site versions".to_owned()));
        }
        let sources: Vec<&str> = site.patterns.iter().map(|p| p.as_str()).collect();
        let patterns = Patterns::new(&sources).map_err(|error| SnapshotError::Invalid(error.to_string()))?;
        let charges = [charge, budget.reserve(patterns.memory_bytes() as u64)?];
        Ok(Self { map, header, patterns, _reservations: charges })
    }

    /// Returns the site in the snapshot.
    pub fn site(&self) -> &ArchivedSite {
        // SAFETY: `open_sealed` checked exactly these bytes as an archive of `Site` with its root at the end,
        // and they are sealed. The map lives as long as `self`.
        unsafe { rkyv::access_unchecked::<ArchivedSite>(&self.map[self.archive_offset()..]) }
    }

    /// Returns the texts of the site.
    pub fn pieces(&self) -> Pieces<'_> {
        Pieces::new(&self.site().pieces, &self.map[HEADER_BYTES..self.archive_offset()])
    }

    fn archive_offset(&self) -> usize {
        HEADER_BYTES + self.header.piece_data_length as usize
    }

    /// Returns the site's compiled regular expressions.
    pub fn patterns(&self) -> &Patterns {
        &self.patterns
    }

    /// Returns the site's version.
    pub fn version(&self) -> u64 {
        self.header.version
    }

    /// Returns the hash in the header, which identifies the whole content.
    pub fn hash(&self) -> [u8; 32] {
        self.header.hash
    }

    /// Returns whether the header of the file at `path` has the same hash as this snapshot.
    pub fn matches_header_at(&self, path: &Path) -> bool {
        let announced = storage::open_regular(path)
            .map_err(SnapshotError::from)
            .and_then(|(file, stamp)| parse_header(&read_header_bytes(&file)?, stamp.length));
        announced.is_ok_and(|header| header.hash == self.header.hash)
    }

    /// Returns the size of the whole file in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.map.len() as u64
    }
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

/// Parses the header at the beginning of `bytes`, which belong to a file of `file_bytes` bytes.
fn parse_header(bytes: &[u8], file_bytes: u64) -> Result<Header, SnapshotError> {
    if !MAGIC.starts_with(&bytes[..bytes.len().min(MAGIC.len())]) {
        return Err(SnapshotError::NotASnapshot);
    }
    let Some(head) = bytes.first_chunk::<HEADER_BYTES>().filter(|_| file_bytes >= HEADER_BYTES as u64) else {
        return Err(SnapshotError::Incomplete { expected: HEADER_BYTES as u64, actual: file_bytes });
    };
    if u32_at(head, 8) != FORMAT_VERSION {
        return Err(SnapshotError::UnsupportedFormat(u32_at(head, 8)));
    }
    if u32_at(head, 12) as usize != HEADER_BYTES {
        return Err(SnapshotError::Damaged("the header length is not 80"));
    }
    let payload_length = u64_at(head, 16);
    let version = u64_at(head, 24);
    let piece_data_length = u64_at(head, 32);
    let actual = file_bytes - HEADER_BYTES as u64;
    if payload_length > ARCHIVE_BYTES_MAX + PIECE_DATA_BYTES_MAX || version > VERSION_MAX {
        return Err(SnapshotError::Damaged(
            "the payload length or the site version in the header is out of range",
        ));
    }
    if actual < payload_length {
        return Err(SnapshotError::Incomplete { expected: payload_length, actual });
    }
    if actual > payload_length {
        return Err(SnapshotError::Damaged("the file is longer than its header says"));
    }
    let is_aligned = piece_data_length.is_multiple_of(ARCHIVE_ALIGNMENT as u64);
    if piece_data_length > payload_length || !is_aligned || u64_at(head, 40) != 0 {
        return Err(SnapshotError::Damaged("the length of the piece data in the header is out of range"));
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(&head[HASH_OFFSET..]);
    Ok(Header { payload_length, piece_data_length, version, hash })
}

/// A memory budget for sealed snapshots and the tables of their regular expressions. A replaced snapshot
/// counts until the last request and the last worker have released it.
#[derive(Debug, Clone)]
pub struct SnapshotBudget {
    used_bytes: Arc<AtomicU64>,
    limit_bytes: u64,
}

impl SnapshotBudget {
    /// Creates a budget of `limit_bytes` bytes.
    pub fn new(limit_bytes: u64) -> Self {
        Self { used_bytes: Arc::default(), limit_bytes }
    }

    /// Returns the reserved bytes.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Reserves memory until the returned value is dropped.
    ///
    /// # Errors
    /// The budget does not have as much.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<Reservation, SnapshotError> {
        let taken = self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|sum| *sum <= self.limit_bytes)
        });
        match taken {
            Ok(_) => Ok(Reservation { bytes, used_bytes: Arc::clone(&self.used_bytes) }),
            Err(used) => Err(SnapshotError::BudgetExceeded { needed: bytes, used, bound: self.limit_bytes }),
        }
    }
}

/// A reserved part of the budget.
pub(crate) struct Reservation {
    bytes: u64,
    used_bytes: Arc<AtomicU64>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
