//! The limits of an answer in memory and time, and the errors of a question that exceeds them.

use super::question::QuestionError;
use crate::insights::columns::format::ColumnFileError;

/// The memory for the rows and visitors that are counted is the memory of Insights, divided by this number. If they
/// need more, the visitors are counted in several passes.
pub(super) const ROWS_SHARE: u64 = 2;
/// The memory for the values by which a question groups is the memory of Insights, divided by this number. If they
/// need more, the values are counted in several passes.
pub(crate) const VALUES_SHARE: u64 = 8;
/// The memory for the credits is the memory of Insights, divided by this number. If they need more, the visitors are
/// counted in several passes.
const CREDITS_SHARE: u64 = 8;
/// The credits of a part of the visitors may always take this much memory. So a small limit refuses no question about
/// few users. The ties of one user cannot be divided.
pub(crate) const CREDITS_BYTES_MIN: u64 = 64 << 10;

/// The limits of an answer.
pub struct Limits<'l> {
    /// The memory of Insights.
    pub memory_bytes: u64,
    /// Returns true when the time of the question is over.
    pub is_over: &'l dyn Fn() -> bool,
}

impl Limits<'_> {
    /// Returns limits with the memory for the rows and visitors that are counted.
    pub(crate) fn for_rows(&self) -> Limits<'_> {
        Limits { memory_bytes: self.memory_bytes / ROWS_SHARE, is_over: self.is_over }
    }

    /// Returns [`ScanError::TooExpensive`] if the time of the question is over.
    pub(crate) fn check_time(&self) -> Result<(), ScanError> {
        if (self.is_over)() { Err(ScanError::TooExpensive) } else { Ok(()) }
    }

    /// Returns limits with the memory for the credits.
    pub(crate) fn for_credits(&self) -> Limits<'_> {
        let memory_bytes = (self.memory_bytes / CREDITS_SHARE).max(CREDITS_BYTES_MIN);
        Limits { memory_bytes, is_over: self.is_over }
    }
}

/// The reason why a scan ended early.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    #[error("a column file is damaged: {0}")]
    Columns(#[from] ColumnFileError),
    #[error("the question takes more than its time")]
    TooExpensive,
    #[error("the question takes more than its memory")]
    TooLarge,
    #[error("{0}")]
    Refused(QuestionError),
    /// The question is counted again with more parts of the values.
    #[error("the values of the question take too much memory")]
    TooManyValues,
}
