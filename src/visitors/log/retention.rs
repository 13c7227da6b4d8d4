//! Retention: decides how many of the oldest closed segments to delete, and deletes them.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Options;
use super::directory::LogDirectory;
use super::recover::ClosedSegment;
use super::writer::LogWriter;
use crate::limits::{RETAIN_MS_MIN, RETENTION_INTERVAL_MS};

impl LogWriter {
    pub(super) fn has_retention(&self) -> bool {
        self.options.retain_ms.is_some() || self.options.retain_bytes.is_some()
    }

    pub(super) fn apply_retention_if_due(&mut self) {
        let now = self.clock.monotonic();
        if self.has_retention() && now >= self.retention_at {
            self.retention_at = now + Duration::from_millis(RETENTION_INTERVAL_MS);
            // Delete nothing during an erasure: the rename of a rewritten segment would restore a deleted
            // one.
            if !self.metrics.erasing.load(Ordering::SeqCst) {
                let retained = self.apply_retention();
                self.count_error(&retained);
            }
        }
    }

    fn apply_retention(&mut self) -> io::Result<()> {
        let active =
            self.active.as_ref().map_or((self.durable_seq + 1, 0), |a| (a.first_seq(), a.file_bytes()));
        // While the disk is unavailable, the last closed segment may hold batches that the next segment must
        // repeat.
        let candidates = self.closed.len() - usize::from(self.active.is_none() && !self.closed.is_empty());
        let wanted =
            expired_count(&self.closed, active.1, &self.options, self.clock.now_ms()).min(candidates);
        let count = unneeded_count(&self.closed, self.consumer.checkpointed_seq(), active.0).min(wanted);
        if count < wanted {
            self.consumer.on_retention_blocked();
        }
        delete_first(&self.directory, &mut self.closed, count, active.0)
    }
}

/// Returns how many of the oldest closed segments have expired, by age or by the size of all segments. The
/// size includes `active_bytes`.
pub(super) fn expired_count(
    closed: &VecDeque<ClosedSegment>,
    active_bytes: u64,
    options: &Options,
    now_ms: i64,
) -> usize {
    let mut bytes = active_bytes + closed.iter().map(|closed| closed.bytes).sum::<u64>();
    let goes = |closed: &&ClosedSegment| {
        let age_ms = now_ms.saturating_sub(closed.newest_ms.unwrap_or(i64::MIN));
        let is_old = options.retain_ms.is_some_and(|retain_ms| age_ms > retain_ms);
        let is_much = options.retain_bytes.is_some_and(|retain_bytes| bytes > retain_bytes);
        bytes -= closed.bytes;
        is_old || (is_much && age_ms > RETAIN_MS_MIN)
    };
    closed.iter().take_while(goes).count()
}

/// Returns how many of the oldest closed segments hold no record after `covered`. The consumer needs only
/// records after that seq. `next_seq` is the first seq after all closed segments.
pub(super) fn unneeded_count(closed: &VecDeque<ClosedSegment>, covered: u64, next_seq: u64) -> usize {
    let nexts = closed.iter().skip(1).map(|closed| closed.first_seq).chain([next_seq]);
    nexts.take_while(|next| next.saturating_sub(1) <= covered).count()
}

/// Deletes the first `count` closed segments. `next_seq` is the first seq after all closed segments. The file
/// `oldest` records the deletion durably before any segment is deleted.
pub(super) fn delete_first(
    directory: &LogDirectory,
    closed: &mut VecDeque<ClosedSegment>,
    count: usize,
    next_seq: u64,
) -> io::Result<()> {
    if count == 0 {
        return Ok(());
    }
    directory.set_oldest(closed.get(count).map_or(next_seq, |closed| closed.first_seq))?;
    let removed: Vec<io::Result<()>> =
        closed.drain(..count).map(|closed| directory.delete_segment(closed.first_seq)).collect();
    removed.into_iter().collect()
}
