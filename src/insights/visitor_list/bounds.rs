//! The rows of the log that a page counts.

use std::io;

use super::question::VisitorsQuestion;
use super::records::SegmentFiles;
use crate::insights::columns::reader::Columns;

/// The rows of the log that a page counts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PageBounds {
    /// The time and the row number of the last visitor of the page before. `None` for the first page.
    pub after: Option<(i64, u64)>,
    /// The number of the first row that does not count. `None` if all rows count.
    pub end_row: Option<u64>,
}

impl PageBounds {
    /// Finds the rows of the seqs in the cursor of a question. Without `segments`, each record must have a row.
    ///
    /// # Errors
    /// Returns an error if a segment cannot be read.
    pub(super) fn of(
        files: &[&Columns],
        question: &VisitorsQuestion,
        segments: Option<SegmentFiles<'_>>,
    ) -> io::Result<Self> {
        let Some(cursor) = question.after else { return Ok(Self::default()) };
        let row_of = |seq: u64| {
            let file = files.iter().rfind(|file| file.header().first_seq <= seq);
            let file = file.filter(|file| !file.has_all_rows() && seq <= file.header().last_seq);
            let Some((file, segments)) = file.zip(segments) else { return Ok::<u64, io::Error>(seq) };
            let first_seq = file.header().first_seq;
            Ok(first_seq + segments.rows_before(first_seq, seq)?)
        };
        let after = (cursor.time_ms, row_of(cursor.seq)?);
        Ok(Self { after: Some(after), end_row: Some(row_of(cursor.last_seq.saturating_add(1))?) })
    }
}
