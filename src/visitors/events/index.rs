//! Where each value and each name of a body stands, and which names come again.
//!
//! In come a parser's tape, with one node for each value and each name in the order of the text, and where the tokens of the
//! text begin. One pass goes through both: behind every scalar and every container stands exactly one token, a separator or
//! the end of what it stands in, and of the root nothing.

use std::iter::Zip;
use std::slice;

use simd_json::Node;

use crate::limits::MEMBERS_COMPARED_MAX;

/// Where a value stands in the source; behind a scalar the white space before the next token.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Span {
    pub start: u32,
    pub end: u32,
}

/// What is known of the nodes of a tape beside themselves. Keeps its buffers.
#[derive(Default)]
pub(super) struct Index {
    /// Where each node stands.
    pub spans: Vec<Span>,
    /// The names after which the same name comes again in the same object, in ascending order.
    pub superseded: Vec<u32>,
    names: Vec<u32>,
}

impl Index {
    /// Finds all of it anew: `nodes` and `tokens` are those of one valid text.
    pub(super) fn fill(&mut self, nodes: &[Node<'_>], tokens: &[u32]) {
        let Self { spans, superseded, names } = self;
        superseded.clear();
        spans.resize(nodes.len(), Span::default());
        let ahead = nodes.iter().zip(spans);
        Walk { nodes, ahead, tokens: tokens.iter(), superseded, names }.value();
        superseded.sort_unstable();
    }

    /// Whether the same name comes again after that at `name`.
    pub(super) fn is_superseded(&self, name: usize) -> bool {
        !self.superseded.is_empty() && self.superseded.binary_search(&(name as u32)).is_ok()
    }
}

/// The way through a text, as deep as the parser takes one to be nested.
struct Walk<'n, 't> {
    nodes: &'n [Node<'t>],
    /// The nodes that were not passed, with their spans to be.
    ahead: Zip<slice::Iter<'n, Node<'t>>, slice::IterMut<'n, Span>>,
    tokens: slice::Iter<'n, u32>,
    superseded: &'n mut Vec<u32>,
    names: &'n mut Vec<u32>,
}

impl Walk<'_, '_> {
    /// Passes a token: where it begins.
    fn token(&mut self) -> u32 {
        self.tokens.next().copied().unwrap_or_default()
    }

    /// Passes a value, and the token behind it: where that begins. Where it is a scalar, as most are, without a call.
    #[inline(always)]
    fn value(&mut self) -> u32 {
        let Some((node, span)) = self.ahead.next() else { return 0 };
        span.start = self.token();
        if let Node::Object { .. } | Node::Array { .. } = node {
            span.end = self.container(node) + 1;
            return self.token();
        }
        span.end = self.token();
        span.end
    }

    /// Passes what stands in a container, and its end: where that begins.
    fn container(&mut self, container: &Node<'_>) -> u32 {
        match *container {
            Node::Object { len, .. } if len > 0 => self.members(len),
            Node::Array { len, .. } if len > 0 => (0..len).fold(0, |_, _| self.value()),
            _ => self.token(),
        }
    }

    /// Passes so many members of an object, and the token behind the last.
    fn members(&mut self, len: usize) -> u32 {
        let first = self.nodes.len() - self.ahead.len();
        let (mut seen, mut may_be_doubled, mut behind) = (0, false, 0);
        for _ in 0..len {
            let Some((name, span)) = self.ahead.next() else { return 0 };
            *span = Span { start: self.token(), end: self.token() };
            let mark = mark(text(name));
            may_be_doubled |= seen & mark != 0;
            seen |= mark;
            behind = self.value();
        }
        if may_be_doubled {
            self.supersede(first, len);
        }
        behind
    }

    /// Notes the doubled names of an object of `len` members, the first of which has this name.
    fn supersede(&mut self, first: usize, len: usize) {
        let Self { nodes, names, .. } = self;
        names.clear();
        let mut name = first;
        for _ in 0..len {
            names.push(name as u32);
            name += 1 + nodes_of(&nodes[name + 1]);
        }
        let text = |name: u32| text(&nodes[name as usize]);
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

/// One bit of 64, the same for the same name, mostly another for another.
fn mark(name: &str) -> u64 {
    let [first, ..] = name.as_bytes() else { return 1 };
    let middle = name.as_bytes()[name.len() / 2];
    1 << ((usize::from(*first) * 7 + usize::from(middle) * 29 + name.len() * 13) % 64)
}

/// The text of a string; of anything else there is none.
pub(super) fn text<'t>(node: &Node<'t>) -> &'t str {
    match node {
        Node::String(text) => text,
        _ => "",
    }
}

/// How many nodes a value takes, itself counted.
pub(super) fn nodes_of(node: &Node<'_>) -> usize {
    match node {
        Node::Object { count, .. } | Node::Array { count, .. } => count + 1,
        _ => 1,
    }
}
