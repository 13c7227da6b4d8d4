//! Which of the contents in the folder are served: random sequences of what may happen to names,
//! against the rules as the interface words them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use parallax::limits::VERSIONS_KEPT_MAX;
use parallax::site::catalog::catalog::Current;
use parallax::site::catalog::directory::Shelf;
use parallax::site::snapshot::format::HEADER_BYTES;
use parallax::site::snapshot::open::Budget;
use proptest::prelude::*;

use super::site;
use crate::harness::{temporary_folder, times};

/// One content that a name may have.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Content {
    site: &'static str,
    tracking_id: &'static str,
    version: u64,
    hash: Vec<u8>,
    bytes: Vec<u8>,
}

/// Three sites, two versions, two texts, each with a tracking ID of its own and one that all want.
static CONTENTS: LazyLock<Vec<Content>> = LazyLock::new(|| {
    let mut contents = Vec::new();
    for (id, own) in [("ant", "track_ant"), ("bear", "track_bear"), ("crow", "track_crow")] {
        for tracking_id in [own, "track_shared"] {
            for version in [1, 2] {
                for text in ["x", "y"] {
                    let bytes = site(id, tracking_id, version, text);
                    let hash = bytes[32..HEADER_BYTES].to_vec();
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

/// The rules, as simply as they can be written.
#[derive(Default)]
struct Oracle {
    /// What lies in the folder; None is damage.
    folder: BTreeMap<usize, Option<Content>>,
    /// By name: the last whole and valid content.
    kept: BTreeMap<usize, Content>,
    served: BTreeMap<&'static str, Content>,
    /// Sites of which two contents claim to be the version that would be served.
    contested: BTreeSet<&'static str>,
}

impl Oracle {
    fn scan(&mut self) {
        self.kept.retain(|name, _| self.folder.contains_key(name));
        for (name, content) in &self.folder {
            if let Some(content) = content {
                self.kept.insert(*name, content.clone());
            }
        }
        // Serving one thing can free a tracking ID for another, so the rules are applied until nothing changes.
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

    /// Each site, by its ID, takes its best content whose tracking ID nobody else serves or took before it.
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

fn served(current: &Current) -> Vec<(String, Vec<u8>)> {
    let catalog = current.load();
    catalog.sites().iter().map(|s| (s.site().site.to_string(), s.hash().to_vec())).collect()
}

fn run(steps: &[Step]) -> Result<(), TestCaseError> {
    let folder = temporary_folder();
    let path = |name: usize| folder.path().join(NAMES[name]);
    let (mut shelf, current, mut oracle) =
        (Shelf::new(Budget::new(u64::MAX)), Current::default(), Oracle::default());
    // What a watcher tells: the names that something happened to since the last scan.
    let mut touched = HashSet::new();
    let happened = |name: usize, touched: &mut HashSet<_>| touched.insert(NAMES[name].into());
    for step in steps {
        match *step {
            Step::Write { name, content } => {
                fs::write(path(name), &CONTENTS[content].bytes).expect("written");
                oracle.folder.insert(name, Some(CONTENTS[content].clone()));
                happened(name, &mut touched);
            }
            Step::Damage { name } => {
                let mut bytes = CONTENTS[name].bytes.clone();
                bytes[HEADER_BYTES + name] ^= 1;
                fs::write(path(name), bytes).expect("written");
                oracle.folder.insert(name, None);
                happened(name, &mut touched);
            }
            Step::Cut { name } => {
                let bytes = &CONTENTS[name].bytes;
                fs::write(path(name), &bytes[..bytes.len() / 2]).expect("written");
                oracle.folder.insert(name, None);
                happened(name, &mut touched);
            }
            Step::Remove { name } => {
                let _ = fs::remove_file(path(name));
                oracle.folder.remove(&name);
                happened(name, &mut touched);
            }
            Step::Scan => {
                shelf.scan(folder.path(), &std::mem::take(&mut touched), &current).expect("scanned");
                oracle.scan();
                check(&shelf, &current, &oracle)?;
            }
        }
    }
    Ok(())
}

fn check(shelf: &Shelf, current: &Current, oracle: &Oracle) -> Result<(), TestCaseError> {
    let expected: Vec<_> = oracle.served.iter().map(|(id, c)| ((*id).to_owned(), c.hash.clone())).collect();
    prop_assert_eq!(served(current), expected);
    let catalog = current.load();
    for content in oracle.served.values() {
        let found = catalog.by_tracking_id(content.tracking_id).map(|s| s.site().site.to_string());
        prop_assert_eq!(found.as_deref(), Some(content.site));
    }
    let warned =
        |id: &str| shelf.complaints().any(|c| c.contains(&format!("different contents of site {id} ")));
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
    fn what_is_served_is_what_the_rules_say(mut steps in prop::collection::vec(step(), 1..40)) {
        steps.push(Step::Scan);
        run(&steps)?;
    }
}

fn publish(folder: &Path, shelf: &mut Shelf, current: &Current, version: u64) {
    fs::write(folder.join("a.snapshot"), site("acme", "track_acme", version, "text")).expect("written");
    shelf.scan(folder, &HashSet::from(["a.snapshot".into()]), current).expect("scanned");
}

#[test]
fn as_many_versions_as_the_bound_are_kept_and_the_oldest_goes_first() {
    let folder = temporary_folder();
    let (mut shelf, current) = (Shelf::new(Budget::new(u64::MAX)), Current::default());
    let knows = |version: u64| current.load().sites()[0].versions.at(version).is_some();
    let bound = VERSIONS_KEPT_MAX as u64;
    for version in 1..=bound {
        publish(folder.path(), &mut shelf, &current, version);
    }
    assert!((1..=bound).all(knows));
    publish(folder.path(), &mut shelf, &current, bound + 1);
    assert!(!knows(1));
    assert!((2..=bound + 1).all(knows));
    // Served again, a version is the newest, not one more.
    publish(folder.path(), &mut shelf, &current, 2);
    assert!((2..=bound + 1).all(knows));
    publish(folder.path(), &mut shelf, &current, bound + 2);
    assert!(knows(2) && !knows(3));
}

#[test]
fn memory_of_what_is_no_longer_served_is_given_back() {
    let folder = temporary_folder();
    let budget = Budget::new(u64::MAX);
    let (mut shelf, current) = (Shelf::new(budget.clone()), Current::default());
    publish(folder.path(), &mut shelf, &current, 1);
    let of_one = budget.used();
    let view = current.load();
    publish(folder.path(), &mut shelf, &current, 2);
    assert_eq!(budget.used(), 2 * of_one, "a request still looks at the old one");
    drop(view);
    assert_eq!(budget.used(), of_one);
    fs::remove_file(folder.path().join("a.snapshot")).expect("removed");
    shelf.scan(folder.path(), &HashSet::new(), &current).expect("scanned");
    assert_eq!(budget.used(), 0);
}
