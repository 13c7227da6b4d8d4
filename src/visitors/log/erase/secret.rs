//! The digests of IDs in tombstones, and their key. Without the key of the log directory, a digest reveals
//! nothing.
//!
//! [`super::super::format`] specifies their encoding.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::Path;
use std::sync::Arc;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

use super::super::LogError;
use super::super::bloom::{IdKind, hash_parts};
use super::super::directory::LogDirectory;
use super::super::format::u32_at;
use super::super::record::{Record, RecordKind};
use super::VisitorIds;
use crate::checksum::hmac_sha256;
use crate::ids;
use crate::limits::TOMBSTONE_IDS_MAX;
use crate::storage::disk::Disk;

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

    /// Reads the key of `dir`, a log directory or a copy of one. Returns `None` if there is no file `secret`.
    ///
    /// # Errors
    /// An I/O error, or `InvalidData` if the key's file is damaged.
    pub fn read(disk: Arc<dyn Disk>, dir: &Path) -> Result<Option<Self>, LogError> {
        Self::load(&LogDirectory::open_read_only(disk, dir)).map_err(|error| LogError::io(dir, error))
    }

    pub(in super::super) fn load(directory: &LogDirectory) -> io::Result<Option<Self>> {
        Ok(directory.secret()?.map(Self))
    }

    pub(crate) fn load_or_create(directory: &LogDirectory) -> io::Result<Self> {
        if let Some(secret) = Self::load(directory)? {
            return Ok(secret);
        }
        let key = Self::random();
        key.save(directory)?;
        Ok(key)
    }

    /// Draws a random key.
    pub(in super::super) fn random() -> Self {
        Self(ids::random_key())
    }

    pub(in super::super) fn save(&self, directory: &LogDirectory) -> io::Result<()> {
        directory.set_secret(&self.0)
    }

    /// Returns whether `record` is a tombstone that names this ID. Later records of the ID belong to a new
    /// visitor.
    pub fn is_tombstone_of(&self, record: &Record<'_>, site: &str, id_kind: IdKind, id: &str) -> bool {
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

/// Returns the payloads of a visitor's tombstones. Each names the owner and at most [`TOMBSTONE_IDS_MAX`] IDs.
pub(crate) fn tombstone_payloads(visitor: &VisitorIds) -> Vec<String> {
    // Sort the digests, so that their order reveals nothing about the IDs.
    let named: BTreeSet<IdTag> = visitor.named.iter().copied().collect();
    let named: Vec<IdTag> = named.into_iter().collect();
    named.chunks(TOMBSTONE_IDS_MAX).map(|named| tombstone_payload(visitor.owner, named)).collect()
}

/// Returns the payload of a tombstone that names these IDs.
pub(super) fn tombstone_payload(owner: IdTag, tags: &[IdTag]) -> String {
    let texts: Vec<String> = tags.iter().map(|tag| format!("\"{tag}\"")).collect();
    format!("{{\"owner\":\"{owner}\",\"erased\":[{}]}}", texts.join(","))
}

/// Returns the digests of the IDs that a tombstone names.
pub(crate) fn tombstone_tags(tombstone: &Record<'_>) -> impl Iterator<Item = IdTag> {
    // The digest of the owner is the first.
    payload_tags(tombstone.payload).skip(1)
}

/// Returns the digest of a tombstone's owner.
pub(super) fn tombstone_owner(tombstone: &Record<'_>) -> Option<IdTag> {
    payload_tags(tombstone.payload).next()
}

fn payload_tags(payload: &str) -> impl Iterator<Item = IdTag> {
    payload.split('"').filter_map(IdTag::parse)
}
