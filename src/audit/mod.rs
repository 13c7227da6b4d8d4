//! The audit log: a line for each look at one visitor, export, erasure, refused request, publication, rollback, and change of access
//! or settings. It has who did it, from where, to which site and visitor, and the outcome, but no content.
//!
//! The lines are records of files that are only appended to. A hash chain runs through all of them ([`mod@format`]). A visitor is
//! named by the digest of the ID that tombstones use, from the beginning, so an erasure changes nothing here. One thread writes
//! the lines. A line that a request waits for is on disk before the request gets its answer.

mod entry;
pub mod format;
mod reader;
mod thread;
mod verify;
pub mod writer;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use crossbeam_channel::{Sender, bounded};

pub use self::entry::{
    Actor, ActorKind, AuditAction, AuditEntry, AuditLine, AuditOutcome, LineActor, Subject,
};
pub use self::format::Head;
pub use self::reader::{AuditDamage, AuditRecord};
use self::thread::{AuditThread, QueuedLine};
pub use self::verify::{AuditReadError, AuditReport, directory_of, read_audit_log};
use self::writer::AuditWriter;
use crate::clock::Clock;
use crate::limits::{AUDIT_QUEUE_LINES_MAX, AUDIT_WAIT_MS};
use crate::record::{TombstoneKey, VisitorId};
use crate::storage::disk::Disk;
use crate::threads;

/// The reason why a line is not written. The request gets 503.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// Too many lines wait.
    #[error("too many lines of the audit log wait for the disk")]
    Full,
    /// The disk fails.
    #[error("the audit log cannot be written to disk")]
    Failed,
    /// The disk is slow or hangs.
    #[error("the disk has not written the line of the audit log in time")]
    Timeout,
}

/// The metrics of the audit log. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct AuditMetrics(Arc<Values>);

#[derive(Debug, Default)]
struct Values {
    records: AtomicU64,
    failures: AtomicU64,
    is_failing: AtomicBool,
    head: Mutex<Option<Head>>,
}

impl AuditMetrics {
    /// Returns the number of lines that this process has written and synced.
    pub fn records(&self) -> u64 {
        self.0.records.load(Ordering::Relaxed)
    }

    /// Returns the number of lines that could not be written, or not in time.
    pub fn failures(&self) -> u64 {
        self.0.failures.load(Ordering::Relaxed)
    }

    /// Returns the last durable record. `None` before the log is open.
    pub fn head(&self) -> Option<Head> {
        *self.head_slot()
    }

    fn is_failing(&self) -> bool {
        self.0.is_failing.load(Ordering::Acquire)
    }

    fn count_failures(&self, lines: u64) {
        self.0.failures.fetch_add(lines, Ordering::Relaxed);
    }

    fn set_head(&self, head: Head) {
        *self.head_slot() = Some(head);
    }

    fn head_slot(&self) -> MutexGuard<'_, Option<Head>> {
        self.0.head.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The audit log of a server. Clones are handles of the same log.
#[derive(Clone)]
pub struct AuditLog {
    /// `None` if nothing is written, as in `parallax dev`.
    open: Option<Arc<OpenLog>>,
    metrics: AuditMetrics,
}

struct OpenLog {
    lines: Sender<QueuedLine>,
    clock: Arc<dyn Clock>,
    key: TombstoneKey,
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditLog")
    }
}

impl AuditLog {
    /// Returns a log that writes nothing and never fails.
    pub fn off() -> Self {
        Self { open: None, metrics: AuditMetrics::default() }
    }

    /// Starts the thread that writes the audit log of a data directory. `key` is the key of its tombstones, and `retain_ms` the
    /// age at which lines may be deleted. A log that cannot be opened now is opened later.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn start(
        disk: Arc<dyn Disk>,
        data_directory: &Path,
        clock: Arc<dyn Clock>,
        key: TombstoneKey,
        retain_ms: i64,
    ) -> io::Result<Self> {
        let (sender, lines) = bounded(AUDIT_QUEUE_LINES_MAX);
        let metrics = AuditMetrics::default();
        let writer = AuditWriter::new(disk, data_directory, Arc::clone(&clock), retain_ms);
        let thread = AuditThread { writer, lines, metrics: metrics.clone(), pending: Vec::new() };
        threads::spawn("audit", move || thread.run())?;
        Ok(Self { open: Some(Arc::new(OpenLog { lines: sender, clock, key })), metrics })
    }

    /// Returns the digest of a visitor's ID. `None` if nothing is written.
    pub fn subject(&self, visitor_id: VisitorId<'_>) -> Option<Subject> {
        self.open.as_ref().map(|open| Subject::of(&open.key, visitor_id))
    }

    /// Queues a line, and does not wait for the disk.
    ///
    /// # Errors
    /// The queue is full, or the disk fails. The caller must not carry out the request then.
    pub fn record(&self, entry: &AuditEntry) -> Result<(), AuditError> {
        if self.open.is_some() && self.metrics.is_failing() {
            self.metrics.count_failures(1);
            return Err(AuditError::Failed);
        }
        self.queue(entry, None)
    }

    /// Queues a line of the server itself, about something that has happened already. While the disk fails, the line waits.
    ///
    /// # Errors
    /// The queue is full.
    pub fn record_later(&self, entry: &AuditEntry) -> Result<(), AuditError> {
        self.queue(entry, None)
    }

    /// Writes a line, and returns when it and all lines before it are durable. It waits for the disk, so a thread that serves
    /// connections must not call it.
    ///
    /// # Errors
    /// The queue is full, the disk fails, or it takes longer than [`AUDIT_WAIT_MS`]. Only after the last of these the line
    /// may be written later.
    pub fn record_durably(&self, entry: &AuditEntry) -> Result<(), AuditError> {
        self.record_durably_within(entry, Duration::from_millis(AUDIT_WAIT_MS))
    }

    /// Writes a line as [`record_durably`](Self::record_durably) does, and waits at most `time_max`.
    ///
    /// # Errors
    /// As for [`record_durably`](Self::record_durably).
    pub fn record_durably_within(&self, entry: &AuditEntry, time_max: Duration) -> Result<(), AuditError> {
        if self.open.is_none() {
            return Ok(());
        }
        let (reply, result) = bounded(1);
        self.queue(entry, Some(reply))?;
        result.recv_timeout(time_max).unwrap_or_else(|_| {
            self.metrics.count_failures(1);
            Err(AuditError::Timeout)
        })
    }

    /// Returns the metrics.
    pub fn metrics(&self) -> &AuditMetrics {
        &self.metrics
    }

    fn queue(
        &self,
        entry: &AuditEntry,
        reply: Option<Sender<Result<(), AuditError>>>,
    ) -> Result<(), AuditError> {
        let Some(open) = &self.open else { return Ok(()) };
        let payload = entry.to_json(open.clock.now_ms());
        open.lines.try_send(QueuedLine { payload, reply }).map_err(|_| {
            self.metrics.count_failures(1);
            AuditError::Full
        })
    }
}
