//! Erasure of a visitor from the log: the writer's part, and the longer part on the requesting thread.
//!
//! When [`Erasure::finish`] returns, no file of the log holds one of the visitor's IDs or any content of
//! their records. [`super::format`] specifies the steps and the states that a crash between them leaves.

mod redact;
mod rewrite;
pub(super) mod secret;

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use self::rewrite::{EraseTarget, Eraser};
use self::secret::{IdDigest, TombstoneKey, tombstone_digests};
use super::bloom::IdKind;
use super::directory::{LogDirectory, OldestSeq};
use super::metrics::LogMetrics;
use super::record::RecordKind;
use super::recover::ClosedSegment;
use super::scan::{BatchScanner, ScanItem};
use super::verify::SegmentEntry;
use super::{LogError, LogId};
use crate::limits::ERASED_IDS_MAX;

/// The IDs of the visitor to erase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisitorIds {
    /// The site ID.
    pub site: String,
    /// The ID that owns the erased records: the user, or the anonymous ID of a visitor without a user.
    pub owner: (IdKind, String),
    /// All IDs by which the site knows the visitor, at most [`ERASED_IDS_MAX`].
    pub ids: Vec<(IdKind, String)>,
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

/// An error that prevented an erasure or interrupted it.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    /// There are no IDs, or too many.
    #[error("the visitor has {0} IDs, but one erasure accepts 1 to {ERASED_IDS_MAX}")]
    Ids(usize),
    /// Another erasure is in progress. There is at most one.
    #[error("another erasure is in progress; retry when it has finished")]
    Busy,
    /// The log was stopped.
    #[error("the log was stopped")]
    Stopped,
    /// The log failed. If the erasure has begun, the next erasure or the next start finishes it.
    #[error("{0}; if the erasure has begun, the next erasure or the next start finishes it")]
    Log(#[from] LogError),
}

/// The lock that allows one erasure at a time. Retention deletes nothing while it is held.
pub(super) struct ErasureLock(Arc<LogMetrics>);

impl ErasureLock {
    /// Acquires the lock. Returns `None` if another erasure holds it.
    pub(super) fn try_acquire(figures: &Arc<LogMetrics>) -> Option<Arc<Self>> {
        let was_taken = figures.erasing.swap(true, Ordering::SeqCst);
        (!was_taken).then(|| Arc::new(Self(Arc::clone(figures))))
    }
}

impl Drop for ErasureLock {
    fn drop(&mut self) {
        self.0.erasing.store(false, Ordering::SeqCst);
    }
}

/// A command to the writer to begin an erasure.
pub(super) struct EraseCommand {
    pub(super) visitor: Arc<VisitorIds>,
    reply_sender: SyncSender<Result<ErasureStarted, LogError>>,
    _lock: Arc<ErasureLock>,
}

impl std::fmt::Debug for EraseCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Order")
    }
}

impl EraseCommand {
    pub(super) fn reply(self, begun: Result<ErasureStarted, LogError>) {
        // If the receiver is gone, the erasure stays unfinished until the next one or the next start.
        let _ = self.reply_sender.try_send(begun);
    }
}

/// The writer's part of an erasure: the tombstone is durable, and nothing is written to these segments any
/// more.
pub(super) struct ErasureStarted {
    directory: LogDirectory,
    secret: TombstoneKey,
    /// The seqs of the first and the last tombstone.
    seqs: (u64, u64),
    segments: Vec<SegmentEntry>,
    keep_keys_after_ms: i64,
    log_id: LogId,
    /// Whether an earlier erasure failed before its end. This one then finishes it.
    resumes_earlier: bool,
}

impl ErasureStarted {
    /// Creates the result. `closed` are the segments before the tombstones, and `seqs` are the seqs of the first
    /// and the last tombstone.
    pub(super) fn new(
        directory: LogDirectory,
        secret: TombstoneKey,
        seqs: (u64, u64),
        closed: &VecDeque<ClosedSegment>,
        keep_keys_after_ms: i64,
        log_id: LogId,
        resumes_earlier: bool,
    ) -> Self {
        let limits = closed.iter().skip(1).map(|closed| closed.first_seq).chain([seqs.0]);
        let place = |(closed, limit): (&ClosedSegment, u64)| SegmentEntry {
            named_seq: closed.first_seq,
            first_seq: closed.first_seq,
            void_from_seq: limit,
            log_id: Some(log_id),
        };
        let segments = closed.iter().zip(limits).map(place).collect();
        Self { directory, secret, seqs, segments, keep_keys_after_ms, log_id, resumes_earlier }
    }
}

/// An erasure that the writer was asked to begin.
pub struct Erasure {
    visitor: Arc<VisitorIds>,
    started: Receiver<Result<ErasureStarted, LogError>>,
    _lock: Arc<ErasureLock>,
}

impl Erasure {
    /// Creates an erasure and its command to the writer.
    pub(super) fn new(visitor: VisitorIds, turn: Arc<ErasureLock>) -> (Self, EraseCommand) {
        let (answer, begun) = sync_channel(1);
        let visitor = Arc::new(visitor);
        let order =
            EraseCommand { visitor: Arc::clone(&visitor), reply_sender: answer, _lock: Arc::clone(&turn) };
        (Self { visitor, started: begun, _lock: turn }, order)
    }

    /// Waits for the writer, then removes the visitor from every file. It takes seconds for gigabytes, so
    /// call it on a thread that may block.
    ///
    /// # Errors
    /// The log is stopped or the disk fails. Some files may then still hold the visitor's records.
    pub fn finish(self) -> Result<ErasureSummary, EraseError> {
        let begun = self.started.recv().map_err(|_| EraseError::Stopped)??;
        let ErasureStarted { directory, secret, seqs: (first, seq), segments: places, .. } = &begun;
        let target = if begun.resumes_earlier {
            let mut tombstones = tombstones(directory, places)?;
            let names =
                self.visitor.ids.iter().map(|(id_kind, id)| secret.digest(&self.visitor.site, *id_kind, id));
            tombstones.extend(names.map(|name| (name, *first)));
            EraseTarget::Tombstones { secret, tombstones }
        } else {
            EraseTarget::of_visitor(&self.visitor)
        };
        let failed = |error| LogError::io(&directory.path(""), error);
        delete_expired(directory, *first, places).map_err(failed)?;
        let (keep_keys_after_ms, log_id) = (begun.keep_keys_after_ms, begun.log_id);
        let eraser = Eraser { target, keep_keys_after_ms, log_id };
        let erased = ErasureSummary { seq: *seq, ..rewrite_files(directory, places, &eraser)? };
        directory.end_erasure().map_err(failed)?;
        Ok(erased)
    }
}

/// Finishes an interrupted erasure in all of `places` except the last one, which may still change. The caller
/// ends the erasure after it has made the other records of the directory durable.
pub(super) fn resume(
    directory: &LogDirectory,
    places: &[SegmentEntry],
    keep_keys_after_ms: i64,
    log_id: LogId,
) -> Result<ResumeOutcome, LogError> {
    let Some((_, written)) = places.split_last() else { return Ok(ResumeOutcome::NoTombstone) };
    let tombstones = tombstones(directory, places)?;
    let Some(&seq) = tombstones.values().max() else { return Ok(ResumeOutcome::NoTombstone) };
    let secret = match TombstoneKey::load(directory) {
        Ok(Some(secret)) => secret,
        Ok(None) => return Ok(ResumeOutcome::KeyUnavailable),
        Err(error) if error.kind() == ErrorKind::InvalidData => return Ok(ResumeOutcome::KeyUnavailable),
        Err(error) => return Err(LogError::io(&directory.path(""), error)),
    };
    let target = EraseTarget::Tombstones { secret: &secret, tombstones };
    let erased = rewrite_files(directory, written, &Eraser { target, keep_keys_after_ms, log_id })?;
    Ok(ResumeOutcome::Finished(ErasureSummary { seq, ..erased }))
}

/// The outcome of resuming an interrupted erasure.
pub(super) enum ResumeOutcome {
    /// The erasure had no tombstone yet, so there was nothing to finish.
    NoTombstone,
    Finished(ErasureSummary),
    /// The key is missing or damaged, so nothing can tell which IDs the tombstones name.
    KeyUnavailable,
}

fn rewrite_files(
    directory: &LogDirectory,
    places: &[SegmentEntry],
    eraser: &Eraser<'_>,
) -> Result<ErasureSummary, LogError> {
    let mut erased = ErasureSummary::default();
    for place in places {
        let failed = |error| LogError::io(&directory.path(&place.file_name()), error);
        if let Some(counts) = rewrite::rewrite_segment(directory, place, eraser).map_err(failed)? {
            erased.records += counts.voided;
            erased.redacted += counts.redacted;
            erased.segments += 1;
        }
    }
    for name in directory.quarantined_files().map_err(|error| LogError::io(&directory.path(""), error))? {
        let failed = |error| LogError::io(&directory.path(&name), error);
        rewrite::rewrite_quarantined(directory, &name, eraser).map_err(failed)?;
    }
    Ok(erased)
}

/// Deletes segments before the tombstone that retention has expired but failed to delete.
fn delete_expired(directory: &LogDirectory, seq: u64, places: &[SegmentEntry]) -> io::Result<()> {
    let OldestSeq::Seq(oldest) = directory.oldest()? else { return Ok(()) };
    let is_kept = |first_seq: u64| places.iter().any(|place| place.first_seq == first_seq);
    let left = directory.segments()?.into_iter().filter(|&first| first < seq.min(oldest) && !is_kept(first));
    left.into_iter().try_for_each(|first_seq| directory.delete_segment(first_seq))
}

/// Returns the greatest seq of a tombstone for each digest.
fn tombstones(directory: &LogDirectory, places: &[SegmentEntry]) -> Result<HashMap<IdDigest, u64>, LogError> {
    let mut tombstones = HashMap::new();
    for place in places {
        let failed = |error| LogError::io(&directory.path(&place.file_name()), error);
        let file = directory.open_file(&place.file_name()).map_err(failed)?;
        let end = file.length().map_err(failed)?;
        let mut scan = BatchScanner::new(file, end);
        while let Some(item) = scan.next().map_err(failed)? {
            let ScanItem::Batch { batch, .. } = item else { continue };
            for (seq, record) in batch.records.before_seq(place.void_from_seq).iter() {
                if record.kind == RecordKind::Tombstone {
                    tombstones.extend(tombstone_digests(&record).map(|name| (name, seq)));
                }
            }
        }
    }
    Ok(tombstones)
}
