//! Erasure of a visitor from the log: the writer's part, and the longer part on the requesting thread.
//!
//! The log knows no owners. An [`EraseRule`] decides the treatment of each record. [`super::format`] specifies the
//! steps and the states that a crash between them leaves.

mod compare;
mod list;
mod redact;
mod rewrite;
pub(super) mod secret;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

pub(crate) use self::compare::is_rewritten;
pub(crate) use self::list::{
    ListedTombstone, TombstoneScan, append_to_copy, last_received_ms, scan_tombstones,
};
pub use self::redact::RedactedIds;
pub(super) use self::rewrite::RewriteOptions;
pub use self::rewrite::{EraseRule, Treatment};
pub(super) use self::secret::tombstone_payloads;
use super::LogError;
use super::active_segment::ClosedSegment;
use super::check::check_closed;
use super::directory::{LogDirectory, OldestSeq, SECRET_FILE};
use super::metrics::LogMetrics;
use super::tombstones::each_tombstone;
use super::verify::SegmentEntry;
use crate::record::{IdKind, IdTag, tombstone_owner, tombstone_tags};
use crate::storage::damage::KnownDamage;
use crate::storage::disk::{FileLock, FileLockMode};

/// The names of the visitor to erase.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VisitorIds {
    /// The site ID.
    pub site: String,
    /// The digest of the user ID, or of the anonymous ID of a visitor without a user.
    pub owner: IdTag,
    /// The digests of the owner and of each anonymous ID that the visitor has at present.
    pub named: Vec<IdTag>,
    /// The seq up to which the entries of ownership were read to find these IDs.
    pub as_of_seq: u64,
    /// The hashes of the visitor's IDs, by which a table finds the IDs that are only known by their digests.
    pub hashes: Vec<u64>,
    /// The named IDs that are known as texts.
    pub known_ids: Vec<(IdKind, String)>,
}

/// A tombstone in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    /// The site ID.
    pub site: String,
    /// The digest of the erased visitor.
    pub owner: IdTag,
    /// The digests of the named IDs. The tombstones of a cluster leave them out.
    pub named: Vec<IdTag>,
    /// The seq of the tombstone. Later records belong to a new visitor.
    pub seq: u64,
}

/// The results of an erasure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ErasureSummary {
    /// Records that became void.
    pub records: u64,
    /// Records of other visitors that lost an erased ID.
    pub redacted: u64,
    /// Segments that were rewritten.
    pub segments: u64,
    /// The seq of the last tombstone.
    pub seq: u64,
}

#[cfg(feature = "cluster")]
impl ErasureSummary {
    /// Adds the counts of another erasure.
    pub(crate) fn add_counts(&mut self, other: &Self) {
        self.records += other.records;
        self.redacted += other.redacted;
        self.segments += other.segments;
    }
}

/// An error that prevented an erasure or interrupted it.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    /// The visitor has no ID.
    #[error("the visitor has no ID")]
    NoIds,
    /// An event has changed the IDs of the visitor since they were read. Nothing has begun.
    #[error("the IDs of the visitor are changing")]
    Changed,
    /// Another erasure is in progress. There is at most one.
    #[error("another erasure is in progress; retry when it has finished")]
    Busy,
    /// Another process copies the log for a backup.
    #[error("a backup of the data directory is in progress; retry when it has finished")]
    BackupRuns,
    /// The log was stopped.
    #[error("the log was stopped")]
    Stopped,
    /// The log failed. If the erasure has begun, the next erasure or the next start finishes it.
    #[error("{0}; if the erasure has begun, the next erasure or the next start finishes it")]
    Log(#[from] LogError),
}

/// The lock that allows one erasure at a time, and no backup meanwhile. Retention deletes nothing while it is held.
pub(super) struct ErasureLock {
    metrics: Arc<LogMetrics>,
    /// The lock that excludes backups by other processes, when the writer has acquired it.
    backups: OnceLock<Option<FileLock>>,
}

impl ErasureLock {
    /// Acquires the lock. Returns `None` if another erasure holds it.
    pub(super) fn try_acquire(metrics: &Arc<LogMetrics>) -> Option<Arc<Self>> {
        let was_taken = metrics.erasing.swap(true, Ordering::SeqCst);
        (!was_taken).then(|| {
            metrics.generation.advance();
            Arc::new(Self { metrics: Arc::clone(metrics), backups: OnceLock::new() })
        })
    }

    /// Excludes backups until the lock is dropped.
    fn exclude_backups(&self, directory: &LogDirectory) -> Result<(), EraseError> {
        if self.backups.get().is_some() {
            return Ok(());
        }
        let lock = directory.lock_erasures(FileLockMode::Exclusive).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => EraseError::BackupRuns,
            _ => EraseError::Log(LogError::io(&directory.path(SECRET_FILE), error)),
        })?;
        self.backups.get_or_init(|| lock);
        Ok(())
    }
}

impl Drop for ErasureLock {
    fn drop(&mut self) {
        // First, so that the next erasure does not take this lock for that of a backup.
        drop(self.backups.take());
        self.metrics.generation.advance();
        self.metrics.erasing.store(false, Ordering::SeqCst);
    }
}

/// The part of an erasure that the writer is asked for.
#[cfg_attr(
    not(feature = "cluster"),
    expect(dead_code, reason = "only a node of a cluster needs the last two")
)]
pub(super) enum EraseRequest {
    /// Append the tombstones of a visitor, and delete its profiles.
    Begin(VisitorIds),
    /// Continue the erasure that an earlier process did not finish.
    Resume,
    /// Append tombstones for all nodes of a cluster, if the visitor still has these IDs.
    Append(Option<VisitorIds>, Vec<ClusterTombstone>),
    /// End the open segment, so that all records can be rewritten.
    Seal,
}

/// A tombstone for all nodes of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClusterTombstone {
    pub(crate) site: String,
    /// Random bits, so that the tombstone takes effect once.
    pub(crate) key: u128,
    pub(crate) payload: String,
}

/// A command to the writer to begin an erasure, or to finish one that an earlier process began.
pub(super) struct EraseCommand {
    pub(super) request: EraseRequest,
    reply_sender: SyncSender<Result<ErasureStarted, EraseError>>,
    lock: Arc<ErasureLock>,
}

impl std::fmt::Debug for EraseCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EraseCommand")
    }
}

impl EraseCommand {
    /// Excludes backups until the erasure ends.
    ///
    /// # Errors
    /// A backup is in progress, or the disk fails.
    pub(super) fn exclude_backups(&self, directory: &LogDirectory) -> Result<(), EraseError> {
        self.lock.exclude_backups(directory)
    }

    pub(super) fn reply(self, result: Result<ErasureStarted, EraseError>) {
        let Self { reply_sender, lock, request: _ } = self;
        // After an error the lock is released before the reply, so that the receiver can try again.
        let lock = result.is_ok().then_some(lock);
        let result = result.map(|started| ErasureStarted { lock, ..started });
        // If the receiver is gone, the erasure stays unfinished until the next one or the next start.
        let _ = reply_sender.try_send(result);
    }
}

/// An erasure that the writer was asked to begin.
pub struct Erasure {
    started: Receiver<Result<ErasureStarted, EraseError>>,
}

impl Erasure {
    /// Creates an erasure and its command to the writer.
    pub(super) fn new(request: EraseRequest, lock: Arc<ErasureLock>) -> (Self, EraseCommand) {
        let (reply_sender, started) = sync_channel(1);
        (Self { started }, EraseCommand { request, reply_sender, lock })
    }

    /// Waits until the writer has begun the erasure.
    ///
    /// # Errors
    /// The log is stopped, the disk fails, or the IDs of the visitor have changed.
    pub fn begin(self) -> Result<ErasureStarted, EraseError> {
        self.started.recv().map_err(|_| EraseError::Stopped)?
    }
}

/// An erasure after the writer's part: the tombstones are durable, and nothing is written to the segments
/// before them any more. Until [`end`](Self::end) the next start resumes it.
pub struct ErasureStarted {
    directory: LogDirectory,
    /// The first seq after the closed segments.
    next_seq: u64,
    /// The closed segments, and the log clock when each was closed.
    segments: Vec<(SegmentEntry, i64)>,
    options: RewriteOptions,
    known_damage: KnownDamage,
    /// Held until the erasure ends.
    lock: Option<Arc<ErasureLock>>,
}

impl ErasureStarted {
    /// Creates the result. `closed_segments` are those before `next_seq`.
    pub(super) fn new(
        directory: LogDirectory,
        next_seq: u64,
        closed_segments: &VecDeque<ClosedSegment>,
        options: RewriteOptions,
        known_damage: KnownDamage,
    ) -> Self {
        let limits = closed_segments.iter().skip(1).map(|closed| closed.first_seq).chain([next_seq]);
        let entry = |(closed, limit): (&ClosedSegment, u64)| {
            let segment = SegmentEntry {
                named_seq: closed.first_seq,
                first_seq: closed.first_seq,
                created_ms: None,
                void_from_seq: limit,
                log_id: Some(options.log_id),
            };
            (segment, closed.closed_ms)
        };
        let segments = closed_segments.iter().zip(limits).map(entry).collect();
        Self { directory, next_seq, segments, options, known_damage, lock: None }
    }

    /// Returns the first seq after the closed segments, and after appended tombstones.
    #[cfg(feature = "cluster")]
    pub(crate) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    pub(super) fn lock(&self) -> Option<Arc<ErasureLock>> {
        self.lock.clone()
    }

    /// Returns the tombstones of this erasure and of earlier ones that were not finished, one for each
    /// visitor.
    ///
    /// # Errors
    /// The disk fails.
    pub fn tombstones(&self) -> Result<Vec<Tombstone>, LogError> {
        let failed = |error| LogError::io(&self.directory.path(""), error);
        let (begun_at, _) = self.directory.erasing().map_err(failed)?.unwrap_or_default();
        let mut visitors: BTreeMap<(String, IdTag), (u64, BTreeSet<IdTag>)> = BTreeMap::new();
        each_tombstone(&self.directory, begun_at, &mut |seq, record| {
            if let Some(site) = record.site
                && let Some(owner) = tombstone_owner(record)
            {
                let (last_seq, named) = visitors.entry((site.to_owned(), owner)).or_default();
                *last_seq = seq;
                named.extend(tombstone_tags(record));
            }
        })
        .map_err(failed)?;
        let tombstone = |((site, owner), (seq, named)): (_, (_, BTreeSet<_>))| Tombstone {
            site,
            owner,
            named: named.into_iter().collect(),
            seq,
        };
        Ok(visitors.into_iter().map(tombstone).collect())
    }

    /// Changes the records of all earlier segments and of the quarantined tails by a rule. It takes seconds for
    /// gigabytes, so call it on a thread that may block. Reports the damage of the segments that it changes.
    ///
    /// # Errors
    /// The disk fails. Some files may then still hold the visitor's records.
    pub fn rewrite(&self, rule: &mut dyn EraseRule) -> Result<ErasureSummary, LogError> {
        let directory = &self.directory;
        let failed = |error| LogError::io(&directory.path(""), error);
        directory.delete_unfinished_columns().map_err(failed)?;
        delete_expired(directory, self.next_seq, &self.segments).map_err(failed)?;
        let mut erased = ErasureSummary { seq: self.next_seq, ..ErasureSummary::default() };
        for (segment, closed_ms) in &self.segments {
            let failed = |error| LogError::io(&directory.path(&segment.file_name()), error);
            if let Some(counts) = rewrite::rewrite_segment(directory, segment, *closed_ms, rule, self.options)
                .map_err(failed)?
            {
                erased.records += counts.voided;
                erased.redacted += counts.redacted;
                erased.segments += 1;
                if counts.has_damage {
                    let damage = check_closed(directory, segment.first_seq, segment.void_from_seq)?;
                    damage.iter().for_each(|damage| damage.report_to(&self.known_damage));
                }
            }
        }
        for name in directory.quarantined_files().map_err(failed)? {
            let failed = |error| LogError::io(&directory.path(&name), error);
            rewrite::rewrite_quarantined(directory, &name, rule, self.options).map_err(failed)?;
        }
        Ok(erased)
    }

    /// Records durably that the erasure is finished.
    ///
    /// # Errors
    /// The disk fails.
    pub fn end(&self) -> Result<(), LogError> {
        self.directory.end_erasure().map_err(|error| LogError::io(&self.directory.path(""), error))
    }
}

/// Deletes segments before the tombstone that retention has expired but failed to delete.
fn delete_expired(
    directory: &LogDirectory,
    end_seq: u64,
    segments: &[(SegmentEntry, i64)],
) -> io::Result<()> {
    let OldestSeq::Seq(oldest) = directory.oldest()? else { return Ok(()) };
    let is_kept = |first_seq: u64| segments.iter().any(|(segment, _)| segment.first_seq == first_seq);
    let is_expired = |first_seq: &u64| *first_seq < end_seq.min(oldest) && !is_kept(*first_seq);
    let mut expired = directory.segments()?.into_iter().filter(is_expired);
    expired.try_for_each(|first_seq| directory.delete_segment(first_seq))
}
