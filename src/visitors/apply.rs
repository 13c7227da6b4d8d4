//! Each record to the profile that it belongs to: who is who.
//!
//! * Only an identify that names both ties an anonymous id to a user, and an alias whose `previousId` is an anonymous id without a
//!   user. The id's own profile becomes part of the user's, the id an alias of the user's.
//! * An id that is tied to another user already belongs to the new one from then on. What it did before stays where it is.
//! * Two users never become one.
//! * An event with an anonymous id goes to that id's profile, or its user's; one with a user alone to the user's.
//! * Crawlers that were flagged, groups, other aliases, void records and tombstones change nothing.
//!
//! What holds: an alias always leads to a user's profile that names the id; the table is a function of the records in their order
//! and of its bound, whatever was restarted in between.

use super::profile::Counted;
use super::profile::builder::Draft;
use super::profile::event::{Event, needs_payload};
use super::profile::profile::{Entry, Profile, alias, aliased};
use super::store::table::{Key, Rank, Table};
use crate::checksum;
use crate::url::PageUrl;
use crate::visitors::events::document::{Document, Reader, Value};
use crate::visitors::events::visitor::{is_anon_id, is_placeholder};
use crate::visitors::log::bloom::{Whose, parts};
use crate::visitors::log::{Kind, Record};

/// Makes the keys of a table.
#[derive(Clone)]
pub struct Keys {
    secret: [u8; 16],
}

impl Keys {
    /// Keys of the table with this secret: who does not know it cannot make two visitors meet.
    pub fn new(secret: [u8; 16]) -> Self {
        Self { secret }
    }

    /// The key of an id.
    pub fn of(&self, site: &str, whose: Whose, id: &str) -> Key {
        let [site, whose, id] = parts(site.as_bytes(), whose, id.as_bytes());
        let hash = checksum::tag_of(&[&self.secret, site, whose, id]);
        Key([hash as u64, (hash >> 64) as u64])
    }
}

/// Applies records to a table, one after the other.
pub struct Applier {
    keys: Keys,
    reader: Reader,
    url: PageUrl,
    texts: Vec<u8>,
    value: Vec<u8>,
}

/// Whom a record is of.
enum Visitor<'r> {
    /// An id that is to be tied to a user.
    Tied {
        anon_id: &'r str,
        user_id: &'r str,
    },
    /// An anonymous id, which may be tied.
    Anonymous(&'r str),
    User(&'r str),
}

impl Applier {
    /// For the table with this secret.
    pub fn new(secret: [u8; 16]) -> Self {
        let (texts, value) = Default::default();
        Self { keys: Keys::new(secret), reader: Reader::new(), url: PageUrl::new(), texts, value }
    }

    /// By which its table is asked.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Takes in a record, and then lets go who goes first as long as the table costs more than `cost_max`.
    pub fn apply(&mut self, table: &mut Table, record: &Record<'_>, cost_max: u64, counted: &mut Counted) {
        if let Some(site) = record.site
            && !record.bot
            && !matches!(record.kind, Kind::Void | Kind::Tombstone | Kind::Group)
        {
            self.take_in(table, record, site, counted);
        }
        self.evict(table, cost_max, counted);
    }

    /// Lets go who goes first as long as the table costs more than `cost_max`.
    pub fn evict(&self, table: &mut Table, cost_max: u64, counted: &mut Counted) {
        while table.cost() > cost_max {
            let Some((key, _)) = table.first_to_go() else { break };
            self.remove(table, key);
            counted.visitors_evicted += 1;
        }
    }

    /// Forgets the visitor with this id, whatever it is tied to, and all ids that lead there.
    pub fn forget(&self, table: &mut Table, site: &str, whose: Whose, id: &str) {
        let key = self.keys.of(site, whose, id);
        match table.get(key).and_then(Entry::read) {
            Some(Entry::Alias(user_key)) => {
                self.remove(table, user_key);
                table.remove(key);
            }
            Some(Entry::Profile(_)) => self.remove(table, key),
            None => {}
        }
    }

    /// Takes a profile out, and all ids that lead there.
    pub(super) fn remove(&self, table: &mut Table, key: Key) {
        let profile = table.get(key).and_then(Profile::read);
        let ids = profile.map(|profile| alias_keys(&profile, &self.keys));
        table.remove(key);
        ids.into_iter().flatten().for_each(|id| table.remove(id));
    }

    fn take_in(&mut self, table: &mut Table, record: &Record<'_>, site: &str, counted: &mut Counted) {
        let Self { keys, reader, url, texts, value } = self;
        let document = needs_payload(record).then(|| reader.read(record.payload).ok()).flatten();
        let root = document.as_ref().map(Document::root);
        let mut place = Place { table, keys, value, site };
        let visitor = match record.kind {
            Kind::Alias => place.aliased(record, root),
            _ => visitor(record),
        };
        let Some(visitor) = visitor else { return };
        let event = Event::read(record, root, url, texts);
        match visitor {
            Visitor::Tied { anon_id, user_id } => place.tie(anon_id, user_id, &event, counted),
            Visitor::Anonymous(anon_id) => place.fold_anonymous(anon_id, &event, counted),
            Visitor::User(user_id) => place.fold_user(user_id, &event, counted),
        }
    }
}

fn visitor<'r>(record: &Record<'r>) -> Option<Visitor<'r>> {
    match (record.anon_id, record.user_id) {
        (Some(anon_id), Some(user_id)) if record.kind == Kind::Identify => {
            Some(Visitor::Tied { anon_id, user_id })
        }
        (Some(anon_id), _) => Some(Visitor::Anonymous(anon_id)),
        (None, user_id) => user_id.map(Visitor::User),
    }
}

/// The keys of the ids that lead to a user's profile.
pub fn alias_keys(profile: &Profile<'_>, keys: &Keys) -> Vec<Key> {
    let tied = profile.anon_ids().filter(|_| profile.user_id().is_some());
    tied.map(|id| keys.of(profile.site(), Whose::Anon, id)).collect()
}

/// Where a record of a site is applied.
struct Place<'p> {
    table: &'p mut Table,
    keys: &'p Keys,
    /// Room for what is written.
    value: &'p mut Vec<u8>,
    site: &'p str,
}

impl Place<'_> {
    /// The user of an anonymous id.
    fn user_of(&self, anon_key: Key) -> Option<Key> {
        aliased(self.table.get(anon_key)?)
    }

    /// Whom an alias ties, if it is one that ties: an id that is no user's, nor has one.
    fn aliased<'r>(&mut self, record: &Record<'r>, payload: Option<Value<'r>>) -> Option<Visitor<'r>> {
        let (user_id, previous_id) = (record.user_id?, payload?.find("previousId")?.text()?);
        let may_be = is_anon_id(previous_id) && !is_placeholder(previous_id);
        let anon_key = self.keys.of(self.site, Whose::Anon, previous_id);
        let as_user = self.keys.of(self.site, Whose::User, previous_id);
        let has_none = self.user_of(anon_key).is_none() && self.table.get(as_user).is_none();
        (may_be && has_none).then_some(Visitor::Tied { anon_id: previous_id, user_id })
    }

    fn fold_anonymous(&mut self, anon_id: &str, event: &Event<'_>, counted: &mut Counted) {
        let own_key = self.keys.of(self.site, Whose::Anon, anon_id);
        let own = self.table.get(own_key);
        // An alias without a profile behind it would be a fault of ours; the id begins anew then.
        let user = own.and_then(aliased).and_then(|key| Some((key, self.table.get(key)?)));
        let (key, standing) = user.map_or((own_key, own), |(key, value)| (key, Some(value)));
        let standing = standing.and_then(Draft::read);
        let mut draft = standing.unwrap_or_else(|| Draft::of_anonymous(self.site, anon_id));
        draft.fold(event, counted);
        draft.write(self.value);
        let rank = draft.rank();
        self.table.put(key, self.value, rank);
    }

    fn fold_user(&mut self, user_id: &str, event: &Event<'_>, counted: &mut Counted) {
        let key = self.keys.of(self.site, Whose::User, user_id);
        let standing = self.table.get(key).and_then(Draft::read);
        let mut draft = standing.unwrap_or_else(|| Draft::of_user(self.site, user_id));
        draft.fold(event, counted);
        draft.write(self.value);
        let rank = draft.rank();
        self.table.put(key, self.value, rank);
    }

    fn tie(&mut self, anon_id: &str, user_id: &str, event: &Event<'_>, counted: &mut Counted) {
        let anon_key = self.keys.of(self.site, Whose::Anon, anon_id);
        let user_key = self.keys.of(self.site, Whose::User, user_id);
        let before = self.user_of(anon_key);
        if let Some(other_key) = before.filter(|key| *key != user_key) {
            self.untie(anon_id, other_key);
        }
        let standing = self.table.get(user_key).and_then(Draft::read);
        let mut draft = standing.unwrap_or_else(|| Draft::of_user(self.site, user_id));
        // An alias reads as no profile: only a history of its own is taken in.
        if let Some(own) = self.table.get(anon_key).and_then(Draft::read) {
            draft.merge(own);
        }
        let gone = draft.tie(anon_id).map(|id| self.keys.of(self.site, Whose::Anon, id));
        draft.fold(event, counted);
        draft.write(self.value);
        let rank = draft.rank();
        self.table.put(user_key, self.value, rank);
        if before != Some(user_key) {
            self.table.put(anon_key, &alias(user_key), Rank::Alias);
        }
        gone.into_iter().for_each(|key| self.table.remove(key));
    }

    /// An id leaves the user that it belonged to.
    fn untie(&mut self, anon_id: &str, user_key: Key) {
        let Some(mut draft) = self.table.get(user_key).and_then(Draft::read) else { return };
        draft.untie(anon_id);
        draft.write(self.value);
        let rank = draft.rank();
        self.table.put(user_key, self.value, rank);
    }
}
