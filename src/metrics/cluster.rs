//! The metrics of a node of a cluster. The log writer writes them; the admin address reads them.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::node_gate::{EventRefusal, NodeGate};

/// The relation of a node to the stream.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClusterState {
    /// The node reads the stream, and has not reached its end yet.
    #[default]
    Joining,
    /// The node has read to the end of the stream.
    Connected,
    /// The stream is away, or the node must not follow it.
    Alone,
    /// The node reads a checkpoint of its directory.
    Loading,
}

/// The reason for which a node that serves a site is not ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotReady {
    /// The node has not read to the end of the stream yet.
    Joining,
    /// Another machine has the name of this node.
    NameInUse,
    /// Another process has taken the name of this node over. This one ends.
    Replaced,
    /// The lag exceeds the setting.
    Lagging,
}

/// The state of a node and its readiness. They change together, so that no reader combines a new state with an old
/// readiness.
#[derive(Debug, Default, Clone)]
pub(crate) struct NodeStatus {
    pub(crate) state: ClusterState,
    /// The time of the last change of the state, in milliseconds since 1970.
    pub(crate) since_ms: i64,
    /// The reason for being alone.
    pub(crate) reason: String,
    /// `None`: the node is ready.
    pub(crate) not_ready: Option<NotReady>,
}

/// The metrics of a node.
#[derive(Debug, Default)]
pub(crate) struct ClusterMetrics {
    status: Mutex<NodeStatus>,
    /// True if the status has a reason for which the node is not ready. A request reads it without the lock.
    is_unready: AtomicBool,
    gate: Arc<NodeGate>,
    /// True after another process has taken the name over and the stream has all records of this one. The process ends.
    pub(crate) is_replaced: AtomicBool,
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
    pub(crate) forbidden_messages: AtomicU64,
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
    /// Returns the state, its reason and the readiness, all of the same moment.
    pub(crate) fn status(&self) -> NodeStatus {
        self.lock_status().clone()
    }

    /// Returns whether the node is not ready.
    pub(crate) fn is_unready(&self) -> bool {
        self.is_unready.load(Ordering::Relaxed)
    }

    /// Returns the gate, through which the handlers of requests see the status.
    pub(crate) fn gate(&self) -> Arc<NodeGate> {
        Arc::clone(&self.gate)
    }

    /// Returns the state.
    pub(crate) fn state(&self) -> ClusterState {
        self.lock_status().state
    }

    /// Sets the state and the readiness. Returns whether the state or its reason has changed.
    pub(crate) fn set_state(
        &self,
        state: ClusterState,
        reason: &str,
        not_ready: Option<NotReady>,
        now_ms: i64,
    ) -> bool {
        let mut status = self.lock_status();
        let is_new = status.state != state;
        if is_new || status.since_ms == 0 {
            status.since_ms = now_ms;
        }
        let has_other_reason = status.reason != reason;
        status.state = state;
        self.store_not_ready(&mut status, not_ready);
        reason.clone_into(&mut status.reason);
        is_new || has_other_reason
    }

    /// Sets the reason for which the node is not ready. The state has not changed.
    pub(crate) fn set_not_ready(&self, not_ready: Option<NotReady>) {
        self.store_not_ready(&mut self.lock_status(), not_ready);
    }

    /// Sets the reason, and opens or closes the gate in the same moment for each reader of the status.
    fn store_not_ready(&self, status: &mut NodeStatus, not_ready: Option<NotReady>) {
        status.not_ready = not_ready;
        self.is_unready.store(not_ready.is_some(), Ordering::Relaxed);
        self.gate.set_decides(matches!(not_ready, None | Some(NotReady::Lagging)));
    }

    /// Sets whether the node acknowledges events.
    pub(crate) fn set_event_refusal(&self, refusal: Option<EventRefusal>) {
        self.gate.set_refusal(refusal);
    }

    fn lock_status(&self) -> MutexGuard<'_, NodeStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the ID of the era, in hex. Empty before the node knows it.
    pub(crate) fn era(&self) -> String {
        self.era.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the ID of the era.
    pub(crate) fn set_era(&self, era_id: String) {
        *self.era.lock().unwrap_or_else(PoisonError::into_inner) = era_id;
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
