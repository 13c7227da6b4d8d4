//! The loss of the active segment: another program has deleted, moved, replaced or truncated its file.

use std::io;
use std::ops::Range;

use super::super::LogError;
use super::super::active_segment::SegmentLoss;
use super::super::check::check_closed;
use super::super::directory::segment_name;
use super::SegmentWriter;

impl SegmentWriter {
    /// Checks that the paths still lead to the locked directory and to the active segment, and that the segment is
    /// whole.
    ///
    /// # Errors
    /// The directory is not in its place, or an I/O error occurs.
    pub(in super::super) fn find_loss(&mut self) -> io::Result<Option<SegmentLoss>> {
        let Some(active) = &mut self.active else { return Ok(None) };
        self.directory.check_identity()?;
        active.find_loss(&self.directory)
    }

    /// Counts and logs the durable records that the active segment does not have any more. If a truncated segment
    /// cannot be read, these are all of them.
    ///
    /// # Errors
    /// A truncated segment cannot be read.
    pub(in super::super) fn report_loss(&self, loss: SegmentLoss) -> Result<(), LogError> {
        let first_seq = self.first_open_seq();
        let last_seq = self.durable_seq;
        let file = segment_name(first_seq);
        match loss {
            SegmentLoss::Gone => {
                if self.metrics.damage.note(&file, 0) {
                    tracing::error!(%file, first_seq, last_seq, "the active segment is gone; its durable records are lost");
                }
                Ok(())
            }
            SegmentLoss::Truncated => {
                let report = |offset, lost: Range<u64>| {
                    let Range { start: first_seq, end } = lost;
                    if first_seq < end && self.metrics.damage.note(&file, offset) {
                        let last_seq = end - 1;
                        tracing::error!(
                            %file, first_seq, last_seq,
                            "another program has truncated the active segment; these durable records are lost"
                        );
                    }
                };
                let damages = check_closed(&self.directory, first_seq, last_seq + 1)
                    .inspect_err(|_| report(0, first_seq..last_seq + 1))?;
                damages.into_iter().for_each(|damage| report(damage.offset, damage.lost_seqs));
                Ok(())
            }
        }
    }
}
