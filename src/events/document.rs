//! A body as JSON: values that know how they were sent.
//!
//! In comes the text of a body; out comes a [`Document`] whose values are read in place. What holds:
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
    /// A copy of the text for the parser, which changes it.
    parsed: Vec<u8>,
    /// Another, without what the parser does not take.
    tame: Vec<u8>,
    /// The text with half surrogate pairs mended.
    mended: String,
    spans: Vec<Span>,
    superseded: Vec<u32>,
    names: Vec<u32>,
    buffers: Buffers,
    tape: Tape<'static>,
}

/// Where a value stands in the source; behind a scalar the white space before the next token.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
}

/// A body that was read. The tape of a parser has one node for each value and each name, in the order of the text.
pub struct Document<'a> {
    nodes: Vec<Node<'a>>,
    source: &'a str,
    /// Where each node stands.
    spans: &'a [Span],
    /// Whether no value has to be written anew to stand on one line.
    is_one_line: bool,
    /// The names after which the same name comes again, in ascending order.
    superseded: &'a [u32],
    surrogates: usize,
    home: &'a mut Tape<'static>,
}

impl Reader {
    /// Empty buffers.
    pub fn new() -> Self {
        Self {
            parsed: Vec::new(),
            tame: Vec::new(),
            mended: String::new(),
            spans: Vec::new(),
            superseded: Vec::new(),
            names: Vec::new(),
            buffers: Buffers::with_max_depth(0, EVENT_NESTING_MAX),
            tape: Tape(Vec::new()),
        }
    }

    /// Reads `text`. A byte order mark is refused, as RFC 8259 section 8.1 allows.
    ///
    /// # Errors
    /// `malformed_json`, with the text where it breaks.
    pub fn read<'a>(&'a mut self, text: &'a str) -> Result<Document<'a>, Refusal> {
        let Self { parsed, tame, mended, spans, superseded, names, buffers, tape: home } = self;
        parsed.clear();
        parsed.extend_from_slice(text.as_bytes());
        let mut tape = mem::replace(home, Tape(Vec::new())).reset();
        let (mut source, mut surrogates) = (text, 0);
        if simd_json::fill_tape(parsed, buffers, &mut tape).is_err() {
            // Rare: what the parser does not take and JSON allows. It is tamed, and parsed anew.
            surrogates = mend::tame(text, mended, tame);
            source = mended;
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
        // Without a way out between, so that many bytes are looked at together.
        let has_lines = source.bytes().fold(false, |has, b| has | (b == b'\n') | (b == b'\r'));
        let is_one_line = superseded.is_empty() && !has_lines;
        Ok(Document { nodes: tape.0, source, spans, is_one_line, superseded, surrogates, home })
    }
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

/// What is wrong with a text that is not taken: another parser says where it breaks.
fn malformed(source: &str) -> Refusal {
    let Err(error) = serde_json::from_str::<&serde_json::value::RawValue>(source) else {
        return Refusal::malformed("arrays and objects at most 32 deep in each other", None);
    };
    // Lines and bytes are counted from 1, and the byte at fault has been read.
    let line: usize = source.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let at = (line + error.column().saturating_sub(1)).min(source.len());
    let at = source.floor_char_boundary(at);
    Refusal::malformed("a JSON object in UTF-8, nested at most 32 deep", Some(&source[at..]))
}

/// Finds where each node of a valid text stands, from where its tokens begin.
fn find_spans(source: &str, tokens: &[u32], spans: &mut Vec<Span>) {
    spans.clear();
    spans.reserve(tokens.len());
    let source = source.as_bytes();
    let mut open = [0; EVENT_NESTING_MAX];
    let mut depth = 0;
    for (i, &start) in tokens.iter().enumerate() {
        match source[start as usize] {
            b',' | b':' => {}
            b'}' | b']' => {
                depth -= 1;
                spans[open[depth]].end = start + 1;
            }
            b'{' | b'[' => {
                open[depth] = spans.len();
                depth += 1;
                spans.push(Span { start, end: start });
            }
            // The root is an object: a token follows.
            _ => spans.push(Span { start, end: tokens.get(i + 1).copied().unwrap_or(start) }),
        }
    }
}

/// Finds the names after which the same name comes again in the same object.
fn find_superseded(nodes: &[Node<'_>], superseded: &mut Vec<u32>, names: &mut Vec<u32>) {
    superseded.clear();
    for (at, node) in nodes.iter().enumerate() {
        let Node::Object { len, count } = *node else { continue };
        names.clear();
        let (mut name, mut seen, mut may_be_doubled) = (at + 1, 0u64, false);
        while name <= at + count {
            let mark = mark(text(nodes, name as u32));
            may_be_doubled |= seen & mark != 0;
            seen |= mark;
            names.push(name as u32);
            name += 1 + nodes_of(&nodes[name + 1]);
        }
        if !may_be_doubled {
            continue;
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

/// One bit of 64, the same for the same name, mostly another for another.
fn mark(name: &str) -> u64 {
    let byte = |at: usize| name.as_bytes().get(at).map_or(0, |b| usize::from(*b));
    1 << ((byte(0) * 7 + byte(name.len() / 2) * 29 + name.len() * 13) % 64)
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
    pub value: Value<'d>,
}

impl<'d> Member<'d> {
    /// The name as it was sent, in quotes.
    pub fn name_source(&self) -> &'d str {
        Value { at: self.value.at - 1, ..self.value }.source()
    }
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
    pub fn source(self) -> &'d str {
        let Span { start, end } = self.document.spans[self.at];
        self.document.source[start as usize..end as usize].trim_ascii_end()
    }

    /// The text of a string, or the digits of a number, or `true` or `false`.
    pub fn text(self) -> Option<&'d str> {
        match self.node() {
            Node::String(text) => Some(text),
            Node::Static(_) => Some(self.source()),
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
    pub fn write(self, out: &mut String) {
        if self.document.is_one_line {
            out.push_str(self.source());
        } else if self.is_object() {
            out.push('{');
            self.write_members(|_| true, out);
            out.push('}');
        } else if self.is_array() {
            out.push('[');
            for (i, element) in self.elements().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                element.write(out);
            }
            out.push(']');
        } else {
            out.push_str(self.source());
        }
    }

    /// Appends the members for which `is_kept`, without the object's braces.
    pub fn write_members(self, is_kept: impl Fn(&str) -> bool, out: &mut String) {
        if self.document.is_one_line {
            return self.copy_members(is_kept, out);
        }
        for (i, member) in self.members().filter(|member| is_kept(member.name)).enumerate() {
            begin_member(out, i == 0, member.name_source());
            member.value.write(out);
        }
    }

    /// Those that stand one behind the other are copied at once.
    fn copy_members(self, is_kept: impl Fn(&str) -> bool, out: &mut String) {
        let Document { source, spans, .. } = self.document;
        let mut members = self.members().peekable();
        let mut is_first = true;
        while let Some(first) = members.find(|member| is_kept(member.name)) {
            let mut last = first.value;
            while let Some(next) = members.next_if(|member| is_kept(member.name)) {
                last = next.value;
            }
            if !is_first {
                out.push(',');
            }
            is_first = false;
            let (start, end) = (spans[first.value.at - 1].start, spans[last.at].end);
            out.push_str(source[start as usize..end as usize].trim_ascii_end());
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
pub fn begin_member(out: &mut String, is_first: bool, name_source: &str) {
    if !is_first {
        out.push(',');
    }
    out.push_str(name_source);
    out.push(':');
}
