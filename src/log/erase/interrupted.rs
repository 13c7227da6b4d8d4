//! The erasure that a killed process has left, from the file `erasing` and the tombstones of the log.

use std::io;

use super::super::directory::LogDirectory;
use super::each_tombstone;

/// An erasure that was interrupted, or that runs now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterruptedErasure {
    /// The seq that its first tombstone has or was to have. 0 if the file `erasing` has none.
    pub seq: u64,
    /// The time of the request by the wall clock, in milliseconds. `None` if an earlier release wrote the file.
    pub requested_ms: Option<i64>,
    /// True if the log has its tombstone. Otherwise nothing was erased, and nothing will be.
    pub is_begun: bool,
}

impl InterruptedErasure {
    /// Finds the erasure that the file `erasing` of a directory names.
    ///
    /// # Errors
    /// The disk fails.
    pub(in super::super) fn find(directory: &LogDirectory) -> io::Result<Option<Self>> {
        let Some((seq, requested_ms)) = directory.erasing()? else { return Ok(None) };
        let mut is_begun = false;
        each_tombstone(directory, seq, &mut |_, _| is_begun = true)?;
        Ok(Some(Self { seq, requested_ms, is_begun }))
    }
}
