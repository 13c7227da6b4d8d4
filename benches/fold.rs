//! From a record to the profile that it changes: what the log's writer does for each event before it acknowledges.

use divan::{AllocProfiler, Bencher, black_box};
use parallax::segment::filter::Whose;
use parallax::segment::{Kind, Record};
use parallax::visitors::Counted;
use parallax::visitors::identity::{Applier, Keys};
use parallax::visitors::profile::Profile;
use parallax::visitors::table::Table;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const NOW_MS: i64 = 1_767_607_200_000;
const SECRET: [u8; 16] = *b"secret of a test";
const PAYLOAD: &str = r#"{"type":"page","anonymousId":"507f191e-810c-4972-9de8-60ea00000000","messageId":"ajs-022bb90c-bbac-11e4-8dfc-aa07a5b093db","timestamp":"2026-01-05T09:59:58.123Z","name":"Pricing","properties":{"path":"/pricing","referrer":"https://search.example/","search":"?utm_source=newsletter","title":"Pricing","url":"https://acme.example/pricing?utm_source=newsletter&utm_medium=email"},"context":{"locale":"de-DE","library":{"name":"analytics.js","version":"2.11.1"},"page":{"path":"/pricing","title":"Pricing"},"userAgent":"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 Chrome/140.0 Safari/537.36"}}"#;
const PATHS: [&str; 3] = ["/", "/pricing", "/docs/start"];
const NAMES: [&str; 2] = ["Product Viewed", "Signed Up"];

fn record(kind: Kind, anon_id: &str, number: usize) -> Record<'_> {
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

fn main() {
    divan::main();
}

/// One event of a visitor who has seen three pages and done two things; the visitors take turns.
#[divan::bench(args = [Kind::Page, Kind::Track])]
fn fold(bencher: Bencher, kind: Kind) {
    let ids: Vec<String> = (0..1000).map(|i| format!("507f191e-810c-4972-9de8-60ea{i:08}")).collect();
    let (mut table, mut applier, mut counted) = (Table::new(), Applier::new(SECRET), Counted::default());
    let mut number = 0;
    for id in ids.iter().cycle().take(12 * ids.len()) {
        let turn = number / ids.len();
        let kind = if turn.is_multiple_of(2) { Kind::Page } else { Kind::Track };
        applier.apply(&mut table, &record(kind, id, turn), u64::MAX, &mut counted);
        number += 1;
    }
    let before = number;
    bencher.bench_local(|| {
        let id = &ids[number % ids.len()];
        applier.apply(&mut table, black_box(&record(kind, id, number)), u64::MAX, &mut counted);
        number += 1;
    });
    let keys = Keys::new(SECRET);
    let recorded = |id: &String| {
        let profile = Profile::read(table.get(keys.of("acme", Whose::Anon, id))?)?;
        Some(profile.page_views() + profile.events())
    };
    assert_eq!(ids.iter().filter_map(recorded).sum::<u64>(), number as u64);
    assert!(number > before && counted == Counted::default());
}

/// What a request looks up in a profile.
#[divan::bench]
fn read(bencher: Bencher) {
    let (mut table, mut applier, mut counted) = (Table::new(), Applier::new(SECRET), Counted::default());
    for number in 0..12_usize {
        let kind = if number.is_multiple_of(2) { Kind::Page } else { Kind::Track };
        applier.apply(&mut table, &record(kind, "v", number), u64::MAX, &mut counted);
    }
    let value = table.get(Keys::new(SECRET).of("acme", Whose::Anon, "v")).expect("a profile");
    bencher.bench_local(|| {
        let profile = Profile::read(black_box(value)).expect("a profile");
        let pricing = profile.page("/pricing").expect("a page");
        assert_eq!((profile.page_views(), pricing.count), (6, 2));
    });
}
