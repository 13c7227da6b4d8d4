//! The paths of a site's last versions, so that a caller that has one of them gets only the differences.
//!
//! They are in memory only. After a restart all versions are unknown, and callers get the full list.

use std::sync::Arc;

use super::super::snapshot::open::Snapshot;
use crate::limits::VERSIONS_KEPT_MAX;

/// One path of a version and the hash of its content.
#[derive(Debug, Clone)]
pub struct PathEntry {
    /// As authored. Shares its text with the same path of the previous version.
    pub path: Arc<str>,
    /// Identifies the content.
    pub content: [u8; 16],
}

/// The paths of one version.
#[derive(Debug)]
pub struct PublishedPaths {
    version: u64,
    /// The snapshot's hash.
    pub hash: [u8; 32],
    /// Sorted by path.
    pub paths: Vec<PathEntry>,
}

impl PublishedPaths {
    fn memory_bytes(&self) -> usize {
        let texts: usize = self.paths.iter().map(|path| path.path.len() + SHARED_TEXT_BYTES).sum();
        texts + self.paths.capacity() * size_of::<PathEntry>()
    }
}

/// Memory of an `Arc<str>` besides its text, rounded up for the allocator.
const SHARED_TEXT_BYTES: usize = 32;

/// The last served versions of a site, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Versions(Vec<Arc<PublishedPaths>>);

impl Versions {
    /// Returns these versions with `snapshot` added. Drops the oldest ones over the limit.
    pub fn with_snapshot(&self, snapshot: &Snapshot) -> Self {
        let same = |listed: &&Arc<PublishedPaths>| listed.hash == snapshot.hash();
        let listed = match self.0.iter().find(same) {
            Some(known) => Arc::clone(known),
            None => Arc::new(list_paths(snapshot, self.0.last())),
        };
        let others = self.0.iter().filter(|other| other.hash != listed.hash);
        let mut kept: Vec<_> = others.cloned().collect();
        kept.push(listed);
        let surplus = kept.len().saturating_sub(VERSIONS_KEPT_MAX);
        kept.drain(..surplus);
        Self(kept)
    }

    /// Returns the memory of all versions in bytes. A text that versions share counts for each of them.
    pub fn memory_bytes(&self) -> usize {
        self.0.iter().map(|listed| listed.memory_bytes()).sum()
    }

    /// Drops the oldest version, as if it had never been served. Returns its memory in bytes.
    pub fn forget_oldest(&mut self) -> usize {
        if self.0.is_empty() { 0 } else { self.0.remove(0).memory_bytes() }
    }

    /// Returns the paths of `version`. `None` if it is not kept, or if two snapshots with this version were
    /// served.
    pub fn get(&self, version: u64) -> Option<&PublishedPaths> {
        let mut of_version = self.0.iter().filter(|listed| listed.version == version);
        let listed = of_version.next()?;
        of_version.next().is_none().then_some(listed)
    }
}

fn list_paths(snapshot: &Snapshot, before: Option<&Arc<PublishedPaths>>) -> PublishedPaths {
    let known = before.map_or(&[][..], |listed| &listed.paths);
    let site = snapshot.site();
    let paths = site.routes.iter().map(|route| {
        let text = known.binary_search_by(|p| (*p.path).cmp(route.path.as_str()));
        let path = match text {
            Ok(at) => Arc::clone(&known[at].path),
            Err(_) => Arc::from(route.path.as_str()),
        };
        PathEntry { path, content: route.content }
    });
    PublishedPaths { version: snapshot.version(), hash: snapshot.hash(), paths: paths.collect() }
}
