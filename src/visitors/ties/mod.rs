//! Ownership: the entries that say which visitor each record belongs to.
//!
//! For each anonymous ID of a site there is a list of *entries* in seq order. An entry is a *tie* to a user or
//! an *end*. The fold decides each tie once. A tombstone that names the ID makes an end.
//!
//! `events::identity` is the rule by which records make entries and by which entries decide owners. A tie to the
//! present user adds no entry. Seqs decide, never a timestamp.
//!
//! [`merge`] adds new entries to the sorted entries of a checkpoint.
//! [`recent`] keeps the entries since the last checkpoint. [`lost`] is the set of the IDs whose alias left the
//! table. [`known`] shares all of this between the log writer and the jobs of the admin address. [`cache`] serves a job
//! that reads many records.
//!
//! Invariants: the owner of a record depends on the log alone, never on a memory limit or on retention. An
//! entry contains no ID, only digests under the key of the data directory.

pub mod cache;
pub mod known;
pub mod lost;
pub mod merge;
pub mod recent;

use crate::events::identity::Users;
use crate::little_endian::u64_at;
use crate::record::IdTag;

/// Returns the users of an anonymous ID before the record of a seq and after it, and the user of the entry after that.
/// `entries` are those of the ID, in seq order.
pub fn users_around(entries: &[TieEntry], seq: u64) -> Users {
    let first = entries.partition_point(|entry| entry.seq < seq);
    let next = entries.partition_point(|entry| entry.seq <= seq);
    let user_at = |at: Option<usize>| entries.get(at?)?.user;
    Users {
        before: user_at(first.checked_sub(1)),
        after: user_at(next.checked_sub(1)),
        next: user_at(Some(next)),
    }
}

/// Length of an encoded entry.
pub const TIE_BYTES: usize = 56;
/// On a node of a cluster, entries have *orders* in place of seqs: the position of the message in the stream,
/// times this, plus the index of the record. A message has fewer records.
pub(crate) const ORDERS_PER_POSITION: u64 = 1 << 16;

/// An entry of one anonymous ID: a tie to a user, or an end. Entries sort by anonymous ID, then by seq.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TieEntry {
    /// The digest of the anonymous ID.
    pub anon: IdTag,
    /// The seq of the record that made the tie, or of the tombstone that made the end.
    pub seq: u64,
    /// The digest of the user, or `None` for an end.
    pub user: Option<IdTag>,
    /// The hash by which the filter of a segment finds the anonymous ID. 0 in an end that was made by a
    /// tombstone of the log, because a tombstone contains no hashes.
    pub anon_hash: u64,
    /// The same hash of the user ID. 0 in an end.
    pub user_hash: u64,
}

impl TieEntry {
    /// Encodes the entry. [`crate::visitors::checkpoint::format`] specifies the encoding.
    pub fn to_bytes(self) -> [u8; TIE_BYTES] {
        let mut bytes = [0; TIE_BYTES];
        bytes[0..16].copy_from_slice(&self.anon.0);
        bytes[16..24].copy_from_slice(&self.seq.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.user.unwrap_or_default().0);
        bytes[40..48].copy_from_slice(&self.anon_hash.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.user_hash.to_le_bytes());
        bytes
    }

    /// Decodes an entry.
    pub fn from_bytes(bytes: &[u8; TIE_BYTES]) -> Self {
        let tag = |at: usize| IdTag(std::array::from_fn(|i| bytes[at + i]));
        Self {
            anon: tag(0),
            seq: u64_at(bytes, 16),
            user: Some(tag(24)).filter(|user| *user != IdTag::default()),
            anon_hash: u64_at(bytes, 40),
            user_hash: u64_at(bytes, 48),
        }
    }
}
