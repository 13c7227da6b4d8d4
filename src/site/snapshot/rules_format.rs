//! The rules file of a site, which `/v1/rules` returns: all that a decision needs, and nothing else of the site.
//!
//! ```text
//! OFFSET  SIZE  FIELD           MEANING
//! 0       8     magic           FF 50 52 4C 58 52 55 4C ("\xFFPRLXRUL")
//! 8       4     format version  [`RULES_VERSION`], little-endian
//! 12      4     reserved        0
//! 16      n     snapshot        a snapshot file whose site has only the listed members
//! ```
//!
//! `compile::rules` has the list. Everyone who knows the tracking ID can read the file.

use super::open::SnapshotError;
use crate::little_endian::u32_at;

/// The first bytes of a rules file.
const MAGIC: [u8; 8] = *b"\xFFPRLXRUL";
/// The format version that this release writes. The snapshot within has a version of its own.
const RULES_VERSION: u32 = 1;
/// Bytes before the snapshot. The snapshot stays aligned.
const PREFIX_BYTES: usize = 16;

/// Returns the rules file with this snapshot.
pub(crate) fn from_snapshot(snapshot: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PREFIX_BYTES + snapshot.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&RULES_VERSION.to_le_bytes());
    bytes.resize(PREFIX_BYTES, 0);
    bytes.extend_from_slice(snapshot);
    bytes
}

/// Returns the snapshot in a rules file.
///
/// # Errors
/// The bytes are no rules file, or have another format version.
pub fn snapshot_in(rules: &[u8]) -> Result<&[u8], SnapshotError> {
    let Some((prefix, snapshot)) = rules.split_first_chunk::<PREFIX_BYTES>() else {
        return Err(SnapshotError::NotRules);
    };
    if prefix[..MAGIC.len()] != MAGIC {
        return Err(SnapshotError::NotRules);
    }
    match u32_at(prefix, MAGIC.len()) {
        RULES_VERSION => Ok(snapshot),
        other => Err(SnapshotError::UnsupportedRules(other)),
    }
}
