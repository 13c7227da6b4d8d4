//! Erases a visitor: the steps after the request, and after a start that finds an unfinished erasure.
//!
//! 1. The writer begins: it appends tombstones and drops the profiles that they name.
//! 2. A checkpoint is made. It has all entries of ownership, so that a crash during the next step loses none:
//!    the records that made them become void.
//! 3. The earlier segments are rewritten.
//! 4. A checkpoint without the visitor and its entries replaces all others.
//! 5. The marker file is deleted.
//!
//! After a crash in any step the next start repeats steps 2 to 5 for all tombstones since the marker.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::checkpoint::{CheckpointMetrics, CheckpointRequest};
use super::ownership::{OwnershipError, OwnershipRule, OwnershipSource, Relation};
use crate::clock;
use crate::log::{
    EraseError, ErasureStarted, ErasureSummary, LogItem, Queue, Tombstone, VisitorIds, may_have_erased,
};
use crate::record::{IdKind, IdTag, VisitorId};

/// Time limit for a checkpoint: enough for 4 GiB at 100 MB/s and a second try. After it the erasure fails, and
/// the client has to retry.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(100);
/// Poll interval while an erasure waits for a checkpoint.
const CHECKPOINT_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Attempts to erase a visitor whose IDs change between their look-up and the tombstone. A look-up takes some
/// milliseconds, or seconds with 10 million ties. After these attempts the request fails, and the client has to retry.
const ERASE_ATTEMPTS_MAX: u32 = 20;
/// Pause between two looks whether the log can be written. It is a sleep on the thread of the resumed erasure: no
/// client waits for it, and a signal of the writer's recovery would serve this thread alone.
const DISK_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Time limit for a backup that is in progress when an erasure is requested. It holds the lock while it copies the
/// checkpoints and the newest segments, which takes seconds. After it the request fails, and the client has to retry.
const BACKUP_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause between two attempts to begin an erasure while a backup is in progress. It is another process, which sends no
/// signal when it has finished.
const BACKUP_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// An error that ended an erasure before its end.
#[derive(Debug, thiserror::Error)]
pub enum ErasureError {
    /// The log refused the erasure or failed.
    #[error("{0}")]
    Log(#[from] EraseError),
    /// The entries of ownership cannot be read.
    #[error("{0}")]
    Ownership(#[from] OwnershipError),
    /// The log has no tombstone of the erasure, so nothing was erased.
    #[error("the log has no tombstone of the erasure, so nothing was erased")]
    NotBegun,
    /// No checkpoint could be written in time.
    #[error("no checkpoint was written in 100 s; check the disk, then send the request again")]
    Checkpoint,
}

/// The result of an erasure on all nodes of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ErasedInCluster {
    /// The result on this node.
    pub(crate) summary: ErasureSummary,
    /// The names of the nodes that have not confirmed it yet.
    pub(crate) pending: Vec<String>,
}

/// The reason why a visitor was not erased on all nodes of a cluster.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(
    not(feature = "cluster"),
    expect(dead_code, reason = "only a node of a cluster can fail in these ways")
)]
pub(crate) enum ClusterErasureError {
    /// Members are away. Nothing was erased.
    #[error(
        "no heartbeat of the nodes {0} has arrived for 30 s, and this request erased nothing; start them, or run `parallax cluster forget NODE` if they will not return"
    )]
    Unreachable(String),
    /// This node is not connected with the stream. Nothing was erased.
    #[error("this node is not connected with the stream ({0}), and this request erased nothing")]
    Alone(String),
    /// The tombstone is in the own log.
    #[error("the tombstone is recorded, but this node has not finished the erasure in 60 s; it goes on")]
    Timeout,
    /// The log or the disk failed.
    #[error(transparent)]
    Erasure(#[from] ErasureError),
}

impl From<EraseError> for ClusterErasureError {
    fn from(error: EraseError) -> Self {
        Self::Erasure(error.into())
    }
}

impl From<OwnershipError> for ClusterErasureError {
    fn from(error: OwnershipError) -> Self {
        Self::Erasure(error.into())
    }
}

/// Erases visitors on all nodes of a cluster.
pub(crate) trait ClusterErasure: Send + Sync {
    /// Erases the visitor that an ID names, on this node, and waits for a short time for the other ones.
    /// `profile_ids` are the IDs in the visitor's profile. Call it on a thread that may block.
    ///
    /// # Errors
    /// A member is away, or the log fails.
    fn erase(
        &self,
        visitor_id: VisitorId<'_>,
        profile_ids: Vec<(IdKind, String)>,
    ) -> Result<ErasedInCluster, ClusterErasureError>;

    /// Returns the names of the nodes that have not confirmed an earlier erasure of the visitor. `None` if no erasure of the
    /// visitor waits, or if that is not known. Call it on a thread that may block.
    fn pending(&self, visitor_id: VisitorId<'_>) -> Option<Vec<String>>;

    /// Returns the last position of the stream that the profiles contain.
    fn position(&self) -> u64;
}

/// The visitor of a request.
struct Requested {
    site: String,
    owner: IdTag,
    /// The hashes of the visitor's IDs. A tombstone has none, and without a tie nothing else has them.
    hashes: Vec<u64>,
}

impl Requested {
    fn is_of(&self, tombstone: &Tombstone) -> bool {
        (&self.site, self.owner) == (&tombstone.site, tombstone.owner)
    }
}

/// The result of an attempt to finish the erasures that have begun.
enum Finished {
    Complete(ErasureSummary),
    /// An earlier process failed between two batches of tombstones. The visitor with these IDs needs new ones.
    Unnamed(VisitorIds),
}

/// The parts of a running log that an erasure needs.
#[derive(Clone)]
pub struct Eraser {
    /// The queue of the log writer.
    pub log: Queue,
    /// The entries of ownership.
    pub source: OwnershipSource,
    /// The state of the checkpoints.
    pub checkpoints: Arc<CheckpointMetrics>,
}

impl Eraser {
    /// Erases the visitor that an ID names. `profile_ids` are the IDs in the visitor's profile, if there is
    /// one. Call it on a thread that may block.
    ///
    /// # Errors
    /// The disk fails or another erasure runs. If the erasure has begun, the next erasure or the next start
    /// finishes it.
    pub fn erase(
        &self,
        visitor_id: VisitorId<'_>,
        profile_ids: Vec<(IdKind, String)>,
    ) -> Result<ErasureSummary, ErasureError> {
        let begun = clock::instant();
        let mut attempts = 1;
        loop {
            let ownership = self.source.open()?;
            let ids = ownership.erased_ids(&ownership.visitor(visitor_id)?, profile_ids.clone());
            let requested =
                Requested { site: ids.site.clone(), owner: ids.owner, hashes: ids.hashes.clone() };
            match self.log.erase(ids)?.begin() {
                Err(EraseError::Changed) if attempts < ERASE_ATTEMPTS_MAX => attempts += 1,
                Err(EraseError::BackupRuns) if clock::instant().duration_since(begun) < BACKUP_TIMEOUT => {
                    thread::sleep(BACKUP_POLL_INTERVAL);
                }
                started => return self.complete(started?, Some(&requested)),
            }
        }
    }

    /// Returns whether the log may have something of an ID: a tie, a record, a tombstone, or damage that hides one. It reads
    /// the segments whose filters may have the ID. Call it on a thread that may block.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn knows(&self, visitor_id: VisitorId<'_>) -> Result<bool, ErasureError> {
        let ownership = self.source.open()?;
        let OwnershipSource { disk, directory, .. } = &self.source;
        let visitor = ownership.visitor(visitor_id)?;
        if visitor.has_ties() {
            return Ok(true);
        }
        let last = self.log.metrics().last_seq();
        let reader = self.source.reader(0).map_err(OwnershipError::from)?;
        let mut reader = reader.with_durable_seq(last).with_filter(visitor.segment_filter());
        let mut rule = OwnershipRule::new(&ownership, vec![visitor]);
        while let Some(item) = reader.read_next().map_err(OwnershipError::from)? {
            let LogItem::Records(records) = item else { return Ok(true) };
            for (seq, record) in records.iter() {
                if rule.relation(seq, &record)? != Relation::Unrelated {
                    return Ok(true);
                }
            }
        }
        Ok(may_have_erased(Arc::clone(disk), directory, ownership.key(), visitor_id)
            .map_err(OwnershipError::from)?)
    }

    /// Finishes the erasure that an earlier process began, as soon as the log can be written. Returns `None` if the
    /// process ended before the tombstone was durable: nothing was erased, and only the marker is deleted.
    ///
    /// # Errors
    /// As for [`erase`](Self::erase).
    pub fn resume(&self) -> Result<Option<ErasureSummary>, ErasureError> {
        while !self.log.metrics().is_available() {
            thread::sleep(DISK_POLL_INTERVAL);
        }
        let started = loop {
            match self.log.resume_erasure()?.begin() {
                Err(EraseError::BackupRuns) => thread::sleep(DISK_POLL_INTERVAL),
                started => break started?,
            }
        };
        if started.tombstones().map_err(EraseError::from)?.is_empty() {
            started.end().map_err(EraseError::from)?;
            return Ok(None);
        }
        self.complete(started, None).map(Some)
    }

    /// Finishes all erasures that have begun. `requested_visitor` is the visitor of this request.
    fn complete(
        &self,
        mut erasure: ErasureStarted,
        requested_visitor: Option<&Requested>,
    ) -> Result<ErasureSummary, ErasureError> {
        let mut attempts = 1;
        loop {
            match self.finish(&erasure, requested_visitor)? {
                Finished::Complete(summary) => return Ok(summary),
                Finished::Unnamed(ids) => match self.log.continue_erasure(&erasure, ids)?.begin() {
                    Err(EraseError::Changed) if attempts < ERASE_ATTEMPTS_MAX => attempts += 1,
                    continued => erasure = continued?,
                },
            }
        }
    }

    /// Finishes the erasures, unless tombstones are missing.
    fn finish(
        &self,
        erasure: &ErasureStarted,
        requested_visitor: Option<&Requested>,
    ) -> Result<Finished, ErasureError> {
        let tombstones = erasure.tombstones().map_err(EraseError::from)?;
        let is_begun = |requested: &Requested| tombstones.iter().any(|tombstone| requested.is_of(tombstone));
        let seq = tombstones.iter().map(|tombstone| tombstone.seq).max();
        let seq = seq.filter(|_| requested_visitor.is_none_or(is_begun)).ok_or(ErasureError::NotBegun)?;
        self.wait_for(self.checkpoints.request())?;
        let ownership = self.source.open()?;
        let visitors = tombstones.iter().map(|tombstone| {
            let requested = requested_visitor.filter(|requested| requested.is_of(tombstone));
            ownership.erased_visitor(tombstone, requested.map(|requested| &*requested.hashes))
        });
        let visitors = visitors.collect::<Result<Vec<_>, _>>()?;
        if let Some(visitor) = visitors.iter().find(|visitor| visitor.has_unnamed_ids()) {
            return Ok(Finished::Unnamed(ownership.erased_ids(visitor, Vec::new())));
        }
        let mut rule = OwnershipRule::new(&ownership, visitors);
        let summary = erasure.rewrite(&mut rule).map_err(EraseError::from)?;
        rule.into_error().map_or(Ok(()), Err)?;
        for tombstone in &tombstones {
            self.source.known.forget(tombstone.owner, tombstone.seq);
        }
        self.wait_for(self.checkpoints.request_replacement())?;
        erasure.end().map_err(EraseError::from)?;
        Ok(Finished::Complete(ErasureSummary { seq, ..summary }))
    }

    pub(crate) fn wait_for(&self, request: CheckpointRequest) -> Result<(), ErasureError> {
        self.log.wake_writer();
        let begun = clock::instant();
        while !self.checkpoints.is_fulfilled(request) {
            if clock::instant().duration_since(begun) > CHECKPOINT_TIMEOUT {
                return Err(ErasureError::Checkpoint);
            }
            thread::sleep(CHECKPOINT_POLL_INTERVAL);
        }
        Ok(())
    }
}
