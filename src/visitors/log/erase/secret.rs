//! The digests of IDs in tombstones, and their key. Without the key of the log directory, a digest reveals
//! nothing.
//!
//! [`super::super::format`] specifies their encoding.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::super::LogError;
use super::super::bloom::{IdKind, hash_parts};
use super::super::directory::LogDirectory;
use super::super::record::{Record, RecordKind};
use super::VisitorIds;
use crate::checksum::hmac_sha256;
use crate::ids;
use crate::limits::TOMBSTONE_IDS_MAX;
use crate::storage::disk::Disk;

/// The digest of an ID in a tombstone: 64 lower-case hex digits.
pub(crate) type IdDigest = [u8; 64];

/// The key of a log directory's tombstones.
#[derive(Clone)]
pub struct TombstoneKey([u8; 32]);

impl std::fmt::Debug for TombstoneKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl TombstoneKey {
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
        let key = ids::random_key();
        directory.set_secret(&key)?;
        Ok(Self(key))
    }

    /// Returns whether `record` is a tombstone that names this ID. Later records of the ID belong to a new
    /// visitor.
    pub fn is_tombstone_of(&self, record: &Record<'_>, site: &str, id_kind: IdKind, id: &str) -> bool {
        let is_of_site = record.kind == RecordKind::Tombstone && record.site == Some(site);
        is_of_site && tombstone_digests(record).any(|name| name == self.digest(site, id_kind, id))
    }

    pub(super) fn digest(&self, site: &str, id_kind: IdKind, id: &str) -> IdDigest {
        let mut name = [0; 64];
        let hash = hmac_sha256(&self.0, &hash_parts(site.as_bytes(), id_kind, id.as_bytes()));
        for (digits, word) in name.as_chunks_mut().0.iter_mut().zip(hash.as_chunks().0) {
            *digits = ids::hex_u64(u64::from_be_bytes(*word));
        }
        name
    }

    /// Returns the payloads of a visitor's tombstones. Each names the owner and at most `TOMBSTONE_IDS_MAX` IDs.
    pub(crate) fn tombstone_payloads(&self, visitor: &VisitorIds) -> Vec<String> {
        let digest = |(id_kind, id): &(IdKind, String)| self.digest(&visitor.site, *id_kind, id);
        let quoted = |digest: &IdDigest| format!("\"{}\"", String::from_utf8_lossy(digest));
        let owner = quoted(&digest(&visitor.owner));
        // Sort the digests, so that their order reveals nothing about the IDs.
        let digests: Vec<IdDigest> =
            visitor.ids.iter().map(digest).collect::<BTreeSet<_>>().into_iter().collect();
        let payload = |digests: &[IdDigest]| {
            let erased: Vec<String> = digests.iter().map(quoted).collect();
            format!("{{\"owner\":{owner},\"erased\":[{}]}}", erased.join(","))
        };
        digests.chunks(TOMBSTONE_IDS_MAX).map(payload).collect()
    }
}

/// Returns the digests of the IDs that a tombstone names.
pub(super) fn tombstone_digests(tombstone: &Record<'_>) -> impl Iterator<Item = IdDigest> {
    let digests = tombstone.payload.split('"').filter_map(|text| text.as_bytes().try_into().ok());
    // The first digest is that of the owner.
    digests.skip(1)
}
