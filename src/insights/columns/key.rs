//! The key of the visitor hashes, and its file `columns-key`.

use std::io;
use std::path::Path;

use crate::checksum::hash128_parts;
use crate::ids;
use crate::log::COLUMNS_KEY_FILE;
use crate::record::Record;
use crate::storage::disk::{Disk, append_all, read_full};

/// Temporary name of the key file. The log writer and an erasure use other temporary names.
const TEMPORARY_FILE: &str = ".columns";

/// The key of visitor hashes.
#[derive(Debug, Clone, Copy)]
pub struct VisitorKey(pub [u8; 16]);

impl VisitorKey {
    /// Draws a key.
    pub(crate) fn random() -> Self {
        let [high, low] = [ids::random_u64(), ids::random_u64()].map(u64::to_le_bytes);
        Self(std::array::from_fn(|at| if at < 8 { high[at] } else { low[at - 8] }))
    }

    /// Returns the ID of the key. Each column file contains the ID of its key.
    pub(crate) fn id(&self) -> u32 {
        hash128_parts([&self.0]) as u32
    }

    /// Returns the hash of an anonymous ID, or of a user ID.
    pub(in crate::insights) fn hash(&self, site: &str, kind_byte: u8, id: &str) -> u64 {
        hash128_parts([&self.0, site.as_bytes(), &[0, kind_byte], id.as_bytes()]) as u64
    }

    /// Returns the hash of the visitor of a record. Returns `None` if the record has no ID.
    pub(super) fn hash_of(&self, record: &Record<'_>) -> Option<u64> {
        let site = record.site.unwrap_or_default();
        let anonymous = record.anon_id.map(|id| self.hash(site, b'a', id));
        anonymous.or_else(|| Some(self.hash(site, b'u', record.user_id?)))
    }
}

/// Reads the key from the key file in `directory`. If there is no valid key file, draws a new key. No existing column file
/// can be read with a new key. The second result is true if the key is new.
///
/// # Errors
/// Returns an error if the file exists and cannot be read.
pub(crate) fn load_or_draw_key(disk: &dyn Disk, directory: &Path) -> io::Result<(VisitorKey, bool)> {
    let file = match disk.open(&directory.join(COLUMNS_KEY_FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((VisitorKey::random(), true)),
        other => other?,
    };
    let mut bytes = [0; 17];
    let length = read_full(&*file, &mut bytes, 0)?;
    let key = bytes[..length].try_into().ok().map(VisitorKey);
    Ok(key.map_or_else(|| (VisitorKey::random(), true), |key| (key, false)))
}

/// Writes the key.
///
/// # Errors
/// Returns the first error of the disk.
pub(crate) fn store_key(disk: &dyn Disk, directory: &Path, key: VisitorKey) -> io::Result<()> {
    let mut file = disk.create(&directory.join(TEMPORARY_FILE))?;
    append_all(&mut *file, &key.0)?;
    file.sync_data()?;
    disk.rename(&directory.join(TEMPORARY_FILE), &directory.join(COLUMNS_KEY_FILE))?;
    disk.sync_directory(directory)
}
