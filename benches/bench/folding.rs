//! Visitors with a history, and records that change their profiles.

use std::hint::black_box;
use std::sync::OnceLock;

use parallax::testing::record::{FoldInput, Record, RecordKind};
use parallax::testing::visitors::apply::ProfileUpdater;
use parallax::testing::visitors::profile::FoldCounts;
use parallax::testing::visitors::store::table::Table;

use crate::folded::with_fold_input;

const NOW_MS: i64 = 1_767_607_200_000;
/// The key for hashing visitor IDs.
pub const SECRET: [u8; 16] = *b"secret of a test";
/// The body of a page event with a campaign.
pub const PAGE_EVENT: &str = r#"{"type":"page","anonymousId":"507f191e-810c-4972-9de8-60ea00000000","messageId":"ajs-022bb90c-bbac-11e4-8dfc-aa07a5b093db","timestamp":"2026-01-05T09:59:58.123Z","name":"Pricing","properties":{"path":"/pricing","referrer":"https://search.example/","search":"?utm_source=newsletter","title":"Pricing","url":"https://acme.example/pricing?utm_source=newsletter&utm_medium=email"},"context":{"locale":"de-DE","library":{"name":"analytics.js","version":"2.11.1"},"page":{"path":"/pricing","title":"Pricing"},"userAgent":"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 Chrome/140.0 Safari/537.36"}}"#;
const PATHS: [&str; 3] = ["/", "/pricing", "/docs/start"];
const NAMES: [&str; 2] = ["Product Viewed", "Signed Up"];

/// The changes of a profile event: four traits, one of which is counted up.
const CHANGES: &str = r#"{"type":"profile","set":{"plan":"pro","company":"Acme Corporation","isTrial":false},"increment":{"logins":1}}"#;

/// Returns one event of a visitor, with one of three pages and one of two event names.
pub fn record(kind: RecordKind, anon_id: &str, number: usize) -> Record<'_> {
    let (event, payload, fold_input) = match kind {
        RecordKind::Page => (None, PAGE_EVENT, page_fold_input()),
        RecordKind::Profile => (None, CHANGES, profile_fold_input()),
        _ => (Some(NAMES[number % NAMES.len()]), PAGE_EVENT, FoldInput::EMPTY),
    };
    Record {
        received_ms: NOW_MS,
        timestamp_ms: NOW_MS + number as i64,
        site: Some("acme"),
        anon_id: Some(anon_id),
        event,
        path: Some(PATHS[number % PATHS.len()]),
        payload,
        fold_input,
        ..Record::new(kind)
    }
}

/// Returns the fold input of the page event, a touch.
fn page_fold_input() -> FoldInput<'static> {
    static ENCODED: OnceLock<FoldInput<'static>> = OnceLock::new();
    *ENCODED.get_or_init(|| fold_input(RecordKind::Page, PAGE_EVENT))
}

/// Returns the fold input of the profile event, its changes.
fn profile_fold_input() -> FoldInput<'static> {
    static ENCODED: OnceLock<FoldInput<'static>> = OnceLock::new();
    *ENCODED.get_or_init(|| fold_input(RecordKind::Profile, CHANGES))
}

fn fold_input(kind: RecordKind, payload: &str) -> FoldInput<'static> {
    let mut encoded = Vec::new();
    let record = Record::new(kind);
    with_fold_input(kind, payload, |fold_input| Record { fold_input, ..record }.encode(&mut encoded))
        .expect("within all bounds");
    Record::decode(encoded.leak()).expect("a record").0.fold_input
}

/// Events per visitor before the measurement: as many page views as other events.
const EVENTS_BEFORE: usize = 12;

/// Visitors that take turns, and the table with their profiles.
pub struct FoldBench {
    pub ids: Vec<String>,
    pub table: Table,
    applier: ProfileUpdater,
    pub counted: FoldCounts,
    /// Records folded so far.
    pub number: usize,
}

impl FoldBench {
    /// Creates a thousand visitors with three viewed pages and two other events.
    pub fn new() -> Self {
        let ids = (0..1000).map(|i| format!("507f191e-810c-4972-9de8-60ea{i:08}")).collect();
        let (table, applier) = (Table::new(), ProfileUpdater::new(SECRET));
        let mut folding = Self { ids, table, applier, counted: FoldCounts::default(), number: 0 };
        for number in 0..EVENTS_BEFORE * folding.ids.len() {
            let turn = number / folding.ids.len();
            let kind = if turn.is_multiple_of(2) { RecordKind::Page } else { RecordKind::Track };
            folding.fold(kind, turn);
        }
        folding
    }

    /// Folds an event of the next visitor. `number` chooses its time, page and name.
    pub fn fold(&mut self, kind: RecordKind, number: usize) {
        let Self { ids, table, applier, counted, .. } = self;
        let record = record(kind, &ids[self.number % ids.len()], number);
        applier.apply(table, black_box(&record), u64::MAX, counted);
        self.number += 1;
    }
}
