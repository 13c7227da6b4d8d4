//! The catalog: all sites as they are served now, behind one atomic pointer.
//!
//! The watcher swaps it; each thread looks at it through a [`View`] of its own, whose cached
//! pointer costs one comparison a request. A request keeps the catalog that it began with.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::super::snapshot::open::Snapshot;
use super::versions::Versions;

/// A site that is served.
pub struct Published {
    snapshot: Arc<Snapshot>,
    /// What the site listed at its last versions, this one included.
    pub versions: Versions,
}

impl Deref for Published {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        &self.snapshot
    }
}

/// All sites. They are few, so a sorted list finds one faster than a hash of its id.
#[derive(Default)]
pub struct Catalog {
    /// Sorted by site ID.
    sites: Vec<Published>,
    /// Tracking IDs, sorted, with the index of the site.
    tracking_ids: Vec<(Box<str>, usize)>,
}

impl Catalog {
    /// The catalog of these snapshots: no two with one site ID or one tracking ID.
    pub fn new(snapshots: impl Iterator<Item = (Arc<Snapshot>, Versions)>) -> Self {
        let mut sites: Vec<Published> =
            snapshots.map(|(snapshot, versions)| Published { snapshot, versions }).collect();
        sites.sort_by(|a, b| a.site().site.as_str().cmp(&b.site().site));
        let mut tracking_ids = Vec::with_capacity(sites.len());
        for (index, site) in sites.iter().enumerate() {
            tracking_ids.push((Box::from(site.site().tracking_id.as_str()), index));
        }
        tracking_ids.sort();
        Self { sites, tracking_ids }
    }

    /// All sites, sorted by site ID.
    pub fn sites(&self) -> &[Published] {
        &self.sites
    }

    /// The site with this site ID.
    pub fn by_site(&self, id: &str) -> Option<&Published> {
        let at = self.sites.binary_search_by(|s| s.site().site.as_str().cmp(id)).ok()?;
        Some(&self.sites[at])
    }

    /// The site with this tracking ID.
    pub fn by_tracking_id(&self, id: &str) -> Option<&Published> {
        let at = self.tracking_ids.binary_search_by(|(t, _)| (**t).cmp(id)).ok()?;
        Some(&self.sites[self.tracking_ids[at].1])
    }
}

/// The pointer to the catalog that is served.
#[derive(Clone, Default)]
pub struct Current(Arc<ArcSwap<Catalog>>);

impl Current {
    /// Serves `catalog` from now on.
    pub fn swap(&self, catalog: Catalog) {
        self.0.store(Arc::new(catalog));
    }

    /// The catalog that is served now.
    pub fn load(&self) -> Arc<Catalog> {
        self.0.load_full()
    }

    /// A thread's own view.
    pub fn view(&self) -> View {
        let cache = arc_swap::Cache::new(Arc::clone(&self.0));
        View { cache }
    }
}

/// One thread's view of the catalog.
pub struct View {
    cache: arc_swap::Cache<Arc<ArcSwap<Catalog>>, Arc<Catalog>>,
}

impl View {
    /// The catalog that is served now. Looking also lets go of one that is no longer served.
    pub fn load(&mut self) -> &Catalog {
        self.cache.load()
    }
}
