//! Verifies the bytes of a snapshot, and gives access to its site.
//!
//! Nobody can change the bytes any more, so one verification is valid for every later access. This file has one `unsafe`
//! block: the access after the verification.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::format::{
    ARCHIVE_ALIGNMENT, ArchivedSite, FORMAT_VERSION, HASH_OFFSET, HEADER_BYTES, Header, MAGIC, VERSION_MAX,
};
use super::pattern_format::ArchivedSitePatterns;
use super::pieces::Pieces;
use super::sealed::SealedBytes;
use super::verify;
use crate::condition::{Patterns, TABLE_FORMAT};
use crate::limits::{ARCHIVE_BYTES_MAX, PIECE_DATA_BYTES_MAX};
use crate::little_endian::{u32_at, u64_at};

/// A verified snapshot in sealed memory.
pub struct Snapshot {
    bytes: SealedBytes,
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
    #[error("not a rules file: the first bytes are not its magic number")]
    NotRules,
    #[error("unsupported format version {0} of the rules file; use the release of the server")]
    UnsupportedRules(u32),
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
    /// Verifies the bytes of a snapshot, which nobody can change any more. `charge` is the reservation of their memory.
    pub(super) fn open_sealed(
        bytes: SealedBytes,
        charge: Reservation,
        budget: &SnapshotBudget,
    ) -> Result<Self, SnapshotError> {
        let header = parse_header(&bytes, bytes.len() as u64)?;
        let payload = &bytes[HEADER_BYTES..];
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
        let patterns = open_patterns(site)?;
        let charges = [charge, budget.reserve(patterns.memory_bytes() as u64)?];
        Ok(Self { bytes, header, patterns, _reservations: charges })
    }

    /// Returns the site in the snapshot.
    pub fn site(&self) -> &ArchivedSite {
        // SAFETY: `open_sealed` checked exactly these bytes as an archive of `Site` with its root at the end,
        // and they are sealed. The map lives as long as `self`.
        unsafe { rkyv::access_unchecked::<ArchivedSite>(&self.bytes[self.archive_offset()..]) }
    }

    /// Returns the texts of the site.
    pub fn pieces(&self) -> Pieces<'_> {
        Pieces::new(&self.site().pieces, &self.bytes[HEADER_BYTES..self.archive_offset()])
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

    /// Returns the size of the whole file in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Returns the regular expressions of a site.
fn open_patterns(site: &ArchivedSite) -> Result<Patterns, SnapshotError> {
    let ArchivedSitePatterns { sources, tables, table_format } = &site.patterns;
    let invalid = |reason: String| SnapshotError::Invalid(reason);
    if *table_format == TABLE_FORMAT {
        if sources.len() != tables.len() {
            return Err(invalid("a regular expression has no table".to_owned()));
        }
        let tables = tables.iter().map(|table| table.as_slice());
        return Patterns::read(tables).map_err(|reason| invalid(reason.to_owned()));
    }
    #[cfg(feature = "author")]
    return Patterns::new(&sources.iter().map(|source| source.as_str()).collect::<Vec<_>>())
        .map_err(|error| invalid(error.to_string()));
    #[cfg(not(feature = "author"))]
    return Err(invalid("its regular expressions have a format that this module does not read".to_owned()));
}

/// Parses the header at the beginning of `bytes`, which belong to a file of `file_bytes` bytes.
pub(super) fn parse_header(bytes: &[u8], file_bytes: u64) -> Result<Header, SnapshotError> {
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
