//! Finds the values of filters and goals that no event of the log has. The count of such a value is 0. Often the value
//! is misspelled.

use serde_json::json;

use super::answer::Answer;
use super::limits::{Limits, ScanError};
use super::question::{Filters, NamedValue};
use super::row_reader::DIRECT;
use crate::insights::columns::format::{CODE_FIRST, TextColumn};
use crate::insights::columns::reader::Columns;

/// Adds a note to an answer for each value that no event of the log has. A value gets no note if the answer counts
/// `(other)` in one of the columns of the value, because the value can be among the texts that became `(other)`.
///
/// # Errors
/// Returns an error if a column file is damaged, or if the time is over.
pub(crate) fn add_unknown(
    answer: &mut Answer,
    columns: &[&Columns],
    mut values: Vec<NamedValue<'_>>,
    limits: &Limits<'_>,
) -> Result<(), ScanError> {
    let has_other = |column: &TextColumn| !answer.document["other"][column.name()].is_null();
    values.retain(|value| !value.columns.iter().any(has_other));
    for file in columns {
        if values.is_empty() {
            return Ok(());
        }
        limits.check_time()?;
        let file = &*file.opened()?;
        for column in TextColumn::SHARED {
            if values.iter().any(|value| value.columns.contains(&column)) {
                let texts = file.texts(column)?;
                let texts = texts.get(CODE_FIRST as usize..).unwrap_or_default();
                values.retain(|value| {
                    !value.columns.contains(&column) || !texts.iter().any(|text| value.is_in(column, text))
                });
            }
        }
    }
    if values.is_empty() {
        return Ok(());
    }
    let unknown = values.iter().map(|named| json!({ "filter": named.param, "value": named.value }));
    answer.document["unknown"] = unknown.collect();
    let note = |named: &NamedValue<'_>| format!("No kept event has the {} {:?}.", named.param, named.value);
    answer.notes.extend(values.iter().map(note));
    Ok(())
}

/// Returns the values of all filters except `device`. The values of `device` were checked when the question was parsed.
pub(crate) fn filter_values(filters: &Filters) -> Vec<NamedValue<'_>> {
    let by_text: [(&'static str, &[String], &'static [TextColumn]); 7] = [
        ("page", &filters.page, &[TextColumn::Path]),
        ("source", &filters.source, &[TextColumn::Source, TextColumn::ReferrerHost]),
        ("campaign", &filters.campaign, &[TextColumn::Campaign]),
        ("country", &filters.country, &[TextColumn::Country]),
        ("language", &filters.language, &[TextColumn::Language]),
        ("event", &filters.event, &[TextColumn::Event]),
        ("variant", &filters.variant, &[TextColumn::Variants]),
    ];
    let values = by_text.into_iter().flat_map(|(param, values, columns)| {
        values.iter().map(move |value| NamedValue { param, value, text: value, columns })
    });
    // No column has the text `(direct)`. The value `(direct)` means that a visit has no source.
    values.filter(|named| named.param != "source" || named.value != DIRECT).collect()
}
