//! The digests of IDs in tombstones, and their key. Without the key of the log directory, a digest reveals
//! nothing.
//!
//! The module doc of `log/format.rs` specifies their encoding.

use std::fmt::{self, Display, Formatter};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

use super::ids::{IdKind, VisitorId, hash_parts};
use super::record::{Record, RecordKind};
use crate::checksum::hmac_sha256;
use crate::ids;
use crate::little_endian::u32_at;

/// The digest of an ID in the entries of ownership: the first 16 bytes of its HMAC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdTag(pub [u8; 16]);

impl IdTag {
    /// Parses the digest of an ID in a tombstone.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits: IdDigest = text.as_bytes().try_into().ok()?;
        let mut tag = Self::default();
        HEXLOWER_PERMISSIVE.decode_mut(&digits, &mut tag.0).ok()?;
        Some(tag)
    }
}

impl Display for IdTag {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

/// The digest of an ID in a tombstone: the 32 lower-case hex digits of its tag.
pub(crate) type IdDigest = [u8; 32];

/// The key of a log directory's tombstones.
#[derive(Clone)]
pub struct TombstoneKey([u8; 32]);

impl std::fmt::Debug for TombstoneKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TombstoneKey")
    }
}

impl TombstoneKey {
    /// Creates the key from its bytes.
    pub fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// Draws a random key.
    pub(crate) fn random() -> Self {
        Self(ids::random_key())
    }

    /// Returns the bytes of the key.
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns whether `record` is a tombstone that names this ID. Later records of the ID belong to a new
    /// visitor.
    pub fn is_tombstone_of(&self, record: &Record<'_>, visitor_id: VisitorId<'_>) -> bool {
        let VisitorId { site, id_kind, id } = visitor_id;
        let is_of_site = record.kind == RecordKind::Tombstone && record.site == Some(site);
        is_of_site && tombstone_tags(record).any(|name| name == self.tag(site, id_kind, id))
    }

    /// Returns a number that differs between keys and reveals nothing of the key.
    pub(crate) fn check(&self) -> u32 {
        u32_at(&hmac_sha256(&self.0, &[]), 0)
    }

    /// Returns the digest of an ID for the entries of ownership.
    pub fn tag(&self, site: &str, id_kind: IdKind, id: &str) -> IdTag {
        let hash = hmac_sha256(&self.0, &hash_parts(site.as_bytes(), id_kind, id.as_bytes()));
        IdTag(std::array::from_fn(|i| hash[i]))
    }
}

/// Returns the payload of a tombstone that names these IDs.
pub(crate) fn tombstone_payload(owner: IdTag, tags: &[IdTag]) -> String {
    let texts: Vec<String> = tags.iter().map(|tag| format!("\"{tag}\"")).collect();
    format!("{{\"owner\":\"{owner}\",\"erased\":[{}]}}", texts.join(","))
}

/// Returns the digests of the IDs that a tombstone names.
pub(crate) fn tombstone_tags(tombstone: &Record<'_>) -> impl Iterator<Item = IdTag> {
    // The digest of the owner is the first.
    payload_tags(tombstone.payload).skip(1)
}

/// Returns the digest of a tombstone's owner.
pub(crate) fn tombstone_owner(tombstone: &Record<'_>) -> Option<IdTag> {
    payload_tags(tombstone.payload).next()
}

fn payload_tags(payload: &str) -> impl Iterator<Item = IdTag> {
    payload.split('"').filter_map(IdTag::parse)
}
