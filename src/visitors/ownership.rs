//! Finds the IDs of a visitor and decides which records belong to them, for exports and erasures.
//!
//! The entries of ownership are in the newest checkpoint and in memory. They contain digests, so a record is
//! compared by the hashes of its IDs first, and by digests only if a hash is one of the visitor's.

mod rule;
mod source;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

pub use self::rule::OwnershipRule;
pub(crate) use self::rule::Relation;
#[cfg(feature = "cluster")]
pub(crate) use self::source::ClusterOwnership;
pub(crate) use self::source::OrderOf;
pub use self::source::OwnershipSource;
use super::checkpoint::reader::CheckpointError;
use super::checkpoint::sections::TieIndex;
use super::ties::{TieEntry, users_around};
use crate::events::identity::Owner;
use crate::log::bloom::may_contain_hash;
use crate::log::{LogError, Tombstone, VisitorIds};
use crate::record::{IdKind, IdTag, TombstoneKey, VisitorId, id_hash};

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

impl Ownership {
    /// Returns the IDs of a visitor for an erasure. `known_ids` are IDs that the visitor may have.
    pub fn erased_ids(&self, visitor: &Visitor, mut known_ids: Vec<(IdKind, String)>) -> VisitorIds {
        let site = &visitor.site;
        let named = visitor.named();
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
    #[cfg(feature = "cluster")]
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
    pub fn visitor(&self, visitor_id: VisitorId<'_>) -> Result<Visitor, OwnershipError> {
        let VisitorId { site, id_kind, id } = visitor_id;
        let tag = self.key.tag(site, id_kind, id);
        let hash = id_hash(site, id_kind, id);
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
    /// visitor's IDs, if they are known. Otherwise they are known from the ties, if they tie each named ID.
    ///
    /// A copy of the directory can lack ties of the visitor: it is older than the tie, or it has the records of before the
    /// erasure and the checkpoint of after it. A named ID without a tie to another user is then the visitor's.
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
        for anon in tombstone.named.iter().copied() {
            if visitor.groups.get(&anon).is_none_or(|entries| entries.is_empty()) && anon != tombstone.owner {
                visitor.hashes = None;
            }
            let end = TieEntry { anon, seq: tombstone.seq, user: None, anon_hash: 0, user_hash: 0 };
            let entries = self.entries_of(anon)?;
            visitor.groups.insert(anon, merge_entries(&entries, &[end]));
            visitor.owners.push(Owner::Anonymous(anon));
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
    fn anon_ids_of(&self, user_tag: IdTag) -> Result<BTreeSet<IdTag>, CheckpointError> {
        let mut ids = BTreeSet::new();
        for entry in self.index.iter().flat_map(TieIndex::entries).chain(self.recent.iter().copied().map(Ok))
        {
            let entry = entry?;
            if entry.user == Some(user_tag) {
                ids.insert(entry.anon);
            }
        }
        Ok(ids)
    }

    /// Returns the entries of an anonymous ID, in seq order.
    fn entries_of(&self, anon_tag: IdTag) -> Result<Arc<[TieEntry]>, CheckpointError> {
        let mut entries = self.index.as_ref().map_or(Ok(Vec::new()), |index| index.entries_of(anon_tag))?;
        let first = self.recent.partition_point(|entry| entry.anon < anon_tag);
        entries.extend(self.recent[first..].iter().take_while(|entry| entry.anon == anon_tag));
        Ok(entries.into())
    }
}

impl Visitor {
    /// Returns the digests that the tombstone names, in ascending order: the owner, and each anonymous ID that
    /// the visitor owns at present.
    pub fn named(&self) -> Vec<IdTag> {
        let owned = |(anon, entries): &(&IdTag, &Arc<[TieEntry]>)| {
            self.owners.contains(&users_around(entries, u64::MAX).holder(**anon))
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

/// Merges the entries of one anonymous ID.
fn merge_entries(entries: &[TieEntry], other_entries: &[TieEntry]) -> Arc<[TieEntry]> {
    let all: BTreeSet<TieEntry> = entries.iter().chain(other_entries).copied().collect();
    all.into_iter().collect()
}

fn has_any(filter: &[u8], hashes: &HashSet<u64>) -> bool {
    hashes.iter().any(|hash| may_contain_hash(filter, *hash))
}
