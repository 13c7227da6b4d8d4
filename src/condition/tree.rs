//! The tree of a condition, between parsing and compilation.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::{Field, Operator};
use crate::limits::AUDIENCE_CHAIN_MAX;

/// A parsed condition, ready to be compiled.
#[derive(Clone, Debug)]
pub struct Condition {
    pub(super) root: Node,
    /// The indexes of the audiences that the condition names.
    pub(super) audiences: BTreeSet<u16>,
}

/// A node of a condition's tree. A `Field` reads the document. The nodes below it, down to the next `Member`,
/// test the field's value.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// An invalid condition. It never holds.
    Never,
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Audience(u16),
    /// A test of a field. `path` is the author's text.
    Field {
        path: String,
        field: Field,
        test: Box<Node>,
    },
    /// A test of a member of an element, inside an `$elemMatch`.
    Member {
        path: String,
        name: String,
        test: Box<Node>,
    },
    /// A test of an array's length. It does not hold for other values.
    Size {
        path: String,
        test: Box<Node>,
    },
    /// A test that any element of an array must pass. It does not hold for other values.
    Element(Box<Node>),
    Test {
        operator: Operator,
        operand: Json,
        check: Check,
    },
    /// A comparison with the value of a parameter.
    Param {
        operator: Operator,
        index: u16,
    },
}

/// The arguments of an operator apart from its operand.
#[derive(Clone, Debug)]
pub(super) enum Check {
    Compare,
    Pattern { source: String },
    Group { members: Vec<Json> },
    Within { ms: i64 },
    Count { within_ms: Option<i64>, bounds: Vec<(Operator, u64)> },
}

impl Condition {
    /// Replaces the names of the fields that `is_meant` accepts, and the texts that their values are compared with.
    pub fn map_field_texts(mut self, is_meant: &dyn Fn(&Field) -> bool, map: fn(&str) -> String) -> Self {
        self.root.map_fields(is_meant, map);
        self
    }
}

impl Node {
    fn map_fields(&mut self, is_meant: &dyn Fn(&Field) -> bool, map: fn(&str) -> String) {
        match self {
            Node::All(nodes) | Node::Any(nodes) => {
                nodes.iter_mut().for_each(|node| node.map_fields(is_meant, map));
            }
            Node::Not(node) => node.map_fields(is_meant, map),
            Node::Field { field, test, .. } if is_meant(field) => {
                field.name = map(&field.name);
                test.map_operands(map);
            }
            _ => {}
        }
    }

    /// Replaces the texts of a test of one value.
    fn map_operands(&mut self, map: fn(&str) -> String) {
        match self {
            Node::All(nodes) | Node::Any(nodes) => nodes.iter_mut().for_each(|node| node.map_operands(map)),
            Node::Not(node) | Node::Element(node) => node.map_operands(map),
            Node::Test { operand, check, .. } => {
                map_texts(operand, map);
                match check {
                    Check::Pattern { source } => *source = map(source),
                    Check::Group { members } => members.iter_mut().for_each(|member| map_texts(member, map)),
                    Check::Compare | Check::Within { .. } | Check::Count { .. } => {}
                }
            }
            _ => {}
        }
    }

    pub(super) fn all(mut nodes: Vec<Node>) -> Node {
        if nodes.len() == 1 { nodes.remove(0) } else { Node::All(nodes) }
    }

    /// Returns the disjunction of the nodes. As in GrowthBook, an empty one holds.
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

/// Replaces a text, or the texts of an array.
fn map_texts(value: &mut Json, map: fn(&str) -> String) {
    match value {
        Json::String(text) => *text = map(text),
        Json::Array(values) => values.iter_mut().for_each(|value| map_texts(value, map)),
        _ => {}
    }
}

/// Returns the index of an audience that is on a loop, or that begins a chain of more than
/// [`AUDIENCE_CHAIN_MAX`] audiences, including itself. `conditions` are those of all audiences of a site, by
/// index.
pub fn find_overlong_chain(conditions: &[Condition]) -> Option<usize> {
    let named = conditions.iter().map(|condition| condition.audiences.iter().copied().collect());
    find_overlong(&named.collect::<Vec<_>>())
}

/// Does the same with the audiences that each audience names.
pub(super) fn find_overlong(audiences: &[Vec<u16>]) -> Option<usize> {
    // After n rounds, chains of up to n + 1 audiences have their full length. On a loop the lengths keep
    // growing.
    let mut lengths = vec![1; audiences.len()];
    for _ in 0..AUDIENCE_CHAIN_MAX {
        let length = |index: &u16| lengths.get(usize::from(*index)).copied().unwrap_or(0);
        let longest = |audiences: &Vec<u16>| 1 + audiences.iter().map(length).max().unwrap_or(0);
        lengths = audiences.iter().map(longest).collect();
    }
    lengths.iter().position(|length| *length > AUDIENCE_CHAIN_MAX)
}
