//! `GET /insights/audiences`: the sizes of a site's audiences now, over the table of profiles.
//!
//! The thread `insights` visits the table in slices and answers other questions between them. Device and country are those
//! of the visitor's last context. A condition may read more of the request, such as the URL. So two numbers are given: the
//! profiles for which it holds with every request, and those for which it can hold.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::representation::Representation;
use crate::clock;
use crate::condition::OpenResult;
use crate::events::time;
use crate::insights::engine::{Output, TaskResult};
use crate::insights::{Cell, write_csv};
use crate::resolve::audience_results::audience_results;
use crate::site::snapshot::open::Snapshot;
use crate::url::PageUrl;
use crate::visitors::lookup::ProfileReader;
use crate::visitors::profile::profile::Profile;

pub(super) const PATH: &str = "/insights/audiences";

/// Time for which sizes are kept, so that a page that polls costs little.
const SIZES_KEPT: Duration = Duration::from_secs(60);

const HEADER: [&str; 3] = ["name", "atLeast", "atMost"];

/// The sizes of a site's audiences.
#[derive(Debug)]
struct Sizes {
    /// The hash of the snapshot with the conditions.
    hash: [u8; 32],
    /// When the count began, and the same moment as a time in milliseconds.
    began: Instant,
    at_ms: i64,
    profiles: u64,
    /// For each audience the profiles for which it holds with every request, and those for which it can hold.
    counts: Vec<(u64, u64)>,
}

/// The last sizes of each site. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct SizeCache(Arc<Mutex<HashMap<String, Arc<Sizes>>>>);

impl SizeCache {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Sizes>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, site: &str, snapshot_hash: [u8; 32], now: Instant) -> Option<Arc<Sizes>> {
        let sizes = self.lock().get(site).cloned()?;
        (sizes.hash == snapshot_hash && now - sizes.began < SIZES_KEPT).then_some(sizes)
    }

    fn put(&self, site: &str, sizes: &Arc<Sizes>) {
        let mut kept = self.lock();
        kept.retain(|_, other| sizes.began - other.began < SIZES_KEPT);
        kept.insert(site.to_owned(), Arc::clone(sizes));
    }
}

/// The count of a site's audiences.
pub(super) struct AudienceCount {
    snapshot: Arc<Snapshot>,
    profiles: ProfileReader,
    cache: SizeCache,
    representation: Representation,
    next_shard: usize,
    sizes: Sizes,
    url: PageUrl,
}

impl AudienceCount {
    /// Creates the count of a published site.
    pub(super) fn new(
        snapshot: Arc<Snapshot>,
        profiles: ProfileReader,
        cache: SizeCache,
        representation: Representation,
    ) -> Self {
        let counts = vec![(0, 0); snapshot.site().audiences.len()];
        let sizes = Sizes {
            hash: snapshot.hash(),
            began: clock::instant(),
            at_ms: clock::now_ms(),
            profiles: 0,
            counts,
        };
        let url = PageUrl::new();
        Self { snapshot, profiles, cache, representation, next_shard: 0, sizes, url }
    }

    /// Counts the profiles of the next shards. Returns the text after the last ones, or if the sizes are known.
    pub(super) fn step(&mut self) -> Option<TaskResult> {
        let site = &self.snapshot.site().site;
        if self.next_shard == 0
            && let Some(sizes) = self.cache.get(site, self.sizes.hash, clock::instant())
        {
            return Some(Ok(Output::ValidatedText(self.write(&sizes))));
        }
        if !self.count_slice() {
            return None;
        }
        let Sizes { hash, began, at_ms, profiles, .. } = self.sizes;
        let counts = std::mem::take(&mut self.sizes.counts);
        let sizes = Arc::new(Sizes { hash, began, at_ms, profiles, counts });
        self.cache.put(&self.snapshot.site().site, &sizes);
        Some(Ok(Output::ValidatedText(self.write(&sizes))))
    }

    fn write(&self, sizes: &Sizes) -> String {
        let audiences = self.snapshot.site().audiences.iter().zip(&sizes.counts);
        match self.representation {
            Representation::Csv => {
                let line = |(key, (at_least, at_most)): (&str, &(u64, u64))| {
                    vec![
                        Cell::Text(Some(key.to_owned())),
                        Cell::Number(*at_least as i64),
                        Cell::Number(*at_most as i64),
                    ]
                };
                let lines: Vec<_> =
                    audiences.map(|(audience, counts)| line((audience.key.as_str(), counts))).collect();
                write_csv(&HEADER, &lines)
            }
            Representation::Json => {
                let audiences = audiences.map(|(audience, (at_least, at_most))| {
                    let condition: Json = serde_json::from_str(&audience.condition.authored).unwrap_or_default();
                    json!({ "name": audience.key.as_str(), "condition": condition, "atLeast": at_least, "atMost": at_most })
                });
                let at = Some(time::to_text(sizes.at_ms));
                to_json(at, Some(sizes.profiles), audiences.collect())
            }
        }
    }

    /// Counts the profiles of the next shards. Returns true after the last one.
    fn count_slice(&mut self) -> bool {
        let Self { snapshot, profiles, next_shard, sizes, url, .. } = self;
        let next = profiles.read_slice(*next_shard, &mut |pinned, shard_index| {
            pinned.visit_shard(shard_index, &mut |profile| sizes.add(snapshot, profile, url))
        });
        *next_shard = next.unwrap_or(*next_shard);
        next.is_none()
    }
}

impl Sizes {
    fn add(&mut self, snapshot: &Snapshot, profile: &Profile<'_>, url: &PageUrl) {
        if profile.site() != snapshot.site().site.get() {
            return;
        }
        self.profiles += 1;
        let results = audience_results(snapshot, profile, url, self.at_ms);
        for (count, result) in self.counts.iter_mut().zip(results) {
            count.0 += u64::from(result == OpenResult::Yes);
            count.1 += u64::from(result != OpenResult::No);
        }
    }
}

/// Returns the answer of a site without a snapshot, which has no audiences.
pub(super) fn write_unpublished(representation: Representation) -> String {
    match representation {
        Representation::Csv => write_csv(&HEADER, &[]),
        Representation::Json => to_json(None, None, json!([])),
    }
}

fn to_json(at: Option<String>, profile_count: Option<u64>, audiences: Json) -> String {
    let members = [("at", json!(at)), ("profiles", json!(profile_count))];
    let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
    let members = members.chain([("audiences".to_owned(), audiences)]);
    Json::Object(members.collect()).to_string()
}
