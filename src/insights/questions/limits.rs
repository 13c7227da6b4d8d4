//! The memory limit and the time limit of an answer, and the errors of a question that exceeds a limit.

use super::question::QuestionError;
use crate::insights::columns::format::ColumnFileError;

/// The memory for the rows and visitors of a count is the memory of Insights divided by this number. If the rows and
/// visitors need more, the visitors are counted in several passes.
pub(super) const ROWS_SHARE: u64 = 2;
/// The memory for the values by which a question groups is the memory of Insights divided by this number. If the values
/// need more, the values are counted in several passes.
pub(crate) const VALUES_SHARE: u64 = 8;
/// The memory for the credits is the memory of Insights divided by this number. If the credits need more, the visitors
/// are counted in several passes.
const CREDITS_SHARE: u64 = 8;
/// Minimum memory for the credits of a part of the visitors, in bytes. More parts do not divide the ties of one user.
/// So without this minimum, a small memory of Insights would refuse questions about few users.
pub(crate) const CREDITS_BYTES_MIN: u64 = 64 << 10;

/// The memory limit and the time limit of an answer.
pub struct Limits<'l> {
    /// The memory limit in bytes. Usually this is the memory of Insights.
    pub memory_bytes: u64,
    /// Returns true when the time of the question is over.
    pub is_over: &'l dyn Fn() -> bool,
}

impl Limits<'_> {
    /// Returns the limits for the rows and visitors of a count.
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
    /// The caller counts the question again with more parts of the values.
    #[error("the values of the question take too much memory")]
    TooManyValues,
}
