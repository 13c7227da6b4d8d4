//! The users to whom the visitors of a page are tied.

use std::collections::HashMap;

use crate::events::identity;
use crate::insights::columns::reader::Columns;
use crate::insights::questions::credits::RowLocation;
use crate::insights::questions::limits::{Limits, ScanError};

/// The last tie of a visitor in the log.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct VisitorTie {
    /// The location of the record that made or ended it. `None` if no record ties the visitor.
    pub location: Option<RowLocation>,
    /// True if the tie has not ended.
    pub is_valid: bool,
}

/// Returns the last tie of each visitor with one of these hashes, which are sorted. Only rows before `end_row` count.
///
/// # Errors
/// Returns an error if a file is damaged, or if the time is over.
pub(super) fn ties_of(
    files: &[&Columns],
    hashes: &[u64],
    end_row: Option<u64>,
    limits: &Limits<'_>,
) -> Result<HashMap<u64, VisitorTie>, ScanError> {
    let mut ties: HashMap<u64, VisitorTie> = HashMap::new();
    for (number, file) in files.iter().enumerate() {
        limits.check_time()?;
        let file = &*file.opened()?;
        let rows = file.ties()?;
        let visitors = if rows.is_empty() { Vec::new() } else { file.visitors()? };
        for row in rows {
            let anonymous = visitors[row.anonymous as usize];
            let counts = end_row.is_none_or(|end_row| file.row_number(row.position) < end_row);
            if !counts || hashes.binary_search(&anonymous).is_err() {
                continue;
            }
            let tie = ties.entry(anonymous).or_default();
            if identity::ties(row.is_alias, || tie.is_valid) {
                let location = RowLocation { file: number as u32, position: row.position };
                *tie = VisitorTie { location: Some(location), is_valid: row.user.is_some() };
            }
        }
    }
    Ok(ties)
}
