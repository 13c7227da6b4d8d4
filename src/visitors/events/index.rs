//! Source positions of the values and names of a body, and detection of duplicate names.
//!
//! The input is simd-json's tape, which has one node for each value and each name in the order of the text,
//! and the offsets of the text's structural tokens. One pass goes through both. Exactly one token follows
//! every scalar and every container: a separator, or the end of the enclosing container. Nothing follows the
//! root.

use simd_json::Node;

/// Number of members of an object up to which duplicates are found by comparing each pair. Larger objects are
/// sorted.
const MEMBERS_COMPARED_MAX: usize = 16;

/// The byte range of a value in the source. For scalars it includes the white space before the next token.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Span {
    pub start: u32,
    pub end: u32,
}

/// An index of a tape's nodes. Reuses its buffers.
#[derive(Default)]
pub(super) struct Index {
    /// The span of each node.
    pub spans: Vec<Span>,
    /// The node indexes of names that occur again later in the same object, in ascending order.
    pub superseded: Vec<u32>,
    names: Vec<u32>,
}

impl Index {
    /// Rebuilds the index. `nodes` and `tokens` must be those of one valid text.
    pub(super) fn rebuild(&mut self, nodes: &[Node<'_>], tokens: &[u32]) {
        let Self { spans, superseded, names } = self;
        superseded.clear();
        spans.resize(nodes.len(), Span::default());
        Indexer { nodes, spans, tokens, superseded, names }.visit_value(0);
        superseded.sort_unstable();
    }

    /// Returns whether the name at node index `name` occurs again later in its object.
    pub(super) fn is_superseded(&self, name: usize) -> bool {
        !self.superseded.is_empty() && self.superseded.binary_search(&(name as u32)).is_ok()
    }
}

/// A recursive pass over the tape. The parser's nesting limit bounds its depth.
struct Indexer<'n, 't> {
    nodes: &'n [Node<'t>],
    /// The span of each node, to fill in.
    spans: &'n mut [Span],
    /// The tokens that were not consumed.
    tokens: &'n [u32],
    superseded: &'n mut Vec<u32>,
    names: &'n mut Vec<u32>,
}

impl Indexer<'_, '_> {
    /// Consumes a token and returns its offset.
    fn next_token(&mut self) -> u32 {
        let [token, rest @ ..] = self.tokens else { return 0 };
        self.tokens = rest;
        *token
    }

    /// Consumes the value at node index `at` and the token after it, and returns that token's offset.
    fn visit_value(&mut self, at: usize) -> u32 {
        let nodes = self.nodes;
        let Some(node) = nodes.get(at) else { return 0 };
        let start = self.next_token();
        let (end, after) = match *node {
            Node::Object { len, .. } => (self.visit_members(at + 1, len) + 1, self.next_token()),
            Node::Array { len, .. } => (self.visit_elements(at + 1, len) + 1, self.next_token()),
            _ => {
                let end = self.next_token();
                (end, end)
            }
        };
        self.spans[at] = Span { start, end };
        after
    }

    /// Consumes `len` elements from node index `at` on and the token after the last one, and returns that token's
    /// offset.
    fn visit_elements(&mut self, mut at: usize, len: usize) -> u32 {
        if len == 0 {
            return self.next_token();
        }
        let mut after = 0;
        for _ in 0..len {
            after = self.visit_value(at);
            at += self.nodes.get(at).map_or(1, node_count);
        }
        after
    }

    /// Consumes `len` members from node index `first` on and the token after the last one, and returns that token's
    /// offset.
    fn visit_members(&mut self, first: usize, len: usize) -> u32 {
        if len == 0 {
            return self.next_token();
        }
        let (mut seen, mut may_be_doubled, mut after, mut at) = (0, false, 0, first);
        for _ in 0..len {
            let Some([name, value, ..]) = self.nodes.get(at..) else { return 0 };
            let [name_start, colon, rest @ ..] = self.tokens else { return 0 };
            let Some([name_span, value_span, ..]) = self.spans.get_mut(at..) else { return 0 };
            *name_span = Span { start: *name_start, end: *colon };
            let mark = name_bit(node_text(name));
            may_be_doubled |= seen & mark != 0;
            seen |= mark;
            // Most values are scalars.
            match (value, rest) {
                (Node::String(_) | Node::Static(_), [start, end, rest @ ..]) => {
                    *value_span = Span { start: *start, end: *end };
                    (self.tokens, after) = (rest, *end);
                    at += 2;
                }
                _ => {
                    self.tokens = rest;
                    after = self.visit_value(at + 1);
                    at += 1 + node_count(value);
                }
            }
        }
        if may_be_doubled {
            self.find_superseded(first, len);
        }
        after
    }

    /// Records the superseded names of an object. It has `len` members, and its first name is at `first`.
    fn find_superseded(&mut self, first: usize, len: usize) {
        let Self { nodes, names, .. } = self;
        names.clear();
        let mut name = first;
        for _ in 0..len {
            names.push(name as u32);
            name += 1 + node_count(&nodes[name + 1]);
        }
        let text = |name: u32| node_text(&nodes[name as usize]);
        if len <= MEMBERS_COMPARED_MAX {
            let comes_again = |i: &usize| names[i + 1..].iter().any(|later| text(*later) == text(names[*i]));
            self.superseded.extend((0..len).filter(comes_again).map(|i| names[i]));
        } else {
            names.sort_unstable_by_key(|name| (text(*name), *name));
            let doubled = names.windows(2).filter(|two| text(two[0]) == text(two[1]));
            self.superseded.extend(doubled.map(|two| two[0]));
        }
    }
}

/// Returns one of 64 bits, chosen by a hash of the name. Two different names rarely share a bit.
fn name_bit(name: &str) -> u64 {
    let [first, ..] = name.as_bytes() else { return 1 };
    let middle = name.as_bytes()[name.len() / 2];
    1 << ((usize::from(*first) * 7 + usize::from(middle) * 29 + name.len() * 13) % 64)
}

/// Returns the text of a string node, or `""` for other nodes.
pub(super) fn node_text<'t>(node: &Node<'t>) -> &'t str {
    match node {
        Node::String(text) => text,
        _ => "",
    }
}

/// Returns the number of nodes that a value occupies, including its own.
pub(super) fn node_count(node: &Node<'_>) -> usize {
    match node {
        Node::Object { count, .. } | Node::Array { count, .. } => count + 1,
        _ => 1,
    }
}
