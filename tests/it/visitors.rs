//! Records become profiles: what a profile says, whose it is, and what it may hold.

mod bounds;
mod encoding;
mod evicting;
mod folding;
mod identity;
mod merging;
mod model;
mod shown;
mod touches;
mod traits;

use parallax::visitors::apply::{Applier, Keys};
use parallax::visitors::log::bloom::Whose;
use parallax::visitors::log::{Kind, Record};
use parallax::visitors::profile::Counted;
use parallax::visitors::profile::profile::{Entry, Profile};
use parallax::visitors::store::table::{Key, Table};
use serde_json::{Value, json};

use self::shown::Shown;
use crate::dice::Dice;

/// 2026-01-05T10:00:00Z.
const NOW_MS: i64 = 1_767_607_200_000;
const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;
const SECRET: [u8; 16] = *b"secret of a test";
const SITE: &str = "acme";

/// How often a property is tried.
fn rounds(quick: u64) -> u64 {
    if std::env::var_os("PARALLAX_LONG").is_some_and(|long| long == "1") { 30 * quick } else { quick }
}

/// What is sent.
#[derive(Debug, Clone)]
struct Sent {
    kind: Kind,
    at_ms: i64,
    anon_id: Option<String>,
    user_id: Option<String>,
    event: Option<String>,
    path: Option<String>,
    payload: Value,
    bot: bool,
}

impl Sent {
    fn new(kind: Kind, at_ms: i64) -> Self {
        Self {
            kind,
            at_ms,
            anon_id: None,
            user_id: None,
            event: None,
            path: None,
            payload: json!({}),
            bot: false,
        }
    }

    fn page(path: &str, at_ms: i64) -> Self {
        Self { path: Some(path.to_owned()), ..Self::new(Kind::Page, at_ms) }
    }

    fn track(event: &str, at_ms: i64) -> Self {
        Self { event: Some(event.to_owned()), ..Self::new(Kind::Track, at_ms) }
    }

    fn identify(traits: &Value, at_ms: i64) -> Self {
        Self { payload: json!({ "traits": traits }), ..Self::new(Kind::Identify, at_ms) }
    }

    fn profile(operations: Value, at_ms: i64) -> Self {
        Self { payload: operations, ..Self::new(Kind::Profile, at_ms) }
    }

    fn alias(previous_id: &str, at_ms: i64) -> Self {
        Self { payload: json!({ "previousId": previous_id }), ..Self::new(Kind::Alias, at_ms) }
    }

    fn of(self, anon_id: &str) -> Self {
        Self { anon_id: Some(anon_id.to_owned()), ..self }
    }

    fn by(self, user_id: &str) -> Self {
        Self { user_id: Some(user_id.to_owned()), ..self }
    }

    fn with(self, payload: Value) -> Self {
        Self { payload, ..self }
    }
}

/// A table, and what it takes.
struct World {
    table: Table,
    applier: Applier,
    keys: Keys,
    counted: Counted,
    cost_max: u64,
}

impl World {
    fn new() -> Self {
        Self::bounded(u64::MAX)
    }

    fn bounded(cost_max: u64) -> Self {
        Self {
            table: Table::new(),
            applier: Applier::new(SECRET),
            keys: Keys::new(SECRET),
            counted: Counted::default(),
            cost_max,
        }
    }

    /// What stands after these.
    fn after(sent: &[Sent]) -> Self {
        let mut world = Self::new();
        sent.iter().for_each(|sent| world.send(sent));
        world
    }

    fn send(&mut self, sent: &Sent) {
        self.send_to(SITE, sent);
    }

    fn send_to(&mut self, site: &str, sent: &Sent) {
        let payload = sent.payload.to_string();
        let record = Record {
            kind: sent.kind,
            bot: sent.bot,
            gpc: false,
            received_ms: NOW_MS,
            timestamp_ms: sent.at_ms,
            key: 0,
            site: Some(site),
            message_id: None,
            anon_id: sent.anon_id.as_deref(),
            user_id: sent.user_id.as_deref(),
            event: sent.event.as_deref(),
            name: None,
            path: sent.path.as_deref(),
            variants: None,
            ip: None,
            payload: &payload,
        };
        self.applier.apply(&mut self.table, &record, self.cost_max, &mut self.counted);
    }

    fn key(&mut self, whose: Whose, id: &str) -> Key {
        self.keys.of(SITE, whose, id)
    }

    /// The profile of an anonymous id, or that of its user.
    fn value_of_anon(&mut self, id: &str) -> Option<&[u8]> {
        let key = self.key(Whose::Anon, id);
        match Entry::read(self.table.get(key)?)? {
            Entry::Alias(key) => self.table.get(key),
            Entry::Profile(_) => self.table.get(key),
        }
    }

    fn of_anon(&mut self, id: &str) -> Option<Profile<'_>> {
        self.value_of_anon(id).and_then(Profile::read)
    }

    fn of_user(&mut self, id: &str) -> Option<Profile<'_>> {
        let key = self.key(Whose::User, id);
        self.table.get(key).and_then(Profile::read)
    }

    fn shown_anon(&mut self, id: &str) -> Option<Shown> {
        self.of_anon(id).map(|profile| Shown::of(&profile))
    }

    fn shown_user(&mut self, id: &str) -> Option<Shown> {
        self.of_user(id).map(|profile| Shown::of(&profile))
    }
}

fn shuffle<T>(dice: &mut Dice, items: &mut [T]) {
    for last in (1..items.len()).rev() {
        items.swap(last, dice.below(last + 1));
    }
}
