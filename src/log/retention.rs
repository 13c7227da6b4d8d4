//! Retention: decides how many of the oldest closed segments have expired.

use std::collections::VecDeque;

use super::Options;
use super::active_segment::ClosedSegment;
use crate::limits::RETAIN_MS_MIN;

/// The limits of age and size above which segments expire.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetentionLimits {
    retain_ms: Option<i64>,
    retain_bytes: Option<u64>,
}

impl RetentionLimits {
    pub(super) fn new(options: &Options) -> Self {
        Self { retain_ms: options.retain_ms, retain_bytes: options.retain_bytes }
    }

    /// Returns whether there is a limit.
    pub(super) fn has_limit(self) -> bool {
        self.retain_ms.is_some() || self.retain_bytes.is_some()
    }

    /// Returns how many of the oldest closed segments have expired, by age or by the size of all segments. The
    /// size includes `active_bytes`. `now_ms` is the log clock.
    pub(super) fn expired_count(
        self,
        closed_segments: &VecDeque<ClosedSegment>,
        active_bytes: u64,
        now_ms: i64,
    ) -> usize {
        let mut bytes = active_bytes + closed_segments.iter().map(|closed| closed.bytes).sum::<u64>();
        let is_expired = |closed: &&ClosedSegment| {
            let age_ms = now_ms.saturating_sub(closed.closed_ms);
            let is_old = self.retain_ms.is_some_and(|retain_ms| age_ms > retain_ms);
            let is_over = self.retain_bytes.is_some_and(|retain_bytes| bytes > retain_bytes);
            bytes -= closed.bytes;
            is_old || (is_over && age_ms > RETAIN_MS_MIN)
        };
        closed_segments.iter().take_while(is_expired).count()
    }
}
