//! Values. A value is a text by which a question groups its rows. Each value has a number.

use std::collections::HashMap;
use std::sync::Arc;

use super::part::Part;
use crate::checksum::hash64;
use crate::insights::columns::format::{CODE_ABSENT, CODE_OTHER};

/// The number of a row that has no value.
pub(crate) const NO_VALUE: u32 = u32::MAX;
/// The number of a row whose value is in another part of the values.
pub(crate) const ELSEWHERE: u32 = u32::MAX - 1;
/// Memory of a value in bytes, without its text. It includes the entries of the value in two tables, and its counts.
const VALUE_BYTES: u64 = 160;

/// The values of a question, or one part of the values. Values are numbered in the order in which the scan finds their
/// texts.
#[derive(Debug, Default, Clone)]
pub(crate) struct Values {
    numbers: HashMap<Arc<str>, u32>,
    pub texts: Vec<Arc<str>>,
    /// The part. `None` if the values are not divided into parts.
    part: Option<Part>,
    bytes: u64,
    /// Minimum memory for the values, in bytes. The values can always take this memory, even if the memory of Insights
    /// is small.
    bytes_min: u64,
}

impl Values {
    /// Creates an empty set of values for one part.
    pub(crate) fn of_part(part: Part) -> Self {
        Self { part: Some(part).filter(|part| part.count > 1), ..Self::default() }
    }

    /// Creates an empty set of values that is not divided into parts.
    pub(crate) fn undivided(bytes_min: u64) -> Self {
        Self { bytes_min, ..Self::default() }
    }

    /// Returns whether the values take more than this memory. A single value always fits.
    pub(crate) fn exceed(&self, bytes_max: u64) -> bool {
        self.bytes > bytes_max.max(self.bytes_min) && self.texts.len() > 1
    }

    /// Returns the memory of the values and their counts, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns a copy of the texts. The copy has no table for the search by text.
    pub(crate) fn copy_texts(&self) -> Self {
        Self { texts: self.texts.clone(), ..Self::default() }
    }

    /// Returns the number of a text. A new text gets the next number. If the text is in another part, returns
    /// [`ELSEWHERE`].
    pub(crate) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        if self.part.is_some_and(|part| !part.has(hash64(text.as_bytes()))) {
            return ELSEWHERE;
        }
        let number = self.texts.len() as u32;
        let text: Arc<str> = text.into();
        self.bytes += VALUE_BYTES + text.len() as u64;
        self.numbers.insert(Arc::clone(&text), number);
        self.texts.push(text);
        number
    }
}

/// The number of each code of a text column. A code gets its number when the first row of the question has this code.
/// So the texts of other rows take no memory in [`Values`].
pub(crate) struct TextNumbers(Vec<Option<u32>>);

impl TextNumbers {
    /// Creates the numbers of a column. `code_count` is the number of codes. An absent text has no value. The text
    /// `(other)` has a value only if `counts_other` is true.
    pub(crate) fn new(code_count: usize, counts_other: bool) -> Self {
        let mut numbers = vec![None; code_count];
        numbers[CODE_ABSENT as usize] = Some(NO_VALUE);
        numbers[CODE_OTHER as usize] = (!counts_other).then_some(NO_VALUE);
        Self(numbers)
    }

    /// Returns the number of the text with this code.
    pub(crate) fn number(&mut self, code: usize, text: &str, values: &mut Values) -> u32 {
        *self.0[code].get_or_insert_with(|| values.number(text))
    }
}
