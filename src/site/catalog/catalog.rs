//! The catalog: all served sites, reached through one atomic pointer.
//!
//! The watcher swaps the pointer. Each thread has its own [`CatalogReader`], whose cached pointer costs one
//! comparison per request. A request uses one catalog from start to end.

use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;

use super::super::snapshot::open::Snapshot;
use super::phases::Phases;
use super::versions::Versions;
use crate::clock;
use crate::site::snapshot::rule_facts::RuleFacts;

/// A served site: its snapshot, and the paths of its last versions.
pub struct PublishedSite {
    snapshot: Arc<Snapshot>,
    /// Paths and queries of the site's last versions, the current one included.
    pub versions: Versions,
    /// When this process began to serve the snapshot, in milliseconds.
    pub served_since_ms: i64,
    /// Collected for the first visitor token.
    rule_facts: OnceLock<RuleFacts>,
}

impl PublishedSite {
    /// Returns the facts that the rules read.
    pub(crate) fn rule_facts(&self) -> &RuleFacts {
        self.rule_facts.get_or_init(|| RuleFacts::of(self.site()))
    }

    /// Returns the snapshot, for work that outlives the catalog.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot)
    }
}

impl Deref for PublishedSite {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        &self.snapshot
    }
}

/// The served sites. There are few of them, so a binary search finds one faster than a hash map would.
#[derive(Default)]
pub struct Catalog {
    /// Sorted by site ID.
    sites: Vec<PublishedSite>,
    /// Tracking IDs, sorted, each with the site's index in `sites`.
    tracking_ids: Vec<(Box<str>, usize)>,
    /// The phases of experiments, also of unpublished sites.
    phases: Arc<Phases>,
    /// The number of catalogs that were served before this one.
    generation: u64,
}

impl Catalog {
    /// Creates a catalog of these snapshots. No two of them may have the same site ID or tracking ID.
    pub fn new(snapshots: impl Iterator<Item = (Arc<Snapshot>, Versions)>) -> Self {
        let served_since_ms = clock::now_ms();
        let mut sites: Vec<PublishedSite> = snapshots
            .map(|(snapshot, versions)| PublishedSite {
                snapshot,
                versions,
                served_since_ms,
                rule_facts: OnceLock::new(),
            })
            .collect();
        sites.sort_by(|a, b| a.site().site.get().cmp(&b.site().site));
        let tracking_ids = sites.iter().map(|site| Box::from(site.site().tracking_id.as_str()));
        let mut tracking_ids: Vec<(Box<str>, usize)> = tracking_ids.zip(0..).collect();
        tracking_ids.sort();
        Self { sites, tracking_ids, phases: Arc::default(), generation: 0 }
    }

    /// Adds the phases of experiments.
    pub(crate) fn with_phases(self, phases: Arc<Phases>) -> Self {
        Self { phases, ..self }
    }

    /// Returns the phases of experiments.
    pub fn phases(&self) -> &Phases {
        &self.phases
    }

    /// Returns a number that differs for each catalog of a process.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns all sites, sorted by site ID.
    pub fn sites(&self) -> &[PublishedSite] {
        &self.sites
    }

    /// Returns the site with this site ID.
    pub fn by_site_id(&self, id: &str) -> Option<&PublishedSite> {
        let at = self.sites.binary_search_by(|s| s.site().site.get().cmp(id)).ok()?;
        Some(&self.sites[at])
    }

    /// Returns the site with this tracking ID.
    pub fn by_tracking_id(&self, id: &str) -> Option<&PublishedSite> {
        let at = self.tracking_ids.binary_search_by(|(t, _)| (**t).cmp(id)).ok()?;
        Some(&self.sites[self.tracking_ids[at].1])
    }
}

/// A function that wakes a thread whose requests wait for another catalog.
type WakeFunction = dyn Fn() + Send + Sync;

/// The shared pointer to the served catalog.
#[derive(Clone, Default)]
pub struct CurrentCatalog {
    catalog: Arc<ArcSwap<Catalog>>,
    /// The registered functions. Requests never take this lock.
    wakes: Arc<Mutex<Vec<Arc<WakeFunction>>>>,
}

impl CurrentCatalog {
    /// Replaces the served catalog. Only one thread may call this.
    pub fn swap(&self, mut catalog: Catalog) {
        let before = self.catalog.load();
        catalog.generation = before.generation + 1;
        for site in &mut catalog.sites {
            let same = before.by_site_id(&site.site().site).filter(|old| old.hash() == site.hash());
            site.served_since_ms = same.map_or(site.served_since_ms, |old| old.served_since_ms);
        }
        self.catalog.store(Arc::new(catalog));
        self.wake_all();
    }

    /// Registers a function that is called after each change.
    pub(crate) fn on_change(&self, wake: Arc<WakeFunction>) {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner).push(wake);
    }

    /// Wakes all registered threads.
    pub(crate) fn wake_all(&self) {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|wake| wake());
    }

    /// Returns the served catalog.
    pub fn load(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Returns a reader for one thread.
    pub fn reader(&self) -> CatalogReader {
        CatalogReader { cache: arc_swap::Cache::new(Arc::clone(&self.catalog)) }
    }
}

/// A reader of the served catalog, for one thread.
pub struct CatalogReader {
    cache: arc_swap::Cache<Arc<ArcSwap<Catalog>>, Arc<Catalog>>,
}

impl CatalogReader {
    /// Returns the served catalog, and releases an older one that this reader still held.
    pub fn load(&mut self) -> &Catalog {
        self.cache.load()
    }
}
