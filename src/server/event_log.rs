//! The server's event log. It is opened and replayed before the public addresses listen, written by one
//! thread, and stopped last. Visitor profiles are restored from a checkpoint first, and saved to checkpoints
//! from then on.

mod gate;
#[cfg(feature = "cluster")]
mod node;
mod report;
mod scrub;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

#[cfg(feature = "cluster")]
use self::report::log_findings;
use self::report::{log_profiles, log_recovery};
use self::scrub::ScrubParts;
use super::{BootError, MemoryPlan, UnsyncedRecords, data_directory};
use crate::admin::startup::StartupProgress;
use crate::admin::{
    DataHandlers, InsightsHandler, ProfileFinder, SlowRequests, SnapshotRules, VisitorHandler,
};
use crate::api::EventSink;
use crate::audit::AuditLog;
use crate::clock::{self, Clock, SystemClock};
use crate::config::Config;
use crate::ids;
use crate::insights::engine::{self, InsightsMetrics, ReplySender};
use crate::insights::{VisitorKey, installer};
use crate::limits::CHECKPOINT_STOP_MS;
use crate::log::{
    ErasureSummary, LockedLog, LogConsumer, LogError, LogId, Options, Queue, ReadableLog, Records,
    RecoveryReport, SeqRange, VisitorIds, Wake, WriterThread,
};
use crate::metrics::{EventCounters, JobCounters, LatencyHistogram};
use crate::record::TombstoneKey;
use crate::site::catalog::catalog::CurrentCatalog;
use crate::storage::disk::{Disk, RealDisk};
use crate::threads;
use crate::visitors::checkpoint::CheckpointMetrics;
use crate::visitors::checkpoint::directory::CheckpointDirectory;
use crate::visitors::checkpoint::restore::{LogRange, RestoredTable, restore};
use crate::visitors::checkpoint::scheduler::{
    self, CheckpointScheduler, CheckpointState, build_checkpointer,
};
use crate::visitors::checkpoint::writer::CheckpointWriter;
use crate::visitors::erasure::{ClusterErasure, Eraser};
use crate::visitors::live::{ProfileReaders, ProfileTable};
use crate::visitors::ownership::OwnershipSource;

/// Time for which a start retries the lock on the data directory, in ms. A killed process can hold it for some
/// milliseconds. Then the start ends.
const LOCK_RETRY_MS: u64 = 2_000;
/// Pause between two attempts to lock the data directory, in ms. It is a sleep, because flock(2) waits either not
/// at all or without a limit. Nothing is served yet.
const LOCK_RETRY_PAUSE_MS: u64 = 20;

/// The running event log.
pub(super) struct EventLog {
    /// The queue to which the workers send events.
    pub(super) queue: Queue,
    /// The log with all records, which Insights and the jobs of the admin address read. On a node it is that of the cluster.
    log: ReadableLog,
    pub(super) sync_latency: LatencyHistogram,
    pub(super) event_counters: EventCounters,
    /// The audit log of the data directory. It is off until it is started.
    pub(super) audit: AuditLog,
    /// The key of the tombstones in the log.
    pub(super) tombstone_key: TombstoneKey,
    /// Read access to the visitor profiles.
    pub(super) profiles: ProfileReaders,
    /// The parts that exports and erasures need.
    eraser: Eraser,
    /// Metrics of the checkpointer.
    pub(super) checkpoint_metrics: Arc<CheckpointMetrics>,
    /// Time that the last checkpoint may take on shutdown, in milliseconds.
    checkpoint_stop_ms: Arc<AtomicU64>,
    writer: WriterThread,
    insights: InsightsParts,
    scrub: ScrubParts,
    /// The parts of a node. `None` if the server is alone.
    #[cfg(feature = "cluster")]
    node: Option<node::NodeHandle>,
}

/// The checkpointer before its thread starts.
struct PreparedCheckpoints {
    scheduler: CheckpointScheduler,
    writer: CheckpointWriter,
    metrics: Arc<CheckpointMetrics>,
    /// Time that the last checkpoint may take on shutdown, in milliseconds.
    stop_ms: Arc<AtomicU64>,
}

/// Prepares checkpoints of a table.
fn prepare_checkpoints(
    config: &Config,
    checkpoints: CheckpointDirectory,
    state: CheckpointState,
    options: scheduler::Options,
) -> PreparedCheckpoints {
    let options = scheduler::Options { log_bytes: config.checkpoint_bytes.0, ..options };
    let stop_ms = Arc::clone(&options.stop_ms);
    let metrics = Arc::<CheckpointMetrics>::default();
    let (scheduler, writer) = build_checkpointer(checkpoints, options, state, Arc::clone(&metrics));
    PreparedCheckpoints { scheduler, writer, metrics, stop_ms }
}

/// The parts that Insights needs from the start on.
struct InsightsParts {
    /// The key of the visitor hashes. Nothing is hashed if Insights is off.
    key: VisitorKey,
    metrics: Arc<InsightsMetrics>,
    /// Memory limit. 0 if Insights is off.
    memory_bytes: u64,
}

/// The progress of recovery.
struct RecoveryProgress {
    progress: StartupProgress,
    /// The last seq of the log.
    last_seq: u64,
}

impl RecoveryProgress {
    fn record(&self, records: &Records<'_>) {
        self.progress.set_log(records.seqs().end.saturating_sub(1), self.last_seq);
    }
}

/// A log consumer: it folds records into profiles, and measures syncs and recovery.
struct LogObserver {
    sync_latency: LatencyHistogram,
    profiles: ProfileTable,
    /// `None` when recovery is done.
    progress: Option<RecoveryProgress>,
}

impl LogConsumer for LogObserver {
    fn consume(&mut self, records: Records<'_>) {
        if let Some(progress) = &self.progress {
            progress.record(&records);
        }
        self.profiles.fold(records);
    }

    fn is_current(&self, visitor_ids: &VisitorIds) -> bool {
        self.profiles.is_current(visitor_ids)
    }

    fn on_erase(&mut self, visitor_ids: &VisitorIds, seq: u64) {
        self.profiles.erase(visitor_ids, seq);
    }

    fn on_sync(&mut self, latency: Duration) {
        self.sync_latency.record(latency);
    }

    fn on_recovery_progress(&mut self, done_count: usize, segment_count: usize) {
        if segment_count > 1 && self.progress.is_some() {
            tracing::info!(segments_done = done_count, segments = segment_count, "reading the log");
        }
        if done_count == segment_count {
            self.progress = None;
        }
    }

    fn on_idle(&mut self, clock: &dyn Clock, durable_seq: Option<u64>) -> Option<Duration> {
        self.profiles.on_idle(clock, durable_seq)
    }

    fn on_closed(&mut self, clock: &dyn Clock, durable_seq: Option<u64>) {
        self.profiles.close(clock, durable_seq);
    }

    fn checkpointed_seq(&self) -> u64 {
        self.profiles.checkpointed_seq()
    }

    fn on_retention_blocked(&mut self) {
        self.profiles.on_retention_blocked();
    }
}

impl EventLog {
    /// Opens the log in the data directory, replays it, and starts its threads. Reports its progress to
    /// `progress`.
    pub(super) fn start(
        config: &Config,
        plan: &MemoryPlan,
        progress: &StartupProgress,
    ) -> Result<Self, BootError> {
        #[cfg(feature = "cluster")]
        if let Some(servers) = &config.cluster.cluster {
            return node::start(config, plan, servers, progress);
        }
        Self::start_alone(config, plan, progress)
    }

    /// Starts the event log of a server that is no node of a cluster.
    fn start_alone(
        config: &Config,
        plan: &MemoryPlan,
        progress: &StartupProgress,
    ) -> Result<Self, BootError> {
        let directory = &config.data;
        let data_error = |cause| BootError::of_data(directory, cause);
        let disk = Arc::new(RealDisk) as Arc<dyn Disk>;
        let clock = Arc::new(SystemClock::new());
        // 1. Lock the data directory and find the ends of the log.
        let (log, range, insights) = lock_and_prepare(config, plan, &disk, &*clock).map_err(data_error)?;
        progress.set_log(0, range.last);
        // 2. Restore the profiles from a checkpoint.
        let checkpoints = CheckpointDirectory::new(Arc::clone(&disk), directory);
        let profiles_bytes = plan.params().profiles_bytes;
        let restored = restore_profiles(config, &checkpoints, range, profiles_bytes, progress)?;
        let RestoredTable { table, state, secret, log_id, seq, durable_seq, checkpoint_state, .. } = restored;
        let log_id = log_id.unwrap_or_else(LogId::random);
        let entries = table.len();
        let hash_key = secret.unwrap_or_else(ids::random_hash_key);
        let (table, profiles) = ProfileTable::from_table(table, state, hash_key, profiles_bytes);
        let known = table.state().known;
        let options = scheduler::Options::new(hash_key, profiles_bytes, log_id);
        let checkpoints = prepare_checkpoints(config, checkpoints, checkpoint_state, options);
        // 3. Replay the log after the checkpoint.
        let sync_latency = LatencyHistogram::default();
        let tombstone_key = log.load_or_draw_key().map_err(data_error)?;
        progress.set_log(seq, range.last);
        let table = table.with_checkpoints(checkpoints.scheduler);
        let observer = LogObserver {
            sync_latency: sync_latency.clone(),
            profiles: table.with_tombstone_key(Some(tombstone_key.clone())),
            progress: Some(RecoveryProgress { progress: progress.clone(), last_seq: range.last }),
        };
        let options = Options {
            checkpointed_seq: seq,
            durable_seq,
            log_id: Some(log_id),
            tombstone_key: Some(tombstone_key.clone()),
            ..log_options(config, plan)
        };
        let (queue, writer, report) =
            log.open_when_writable(options, clock, Box::new(observer)).map_err(data_error)?;
        log_recovery(config, &report, log_id, queue.metrics().is_available());
        log_profiles(seq, entries, report.records);
        // 4. Start the threads.
        checkpoints.writer.spawn().map_err(BootError::Thread)?;
        let writer = WriterThread::spawn(queue.clone(), writer).map_err(BootError::Thread)?;
        let damage = queue.metrics().damage().clone();
        let source = OwnershipSource { disk, directory: directory.clone(), known, cluster: None, damage };
        let eraser = Eraser { log: queue.clone(), source, checkpoints: Arc::clone(&checkpoints.metrics) };
        resume_erasure(&eraser, &report).map_err(BootError::Thread)?;
        Ok(Self {
            log: ReadableLog::alone(queue.clone(), config.ack),
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
            #[cfg(feature = "cluster")]
            node: None,
        })
    }

    /// Returns a constructor of a worker's event sink, and the socket that wakes the worker when requests complete,
    /// and when `current_catalog` changes.
    pub(super) fn event_sink(
        &self,
        current_catalog: &CurrentCatalog,
    ) -> Result<(impl FnOnce() -> EventSink + Send + 'static, UnixStream), BootError> {
        let (wakeup_tx, wakeup_rx) = wakeup_pair()?;
        let wake: Wake = Arc::new(move || drop((&wakeup_tx).write(&[1])));
        current_catalog.on_change(Arc::clone(&wake));
        let client = self.queue.client(wake);
        let counters = self.event_counters.clone();
        Ok((move || EventSink::new(client, counters), wakeup_rx))
    }

    /// Starts Insights, and returns a constructor of the admin handlers. All of them wake the admin thread through `wakeup_tx`.
    pub(super) fn data_handlers(
        &self,
        catalog: CurrentCatalog,
        wakeup_tx: UnixStream,
        counters: JobCounters,
        rules: SnapshotRules,
    ) -> Result<impl FnOnce() -> DataHandlers + Send + 'static, BootError> {
        let (reply_sender, replies) = ReplySender::new(Arc::new(wakeup_tx));
        let source = self.eraser.source.clone();
        let resources = engine::Resources {
            disk: Arc::clone(&source.disk),
            directory: source.directory.clone(),
            key: self.insights.key,
            catalog,
            log: self.log.clone(),
            memory_bytes: self.insights.memory_bytes,
            metrics: Arc::clone(&self.insights.metrics),
            replies: reply_sender.clone(),
            finder: Box::new(ProfileFinder::new(self.profiles.reader())),
        };
        let is_on = resources.memory_bytes > 0;
        let client = engine::start(resources).map_err(BootError::Thread)?;
        let profiles = self.profiles.clone();
        let eraser = self.eraser.clone();
        let log = self.log.clone();
        let cluster = self.cluster_erasure();
        let insights = InsightsHandler::new(is_on, self.log.clone(), source, profiles.clone(), rules)
            .with_audit(self.audit.clone());
        let audit = self.audit.clone();
        let requests = SlowRequests::new(client, replies, reply_sender, counters.clone());
        Ok(move || {
            let visitors = VisitorHandler::new(profiles, eraser, log, counters, audit).with_cluster(cluster);
            DataHandlers { visitors, insights, requests }
        })
    }

    /// Returns the erasure on all nodes. `None` if the server is alone.
    fn cluster_erasure(&self) -> Option<Arc<dyn ClusterErasure>> {
        #[cfg(feature = "cluster")]
        return self.node.as_ref().map(|node| Arc::clone(&node.erasure));
        #[cfg(not(feature = "cluster"))]
        None
    }

    /// Returns the metrics of Insights.
    pub(super) fn insights_metrics(&self) -> Arc<InsightsMetrics> {
        Arc::clone(&self.insights.metrics)
    }

    /// Ends the scrub, completes the queued requests, syncs and seals the log, and writes a last checkpoint if that takes no
    /// longer than `time_left`.
    ///
    /// # Errors
    /// Acknowledged records are not synced.
    pub(super) fn stop(self, time_left: Duration) -> Result<(), UnsyncedRecords> {
        let began = clock::instant();
        self.scrub.stop();
        let time_left = time_left.saturating_sub(clock::instant() - began);
        let left_ms = u64::try_from(time_left.as_millis()).unwrap_or(u64::MAX);
        self.checkpoint_stop_ms.store(left_ms.min(CHECKPOINT_STOP_MS), Ordering::Relaxed);
        match self.writer.stop() {
            Ok(stopped) if stopped.durable_seq < stopped.last_seq => {
                let unsynced =
                    UnsyncedRecords { first_seq: stopped.durable_seq + 1, last_seq: stopped.last_seq };
                let UnsyncedRecords { first_seq, last_seq } = unsynced;
                tracing::error!(first_seq, last_seq, "cannot sync the log; acknowledged records may be lost");
                return Err(unsynced);
            }
            Ok(stopped) => tracing::info!(durable_seq = stopped.durable_seq, "sealed the log"),
            Err(_) => tracing::error!("the log writer panicked; the next start recovers the log"),
        }
        Ok(())
    }
}

/// Locks the data directory, finds the ends of its log, and prepares the column files before an erasure can continue.
/// Nothing is written to a directory of another format version. On a disk that cannot be written, the files of another
/// key are not used.
fn lock_and_prepare(
    config: &Config,
    plan: &MemoryPlan,
    disk: &Arc<dyn Disk>,
    clock: &dyn Clock,
) -> Result<(LockedLog, SeqRange, InsightsParts), LogError> {
    let log = lock_with_retries(&config.data, disk, clock)?;
    data_directory::restrict_access(&config.data);
    let range = log.seq_range()?;
    data_directory::check_expected_log(&config.data, range.log_id);
    let memory_bytes = plan.params().insights_bytes;
    let prepared = installer::prepare_directory(&**disk, &config.data, memory_bytes > 0);
    let key = prepared.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot prepare the column files of Insights");
        VisitorKey::random()
    });
    Ok((log, range, InsightsParts { key, metrics: Arc::default(), memory_bytes }))
}

/// Locks the data directory. Retries while another process holds the lock, because the kernel may release the
/// lock of a killed process late.
fn lock_with_retries(
    directory: &Path,
    disk: &Arc<dyn Disk>,
    clock: &dyn Clock,
) -> Result<LockedLog, LogError> {
    let end = clock.monotonic() + Duration::from_millis(LOCK_RETRY_MS);
    loop {
        match LockedLog::lock_or_wait(directory, Arc::clone(disk)) {
            Err(LogError::Locked { .. }) if clock.monotonic() < end => {
                thread::sleep(Duration::from_millis(LOCK_RETRY_PAUSE_MS));
            }
            other => return other,
        }
    }
}

/// Creates a pair of sockets: a byte written to the first wakes the thread that polls the second.
pub(super) fn wakeup_pair() -> Result<(UnixStream, UnixStream), BootError> {
    let cause =
        |cause| BootError::System { what: "cannot create a pair of sockets (check ulimit -n)", cause };
    let (wakeup_tx, wakeup_rx) = UnixStream::pair().map_err(cause)?;
    // If the socket is full, the write fails. The thread wakes anyway: it has unread bytes.
    wakeup_tx.set_nonblocking(true).map_err(cause)?;
    Ok((wakeup_tx, wakeup_rx))
}

/// Restores the table of visitors from the newest checkpoint that is consistent with the log.
fn restore_profiles(
    config: &Config,
    checkpoints: &CheckpointDirectory,
    range: SeqRange,
    profiles_bytes: u64,
    progress: &StartupProgress,
) -> Result<RestoredTable, BootError> {
    let mut on_progress = |done: u64, total: u64| {
        progress.set_visitors(done, total);
        if done.is_multiple_of(LOG_EVERY_ENTRIES) {
            tracing::info!(entries_done = done, entries = total, "reading the checkpoint");
        }
    };
    let log_range = LogRange { first: range.first, log_id: range.log_id };
    let restored = restore(checkpoints, log_range, profiles_bytes, &mut on_progress);
    let restored = restored.map_err(|cause| BootError::of_visitors(&config.data, cause))?;
    for finding in &restored.warnings {
        tracing::warn!(%finding, "problem while restoring visitor profiles");
    }
    Ok(restored)
}

/// Finishes an interrupted erasure, if there is one, on a thread of its own. Of one that was not begun it deletes the
/// marker.
fn resume_erasure(eraser: &Eraser, report: &RecoveryReport) -> std::io::Result<()> {
    if report.interrupted_erasure.is_none() {
        return Ok(());
    }
    let eraser = eraser.clone();
    let resume = move || match eraser.resume() {
        // The start has reported it.
        Ok(None) => {}
        Ok(Some(ErasureSummary { records, redacted, segments, seq })) => {
            tracing::info!(seq, records, redacted, segments, "finished an interrupted erasure");
        }
        Err(error) => {
            tracing::error!(%error, "cannot finish an interrupted erasure; the next erasure or the next start tries again");
        }
    };
    threads::spawn("erasure", resume).map(drop)
}

/// Restored entries between two progress lines in the log: a few seconds of work.
const LOG_EVERY_ENTRIES: u64 = 5_000_000;

fn log_options(config: &Config, plan: &MemoryPlan) -> Options {
    const DAY_MS: i64 = 24 * 60 * 60 * 1000;
    Options {
        ack: config.ack,
        segment_bytes: config.segment_bytes.0,
        retain_ms: config.retain_days.map(|days| i64::from(days) * DAY_MS),
        retain_bytes: config.retain_bytes.map(|size| size.0),
        dedup_ids_max: plan.dedup_ids_max,
        hash_seed: ids::random_u64(),
        ..Options::default()
    }
}
