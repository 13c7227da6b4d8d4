//! The metrics of a node of a cluster. The log writer writes them; the admin address reads them.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The relation of a node to the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ClusterState {
    /// The node reads the stream, and has not reached its end yet.
    Joining = 0,
    /// The node has read to the end of the stream.
    Connected = 1,
    /// The stream is away, or the node must not follow it.
    Alone = 2,
    /// The node reads a checkpoint of its directory.
    Loading = 3,
}

/// The reason for which a node that serves a site is not ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum NotReady {
    /// The start waits until the node has read the stream.
    Joining = 1,
    /// The lag exceeds the setting.
    Lagging = 2,
}

/// The metrics of a node.
#[derive(Debug, Default)]
pub(crate) struct ClusterMetrics {
    state: AtomicU8,
    /// The time of the last change of the state, in milliseconds since 1970.
    state_since_ms: AtomicI64,
    /// A [`NotReady`]. 0: the node is ready.
    not_ready: AtomicU8,
    /// The reason for being alone.
    reason: Mutex<String>,
    era: Mutex<String>,
    pub(crate) position: AtomicU64,
    pub(crate) head_position: AtomicU64,
    pub(crate) lag_ms: AtomicU64,
    pub(crate) unreturned_records: AtomicU64,
    pub(crate) unreturned_bytes: AtomicU64,
    pub(crate) unreturned_ms: AtomicU64,
    pub(crate) invisible_acknowledgements: AtomicU64,
    pub(crate) gap_skips: AtomicU64,
    pub(crate) duplicate_skips: AtomicU64,
    pub(crate) malformed_messages: AtomicU64,
    pub(crate) resends: AtomicU64,
    pub(crate) publish_errors: AtomicU64,
    pub(crate) new_producer_ids: AtomicU64,
    pub(crate) chain_mismatches: AtomicU64,
    pub(crate) digest_mismatches: AtomicU64,
    pub(crate) known_nodes: AtomicU64,
    pub(crate) erasures_pending: AtomicU64,
    /// The own clock minus that of the NATS servers. 0 if the difference is below the time of a round trip.
    pub(crate) clock_skew_ms: AtomicI64,
    unreachable: Mutex<(Vec<String>, i64)>,
}

impl ClusterMetrics {
    /// Returns the state, the time since when it holds in milliseconds since 1970, and the reason for being alone.
    pub(crate) fn state(&self) -> (ClusterState, i64, String) {
        let state = match self.state.load(Ordering::Relaxed) {
            0 => ClusterState::Joining,
            1 => ClusterState::Connected,
            3 => ClusterState::Loading,
            _ => ClusterState::Alone,
        };
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (state, self.state_since_ms.load(Ordering::Relaxed), reason)
    }

    /// Sets the state. Returns whether it has changed.
    pub(crate) fn set_state(&self, state: ClusterState, reason: &str, now_ms: i64) -> bool {
        let mut present = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = self.state.swap(state as u8, Ordering::Relaxed) != state as u8;
        if is_new || self.state_since_ms.load(Ordering::Relaxed) == 0 {
            self.state_since_ms.store(now_ms, Ordering::Relaxed);
        }
        let has_other_reason = *present != reason;
        reason.clone_into(&mut present);
        is_new || has_other_reason
    }

    /// Returns why the node is not ready. `None`: it is ready.
    pub(crate) fn not_ready(&self) -> Option<NotReady> {
        match self.not_ready.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(NotReady::Joining),
            _ => Some(NotReady::Lagging),
        }
    }

    /// Sets the reason for which the node is not ready.
    pub(crate) fn set_not_ready(&self, reason: Option<NotReady>) {
        self.not_ready.store(reason.map_or(0, |reason| reason as u8), Ordering::Relaxed);
    }

    /// Returns the ID of the era, in hex. Empty before the node knows it.
    pub(crate) fn era(&self) -> String {
        self.era.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the ID of the era.
    pub(crate) fn set_era(&self, era: String) {
        *self.era.lock().unwrap_or_else(PoisonError::into_inner) = era;
    }

    /// Sets the names of the known nodes that are not reachable, as of `now_ms`.
    pub(crate) fn set_unreachable(&self, names: Vec<String>, now_ms: i64) {
        *self.unreachable.lock().unwrap_or_else(PoisonError::into_inner) = (names, now_ms);
    }

    /// Returns the names of the known nodes that are not reachable, and the time in milliseconds since 1970
    /// when this was known.
    pub(crate) fn unreachable(&self) -> (Vec<String>, i64) {
        self.unreachable.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns since when profiles lack own events, in milliseconds: 0 if they lack none.
    pub(crate) fn stale_ms(&self) -> u64 {
        self.unreturned_ms.load(Ordering::Relaxed)
    }
}
