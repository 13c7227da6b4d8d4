//! The format of the audit files, version 1.
//!
//! ```text
//! audit/audit-00000000000000000001.log     the number of its first record, 20 digits
//!
//! header, 64 bytes
//!    0   8  magic  FF 50 4C 58 41 55 44 54 ("\xFFPLXAUDT")
//!    8   4  format version, u32
//!   12   8  number of the first record, u64. The first record of a log has the number 1
//!   20   8  time at which the file began, i64, Unix milliseconds
//!   28  32  hash of the record before the first one. Zeros if there is none
//!   60   4  CRC-32C of bytes 0 to 59
//!
//! record
//!    0   4  length of the JSON, u32, 1 to 4096
//!    4   n  JSON: an object, its members are those of `AuditLine`
//!  4+n  32  hash: BLAKE3 of the link before it, the length (4 bytes), and the JSON
//! ```
//!
//! Numbers are little-endian. The *link* before the first record of a file is the BLAKE3 of the whole header, and that
//! before each other record is the hash of the record before it. So the chain runs through the headers, and each header continues
//! the file before. The *head* is the number and the hash of the last record. The holder of a head can prove later that no
//! record up to it was removed or changed.
//!
//! # Torn tails
//!
//! A crash can leave a part of a record at the end of the last file. A tail is torn if it is shorter than a record with its length,
//! and no other length makes it a record. A tail of zeros is torn, too. Any other record whose hash is wrong is damage: nothing
//! distinguishes the bytes of a crash from those of a forger. A new file gets its name after it is synced, so a header is never torn.

use crate::checksum::{crc32c, digest};
use crate::data_files::{AUDIT_PREFIX, AUDIT_SUFFIX};
use crate::little_endian::{u32_at, u64_at};

/// The first bytes of an audit file.
pub const MAGIC: [u8; 8] = *b"\xFFPLXAUDT";
/// The format version of the audit files.
pub const FORMAT_VERSION: u32 = 1;
/// Size of a header, in bytes.
pub const HEADER_BYTES: usize = 64;
/// Size of the length before a record, in bytes.
pub(super) const LENGTH_BYTES: usize = 4;
/// Size of a hash, in bytes.
pub(super) const HASH_BYTES: usize = 32;

/// The beginning of the name of a file that is being written.
pub(super) const TEMPORARY_PREFIX: &str = ".audit-";

/// A hash of the chain.
pub type Hash = [u8; HASH_BYTES];

/// The number and the hash of a record. That of the last record proves all records before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Head {
    /// The number of the record. 0 before the first one.
    pub number: u64,
    /// Its hash. Zeros before the first one.
    pub hash: Hash,
}

impl Head {
    /// Returns the hash in hex.
    pub fn hash_text(&self) -> String {
        self.hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Parses a head in the form `NUMBER:HASH`, with the hash in hex.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, digits) = text.split_once(':')?;
        let mut head = Self { number: number.parse().ok()?, hash: [0; HASH_BYTES] };
        if digits.len() != 2 * HASH_BYTES || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, at) in head.hash.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
        }
        Some(head)
    }
}

/// The header of an audit file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The number of the first record.
    pub first_number: u64,
    /// The time at which the file began, in Unix milliseconds.
    pub begun_ms: i64,
    /// The hash of the record before the first one.
    pub previous_hash: Hash,
}

impl Header {
    /// Returns the bytes of the header.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.first_number.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.begun_ms.to_le_bytes());
        bytes[28..60].copy_from_slice(&self.previous_hash);
        let crc = crc32c(&[&bytes[..60]]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// The sentence about the damage.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let Ok(bytes) = <&[u8; HEADER_BYTES]>::try_from(bytes) else {
            return Err(format!("the header has {} of {HEADER_BYTES} bytes", bytes.len()));
        };
        if bytes[..8] != MAGIC {
            return Err("the file does not begin as an audit file".to_owned());
        }
        let version = u32_at(bytes, 8);
        if version != FORMAT_VERSION {
            return Err(format!(
                "the file has the format version {version}, and this release reads version {FORMAT_VERSION}"
            ));
        }
        if u32_at(bytes, 60) != crc32c(&[&bytes[..60]]) {
            return Err("the checksum of the header is wrong".to_owned());
        }
        let mut previous_hash = [0; HASH_BYTES];
        previous_hash.copy_from_slice(&bytes[28..60]);
        let begun_ms = u64_at(bytes, 20).cast_signed();
        Ok(Self { first_number: u64_at(bytes, 12), begun_ms, previous_hash })
    }

    /// Returns the link before the first record.
    pub fn link(self) -> Hash {
        digest(&[&self.to_bytes()])
    }

    /// Returns the head before the first record.
    pub fn head_before(self) -> Head {
        Head { number: self.first_number.saturating_sub(1), hash: self.previous_hash }
    }
}

/// Returns the hash of a record after `link`.
pub fn record_hash(link: &Hash, payload: &[u8]) -> Hash {
    digest(&[link, &length_bytes(payload), payload])
}

/// Appends a record after `link`. Returns its hash.
pub fn write_record(out: &mut Vec<u8>, link: &Hash, payload: &[u8]) -> Hash {
    let hash = record_hash(link, payload);
    out.extend_from_slice(&length_bytes(payload));
    out.extend_from_slice(payload);
    out.extend_from_slice(&hash);
    hash
}

/// Returns the length before a record. No payload has 4 GiB.
fn length_bytes(payload: &[u8]) -> [u8; LENGTH_BYTES] {
    (payload.len() as u32).to_le_bytes()
}

/// Returns the name of the audit file whose first record has this number.
pub fn file_name(first_number: u64) -> String {
    format!("{AUDIT_PREFIX}{first_number:020}{AUDIT_SUFFIX}")
}

/// Returns the name of an audit file until it is complete.
pub(super) fn temporary_name(first_number: u64) -> String {
    format!("{TEMPORARY_PREFIX}{first_number:020}.tmp")
}
