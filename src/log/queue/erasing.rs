//! Sends the commands of an erasure to the log writer.

use std::sync::Arc;

#[cfg(feature = "cluster")]
use super::super::erase::ClusterTombstone;
use super::super::erase::{EraseError, EraseRequest, Erasure, ErasureLock, ErasureStarted, VisitorIds};
use super::Queue;

impl Queue {
    /// Asks the writer to begin the erasure of a visitor.
    ///
    /// # Errors
    /// The command was rejected and nothing has begun.
    pub fn erase(&self, visitor: VisitorIds) -> Result<Erasure, EraseError> {
        self.send_erase_command(EraseRequest::Begin(visitor), self.lock_erasure()?)
    }

    /// Asks the writer to append the tombstones of a visitor in the erasure that `erasure` describes.
    ///
    /// # Errors
    /// The command was rejected and nothing has begun.
    pub(crate) fn continue_erasure(
        &self,
        erasure: &ErasureStarted,
        visitor: VisitorIds,
    ) -> Result<Erasure, EraseError> {
        let lock = erasure.lock().ok_or(EraseError::Busy)?;
        self.send_erase_command(EraseRequest::Begin(visitor), lock)
    }

    /// Asks the writer to continue the erasure that an earlier process did not finish.
    ///
    /// # Errors
    /// The command was rejected.
    pub fn resume_erasure(&self) -> Result<Erasure, EraseError> {
        self.send_erase_command(EraseRequest::Resume, self.lock_erasure()?)
    }

    /// Asks the writer to append tombstones for all nodes of a cluster, if `visitor` still has its IDs.
    ///
    /// # Errors
    /// The command was rejected.
    #[cfg(feature = "cluster")]
    pub(crate) fn append_tombstones(
        &self,
        visitor: Option<VisitorIds>,
        tombstones: Vec<ClusterTombstone>,
    ) -> Result<Erasure, EraseError> {
        self.send_erase_command(EraseRequest::Append(visitor, tombstones), self.lock_erasure()?)
    }

    /// Asks the writer to end the open segment, so that all records up to now can be rewritten.
    ///
    /// # Errors
    /// The command was rejected.
    #[cfg(feature = "cluster")]
    pub(crate) fn seal_for_erasure(&self) -> Result<Erasure, EraseError> {
        self.send_erase_command(EraseRequest::Seal, self.lock_erasure()?)
    }

    fn lock_erasure(&self) -> Result<Arc<ErasureLock>, EraseError> {
        ErasureLock::try_acquire(self.metrics()).ok_or(EraseError::Busy)
    }

    fn send_erase_command(
        &self,
        request: EraseRequest,
        lock: Arc<ErasureLock>,
    ) -> Result<Erasure, EraseError> {
        if let EraseRequest::Begin(visitor) = &request
            && visitor.named.is_empty()
        {
            return Err(EraseError::NoIds);
        }
        let (erasure, command) = Erasure::new(request, lock);
        if !self.send_erase(command) {
            return Err(EraseError::Stopped);
        }
        Ok(erasure)
    }
}
