//! The tables that a node folds records into: a plain one, and for some seeds the real one too.
//!
//! The plain table depends on the order of events where a profile does: `setOnce`, `set` at the same time,
//! `increment` after `set`, merges, owners and evictions.

use std::hash::{DefaultHasher, Hash, Hasher};

use parallax::testing::record::{IdKind, Record};
use parallax::testing::visitors::apply::ProfileUpdater;
use parallax::testing::visitors::profile::FoldCounts;
use parallax::testing::visitors::store::table::Table;

use crate::event::{ANON_IDS, Action, Event, SITE, USER_IDS};

/// The key of the real table. All nodes of a cluster have the same.
const TABLE_SECRET: [u8; 16] = *b"of all the nodes";

/// The plain profile of a visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Profile {
    count: u32,
    first_ms: i64,
    last_ms: i64,
    set_once: Option<u8>,
    set: Option<(u8, i64)>,
    increment: u64,
    events: [u32; 6],
    put_order: u64,
}

/// Profiles by anonymous ID and then by user ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Plain {
    profiles: [Option<Profile>; ANON_IDS + USER_IDS],
    /// The user of an anonymous ID.
    users: [Option<u8>; ANON_IDS],
    puts: u64,
}

/// The table of a node, with the list of the records that made it.
#[derive(Clone, Default)]
pub struct Base {
    plain: Plain,
    /// The events that took effect, in this order.
    pub effects: Vec<Event>,
    /// The number of effects of each event.
    applied: Vec<u8>,
    /// The effective records, for the real table.
    records: Option<Vec<Vec<u8>>>,
}

impl PartialEq for Base {
    fn eq(&self, other: &Self) -> bool {
        self.plain == other.plain && self.effects == other.effects
    }
}

impl Plain {
    fn put(&mut self, slot: usize, profile: Profile) {
        self.puts += 1;
        self.profiles[slot] = Some(Profile { put_order: self.puts, ..profile });
    }

    fn fold(&mut self, slot: usize, event: &Event) {
        let mut profile = self.profiles[slot].unwrap_or_default();
        profile.first_ms =
            if profile.count == 0 { event.time_ms } else { profile.first_ms.min(event.time_ms) };
        profile.last_ms = profile.last_ms.max(event.time_ms);
        profile.count += 1;
        profile.events.rotate_right(1);
        profile.events[0] = event.number;
        match event.action {
            Action::SetOnce(value) => profile.set_once = profile.set_once.or(Some(value)),
            Action::Set(value) if profile.set.is_none_or(|(_, time_ms)| event.time_ms >= time_ms) => {
                profile.set = Some((value, event.time_ms));
                profile.increment = u64::from(value);
            }
            Action::Increment(value) => profile.increment += u64::from(value),
            _ => {}
        }
        self.put(slot, profile);
    }

    fn merge(&mut self, anon: usize, user: usize) {
        let Some(own) = self.profiles[anon].take() else { return };
        let merged = match self.profiles[user] {
            None => own,
            Some(other) => Profile {
                count: own.count + other.count,
                first_ms: own.first_ms.min(other.first_ms),
                last_ms: own.last_ms.max(other.last_ms),
                set_once: other.set_once.or(own.set_once),
                set: other.set.max(own.set),
                increment: own.increment + other.increment,
                ..other
            },
        };
        self.put(user, merged);
    }

    fn apply(&mut self, event: &Event, profiles_max: usize) {
        let user_slot = |user: u8| ANON_IDS + usize::from(user);
        match (event.action, event.anon.map(usize::from), event.user) {
            (Action::Tombstone, Some(anon), _) => {
                self.profiles[anon] = None;
                self.users[anon] = None;
            }
            (Action::Identify, Some(anon), Some(user)) => {
                self.merge(anon, user_slot(user));
                self.users[anon] = Some(user);
                self.fold(user_slot(user), event);
            }
            (_, Some(anon), _) => self.fold(self.users[anon].map_or(anon, user_slot), event),
            (_, None, Some(user)) => self.fold(user_slot(user), event),
            _ => {}
        }
        while self.profiles.iter().flatten().count() > profiles_max {
            let order = |slot: &usize| self.profiles[*slot].map_or(u64::MAX, |profile| profile.put_order);
            let victim = (0..self.profiles.len()).min_by_key(order).expect("there are slots");
            self.profiles[victim] = None;
            for user in &mut self.users {
                *user = user.filter(|user| user_slot(*user) != victim);
            }
        }
    }
}

impl Base {
    /// Creates an empty table. `has_real`: the real table is compared too.
    pub fn new(has_real: bool) -> Self {
        Self { records: has_real.then(Vec::new), ..Self::default() }
    }

    /// Folds a record that takes effect, then evicts.
    pub fn fold(&mut self, record: &Record<'_>, bytes: &[u8], profiles_max: usize) {
        let Some(event) = Event::from_record(record) else { return };
        self.plain.apply(&event, profiles_max);
        self.effects.push(event);
        let number = event.number as usize;
        if self.applied.len() <= number {
            self.applied.resize(number + 1, 0);
        }
        self.applied[number] += 1;
        if let Some(records) = &mut self.records {
            records.push(bytes.to_vec());
        }
    }

    /// Returns whether a tombstone of an anonymous ID took effect.
    pub fn is_erased(&self, anon: u8) -> bool {
        let is_tombstone = |event: &Event| event.action == Action::Tombstone && event.anon == Some(anon);
        self.effects.iter().any(is_tombstone)
    }

    /// Returns a digest of the plain table, with the order of eviction.
    pub fn digest(&self) -> u128 {
        let mut hasher = DefaultHasher::new();
        self.plain.hash(&mut hasher);
        u128::from(hasher.finish())
    }

    /// Returns how often an event took effect.
    pub fn times_applied(&self, number: u32) -> u8 {
        self.applied.get(number as usize).copied().unwrap_or_default()
    }

    /// Folds the records into the real table. Returns all its entries, and its cost. `None` without the real table.
    pub fn real_table(&self, cost_max: u64) -> Option<(Vec<Option<Vec<u8>>>, u64)> {
        let mut table = Table::new();
        let mut updater = ProfileUpdater::new(TABLE_SECRET);
        let mut counts = FoldCounts::default();
        for bytes in self.records.as_ref()? {
            let (record, _) = Record::decode(bytes).expect("a record");
            match Event::from_record(&record) {
                Some(Event { action: Action::Tombstone, .. }) => {
                    updater.erase(&mut table, SITE, IdKind::Anon, record.anon_id.expect("an ID"));
                    updater.evict(&mut table, cost_max, &mut counts);
                }
                _ => updater.apply(&mut table, &record, cost_max, &mut counts),
            }
        }
        let anon = (0..ANON_IDS).map(|id| (IdKind::Anon, format!("v{id}")));
        let users = (0..USER_IDS).map(|id| (IdKind::User, format!("u{id}")));
        let value = |(kind, id): (IdKind, String)| {
            table.get(updater.hasher().key(SITE, kind, &id)).map(<[u8]>::to_vec)
        };
        let entries = anon.chain(users).map(value).collect();
        Some((entries, table.cost()))
    }
}
