//! Visitors with a history, and records that change their profiles.

use std::hint::black_box;

use parallax::visitors::Counted;
use parallax::visitors::apply::Applier;
use parallax::visitors::log::{Kind, Record};
use parallax::visitors::store::table::Table;

const NOW_MS: i64 = 1_767_607_200_000;
/// What visitors are found by.
pub const SECRET: [u8; 16] = *b"secret of a test";
const PAYLOAD: &str = r#"{"type":"page","anonymousId":"507f191e-810c-4972-9de8-60ea00000000","messageId":"ajs-022bb90c-bbac-11e4-8dfc-aa07a5b093db","timestamp":"2026-01-05T09:59:58.123Z","name":"Pricing","properties":{"path":"/pricing","referrer":"https://search.example/","search":"?utm_source=newsletter","title":"Pricing","url":"https://acme.example/pricing?utm_source=newsletter&utm_medium=email"},"context":{"locale":"de-DE","library":{"name":"analytics.js","version":"2.11.1"},"page":{"path":"/pricing","title":"Pricing"},"userAgent":"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 Chrome/140.0 Safari/537.36"}}"#;
const PATHS: [&str; 3] = ["/", "/pricing", "/docs/start"];
const NAMES: [&str; 2] = ["Product Viewed", "Signed Up"];

/// One event of a visitor, of those who see three pages and do two things.
pub fn record(kind: Kind, anon_id: &str, number: usize) -> Record<'_> {
    let is_page = kind == Kind::Page;
    Record {
        kind,
        bot: false,
        gpc: false,
        received_ms: NOW_MS,
        timestamp_ms: NOW_MS + number as i64,
        key: 0,
        site: Some("acme"),
        message_id: None,
        anon_id: Some(anon_id),
        user_id: None,
        event: (!is_page).then_some(NAMES[number % NAMES.len()]),
        name: None,
        path: Some(PATHS[number % PATHS.len()]),
        variants: None,
        ip: None,
        payload: PAYLOAD,
    }
}

/// Events of each before anything is measured: as many pages as others.
const BEFORE: usize = 12;

/// Visitors, who take turns.
pub struct Folding {
    pub ids: Vec<String>,
    pub table: Table,
    applier: Applier,
    pub counted: Counted,
    /// Records so far.
    pub number: usize,
}

impl Folding {
    /// A thousand have seen three pages and done two things.
    pub fn new() -> Self {
        let ids = (0..1000).map(|i| format!("507f191e-810c-4972-9de8-60ea{i:08}")).collect();
        let (table, applier) = (Table::new(), Applier::new(SECRET));
        let mut folding = Self { ids, table, applier, counted: Counted::default(), number: 0 };
        for number in 0..BEFORE * folding.ids.len() {
            let turn = number / folding.ids.len();
            let kind = if turn.is_multiple_of(2) { Kind::Page } else { Kind::Track };
            folding.fold(kind, turn);
        }
        folding
    }

    /// The next visitor's next event, the one of this number.
    pub fn fold(&mut self, kind: Kind, number: usize) {
        let Self { ids, table, applier, counted, .. } = self;
        let record = record(kind, &ids[self.number % ids.len()], number);
        applier.apply(table, black_box(&record), u64::MAX, counted);
        self.number += 1;
    }
}
