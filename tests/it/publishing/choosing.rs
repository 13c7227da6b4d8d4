//! The choice of the served snapshots: random sequences of changes to files, against a naive model of the
//! rules in the interface.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use parallax::testing::limits::VERSIONS_KEPT_MAX;
use parallax::testing::site::catalog::catalog::CurrentCatalog;
use parallax::testing::site::catalog::directory::SnapshotDirectory;
use parallax::testing::site::snapshot::format::HEADER_BYTES;
use parallax::testing::site::snapshot::open::SnapshotBudget;
use proptest::prelude::*;

use super::site;
use crate::harness::{temporary_directory, times};

/// A possible content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Content {
    site: &'static str,
    tracking_id: &'static str,
    version: u64,
    hash: Vec<u8>,
    bytes: Vec<u8>,
}

/// Three sites with two versions and two texts, each under its own and under a shared tracking ID.
static CONTENTS: LazyLock<Vec<Content>> = LazyLock::new(|| {
    let mut contents = Vec::new();
    for (id, own) in [("ant", "track_ant"), ("bear", "track_bear"), ("crow", "track_crow")] {
        for tracking_id in [own, "track_shared"] {
            for version in [1, 2] {
                for text in ["x", "y"] {
                    let bytes = site(id, tracking_id, version, text);
                    let hash = bytes[48..HEADER_BYTES].to_vec();
                    contents.push(Content { site: id, tracking_id, version, hash, bytes });
                }
            }
        }
    }
    contents
});

const NAMES: [&str; 5] = ["a.snapshot", "b.snapshot", "c.snapshot", "d.snapshot", "e.snapshot"];

#[derive(Debug, Clone)]
enum Step {
    Write { name: usize, content: usize },
    Damage { name: usize },
    Cut { name: usize },
    Remove { name: usize },
    Scan,
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..NAMES.len();
    prop_oneof![
        4 => (name.clone(), 0..CONTENTS.len()).prop_map(|(name, content)| Step::Write { name, content }),
        1 => name.clone().prop_map(|name| Step::Damage { name }),
        1 => name.clone().prop_map(|name| Step::Cut { name }),
        1 => name.prop_map(|name| Step::Remove { name }),
        3 => Just(Step::Scan),
    ]
}

/// A naive model of the rules.
#[derive(Default)]
struct Oracle {
    /// The files in the directory. `None` is a damaged file.
    directory: BTreeMap<usize, Option<Content>>,
    /// The last complete and valid content by name.
    kept: BTreeMap<usize, Content>,
    served: BTreeMap<&'static str, Content>,
    /// Sites with two contents of the served version.
    contested: BTreeSet<&'static str>,
}

impl Oracle {
    fn scan(&mut self) {
        self.kept.retain(|name, _| self.directory.contains_key(name));
        for (name, content) in &self.directory {
            if let Some(content) = content {
                self.kept.insert(*name, content.clone());
            }
        }
        // A change in one site can free a tracking ID for another. So the rules are applied until nothing
        // changes.
        loop {
            let next = self.next();
            if next == self.served {
                break;
            }
            self.served = next;
        }
        let is_rival = |c: &&Content| {
            let served = self.served.get(c.site);
            served.is_some_and(|s| s.version == c.version && s.hash > c.hash)
        };
        self.contested = self.kept.values().filter(is_rival).map(|c| c.site).collect();
    }

    /// Visits the sites in the order of their IDs. Each gets its best content whose tracking ID is not served
    /// by another site and not taken by an earlier one.
    fn next(&self) -> BTreeMap<&'static str, Content> {
        let still = |site: &str| self.kept.values().any(|c| c.site == site);
        let mut next: BTreeMap<&'static str, Content> = BTreeMap::new();
        for site in ["ant", "bear", "crow"] {
            let free = |c: &&Content| {
                let others = |served: &Content| served.site != site && served.tracking_id == c.tracking_id;
                !self.served.values().any(|s| others(s) && still(s.site)) && !next.values().any(others)
            };
            let best = self.kept.values().filter(|c| c.site == site).filter(free);
            if let Some(best) = best.max_by_key(|c| (c.version, c.hash.clone())) {
                next.insert(site, best.clone());
            }
        }
        next
    }
}

fn served(current: &CurrentCatalog) -> Vec<(String, Vec<u8>)> {
    let catalog = current.load();
    catalog.sites().iter().map(|s| (s.site().site.to_string(), s.hash().to_vec())).collect()
}

fn run(steps: &[Step]) -> Result<(), TestCaseError> {
    let directory = temporary_directory();
    let path = |name: usize| directory.path().join(NAMES[name]);
    let (mut snapshots, current, mut oracle) =
        (SnapshotDirectory::new(SnapshotBudget::new(u64::MAX)), CurrentCatalog::default(), Oracle::default());
    // The reports of a watcher: the names that changed since the last scan.
    let mut touched = HashSet::new();
    let mark_touched = |name: usize, touched: &mut HashSet<_>| touched.insert(NAMES[name].into());
    for step in steps {
        match *step {
            Step::Write { name, content } => {
                fs::write(path(name), &CONTENTS[content].bytes).expect("written");
                oracle.directory.insert(name, Some(CONTENTS[content].clone()));
                mark_touched(name, &mut touched);
            }
            Step::Damage { name } => {
                let mut bytes = CONTENTS[name].bytes.clone();
                bytes[HEADER_BYTES + name] ^= 1;
                fs::write(path(name), bytes).expect("written");
                oracle.directory.insert(name, None);
                mark_touched(name, &mut touched);
            }
            Step::Cut { name } => {
                let bytes = &CONTENTS[name].bytes;
                fs::write(path(name), &bytes[..bytes.len() / 2]).expect("written");
                oracle.directory.insert(name, None);
                mark_touched(name, &mut touched);
            }
            Step::Remove { name } => {
                let _ = fs::remove_file(path(name));
                oracle.directory.remove(&name);
                mark_touched(name, &mut touched);
            }
            Step::Scan => {
                snapshots.scan(directory.path(), &std::mem::take(&mut touched), &current).expect("scanned");
                oracle.scan();
                check(&snapshots, &current, &oracle)?;
            }
        }
    }
    Ok(())
}

fn check(
    snapshots: &SnapshotDirectory,
    current: &CurrentCatalog,
    oracle: &Oracle,
) -> Result<(), TestCaseError> {
    let expected: Vec<_> = oracle.served.iter().map(|(id, c)| ((*id).to_owned(), c.hash.clone())).collect();
    prop_assert_eq!(served(current), expected);
    let catalog = current.load();
    for content in oracle.served.values() {
        let found = catalog.by_tracking_id(content.tracking_id).map(|s| s.site().site.to_string());
        prop_assert_eq!(found.as_deref(), Some(content.site));
    }
    let warned = |id: &str| {
        let of_site = format!(" of site {id};");
        snapshots.rejections().any(|c| c.contains("different content for version") && c.contains(&of_site))
    };
    for id in ["ant", "bear", "crow"] {
        prop_assert_eq!(warned(id), oracle.contested.contains(id), "{}", id);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: times(150, 20_000) as u32, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn the_served_snapshots_match_the_rules(mut steps in prop::collection::vec(step(), 1..40)) {
        steps.push(Step::Scan);
        run(&steps)?;
    }
}

fn publish(directory: &Path, snapshots: &mut SnapshotDirectory, current: &CurrentCatalog, version: u64) {
    fs::write(directory.join("a.snapshot"), site("acme", "track_acme", version, "text")).expect("written");
    snapshots.scan(directory, &HashSet::from(["a.snapshot".into()]), current).expect("scanned");
}

#[test]
fn versions_are_kept_up_to_their_limit_and_the_oldest_is_dropped() {
    let directory = temporary_directory();
    let (mut snapshots, current) =
        (SnapshotDirectory::new(SnapshotBudget::new(u64::MAX)), CurrentCatalog::default());
    let knows = |version: u64| current.load().sites()[0].versions.get(version).is_some();
    let bound = VERSIONS_KEPT_MAX as u64;
    for version in 1..=bound {
        publish(directory.path(), &mut snapshots, &current, version);
    }
    assert!((1..=bound).all(knows));
    publish(directory.path(), &mut snapshots, &current, bound + 1);
    assert!(!knows(1));
    assert!((2..=bound + 1).all(knows));
    // A version that is served again becomes the newest. It is not counted twice.
    publish(directory.path(), &mut snapshots, &current, 2);
    assert!((2..=bound + 1).all(knows));
    publish(directory.path(), &mut snapshots, &current, bound + 2);
    assert!(knows(2) && !knows(3));
}

#[test]
fn the_memory_of_a_replaced_snapshot_is_released() {
    let directory = temporary_directory();
    let budget = SnapshotBudget::new(u64::MAX);
    let (mut snapshots, current) = (SnapshotDirectory::new(budget.clone()), CurrentCatalog::default());
    publish(directory.path(), &mut snapshots, &current, 1);
    let of_one = budget.used_bytes();
    let view = current.load();
    publish(directory.path(), &mut snapshots, &current, 2);
    assert_eq!(budget.used_bytes(), 2 * of_one, "a request still uses the old snapshot");
    drop(view);
    assert_eq!(budget.used_bytes(), of_one);
    fs::remove_file(directory.path().join("a.snapshot")).expect("removed");
    snapshots.scan(directory.path(), &HashSet::new(), &current).expect("scanned");
    assert_eq!(budget.used_bytes(), 0);
}
