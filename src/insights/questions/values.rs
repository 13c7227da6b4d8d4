//! Values: the texts that a question groups its rows by, as numbers.

use std::collections::HashMap;
use std::sync::Arc;

use super::scan::part_of;
use crate::checksum::hash64;
use crate::insights::columns::format::{CODE_ABSENT, CODE_OTHER};

/// The value of a row without one.
pub(crate) const NO_VALUE: u32 = u32::MAX;
/// The value of a row whose value is in another part of the values.
pub(crate) const ELSEWHERE: u32 = u32::MAX - 1;
/// Memory of a value beside its text: its entries in two tables, and its counts.
const VALUE_BYTES: u64 = 160;

/// The values of a question, or those of one part of them, numbered in the order in which they are found.
#[derive(Debug, Default)]
pub(crate) struct Values {
    numbers: HashMap<Arc<str>, u32>,
    pub texts: Vec<Arc<str>>,
    /// The part of the values and the number of parts.
    part: Option<(u64, u64)>,
    bytes: u64,
    /// Memory that the values may take also if the memory of Insights is small.
    bytes_min: u64,
}

impl Values {
    /// Creates the numbers of the values of one part.
    pub(crate) fn of_part(part: (u64, u64)) -> Self {
        Self { part: Some(part).filter(|(_, parts)| *parts > 1), ..Self::default() }
    }

    /// Creates the numbers of values that are not divided.
    pub(crate) fn undivided(bytes_min: u64) -> Self {
        Self { bytes_min, ..Self::default() }
    }

    /// Returns whether the values take more than this memory. A single value never does.
    pub(crate) fn exceed(&self, bytes: u64) -> bool {
        self.bytes > bytes.max(self.bytes_min) && self.texts.len() > 1
    }

    /// Returns the memory of the values and of their counts.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns values with the same texts, which can find no number.
    pub(crate) fn copy_texts(&self) -> Self {
        Self { texts: self.texts.clone(), ..Self::default() }
    }

    /// Returns the number of a text. A further text gets the next one.
    pub(crate) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        if self.part.is_some_and(|(part, parts)| part_of(hash64(text.as_bytes()), parts) != part) {
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

/// The numbers of the texts of a column. A text has one once a row of the question has had it, so the texts
/// of other rows take no memory.
pub(crate) struct TextNumbers(Vec<Option<u32>>);

impl TextNumbers {
    /// Creates the numbers of a column with this many codes. An absent text has no value. `(other)` has one only if
    /// `counts_other` is true.
    pub(crate) fn new(codes: usize, counts_other: bool) -> Self {
        let mut numbers = vec![None; codes];
        numbers[CODE_ABSENT as usize] = Some(NO_VALUE);
        numbers[CODE_OTHER as usize] = (!counts_other).then_some(NO_VALUE);
        Self(numbers)
    }

    /// Returns the number of the text with this code.
    pub(crate) fn number(&mut self, code: usize, text: &str, values: &mut Values) -> u32 {
        *self.0[code].get_or_insert_with(|| values.number(text))
    }
}
