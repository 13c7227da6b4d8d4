//! Folding of records into profiles: the contents, the owner and the bounds of a profile.

mod bounds;
mod encoding;
mod enrolments;
mod evicting;
mod folding;
mod identity;
mod merging;
mod model;
mod shown;
mod touches;
mod traits;
mod unread;
mod varints;

use parallax::testing::record::{Code, IdKind, Record, RecordContext, RecordKind, UserAgentInfo};
use parallax::testing::visitors::apply::{KeyHasher, ProfileUpdater};
use parallax::testing::visitors::profile::FoldCounts;
use parallax::testing::visitors::profile::profile::{Profile, TableEntry};
use parallax::testing::visitors::store::table::{Key, Table};
use serde_json::{Value, json};

use self::shown::ProfileView;
use crate::dice::Dice;
use crate::folded::with_fold_input;

/// 2026-01-05T10:00:00Z.
const NOW_MS: i64 = 1_767_607_200_000;
const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;
const SECRET: [u8; 16] = *b"secret of a test";
const SITE: &str = "acme";

/// Returns the number of seeds for a property: `quick`, or 30 times as many if `PARALLAX_LONG` is 1.
fn rounds(quick: u64) -> u64 {
    if std::env::var_os("PARALLAX_LONG").is_some_and(|long| long == "1") { 30 * quick } else { quick }
}

/// An event as a client sends it.
#[derive(Debug, Clone)]
struct SentEvent {
    kind: RecordKind,
    at_ms: i64,
    anon_id: Option<String>,
    user_id: Option<String>,
    event: Option<String>,
    path: Option<String>,
    payload: Value,
    bot: bool,
}

impl SentEvent {
    fn new(kind: RecordKind, at_ms: i64) -> Self {
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
        Self { path: Some(path.to_owned()), ..Self::new(RecordKind::Page, at_ms) }
    }

    fn track(event: &str, at_ms: i64) -> Self {
        Self { event: Some(event.to_owned()), ..Self::new(RecordKind::Track, at_ms) }
    }

    fn identify(traits: &Value, at_ms: i64) -> Self {
        Self { payload: json!({ "traits": traits }), ..Self::new(RecordKind::Identify, at_ms) }
    }

    fn profile(operations: Value, at_ms: i64) -> Self {
        Self { payload: operations, ..Self::new(RecordKind::Profile, at_ms) }
    }

    fn alias(previous_id: &str, at_ms: i64) -> Self {
        Self { payload: json!({ "previousId": previous_id }), ..Self::new(RecordKind::Alias, at_ms) }
    }

    fn of_anon(self, anon_id: &str) -> Self {
        Self { anon_id: Some(anon_id.to_owned()), ..self }
    }

    fn of_user(self, user_id: &str) -> Self {
        Self { user_id: Some(user_id.to_owned()), ..self }
    }

    /// Returns the country in the context of the event.
    fn country(&self) -> Option<&str> {
        self.payload.pointer("/context/country")?.as_str()
    }

    fn with(self, payload: Value) -> Self {
        Self { payload, ..self }
    }
}

/// A table of profiles, and the updater that folds records into it.
struct World {
    table: Table,
    updater: ProfileUpdater,
    keys: KeyHasher,
    counts: FoldCounts,
    cost_max: u64,
}

impl World {
    fn new() -> Self {
        Self::bounded(u64::MAX)
    }

    fn bounded(cost_max: u64) -> Self {
        Self {
            table: Table::new(),
            updater: ProfileUpdater::new(SECRET),
            keys: KeyHasher::new(SECRET),
            counts: FoldCounts::default(),
            cost_max,
        }
    }

    /// Returns a world after these events.
    fn after(sent: &[SentEvent]) -> Self {
        let mut world = Self::new();
        sent.iter().for_each(|sent| world.send(sent));
        world
    }

    fn send(&mut self, sent: &SentEvent) {
        self.send_to(SITE, sent);
    }

    fn send_to(&mut self, site: &str, sent: &SentEvent) {
        let payload = sent.payload.to_string();
        let country = sent.country().and_then(|country| Code::new(country.as_bytes()));
        let record = Record {
            bot: sent.bot,
            received_ms: NOW_MS,
            timestamp_ms: sent.at_ms,
            site: Some(site),
            anon_id: sent.anon_id.as_deref(),
            user_id: sent.user_id.as_deref(),
            event: sent.event.as_deref(),
            path: sent.path.as_deref(),
            context: RecordContext::new(UserAgentInfo::default(), country, None),
            payload: &payload,
            ..Record::new(sent.kind)
        };
        self.fold(&record);
    }

    /// Folds a record with the fold input of its payload.
    fn fold(&mut self, record: &Record<'_>) {
        let Self { table, updater, counts, cost_max, .. } = self;
        with_fold_input(record.kind, record.payload, |fold_input| {
            updater.apply(table, &Record { fold_input, ..*record }, *cost_max, counts);
        });
    }

    fn key(&mut self, kind: IdKind, id: &str) -> Key {
        self.keys.key(SITE, kind, id)
    }

    /// Returns the encoded profile of an anonymous ID, or of the user that it is linked to.
    fn value_of_anon(&mut self, id: &str) -> Option<&[u8]> {
        let key = self.key(IdKind::Anon, id);
        match TableEntry::decode(self.table.get(key)?)? {
            TableEntry::Alias(key) => self.table.get(key),
            TableEntry::Profile(_) => self.table.get(key),
        }
    }

    fn profile_of_anon(&mut self, id: &str) -> Option<Profile<'_>> {
        self.value_of_anon(id).and_then(Profile::decode)
    }

    fn profile_of_user(&mut self, id: &str) -> Option<Profile<'_>> {
        let key = self.key(IdKind::User, id);
        self.table.get(key).and_then(Profile::decode)
    }

    fn view_anon(&mut self, id: &str) -> Option<ProfileView> {
        self.profile_of_anon(id).map(|profile| ProfileView::of(&profile))
    }

    fn view_user(&mut self, id: &str) -> Option<ProfileView> {
        self.profile_of_user(id).map(|profile| ProfileView::of(&profile))
    }
}

fn shuffle<T>(dice: &mut Dice, items: &mut [T]) {
    for last in (1..items.len()).rev() {
        items.swap(last, dice.below(last + 1));
    }
}
