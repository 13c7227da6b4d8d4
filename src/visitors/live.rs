//! The table of visitors as the log writer uses it: applies records in their order, schedules checkpoints and
//! publishes metrics.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::apply::{KeyHasher, ProfileUpdater};
#[cfg(feature = "cluster")]
use super::checkpoint::reader::{CheckpointError, CheckpointReader};
use super::checkpoint::scheduler::{CheckpointScheduler, Fold};
use super::lookup::ProfileReader;
use super::profile::FoldCounts;
use super::profile::profile::Profile;
#[cfg(feature = "cluster")]
use super::store::table::{EvictionClass, Key};
use super::store::table::{Table, TableReaders};
use crate::clock::Clock;
use crate::log::{Records, VisitorIds};
use crate::metrics::readings;
use crate::record::{IdKind, IdTag, Record, RecordKind, TombstoneKey, id_hash, tombstone_tags};
use crate::visitors::ties::TieEntry;
#[cfg(feature = "cluster")]
use crate::visitors::ties::known::OrderRules;
use crate::visitors::ties::known::{FoldState, KnownTies};

/// Metrics of the table: its size, evictions, and the values that profiles left out. Shared between
/// threads.
#[derive(Debug, Default)]
pub struct ProfileMetrics {
    entries: AtomicU64,
    bytes: AtomicU64,
    evicted: AtomicU64,
    traits_too_large: AtomicU64,
    type_mismatches: AtomicU64,
}

impl ProfileMetrics {
    readings! {
        /// Returns the number of entries in the table: visitors, and aliases of users.
        entries,
        /// Returns the cost of all entries, in bytes.
        bytes,
        /// Returns the number of visitors evicted because of the memory limit.
        evicted,
        /// Returns the number of trait writes ignored because a value or name is too large, or a number does
        /// not fit a float.
        traits_too_large,
        /// Returns the number of profile operations ignored because the trait has a value of another type.
        type_mismatches,
    }
}

/// The table of visitors with its single writer, owned by the log writer's thread.
pub struct ProfileTable {
    table: Table,
    updater: ProfileUpdater,
    cost_max: u64,
    counts: FoldCounts,
    metrics: Arc<ProfileMetrics>,
    checkpoints: Option<CheckpointScheduler>,
    /// The key of the digests in tombstones and in the entries of ownership. Without it no entry is made.
    tombstone_key: Option<TombstoneKey>,
    /// The key of the entries that a founding cluster makes of a log whose tombstones have another key.
    tie_key: Option<TombstoneKey>,
    known: KnownTies,
    /// The site of the last record.
    last_site: String,
    /// Visitors that were evicted before the checkpoint from which the table was restored.
    evicted_before: u64,
    /// The seq of the last tombstone whose visitor has been removed from the table.
    erased_seq: u64,
}

/// A factory of readers for the threads that answer requests.
#[derive(Clone)]
pub struct ProfileReaders {
    readers: TableReaders,
    hasher: KeyHasher,
    metrics: Arc<ProfileMetrics>,
}

impl ProfileReaders {
    /// Creates a reader for one thread.
    pub fn reader(&self) -> ProfileReader {
        ProfileReader::new(self.readers.reader(), self.hasher.clone())
    }

    /// Returns the metrics of the table.
    pub fn metrics(&self) -> &ProfileMetrics {
        &self.metrics
    }
}

impl ProfileTable {
    /// Creates an empty table whose keys are hashed with `secret`. Visitors are evicted while the table
    /// costs more than `cost_max`.
    pub fn new(secret: [u8; 16], cost_max: u64) -> (Self, ProfileReaders) {
        Self::from_table(Table::new(), FoldState::default(), secret, cost_max)
    }

    /// Starts from a restored table whose keys were hashed with `secret`. Evicts visitors until it fits
    /// `cost_max`.
    pub fn from_table(
        mut table: Table,
        state: FoldState,
        secret: [u8; 16],
        cost_max: u64,
    ) -> (Self, ProfileReaders) {
        let FoldState { lost, known, visitors_evicted } = state;
        let metrics = Arc::<ProfileMetrics>::default();
        let mut updater = ProfileUpdater::new(secret).with_lost_aliases(lost);
        let mut counts = FoldCounts::default();
        updater.evict(&mut table, cost_max, &mut counts);
        let live = Self {
            table,
            updater,
            cost_max,
            counts,
            metrics,
            checkpoints: None,
            tombstone_key: None,
            tie_key: None,
            known,
            last_site: String::new(),
            evicted_before: visitors_evicted,
            erased_seq: 0,
        };
        let readers = live.readers();
        live.publish_metrics();
        (live, readers)
    }

    /// Writes checkpoints of the table from now on.
    #[must_use]
    pub fn with_checkpoints(self, scheduler: CheckpointScheduler) -> Self {
        Self { checkpoints: Some(scheduler), ..self }
    }

    /// Sets the key of the digests in tombstones and entries of ownership. `None` if the log has no key.
    #[must_use]
    pub fn with_tombstone_key(self, key: Option<TombstoneKey>) -> Self {
        key.iter().for_each(|key| self.known.set_key_check(key.check()));
        Self { tombstone_key: key, ..self }
    }

    /// Returns whether the fold makes entries of ownership.
    pub(crate) fn has_tombstone_key(&self) -> bool {
        self.tombstone_key.is_some()
    }

    /// Returns the factory of readers.
    pub fn readers(&self) -> ProfileReaders {
        let keys = self.updater.hasher().clone();
        ProfileReaders { readers: self.table.readers(), hasher: keys, metrics: Arc::clone(&self.metrics) }
    }

    /// Returns the parts of the fold beside the table.
    pub fn state(&self) -> FoldState {
        FoldState {
            lost: self.updater.lost_aliases().clone(),
            known: self.known.clone(),
            visitors_evicted: self.evicted_before + self.counts.visitors_evicted,
        }
    }

    /// Applies the next records of the log.
    pub fn fold(&mut self, records: Records<'_>) {
        for (seq, record) in records.iter() {
            if record.kind == RecordKind::Tombstone {
                if seq > self.erased_seq {
                    self.erase_named(records.from_seq(seq));
                }
                self.add_ends(&record, seq);
            }
            self.add_site(record.site);
            self.updater.apply(&mut self.table, &record, self.cost_max, &mut self.counts);
            self.add_tie(&record, seq);
        }
        self.on_folded(records.count as usize, records.byte_len());
    }

    /// Counts applied records and their bytes, and publishes the metrics.
    pub(crate) fn on_folded(&mut self, record_count: usize, bytes: usize) {
        if let Some(scheduler) = &mut self.checkpoints {
            scheduler.on_folded(record_count, bytes);
        }
        self.publish_metrics();
    }

    fn add_site(&mut self, site: Option<&str>) {
        if let Some(site) = site.filter(|site| *site != self.last_site) {
            self.known.add_site(site);
            self.last_site.clear();
            self.last_site.push_str(site);
        }
    }

    /// Adds the entry of the link that a record made. Returns whether there was one.
    fn add_tie(&mut self, record: &Record<'_>, order: u64) -> bool {
        let (Some(link), Some(site), Some(key)) = (
            self.updater.take_new_link(),
            record.site,
            self.tie_key.as_ref().or(self.tombstone_key.as_ref()),
        ) else {
            return false;
        };
        self.known.push([TieEntry {
            anon: key.tag(site, IdKind::Anon, &link.anon_id),
            seq: order,
            user: Some(key.tag(site, IdKind::User, &link.user_id)),
            anon_hash: id_hash(site, IdKind::Anon, &link.anon_id),
            user_hash: id_hash(site, IdKind::User, &link.user_id),
        }]);
        true
    }

    /// Ends the IDs of a tombstone.
    fn add_ends(&mut self, tombstone: &Record<'_>, order: u64) {
        if self.tie_key.is_some() {
            return;
        }
        let end = |anon| TieEntry { anon, seq: order, user: None, anon_hash: 0, user_hash: 0 };
        self.known.push(tombstone_tags(tombstone).map(end));
    }

    /// Returns whether the visitor still has these IDs.
    pub fn is_current(&self, visitor_ids: &VisitorIds) -> bool {
        self.known.is_current(visitor_ids)
    }

    /// Removes the user and the anonymous visitors that a tombstone names, and the links of the anon IDs. `seq`
    /// is the seq of the last tombstone.
    pub fn erase(&mut self, visitor_ids: &VisitorIds, seq: u64) {
        for (id_kind, id) in &visitor_ids.known_ids {
            self.updater.erase(&mut self.table, &visitor_ids.site, *id_kind, id);
        }
        if let Some(key) = self.tombstone_key.clone().filter(|key| self.may_have_others(visitor_ids, key)) {
            let hashes: HashSet<u64> = visitor_ids.hashes.iter().copied().collect();
            let named: HashSet<IdTag> = visitor_ids.named.iter().copied().collect();
            self.erase_tagged(&visitor_ids.site, &hashes, &named, &key);
        }
        self.mark_erased(seq);
    }

    /// Removes the visitors of a site whose IDs have one of the hashes and one of the digests. The hash rules
    /// out nearly all other visitors, so few digests are computed.
    fn erase_tagged(
        &mut self,
        site: &str,
        hashes: &HashSet<u64>,
        named_tags: &HashSet<IdTag>,
        key: &TombstoneKey,
    ) {
        self.erase_where(&|of_site, id_kind, id| {
            of_site == site
                && hashes.contains(&id_hash(site, id_kind, id))
                && named_tags.contains(&key.tag(site, id_kind, id))
        });
    }

    /// Returns whether the table may have a named ID that is not among the known ones. The removal of a user
    /// removes all aliases of that user, so only an ID that lost its alias can remain.
    fn may_have_others(&self, visitor_ids: &VisitorIds, key: &TombstoneKey) -> bool {
        let VisitorIds { site, known_ids, owner, .. } = visitor_ids;
        let removes_owner = known_ids.iter().any(|(kind, id)| key.tag(site, *kind, id) == *owner);
        visitor_ids.named.len() > known_ids.len()
            && !(removes_owner && self.updater.lost_aliases().is_empty())
    }

    /// Removes the visitors of the tombstones at the beginning of `records`, and the links of their IDs. A
    /// tombstone contains only digests of IDs, so this compares every visitor of the table, once for all of them.
    fn erase_named(&mut self, records: Records<'_>) {
        let Some(key) = self.tombstone_key.clone() else { return };
        let mut named = HashMap::<String, HashSet<IdTag>>::new();
        let mut last_seq = self.erased_seq;
        for (seq, record) in records.iter().take_while(|(_, record)| record.kind == RecordKind::Tombstone) {
            let site = record.site.unwrap_or_default().to_owned();
            named.entry(site).or_default().extend(tombstone_tags(&record));
            last_seq = seq;
        }
        self.erase_where(&|site, id_kind, id| {
            named.get(site).is_some_and(|tags| tags.contains(&key.tag(site, id_kind, id)))
        });
        self.mark_erased(last_seq);
    }

    fn erase_where(&mut self, is_named: &dyn Fn(&str, IdKind, &str) -> bool) {
        let mut named = Vec::new();
        // A copy would end the one of a checkpoint.
        self.table.visit(&mut |_, value, _, _| {
            let Some(profile) = Profile::decode(value) else { return };
            let users = profile.user_id().into_iter().map(|id| (IdKind::User, id));
            let ids = users.chain(profile.anon_ids().map(|id| (IdKind::Anon, id)));
            let named_ids = ids.filter(|(id_kind, id)| is_named(profile.site(), *id_kind, id));
            named.extend(named_ids.map(|(kind, id)| (profile.site().to_owned(), kind, id.to_owned())));
        });
        for (site, kind, id) in named {
            self.updater.erase(&mut self.table, &site, kind, &id);
        }
    }

    fn mark_erased(&mut self, seq: u64) {
        self.erased_seq = seq;
        self.publish_metrics();
    }

    /// Continues or begins a checkpoint: see [`CheckpointScheduler::on_idle`].
    pub fn on_idle(&mut self, clock: &dyn Clock, durable_seq: Option<u64>) -> Option<Duration> {
        self.on_idle_with(clock, durable_seq, &mut Vec::new)
    }

    /// Continues or begins a checkpoint of a table that a stream determines. `position` is that of the
    /// stream, and `encode_stream` encodes the rest of the state at this position.
    pub(crate) fn on_idle_with(
        &mut self,
        clock: &dyn Clock,
        position: Option<u64>,
        encode_stream: &mut dyn FnMut() -> Vec<u8>,
    ) -> Option<Duration> {
        let (mut fold, checkpoints) = self.checkpoint_parts(encode_stream);
        checkpoints?.on_idle(&mut fold, clock, position)
    }

    /// Writes a last checkpoint: see [`CheckpointScheduler::close`].
    pub fn close(&mut self, clock: &dyn Clock, durable_seq: Option<u64>) {
        self.close_with(clock, durable_seq, &mut Vec::new);
    }

    /// Writes a last checkpoint of a table that a stream determines: see [`on_idle_with`](Self::on_idle_with).
    pub fn close_with(
        &mut self,
        clock: &dyn Clock,
        position: Option<u64>,
        encode_stream: &mut dyn FnMut() -> Vec<u8>,
    ) {
        let (mut fold, checkpoints) = self.checkpoint_parts(encode_stream);
        if let Some(scheduler) = checkpoints {
            scheduler.close(&mut fold, clock, position);
        }
    }

    fn checkpoint_parts<'a>(
        &'a mut self,
        encode_stream: &'a mut dyn FnMut() -> Vec<u8>,
    ) -> (Fold<'a>, Option<&'a mut CheckpointScheduler>) {
        let Self { table, updater, known, evicted_before, counts, checkpoints, .. } = self;
        let evicted = *evicted_before + counts.visitors_evicted;
        (
            Fold { table, lost: updater.lost_aliases(), known, evicted, stream: encode_stream },
            checkpoints.as_mut(),
        )
    }

    /// Returns the last seq that all checkpoints contain. A restart does not need the records up to it.
    /// Without checkpoints it returns `u64::MAX`.
    pub fn checkpointed_seq(&self) -> u64 {
        self.checkpoints.as_ref().map_or(u64::MAX, CheckpointScheduler::checkpointed_seq)
    }

    /// Notes that retention waits for a checkpoint.
    pub fn on_retention_blocked(&mut self) {
        self.checkpoints.iter_mut().for_each(CheckpointScheduler::on_retention_blocked);
    }

    /// Returns the table itself.
    pub fn into_table(self) -> Table {
        self.table
    }

    fn publish_metrics(&self) {
        let ProfileMetrics { entries, bytes, evicted, traits_too_large, type_mismatches } = &*self.metrics;
        entries.store(self.table.len() as u64, Ordering::Relaxed);
        bytes.store(self.table.cost(), Ordering::Relaxed);
        evicted.store(self.counts.visitors_evicted, Ordering::Relaxed);
        traits_too_large.store(self.counts.traits_too_large, Ordering::Relaxed);
        type_mismatches.store(self.counts.type_mismatches, Ordering::Relaxed);
    }
}

/// The operations of a node of a cluster, in which a stream determines the table.
#[cfg(feature = "cluster")]
impl ProfileTable {
    /// Makes the entries of ownership with another key than that of the tombstones. Tombstones then end no
    /// ID: their digests mean nothing under this key, and the records before them are void.
    #[must_use]
    pub(crate) fn with_tie_key(self, key: TombstoneKey) -> Self {
        self.known.reset(0, []);
        self.known.replace_key_check(key.check());
        Self { tie_key: Some(key), ..self }
    }

    /// Applies one record that a stream has returned with this order. Returns whether it made an entry of
    /// ownership. Call [`on_folded`](Self::on_folded) after some of them.
    pub(crate) fn apply(&mut self, record: &Record<'_>, order: u64) -> bool {
        self.add_site(record.site);
        self.updater.apply(&mut self.table, record, self.cost_max, &mut self.counts);
        self.add_tie(record, order)
    }

    /// Applies a tombstone that a stream has returned with this order: removes the visitors with these keys,
    /// and ends the named IDs. If there are fewer keys than named IDs, the visitors whose IDs have one of the
    /// hashes and a named digest go too.
    pub(crate) fn apply_tombstone(
        &mut self,
        tombstone: &Record<'_>,
        order: u64,
        keys: &[Key],
        hashes: &HashSet<u64>,
    ) {
        let Some(site) = tombstone.site else { return };
        for key in keys {
            self.updater.erase_key(&mut self.table, site, *key);
        }
        let named: HashSet<IdTag> = tombstone_tags(tombstone).collect();
        if let Some(key) = self.tombstone_key.clone().filter(|_| keys.len() < named.len()) {
            self.erase_tagged(site, hashes, &named, &key);
        }
        self.add_ends(tombstone, order);
        self.updater.evict(&mut self.table, self.cost_max, &mut self.counts);
    }

    /// Returns the key of an ID in the table.
    pub(crate) fn hasher(&self) -> KeyHasher {
        self.updater.hasher().clone()
    }

    /// Sets the rules by which a node of a cluster numbers and drops the entries of ownership.
    pub(crate) fn set_orders(&self, rules: OrderRules) {
        self.known.set_orders(rules);
    }

    /// Leaves the ties of an erased visitor out of the next checkpoint.
    pub(crate) fn forget_ties(&self, user_tag: IdTag, order: u64) {
        self.known.forget(user_tag, order);
    }

    /// Sets the limit of the table, which belongs to the era of a cluster.
    pub(crate) fn set_cost_max(&mut self, cost_max: u64) {
        self.cost_max = cost_max;
    }

    /// Keeps a digest of the table from now on, to compare it with those of other nodes.
    #[must_use]
    pub(crate) fn with_digest(mut self) -> Self {
        self.table.keep_digest(hash_entry);
        self
    }

    /// Returns the digest of the table.
    pub(crate) fn digest(&self) -> u128 {
        self.table.digest()
    }

    /// Removes all visitors.
    pub(crate) fn clear(&mut self) {
        let mut keys = Vec::with_capacity(self.table.len());
        self.table.visit(&mut |key, _, _, _| keys.push(key));
        keys.into_iter().for_each(|key| self.table.remove(key));
        let secret = self.updater.hasher().secret();
        self.updater = ProfileUpdater::new(secret);
        self.known.reset(0, []);
        self.publish_metrics();
    }

    /// Replaces all visitors by those of a checkpoint of this directory, with the limit `cost_max`. Readers
    /// see the table fill.
    ///
    /// # Errors
    /// A check fails, or the file cannot be read. The table has a part of the visitors then.
    pub(crate) fn reload(
        &mut self,
        checkpoint: CheckpointReader,
        cost_max: u64,
    ) -> Result<(), CheckpointError> {
        self.clear();
        let secret = self.updater.hasher().secret();
        let seq = checkpoint.header().seq;
        let lost = checkpoint.lost_aliases()?;
        let sites = checkpoint.sites()?;
        let mut entries = checkpoint.entries()?;
        while let Some(kept) = entries.read_next()? {
            self.table.put(kept.key, kept.value, kept.class);
        }
        self.updater = ProfileUpdater::new(secret).with_lost_aliases(lost);
        self.known.reset(seq, []);
        sites.iter().for_each(|site| self.known.add_site(site));
        self.cost_max = cost_max;
        self.publish_metrics();
        Ok(())
    }
}

/// Hashes an entry of the table for its digest.
#[cfg(feature = "cluster")]
fn hash_entry(Key([low, high]): Key, value: &[u8], class: EvictionClass) -> u128 {
    crate::checksum::hash128_parts([&low.to_le_bytes(), &high.to_le_bytes(), &[class as u8], value])
}
