//! A body as JSON: values that know how they were sent.
//!
//! In comes the text of a body, in the buffer that it was received in, which is used up; out comes a [`Document`] whose
//! values are read in place. What holds:
//!
//! * Of doubled members only the last one exists, at every level.
//! * A value is as it was sent: numbers of any size, escapes and all. Only half surrogate pairs have become U+FFFD.
//! * The root is an object, nested at most `EVENT_NESTING_MAX` deep.
//!
//! A [`Reader`] keeps its buffers: once they are large enough, reading allocates nothing. They take four times the text of the
//! largest body that was read, and some 40 bytes for each value and name: 24 MiB at most, for `[1,1,1` and so on.

use std::mem;

use simd_json::{Buffers, Node, StaticNode, Tape};

use super::mend;
use super::refusal::Refusal;
use crate::limits::{EVENT_NESTING_MAX, MEMBERS_COMPARED_MAX};

/// Reads one body after the other.
pub struct Reader {
    /// The body as it was sent, since parsing changes it.
    source: Vec<u8>,
    /// The same, for the parser's sake without what it does not take.
    tame: Vec<u8>,
    spans: Vec<Span>,
    superseded: Vec<u32>,
    names: Vec<u32>,
    buffers: Buffers,
    tape: Tape<'static>,
}

/// Where a value stands in the source.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
}

/// A body that was read. The tape of a parser has one node for each value and each name, in the order of the text.
pub struct Document<'a> {
    nodes: Vec<Node<'a>>,
    source: &'a [u8],
    /// Where each node stands.
    spans: &'a [Span],
    /// The names after which the same name comes again, in ascending order.
    superseded: &'a [u32],
    surrogates: usize,
    home: &'a mut Tape<'static>,
}

impl Reader {
    /// Empty buffers.
    pub fn new() -> Self {
        Self {
            source: Vec::new(),
            tame: Vec::new(),
            spans: Vec::new(),
            superseded: Vec::new(),
            names: Vec::new(),
            buffers: Buffers::with_max_depth(0, EVENT_NESTING_MAX),
            tape: Tape(Vec::new()),
        }
    }

    /// Reads `body`, which is used up. A byte order mark is refused, as RFC 8259 section 8.1 allows.
    ///
    /// # Errors
    /// `malformed_json`, with the text where it breaks.
    pub fn read<'a>(&'a mut self, body: &'a mut [u8]) -> Result<Document<'a>, Refusal> {
        let Self { source, tame, spans, superseded, names, buffers, tape: home } = self;
        source.clear();
        source.extend_from_slice(body);
        let mut tape = mem::replace(home, Tape(Vec::new())).reset();
        let mut surrogates = 0;
        if simd_json::fill_tape(body, buffers, &mut tape).is_err() {
            // Rare: what the parser does not take and JSON allows. It is tamed, and parsed anew.
            surrogates = mend::tame(source, tame);
            if simd_json::fill_tape(tame, buffers, &mut tape).is_err() {
                *home = tape.reset();
                return Err(malformed(source));
            }
        }
        if !matches!(tape.0.first(), Some(Node::Object { .. })) {
            *home = tape.reset();
            return Err(Refusal::malformed("a JSON object", Some(source)));
        }
        find_spans(source, buffers.structural_indexes(), spans);
        find_superseded(&tape.0, superseded, names);
        Ok(Document { nodes: tape.0, source, spans, superseded, surrogates, home })
    }
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

/// What is wrong with a text that is not taken: another parser says where it breaks.
fn malformed(source: &[u8]) -> Refusal {
    let Err(error) = serde_json::from_slice::<&serde_json::value::RawValue>(source) else {
        return Refusal::malformed("arrays and objects at most 32 deep in each other", None);
    };
    // Lines and bytes are counted from 1, and the byte at fault has been read.
    let line: usize =
        source.split_inclusive(|b| *b == b'\n').take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    let at = (line + error.column().saturating_sub(1)).min(source.len());
    Refusal::malformed("a JSON object in UTF-8, nested at most 32 deep", source.get(at..))
}

/// Finds where each node of a valid text stands, from where its tokens begin.
fn find_spans(source: &[u8], tokens: &[u32], spans: &mut Vec<Span>) {
    spans.clear();
    let mut open = [0; EVENT_NESTING_MAX];
    let mut depth = 0;
    let mut scalar = None;
    for &at in tokens {
        if let Some(i) = scalar.take() {
            end_scalar(source, &mut spans[i], at);
        }
        match source[at as usize] {
            b',' | b':' => continue,
            b'}' | b']' => {
                depth -= 1;
                spans[open[depth]].end = at + 1;
                continue;
            }
            b'{' | b'[' => {
                open[depth] = spans.len();
                depth += 1;
            }
            _ => scalar = Some(spans.len()),
        }
        spans.push(Span { start: at, end: at });
    }
}

/// A scalar ends where the white space before the next token begins.
fn end_scalar(source: &[u8], span: &mut Span, next: u32) {
    let text = &source[span.start as usize..next as usize];
    span.end = span.start + text.trim_ascii_end().len() as u32;
}

/// Finds the names after which the same name comes again in the same object.
fn find_superseded(nodes: &[Node<'_>], superseded: &mut Vec<u32>, names: &mut Vec<u32>) {
    superseded.clear();
    for (at, node) in nodes.iter().enumerate() {
        let Node::Object { len, count } = *node else { continue };
        names.clear();
        let mut name = at + 1;
        while name <= at + count {
            names.push(name as u32);
            name += 1 + nodes_of(&nodes[name + 1]);
        }
        if len <= MEMBERS_COMPARED_MAX {
            compare_each(nodes, names, superseded);
        } else {
            names.sort_unstable_by_key(|name| (text(nodes, *name), *name));
            let doubled = names.windows(2).filter(|two| text(nodes, two[0]) == text(nodes, two[1]));
            superseded.extend(doubled.map(|two| two[0]));
        }
    }
    superseded.sort_unstable();
}

fn compare_each(nodes: &[Node<'_>], names: &[u32], superseded: &mut Vec<u32>) {
    for (i, &name) in names.iter().enumerate() {
        let own = text(nodes, name);
        if names[i + 1..].iter().any(|later| text(nodes, *later) == own) {
            superseded.push(name);
        }
    }
}

fn text<'a>(nodes: &[Node<'a>], at: u32) -> &'a str {
    match nodes[at as usize] {
        Node::String(text) => text,
        _ => "",
    }
}

/// How many nodes a value takes, itself counted.
fn nodes_of(node: &Node<'_>) -> usize {
    match node {
        Node::Object { count, .. } | Node::Array { count, .. } => count + 1,
        _ => 1,
    }
}

impl Document<'_> {
    /// The object that everything stands in.
    pub fn root(&self) -> Value<'_> {
        Value { document: self, at: 0 }
    }

    /// How many half surrogate pairs have become U+FFFD.
    pub fn surrogates_mended(&self) -> usize {
        self.surrogates
    }
}

impl Drop for Document<'_> {
    /// Hands the tape's memory back to the reader.
    fn drop(&mut self) {
        *self.home = Tape(mem::take(&mut self.nodes)).reset();
    }
}

/// A value of a document.
#[derive(Clone, Copy)]
pub struct Value<'d> {
    document: &'d Document<'d>,
    at: usize,
}

/// A member of an object.
#[derive(Clone, Copy)]
pub struct Member<'d> {
    pub name: &'d str,
    /// The name as it was sent, in quotes.
    pub name_source: &'d [u8],
    pub value: Value<'d>,
}

impl<'d> Value<'d> {
    fn node(self) -> Node<'d> {
        self.document.nodes[self.at]
    }

    /// The text of a string.
    pub fn string(self) -> Option<&'d str> {
        match self.node() {
            Node::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn boolean(self) -> Option<bool> {
        match self.node() {
            Node::Static(StaticNode::Bool(value)) => Some(value),
            _ => None,
        }
    }

    pub fn is_object(self) -> bool {
        matches!(self.node(), Node::Object { .. })
    }

    pub fn is_array(self) -> bool {
        matches!(self.node(), Node::Array { .. })
    }

    pub fn is_number(self) -> bool {
        !matches!(self.node(), Node::Static(StaticNode::Null | StaticNode::Bool(_)))
            && matches!(self.node(), Node::Static(_))
    }

    /// Whether it counts as not there, as a member that is known by name: `null`, `""`.
    pub fn is_absent(self) -> bool {
        matches!(self.node(), Node::Static(StaticNode::Null) | Node::String(""))
    }

    /// Itself, unless it counts as not there.
    pub fn present(self) -> Option<Self> {
        (!self.is_absent()).then_some(self)
    }

    /// How many elements an array has, or members an object, doubled ones counted.
    pub fn len(self) -> usize {
        match self.node() {
            Node::Array { len, .. } | Node::Object { len, .. } => len,
            _ => 0,
        }
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The JSON as it was sent.
    pub fn source(self) -> &'d [u8] {
        let Span { start, end } = self.document.spans[self.at];
        &self.document.source[start as usize..end as usize]
    }

    /// The text of a string, or the digits of a number, or `true` or `false`.
    pub fn text(self) -> Option<&'d str> {
        match self.node() {
            Node::String(text) => Some(text),
            Node::Static(_) => std::str::from_utf8(self.source()).ok(),
            _ => None,
        }
    }

    /// The elements of an array; of anything else there are none.
    pub fn elements(self) -> impl Iterator<Item = Self> {
        let length = if self.is_array() { self.len() } else { 0 };
        let mut at = self.at + 1;
        (0..length).map(move |_| {
            let element = Self { at, ..self };
            at += nodes_of(&element.node());
            element
        })
    }

    /// The members of an object, of doubled ones the last; of anything else there are none.
    pub fn members(self) -> impl Iterator<Item = Member<'d>> {
        let document = self.document;
        let length = if self.is_object() { self.len() } else { 0 };
        let mut at = self.at + 1;
        let all = (0..length).map(move |_| {
            let name = at;
            at += 1 + nodes_of(&document.nodes[at + 1]);
            name
        });
        let last = all.filter(|name| {
            document.superseded.is_empty() || document.superseded.binary_search(&(*name as u32)).is_err()
        });
        last.map(move |name| Member {
            name: text(&document.nodes, name as u32),
            name_source: Self { document, at: name }.source(),
            value: Self { document, at: name + 1 },
        })
    }

    /// A member of an object.
    pub fn get(self, name: &str) -> Option<Self> {
        self.members().find(|member| member.name == name).map(|member| member.value)
    }

    /// A member that does not count as not there.
    pub fn find(self, name: &str) -> Option<Self> {
        self.get(name)?.present()
    }

    /// Appends the value as it was sent, on one line, without doubled members.
    pub fn write(self, out: &mut Vec<u8>) {
        if self.is_object() {
            out.push(b'{');
            for (i, member) in self.members().enumerate() {
                begin_member(out, i == 0, member.name_source);
                member.value.write(out);
            }
            out.push(b'}');
        } else if self.is_array() {
            out.push(b'[');
            for (i, element) in self.elements().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                element.write(out);
            }
            out.push(b']');
        } else {
            out.extend_from_slice(self.source());
        }
    }

    /// Appends where `inner`, a value within this one, stands in it: a JSON pointer (RFC 6901).
    pub fn point_to(self, inner: Self, pointer: &mut String) {
        let holds = |value: Self| (value.at..value.at + nodes_of(&value.node())).contains(&inner.at);
        if let Some((i, element)) = self.elements().enumerate().find(|(_, element)| holds(*element)) {
            pointer.push_str(&format!("/{i}"));
            element.point_to(inner, pointer);
        }
        if let Some(member) = self.members().find(|member| holds(member.value)) {
            pointer.push('/');
            pointer.push_str(&member.name.replace('~', "~0").replace('/', "~1"));
            member.value.point_to(inner, pointer);
        }
    }
}

/// Appends what comes before the value of a member.
pub fn begin_member(out: &mut Vec<u8>, is_first: bool, name_source: &[u8]) {
    if !is_first {
        out.push(b',');
    }
    out.extend_from_slice(name_source);
    out.push(b':');
}
