//! Profile reads from request threads: finds the profile of an ID that a request contains.
//!
//! A profile that was found does not change until the reader is unpinned. A lookup takes no lock and
//! allocates nothing.

use super::apply::KeyHasher;
use super::profile::enrolments::Enrolments;
use super::profile::profile::{Profile, decode_alias, decode_enrolments};
use super::store::table::{Key, PinnedReader, TableReader};
use crate::record::IdKind;

/// Entries of the table that a job reads before it unpins the table. Meanwhile the table frees no memory. A slice ends after the
/// shard with this entry.
const SLICE_ENTRIES: usize = 1_024;

/// A reader of the table of visitors, for one thread.
pub struct ProfileReader {
    reader: TableReader,
    hasher: KeyHasher,
}

/// The table of visitors, pinned for one request.
pub struct PinnedProfiles<'l> {
    table: PinnedReader<'l>,
    hasher: &'l KeyHasher,
}

impl ProfileReader {
    /// Creates a reader from a table reader and the hasher of that table.
    pub fn new(reader: TableReader, hasher: KeyHasher) -> Self {
        Self { reader, hasher }
    }

    /// Pins the table for one request. Profiles found through the returned value stay valid until it is
    /// dropped.
    pub fn pin(&mut self) -> PinnedProfiles<'_> {
        PinnedProfiles { table: self.reader.pin(), hasher: &self.hasher }
    }

    /// Pins the table and reads a slice of it. `read_shard` returns the number of entries of a shard, or `None` after the last
    /// one. Returns the index of the shard after the slice, or `None` after the last shard.
    pub(crate) fn read_slice(
        &mut self,
        first_shard: usize,
        read_shard: &mut dyn FnMut(&PinnedProfiles<'_>, usize) -> Option<usize>,
    ) -> Option<usize> {
        let pinned = self.pin();
        let mut entries = 0;
        let mut shard_index = first_shard;
        while entries < SLICE_ENTRIES {
            entries += read_shard(&pinned, shard_index)?;
            shard_index += 1;
        }
        Some(shard_index)
    }
}

impl PinnedProfiles<'_> {
    /// Returns the profile of an ID. The profile of a linked anon ID is that of its user.
    pub fn find(&self, site: &str, id_kind: IdKind, id: &str) -> Option<Profile<'_>> {
        self.profile(self.key(site, id_kind, id))
    }

    /// Returns the key of an ID.
    pub(crate) fn key(&self, site: &str, id_kind: IdKind, id: &str) -> Key {
        self.hasher.key(site, id_kind, id)
    }

    /// Returns the profile of a key, with the enrolments of its ID.
    pub(crate) fn profile(&self, key: Key) -> Option<Profile<'_>> {
        let value = self.table.get(key)?;
        match decode_alias(value) {
            Some(user_key) => {
                let profile = Profile::decode(self.table.get(user_key)?)?;
                Some(profile.with_enrolments(decode_enrolments(value)))
            }
            None => Profile::decode(value),
        }
    }

    /// Returns the encoded profile of a key.
    pub(crate) fn encoded_profile(&self, key: Key) -> Option<&[u8]> {
        let value = self.table.get(key)?;
        // The entry of a linked anon ID is an alias, which has the key of the user.
        match decode_alias(value) {
            Some(user_key) => self.table.get(user_key),
            None => Some(value),
        }
    }

    /// Starts to load the index word that [`Self::profile`] reads first. With a million visitors it is rarely in the
    /// cache, and other work can run meanwhile.
    pub(crate) fn prefetch_word(&self, key: Key) {
        self.table.prefetch_word(key);
    }

    /// Starts to load the record. Call it some time after [`Self::prefetch_word`], because it reads that word.
    pub(crate) fn prefetch_record(&self, key: Key) {
        self.table.prefetch_record(key);
    }

    /// Passes the profiles of a shard to `visit`. Returns the number of entries, or `None` after the last shard.
    pub(crate) fn visit_shard(
        &self,
        shard_index: usize,
        visit: &mut dyn FnMut(&Profile<'_>),
    ) -> Option<usize> {
        let mut entries = 0;
        for value in self.table.values(shard_index)? {
            entries += 1;
            Profile::decode(value).iter().for_each(&mut *visit);
        }
        Some(entries)
    }

    /// Passes the enrolments of each ID of a site in a shard to `visit`. Returns the number of entries, or `None` after the last
    /// shard.
    pub(crate) fn visit_enrolments(
        &self,
        shard_index: usize,
        site: &str,
        visit: &mut dyn FnMut(Enrolments<'_>),
    ) -> Option<usize> {
        let mut entries = 0;
        for value in self.table.values(shard_index)? {
            entries += 1;
            let enrolments = decode_enrolments(value);
            // An alias does not have its site. The profile of its user does.
            let user_value = || decode_alias(value).map_or(Some(value), |user_key| self.table.get(user_key));
            let is_of_site =
                || user_value().and_then(Profile::decode).is_some_and(|user| user.site() == site);
            if enrolments != Enrolments::NONE && is_of_site() {
                visit(enrolments);
            }
        }
        Some(entries)
    }
}
