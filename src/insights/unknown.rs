//! The values of filters and goals that no kept event has. Their answer is 0, and often they are misspelled.

use serde_json::json;

use super::columns::format::{CODE_FIRST, TextColumn};
use super::columns::reader::Columns;
use super::questions::answer::Answer;
use super::questions::question::{Filters, Query};
use super::questions::rows::DIRECT;
use super::questions::scan::{Limits, ScanError};
use crate::site::experiment_metrics::Goal;

/// A value of a parameter, and the columns in which an event can have it.
struct Wanted<'q> {
    param: &'static str,
    /// The value as it was written.
    value: &'q str,
    text: &'q str,
    columns: &'static [TextColumn],
}

/// Adds the values of the question that no kept event has to its answer. A value may hide in a column with texts beyond
/// the dictionary, so such a column names none.
///
/// # Errors
/// A column file is damaged, or the time is over.
pub(super) fn add_unknown(
    answer: &mut Answer,
    files: &[&Columns],
    query: &Query,
    limits: &Limits<'_>,
) -> Result<(), ScanError> {
    let mut wanted = wanted_of(query);
    let has_other = |column: &TextColumn| !answer.document["other"][column.name()].is_null();
    wanted.retain(|one| !one.columns.iter().any(has_other));
    for file in files {
        if wanted.is_empty() {
            return Ok(());
        }
        if (limits.is_over)() {
            return Err(ScanError::TooExpensive);
        }
        let file = &*file.opened()?;
        for column in TextColumn::ALL {
            if wanted.iter().any(|one| one.columns.contains(&column)) {
                let texts = file.texts(column)?;
                let texts = texts.get(CODE_FIRST as usize..).unwrap_or_default();
                wanted.retain(|one| {
                    !one.columns.contains(&column) || !texts.iter().any(|text| one.is_in(column, text))
                });
            }
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let unknown = wanted.iter().map(|one| json!({ "filter": one.param, "value": one.value }));
    answer.document["unknown"] = unknown.collect();
    answer
        .notes
        .extend(wanted.iter().map(|one| format!("No kept event has the {} {:?}.", one.param, one.value)));
    Ok(())
}

impl Wanted<'_> {
    fn is_in(&self, column: TextColumn, text: &str) -> bool {
        match column {
            TextColumn::Variants => text.split(',').any(|pair| pair == self.text),
            _ => text == self.text,
        }
    }
}

fn wanted_of(query: &Query) -> Vec<Wanted<'_>> {
    match query {
        Query::Views(question) => wanted_filters(&question.filters),
        Query::Experiment(question) => {
            let mut wanted = wanted_filters(&question.filters);
            // The goal of a value is that of another metric.
            for metric in question.metrics().iter().filter(|metric| metric.column.is_none()) {
                let (text, columns): (&str, &[TextColumn]) = match &metric.goal {
                    Goal::Event(name) => (name, &[TextColumn::Event]),
                    Goal::Page(path) => (path, &[TextColumn::Path]),
                };
                wanted.push(Wanted { param: metric.role.name(), value: &metric.text, text, columns });
            }
            wanted
        }
        Query::Experiments(_) | Query::Zones(_) => Vec::new(),
    }
}

/// Returns the values of the filters. The values of `device` are checked when a question is read.
fn wanted_filters(filters: &Filters) -> Vec<Wanted<'_>> {
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
        values.iter().map(move |value| Wanted { param, value, text: value, columns })
    });
    // A visit without a source is direct, and no text says so.
    values.filter(|one| one.param != "source" || one.value != DIRECT).collect()
}
