//! A condition between reading and compiling.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::{Field, Operator};
use crate::limits::AUDIENCE_CHAIN_MAX;

/// A condition that was read, ready to be compiled.
#[derive(Clone, Debug)]
pub struct Condition {
    pub(super) root: Node,
    /// The audiences it names.
    pub(super) audiences: BTreeSet<u16>,
}

/// A condition's tree. A `Field` reads the document, everything below it, up to the next `Member`,
/// is about its value.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// What cannot be made sense of.
    Never,
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Audience(u16),
    /// `path` is what the author wrote.
    Field {
        path: String,
        field: Field,
        test: Box<Node>,
    },
    /// A member of the element that an `$elemMatch` looks at.
    Member {
        path: String,
        name: String,
        test: Box<Node>,
    },
    /// The length of an array; holds for nothing else.
    Size {
        path: String,
        test: Box<Node>,
    },
    /// Any element of an array; holds for nothing else.
    Element(Box<Node>),
    Test {
        operator: Operator,
        operand: Json,
        check: Check,
    },
    /// The comparison with what a parameter will be.
    Param {
        operator: Operator,
        index: u16,
    },
}

/// What an operator needs beside its operand as written.
#[derive(Clone, Debug)]
pub(super) enum Check {
    Compare,
    Pattern { source: String },
    Group { members: Vec<Json> },
    Within { ms: i64 },
    Count { within_ms: Option<i64>, bounds: Vec<(Operator, u64)> },
}

impl Node {
    pub(super) fn all(mut nodes: Vec<Node>) -> Node {
        if nodes.len() == 1 { nodes.remove(0) } else { Node::All(nodes) }
    }

    /// As in GrowthBook, any of nothing holds.
    pub(super) fn any(nodes: Vec<Node>) -> Node {
        if nodes.is_empty() { Node::All(nodes) } else { Node::Any(nodes) }
    }

    pub(super) fn not(node: Node) -> Node {
        Node::Not(Box::new(node))
    }

    pub(super) fn test(operator: Operator, operand: Json, check: Check) -> Node {
        Node::Test { operator, operand, check }
    }
}

/// The index of an audience that lies on a loop or stands before a chain of more than
/// [`AUDIENCE_CHAIN_MAX`] audiences, itself counted; `conditions` are all of a site's, by index.
pub fn overlong_chain(conditions: &[Condition]) -> Option<usize> {
    // After n rounds a chain of n + 1 audiences is counted in full; on a loop counts never settle.
    let mut lengths = vec![1; conditions.len()];
    for _ in 0..AUDIENCE_CHAIN_MAX {
        let behind = |index: &u16| lengths.get(usize::from(*index)).copied().unwrap_or(0);
        let longest = |condition: &Condition| 1 + condition.audiences.iter().map(behind).max().unwrap_or(0);
        lengths = conditions.iter().map(longest).collect();
    }
    lengths.iter().position(|length| *length > AUDIENCE_CHAIN_MAX)
}
