//! The paths and queries of a site's last versions, so that a caller that has one of them gets only the differences.
//!
//! [`super::versions_file`] keeps them in the data directory. A version that is in neither place is unknown, and the
//! caller gets the full list.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::snapshot::open::Snapshot;
use crate::limits::{SERVINGS_KEPT_MAX, VERSIONS_KEPT_MAX};

/// The last versions of each site, by site ID.
pub(crate) type SiteVersions = BTreeMap<String, Versions>;

/// A path or a query of a version, and the hash of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentEntry {
    /// The path as authored, or the ID of the query. Shares its text with the same key of other versions.
    pub key: Arc<str>,
    /// Identifies the content.
    pub content: [u8; 16],
}

/// The paths and queries of one version.
#[derive(Debug, PartialEq, Eq)]
pub struct PublishedVersion {
    /// The site's version.
    pub version: u64,
    /// The snapshot's hash.
    pub hash: [u8; 32],
    /// Sorted by path.
    pub paths: Vec<ContentEntry>,
    /// Sorted by ID.
    pub queries: Vec<ContentEntry>,
}

impl PublishedVersion {
    fn memory_bytes(&self) -> usize {
        let lists = [&self.paths, &self.queries];
        let bytes = |list: &Vec<ContentEntry>| {
            let texts: usize = list.iter().map(|entry| entry.key.len() + SHARED_TEXT_BYTES).sum();
            texts + list.capacity() * size_of::<ContentEntry>()
        };
        lists.into_iter().map(bytes).sum()
    }
}

/// Memory of an `Arc<str>` besides its text, rounded up for the allocator.
const SHARED_TEXT_BYTES: usize = 32;

/// A time from which a snapshot was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Serving {
    /// Unix milliseconds.
    pub from_ms: i64,
    /// The site's version.
    pub version: u64,
    /// The snapshot's hash.
    pub hash: [u8; 32],
}

/// The last served versions of a site, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Versions {
    listed: Vec<Arc<PublishedVersion>>,
    /// In ascending order of their times. A version that was served twice is in it twice.
    servings: Vec<Serving>,
}

impl Versions {
    /// Creates a list of these versions, oldest first. Drops the oldest ones over the limit.
    pub fn new(mut versions: Vec<Arc<PublishedVersion>>) -> Self {
        let surplus = versions.len().saturating_sub(VERSIONS_KEPT_MAX);
        versions.drain(..surplus);
        Self { listed: versions, servings: Vec::new() }
    }

    /// Adds the times from which versions were served, oldest first. Drops the oldest ones over the limit.
    #[must_use]
    pub fn with_servings(self, mut servings: Vec<Serving>) -> Self {
        let surplus = servings.len().saturating_sub(SERVINGS_KEPT_MAX);
        servings.drain(..surplus);
        Self { servings, ..self }
    }

    /// Notes that `snapshot` is served from now on. Returns false if it already was.
    pub fn begin_serving(&mut self, snapshot: &Snapshot, now_ms: i64) -> bool {
        let last = self.servings.last();
        if last.is_some_and(|last| last.hash == snapshot.hash()) {
            return false;
        }
        // A clock that was set back does not change the order.
        let from_ms = last.map_or(now_ms, |last| now_ms.max(last.from_ms));
        self.servings.push(Serving { from_ms, version: snapshot.version(), hash: snapshot.hash() });
        let surplus = self.servings.len().saturating_sub(SERVINGS_KEPT_MAX);
        self.servings.drain(..surplus);
        true
    }

    /// Returns the times from which versions were served, oldest first.
    pub fn servings(&self) -> &[Serving] {
        &self.servings
    }

    /// Returns the snapshot that was served at a time. `None` if that is not known.
    pub fn served_at(&self, at_ms: i64) -> Option<&Serving> {
        self.servings.iter().rev().find(|serving| serving.from_ms <= at_ms)
    }

    /// Returns these versions with `snapshot` as the newest one.
    pub fn with_snapshot(&self, snapshot: &Snapshot) -> Self {
        let same = |listed: &&Arc<PublishedVersion>| listed.hash == snapshot.hash();
        let listed = match self.listed.iter().find(same) {
            Some(known) => Arc::clone(known),
            None => Arc::new(list_content(snapshot, self.listed.last())),
        };
        let others = self.listed.iter().filter(|other| other.hash != listed.hash);
        let mut kept: Vec<_> = others.cloned().collect();
        kept.push(listed);
        Self::new(kept).with_servings(self.servings.clone())
    }

    /// Returns whether the snapshot is the newest version.
    pub fn ends_with(&self, snapshot: &Snapshot) -> bool {
        self.listed.last().is_some_and(|newest| newest.hash == snapshot.hash())
    }

    /// Returns the versions, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &PublishedVersion> {
        self.listed.iter().map(|version| &**version)
    }

    /// Returns the version that was served before the newest one, if it is kept.
    pub fn version_before_newest(&self) -> Option<u64> {
        self.listed.iter().rev().nth(1).map(|listed| listed.version)
    }

    /// Returns the memory of all versions in bytes. A text that versions share counts for each of them.
    pub fn memory_bytes(&self) -> usize {
        self.iter().map(PublishedVersion::memory_bytes).sum()
    }

    /// Drops the oldest version, as if it had never been served. Returns its memory in bytes.
    pub fn forget_oldest(&mut self) -> usize {
        if self.listed.is_empty() { 0 } else { self.listed.remove(0).memory_bytes() }
    }

    /// Returns the paths and queries of `version`. `None` if it is not kept, or if two snapshots with this version
    /// were served.
    pub fn get(&self, version: u64) -> Option<&PublishedVersion> {
        let mut of_version = self.iter().filter(|listed| listed.version == version);
        let listed = of_version.next()?;
        of_version.next().is_none().then_some(listed)
    }
}

fn list_content(snapshot: &Snapshot, previous_version: Option<&Arc<PublishedVersion>>) -> PublishedVersion {
    let site = snapshot.site();
    let known = previous_version.map_or((&[][..], &[][..]), |listed| (&listed.paths, &listed.queries));
    let paths = site.routes.iter().map(|route| entry(known.0, &route.path, route.content));
    let queries = site.queries.iter().map(|query| entry(known.1, &query.key, query.content));
    PublishedVersion {
        version: snapshot.version(),
        hash: snapshot.hash(),
        paths: paths.collect(),
        queries: queries.collect(),
    }
}

/// Creates an entry. Takes the text of its key from `entries`, if it is there.
fn entry(entries: &[ContentEntry], key: &str, content_id: [u8; 16]) -> ContentEntry {
    let key = match entries.binary_search_by(|entry| (*entry.key).cmp(key)) {
        Ok(at) => Arc::clone(&entries[at].key),
        Err(_) => Arc::from(key),
    };
    ContentEntry { key, content: content_id }
}
