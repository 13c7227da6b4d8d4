//! The cursor of a page: the row after which the next page begins, and the last record that the pages count.

use crate::insights::questions::question::QuestionError;

/// The name of the parameter.
pub(super) const PARAM: &str = "after";

/// The cursor of a page. Later events change no further page, because all pages count the records up to the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The time of the event by which the last row of the page before is sorted, in milliseconds.
    pub time_ms: i64,
    /// The seq of this event.
    pub seq: u64,
    /// The last seq that the pages count.
    pub last_seq: u64,
}

impl Cursor {
    /// Parses the value of the parameter.
    ///
    /// # Errors
    /// Returns an error if the text is no cursor.
    pub(super) fn parse(text: &str) -> Result<Self, QuestionError> {
        let parse = || {
            let (time, others) = text.split_once('.')?;
            let (seq, last_seq) = others.split_once('.')?;
            Some(Self {
                time_ms: time.parse().ok()?,
                seq: seq.parse().ok()?,
                last_seq: last_seq.parse().ok()?,
            })
        };
        let invalid = || QuestionError::invalid(PARAM, "the 'next' of a page of this list", text);
        parse().ok_or_else(invalid)
    }

    /// Returns the value of the parameter.
    pub(super) fn to_text(self) -> String {
        format!("{}.{}.{}", self.time_ms, self.seq, self.last_seq)
    }
}
