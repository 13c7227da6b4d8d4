//! The columns of a file that a question reads, block by block.

use super::values::{NO_VALUE, Values};
use crate::insights::columns::format::{CODE_FIRST, CODE_OTHER, ColumnFileError, TextColumn};
use crate::insights::columns::packing::PackedColumn;
use crate::insights::columns::reader::{Columns, FilePart};

/// A file, and the part of the file that is read.
#[derive(Clone, Copy)]
pub(crate) struct PartOfFile<'f> {
    pub columns: &'f Columns,
    pub part: &'f FilePart,
}

impl<'f> PartOfFile<'f> {
    /// Returns the whole file.
    pub(crate) fn whole(columns: &'f Columns) -> Self {
        Self { columns, part: &FilePart::WHOLE }
    }
}

/// A packed column, and the numbers of its current block.
pub(crate) struct Block {
    column: PackedColumn,
    pub(crate) numbers: Vec<i64>,
}

impl Block {
    pub(crate) fn new(column: PackedColumn) -> Self {
        Self { column, numbers: Vec::new() }
    }

    pub(crate) fn next(&mut self) -> Result<(), ColumnFileError> {
        self.column.next_block(&mut self.numbers)
    }
}

/// A text column that a plan needs.
pub(super) struct TextBlock {
    pub(super) column: TextColumn,
    pub(super) block: Block,
    /// The text of each code.
    pub(super) texts: Vec<String>,
    /// The flags of each code.
    pub(super) flags: Vec<u16>,
    /// The mask of the steps that accept each code. Empty if the question has no steps in this column.
    pub(super) step_masks: Vec<u32>,
}

impl TextBlock {
    pub(super) fn code(&self, row: usize) -> usize {
        self.block.numbers[row] as usize
    }

    /// Sets a flag for each code for whose text `accepts` returns true. Never sets the flag for an absent text or for
    /// `(other)`.
    pub(super) fn set_flag(&mut self, flag: u16, accepts: impl Fn(&str) -> bool) {
        for (code, flags) in self.flags.iter_mut().enumerate().skip(CODE_FIRST as usize) {
            *flags |= if accepts(&self.texts[code]) { flag } else { 0 };
        }
    }

    /// Returns the value of each code. The code of an absent text has no value.
    pub(super) fn values(&self, values: &mut Values) -> Vec<u32> {
        let mut numbers = vec![NO_VALUE; self.texts.len()];
        for (code, number) in numbers.iter_mut().enumerate().skip(CODE_OTHER as usize) {
            *number = values.number(&self.texts[code]);
        }
        numbers
    }
}
