//! The table of visitors as a log in memory uses it: applies records in their order, and returns encoded profiles.
//!
//! It has no checkpoints, no metrics and no entries of ownership, because no record stays.

use std::cell::{Ref, RefCell};
use std::rc::Rc;

use super::apply::{KeyHasher, ProfileUpdater};
use super::lookup::ProfileReader;
use super::profile::FoldCounts;
use super::profile::builder::ProfileBuilder;
use super::profile::enrolments::Enrolments;
use super::profile::profile::{Profile, decode_alias, decode_enrolments, encode_alias};
use super::store::table::{EvictionClass, Table};
use crate::log::Records;
use crate::record::IdKind;

/// A table that its readers share. All of them are on one thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedTable(Rc<RefCell<Table>>);

impl SharedTable {
    /// Borrows the table for one request.
    pub(super) fn pin(&self) -> Ref<'_, Table> {
        self.0.borrow()
    }
}

/// The table of visitors with its writer.
pub struct ProfileTable {
    table: SharedTable,
    updater: ProfileUpdater,
    secret: [u8; 16],
    cost_max: u64,
    counts: FoldCounts,
}

/// A factory of readers.
#[derive(Clone)]
pub struct ProfileReaders {
    table: SharedTable,
    hasher: KeyHasher,
}

impl ProfileReaders {
    /// Creates a reader.
    pub fn reader(&self) -> ProfileReader {
        ProfileReader::of_table(self.table.clone(), self.hasher.clone())
    }
}

impl ProfileTable {
    /// Creates an empty table whose keys are hashed with `secret`. Visitors are evicted while the table costs more than
    /// `cost_max`.
    pub fn new(secret: [u8; 16], cost_max: u64) -> (Self, ProfileReaders) {
        let updater = ProfileUpdater::new(secret);
        let table = SharedTable::default();
        let readers = ProfileReaders { table: table.clone(), hasher: updater.hasher().clone() };
        (Self { table, updater, secret, cost_max, counts: FoldCounts::default() }, readers)
    }

    /// Applies the next records of the log.
    pub fn fold(&mut self, records: Records<'_>) {
        let table = &mut *self.table.0.borrow_mut();
        for (_, record) in records.iter() {
            self.updater.apply(table, &record, self.cost_max, &mut self.counts);
        }
    }

    /// Adds the profile of a visitor, and those aliases of a user that are not in the table yet. The enrolments in it become those of
    /// each ID that is added. Returns false if the bytes are no profile.
    pub(crate) fn insert(&mut self, encoded: &[u8]) -> bool {
        let Some(mut builder) = ProfileBuilder::decode(encoded) else { return false };
        let Some(profile) = Profile::decode(encoded) else { return false };
        let site = profile.site();
        let hasher = self.updater.hasher();
        let owner = profile.user_id().map(|id| (IdKind::User, id));
        let owner = owner.or_else(|| profile.anon_ids().next().map(|id| (IdKind::Anon, id)));
        let Some((id_kind, id)) = owner else { return false };
        let own_key = hasher.key(site, id_kind, id);
        let table = &mut *self.table.0.borrow_mut();
        let mut buffer = Vec::new();
        let class = builder.write(&mut buffer);
        table.put(own_key, &buffer, class);
        encode_alias(own_key, profile.enrolments().bytes(), &mut buffer);
        for anon_id in profile.anon_ids().filter(|_| id_kind == IdKind::User) {
            let key = hasher.key(site, IdKind::Anon, anon_id);
            if table.get(key).is_none() {
                table.put(key, &buffer, EvictionClass::Pinned);
            }
        }
        true
    }

    /// Returns the encoded profile of an ID: that of its user if it is linked to one, with the enrolments of the ID. Empty if
    /// nothing is recorded of it.
    pub(crate) fn encoded(&self, site: &str, id_kind: IdKind, id: &str) -> Vec<u8> {
        let table = self.table.pin();
        let mut encoded = Vec::new();
        let Some(value) = table.get(self.updater.hasher().key(site, id_kind, id)) else { return encoded };
        let owner = decode_alias(value).map_or(Some(value), |user_key| table.get(user_key));
        if let Some(mut builder) = owner.and_then(ProfileBuilder::decode) {
            builder.enrolments = Enrolments::decode(decode_enrolments(value).bytes());
            builder.write(&mut encoded);
        }
        encoded
    }

    /// Removes all visitors.
    pub(crate) fn clear(&mut self) {
        self.updater = ProfileUpdater::new(self.secret);
        *self.table.0.borrow_mut() = Table::new();
    }
}
