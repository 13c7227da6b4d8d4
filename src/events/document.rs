//! A parsed JSON body whose values keep their source text.
//!
//! [`Document`] borrows the body's text and reads values in place. Invariants:
//!
//! * Of members with the same name only the last one is visible, at every level.
//! * A value keeps its source text: numbers of any size, and escapes. Only lone surrogates are replaced, by
//!   U+FFFD.
//! * The root is an object. Nesting is at most `EVENT_NESTING_MAX` levels.
//!
//! simd-json finds the tokens of the text, and [`super::nodes`] reads them. simd-json's own tape is not used: it would
//! be a second pass over all values, it has no source texts, and it rejects numbers beyond 64 bits.
//!
//! The parser reuses its buffers: once they are large enough, parsing allocates nothing. The buffers take
//! four times the length of the longest body so far, plus about 50 bytes for each value and name. The maximum
//! is 28 MiB, for a body such as `[1,1,1,...`.

use std::mem;

use memchr::{memchr, memchr2, memchr3};
use simd_json::{Buffers, ErrorType, INPUT_PADDING, Tape};

use super::nodes::{Content, Node, Nodes};
use super::refusal::Refusal;
use super::sanitize::replace_lone_surrogates;
use super::scalars::JsonError;

/// A JSON parser that reuses its buffers for one body after the other.
pub struct JsonParser {
    /// A copy of the text, with the padding that simd-json reads.
    input: Vec<u8>,
    /// The text with lone surrogates replaced.
    sanitized: String,
    nodes: Nodes,
    buffers: Buffers,
    /// Always empty. It is kept for its memory, which simd-json reserves.
    tape: Tape<'static>,
}

/// A parsed body. Its nodes are one for each value and each name, in the order of the text.
pub struct Document<'a> {
    source: &'a str,
    nodes: &'a Nodes,
    /// True if the source has no line breaks and no duplicate names, so that values can be copied verbatim.
    is_one_line: bool,
    surrogates: usize,
}

impl JsonParser {
    /// Parses `text`. Rejects a byte order mark, as RFC 8259 section 8.1 allows.
    ///
    /// # Errors
    /// `malformed_json`, with the text from the first syntax error on.
    pub fn parse<'a>(&'a mut self, text: &'a str) -> Result<Document<'a>, Refusal> {
        let Self { input, sanitized, nodes, buffers, tape } = self;
        let tokens = find_tokens(text, input, buffers, tape).ok_or_else(|| malformed(text))?;
        let is_plain = memchr3(b'\\', b'\n', b'\r', text.as_bytes()).is_none();
        let has_escapes = !is_plain && memchr(b'\\', text.as_bytes()).is_some();
        let mut source = text;
        let mut surrogates = 0;
        let mut read = nodes.read(source, tokens, has_escapes);
        if read == Err(JsonError::LoneSurrogate) {
            surrogates = replace_lone_surrogates(text, sanitized);
            source = sanitized;
            read = nodes.read(source, tokens, has_escapes);
        }
        read.map_err(|_| malformed(source))?;
        let is_one_line =
            nodes.has_distinct_names() && (is_plain || memchr2(b'\n', b'\r', source.as_bytes()).is_none());
        Ok(Document { source, nodes, is_one_line, surrogates })
    }
}

impl Default for JsonParser {
    fn default() -> Self {
        Self {
            input: Vec::new(),
            sanitized: String::new(),
            nodes: Nodes::default(),
            // No levels: simd-json only finds the tokens. See `find_tokens`.
            buffers: Buffers::with_max_depth(0, 0),
            tape: Tape(Vec::new()),
        }
    }
}

/// Returns the offsets of the tokens of `text`. `None` if simd-json finds an error that a search for tokens can find:
/// a string without an end, or with a control character. Also `None` if the text has no array or object.
///
/// The limit of 0 levels ends simd-json's work after the tokens, at the first bracket.
fn find_tokens<'b>(
    text: &str,
    input_buffer: &mut Vec<u8>,
    buffers: &'b mut Buffers,
    tape_buffer: &mut Tape<'static>,
) -> Option<&'b [u32]> {
    input_buffer.clear();
    input_buffer.extend_from_slice(text.as_bytes());
    input_buffer.extend_from_slice(&[0; INPUT_PADDING]);
    let mut tape = mem::replace(tape_buffer, Tape(Vec::new())).reset();
    let found = simd_json::fill_tape_padded(input_buffer, text.len(), buffers, &mut tape);
    *tape_buffer = tape.reset();
    let is_complete = found.is_err_and(|error| *error.error() == ErrorType::DepthLimitExceeded);
    is_complete.then(|| buffers.structural_indexes())
}

/// Returns the refusal of an invalid text. `serde_json` finds the position of the syntax error.
fn malformed(source: &str) -> Refusal {
    let Err(error) = serde_json::from_str::<&serde_json::value::RawValue>(source) else {
        return match source.trim_ascii_start().starts_with('{') {
            true => Refusal::malformed("arrays and objects at most 32 deep in each other", None),
            false => Refusal::malformed("a JSON object", Some(source)),
        };
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
    fn node(self) -> &'d Node {
        &self.document.nodes.list[self.index]
    }

    /// Returns the index of the value's node. The root has index 0.
    pub(super) fn node_index(self) -> u32 {
        self.index as u32
    }

    /// Returns the value at another index of the same document.
    pub(super) fn with_node_index(self, index: u32) -> Self {
        Self { index: index as usize, ..self }
    }

    /// Returns the unescaped text of a string.
    #[inline]
    pub fn as_str(self) -> Option<&'d str> {
        self.node().text(self.document.source, &self.document.nodes.unescaped)
    }

    pub fn as_bool(self) -> Option<bool> {
        match self.node().content {
            Content::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub fn is_null(self) -> bool {
        matches!(self.node().content, Content::Null)
    }

    pub fn is_object(self) -> bool {
        matches!(self.node().content, Content::Object { .. })
    }

    pub fn is_array(self) -> bool {
        matches!(self.node().content, Content::Array { .. })
    }

    pub fn is_empty_array(self) -> bool {
        self.is_array() && self.is_empty()
    }

    pub fn is_number(self) -> bool {
        matches!(self.node().content, Content::Number)
    }

    /// Returns whether the value is `null` or `""`. Members with a defined meaning treat these as missing.
    pub fn is_absent(self) -> bool {
        let node = self.node();
        match node.content {
            Content::Null => true,
            Content::String => node.end - node.start == 2,
            _ => false,
        }
    }

    /// Returns the value itself, or `None` if it is `null` or `""`.
    pub fn present(self) -> Option<Self> {
        (!self.is_absent()).then_some(self)
    }

    /// Returns the number of elements of an array or members of an object, including duplicate names. It is 0
    /// for other values.
    pub fn len(self) -> usize {
        match self.node().content {
            Content::Array { len, .. } | Content::Object { len, .. } => len as usize,
            _ => 0,
        }
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the JSON text as it was sent.
    pub fn source(self) -> &'d str {
        let node = self.node();
        &self.document.source[node.start as usize..node.end as usize]
    }

    /// Returns the text of a string, or the source text of a number, `true`, `false` or `null`.
    pub fn as_text(self) -> Option<&'d str> {
        match self.node().content {
            Content::Array { .. } | Content::Object { .. } => None,
            Content::String | Content::EscapedString { .. } => self.as_str(),
            _ => Some(self.source()),
        }
    }

    /// Iterates over the elements of an array. Other values have none.
    pub fn elements(self) -> impl Iterator<Item = Self> {
        let length = if self.is_array() { self.len() } else { 0 };
        let mut at = self.index + 1;
        (0..length).map(move |_| {
            let element = Self { index: at, ..self };
            at += element.node().count();
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
            at += 1 + document.nodes.list[at + 1].count();
            name
        });
        let last = all.filter(|name| !document.nodes.is_superseded(*name));
        last.map(move |name| Member {
            name: Value { document, index: name }.as_str().unwrap_or_default(),
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
        let Document { source, nodes, .. } = self.document;
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
            let start = nodes.list[first.value.index - 1].start;
            let end = nodes.list[last.index].end;
            out.push_str(&source[start as usize..end as usize]);
        }
    }

    /// Appends the JSON pointer (RFC 6901) from this value to `inner_value`, which is inside it.
    pub fn write_pointer_to(self, inner_value: Self, pointer: &mut String) {
        let holds =
            |value: Self| (value.index..value.index + value.node().count()).contains(&inner_value.index);
        if let Some((i, element)) = self.elements().enumerate().find(|(_, element)| holds(*element)) {
            pointer.push_str(&format!("/{i}"));
            element.write_pointer_to(inner_value, pointer);
        }
        if let Some(member) = self.members().find(|member| holds(member.value)) {
            pointer.push('/');
            pointer.push_str(&member.name.replace('~', "~0").replace('/', "~1"));
            member.value.write_pointer_to(inner_value, pointer);
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
