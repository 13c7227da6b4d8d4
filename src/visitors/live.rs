//! The table of visitors as the log writer uses it: applies records in their order, schedules checkpoints and
//! publishes metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::apply::{KeyHasher, ProfileUpdater};
use super::checkpoint::scheduler::CheckpointScheduler;
use super::lookup::ProfileReader;
use super::profile::FoldCounts;
use super::profile::profile::Profile;
use super::store::table::{Table, TableReaders};
use crate::clock::Clock;
use crate::visitors::log::bloom::IdKind;
use crate::visitors::log::{Record, RecordKind, Records, TombstoneKey};

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
    /// Returns the number of entries in the table: visitors, and aliases of users.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Returns the cost of all entries, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of visitors evicted because of the memory limit.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Returns the number of trait writes ignored because a value or name is too large, or a number does
    /// not fit a float.
    pub fn traits_too_large(&self) -> u64 {
        self.traits_too_large.load(Ordering::Relaxed)
    }

    /// Returns the number of profile operations ignored because the trait has a value of another type.
    pub fn type_mismatches(&self) -> u64 {
        self.type_mismatches.load(Ordering::Relaxed)
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
    /// The key of the digests in tombstones. It is only needed for tombstones that are replayed from the
    /// log.
    tombstone_key: Option<TombstoneKey>,
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
        Self::from_table(Table::new(), secret, cost_max)
    }

    /// Starts from a restored table whose keys were hashed with `secret`. Evicts visitors until it fits
    /// `cost_max`.
    pub fn from_table(mut table: Table, secret: [u8; 16], cost_max: u64) -> (Self, ProfileReaders) {
        let figures = Arc::<ProfileMetrics>::default();
        let (applier, mut counted) = (ProfileUpdater::new(secret), FoldCounts::default());
        applier.evict(&mut table, cost_max, &mut counted);
        let live = Self {
            table,
            updater: applier,
            cost_max,
            counts: counted,
            metrics: figures,
            checkpoints: None,
            tombstone_key: None,
            erased_seq: 0,
        };
        let looks = live.readers();
        live.publish_metrics();
        (live, looks)
    }

    /// Writes checkpoints of the table from now on.
    #[must_use]
    pub fn with_checkpoints(self, making: CheckpointScheduler) -> Self {
        Self { checkpoints: Some(making), ..self }
    }

    /// Sets the key of the digests in tombstones, for a log that is replayed. `None` if the log has no
    /// key.
    #[must_use]
    pub fn with_tombstone_key(self, names: Option<TombstoneKey>) -> Self {
        Self { tombstone_key: names, ..self }
    }

    /// Returns the factory of readers.
    pub fn readers(&self) -> ProfileReaders {
        let keys = self.updater.hasher().clone();
        ProfileReaders { readers: self.table.readers(), hasher: keys, metrics: Arc::clone(&self.metrics) }
    }

    /// Applies the next records of the log.
    pub fn fold(&mut self, records: Records<'_>) {
        for (seq, record) in records.iter() {
            if record.kind == RecordKind::Tombstone && seq > self.erased_seq {
                self.erase_named(&record, seq);
            }
            self.updater.apply(&mut self.table, &record, self.cost_max, &mut self.counts);
        }
        if let Some(making) = &mut self.checkpoints {
            making.on_folded(records.count as usize, records.byte_len());
        }
        self.publish_metrics();
    }

    /// Removes all visitors with one of these IDs, and their aliases. `seq` is the seq of the tombstone.
    pub fn erase<'i>(&mut self, site: &str, ids: impl Iterator<Item = (IdKind, &'i str)>, seq: u64) {
        for (id_kind, id) in ids {
            self.updater.erase(&mut self.table, site, id_kind, id);
        }
        self.mark_erased(seq);
    }

    /// Removes the visitor of a tombstone. A tombstone contains only digests of IDs, so this compares
    /// every visitor of the table.
    fn erase_named(&mut self, tombstone: &Record<'_>, seq: u64) {
        let Some(names) = &self.tombstone_key else { return };
        let mut named = Vec::new();
        self.table.begin_copy();
        while !self.table.copy_chunk(usize::MAX, &mut |key, value, _, _| {
            let Some(profile) = Profile::decode(value) else { return };
            let is_named = |id_kind, id: &str| names.is_tombstone_of(tombstone, profile.site(), id_kind, id);
            let is_user = profile.user_id().is_some_and(|id| is_named(IdKind::User, id));
            if is_user || profile.anon_ids().any(|id| is_named(IdKind::Anon, id)) {
                named.push(key);
            }
        }) {}
        named.into_iter().for_each(|key| self.updater.remove(&mut self.table, key));
        self.mark_erased(seq);
    }

    fn mark_erased(&mut self, seq: u64) {
        self.erased_seq = seq;
        self.checkpoints.iter_mut().for_each(|making| making.on_erased(seq));
        self.publish_metrics();
    }

    /// Continues or begins a checkpoint: see [`CheckpointScheduler::on_idle`].
    pub fn on_idle(&mut self, clock: &dyn Clock, durable: Option<u64>) -> Option<Duration> {
        self.checkpoints.as_mut()?.on_idle(&mut self.table, clock, durable)
    }

    /// Writes a last checkpoint: see [`CheckpointScheduler::close`].
    pub fn close(&mut self, clock: &dyn Clock, durable: Option<u64>) {
        if let Some(making) = &mut self.checkpoints {
            making.close(&mut self.table, clock, durable);
        }
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
        let ProfileMetrics {
            entries,
            bytes,
            evicted,
            traits_too_large,
            type_mismatches: operations_of_another_type,
        } = &*self.metrics;
        entries.store(self.table.len() as u64, Ordering::Relaxed);
        bytes.store(self.table.cost(), Ordering::Relaxed);
        evicted.store(self.counts.visitors_evicted, Ordering::Relaxed);
        traits_too_large.store(self.counts.traits_too_large, Ordering::Relaxed);
        operations_of_another_type.store(self.counts.type_mismatches, Ordering::Relaxed);
    }
}
