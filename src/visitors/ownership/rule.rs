//! The rule that relates each record to some visitors, for exports and erasures.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::{Ownership, OwnershipError, Visitor, merge_entries};
use crate::events::identity::{self, NamedIds, Owner, Users};
use crate::log::{EraseRule, RedactedIds, Treatment};
use crate::record::{IdKind, IdTag, Record, TombstoneKey, id_hash};
use crate::visitors::ties::cache::TieCache;
use crate::visitors::ties::{TieEntry, users_around};

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

/// The IDs that a record names: the anonymous ID, the user ID, and `previousId` as both kinds.
struct RecordIds<'r> {
    site: &'r str,
    ids: [Option<(IdKind, &'r str)>; 4],
    hashes: [Option<u64>; 4],
}

impl<'r> RecordIds<'r> {
    /// Returns the IDs of a record. `None` if it has no site.
    fn of(record: &Record<'r>, buffer: &'r mut Vec<u8>) -> Option<Self> {
        let site = record.site?;
        let previous = record.previous_id(buffer);
        let [anon_id, previous_anon_id] =
            [record.anon_id, previous].map(|id| id.map(|id| (IdKind::Anon, id)));
        let [user_id, previous_user_id] =
            [record.user_id, previous].map(|id| id.map(|id| (IdKind::User, id)));
        let ids = [anon_id, user_id, previous_anon_id, previous_user_id];
        let hashes = ids.map(|id| id.map(|(kind, id)| id_hash(site, kind, id)));
        Some(Self { site, ids, hashes })
    }

    /// Returns whether one of them may be an ID of the visitor.
    fn may_name(&self, visitor: &Visitor) -> bool {
        let mut hashes = self.hashes.iter().flatten();
        visitor.site == self.site
            && visitor.hashes.as_ref().is_none_or(|known| hashes.any(|hash| known.contains(hash)))
    }

    /// Returns their digests.
    fn tags(&self, key: &TombstoneKey) -> [Option<IdTag>; 4] {
        self.ids.map(|id| id.map(|(kind, id)| key.tag(self.site, kind, id)))
    }
}

/// The digests that a record names, and the ties that decide its relations.
#[derive(Clone, Copy)]
struct RecordTies {
    tags: [Option<IdTag>; 4],
    named: NamedIds,
    users: Users,
    previous_users: Users,
}

/// A rule that relates each record to some visitors. It remembers the entries of other anonymous IDs that it
/// met in their records.
pub struct OwnershipRule<'a> {
    ownership: &'a Ownership,
    visitors: Vec<Visitor>,
    /// The entries of each anonymous ID of the visitors.
    groups: HashMap<IdTag, Arc<[TieEntry]>>,
    others: TieCache,
    /// The first error while reading entries. The erasure fails with it, and the next erasure or start repeats it.
    error: Option<OwnershipError>,
}

impl<'a> OwnershipRule<'a> {
    /// Creates the rule for these visitors.
    pub fn new(ownership: &'a Ownership, visitors: Vec<Visitor>) -> Self {
        let mut groups = HashMap::<IdTag, Arc<[TieEntry]>>::new();
        for (anon, entries) in visitors.iter().flat_map(|visitor| &visitor.groups) {
            match groups.entry(*anon) {
                Entry::Vacant(group) => drop(group.insert(Arc::clone(entries))),
                // Each visitor's tombstone ends the ID at another place.
                Entry::Occupied(mut group) => drop(group.insert(merge_entries(group.get(), entries))),
            }
        }
        Self { ownership, visitors, groups, others: TieCache::default(), error: None }
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
        let mut fold_input = Vec::new();
        let Some(ids) = RecordIds::of(record, &mut fold_input) else { return Ok(Relation::Unrelated) };
        let mut found = None;
        let mut named = RedactedIds::default();
        for at in 0..self.visitors.len() {
            if seq >= self.visitors[at].end_seq || !ids.may_name(&self.visitors[at]) {
                continue;
            }
            let ties = match found {
                Some(ties) => ties,
                None => *found.insert(self.ties(seq, record, ids.tags(&self.ownership.key))?),
            };
            match relation_to(&self.visitors[at].owners, &ties) {
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
        let mut fold_input = Vec::new();
        let Some(ids) = RecordIds::of(record, &mut fold_input) else { return false };
        self.visitors.iter().filter(|visitor| ids.may_name(visitor)).any(|visitor| {
            let [.., previous, _] = ids.tags(&self.ownership.key);
            previous.is_some_and(|previous| visitor.groups.contains_key(&previous))
        })
    }

    /// Returns the ties that decide the relations of a record.
    fn ties(
        &mut self,
        order: u64,
        record: &Record<'_>,
        tags: [Option<IdTag>; 4],
    ) -> Result<RecordTies, OwnershipError> {
        let [anon, user, previous_anon, _] = tags;
        let kind = record.kind;
        let is_folded = record.is_folded();
        let is_redacted = record.is_redacted;
        let named = NamedIds { kind, is_folded, is_redacted, anon, user };
        let users = self.users(anon, order)?;
        let previous_users = self.users(previous_anon, order)?;
        Ok(RecordTies { tags, named, users, previous_users })
    }

    /// Returns whether a record of the visitors ended the tie of its anonymous ID to another user, who stays.
    fn ends_tie_of_other(&mut self, seq: u64, record: &Record<'_>) -> Result<bool, OwnershipError> {
        let Some((anon_id, Some(_))) = identity::named_tie(record, None) else { return Ok(false) };
        let Some(site) = record.site else { return Ok(false) };
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
    fn users(&mut self, anon_tag: Option<IdTag>, order: u64) -> Result<Users, OwnershipError> {
        let Some(anon_tag) = anon_tag else { return Ok(Users::default()) };
        if let Some(entries) = self.groups.get(&anon_tag).or_else(|| self.others.get(anon_tag)) {
            return Ok(users_around(entries, order));
        }
        let entries = self.ownership.entries_of(anon_tag)?;
        let users = users_around(&entries, order);
        self.others.insert(anon_tag, entries);
        Ok(users)
    }

    /// Returns the error that ended the rule.
    pub(crate) fn into_error(self) -> Option<OwnershipError> {
        self.error
    }
}

/// Returns the relation of a record to the visitor with these owners.
fn relation_to(owners: &[Owner], ties: &RecordTies) -> Relation {
    let RecordTies { tags: [_, user, previous_anon, previous_user], named, users, previous_users } = *ties;
    if named.owner(users).is_some_and(|owner| owners.contains(&owner)) {
        return Relation::Owned;
    }
    let is_user = |tag: Option<IdTag>| tag.is_some_and(|tag| owners.contains(&Owner::User(tag)));
    let holds_anon = named.holder(users).is_some_and(|holder| owners.contains(&holder));
    let previous_holder = previous_anon.map(|anon| previous_users.holder(anon));
    // An alias can tie a text that is also the ID of another user. It is then an anonymous ID of its own user.
    let is_of_own_user = previous_holder.is_some() && previous_holder == user.map(Owner::User);
    let previous_id = is_user(previous_user) && !is_of_own_user
        || previous_holder.is_some_and(|holder| owners.contains(&holder));
    Relation::Named(RedactedIds { anon_id: holds_anon, user_id: is_user(user), previous_id })
}

impl EraseRule for OwnershipRule<'_> {
    fn names_visitor(&mut self, record: &Record<'_>) -> bool {
        let mut fold_input = Vec::new();
        let Some(ids) = RecordIds::of(record, &mut fold_input) else { return false };
        let mut visitors = self.visitors.iter().filter(|visitor| ids.may_name(visitor)).peekable();
        if visitors.peek().is_none() {
            return false;
        }
        let tags = ids.tags(&self.ownership.key);
        visitors.any(|visitor| {
            tags.iter().flatten().any(|tag| {
                visitor.groups.contains_key(tag) || visitor.owners.iter().any(|owner| owner.tag() == *tag)
            })
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
