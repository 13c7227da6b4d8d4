//! What a site listed at its last versions, so that a caller who has one is told what differs.
//!
//! Kept in memory beside the snapshots that are served; a restart forgets it, and then every
//! version is unknown and a caller gets the whole list.

use std::sync::Arc;

use super::super::snapshot::open::Snapshot;
use crate::limits::VERSIONS_KEPT_MAX;

/// One path of a version.
#[derive(Debug, Clone)]
pub struct Path {
    /// As authored. Its text is shared with the version before, where that has it too.
    pub path: Arc<str>,
    /// Names its content.
    pub content: [u8; 16],
}

/// What one version listed.
#[derive(Debug)]
pub struct Listed {
    version: u64,
    /// Of the snapshot.
    pub hash: [u8; 32],
    /// Sorted by path.
    pub paths: Vec<Path>,
}

impl Listed {
    fn bytes(&self) -> usize {
        let texts: usize = self.paths.iter().map(|path| path.path.len() + SHARED_TEXT_BYTES).sum();
        texts + self.paths.capacity() * size_of::<Path>()
    }
}

/// What an `Arc<str>` takes beside its text, rounded up for the allocator.
const SHARED_TEXT_BYTES: usize = 32;

/// The last versions that were served, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Versions(Vec<Arc<Listed>>);

impl Versions {
    /// These versions and `snapshot`, the oldest forgotten where there are too many.
    pub fn and(&self, snapshot: &Snapshot) -> Self {
        let same = |listed: &&Arc<Listed>| listed.hash == snapshot.hash();
        let listed = match self.0.iter().find(same) {
            Some(known) => Arc::clone(known),
            None => Arc::new(listed(snapshot, self.0.last())),
        };
        let others = self.0.iter().filter(|other| other.hash != listed.hash);
        let mut kept: Vec<_> = others.cloned().collect();
        kept.push(listed);
        let surplus = kept.len().saturating_sub(VERSIONS_KEPT_MAX);
        kept.drain(..surplus);
        Self(kept)
    }

    /// What they hold in memory; texts that versions share count for each.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|listed| listed.bytes()).sum()
    }

    /// Forgets the oldest, as if it had never been served; the bytes that it held.
    pub fn forget_oldest(&mut self) -> usize {
        if self.0.is_empty() { 0 } else { self.0.remove(0).bytes() }
    }

    /// What `version` listed; None where it is not kept, or where two contents were served as it.
    pub fn at(&self, version: u64) -> Option<&Listed> {
        let mut of_version = self.0.iter().filter(|listed| listed.version == version);
        let listed = of_version.next()?;
        of_version.next().is_none().then_some(listed)
    }
}

fn listed(snapshot: &Snapshot, before: Option<&Arc<Listed>>) -> Listed {
    let known = before.map_or(&[][..], |listed| &listed.paths);
    let site = snapshot.site();
    let paths = site.routes.iter().map(|route| {
        let text = known.binary_search_by(|p| (*p.path).cmp(route.path.as_str()));
        let path = match text {
            Ok(at) => Arc::clone(&known[at].path),
            Err(_) => Arc::from(route.path.as_str()),
        };
        Path { path, content: route.content }
    });
    Listed { version: snapshot.version(), hash: snapshot.hash(), paths: paths.collect() }
}
