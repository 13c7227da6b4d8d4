//! Why an event, or a whole body, is not taken: a code, a JSON pointer, what was expected and what came.
//!
//! It owns its texts, since it outlives the body; only refusals allocate.

use super::document::Value;
use crate::json;
use crate::limits::CAME_CHARS_MAX;
use crate::problem::{self, Kind};

/// One refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its row in the table of problems.
    pub kind: &'static Kind,
    /// Where the fault stands in the body (RFC 6901); None where it is nowhere in particular.
    pub pointer: Option<String>,
    /// A noun phrase: "a time in ISO 8601".
    pub expected: &'static str,
    pub came: Came,
}

/// What came instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Came {
    Nothing,
    /// The caller's own words, and whether more of them came.
    Words(String, bool),
    /// So many.
    Count(usize),
}

/// Where a value stands, to say so in a refusal: `within` stands at `prefix`.
#[derive(Clone, Copy)]
pub(super) struct Place<'d> {
    /// Of an event in a batch its index; else it is the body.
    pub index: Option<usize>,
    pub within: Value<'d>,
}

impl<'d> Place<'d> {
    fn pointer(self, value: Value<'d>, member: Option<&str>) -> String {
        let mut pointer = self.index.map(|index| format!("/batch/{index}")).unwrap_or_default();
        self.within.point_to(value, &mut pointer);
        pointer.extend(member.into_iter().flat_map(|name| ["/", name]));
        pointer
    }

    /// A refusal of `value`.
    pub(super) fn refuse(self, kind: &'static Kind, value: Value<'d>, expected: &'static str) -> Refusal {
        let came = value.string().unwrap_or(value.source());
        Refusal { kind, pointer: Some(self.pointer(value, None)), expected, came: Came::words(came) }
    }

    /// A refusal of `value` for being too much of something.
    pub(super) fn too_much(
        self,
        kind: &'static Kind,
        value: Value<'d>,
        expected: &'static str,
        count: usize,
    ) -> Refusal {
        Refusal { kind, pointer: Some(self.pointer(value, None)), expected, came: Came::Count(count) }
    }

    /// A refusal because `member` is missing, whose name needs no escape.
    pub(super) fn lacks(self, kind: &'static Kind, member: &str, expected: &'static str) -> Refusal {
        let pointer = Some(self.pointer(self.within, Some(member)));
        Refusal { kind, pointer, expected, came: Came::Nothing }
    }
}

impl Came {
    fn words(text: &str) -> Self {
        let cut = text.char_indices().nth(CAME_CHARS_MAX).map(|(at, _)| at);
        Self::Words(text[..cut.unwrap_or(text.len())].to_owned(), cut.is_some())
    }
}

impl Refusal {
    /// A refusal of a body that is no JSON, or not the right one, which breaks before `rest`.
    pub(super) fn malformed(expected: &'static str, rest: Option<&str>) -> Self {
        let came = rest.filter(|rest| !rest.is_empty()).map_or(Came::Nothing, Came::words);
        Self { kind: problem::MALFORMED_JSON, pointer: None, expected, came }
    }

    /// What it holds in memory, about.
    pub(super) fn bytes(&self) -> usize {
        let came = if let Came::Words(words, _) = &self.came { words.capacity() } else { 0 };
        size_of::<Self>() + self.pointer.as_ref().map_or(0, String::capacity) + came
    }

    /// Appends `"code":...,"pointer":...,"detail":...`.
    pub fn write_members(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"code\":");
        json::string(out, self.kind.code);
        if let Some(pointer) = &self.pointer {
            out.extend_from_slice(b",\"pointer\":");
            json::string(out, pointer);
        }
        out.extend_from_slice(b",\"detail\":\"Expected ");
        json::escaped(out, self.expected);
        match &self.came {
            Came::Nothing => {}
            Came::Words(words, more) => {
                out.extend_from_slice(b"; got '");
                json::escaped(out, words);
                out.extend_from_slice(if *more { "…'".as_bytes() } else { b"'" });
            }
            Came::Count(count) => {
                out.extend_from_slice(b"; got ");
                json::number(out, *count);
            }
        }
        out.extend_from_slice(b".\"");
    }
}
