//! The refusal of an event or of a whole body: a code, a JSON pointer, and the text of `detail`.
//!
//! A refusal owns its texts, because it lives longer than the body. Only refusals allocate.

use crate::http::problem_document::{truncate, write_detail};
use crate::json;
use crate::problem::{self, Actual, Detail, ProblemKind};

/// A refusal of an event or a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its row in the table of problems.
    pub kind: &'static ProblemKind,
    /// The location of the fault in the body (RFC 6901). `None` if it has no particular location.
    pub pointer: Option<String>,
    /// The text of `detail`.
    pub detail: Detail<'static>,
    pub actual: OwnedActual,
}

/// The actual value, in place of an expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnedActual {
    Missing,
    /// Text of the client, at most one character longer than the part that `detail` repeats.
    Text(String),
    /// A number of elements, members or bytes.
    Count(usize),
}

impl OwnedActual {
    /// Copies the part of the text that `detail` repeats, and one character more, which shows that there is more.
    pub(super) fn of_text(text: &str) -> Self {
        let end = truncate(text).0.len();
        let next = text[end..].chars().next().map_or(0, char::len_utf8);
        Self::Text(text[..end + next].to_owned())
    }

    fn as_actual(&self) -> Actual<'_> {
        match self {
            Self::Missing => Actual::Missing,
            Self::Text(text) => Actual::Text(text),
            Self::Count(count) => Actual::Count(*count),
        }
    }
}

impl Refusal {
    /// Creates a refusal of a body that is not JSON or not a JSON object. `text_at_error` starts at the error.
    pub(super) fn malformed(expected: &'static str, text_at_error: Option<&str>) -> Self {
        let text = text_at_error.filter(|text| !text.is_empty());
        let actual = text.map_or(OwnedActual::Missing, OwnedActual::of_text);
        Self { kind: problem::MALFORMED_JSON, pointer: None, detail: Detail::Expected(expected), actual }
    }

    /// Returns the approximate memory use, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let actual = if let OwnedActual::Text(text) = &self.actual { text.capacity() } else { 0 };
        size_of::<Self>() + self.pointer.as_ref().map_or(0, String::capacity) + actual
    }

    /// Appends `"code":...,"pointer":...,"detail":...`.
    pub fn write_members(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"code\":");
        json::write_string(out, self.kind.code);
        if let Some(pointer) = &self.pointer {
            out.extend_from_slice(b",\"pointer\":");
            json::write_string(out, pointer);
        }
        out.push(b',');
        write_detail(out, self.detail, self.actual.as_actual(), "");
    }
}
