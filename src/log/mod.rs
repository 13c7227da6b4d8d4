//! The event log: an append-only file format, one writer, and readers. Each record is counted once.
//!
//! ```text
//! worker --LogClient::send--> queue --> LogWriter::run_once: drain, drop duplicates, assign seqs, append,
//!        <--LogClient::next_completion-- CompletionQueue <-- sync, pass to the consumer, complete, wake once
//! ```
//!
//! The module doc of [`mod@format`] specifies the file format. This module knows no HTTP and no JSON: a
//! record is columns and text. It does not know profiles either. It passes each batch to a [`LogConsumer`]
//! after the batch is durable (with [`Ack::Written`]: after it is written) and before it is acknowledged.
//! Recovery passes the same records in the same order.
//!
//! # Invariants
//!
//! * Recovery finds every acknowledged record: always after a killed process, and after a power cut if the
//!   record was acknowledged as durable.
//! * A key is accepted once within the dedup window.
//! * After a failed append or sync, the writer never appends to that descriptor and never syncs it again.
//! * The writer completes every request that the queue accepted. It never waits for a worker.
//! * The records of an erased visitor are void in every file. [`Queue::erase`] begins an erasure. Its long
//!   part runs outside the writer's thread.

mod active_segment;
mod batch;
pub mod bloom;
mod check;
mod dedup;
mod delivery;
mod directory;
mod durable_batch;
mod erase;
mod footer;
pub mod format;
mod generation;
mod health;
mod inspect;
mod log_clock;
mod memory_log;
mod metrics;
mod offset_to_seq;
pub(crate) mod position;
pub mod queue;
mod readable;
mod reader;
mod records;
mod recover;
mod request_batch;
mod scan;
mod sealed;
mod segment_writer;
mod segments;
#[cfg(feature = "cluster")]
mod stream_log;
mod tombstones;
mod upkeep;
mod verify;
mod writer;
mod writer_thread;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use active_segment::ClosedSegment;
pub(crate) use check::{CheckReport, check_key, check_sealed, has_begun_erasure};
pub use check::{check_directory, check_file};
pub use dedup::DedupWindow;
pub(crate) use directory::{
    COLUMNS_KEY_FILE, COLUMNS_SUFFIX, OldestSeq, SCRUB_FILE, SECRET_FILE, UNFINISHED_COLUMNS,
    column_file_name, contains_log, is_erasing, is_expired,
};
pub use directory::{LogDirectory, parse_segment_name, segment_name};
pub(crate) use durable_batch::DurableBatch;
#[cfg(feature = "cluster")]
pub(crate) use erase::ClusterTombstone;
pub use erase::{EraseError, EraseRule, Erasure, ErasureSummary, RedactedIds, Treatment, VisitorIds};
pub(crate) use erase::{
    ErasureStarted, ListedTombstone, Tombstone, TombstoneScan, append_to_copy, is_rewritten,
    last_received_ms, scan_tombstones,
};
pub use format::{LogId, Records};
pub use health::{DISK_RECOVERED_MS, PLACE_CHECK_MS};
pub(crate) use inspect::SegmentSummary;
pub use inspect::inspect;
pub use log_clock::LOG_CLOCK_SAVE_MS;
pub(crate) use memory_log::MemoryLog;
pub use metrics::LogMetrics;
pub(crate) use offset_to_seq::SeqLocator;
pub(crate) use queue::Wake;
pub use queue::{Completion, LogClient, Queue, Request, SendError, WriteOutcome};
pub use readable::{LogEnd, ReadableLog, SharedEnd, StreamMark};
pub(crate) use reader::batches_end;
pub use reader::{LogItem, LogReader, read_footer};
pub use recover::RecoveryReport;
pub use request_batch::RequestBatch;
pub(crate) use sealed::{RecordSource, SealedSegment, save_clock, write_sealed};
pub use segment_writer::SegmentWriter;
pub(crate) use segments::{SegmentPosition, SegmentRecords, SegmentSpan, segment_spans};
#[cfg(feature = "cluster")]
pub use stream_log::{NeededRecords, StreamLog};
pub use tombstones::InterruptedErasure;
pub(crate) use tombstones::may_have_erased;
pub use upkeep::Upkeep;
pub(crate) use verify::Damage;
pub use verify::DamageKind;
pub use writer::{FinalPosition, LogWriter};
pub use writer_thread::WriterThread;

use crate::acknowledgement::Ack;
use crate::clock::Clock;
use crate::limits::{
    DEDUP_IDS_MAX, QUEUE_BYTES_MAX, QUEUE_REQUESTS_MAX, SEGMENT_BYTES_DEFAULT, SEQ_MAX, SYNC_AFTER_MS,
};
use crate::record::TombstoneKey;
use crate::storage::disk::Disk;
use recover::{RecoverError, RecoveredState};

/// The log's settings.
#[derive(Debug, Clone)]
pub struct Options {
    /// The condition under which a record is acknowledged.
    pub ack: Ack,
    /// The writer seals a segment at this size.
    pub segment_bytes: u64,
    /// Retention deletes segments that were closed longer ago than this, in milliseconds of the log clock.
    /// `None`: no limit.
    pub retain_ms: Option<i64>,
    /// Retention deletes the oldest segments, if older than 24 hours, while all segments exceed this size.
    /// `None`: no limit.
    pub retain_bytes: Option<u64>,
    /// Capacity of the dedup window, in IDs. At the limit the oldest ID is evicted.
    pub dedup_ids_max: usize,
    /// Random seed of the dedup hash: see [`DedupWindow::new`].
    pub hash_seed: u64,
    /// Requests that the queue holds at most. Further requests are rejected.
    pub queue_requests_max: usize,
    /// Bytes that the queue holds at most. Further requests are rejected.
    pub queue_bytes_max: usize,
    /// The ID of the log, if no segment states it. `None`: a new one.
    pub log_id: Option<LogId>,
    /// The key of the tombstones that a directory without one gets. `None` draws one.
    pub tombstone_key: Option<TombstoneKey>,
    /// Recovery passes only records after this seq to the consumer. A checkpoint holds the earlier records,
    /// which were durable when it was written.
    pub checkpointed_seq: u64,
    /// The greatest seq that any checkpoint proves to be durable, also one that cannot be used. Recovery gives
    /// no seq up to it again.
    pub durable_seq: u64,
    /// Time between a batch and its sync, if batches are not synced one by one.
    pub sync_after: Duration,
    /// True if the consumer decides when a durable batch is acknowledged: [`LogConsumer::hold`].
    pub holds_acknowledgements: bool,
}

impl Options {
    /// Returns the size up to which zeros are reserved ahead of the batches of a segment. If batches are not
    /// synced one by one, reserved zeros would only be written in addition to the batches.
    fn reserve_until(&self) -> u64 {
        match self.ack {
            Ack::Disk => self.segment_bytes,
            Ack::Written => 0,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ack: Ack::Disk,
            segment_bytes: SEGMENT_BYTES_DEFAULT,
            retain_ms: None,
            retain_bytes: None,
            dedup_ids_max: DEDUP_IDS_MAX,
            hash_seed: 0,
            queue_requests_max: QUEUE_REQUESTS_MAX,
            queue_bytes_max: QUEUE_BYTES_MAX,
            log_id: None,
            tombstone_key: None,
            checkpointed_seq: 0,
            durable_seq: 0,
            sync_after: Duration::from_millis(SYNC_AFTER_MS),
            holds_acknowledgements: false,
        }
    }
}

/// A consumer of the log's records. It is called by the thread that opens the log, then by the writer's
/// thread.
pub trait LogConsumer: Send {
    /// Consumes the next records: first those of recovery, then each batch before it is acknowledged.
    fn consume(&mut self, records: Records<'_>);

    /// Called with the requests of each durable batch, after [`consume`](Self::consume), if
    /// [`Options::holds_acknowledgements`] is set. The consumer must complete them.
    fn hold(&mut self, batch: DurableBatch, _clock: &dyn Clock) {
        batch.complete(true);
    }

    /// Returns whether the visitor still has these IDs, after all records consumed so far.
    fn is_current(&self, _visitor_ids: &VisitorIds) -> bool {
        true
    }

    /// Called when a visitor is erased, with the seq of the last tombstone. The tombstones are consumed next.
    /// Recovery does not call this, because a tombstone holds no IDs: there, [`TombstoneKey::is_tombstone_of`] tells
    /// whether one names an ID.
    fn on_erase(&mut self, _visitor_ids: &VisitorIds, _seq: u64) {}

    /// Called with the duration of an append with its sync, or of a later sync.
    fn on_sync(&mut self, _duration: Duration) {}

    /// Reports the progress of recovery: the segments that are done, and all segments.
    fn on_recovery_progress(&mut self, _done_count: usize, _segment_count: usize) {}

    /// Called when the writer has completed all requests that it drained. The consumer may work for less than
    /// 1 ms. `_durable_seq` is the last seq, or `None` if a record is not durable yet. Returns the delay until the next
    /// call, if no request arrives earlier.
    fn on_idle(&mut self, _clock: &dyn Clock, _durable_seq: Option<u64>) -> Option<Duration> {
        None
    }

    /// Called after the log is sealed. No record follows and the process ends. `_durable_seq` is as in
    /// [`on_idle`](Self::on_idle).
    fn on_closed(&mut self, _clock: &dyn Clock, _durable_seq: Option<u64>) {}

    /// Returns the seq up to which the consumer no longer needs records. Retention keeps all later records.
    fn checkpointed_seq(&self) -> u64 {
        u64::MAX
    }

    /// Called when retention would delete records that the consumer still needs.
    fn on_retention_blocked(&mut self) {}
}

impl<F: FnMut(Records<'_>) + Send> LogConsumer for F {
    fn consume(&mut self, records: Records<'_>) {
        self(records);
    }
}

/// An error while opening or reading the log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Another process has locked the directory.
    #[error("{}: another server uses this directory; stop that server or choose another directory", dir.display())]
    Locked {
        /// The directory.
        dir: PathBuf,
    },
    /// Another release wrote the segment.
    #[error("{}: {}", file.display(), unsupported_version(*version))]
    UnsupportedVersion {
        /// The segment.
        file: PathBuf,
        /// Its format version.
        version: u32,
    },
    /// The segment was renamed, and another file has its proper name.
    #[error(
        "{}: its first seq is {first_seq}, but another file has that name; move the wrong file out of the directory",
        file.display()
    )]
    Misnamed {
        /// The segment.
        file: PathBuf,
        /// The first seq in its header.
        first_seq: u64,
    },
    /// The watermark has reached `SEQ_MAX`, or a file was forged.
    #[error("{}: sequence numbers are exhausted (found {seq}, maximum {SEQ_MAX})", dir.display())]
    SeqExhausted {
        /// The directory.
        dir: PathBuf,
        /// The watermark.
        seq: u64,
    },
    /// The directory could not be created at the start. Now it has files of a log, which were not read.
    #[error("{}: a log is in the directory, which was missing at the start; restart the server", dir.display())]
    Appeared {
        /// The directory.
        dir: PathBuf,
    },
    /// The system starts no thread.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The operating system returned an error.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// Returns the error text for a file of another format version.
pub(crate) fn unsupported_version(version: u32) -> String {
    if version < format::FORMAT_VERSION_MIN {
        return format!(
            "format version {version} is of an earlier release and is not supported; export the events with that release \
             (`parallax export`), then start with an empty data directory"
        );
    }
    format!("format version {version} is not supported; use the release that wrote the file")
}

impl LogError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}

/// Returns the range of seqs that the log in `dir` holds. A server may be writing to it.
///
/// # Errors
/// A file is of a later release, or an I/O error occurs.
pub(crate) fn seq_range(disk: Arc<dyn Disk>, dir: &Path) -> Result<SeqRange, LogError> {
    reader::seq_range(&LogDirectory::open_read_only(disk, dir))
}

/// Returns the ID of the log in `dir`, a log directory or a copy of one. `None` if no segment states it.
///
/// # Errors
/// An I/O error, or a format version that this release does not know.
pub(crate) fn log_id(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Option<LogId>, LogError> {
    let directory = LogDirectory::open_read_only(Arc::clone(disk), dir);
    Ok(verify::LogScan::of_directory(&directory)?.log_id)
}

/// Opens the log in `dir`, which is created if it is missing: locks it, recovers its records, and begins a
/// segment. All recovered records are durable when this returns. The caller then spawns the writer, or steps
/// it.
///
/// # Errors
/// Another process has locked the directory, a file is of a later release, or an I/O error occurs. The
/// directory is then in a state that a crash may also leave.
pub fn open(
    dir: &Path,
    options: Options,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    consumer: Box<dyn LogConsumer>,
) -> Result<(Queue, LogWriter, RecoveryReport), LogError> {
    LockedLog::lock(dir, disk)?.open(options, clock, consumer)
}

/// The locked directory of a log. Locking creates it if it is missing and changes nothing else.
pub struct LockedLog {
    directory: LogDirectory,
}

/// The range of seqs that a log holds, including damaged records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeqRange {
    /// The first seq that retention has kept.
    pub first: u64,
    /// The last readable seq. One less than `first` if there is no record.
    pub last: u64,
    /// The ID of the log. `None` if no segment has an intact header.
    pub log_id: Option<LogId>,
}

impl LockedLog {
    /// Locks the directory.
    ///
    /// # Errors
    /// Another process has locked it, or an I/O error occurs.
    pub fn lock(dir: &Path, disk: Arc<dyn Disk>) -> Result<Self, LogError> {
        Ok(Self { directory: LogDirectory::lock(disk, dir)? })
    }

    /// Locks the directory, as [`lock`](Self::lock) does, or accepts that it is missing and cannot be created.
    /// Only [`open_when_writable`](Self::open_when_writable) may open it then.
    ///
    /// # Errors
    /// Another process has locked it, or it cannot be read.
    pub fn lock_or_wait(dir: &Path, disk: Arc<dyn Disk>) -> Result<Self, LogError> {
        Ok(Self { directory: LogDirectory::lock_or_wait(disk, dir)? })
    }

    /// Returns the range of seqs that the log holds.
    ///
    /// # Errors
    /// A file is of a later release, or an I/O error occurs.
    pub fn seq_range(&self) -> Result<SeqRange, LogError> {
        if self.directory.creation_error().is_some() {
            return Ok(SeqRange { first: 1, last: 0, log_id: None });
        }
        reader::seq_range(&self.directory)
    }

    /// Returns the key of the digests in tombstones and entries of ownership. If the directory has none, draws
    /// one, which the caller must pass on as [`Options::tombstone_key`].
    ///
    /// # Errors
    /// The key is damaged, or an I/O error occurs.
    pub fn load_or_draw_key(&self) -> Result<TombstoneKey, LogError> {
        let key = TombstoneKey::load(&self.directory);
        let key = key.map_err(|error| LogError::io(&self.directory.path(""), error))?;
        Ok(key.unwrap_or_else(TombstoneKey::random))
    }

    /// Opens the log, as [`open()`] does.
    ///
    /// # Errors
    /// As for [`open()`].
    pub fn open(
        self,
        options: Options,
        clock: Arc<dyn Clock>,
        mut consumer: Box<dyn LogConsumer>,
    ) -> Result<(Queue, LogWriter, RecoveryReport), LogError> {
        let recovered = recover::recover(&self.directory, &options, &mut 0, &*clock, &mut *consumer)
            .map_err(RecoverError::into_cause)?;
        Ok(self.into_open(options, clock, consumer, recovered))
    }

    /// Opens the log, as [`open`](Self::open) does. If the directory cannot be written, the consumer gets all
    /// records, and the writer rejects events until it can open the directory.
    ///
    /// # Errors
    /// The log cannot be read, or a file is of a later release.
    pub fn open_when_writable(
        self,
        options: Options,
        clock: Arc<dyn Clock>,
        mut consumer: Box<dyn LogConsumer>,
    ) -> Result<(Queue, LogWriter, RecoveryReport), LogError> {
        let mut delivered_seq = options.checkpointed_seq;
        let recovered = match self.directory.creation_error() {
            Some(cause) => Err(RecoverError::NotWritable { cause, report: Box::default() }),
            None => recover::recover(&self.directory, &options, &mut delivered_seq, &*clock, &mut *consumer),
        };
        match recovered {
            Ok(recovered) => Ok(self.into_open(options, clock, consumer, recovered)),
            Err(RecoverError::NotWritable { cause, report }) => {
                let (queue, mut writer) = self.into_writer(options, delivered_seq, clock, consumer);
                writer.report_damage(&report);
                writer.wait_for(&cause);
                Ok((queue, writer, RecoveryReport { next_seq: delivered_seq + 1, ..*report }))
            }
            Err(RecoverError::Fatal(error)) => Err(error),
        }
    }

    fn into_open(
        self,
        options: Options,
        clock: Arc<dyn Clock>,
        consumer: Box<dyn LogConsumer>,
        state: RecoveredState,
    ) -> (Queue, LogWriter, RecoveryReport) {
        let report = state.report.clone();
        let (queue, mut writer) = self.into_writer(options, report.next_seq - 1, clock, consumer);
        writer.resume(state);
        (queue, writer, report)
    }

    fn into_writer(
        self,
        options: Options,
        delivered_seq: u64,
        clock: Arc<dyn Clock>,
        consumer: Box<dyn LogConsumer>,
    ) -> (Queue, LogWriter) {
        let metrics = Arc::new(LogMetrics::default());
        let (queue, receiver) =
            queue::channel(options.queue_requests_max, options.queue_bytes_max, Arc::clone(&metrics));
        let writer =
            LogWriter::new(self.directory, options, clock, consumer, delivered_seq, receiver, metrics);
        (queue, writer)
    }
}
