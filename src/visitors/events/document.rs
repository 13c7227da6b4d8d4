//! A parsed JSON body whose values keep their source text.
//!
//! [`Document`] borrows the body's text and reads values in place. Invariants:
//!
//! * Of members with the same name only the last one is visible, at every level.
//! * A value keeps its source text: numbers of any size, and escapes. Only lone surrogates are replaced, by
//!   U+FFFD.
//! * The root is an object. Nesting is at most `EVENT_NESTING_MAX` levels.
//!
//! The parser reuses its buffers: once they are large enough, parsing allocates nothing. The buffers take
//! four times the length of the longest body so far, plus about 40 bytes for each value and name. The maximum
//! is 24 MiB, for a body such as `[1,1,1,...`.

use std::mem;

use memchr::memchr2;
use simd_json::{Buffers, INPUT_PADDING, Node, StaticNode, Tape};

use super::index::{Index, Span, node_count, node_text};
use super::refusal::Refusal;
use super::sanitize;
use crate::limits::EVENT_NESTING_MAX;

/// A JSON parser that reuses its buffers for one body after the other.
pub struct JsonParser {
    /// A copy of the text. The parser modifies it.
    input: Vec<u8>,
    /// A second copy for the second attempt, without the constructs that simd-json rejects.
    sanitized_input: Vec<u8>,
    /// The text with lone surrogates replaced.
    sanitized: String,
    index: Index,
    buffers: Buffers,
    tape: Tape<'static>,
}

/// A parsed body. The parser's tape has one node for each value and each name, in the order of the text.
pub struct Document<'a> {
    nodes: Vec<Node<'a>>,
    source: &'a str,
    index: &'a Index,
    /// True if the source has no line breaks and no duplicate names, so that values can be copied verbatim.
    is_one_line: bool,
    surrogates: usize,
    tape_slot: &'a mut Tape<'static>,
}

impl JsonParser {
    /// Returns a parser with empty buffers.
    pub fn new() -> Self {
        Self {
            input: Vec::new(),
            sanitized_input: Vec::new(),
            sanitized: String::new(),
            index: Index::default(),
            buffers: Buffers::with_max_depth(0, EVENT_NESTING_MAX),
            tape: Tape(Vec::new()),
        }
    }

    /// Parses `text`. Rejects a byte order mark, as RFC 8259 section 8.1 allows.
    ///
    /// # Errors
    /// `malformed_json`, with the text from the first syntax error on.
    pub fn parse<'a>(&'a mut self, text: &'a str) -> Result<Document<'a>, Refusal> {
        let Self { input: parsed, sanitized_input: tame, sanitized: mended, index, buffers, tape: home } =
            self;
        parsed.clear();
        parsed.extend_from_slice(text.as_bytes());
        let mut tape = mem::replace(home, Tape(Vec::new())).reset();
        let (mut source, mut surrogates) = (text, 0);
        if fill_tape(parsed, buffers, &mut tape).is_err() {
            // Rare: simd-json rejects some valid JSON. Sanitize the text and parse it again.
            surrogates = sanitize::sanitize(text, mended, tame);
            source = mended;
            if fill_tape(tame, buffers, &mut tape).is_err() {
                *home = tape.reset();
                return Err(malformed(source));
            }
        }
        if !matches!(tape.0.first(), Some(Node::Object { .. })) {
            *home = tape.reset();
            return Err(Refusal::malformed("a JSON object", Some(source)));
        }
        index.rebuild(&tape.0, buffers.structural_indexes());
        let is_one_line = index.superseded.is_empty() && memchr2(b'\n', b'\r', source.as_bytes()).is_none();
        Ok(Document { nodes: tape.0, source, index, is_one_line, surrogates, tape_slot: home })
    }
}

impl Default for JsonParser {
    fn default() -> Self {
        Self::new()
    }
}

/// Parses `text`, after which it appends the padding that the parser reads.
fn fill_tape<'t>(text: &'t mut Vec<u8>, buffers: &mut Buffers, tape: &mut Tape<'t>) -> simd_json::Result<()> {
    let length = text.len();
    text.resize(length + INPUT_PADDING, 0);
    simd_json::fill_tape_padded(text, length, buffers, tape)
}

/// Returns the refusal of an invalid text. `serde_json` finds the position of the syntax error.
fn malformed(source: &str) -> Refusal {
    let Err(error) = serde_json::from_str::<&serde_json::value::RawValue>(source) else {
        return Refusal::malformed("arrays and objects at most 32 deep in each other", None);
    };
    // serde_json counts lines and columns from 1. Its column includes the invalid byte.
    let line: usize = source.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let at = (line + error.column().saturating_sub(1)).min(source.len());
    let at = source.floor_char_boundary(at);
    Refusal::malformed("a JSON object in UTF-8, nested at most 32 deep", Some(&source[at..]))
}

impl Document<'_> {
    /// Returns the root object.
    pub fn root(&self) -> Value<'_> {
        Value { document: self, index: 0 }
    }

    /// Returns the number of lone surrogates that were replaced by U+FFFD.
    pub fn surrogates_replaced(&self) -> usize {
        self.surrogates
    }
}

impl Drop for Document<'_> {
    /// Returns the tape's memory to the parser.
    fn drop(&mut self) {
        *self.tape_slot = Tape(mem::take(&mut self.nodes)).reset();
    }
}

/// A value in a document.
#[derive(Clone, Copy)]
pub struct Value<'d> {
    document: &'d Document<'d>,
    index: usize,
}

/// A member of an object.
#[derive(Clone, Copy)]
pub struct Member<'d> {
    pub name: &'d str,
    pub value: Value<'d>,
}

impl<'d> Member<'d> {
    /// Returns the name as it was sent, including the quotes.
    pub fn name_source(&self) -> &'d str {
        Value { index: self.value.index - 1, ..self.value }.source()
    }
}

impl<'d> Value<'d> {
    fn node(self) -> Node<'d> {
        self.document.nodes[self.index]
    }

    /// Returns the index of the value's node on the tape. The root has index 0.
    pub(super) fn node_index(self) -> u32 {
        self.index as u32
    }

    /// Returns the value at another index of the same document.
    pub(super) fn with_node_index(self, place: u32) -> Self {
        Self { index: place as usize, ..self }
    }

    /// Returns the unescaped text of a string.
    pub fn as_str(self) -> Option<&'d str> {
        match self.node() {
            Node::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_bool(self) -> Option<bool> {
        match self.node() {
            Node::Static(StaticNode::Bool(value)) => Some(value),
            _ => None,
        }
    }

    pub fn is_null(self) -> bool {
        matches!(self.node(), Node::Static(StaticNode::Null))
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

    /// Returns whether the value is `null` or `""`. Members with a defined meaning treat these as missing.
    pub fn is_absent(self) -> bool {
        matches!(self.node(), Node::Static(StaticNode::Null) | Node::String(""))
    }

    /// Returns the value itself, or `None` if it is `null` or `""`.
    pub fn present(self) -> Option<Self> {
        (!self.is_absent()).then_some(self)
    }

    /// Returns the number of elements of an array or members of an object, including duplicate names. It is 0
    /// for other values.
    pub fn len(self) -> usize {
        match self.node() {
            Node::Array { len, .. } | Node::Object { len, .. } => len,
            _ => 0,
        }
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the JSON text as it was sent.
    pub fn source(self) -> &'d str {
        let Span { start, end } = self.document.index.spans[self.index];
        self.document.source[start as usize..end as usize].trim_ascii_end()
    }

    /// Returns the text of a string, or the source text of a number, `true`, `false` or `null`.
    pub fn as_text(self) -> Option<&'d str> {
        match self.node() {
            Node::String(text) => Some(text),
            Node::Static(_) => Some(self.source()),
            _ => None,
        }
    }

    /// Iterates over the elements of an array. Other values have none.
    pub fn elements(self) -> impl Iterator<Item = Self> {
        let length = if self.is_array() { self.len() } else { 0 };
        let mut at = self.index + 1;
        (0..length).map(move |_| {
            let element = Self { index: at, ..self };
            at += node_count(&element.node());
            element
        })
    }

    /// Iterates over the members of an object. Of duplicate names it yields the last one. Other values have
    /// no members.
    pub fn members(self) -> impl Iterator<Item = Member<'d>> {
        let document = self.document;
        let length = if self.is_object() { self.len() } else { 0 };
        let mut at = self.index + 1;
        let all = (0..length).map(move |_| {
            let name = at;
            at += 1 + node_count(&document.nodes[at + 1]);
            name
        });
        let last = all.filter(|name| !document.index.is_superseded(*name));
        last.map(move |name| Member {
            name: node_text(&document.nodes[name]),
            value: Self { document, index: name + 1 },
        })
    }

    /// Returns the value of a member.
    pub fn get(self, name: &str) -> Option<Self> {
        self.members().find(|member| member.name == name).map(|member| member.value)
    }

    /// Returns the value of a member, unless it is `null` or `""`.
    pub fn get_present(self, name: &str) -> Option<Self> {
        self.get(name)?.present()
    }

    /// Appends the value on one line, without duplicate names and otherwise as it was sent.
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

    /// Appends the members whose name passes `is_kept`, without the object's braces.
    pub fn write_members(self, is_kept: impl Fn(&str) -> bool, out: &mut String) {
        if self.document.is_one_line {
            return self.copy_members(is_kept, out);
        }
        for (i, member) in self.members().filter(|member| is_kept(member.name)).enumerate() {
            write_member_name(out, i == 0, member.name_source());
            member.value.write(out);
        }
    }

    /// Appends the kept members. Copies each run of adjacent members at once.
    fn copy_members(self, is_kept: impl Fn(&str) -> bool, out: &mut String) {
        let Document { source, index, .. } = self.document;
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
            let (start, end) = (index.spans[first.value.index - 1].start, index.spans[last.index].end);
            out.push_str(source[start as usize..end as usize].trim_ascii_end());
        }
    }

    /// Appends the JSON pointer (RFC 6901) from this value to `inner`, which is inside it.
    pub fn write_pointer_to(self, inner: Self, pointer: &mut String) {
        let holds =
            |value: Self| (value.index..value.index + node_count(&value.node())).contains(&inner.index);
        if let Some((i, element)) = self.elements().enumerate().find(|(_, element)| holds(*element)) {
            pointer.push_str(&format!("/{i}"));
            element.write_pointer_to(inner, pointer);
        }
        if let Some(member) = self.members().find(|member| holds(member.value)) {
            pointer.push('/');
            pointer.push_str(&member.name.replace('~', "~0").replace('/', "~1"));
            member.value.write_pointer_to(inner, pointer);
        }
    }
}

/// Appends the comma, the name and the colon before a member's value.
pub(crate) fn write_member_name(out: &mut String, is_first: bool, name_source: &str) {
    if !is_first {
        out.push(',');
    }
    out.push_str(name_source);
    out.push(':');
}
