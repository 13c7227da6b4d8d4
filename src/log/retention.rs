//! Retention: decides how many of the oldest closed segments to delete, and deletes them.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Options;
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
                self.note_result(&retained);
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
            expired_count(&self.closed, active.1, &self.options, self.log_clock.now_ms()).min(candidates);
        let count = unneeded_count(&self.closed, self.consumer.checkpointed_seq(), active.0).min(wanted);
        if count < wanted {
            self.consumer.on_retention_blocked();
        }
        self.delete_first(count, active.0)
    }

    /// Deletes the first `count` closed segments. `next_seq` is the first seq after all closed segments. The
    /// file `oldest` records the deletion durably before any segment is deleted.
    fn delete_first(&mut self, count: usize, next_seq: u64) -> io::Result<()> {
        if count == 0 {
            return Ok(());
        }
        let first_seq = self.closed[0].first_seq;
        let oldest = self.closed.get(count).map_or(next_seq, |closed| closed.first_seq);
        self.directory.check_identity()?;
        self.directory.set_oldest(oldest)?;
        let bytes: u64 = self.closed.iter().take(count).map(|closed| closed.bytes).sum();
        let expired = self.closed.drain(..count);
        let removed: Vec<io::Result<()>> =
            expired.map(|closed| self.directory.delete_segment(closed.first_seq)).collect();
        self.metrics.deleted_segments.fetch_add(count as u64, Ordering::Relaxed);
        tracing::info!(
            segments = count,
            first_seq,
            last_seq = oldest - 1,
            bytes,
            "retention deleted segments"
        );
        removed.into_iter().collect()
    }
}

/// Returns how many of the oldest closed segments have expired, by age or by the size of all segments. The
/// size includes `active_bytes`. `now_ms` is the log clock.
pub(super) fn expired_count(
    closed: &VecDeque<ClosedSegment>,
    active_bytes: u64,
    options: &Options,
    now_ms: i64,
) -> usize {
    let mut bytes = active_bytes + closed.iter().map(|closed| closed.bytes).sum::<u64>();
    let goes = |closed: &&ClosedSegment| {
        let age_ms = now_ms.saturating_sub(closed.closed_ms);
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
