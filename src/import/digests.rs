//! The digests in the tombstones of data directories with other keys than that of the new one.
//!
//! A digest cannot be translated by itself. But each ID that a record of the import names gives the digests with both keys. A digest
//! of an ID that no record names stays as it is: it has nothing to erase, and names nobody under the new key.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::error::ImportError;
use super::inputs::Input;
use super::order::{PLACE_BYTES, Place};
use super::read::RECORDS;
use super::runs::RunSet;
use crate::log;
use crate::record::{
    IdKind, IdTag, Record, RecordKind, TombstoneKey, tombstone_owner, tombstone_payload, tombstone_tags,
};
use crate::storage::disk::Disk;

/// A translation of the digests of one data directory.
struct Foreign {
    key: TombstoneKey,
    /// The digest under the new key, for each digest in a tombstone. `None`: no record names its ID.
    tags: HashMap<IdTag, Option<IdTag>>,
}

/// The translations of the digests of all inputs.
pub(super) struct Translations {
    /// By the number of the input. `None` if it has the new key, or no tombstones.
    by_input: Vec<Option<Foreign>>,
}

impl Translations {
    /// Finds the translations. Reads all records if there are tombstones with another key.
    ///
    /// # Errors
    /// A directory or a run cannot be read.
    pub(super) fn find(
        disk: &Arc<dyn Disk>,
        inputs: &[Input],
        new_key: &TombstoneKey,
        dir: &Path,
        runs: RunSet,
    ) -> Result<Self, ImportError> {
        let mut by_input = Vec::new();
        for input in inputs {
            by_input.push(foreign_of(disk, input, new_key)?);
        }
        let mut translations = Self { by_input };
        if translations.by_input.iter().any(Option::is_some) {
            let mut content = Vec::new();
            RECORDS
                .each(dir, runs, &mut |entry| translations.learn(entry, new_key, &mut content))
                .map_err(ImportError::at(dir))?;
        }
        Ok(translations)
    }

    /// Adds the digests of the IDs of a record.
    fn learn(&mut self, entry: &[u8], new_key: &TombstoneKey, buffer: &mut Vec<u8>) {
        let Some((record, _)) = Record::decode(&entry[PLACE_BYTES..]) else { return };
        let Some(site) = record.site.filter(|_| record.kind != RecordKind::Tombstone) else { return };
        let previous = record.previous_id(buffer);
        let ids = [(IdKind::Anon, record.anon_id), (IdKind::User, record.user_id)];
        let previous = [(IdKind::Anon, previous), (IdKind::User, previous)];
        for (kind, id) in ids.into_iter().chain(previous) {
            let Some(id) = id else { continue };
            for Foreign { key, tags } in self.by_input.iter_mut().flatten() {
                if let Some(new @ None) = tags.get_mut(&key.tag(site, kind, id)) {
                    *new = Some(new_key.tag(site, kind, id));
                }
            }
        }
    }

    /// Appends a record of an input to `out`, with the digests of the new key if it is a tombstone.
    ///
    /// # Errors
    /// The tombstone cannot be encoded.
    pub(super) fn write(
        &self,
        place_bytes: &[u8],
        encoded_record: &[u8],
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let foreign = self.by_input.get(Place::input_of(place_bytes)).and_then(Option::as_ref);
        let tombstone = foreign.filter(|_| encoded_record[4] == RecordKind::Tombstone as u8);
        let decoded = tombstone.and_then(|foreign| Some((foreign, Record::decode(encoded_record)?.0)));
        let Some((foreign, record)) = decoded else {
            out.extend_from_slice(encoded_record);
            return Ok(());
        };
        let translate = |tag: IdTag| foreign.tags.get(&tag).copied().flatten().unwrap_or(tag);
        let mut named: Vec<IdTag> = tombstone_tags(&record).map(translate).collect();
        named.sort_unstable();
        let owner = tombstone_owner(&record).map(translate).unwrap_or_default();
        let payload = tombstone_payload(owner, &named);
        let record = Record { payload: &payload, ..record };
        record.encode(out).map_err(io::Error::other)
    }
}

/// Returns the digests to translate of an input.
fn foreign_of(
    disk: &Arc<dyn Disk>,
    input: &Input,
    new_key: &TombstoneKey,
) -> Result<Option<Foreign>, ImportError> {
    let Some(key) = input.key().filter(|key| key.bytes() != new_key.bytes()) else { return Ok(None) };
    let tombstones = log::scan_tombstones(disk, &input.path)?.tombstones;
    let tags = tombstones.iter().flat_map(|tombstone| tombstone.named.iter().chain([&tombstone.owner]));
    let tags: HashMap<IdTag, Option<IdTag>> = tags.map(|tag| (*tag, None)).collect();
    Ok((!tags.is_empty()).then(|| Foreign { key: key.clone(), tags }))
}
