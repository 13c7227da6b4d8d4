//! The fold: from a record to the changed profile. The log writer does this for each event before
//! acknowledging it.

#[path = "../tests/it/folded.rs"]
mod folded;
#[path = "bench/folding.rs"]
mod folding;

use divan::{AllocProfiler, Bencher, black_box};
use folding::{FoldBench, SECRET, record};
use parallax::testing::record::{IdKind, RecordKind};
use parallax::testing::visitors::apply::{KeyHasher, ProfileUpdater};
use parallax::testing::visitors::profile::FoldCounts;
use parallax::testing::visitors::profile::profile::Profile;
use parallax::testing::visitors::store::table::Table;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// Folds one event of a visitor with three viewed pages and two other events. The visitors take turns.
#[divan::bench(args = [RecordKind::Page, RecordKind::Track])]
fn fold(bencher: Bencher, kind: RecordKind) {
    let mut folding = FoldBench::new();
    let before = folding.number;
    bencher.bench_local(|| folding.fold(kind, folding.number));
    let FoldBench { ids, table, counted, number, .. } = folding;
    let keys = KeyHasher::new(SECRET);
    let recorded = |id: &String| {
        let profile = Profile::decode(table.get(keys.key("acme", IdKind::Anon, id))?)?;
        Some(profile.page_views() + profile.events())
    };
    assert_eq!(ids.iter().filter_map(recorded).sum::<u64>(), number as u64);
    assert!(number > before && counted == FoldCounts::default());
}

/// Reads from a profile the values that a request needs.
#[divan::bench]
fn read(bencher: Bencher) {
    let (mut table, mut applier, mut counted) =
        (Table::new(), ProfileUpdater::new(SECRET), FoldCounts::default());
    for number in 0..12_usize {
        let kind = if number.is_multiple_of(2) { RecordKind::Page } else { RecordKind::Track };
        applier.apply(&mut table, &record(kind, "v", number), u64::MAX, &mut counted);
    }
    let value = table.get(KeyHasher::new(SECRET).key("acme", IdKind::Anon, "v")).expect("a profile");
    bencher.bench_local(|| {
        let profile = Profile::decode(black_box(value)).expect("a profile");
        let pricing = profile.page_history("/pricing").expect("a page");
        assert_eq!((profile.page_views(), pricing.count), (6, 2));
    });
}
