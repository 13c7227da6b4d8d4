//! The scope of an answer of the admin address: the events that its numbers cover.
//!
//! The profiles of a node contain the events of the whole cluster. The log of a node has only the events that this node
//! acknowledged. So every answer of a node says which of both it covers, and how many nodes the cluster has.

use serde_json::{Value as Json, json};

/// The events that an answer covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scope {
    /// All events. The server is no node of a cluster, or the answer has no numbers of events. The answer does not mention it.
    #[default]
    All,
    /// The events that this node acknowledged. `nodes` is the number of known nodes of the cluster, and `None` before the
    /// node has read a heartbeat.
    Node { nodes: Option<u64> },
    /// The events of all nodes.
    Cluster { nodes: Option<u64> },
}

impl Scope {
    /// Returns the scope of the log of a node that knows this many nodes. A node knows itself, so 0 is an unknown number.
    pub fn of_node(known_nodes: u64) -> Self {
        Self::Node { nodes: Some(known_nodes).filter(|nodes| *nodes > 0) }
    }

    /// Returns the scope of the profiles beside the log with this scope.
    #[must_use]
    pub fn of_profiles(self) -> Self {
        match self {
            Self::Node { nodes } => Self::Cluster { nodes },
            Self::All | Self::Cluster { .. } => self,
        }
    }

    /// Returns whether other nodes can have events that count too.
    pub fn is_part(self) -> bool {
        matches!(self, Self::Node { nodes } if nodes != Some(1))
    }

    /// Returns the members of an answer that is an object: `scope`, and `nodes`, which is null while the number is unknown. A
    /// server that is alone adds none.
    pub fn members(self) -> impl Iterator<Item = (String, Json)> {
        let members = self.parts().map(|(name, nodes)| [("scope", json!(name)), ("nodes", json!(nodes))]);
        members.into_iter().flatten().map(|(name, value)| (name.to_owned(), value))
    }

    /// Returns the value of the header field of an answer, such as `node; nodes=3` (an item of RFC 9651). While the number is
    /// unknown, it has no parameter. `None` for a server that is alone.
    pub fn field_value(self) -> Option<String> {
        self.parts().map(|(name, nodes)| match nodes {
            Some(nodes) => format!("{name}; nodes={nodes}"),
            None => name.to_owned(),
        })
    }

    fn parts(self) -> Option<(&'static str, Option<u64>)> {
        match self {
            Self::All => None,
            Self::Node { nodes } => Some(("node", nodes)),
            Self::Cluster { nodes } => Some(("cluster", nodes)),
        }
    }
}
