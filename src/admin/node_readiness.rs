//! The readiness of the server and of a node of a cluster, as the metrics know them. A server that is alone, and a build
//! without the feature `cluster`, have no node.

use std::sync::Arc;

#[cfg(feature = "cluster")]
use super::cluster;
use super::health::ReadinessFacts;
use super::metrics::{Metrics, ServerMetrics};
use crate::api::ReadinessCheck;
#[cfg(feature = "cluster")]
use crate::metrics::cluster::ClusterState;

impl Metrics {
    /// Says in `/readyz` that the server is a node, also before the log is read.
    #[cfg(feature = "cluster")]
    pub(crate) fn with_node(self, is_node: bool) -> Self {
        Self { is_node, ..self }
    }

    /// Adds the state of a node to the body of `/readyz`. Returns the status of a node that lacks messages of the
    /// stream, so that it is not ready.
    pub(super) fn add_readiness(&self, body: &mut serde_json::Value) -> Option<&'static str> {
        #[cfg(feature = "cluster")]
        if let Some(node) = self.server.as_ref().and_then(|server| server.cluster.as_ref()) {
            return cluster::add_readiness(node, body);
        } else if self.is_node {
            body["cluster"] = cluster::LOADING.into();
        }
        let _ = body;
        None
    }

    /// Returns whether a node replaces its profiles by those of a checkpoint.
    pub(super) fn is_loading(&self) -> bool {
        #[cfg(feature = "cluster")]
        if let Some(node) = self.server.as_ref().and_then(|server| server.cluster.as_ref()) {
            return node.state() == ClusterState::Loading;
        }
        false
    }
}

impl ServerMetrics {
    /// Returns the check for `/v1/health`. It decides by the same rules as `/readyz`.
    pub(crate) fn readiness_check(&self) -> ReadinessCheck {
        let lifecycle = self.lifecycle.clone();
        let log = self.log.clone();
        #[cfg(feature = "cluster")]
        let node = self.cluster.clone();
        Arc::new(move |sites, must_record| {
            #[cfg(feature = "cluster")]
            let is_unready = node.as_ref().is_some_and(|node| node.is_unready());
            #[cfg(not(feature = "cluster"))]
            let is_unready = false;
            let facts = ReadinessFacts {
                is_draining: lifecycle.is_draining(),
                is_listening: lifecycle.is_accepting(),
                sites,
                node_status: is_unready.then_some("unready"),
                is_recording: log.metrics().is_recording(),
            };
            facts.are_ready(must_record)
        })
    }
}
