//! The rule of identity: which records tie an anonymous ID to a user, which ones end a tie, and which visitor each record
//! belongs to. Profiles, ownership, erasures, the export and Insights ask this module and no other.
//!
//! Ties, in the order of the seqs:
//!
//! 1. An identify event with both IDs ties its anonymous ID to its user.
//! 2. An alias ties its `previousId` to its user if that has the form of an anonymous ID and has no user.
//! 3. A record that changes no profile, such as that of a flagged crawler, ties nothing.
//! 4. The tie of an ID ends with the next one, and with a tombstone that names the ID. If an erased identify event had ended
//!    the tie to a user who was not erased, its redacted rest ends that tie at the same place. So a reader that cannot compare
//!    tombstones, such as Insights, ends the same ties: the other ties of an erased visitor are void.
//!
//! So the tie of a record depends on the record and on the present user of the ID, and everything that reads the log in
//! the order of its seqs decides it in the same way.
//!
//! Owners:
//!
//! 1. An identify or alias that ties belongs to the user that it names.
//! 2. A record with a user ID and an anonymous ID that is tied to another user belongs to its user ID.
//! 3. Any other record with an anonymous ID belongs to the holder of the ID: the user of the last tie before it. If there
//!    is none since the last end, it is the user of the next tie. If an end or nothing comes next, it is the anonymous
//!    visitor of that ID.
//! 4. A record with a user ID alone belongs to that user, and so do all other aliases.
//! 5. The redacted rest of an identify event belongs to the user whose tie it ends.

use super::visitor::{is_anon_id, is_placeholder};
use crate::record::{IdTag, Record, RecordKind};

/// Returns the anonymous ID that a record names for a tie, and the user, or `None` if the record ends the tie of the ID.
/// `previous_id` is that of an alias.
pub(crate) fn named_tie<'r>(
    record: &Record<'r>,
    previous_id: Option<&'r str>,
) -> Option<(&'r str, Option<&'r str>)> {
    let anonymous = match record.kind {
        _ if !record.is_folded() => None,
        RecordKind::Identify => record.anon_id.filter(|_| record.user_id.is_some() || record.is_redacted),
        RecordKind::Alias => previous_id.filter(|id| can_be_tied(id) && record.user_id.is_some()),
        _ => None,
    };
    anonymous.map(|anonymous| (anonymous, record.user_id))
}

/// Returns whether a record has no other content than the end of a tie.
pub(crate) fn is_end_of_tie(record: &Record<'_>) -> bool {
    matches!(named_tie(record, None), Some((_, None)))
}

/// Returns whether the `previousId` of an alias can be an anonymous ID.
fn can_be_tied(previous_id: &str) -> bool {
    is_anon_id(previous_id) && !is_placeholder(previous_id)
}

/// Returns whether a record ties the anonymous ID that it names. `has_user` says whether the ID has a user at that place of
/// the log.
pub(crate) fn ties(is_alias: bool, has_user: impl FnOnce() -> bool) -> bool {
    !is_alias || !has_user()
}

/// The visitor that a record belongs to, by its IDs alone.
pub(crate) enum NamedOwner<I> {
    User(I),
    /// The holder of an anonymous ID.
    HolderOf(I),
}

/// Returns the visitor that a record belongs to. `is_of_user` says whether it ties an ID to its user, or is an alias.
/// `is_tied_to_other` says whether the anonymous ID has another user than the named one. `None` if the record has no ID.
pub(crate) fn named_owner<I>(
    anon_id: Option<I>,
    user_id: Option<I>,
    is_of_user: bool,
    is_tied_to_other: impl FnOnce(&I, &I) -> bool,
) -> Option<NamedOwner<I>> {
    match (anon_id, user_id) {
        (_, Some(user)) if is_of_user => Some(NamedOwner::User(user)),
        (Some(anon), Some(user)) if is_tied_to_other(&anon, &user) => Some(NamedOwner::User(user)),
        (Some(anon_id), _) => Some(NamedOwner::HolderOf(anon_id)),
        (None, user_id) => user_id.map(NamedOwner::User),
    }
}

/// A visitor that records belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A user.
    User(IdTag),
    /// The anonymous visitor of an ID that is tied to no user.
    Anonymous(IdTag),
}

impl Owner {
    /// Returns the digest of the user ID or of the anonymous ID.
    pub fn tag(self) -> IdTag {
        let (Self::User(tag) | Self::Anonymous(tag)) = self;
        tag
    }
}

/// The part of a record that decides its owner.
#[derive(Debug, Clone, Copy)]
pub struct NamedIds {
    /// The kind of the record.
    pub kind: RecordKind,
    /// True if the record can change a profile.
    pub is_folded: bool,
    /// True if an erasure removed an ID from the record.
    pub is_redacted: bool,
    /// The digest of the anonymous ID.
    pub anon: Option<IdTag>,
    /// The digest of the user ID.
    pub user: Option<IdTag>,
}

/// The users of an anonymous ID around a record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Users {
    /// The user before the record.
    pub before: Option<IdTag>,
    /// The user after the record.
    pub after: Option<IdTag>,
    /// The user of the next tie. `None` if an end or nothing comes next.
    pub next: Option<IdTag>,
}

impl Users {
    /// Returns the holder of the anonymous ID after the record.
    pub(crate) fn holder(self, anon_tag: IdTag) -> Owner {
        self.after.or(self.next).map_or(Owner::Anonymous(anon_tag), Owner::User)
    }
}

impl NamedIds {
    fn is_folded_identify(&self) -> bool {
        self.kind == RecordKind::Identify && self.is_folded
    }

    /// Returns the holder of the anonymous ID at this record.
    pub(crate) fn holder(&self, users: Users) -> Option<Owner> {
        let is_end = self.is_folded_identify() && self.is_redacted && self.user.is_none();
        let users = if is_end { Users { after: users.before, ..users } } else { users };
        self.anon.map(|anon| users.holder(anon))
    }

    /// Returns the owner of the record. `users` are those of its anonymous ID. `None` if the record has no ID.
    pub fn owner(&self, users: Users) -> Option<Owner> {
        let ties = self.is_folded_identify() && self.anon.is_some();
        let is_of_user = self.kind == RecordKind::Alias || ties;
        let is_tied_to_other = |_: &IdTag, user: &IdTag| users.after.is_some_and(|tied| tied != *user);
        match named_owner(self.anon, self.user, is_of_user, is_tied_to_other)? {
            NamedOwner::User(user) => Some(Owner::User(user)),
            NamedOwner::HolderOf(_) => self.holder(users),
        }
    }
}
