//! The event log of a node of a cluster. Its own records enter the profiles only when the stream returns them.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::cluster::erase_request::ClusterEraser;
use crate::cluster::node::Node;
use crate::cluster::restore::NodeRestoreError;
use crate::cluster::start::{StartedNode, StartingNode, UnboundSession};
use crate::log::DurableBatch;
use crate::metrics::cluster::ClusterMetrics;
use crate::nats::thread::RenewalRequests;
use crate::record::TombstoneKey;
use crate::server::puller::MakeTask;
use crate::visitors::ownership::ClusterOwnership;
use crate::visitors::ties::known::OrderRules;

/// Longest time between two checkpoints of a node with new messages. The stream drops messages after 72
/// hours, and a node whose newest checkpoint is older than the first message cannot continue. So a crash must
/// not find it that old, however few events there are.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(3_600);

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
        let position = durable_seq.map(|_| node.position()).filter(|position| *position > 0);
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
        let position = durable_seq.map(|_| node.position()).filter(|position| *position > 0);
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
    // 2. Restore the profiles from a checkpoint.
    let checkpoints = CheckpointDirectory::new(Arc::clone(&disk), directory);
    let mut starting = restore(config, servers, &checkpoints, &range, progress)?;
    let log_id = range.log_id.unwrap_or_else(LogId::random);
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
    // 3. Read the own records that the stream has not returned.
    let started =
        starting.start(&config.cluster, Arc::clone(&disk), directory, log_id, range.last, profiles_bytes);
    let StartedNode { node, session, metrics, erasures, orders, erased } =
        started.map_err(BootError::Thread)?;
    let sync_latency = LatencyHistogram::default();
    let tombstone_key = log.load_or_draw_key().map_err(data_error)?;
    let options =
        node_log_options(log_options(config, plan), &node, range.last, log_id, tombstone_key.clone());
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
        progress: Some(RecoveryProgress { progress: progress.clone(), last_seq: range.last }),
    };
    let (queue, writer, report) =
        log.open_when_writable(options, clock, Box::new(observer)).map_err(data_error)?;
    log_recovery(config, &report, log_id, queue.metrics().is_available());
    log_restored(position, returned, entries, report.records);
    refuse_unfinished_erasure(config, &report)?;
    // 4. Start the threads.
    checkpoints.writer.spawn().map_err(BootError::Thread)?;
    let writer = WriterThread::spawn(queue.clone(), writer).map_err(BootError::Thread)?;
    let cluster = Some(ClusterOwnership { key: keys.tombstone, order_of: orders.as_function() });
    let damage = queue.metrics().damage().clone();
    let source = OwnershipSource { disk, directory: directory.clone(), known, cluster, damage };
    let eraser = Eraser { log: queue.clone(), source, checkpoints: Arc::clone(&checkpoints.metrics) };
    erasures.spawn(eraser.clone()).map_err(BootError::Thread)?;
    resume_erasure(&eraser, &report).map_err(BootError::Thread)?;
    let erasure = ClusterEraser {
        eraser: eraser.clone(),
        seal: keys.seal,
        hasher,
        progress: erased,
        metrics: Arc::clone(&metrics),
    };
    Ok(EventLog {
        queue,
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

/// Returns the settings of the log of a node. Recovery passes on the records that the stream has not returned.
fn node_log_options(
    options: Options,
    node: &Node,
    last_seq: u64,
    log_id: LogId,
    tombstone_key: TombstoneKey,
) -> Options {
    Options {
        checkpointed_seq: node.returned().min(last_seq),
        log_id: Some(log_id),
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
    tracing::info!(
        "exports, access requests and Insights of this node cover only the events that it acknowledged"
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
