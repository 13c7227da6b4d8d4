//! The file `secret` of a log directory, which has the key of its tombstones, and the payloads of the tombstones of a visitor.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::super::LogError;
use super::super::directory::LogDirectory;
use super::VisitorIds;
use crate::limits::TOMBSTONE_IDS_MAX;
use crate::record::{IdTag, TombstoneKey, tombstone_payload};
use crate::storage::disk::Disk;

impl TombstoneKey {
    /// Reads the key of `dir`, a log directory or a copy of one. Returns `None` if there is no file `secret`.
    ///
    /// # Errors
    /// An I/O error, or `InvalidData` if the key's file is damaged.
    pub fn read(disk: Arc<dyn Disk>, dir: &Path) -> Result<Option<Self>, LogError> {
        Self::load(&LogDirectory::open_read_only(disk, dir)).map_err(|error| LogError::io(dir, error))
    }

    pub(in super::super) fn load(directory: &LogDirectory) -> io::Result<Option<Self>> {
        Ok(directory.secret()?.map(Self::new))
    }

    pub(crate) fn load_or_create(directory: &LogDirectory) -> io::Result<Self> {
        if let Some(secret) = Self::load(directory)? {
            return Ok(secret);
        }
        let key = Self::random();
        key.save(directory)?;
        Ok(key)
    }

    pub(in super::super) fn save(&self, directory: &LogDirectory) -> io::Result<()> {
        directory.set_secret(self.bytes())
    }
}

/// Returns the payloads of a visitor's tombstones. Each names the owner and at most [`TOMBSTONE_IDS_MAX`] IDs.
pub(crate) fn tombstone_payloads(visitor_ids: &VisitorIds) -> Vec<String> {
    // Sort the digests, so that their order reveals nothing about the IDs.
    let named: BTreeSet<IdTag> = visitor_ids.named.iter().copied().collect();
    let named: Vec<IdTag> = named.into_iter().collect();
    named.chunks(TOMBSTONE_IDS_MAX).map(|named| tombstone_payload(visitor_ids.owner, named)).collect()
}
