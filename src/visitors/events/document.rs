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

use memchr::memchr2;
use simd_json::{Buffers, Node, StaticNode, Tape};

use super::index::{Index, Span, nodes_of, text};
use super::refusal::Refusal;
use super::sanitize;
use crate::limits::EVENT_NESTING_MAX;

/// Reads one body after the other.
pub struct Reader {
    /// A copy of the text for the parser, which changes it.
    parsed: Vec<u8>,
    /// Another, without what the parser does not take.
    tame: Vec<u8>,
    /// The text with half surrogate pairs mended.
    mended: String,
    index: Index,
    buffers: Buffers,
    tape: Tape<'static>,
}

/// A body that was read. The tape of a parser has one node for each value and each name, in the order of the text.
pub struct Document<'a> {
    nodes: Vec<Node<'a>>,
    source: &'a str,
    index: &'a Index,
    /// Whether no value has to be written anew to stand on one line.
    is_one_line: bool,
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
            index: Index::default(),
            buffers: Buffers::with_max_depth(0, EVENT_NESTING_MAX),
            tape: Tape(Vec::new()),
        }
    }

    /// Reads `text`. A byte order mark is refused, as RFC 8259 section 8.1 allows.
    ///
    /// # Errors
    /// `malformed_json`, with the text where it breaks.
    pub fn read<'a>(&'a mut self, text: &'a str) -> Result<Document<'a>, Refusal> {
        let Self { parsed, tame, mended, index, buffers, tape: home } = self;
        parsed.clear();
        parsed.extend_from_slice(text.as_bytes());
        let mut tape = mem::replace(home, Tape(Vec::new())).reset();
        let (mut source, mut surrogates) = (text, 0);
        if simd_json::fill_tape(parsed, buffers, &mut tape).is_err() {
            // Rare: what the parser does not take and JSON allows. It is tamed, and parsed anew.
            surrogates = sanitize::tame(text, mended, tame);
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
        index.fill(&tape.0, buffers.structural_indexes());
        let is_one_line = index.superseded.is_empty() && memchr2(b'\n', b'\r', source.as_bytes()).is_none();
        Ok(Document { nodes: tape.0, source, index, is_one_line, surrogates, home })
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

    /// Where it stands among the values and names of its document; the root stands at 0.
    pub(super) fn place(self) -> u32 {
        self.at as u32
    }

    /// The value at another place of the same document.
    pub(super) fn beside(self, place: u32) -> Self {
        Self { at: place as usize, ..self }
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
        let Span { start, end } = self.document.index.spans[self.at];
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
        let last = all.filter(|name| !document.index.is_superseded(*name));
        last.map(move |name| Member {
            name: text(&document.nodes[name]),
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
            let (start, end) = (index.spans[first.value.at - 1].start, index.spans[last.at].end);
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
