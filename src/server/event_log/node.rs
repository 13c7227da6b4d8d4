//! The event log of a node of a cluster. Its own records are in the outbox. When the stream returns them, they enter the log of
//! the cluster and the profiles, in the order of the stream.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::acknowledgement::Ack;
use crate::cluster::erase_request::ClusterEraser;
use crate::cluster::erasing::NodeErasers;
use crate::cluster::node::Node;
use crate::cluster::positions::PositionsFile;
use crate::cluster::restore::NodeRestoreError;
use crate::cluster::shared_log::SharedLog;
use crate::cluster::start::{Directories, OwnLogEnd, StartedNode, StartingNode, UnboundSession};
use crate::log::{DurableBatch, NeededRecords, StreamLog};
use crate::metrics::cluster::ClusterMetrics;
use crate::nats::thread::RenewalRequests;
use crate::record::TombstoneKey;
use crate::server::puller::MakeTask;
use crate::visitors::backup::OUTBOX_DIRECTORY;
use crate::visitors::ownership::ClusterOwnership;
use crate::visitors::ties::known::OrderRules;

/// Longest time between two checkpoints of a node with new messages. The stream drops messages after 72
/// hours, and a node whose newest checkpoint is older than the first message cannot continue. So a crash must
/// not find it that old, however few events there are.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(3_600);

/// Time between a batch of the log of the cluster and its sync. The stream gives unsynced batches again.
const SHARED_SYNC_AFTER: Duration = Duration::from_secs(1);
/// Time for which the outbox keeps a record after its return, in ms: a stream that has lost its end gets it again.
const OUTBOX_KEPT_MS: i64 = 24 * 60 * 60 * 1_000;

/// The parts that only a node of a cluster has.
pub(crate) struct NodeHandle {
    pub(crate) metrics: Arc<ClusterMetrics>,
    session: Option<UnboundSession>,
    pub(super) erasure: Arc<dyn ClusterErasure>,
}

/// A log consumer that passes the records to a node, which folds the messages of the stream into profiles.
struct NodeObserver {
    sync_latency: LatencyHistogram,
    profiles: ProfileTable,
    node: Node,
    clock: Arc<SystemClock>,
    checkpoint_metrics: Arc<CheckpointMetrics>,
    /// The number of checkpoints that the node knows.
    checkpoints: u64,
    deletable_seq: u64,
    /// `None` when recovery is done.
    progress: Option<RecoveryProgress>,
}

impl LogConsumer for NodeObserver {
    fn consume(&mut self, records: Records<'_>) {
        if let Some(progress) = &self.progress {
            progress.record(&records);
        }
        self.node.push(records, &*self.clock);
    }

    fn is_current(&self, visitor_ids: &VisitorIds) -> bool {
        self.profiles.is_current(visitor_ids)
    }

    fn hold(&mut self, batch: DurableBatch, clock: &dyn Clock) {
        self.node.hold(batch, clock);
    }

    fn on_sync(&mut self, latency: Duration) {
        self.sync_latency.record(latency);
    }

    fn on_recovery_progress(&mut self, done_count: usize, segment_count: usize) {
        if done_count == segment_count {
            self.progress = None;
            self.node.on_recovered(&*self.clock);
        }
    }

    fn on_idle(&mut self, clock: &dyn Clock, durable_seq: Option<u64>) -> Option<Duration> {
        let Self { node, profiles, checkpoint_metrics, checkpoints, .. } = self;
        let stream = node.on_idle(profiles, clock);
        let position = durable_seq.filter(|_| node.is_consistent()).map(|_| node.position());
        let position = position.filter(|position| *position > 0);
        let checkpoint = profiles.on_idle_with(clock, position, &mut || node.encode_state(clock));
        if checkpoint_metrics.written() != *checkpoints {
            *checkpoints = checkpoint_metrics.written();
            node.on_checkpoint(checkpoint_metrics.seq());
        }
        self.deletable_seq = node.deletable_seq();
        [stream, checkpoint].into_iter().flatten().min()
    }

    fn on_closed(&mut self, clock: &dyn Clock, durable_seq: Option<u64>) {
        let Self { node, profiles, .. } = self;
        node.close(clock.now_ms());
        let position = durable_seq.filter(|_| node.is_consistent()).map(|_| node.position());
        let position = position.filter(|position| *position > 0);
        profiles.close_with(clock, position, &mut || node.encode_state(clock));
    }

    fn checkpointed_seq(&self) -> u64 {
        self.deletable_seq
    }

    fn on_retention_blocked(&mut self) {
        self.profiles.on_retention_blocked();
    }
}

/// Opens the log of a node, and restores its profiles. The stream is read after the start.
pub(super) fn start(
    config: &Config,
    plan: &MemoryPlan,
    servers: &str,
    progress: &StartupProgress,
) -> Result<EventLog, BootError> {
    let directory = &config.data;
    let profiles_bytes = plan.params().profiles_bytes;
    let data_error = |cause| BootError::of_data(directory, cause);
    let disk = Arc::new(RealDisk) as Arc<dyn Disk>;
    let clock = Arc::new(SystemClock::new());
    // 1. Lock the data directory and find the ends of the log.
    let (log, range, insights) = lock_and_prepare(config, plan, &disk, &*clock).map_err(data_error)?;
    progress.set_log(0, range.last);
    let outbox = directory.join(OUTBOX_DIRECTORY);
    let outbox_error = |cause| BootError::of_data(&outbox, cause);
    // 2. Restore the profiles from a checkpoint.
    let checkpoints = CheckpointDirectory::new(Arc::clone(&disk), directory);
    let mut starting = restore(config, servers, &checkpoints, &range, progress)?;
    let log_id = starting.restored.log_id;
    let durable_seq = starting.restored.durable_seq;
    let checkpoint_state = std::mem::take(&mut starting.restored.checkpoint_state);
    let cost_max = starting.restored.saved.as_ref().map_or(profiles_bytes, |saved| saved.era.cost_max);
    let entries = starting.restored.table.len();
    let keys = starting.keys.clone();
    let (table, profiles) = take_profiles(&mut starting, cost_max);
    let known = table.state().known;
    let hasher = table.hasher();
    let options = scheduler::Options {
        interval: Some(CHECKPOINT_INTERVAL),
        ..scheduler::Options::new(keys.table_check, cost_max, log_id)
    };
    let checkpoints = prepare_checkpoints(config, checkpoints, checkpoint_state, options);
    // 3. Open the log of the cluster. The stream gives its end again.
    // A cluster that was founded from a server keeps the key of that server's tombstones.
    let stored_key = TombstoneKey::read(Arc::clone(&disk), directory).map_err(data_error)?;
    let tombstone_key = stored_key.unwrap_or_else(|| keys.tombstone.clone());
    let needed = Arc::<AtomicU64>::default();
    let options = shared_log_options(log_options(config, plan), durable_seq, log_id, &tombstone_key);
    let consumer = Box::new(NeededRecords(Arc::clone(&needed)));
    let shared_clock = Arc::clone(&clock) as Arc<dyn Clock>;
    let (shared_queue, shared_writer, shared_report) =
        log.open_when_writable(options, shared_clock, consumer).map_err(data_error)?;
    log_recovery(config, &shared_report, log_id, shared_queue.metrics().is_available());
    refuse_unfinished_erasure(config, &shared_report)?;
    let positions = PositionsFile::open(directory);
    let orders = positions.orders();
    let shared =
        SharedLog::new(StreamLog::new(shared_writer), positions, directory, Arc::clone(&disk), needed);
    let end = shared.end();
    // 4. Read the own records that the stream has not returned.
    let own_log = lock_with_retries(&outbox, &disk, &*clock).map_err(outbox_error)?;
    data_directory::restrict_access(&outbox);
    let own_range = own_log.seq_range().map_err(outbox_error)?;
    let own_end =
        OwnLogEnd { log_id: own_range.log_id.unwrap_or_else(LogId::random), last_seq: own_range.last };
    let directories = Directories { data: directory, outbox: &outbox };
    let started =
        starting.start(&config.cluster, Arc::clone(&disk), directories, own_end, shared, profiles_bytes);
    let StartedNode { node, session, metrics, erasures, erased } = started.map_err(BootError::Thread)?;
    let sync_latency = LatencyHistogram::default();
    let options = node_log_options(log_options(config, plan), &node, own_end, tombstone_key.clone());
    let position = node.position();
    let returned = node.returned();
    let observer = NodeObserver {
        sync_latency: sync_latency.clone(),
        profiles: table.with_checkpoints(checkpoints.scheduler),
        node,
        clock: Arc::clone(&clock),
        checkpoint_metrics: Arc::clone(&checkpoints.metrics),
        checkpoints: 0,
        deletable_seq: 0,
        progress: Some(RecoveryProgress { progress: progress.clone(), last_seq: own_end.last_seq }),
    };
    let (queue, writer, report) =
        own_log.open_when_writable(options, clock, Box::new(observer)).map_err(outbox_error)?;
    log_findings(&outbox, &report);
    log_restored(position, returned, entries, report.records);
    // 5. Start the threads.
    checkpoints.writer.spawn().map_err(BootError::Thread)?;
    let writer = WriterThread::spawn(queue.clone(), writer).map_err(BootError::Thread)?;
    let cluster = Some(ClusterOwnership { key: keys.tombstone, order_of: orders.as_function() });
    let damage = shared_queue.metrics().damage().clone();
    let source = OwnershipSource { disk, directory: directory.clone(), known, cluster, damage };
    let checkpoint_metrics = Arc::clone(&checkpoints.metrics);
    let eraser = Eraser { log: shared_queue.clone(), source, checkpoints: checkpoint_metrics };
    let own_eraser = Eraser { log: queue.clone(), ..eraser.clone() };
    let erasers = NodeErasers { own: own_eraser.clone(), shared: eraser.clone() };
    erasures.spawn(erasers).map_err(BootError::Thread)?;
    resume_erasure(&eraser, &shared_report).map_err(BootError::Thread)?;
    let erasure = ClusterEraser {
        eraser: own_eraser,
        seal: keys.seal,
        hasher,
        progress: erased,
        metrics: Arc::clone(&metrics),
    };
    Ok(EventLog {
        queue,
        log: ReadableLog::shared(shared_queue, end),
        sync_latency,
        event_counters: EventCounters::default(),
        audit: AuditLog::off(),
        tombstone_key,
        profiles,
        eraser,
        checkpoint_metrics: checkpoints.metrics,
        checkpoint_stop_ms: checkpoints.stop_ms,
        writer,
        insights,
        scrub: ScrubParts::default(),
        node: Some(NodeHandle { metrics, session: Some(session), erasure: Arc::new(erasure) }),
    })
}

/// Takes the restored profiles, with a digest, and with entries of ownership under the key of the cluster.
fn take_profiles(starting_node: &mut StartingNode, profiles_bytes: u64) -> (ProfileTable, ProfileReaders) {
    let restored = &mut starting_node.restored;
    let keys = &starting_node.keys;
    let table = std::mem::take(&mut restored.table);
    let fold = std::mem::take(&mut restored.fold);
    let base_position = restored.saved.as_ref().map_or(0, |saved| saved.era.base_position);
    let (table, profiles) = ProfileTable::from_table(table, fold, keys.table, profiles_bytes);
    let table = table.with_tombstone_key(Some(keys.tombstone.clone())).with_digest();
    table.set_orders(OrderRules { base_position, floor: 0 });
    (table, profiles)
}

/// Restores the state and the profiles of a node from its newest checkpoint, or from the one of `--bootstrap`.
fn restore(
    config: &Config,
    servers: &str,
    checkpoints: &CheckpointDirectory,
    log_range: &SeqRange,
    progress: &StartupProgress,
) -> Result<StartingNode, BootError> {
    let mut on_progress = |done, total| progress.set_visitors(done, total);
    let cluster = &config.cluster;
    let data = &config.data;
    let starting = StartingNode::restore(cluster, servers, checkpoints, data, log_range, &mut on_progress);
    let starting = starting.map_err(|error| match error {
        NodeRestoreError::Setting(text) => BootError::Cluster(text),
        NodeRestoreError::Thread(cause) => BootError::Thread(cause),
    })?;
    for finding in &starting.restored.warnings {
        tracing::warn!(%finding, "problem while restoring visitor profiles");
    }
    Ok(starting)
}

/// Returns the settings of the log of the cluster, which is durable up to a seq. Its records are not folded at a start: the
/// stream gives them again.
fn shared_log_options(
    options: Options,
    durable_seq: u64,
    log_id: LogId,
    tombstone_key: &TombstoneKey,
) -> Options {
    Options {
        ack: Ack::Written,
        sync_after: SHARED_SYNC_AFTER,
        checkpointed_seq: durable_seq,
        dedup_ids_max: 1,
        log_id: Some(log_id),
        tombstone_key: Some(tombstone_key.clone()),
        ..options
    }
}

/// Returns the settings of the outbox. Recovery passes on the records that the stream has not returned.
fn node_log_options(
    options: Options,
    node: &Node,
    own_log: OwnLogEnd,
    tombstone_key: TombstoneKey,
) -> Options {
    Options {
        retain_ms: Some(OUTBOX_KEPT_MS),
        retain_bytes: None,
        checkpointed_seq: node.returned().min(own_log.last_seq),
        log_id: Some(own_log.log_id),
        tombstone_key: Some(tombstone_key),
        holds_acknowledgements: true,
        ..options
    }
}

fn log_restored(position: u64, returned_seq: u64, entry_count: usize, unreturned_count: u64) {
    tracing::info!(
        position,
        returned = returned_seq,
        entries = entry_count,
        unreturned = unreturned_count,
        "restored the node"
    );
}

fn refuse_unfinished_erasure(config: &Config, report: &RecoveryReport) -> Result<(), BootError> {
    if !report.interrupted_erasure.is_some_and(|erasure| erasure.is_begun) {
        return Ok(());
    }
    Err(BootError::Cluster(format!(
        "the data directory {} has an unfinished erasure; start without --cluster once, until the erasure is finished",
        config.data.display()
    )))
}

impl EventLog {
    /// Returns a constructor of the task that connects this node with the stream. `None` for a server that is alone.
    pub(crate) fn take_session(&mut self, renewals: RenewalRequests) -> Option<MakeTask> {
        let session = self.node.as_mut()?.session.take()?;
        let queue = self.queue.clone();
        Some(Box::new(session.bind(move || queue.wake_writer(), renewals)))
    }

    /// Returns the metrics of the node. `None` for a server that is alone.
    pub(crate) fn cluster_metrics(&self) -> Option<Arc<ClusterMetrics>> {
        self.node.as_ref().map(|node| Arc::clone(&node.metrics))
    }
}
