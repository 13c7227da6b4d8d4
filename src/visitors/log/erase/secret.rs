//! The names by which a tombstone tells whom it is of: in come ids, out come hashes that tell nothing without the folder's key.
//!
//! Their form stands in [`super::super::format`].

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::super::LogError;
use super::super::bloom::{Whose, parts};
use super::super::directory::Directory;
use super::super::record::{Kind, Record};
use super::Visitor;
use crate::checksum::keyed;
use crate::ids;
use crate::storage::disk::Disk;

/// An id, as a tombstone has it: 64 lower-case hex digits.
pub type Name = [u8; 64];

/// The key of a folder.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// That of `folder`, for whoever folds its log or a copy of it; `None` where nobody was erased yet.
    ///
    /// # Errors
    /// What the system says; `InvalidData` where it is damaged.
    pub fn read(disk: Arc<dyn Disk>, folder: &Path) -> Result<Option<Self>, LogError> {
        Self::of(&Directory::read(disk, folder)).map_err(|error| LogError::io(folder, error))
    }

    pub(super) fn of(directory: &Directory) -> io::Result<Option<Self>> {
        Ok(directory.secret()?.map(Self))
    }

    pub(crate) fn of_or_new(directory: &Directory) -> io::Result<Self> {
        if let Some(secret) = Self::of(directory)? {
            return Ok(secret);
        }
        let key = ids::secret();
        directory.set_secret(&key)?;
        Ok(Self(key))
    }

    /// Whether `record` is a tombstone of this id: the visitor of that id is a new one behind it.
    pub fn is_named(&self, record: &Record<'_>, site: &str, whose: Whose, id: &str) -> bool {
        let is_of_site = record.kind == Kind::Tombstone && record.site == Some(site);
        is_of_site && named(record).any(|name| name == self.name(site, whose, id))
    }

    pub(super) fn name(&self, site: &str, whose: Whose, id: &str) -> Name {
        let mut name = [0; 64];
        let hash = keyed(&self.0, &parts(site.as_bytes(), whose, id.as_bytes()));
        for (digits, word) in name.as_chunks_mut().0.iter_mut().zip(hash.as_chunks().0) {
            *digits = ids::hex(u64::from_be_bytes(*word));
        }
        name
    }

    /// The payload of a visitor's tombstone.
    pub(crate) fn payload(&self, visitor: &Visitor) -> String {
        let names = visitor.ids.iter().map(|(whose, id)| self.name(&visitor.site, *whose, id));
        // Ascending, so that their order tells nothing.
        let names: BTreeSet<Name> = names.collect();
        let quoted: Vec<String> =
            names.iter().map(|name| format!("\"{}\"", String::from_utf8_lossy(name))).collect();
        format!("{{\"erased\":[{}]}}", quoted.join(","))
    }
}

/// The names in a tombstone.
pub(super) fn named(tombstone: &Record<'_>) -> impl Iterator<Item = Name> {
    tombstone.payload.split('"').filter_map(|text| text.as_bytes().try_into().ok())
}
