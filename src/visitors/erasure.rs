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
use super::log::bloom::IdKind;
use super::log::{EraseError, ErasureStarted, ErasureSummary, Queue, VisitorIds};
use super::ownership::{OwnershipError, OwnershipRule, OwnershipSource};
use crate::clock;

/// Time limit for a checkpoint: enough for 4 GiB at 100 MB/s and a second try. After it the erasure fails, and
/// the client has to retry.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(100);
/// Poll interval while an erasure waits for a checkpoint.
const CHECKPOINT_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// An error that ended an erasure before its end.
#[derive(Debug, thiserror::Error)]
pub enum ErasureError {
    /// The log refused the erasure or failed.
    #[error("{0}")]
    Log(#[from] EraseError),
    /// The entries of ownership cannot be read.
    #[error("{0}")]
    Ownership(#[from] OwnershipError),
    /// No checkpoint could be written in time.
    #[error("no checkpoint was written in 100 s; check the disk, then send the request again")]
    Checkpoint,
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
        site: &str,
        (id_kind, id): (IdKind, &str),
        profile_ids: Vec<(IdKind, String)>,
    ) -> Result<ErasureSummary, ErasureError> {
        let ownership = self.source.open()?;
        let visitor = ownership.visitor(site, id_kind, id)?;
        let named = visitor.named();
        let mut known_ids = profile_ids;
        known_ids.retain(|(id_kind, id)| named.contains(&ownership.tag(site, *id_kind, id)));
        let ids = VisitorIds {
            site: site.to_owned(),
            owner: visitor.owner(),
            named,
            hashes: visitor.hashes().into_iter().flatten().copied().collect(),
            known_ids,
        };
        let started = self.log.erase(ids)?.begin()?;
        self.complete(&started)
    }

    /// Finishes the erasure that an earlier process began.
    ///
    /// # Errors
    /// As for [`erase`](Self::erase).
    pub fn resume(&self) -> Result<ErasureSummary, ErasureError> {
        let started = self.log.resume_erasure()?.begin()?;
        self.complete(&started)
    }

    fn complete(&self, started: &ErasureStarted) -> Result<ErasureSummary, ErasureError> {
        let tombstones = started.tombstones().map_err(EraseError::from)?;
        let Some(seq) = tombstones.iter().map(|tombstone| tombstone.seq).max() else {
            // The process ended before the tombstone was durable, so nothing was erased.
            started.end().map_err(EraseError::from)?;
            return Ok(ErasureSummary::default());
        };
        self.wait_for(self.checkpoints.request())?;
        let ownership = self.source.open()?;
        let visitors = tombstones
            .iter()
            .map(|tombstone| ownership.erased_visitor(&tombstone.site, tombstone.owner, tombstone.seq));
        let mut rule = OwnershipRule::new(&ownership, visitors.collect::<Result<_, _>>()?);
        let summary = started.rewrite(&mut rule).map_err(EraseError::from)?;
        rule.into_error().map_or(Ok(()), Err)?;
        for tombstone in &tombstones {
            self.source.known.forget(tombstone.owner, tombstone.seq);
        }
        self.wait_for(self.checkpoints.request_replacement())?;
        started.end().map_err(EraseError::from)?;
        Ok(ErasureSummary { seq, ..summary })
    }

    fn wait_for(&self, request: CheckpointRequest) -> Result<(), ErasureError> {
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
