//! Writes text columns. Each different text of a column gets a code.

use std::collections::HashMap;
use std::ops::Range;

use super::format::{CODE_ABSENT, CODE_FIRST, CODE_OTHER, COLUMN_TEXTS_MAX};
use super::packing::PackedWriter;

/// The bytes that the texts of one or more columns may take.
#[derive(Debug, Clone, Default)]
pub(super) struct TextBudget {
    bytes: usize,
    bytes_max: usize,
}

impl TextBudget {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes: 0, bytes_max }
    }

    fn fits(&self, text: &str) -> bool {
        self.bytes + text.len() <= self.bytes_max
    }
}

/// A writer of one text column.
#[derive(Debug, Default, Clone)]
pub(super) struct TextWriter {
    codes: PackedWriter,
    codes_by_text: HashMap<Box<str>, u32>,
    texts: Vec<u8>,
    /// The last text that got a new code. The writer compares it first, because many consecutive rows have the same text.
    last: Option<LastText>,
}

/// The last text that got a new code in a column.
#[derive(Debug, Clone)]
struct LastText {
    code: u32,
    /// The byte range of the text in `TextWriter::texts`.
    range: Range<usize>,
}

impl TextWriter {
    /// Adds the text of the next row.
    pub(super) fn push(&mut self, text: Option<&str>, budget: &mut TextBudget) {
        let code = text.map_or(CODE_ABSENT, |text| self.code_of(text, budget));
        self.codes.push(i64::from(code));
    }

    /// Adds a row with a text that counts as `(other)`.
    pub(super) fn push_other(&mut self) {
        self.codes.push(i64::from(CODE_OTHER));
    }

    /// Returns the code of a text. A text beyond [`COLUMN_TEXTS_MAX`] or beyond the budget has the code of `(other)`.
    pub(super) fn code_of(&mut self, text: &str, budget: &mut TextBudget) -> u32 {
        if let Some(last) = &self.last
            && self.texts[last.range.clone()] == *text.as_bytes()
        {
            return last.code;
        }
        if let Some(code) = self.codes_by_text.get(text) {
            return *code;
        }
        if self.codes_by_text.len() == COLUMN_TEXTS_MAX || !budget.fits(text) {
            return CODE_OTHER;
        }
        let code = CODE_FIRST + self.codes_by_text.len() as u32;
        budget.bytes += text.len();
        self.codes_by_text.insert(text.into(), code);
        self.texts.extend_from_slice(&(text.len() as u16).to_le_bytes());
        let start = self.texts.len();
        self.texts.extend_from_slice(text.as_bytes());
        self.last = Some(LastText { code, range: start..self.texts.len() });
        code
    }

    /// Returns the code of each row.
    pub(super) fn codes(&self) -> &PackedWriter {
        &self.codes
    }

    /// Returns the texts, each after its length, in the order of their codes.
    pub(super) fn texts(&self) -> &[u8] {
        &self.texts
    }
}
