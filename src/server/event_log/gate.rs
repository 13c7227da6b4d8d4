//! The gate and the end of a node of a cluster, as the server sees them. A server that is alone, and a build without the feature
//! `cluster`, have no node.

use std::sync::Arc;
#[cfg(feature = "cluster")]
use std::sync::atomic::Ordering;

use super::EventLog;
use crate::node_gate::NodeGate;

impl EventLog {
    /// Returns the gate of the node for its handlers. `None` if the server is alone.
    pub(in crate::server) fn node_gate(&self) -> Option<Arc<NodeGate>> {
        #[cfg(feature = "cluster")]
        return self.node.as_ref().map(|node| node.metrics.gate());
        #[cfg(not(feature = "cluster"))]
        None
    }

    /// Returns whether another process has become the node.
    pub(in crate::server) fn is_replaced(&self) -> bool {
        #[cfg(feature = "cluster")]
        return self.node.as_ref().is_some_and(|node| node.metrics.is_replaced.load(Ordering::Relaxed));
        #[cfg(not(feature = "cluster"))]
        false
    }
}
