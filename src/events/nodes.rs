//! The nodes of a body: one for each value and each name, in the order of the text.
//!
//! The input is the text and its tokens. simd-json has found the tokens with SIMD instructions. They are the offsets
//! of brackets, colons, commas, the first quotes of strings, and the first bytes of other scalars. simd-json has also
//! checked that the text is UTF-8, that every string ends, and that strings have no control characters. All other
//! rules of RFC 8259 are checked here, in one pass over the tokens.
//!
//! A string needs no search for its end: between its last quote and the next token is only white space.

use super::scalars::{self, JsonError};
use crate::limits::EVENT_NESTING_MAX;

/// Number of members of an object up to which duplicates are found by comparing each pair. Larger objects are
/// sorted.
const MEMBERS_COMPARED_MAX: usize = 16;

/// A value or a name. The range is that of its JSON text in the source.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub content: Content,
    pub start: u32,
    pub end: u32,
}

/// The type of a node. The `len` of an array or object is the number of its elements or members, including duplicate
/// names. The `count` is the number of nodes inside it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content {
    Null,
    Bool(bool),
    Number,
    /// A string without an escape. Its text is in the source.
    String,
    /// A string with an escape. Its text is in this range of the unescaped texts.
    EscapedString {
        start: u32,
        end: u32,
    },
    Array {
        len: u32,
        count: u32,
    },
    Object {
        len: u32,
        count: u32,
    },
}

/// The nodes of one body. Reuses its buffers.
#[derive(Default)]
pub(super) struct Nodes {
    pub list: Vec<Node>,
    /// The texts of all strings with an escape, concatenated.
    pub unescaped: String,
    /// The node indexes of names that occur again later in the same object, in ascending order.
    superseded: Vec<u32>,
    names: Vec<u32>,
}

impl Node {
    /// Returns the number of nodes that the value occupies, including its own.
    #[inline]
    pub(super) fn count(&self) -> usize {
        match self.content {
            Content::Object { count, .. } | Content::Array { count, .. } => count as usize + 1,
            _ => 1,
        }
    }

    /// Returns the text of a string, or `None` for other nodes.
    #[inline]
    pub(super) fn text<'d>(&self, source: &'d str, unescaped_texts: &'d str) -> Option<&'d str> {
        match self.content {
            Content::String => source.get(self.start as usize + 1..self.end as usize - 1),
            Content::EscapedString { start, end } => unescaped_texts.get(start as usize..end as usize),
            _ => None,
        }
    }
}

impl Nodes {
    /// Reads the nodes of `source`. `token_offsets` are its tokens. `has_escapes` is false if no string has an escape.
    ///
    /// # Errors
    /// The text is not a JSON object, has too many levels, or has a lone surrogate.
    pub(super) fn read(
        &mut self,
        source: &str,
        token_offsets: &[u32],
        has_escapes: bool,
    ) -> Result<(), JsonError> {
        self.list.clear();
        self.unescaped.clear();
        self.superseded.clear();
        match has_escapes {
            true => NodeReader::<true> { source, tokens: token_offsets, out: self }.read_root()?,
            false => NodeReader::<false> { source, tokens: token_offsets, out: self }.read_root()?,
        }
        self.superseded.sort_unstable();
        Ok(())
    }

    /// Returns whether no name occurs twice in an object.
    pub(super) fn has_distinct_names(&self) -> bool {
        self.superseded.is_empty()
    }

    /// Returns whether the name at node index `name_index` occurs again later in its object.
    pub(super) fn is_superseded(&self, name_index: usize) -> bool {
        !self.superseded.is_empty() && self.superseded.binary_search(&(name_index as u32)).is_ok()
    }
}

/// A recursive pass over the tokens. `EVENT_NESTING_MAX` bounds its depth. Most texts have no escape, and the compiler
/// makes a shorter function for them.
struct NodeReader<'r, const HAS_ESCAPES: bool> {
    source: &'r str,
    /// The tokens that were not consumed.
    tokens: &'r [u32],
    out: &'r mut Nodes,
}

impl<'r, const HAS_ESCAPES: bool> NodeReader<'r, HAS_ESCAPES> {
    fn read_root(mut self) -> Result<(), JsonError> {
        let root = self.next_token()?;
        if self.byte(root) != b'{' {
            return Err(JsonError::Malformed);
        }
        self.read_object(root, EVENT_NESTING_MAX)?;
        if self.tokens.is_empty() { Ok(()) } else { Err(JsonError::Malformed) }
    }

    /// Consumes a token and returns its offset.
    fn next_token(&mut self) -> Result<u32, JsonError> {
        let [token, rest @ ..] = self.tokens else { return Err(JsonError::Malformed) };
        self.tokens = rest;
        Ok(*token)
    }

    /// Returns the byte at an offset, or 0 at the end of the text.
    fn byte(&self, offset: u32) -> u8 {
        self.source.as_bytes().get(offset as usize).copied().unwrap_or_default()
    }

    /// Reads the value whose first token was consumed and is at `start_offset`. Consumes its other tokens and the
    /// token after it, and returns the offset of the latter. The value may have `nesting_max` levels.
    fn read_value(&mut self, start_offset: u32, nesting_max: usize) -> Result<u32, JsonError> {
        match self.byte(start_offset) {
            b'"' => {
                let after = self.next_token()?;
                let end = start_offset + self.string(start_offset, after)?.len() as u32;
                let content = self.string_content(start_offset, end)?;
                self.out.list.push(Node { content, start: start_offset, end });
                Ok(after)
            }
            b'{' => {
                self.read_object(start_offset, nesting_max)?;
                self.next_token()
            }
            b'[' => {
                self.read_array(start_offset, nesting_max)?;
                self.next_token()
            }
            _ => {
                let after = self.next_token()?;
                self.read_scalar(start_offset, after)?;
                Ok(after)
            }
        }
    }

    /// Reads a number, `true`, `false` or `null`.
    #[inline(never)]
    fn read_scalar(&mut self, start_offset: u32, end_token_offset: u32) -> Result<(), JsonError> {
        let text =
            self.source.as_bytes().get(start_offset as usize..end_token_offset as usize).unwrap_or_default();
        let text = scalars::trim_end(text);
        let content = classify(text)?;
        let end = start_offset + text.len() as u32;
        self.out.list.push(Node { content, start: start_offset, end });
        Ok(())
    }

    /// Returns the string from the token `start_offset` to the token `end_token_offset`, with its quotes.
    #[inline]
    fn string(&self, start_offset: u32, end_token_offset: u32) -> Result<&'r [u8], JsonError> {
        let text =
            self.source.as_bytes().get(start_offset as usize..end_token_offset as usize).unwrap_or_default();
        match text {
            [b'"', .., b'"'] => Ok(text),
            _ => string_before_space(text),
        }
    }

    #[inline]
    fn string_content(&mut self, start_offset: u32, end_offset: u32) -> Result<Content, JsonError> {
        if HAS_ESCAPES { self.unescape(start_offset, end_offset) } else { Ok(Content::String) }
    }

    #[inline(never)]
    fn unescape(&mut self, start_offset: u32, end_offset: u32) -> Result<Content, JsonError> {
        let text = self
            .source
            .get(start_offset as usize + 1..end_offset as usize - 1)
            .ok_or(JsonError::Malformed)?;
        let unescaped = &mut self.out.unescaped;
        let from = unescaped.len() as u32;
        Ok(match scalars::unescape(text, unescaped)? {
            true => Content::EscapedString { start: from, end: unescaped.len() as u32 },
            false => Content::String,
        })
    }

    /// Adds the node of an array or object before the nodes inside it, and returns its index.
    fn open(&mut self, start_offset: u32, nesting_max: usize) -> Result<usize, JsonError> {
        if nesting_max == 0 {
            return Err(JsonError::Malformed);
        }
        let at = self.out.list.len();
        // A placeholder until the end is known.
        self.out.list.push(Node { content: Content::Null, start: start_offset, end: start_offset });
        Ok(at)
    }

    /// Returns the number of nodes inside the complete array or object whose own node is at `node_index`.
    fn count_since(&self, node_index: usize) -> u32 {
        (self.out.list.len() - node_index - 1) as u32
    }

    fn read_array(&mut self, start_offset: u32, nesting_max: usize) -> Result<(), JsonError> {
        let at = self.open(start_offset, nesting_max)?;
        let mut token = self.next_token()?;
        let mut len = 0;
        if self.byte(token) != b']' {
            loop {
                token = self.read_value(token, nesting_max - 1)?;
                len += 1;
                match self.byte(token) {
                    b',' => token = self.next_token()?,
                    b']' => break,
                    _ => return Err(JsonError::Malformed),
                }
            }
        }
        let content = Content::Array { len, count: self.count_since(at) };
        self.out.list[at] = Node { content, start: start_offset, end: token + 1 };
        Ok(())
    }

    fn read_object(&mut self, start_offset: u32, nesting_max: usize) -> Result<(), JsonError> {
        let at = self.open(start_offset, nesting_max)?;
        let mut token = self.next_token()?;
        let mut len = 0;
        let mut seen = 0;
        let mut may_be_doubled = false;
        if self.byte(token) != b'}' {
            loop {
                let (after, bit) = self.read_member(token, nesting_max - 1)?;
                may_be_doubled |= seen & bit != 0;
                seen |= bit;
                len += 1;
                match self.byte(after) {
                    b',' => token = self.next_token()?,
                    b'}' => {
                        token = after;
                        break;
                    }
                    _ => return Err(JsonError::Malformed),
                }
            }
        }
        let content = Content::Object { len, count: self.count_since(at) };
        self.out.list[at] = Node { content, start: start_offset, end: token + 1 };
        if may_be_doubled {
            self.find_superseded(at + 1, len as usize);
        }
        Ok(())
    }

    /// Reads the name that begins with the token `start_offset`, the colon and the value. Returns the token after them, and
    /// the bit of the name.
    #[inline]
    fn read_member(&mut self, start_offset: u32, nesting_max: usize) -> Result<(u32, u64), JsonError> {
        let &[colon, value, after, ref rest @ ..] = self.tokens else { return Err(JsonError::Malformed) };
        let text = self.string(start_offset, colon)?;
        if self.byte(colon) != b':' {
            return Err(JsonError::Malformed);
        }
        let end = start_offset + text.len() as u32;
        let name = Node { content: self.string_content(start_offset, end)?, start: start_offset, end };
        let bit = match name.content {
            Content::String => name_bit(&text[1..text.len() - 1]),
            _ => name_bit(self.text(&name).as_bytes()),
        };
        // Most values are strings. This does the same as `read_value`, with one check for all tokens.
        if self.byte(value) == b'"' {
            self.tokens = rest;
            let end = value + self.string(value, after)?.len() as u32;
            let text = Node { content: self.string_content(value, end)?, start: value, end };
            self.out.list.extend_from_slice(&[name, text]);
            return Ok((after, bit));
        }
        self.tokens = &self.tokens[2..];
        self.out.list.push(name);
        Ok((self.read_value(value, nesting_max)?, bit))
    }

    fn text(&self, node: &Node) -> &str {
        node.text(self.source, &self.out.unescaped).unwrap_or_default()
    }

    /// Records the superseded names of an object. It has `member_count` members, and its first name is at `first_name_index`.
    #[cold]
    #[inline(never)]
    fn find_superseded(&mut self, first_name_index: usize, member_count: usize) {
        let mut names = std::mem::take(&mut self.out.names);
        let mut superseded = std::mem::take(&mut self.out.superseded);
        names.clear();
        let mut name = first_name_index;
        for _ in 0..member_count {
            names.push(name as u32);
            name += 1 + self.out.list[name + 1].count();
        }
        let text = |name: u32| self.text(&self.out.list[name as usize]);
        if member_count <= MEMBERS_COMPARED_MAX {
            let comes_again = |i: &usize| names[i + 1..].iter().any(|later| text(*later) == text(names[*i]));
            superseded.extend((0..member_count).filter(comes_again).map(|i| names[i]));
        } else {
            names.sort_unstable_by_key(|name| (text(*name), *name));
            let doubled = names.windows(2).filter(|two| text(two[0]) == text(two[1]));
            superseded.extend(doubled.map(|two| two[0]));
        }
        (self.out.names, self.out.superseded) = (names, superseded);
    }
}

/// Removes the white space after a string.
#[cold]
#[inline(never)]
fn string_before_space(text: &[u8]) -> Result<&[u8], JsonError> {
    match scalars::trim_end(text) {
        text @ [b'"', .., b'"'] => Ok(text),
        _ => Err(JsonError::Malformed),
    }
}

/// Returns one of 64 bits, chosen by a hash of the name. Two different names rarely share a bit.
fn name_bit(name: &[u8]) -> u64 {
    let [.., last] = name else { return 1 };
    let hash = usize::from(name[0]) + (usize::from(*last) << 4) + (name.len() << 2);
    // `wrapping_shl` uses the hash modulo 64.
    1_u64.wrapping_shl(hash as u32)
}

/// Returns the type of a scalar that is not a string.
///
/// # Errors
/// It is not JSON.
fn classify(text: &[u8]) -> Result<Content, JsonError> {
    match text {
        b"true" => Ok(Content::Bool(true)),
        b"false" => Ok(Content::Bool(false)),
        b"null" => Ok(Content::Null),
        number if scalars::is_number(number) => Ok(Content::Number),
        _ => Err(JsonError::Malformed),
    }
}
