//! The owner of a record, by the rules of [`super`].

use super::TieEntry;
use crate::visitors::log::{IdTag, RecordKind};

/// The visitor that a record belongs to.
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
    /// The seq of the record.
    pub seq: u64,
    /// The kind of the record.
    pub kind: RecordKind,
    /// True if the User-Agent is that of a crawler. The fold skips such a record, unless the site keeps
    /// crawlers. If it does, the entry of the identify's own seq gives the same owner.
    pub bot: bool,
    /// The digest of the anonymous ID.
    pub anon: Option<IdTag>,
    /// The digest of the user ID.
    pub user: Option<IdTag>,
}

/// Returns the owner of a record. `entries` are those of its anonymous ID, in seq order. `None` if the record
/// has no ID.
pub fn owner_of(entries: &[TieEntry], record: &NamedIds) -> Option<Owner> {
    match (record.anon, record.user) {
        (_, Some(user)) if record.kind == RecordKind::Alias => Some(Owner::User(user)),
        (Some(_), Some(user)) if record.kind == RecordKind::Identify && !record.bot => {
            Some(Owner::User(user))
        }
        (Some(_), Some(user)) if is_tied_to_other(entries, record.seq, user) => Some(Owner::User(user)),
        (Some(anon), _) => Some(holder_at(entries, anon, record.seq)),
        (None, user) => user.map(Owner::User),
    }
}

/// Returns the owner of an anonymous ID at a seq.
pub fn holder_at(entries: &[TieEntry], anon: IdTag, seq: u64) -> Owner {
    let (before, after) = entries.split_at(entries.partition_point(|entry| entry.seq <= seq));
    let present = before.last().and_then(|entry| entry.user);
    let next = after.first().and_then(|entry| entry.user);
    present.or(next).map_or(Owner::Anonymous(anon), Owner::User)
}

fn is_tied_to_other(entries: &[TieEntry], seq: u64, user: IdTag) -> bool {
    let before = &entries[..entries.partition_point(|entry| entry.seq <= seq)];
    before.last().and_then(|entry| entry.user).is_some_and(|tied| tied != user)
}
