//! From a record to the profile that it changes: what the log's writer does for each event before it acknowledges.

#[path = "bench/folding.rs"]
mod folding;

use divan::{AllocProfiler, Bencher, black_box};
use folding::{Folding, SECRET, record};
use parallax::visitors::Counted;
use parallax::visitors::apply::{Applier, Keys};
use parallax::visitors::log::Kind;
use parallax::visitors::log::bloom::Whose;
use parallax::visitors::profile::profile::Profile;
use parallax::visitors::store::table::Table;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// One event of a visitor who has seen three pages and done two things; the visitors take turns.
#[divan::bench(args = [Kind::Page, Kind::Track])]
fn fold(bencher: Bencher, kind: Kind) {
    let mut folding = Folding::new();
    let before = folding.number;
    bencher.bench_local(|| folding.fold(kind, folding.number));
    let Folding { ids, table, counted, number, .. } = folding;
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
