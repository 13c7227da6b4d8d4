//! Finds the IDs of a visitor and decides which records belong to them, for exports and erasures.
//!
//! The entries of ownership are in the newest checkpoint and in memory. They contain digests, so a record is
//! compared by the hashes of its IDs first, and by digests only if a hash is one of the visitor's.

mod source;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "cluster")]
pub(crate) use self::source::ClusterOwnership;
pub(crate) use self::source::OrderOf;
pub use self::source::OwnershipSource;
use super::checkpoint::reader::CheckpointError;
use super::checkpoint::sections::TieIndex;
use super::events::identity::{self, NamedIds, Owner, Users};
use super::log::bloom::{IdKind, id_hash, may_contain_hash};
use super::log::{
    EraseRule, IdTag, LogError, Record, RedactedIds, Tombstone, TombstoneKey, Treatment, VisitorIds,
};
use super::ties::cache::TieCache;
use super::ties::{TieEntry, users_around};

/// The entries of ownership as of one moment.
pub struct Ownership {
    key: TombstoneKey,
    index: Option<TieIndex>,
    /// The entries since the checkpoint, sorted.
    recent: Vec<TieEntry>,
    /// The seq up to which these are all entries.
    as_of_seq: u64,
    /// `None` if entries have the seqs of the log.
    order_of: Option<OrderOf>,
}

/// An error while reading the entries of ownership.
#[derive(Debug, thiserror::Error)]
pub enum OwnershipError {
    /// The checkpoint cannot be read.
    #[error("cannot read the ownership of records from the newest checkpoint: {0}")]
    Checkpoint(#[from] CheckpointError),
    /// The log directory cannot be read.
    #[error("{0}")]
    Log(#[from] LogError),
    /// The data directory has no file `secret`.
    #[error("the file `secret` is missing in {}; restore it from a copy", .0.display())]
    NoSecret(PathBuf),
    /// The entries were made with another key, so no ID can be found in them.
    #[error("the file `secret` in {} is not the one of this log; restore that one from a copy", .0.display())]
    OtherSecret(PathBuf),
}

/// A visitor, and all IDs that were ever tied to them.
pub struct Visitor {
    /// The site ID.
    pub site: String,
    /// The user, or the anonymous visitor. After a restart, the digest in a tombstone can mean either.
    owners: Vec<Owner>,
    /// The entries of each anonymous ID of the visitor.
    groups: BTreeMap<IdTag, Arc<[TieEntry]>>,
    /// The hashes of all these IDs. `None` if a hash is not known, so that every record is compared.
    hashes: Option<HashSet<u64>>,
    /// Records from this seq on are not the visitor's. `u64::MAX` without an erasure.
    end_seq: u64,
}

/// The relation of a record to a visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// The record belongs to the visitor.
    Owned,
    /// The record belongs to another visitor, and these IDs in it are the visitor's.
    Named(RedactedIds),
    /// The record has nothing of the visitor.
    Unrelated,
}

impl Ownership {
    /// Returns the IDs of a visitor for an erasure. `known_ids` are IDs that the visitor may have.
    pub fn erased_ids(&self, visitor: &Visitor, mut known_ids: Vec<(IdKind, String)>) -> VisitorIds {
        let (site, named) = (&visitor.site, visitor.named());
        known_ids.retain(|(id_kind, id)| named.binary_search(&self.tag(site, *id_kind, id)).is_ok());
        VisitorIds {
            site: site.clone(),
            owner: visitor.owner(),
            named,
            as_of_seq: self.as_of_seq,
            hashes: visitor.hashes.iter().flatten().copied().collect(),
            known_ids,
        }
    }

    /// Sets the orders of the own records, as of an erasure.
    #[must_use]
    pub(crate) fn with_orders(self, order_of: OrderOf) -> Self {
        Self { order_of: Some(order_of), ..self }
    }

    /// Returns the key of the digests.
    pub(crate) fn key(&self) -> &TombstoneKey {
        &self.key
    }

    /// Returns the digest of an ID.
    pub fn tag(&self, site: &str, id_kind: IdKind, id: &str) -> IdTag {
        self.key.tag(site, id_kind, id)
    }

    /// Returns the visitor that an ID names: the user, or the present owner of the anonymous ID.
    ///
    /// # Errors
    /// The checkpoint is damaged, or cannot be read.
    pub fn visitor(&self, site: &str, id_kind: IdKind, id: &str) -> Result<Visitor, OwnershipError> {
        let (tag, hash) = (self.key.tag(site, id_kind, id), id_hash(site, id_kind, id));
        let present = match id_kind {
            IdKind::Anon => {
                self.entries_of(tag)?.last().and_then(|entry| Some((entry.user?, entry.user_hash)))
            }
            IdKind::User => Some((tag, hash)),
        };
        let mut visitor = match present {
            Some((user, user_hash)) => self.visitor_of(site, vec![Owner::User(user)], Some(user_hash))?,
            None => self.visitor_of(site, vec![Owner::Anonymous(tag)], Some(hash))?,
        };
        if let Some(hashes) = &mut visitor.hashes {
            hashes.insert(hash);
        }
        Ok(visitor)
    }

    /// Returns the visitor that a tombstone names, and that owns no record after it. `hashes` are those of the
    /// visitor's IDs, if they are known. Otherwise they are known from the ties, if the visitor has one.
    ///
    /// # Errors
    /// The checkpoint is damaged, or cannot be read.
    pub fn erased_visitor(
        &self,
        tombstone: &Tombstone,
        hashes: Option<&[u64]>,
    ) -> Result<Visitor, OwnershipError> {
        let owners = vec![Owner::User(tombstone.owner), Owner::Anonymous(tombstone.owner)];
        let mut visitor = self.visitor_of(&tombstone.site, owners, None)?;
        if let Some(hashes) = hashes {
            visitor.hashes.get_or_insert_default().extend(hashes);
        }
        Ok(Visitor { end_seq: tombstone.seq, ..visitor })
    }

    /// Collects the entries of a visitor. `hash` is the hash of the owner's ID, if it is known.
    fn visitor_of(
        &self,
        site: &str,
        owners: Vec<Owner>,
        hash: Option<u64>,
    ) -> Result<Visitor, OwnershipError> {
        let mut groups = BTreeMap::new();
        for owner in &owners {
            match owner {
                Owner::Anonymous(anon) => drop(groups.insert(*anon, self.entries_of(*anon)?)),
                Owner::User(user) => {
                    for anon in self.anon_ids_of(*user)? {
                        groups.insert(anon, self.entries_of(anon)?);
                    }
                }
            }
        }
        let entries = || groups.values().flat_map(|entries: &Arc<[TieEntry]>| entries.iter());
        let is_own = |entry: &&TieEntry| entry.user.is_some_and(|user| owners.contains(&Owner::User(user)));
        let hash = hash.or_else(|| entries().find(is_own).map(|entry| entry.user_hash));
        let anon_hashes = entries().map(|entry| entry.anon_hash).filter(|hash| *hash != 0);
        let hashes = hash.map(|hash| anon_hashes.chain([hash]).collect());
        Ok(Visitor { site: site.to_owned(), owners, groups, hashes, end_seq: u64::MAX })
    }

    /// Returns all anonymous IDs that were ever tied to a user.
    fn anon_ids_of(&self, user: IdTag) -> Result<BTreeSet<IdTag>, CheckpointError> {
        let mut ids = BTreeSet::new();
        for entry in self.index.iter().flat_map(TieIndex::entries).chain(self.recent.iter().copied().map(Ok))
        {
            let entry = entry?;
            if entry.user == Some(user) {
                ids.insert(entry.anon);
            }
        }
        Ok(ids)
    }

    /// Returns the entries of an anonymous ID, in seq order.
    fn entries_of(&self, anon: IdTag) -> Result<Arc<[TieEntry]>, CheckpointError> {
        let mut entries = self.index.as_ref().map_or(Ok(Vec::new()), |index| index.entries_of(anon))?;
        let first = self.recent.partition_point(|entry| entry.anon < anon);
        entries.extend(self.recent[first..].iter().take_while(|entry| entry.anon == anon));
        Ok(entries.into())
    }
}

impl Visitor {
    /// Returns the digests that the tombstone names, in ascending order: the owner, and each anonymous ID that
    /// the visitor owns at present.
    pub fn named(&self) -> Vec<IdTag> {
        let owned = |(anon, entries): &(&IdTag, &Arc<[TieEntry]>)| {
            self.owners.contains(&Users::from(users_around(entries, u64::MAX)).holder(**anon))
        };
        let anons = self.groups.iter().filter(owned).map(|(anon, _)| *anon);
        [self.owner()].into_iter().chain(anons).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns whether an anonymous ID of the visitor was ever tied to a user.
    pub(crate) fn has_ties(&self) -> bool {
        self.groups.values().any(|entries| !entries.is_empty())
    }

    /// Returns the digest of the owner.
    pub fn owner(&self) -> IdTag {
        self.owners[0].tag()
    }

    /// Returns whether the visitor's tombstones do not name all IDs that the visitor had, because an erasure
    /// failed between two batches of them.
    pub fn has_unnamed_ids(&self) -> bool {
        let lasts = self.groups.values().filter_map(|entries| entries.last());
        let mut ties = lasts.filter_map(|last| Some((last.seq, Owner::User(last.user?))));
        ties.any(|(seq, user)| seq < self.end_seq && self.owners.contains(&user))
    }

    fn may_be_in(&self, filter: &[u8]) -> bool {
        self.hashes.as_ref().is_none_or(|hashes| has_any(filter, hashes))
    }

    /// Returns a function that says whether a segment with a filter may have a record of the visitor.
    pub fn segment_filter(&self) -> impl Fn(&[u8]) -> bool + Send + use<> {
        let hashes = self.hashes.clone();
        move |filter| hashes.as_ref().is_none_or(|hashes| has_any(filter, hashes))
    }
}

fn has_any(filter: &[u8], hashes: &HashSet<u64>) -> bool {
    hashes.iter().any(|hash| may_contain_hash(filter, *hash))
}

/// A rule that relates each record to some visitors. It remembers the entries of other anonymous IDs that it
/// met in their records.
pub struct OwnershipRule<'a> {
    ownership: &'a Ownership,
    visitors: Vec<Visitor>,
    others: TieCache,
    /// The first error while reading entries. The erasure fails with it, and the next erasure or start repeats it.
    error: Option<OwnershipError>,
}

impl<'a> OwnershipRule<'a> {
    /// Creates the rule for these visitors.
    pub fn new(ownership: &'a Ownership, visitors: Vec<Visitor>) -> Self {
        Self { ownership, visitors, others: TieCache::default(), error: None }
    }

    /// Returns a function that says whether a segment with a filter may have a record of the visitors.
    #[cfg(feature = "cluster")]
    pub(crate) fn segment_filter(&self) -> impl Fn(&[u8]) -> bool + Send + use<> {
        let filters: Vec<_> = self.visitors.iter().map(Visitor::segment_filter).collect();
        move |filter| filters.iter().any(|may_have| may_have(filter))
    }

    /// Returns the relation of a record to the visitors: the first one that is not
    /// [`Relation::Unrelated`], with the IDs of all visitors that it names.
    ///
    /// # Errors
    /// The entries of an anonymous ID cannot be read.
    pub(crate) fn relation(&mut self, seq: u64, record: &Record<'_>) -> Result<Relation, OwnershipError> {
        let seq = self.order(seq);
        let mut named = RedactedIds::default();
        for at in 0..self.visitors.len() {
            match self.relation_to(at, seq, record)? {
                Relation::Owned => return Ok(Relation::Owned),
                Relation::Named(ids) => named = named.union(ids),
                Relation::Unrelated => {}
            }
        }
        Ok(if named == RedactedIds::default() { Relation::Unrelated } else { Relation::Named(named) })
    }

    /// Returns whether the exports of the visitors have the record. The end of a tie says nothing about them.
    ///
    /// # Errors
    /// The entries of an anonymous ID cannot be read.
    pub fn exports(&mut self, seq: u64, record: &Record<'_>) -> Result<bool, OwnershipError> {
        Ok(match self.relation(seq, record)? {
            Relation::Owned => !identity::is_end_of_tie(record),
            Relation::Named(ids) => ids.previous_id,
            Relation::Unrelated => false,
        })
    }

    /// Returns whether the `previousId` of an alias was ever an anonymous ID of the visitors. Otherwise the alias has not
    /// tied it to one of them.
    pub(crate) fn had_previous_id(&self, record: &Record<'_>) -> bool {
        let key = &self.ownership.key;
        self.visitors.iter().any(|visitor| {
            let tags = record_tags(key, visitor, record);
            tags.and_then(|tags| tags[2]).is_some_and(|previous| visitor.groups.contains_key(&previous))
        })
    }

    fn relation_to(&mut self, at: usize, seq: u64, record: &Record<'_>) -> Result<Relation, OwnershipError> {
        let visitor = &self.visitors[at];
        if seq >= visitor.end_seq {
            return Ok(Relation::Unrelated);
        }
        let Some(tags) = record_tags(&self.ownership.key, visitor, record) else {
            return Ok(Relation::Unrelated);
        };
        let [anon, user, previous_anon, previous_user] = tags;
        let (kind, is_folded, is_redacted) = (record.kind, record.is_folded(), record.is_redacted);
        let named = NamedIds { kind, is_folded, is_redacted, anon, user };
        let users = self.users(anon, seq)?;
        let previous_users = self.users(previous_anon, seq)?;
        let owners = &self.visitors[at].owners;
        if named.owner(users).is_some_and(|owner| owners.contains(&owner)) {
            return Ok(Relation::Owned);
        }
        let is_user = |tag: Option<IdTag>| tag.is_some_and(|tag| owners.contains(&Owner::User(tag)));
        let holds_anon = named.holder(users).is_some_and(|holder| owners.contains(&holder));
        let previous_holder = previous_anon.map(|anon| previous_users.holder(anon));
        // An alias can tie a text that is also the ID of another user. It is then an anonymous ID of its own user.
        let is_of_own_user = previous_holder.is_some() && previous_holder == user.map(Owner::User);
        let previous_id = is_user(previous_user) && !is_of_own_user
            || previous_holder.is_some_and(|holder| owners.contains(&holder));
        Ok(Relation::Named(RedactedIds { anon_id: holds_anon, user_id: is_user(user), previous_id }))
    }

    /// Returns whether a record of the visitors ended the tie of its anonymous ID to another user, who stays.
    fn ends_tie_of_other(&mut self, seq: u64, record: &Record<'_>) -> Result<bool, OwnershipError> {
        let (Some((anon_id, Some(_))), Some(site)) = (identity::named_tie(record, None), record.site) else {
            return Ok(false);
        };
        let seq = self.order(seq);
        let anon = self.ownership.tag(site, IdKind::Anon, anon_id);
        let before = self.users(Some(anon), seq)?.before;
        let owns =
            |visitor: &Visitor, user| seq < visitor.end_seq && visitor.owners.contains(&Owner::User(user));
        Ok(before.is_some_and(|user| !self.visitors.iter().any(|visitor| owns(visitor, user))))
    }

    /// Returns the order of the entries at the seq of an own record.
    fn order(&self, seq: u64) -> u64 {
        self.ownership.order_of.as_ref().map_or(seq, |order_of| order_of(seq))
    }

    /// Returns the users of an anonymous ID around the record of a seq.
    fn users(&mut self, anon: Option<IdTag>, seq: u64) -> Result<Users, OwnershipError> {
        let Some(anon) = anon else { return Ok(Users::default()) };
        let mut groups = self.visitors.iter().map(|visitor| &visitor.groups);
        if let Some(entries) = groups.find_map(|group| group.get(&anon)).or_else(|| self.others.get(anon)) {
            return Ok(users_around(entries, seq).into());
        }
        let entries = self.ownership.entries_of(anon)?;
        let users = users_around(&entries, seq).into();
        self.others.insert(anon, entries);
        Ok(users)
    }

    /// Returns the error that ended the rule.
    pub(crate) fn into_error(self) -> Option<OwnershipError> {
        self.error
    }
}

/// Returns the digests of the IDs that a record names: the anonymous ID, the user ID, and `previousId` as both
/// kinds. `None` if none of them can be an ID of the visitor.
fn record_tags(key: &TombstoneKey, visitor: &Visitor, record: &Record<'_>) -> Option<[Option<IdTag>; 4]> {
    let site = record.site.filter(|site| *site == visitor.site)?;
    let mut fold_input = Vec::new();
    let previous = record.previous_id(&mut fold_input);
    let [anon_id, previous_anon_id] = [record.anon_id, previous].map(|id| id.map(|id| (IdKind::Anon, id)));
    let [user_id, previous_user_id] = [record.user_id, previous].map(|id| id.map(|id| (IdKind::User, id)));
    let ids = [anon_id, user_id, previous_anon_id, previous_user_id];
    let has_hash = |hashes: &HashSet<u64>| {
        ids.iter().flatten().any(|(kind, id)| hashes.contains(&id_hash(site, *kind, id)))
    };
    let may_name = visitor.hashes.as_ref().is_none_or(has_hash);
    may_name.then(|| ids.map(|id| id.map(|(kind, id)| key.tag(site, kind, id))))
}

impl EraseRule for OwnershipRule<'_> {
    fn names_visitor(&mut self, record: &Record<'_>) -> bool {
        let key = &self.ownership.key;
        self.visitors.iter().any(|visitor| {
            let tags = record_tags(key, visitor, record).into_iter().flatten().flatten();
            let mut own = tags.filter(|tag| {
                visitor.groups.contains_key(tag) || visitor.owners.iter().any(|owner| owner.tag() == *tag)
            });
            own.next().is_some()
        })
    }

    fn may_match(&self, filter: &[u8]) -> bool {
        self.visitors.iter().any(|visitor| visitor.may_be_in(filter))
    }

    fn may_name(&self, hash: u64) -> bool {
        let mut hashes = self.visitors.iter().map(|visitor| visitor.hashes.as_ref());
        hashes.any(|hashes| hashes.is_none_or(|hashes| hashes.contains(&hash)))
    }

    fn treatment(&mut self, seq: u64, record: &Record<'_>) -> Treatment {
        let treatment = self.relation(seq, record).and_then(|relation| {
            Ok(match relation {
                Relation::Owned if self.ends_tie_of_other(seq, record)? => Treatment::KeepEndOfTie,
                Relation::Owned => Treatment::Void,
                Relation::Named(ids) => Treatment::Redact(ids),
                Relation::Unrelated => Treatment::Keep,
            })
        });
        treatment.unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            Treatment::Keep
        })
    }
}
