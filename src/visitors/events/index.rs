//! Source positions of the values and names of a body, and detection of duplicate names.
//!
//! The input is simd-json's tape, which has one node for each value and each name in the order of the text,
//! and the offsets of the text's structural tokens. One pass goes through both. Exactly one token follows
//! every scalar and every container: a separator, or the end of the enclosing container. Nothing follows the
//! root.

use std::iter::Zip;
use std::slice;

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
        let ahead = nodes.iter().zip(spans);
        Indexer { nodes, remaining: ahead, tokens: tokens.iter(), superseded, names }.visit_value();
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
    /// The unvisited nodes and the spans to fill in.
    remaining: Zip<slice::Iter<'n, Node<'t>>, slice::IterMut<'n, Span>>,
    tokens: slice::Iter<'n, u32>,
    superseded: &'n mut Vec<u32>,
    names: &'n mut Vec<u32>,
}

impl Indexer<'_, '_> {
    /// Consumes a token and returns its offset.
    fn next_token(&mut self) -> u32 {
        self.tokens.next().copied().unwrap_or_default()
    }

    /// Consumes a value and the token after it, and returns that token's offset. Inlined, since most values
    /// are scalars.
    #[inline(always)]
    fn visit_value(&mut self) -> u32 {
        let Some((node, span)) = self.remaining.next() else { return 0 };
        span.start = self.next_token();
        if let Node::Object { .. } | Node::Array { .. } = node {
            span.end = self.visit_container(node) + 1;
            return self.next_token();
        }
        span.end = self.next_token();
        span.end
    }

    /// Consumes the contents of a container and its closing token, and returns that token's offset.
    fn visit_container(&mut self, container: &Node<'_>) -> u32 {
        match *container {
            Node::Object { len, .. } if len > 0 => self.visit_members(len),
            Node::Array { len, .. } if len > 0 => (0..len).fold(0, |_, _| self.visit_value()),
            _ => self.next_token(),
        }
    }

    /// Consumes `len` members of an object and the token after the last one, and returns that token's offset.
    fn visit_members(&mut self, len: usize) -> u32 {
        let first = self.nodes.len() - self.remaining.len();
        let (mut seen, mut may_be_doubled, mut behind) = (0, false, 0);
        for _ in 0..len {
            let Some((name, span)) = self.remaining.next() else { return 0 };
            *span = Span { start: self.next_token(), end: self.next_token() };
            let mark = name_bit(node_text(name));
            may_be_doubled |= seen & mark != 0;
            seen |= mark;
            behind = self.visit_value();
        }
        if may_be_doubled {
            self.find_superseded(first, len);
        }
        behind
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
