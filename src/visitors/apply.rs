//! Applies each record of the log to the profile that it belongs to.
//!
//! * An identify or an alias links an anon ID to a user by the rule of [`identity`]. The profile of the anon ID is merged into
//!   the profile of the user, and the table's entry of the anon ID becomes an alias of the user.
//! * An identify can move a linked anon ID to another user. Later events then belong to the new user. Earlier
//!   events stay in the profile of the old user. The redacted rest of an erased identify removes the link.
//! * Two users are never merged.
//! * An event with an anon ID goes to the profile of that ID, or of its user if the ID is linked. An event
//!   with only a user ID goes to the profile of the user, and so does an event that names another user than
//!   the one that its anon ID is linked to.
//! * Eviction and the limit on the IDs of a user remove aliases. [`LostAliases`] keeps these IDs. A link of such
//!   an ID drops its anonymous profile, because the events in it belong to the user before.
//! * An exposure to a published experiment enrols the ID that experiments hash. The enrolment is in that ID's own entry: the
//!   profile, or the alias once the ID is linked. A link moves it there. A merge moves none.
//! * Records of flagged crawlers, groups, other aliases, void records and tombstones change nothing.
//!
//! Invariants: an alias always leads to the profile of a user that lists the anon ID. The table is a function
//! of the records in their order and of its memory limit. Restarts do not change it.

use super::profile::FoldCounts;
use super::profile::builder::ProfileBuilder;
use super::profile::enrolments::Enrolments;
use super::profile::event::Event;
use super::profile::profile::{Profile, TableEntry, decode_alias, decode_enrolments, encode_alias};
use super::store::table::{EvictionClass, Key, Table};
use crate::checksum;
use crate::events::identity::{self, NamedOwner};
use crate::record::fold_input::{FoldParts, PhaseHashes};
use crate::record::{IdKind, Record, RecordKind, hash_parts};
use crate::visitors::ties::lost::LostAliases;

/// A keyed hasher that turns IDs into the keys of a table.
#[derive(Clone)]
pub struct KeyHasher {
    secret: [u8; 16],
}

impl KeyHasher {
    /// Creates the hasher for the table with this secret. Without the secret, nobody can construct two
    /// IDs that collide.
    pub fn new(secret: [u8; 16]) -> Self {
        Self { secret }
    }

    /// Returns the secret.
    #[cfg(feature = "cluster")]
    pub(crate) fn secret(&self) -> [u8; 16] {
        self.secret
    }

    /// Returns the key of an ID.
    pub fn key(&self, site: &str, id_kind: IdKind, id: &str) -> Key {
        let [site, id_kind, id] = hash_parts(site.as_bytes(), id_kind, id.as_bytes());
        let hash = checksum::hash128_parts([&self.secret, site, id_kind, id]);
        Key([hash as u64, (hash >> 64) as u64])
    }
}

/// An updater that applies records to a table, one at a time, with reusable buffers.
pub struct ProfileUpdater {
    hasher: KeyHasher,
    fold_input: Vec<u8>,
    texts: Vec<u8>,
    buffer: Vec<u8>,
    lost: LostAliases,
    /// The link that the last record made.
    new_link: Option<NewLink>,
}

/// A link of an anon ID to another user than before.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NewLink {
    pub(super) anon_id: String,
    pub(super) user_id: String,
}

/// The visitor that a record belongs to.
enum RecordOwner<'r> {
    /// An anon ID that this record links to a user.
    Link {
        anon_id: &'r str,
        user_id: &'r str,
    },
    /// An anon ID whose link this record ends.
    End(&'r str),
    /// An anon ID, possibly linked to a user already.
    Anonymous(&'r str),
    User(&'r str),
}

impl ProfileUpdater {
    /// Creates an updater for the table with this secret.
    pub fn new(secret: [u8; 16]) -> Self {
        Self {
            hasher: KeyHasher::new(secret),
            fold_input: Vec::new(),
            texts: Vec::new(),
            buffer: Vec::new(),
            lost: LostAliases::default(),
            new_link: None,
        }
    }

    /// Continues with the lost aliases of a checkpoint.
    #[must_use]
    pub fn with_lost_aliases(self, lost_aliases: LostAliases) -> Self {
        Self { lost: lost_aliases, ..self }
    }

    /// Returns the IDs that lost their alias.
    pub(super) fn lost_aliases(&self) -> &LostAliases {
        &self.lost
    }

    /// Takes the link that the last applied record made, unless the ID had this user already.
    pub(super) fn take_new_link(&mut self) -> Option<NewLink> {
        self.new_link.take()
    }

    /// Returns the hasher for the keys of its table.
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// Applies a record, then evicts visitors until the table costs at most `cost_max`.
    pub fn apply(&mut self, table: &mut Table, record: &Record<'_>, cost_max: u64, counts: &mut FoldCounts) {
        if let Some(site) = record.site.filter(|_| record.is_folded()) {
            self.apply_record(table, record, site, counts);
        }
        self.evict(table, cost_max, counts);
    }

    /// Evicts visitors until the table costs at most `cost_max`.
    pub fn evict(&mut self, table: &mut Table, cost_max: u64, counts: &mut FoldCounts) {
        while table.cost() > cost_max {
            let Some((key, _)) = table.next_victim() else { break };
            self.remove(table, key).into_iter().for_each(|alias| self.lost.insert(alias.0));
            counts.visitors_evicted += 1;
        }
    }

    /// Removes the visitor with this ID, and the aliases of a user. An anon ID that is linked to a user only
    /// loses its link.
    pub fn erase(&mut self, table: &mut Table, site: &str, id_kind: IdKind, id: &str) {
        let key = self.hasher.key(site, id_kind, id);
        match table.get(key).and_then(TableEntry::decode) {
            Some(TableEntry::Alias(_)) => {
                self.site_table(table, site).end_link(id);
            }
            Some(TableEntry::Profile(_)) => drop(self.remove(table, key)),
            None => {}
        }
    }

    /// Removes the visitor with this key, as [`erase`](Self::erase) does. A tombstone of a cluster has keys and no IDs.
    #[cfg(feature = "cluster")]
    pub(super) fn erase_key(&mut self, table: &mut Table, site: &str, key: Key) {
        match table.get(key).and_then(TableEntry::decode) {
            Some(TableEntry::Alias(user_key)) => {
                let profile = table.get(user_key).and_then(Profile::decode);
                let is_it = |id: &&str| self.hasher.key(site, IdKind::Anon, id) == key;
                let id = profile.and_then(|profile| profile.anon_ids().find(is_it).map(str::to_owned));
                if let Some(id) = id {
                    self.site_table(table, site).unlink(&id, user_key);
                }
                table.remove(key);
            }
            Some(TableEntry::Profile(_)) => drop(self.remove(table, key)),
            None => {}
        }
    }

    fn site_table<'p>(&'p mut self, table: &'p mut Table, site: &'p str) -> SiteTable<'p> {
        SiteTable { table, hasher: &self.hasher, buffer: &mut self.buffer, lost: &mut self.lost, site }
    }

    /// Removes a profile and all aliases that lead to it. Returns the keys of the aliases.
    fn remove(&self, table: &mut Table, key: Key) -> Vec<Key> {
        let profile = table.get(key).and_then(Profile::decode);
        let aliases = profile.map(|profile| alias_keys(&profile, &self.hasher)).unwrap_or_default();
        table.remove(key);
        aliases.iter().for_each(|alias| table.remove(*alias));
        aliases
    }

    fn apply_record(&mut self, table: &mut Table, record: &Record<'_>, site: &str, counts: &mut FoldCounts) {
        let Self { hasher, fold_input, texts, buffer, lost, new_link } = self;
        record.fold_input.unpack(fold_input);
        let parts = FoldParts::parse(fold_input);
        let mut place = SiteTable { table, hasher, buffer, lost, site };
        let Some(visitor) = place.record_owner(record, parts.previous_id) else { return };
        let event = Event::from_record(record, &parts, texts);
        match visitor {
            RecordOwner::Link { anon_id, user_id } => {
                let is_new = place.link(anon_id, user_id, &event, counts);
                *new_link =
                    is_new.then(|| NewLink { anon_id: anon_id.to_owned(), user_id: user_id.to_owned() });
            }
            RecordOwner::End(anon_id) => place.end_link(anon_id),
            RecordOwner::Anonymous(anon_id) => place.fold_anonymous(anon_id, &event, counts),
            RecordOwner::User(user_id) => place.fold_user(user_id, &event, counts),
        }
        if !parts.enrolments.is_empty() {
            place.enrol(record, parts.enrolments);
        }
    }
}

/// Returns the keys of the aliases that lead to a user's profile. Empty for an anonymous visitor.
pub(crate) fn alias_keys(profile: &Profile<'_>, hasher: &KeyHasher) -> Vec<Key> {
    let tied = profile.anon_ids().filter(|_| profile.user_id().is_some());
    tied.map(|id| hasher.key(profile.site(), IdKind::Anon, id)).collect()
}

/// The table during one record, restricted to the site of that record.
struct SiteTable<'p> {
    table: &'p mut Table,
    hasher: &'p KeyHasher,
    /// A reusable buffer for the encoded profile.
    buffer: &'p mut Vec<u8>,
    lost: &'p mut LostAliases,
    site: &'p str,
}

impl SiteTable<'_> {
    /// Returns the visitor whose profile a record changes. `None` for an alias that ties nothing.
    fn record_owner<'r>(&self, record: &Record<'r>, previous_id: Option<&'r str>) -> Option<RecordOwner<'r>> {
        let is_alias = record.kind == RecordKind::Alias;
        match identity::named_tie(record, previous_id) {
            Some((anon_id, None)) => return Some(RecordOwner::End(anon_id)),
            Some((anon_id, Some(user_id))) if identity::ties(is_alias, || self.has_user(anon_id)) => {
                return Some(RecordOwner::Link { anon_id, user_id });
            }
            _ if is_alias => return None,
            _ => {}
        }
        let is_linked_to_other = |anon_id: &&str, user_id: &&str| self.is_linked_to_other(anon_id, user_id);
        Some(match identity::named_owner(record.anon_id, record.user_id, false, is_linked_to_other)? {
            NamedOwner::User(user_id) => RecordOwner::User(user_id),
            NamedOwner::HolderOf(anon_id) => RecordOwner::Anonymous(anon_id),
        })
    }

    /// Returns whether an anon ID has a user, or had one whose alias is lost.
    fn has_user(&self, anon_id: &str) -> bool {
        let anon_key = self.hasher.key(self.site, IdKind::Anon, anon_id);
        self.user_key_of(anon_key).is_some() || self.lost.may_contain(anon_key.0)
    }

    /// Returns whether an anon ID is linked to another user. If its alias is lost, the user that a record
    /// names is the owner of the record in either case.
    fn is_linked_to_other(&self, anon_id: &str, user_id: &str) -> bool {
        let anon_key = self.hasher.key(self.site, IdKind::Anon, anon_id);
        match self.user_key_of(anon_key) {
            Some(linked) => linked != self.hasher.key(self.site, IdKind::User, user_id),
            None => self.lost.may_contain(anon_key.0),
        }
    }

    /// Returns the key of the user that an anon ID is linked to.
    fn user_key_of(&self, anon_key: Key) -> Option<Key> {
        decode_alias(self.table.get(anon_key)?)
    }

    fn fold_anonymous(&mut self, anon_id: &str, event: &Event<'_>, counts: &mut FoldCounts) {
        let own_key = self.hasher.key(self.site, IdKind::Anon, anon_id);
        let own = self.table.get(own_key);
        // An alias without a profile would be a bug of ours. The ID then starts with a new profile.
        let user = own.and_then(decode_alias).and_then(|key| Some((key, self.table.get(key)?)));
        let (key, standing) = user.map_or((own_key, own), |(key, value)| (key, Some(value)));
        let mut standing = standing.and_then(ProfileBuilder::decode);
        // A reference, because a copy of the whole profile would take more instructions.
        let draft = standing.get_or_insert_with(|| ProfileBuilder::for_anonymous(self.site, anon_id));
        draft.fold(event, counts);
        let rank = draft.write(self.buffer);
        self.table.put(key, self.buffer, rank);
    }

    fn fold_user(&mut self, user_id: &str, event: &Event<'_>, counts: &mut FoldCounts) {
        let key = self.hasher.key(self.site, IdKind::User, user_id);
        let mut standing = self.table.get(key).and_then(ProfileBuilder::decode);
        let draft = standing.get_or_insert_with(|| ProfileBuilder::for_user(self.site, user_id));
        draft.fold(event, counts);
        let rank = draft.write(self.buffer);
        self.table.put(key, self.buffer, rank);
    }

    /// Links an anon ID to a user and folds the event. Returns whether the ID had no user or another one.
    fn link(&mut self, anon_id: &str, user_id: &str, event: &Event<'_>, counts: &mut FoldCounts) -> bool {
        let anon_key = self.hasher.key(self.site, IdKind::Anon, anon_id);
        let user_key = self.hasher.key(self.site, IdKind::User, user_id);
        let before = self.user_key_of(anon_key);
        let enrolments = self.enrolments_of(anon_key);
        if let Some(other_key) = before.filter(|key| *key != user_key) {
            self.unlink(anon_id, other_key);
        }
        let standing = self.table.get(user_key).and_then(ProfileBuilder::decode);
        let mut draft = standing.unwrap_or_else(|| ProfileBuilder::for_user(self.site, user_id));
        // An alias does not decode as a profile, so only a profile of the anon ID itself is merged. After the
        // loss of an alias, that profile has events of the user before.
        if !self.lost.may_contain(anon_key.0)
            && let Some(own) = self.table.get(anon_key).and_then(ProfileBuilder::decode)
        {
            draft.merge(own);
        }
        let gone = draft.link(anon_id).map(|id| self.hasher.key(self.site, IdKind::Anon, id));
        draft.fold(event, counts);
        let rank = draft.write(self.buffer);
        self.table.put(user_key, self.buffer, rank);
        if before != Some(user_key) {
            self.put_alias(anon_key, user_key, &enrolments);
        }
        if let Some(key) = gone {
            self.table.remove(key);
            self.lost.insert(key.0);
        }
        before != Some(user_key)
    }

    /// Enrols the ID that experiments hash: the anon ID of a record, or the user ID of a record without one.
    fn enrol(&mut self, record: &Record<'_>, phase_hashes: PhaseHashes<'_>) {
        let anon_id = record.anon_id.map(|id| (IdKind::Anon, id));
        let Some((id_kind, id)) = anon_id.or(record.user_id.map(|id| (IdKind::User, id))) else { return };
        let key = self.hasher.key(self.site, id_kind, id);
        let standing = self.table.get(key);
        let enrolments = standing.map_or(Enrolments::NONE, decode_enrolments);
        let Some(enrolments) = enrolments.after(phase_hashes.iter(), record.timestamp_ms) else { return };
        if let Some(user_key) = standing.and_then(decode_alias) {
            return self.put_alias(key, user_key, &enrolments);
        }
        // An ID without a profile lost its alias, and its events belong to a user.
        let draft = standing.and_then(ProfileBuilder::decode);
        let mut draft = draft.unwrap_or_else(|| ProfileBuilder::for_anonymous(self.site, id));
        draft.enrolments = Enrolments::decode(&enrolments);
        let rank = draft.write(self.buffer);
        self.table.put(key, self.buffer, rank);
    }

    /// Returns the enrolments of the ID with this key, encoded.
    fn enrolments_of(&self, key: Key) -> Vec<u8> {
        self.table.get(key).map_or(&[][..], |value| decode_enrolments(value).bytes()).to_vec()
    }

    fn put_alias(&mut self, anon_key: Key, user_key: Key, enrolments: &[u8]) {
        encode_alias(user_key, enrolments, self.buffer);
        self.table.put(anon_key, self.buffer, EvictionClass::Pinned);
    }

    /// Ends the link of an anon ID, if it has one.
    fn end_link(&mut self, anon_id: &str) {
        let anon_key = self.hasher.key(self.site, IdKind::Anon, anon_id);
        if let Some(user_key) = self.user_key_of(anon_key) {
            self.unlink(anon_id, user_key);
            self.table.remove(anon_key);
        }
    }

    /// Removes an anon ID from the user that it was linked to.
    fn unlink(&mut self, anon_id: &str, user_key: Key) {
        let Some(mut draft) = self.table.get(user_key).and_then(ProfileBuilder::decode) else { return };
        draft.unlink(anon_id);
        let rank = draft.write(self.buffer);
        self.table.put(user_key, self.buffer, rank);
    }
}
