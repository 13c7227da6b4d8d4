//! Values: the texts that a question groups its rows by, as numbers.

use std::collections::HashMap;
use std::sync::Arc;

use super::part::Part;
use crate::checksum::hash64;
use crate::insights::columns::format::{CODE_ABSENT, CODE_OTHER};

/// The number in a row that has no value.
pub(crate) const NO_VALUE: u32 = u32::MAX;
/// The number in a row if another part of the values has its value.
pub(crate) const ELSEWHERE: u32 = u32::MAX - 1;
/// Memory of a value without its text: its entries in two tables, and its counts.
const VALUE_BYTES: u64 = 160;

/// The values of a question, or of one part of them. Numbers are in the order in which the scan finds the texts.
#[derive(Debug, Default)]
pub(crate) struct Values {
    numbers: HashMap<Arc<str>, u32>,
    pub texts: Vec<Arc<str>>,
    /// `None` if the values are not divided.
    part: Option<Part>,
    bytes: u64,
    /// The values may take this much memory even if the memory of Insights is small.
    bytes_min: u64,
}

impl Values {
    /// Creates the empty values of one part.
    pub(crate) fn of_part(part: Part) -> Self {
        Self { part: Some(part).filter(|part| part.count > 1), ..Self::default() }
    }

    /// Creates empty values that are not divided.
    pub(crate) fn undivided(bytes_min: u64) -> Self {
        Self { bytes_min, ..Self::default() }
    }

    /// Returns whether the values take more than this memory. A single value always fits.
    pub(crate) fn exceed(&self, bytes_max: u64) -> bool {
        self.bytes > bytes_max.max(self.bytes_min) && self.texts.len() > 1
    }

    /// Returns the memory of the values and of their counts.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns values with the same texts, but without the table that finds the number of a text.
    pub(crate) fn copy_texts(&self) -> Self {
        Self { texts: self.texts.clone(), ..Self::default() }
    }

    /// Returns the number of a text. A new text gets the next number.
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

/// The numbers of the texts of a column, by their codes. A text gets a number when a row of the question has it. So
/// texts of other rows take no memory in [`Values`].
pub(crate) struct TextNumbers(Vec<Option<u32>>);

impl TextNumbers {
    /// Creates the numbers of a column with this many codes. An absent text has no value. `(other)` has a value only
    /// if `counts_other` is true.
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
