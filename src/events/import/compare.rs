//! The comparison of a line with an export of its record.

use super::super::export::{COLUMNS, with_columns};
use super::error::LineError;
use super::line::{Column, ExportLine, read_time};
use crate::record::Record;

/// The index of the column `site`, after `seq` and the times.
const FIRST_TEXT: usize = 5;
/// The index of the column `bot`, which is no text. `gpc` follows it.
const FIRST_FLAG: usize = 14;

/// Checks that an export of `record` has the columns of `line`. A column that the line lacks may have any value.
///
/// # Errors
/// The name of the first column that differs.
pub(super) fn compare(line: &ExportLine<'_>, record: &Record<'_>) -> Result<(), LineError> {
    let mut difference = None;
    let stated = times_of(line)?;
    with_columns(record, |times, texts| {
        // The time of the receipt may come from `sentAt`.
        let of_times = stated.iter().zip(&times[1..]).zip(2..);
        let of_times =
            of_times.filter(|((stated, exported), _)| stated.is_some_and(|stated| stated != **exported));
        let of_texts = line.texts().into_iter().zip(&texts).enumerate();
        let of_texts = of_texts.filter(|(_, (column, exported))| !is_equal(column, **exported));
        let names = of_texts.map(|(at, _)| {
            let at = FIRST_TEXT + at;
            if at < FIRST_FLAG { at } else { at + 2 }
        });
        difference = of_times.map(|(_, at)| at).chain(names).next();
    });
    match difference {
        Some(at) => Err(LineError::Differs(COLUMNS[at])),
        None => Ok(()),
    }
}

/// Returns the times `timestamp`, `clientTimestamp` and `sentAt` of a line. `None` if the line does not have the member.
fn times_of(line: &ExportLine<'_>) -> Result<[Option<Option<i64>>; 3], LineError> {
    let time = |member, column: &Column<'_>| {
        let time_ms = read_time(member, column)?;
        Ok::<_, LineError>((!column.is_missing()).then_some(time_ms))
    };
    let timestamp = time("timestamp", &line.timestamp)?.filter(Option::is_some);
    let sent = time("sentAt", &line.sent_at)?;
    let stated = time("clientTimestamp", &line.client_timestamp)?;
    // A record keeps the stated time only if it says more than `timestamp`.
    let is_redundant = stated.is_some() && stated == timestamp && sent.flatten().is_none();
    Ok([timestamp, stated.filter(|_| !is_redundant), sent])
}

fn is_equal(column: &Column<'_>, exported: Option<&str>) -> bool {
    column.is_missing() || column.text() == exported
}
