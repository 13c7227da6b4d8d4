//! The mark of an idle writer: an empty batch that states the durable seq, so that readers see the last records.

use std::time::Duration;

use super::format::{BATCH_HEADER_BYTES, begin_batch, end_batch};
use super::writer::LogWriter;
use crate::limits::WATERMARK_AFTER_MS;

impl LogWriter {
    pub(super) fn needs_mark(&self) -> bool {
        self.unsynced.is_empty()
            && self.active.as_ref().is_some_and(|active| active.durable_watermark() < self.durable_seq)
    }

    pub(super) fn mark_due(&self) -> Duration {
        self.written_at + Duration::from_millis(WATERMARK_AFTER_MS)
    }

    /// Writes a mark, which states the durable seq, if no request has arrived for a while.
    pub(super) fn write_mark_if_idle(&mut self) {
        if !self.needs_mark()
            || self.clock.monotonic() < self.mark_due()
            || self.receiver.queued_requests() > 0
        {
            return;
        }
        let mut mark = Vec::with_capacity(BATCH_HEADER_BYTES);
        let start = begin_batch(&mut mark);
        end_batch(&mut mark, start, self.next_seq, 0, self.durable_seq);
        let Some(active) = &mut self.active else { return };
        let marked = active.append(&mark);
        self.note_result(&marked);
        if marked.is_err() {
            self.roll();
        }
    }
}
