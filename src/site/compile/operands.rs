//! Errors in the operands and names of conditions over visitors: dates, hours and weekdays that do not exist, bounds
//! that exclude each other, and paths that no page event has.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::comparisons::{Comparison, Comparisons, FieldTest, LOOSE};
use super::fields::SiteFields;
use super::paths;
use crate::nfc;
use crate::site::profile_fields::ProfileField;
use crate::site::profile_values::{FieldValues, ValueList, is_date, is_date_prefix};
use crate::site::source::diagnostics::{Diagnostic, Diagnostics};

/// The help for a window of hours or weekdays whose end is before its start.
const WRAPPED_WINDOW: &[&str] = &[
    "for a window over midnight, write {\"$or\": [{\"now.hour\": {\"$gte\": 22}}, {\"now.hour\": {\"$lt\": 6}}]}",
];

/// Reports the errors of the condition at `pointer` in `file`. The condition is valid otherwise. `site_fields` are those
/// that it can name.
pub(super) fn check(
    site_fields: SiteFields<'_>,
    file: &str,
    pointer: &str,
    condition: &Json,
    diagnostics: &mut Diagnostics,
) {
    let found = Comparisons::collect(site_fields, condition, pointer);
    let mut wrong = BTreeSet::new();
    for comparison in found.all.iter().filter(|comparison| !comparison.is_count) {
        if let Some((expected, nearest)) = find_wrong_operand(comparison) {
            wrong.insert((comparison.conjunction, comparison.path));
            let path = comparison.path;
            let literal = comparison.literal;
            let diagnostic =
                Diagnostic::at_value(file, comparison.pointer.clone(), expected, literal.to_string());
            let diagnostic = diagnostic.with_title(format!("`{path}` is never {literal}"));
            diagnostics.add(diagnostic.with_nearest(nearest));
        }
    }
    for window in found.windows() {
        let last = window[window.len() - 1];
        if !wrong.contains(&(last.conjunction, last.path)) && is_empty(&window) {
            diagnostics.add(describe_empty(file, &window));
        }
    }
    for field in &found.fields {
        if let Some(diagnostic) = check_page_path(file, field) {
            diagnostics.add(diagnostic);
        }
    }
}

pub(super) fn is_ordering(operator: &str) -> bool {
    matches!(operator, "$gt" | "$gte" | "$lt" | "$lte")
}

/// Returns the expected value and the nearest one, if the literal can never be meant.
fn find_wrong_operand(comparison: &Comparison<'_>) -> Option<(String, Option<String>)> {
    let list = FieldValues::of(comparison.field).list;
    let is_wrong = match list {
        ValueList::Date => {
            let text = comparison.literal.as_str()?;
            !(is_date(text) || is_ordering(comparison.operator) && is_date_prefix(text))
        }
        ValueList::Integers(min, max) => {
            let number = number_of(comparison.literal)?;
            let mut values = (min..=max).map(f64::from);
            match is_ordering(comparison.operator) {
                true => !values.any(|value| holds(comparison.operator, value, number)),
                false => !list.has_number(number),
            }
        }
        _ => false,
    };
    let text = comparison.literal.as_str().unwrap_or_default();
    is_wrong.then(|| (list.description(), list.suggest(text)))
}

/// Returns the number of a literal, as an ordering operator reads it.
pub(super) fn number_of(literal: &Json) -> Option<f64> {
    literal.as_f64().or_else(|| literal.as_str()?.trim().parse().ok())
}

fn holds(operator: &str, value: f64, operand: f64) -> bool {
    match operator {
        "$gt" => value > operand,
        "$gte" => value >= operand,
        "$lt" => value < operand,
        "$lte" => value <= operand,
        "$ne" | "$nin" | "$nini" => value != operand,
        _ => value == operand,
    }
}

/// Returns whether no value of the field passes all comparisons of a window.
fn is_empty(window: &[&Comparison<'_>]) -> bool {
    let first = window[0];
    if first.is_count {
        return excludes_all(window, |literal| literal.as_f64());
    }
    match FieldValues::of(first.field).list {
        ValueList::Integers(min, max) => !(min..=max).any(|value| passes(window, f64::from(value))),
        ValueList::Date => excludes_all(window, Json::as_str),
        _ if is_time(first.field) => excludes_all(window, time_of),
        // A text can be compared as a number or by its characters.
        _ => excludes_all(window, Json::as_f64),
    }
}

/// Returns whether an integer passes all comparisons. The lists of several `$in` count as one list.
fn passes(window: &[&Comparison<'_>], value: f64) -> bool {
    let (listed, single): (Vec<_>, Vec<_>) =
        window.iter().partition(|comparison| matches!(comparison.operator, "$in" | "$ini"));
    let test = |comparison: &&&Comparison<'_>| {
        number_of(comparison.literal).is_none_or(|operand| holds(comparison.operator, value, operand))
    };
    single.iter().all(|comparison| test(&comparison))
        && (listed.is_empty() || listed.iter().any(|comparison| test(&comparison)))
}

fn is_time(field: ProfileField) -> bool {
    use ProfileField as F;
    matches!(
        field,
        F::At | F::FirstSeen | F::LastSeen | F::EventFirst | F::EventLast | F::PageFirst | F::PageLast
    )
}

/// Returns the milliseconds since 1970 of a time in a condition.
pub(super) fn time_of(literal: &Json) -> Option<f64> {
    literal.as_f64().or_else(|| parse_time_ms(literal.as_str()?).map(|ms| ms as f64))
}

/// Returns whether the lower bounds exclude the upper bounds. Literals without a `value_of` are no bounds.
fn excludes_all<'c, T: PartialOrd + Copy>(
    window: &[&Comparison<'c>],
    value_of: impl Fn(&'c Json) -> Option<T>,
) -> bool {
    let bounds = |operators: &[&str], strict: &str| -> Vec<(T, bool)> {
        let bounds = window.iter().filter(|comparison| operators.contains(&comparison.operator));
        bounds.filter_map(|bound| Some((value_of(bound.literal)?, bound.operator == strict))).collect()
    };
    let lower = bounds(&["$gt", "$gte", "$eq", LOOSE], "$gt");
    let upper = bounds(&["$lt", "$lte", "$eq", LOOSE], "$lt");
    let excludes =
        |(low, above): &(T, bool), (high, below): &(T, bool)| low > high || low == high && (*above || *below);
    lower.iter().any(|low| upper.iter().any(|high| excludes(low, high)))
}

fn describe_empty(file: &str, window: &[&Comparison<'_>]) -> Diagnostic {
    let first = window[0];
    let last = window[window.len() - 1];
    let written = |comparison: &&Comparison<'_>| match comparison.operator {
        LOOSE => comparison.literal.to_string(),
        operator => format!("{operator} {}", comparison.literal),
    };
    let all: Vec<String> = window.iter().map(written).collect();
    let expected = "comparisons that one value can pass together, such as a lower bound below the upper one";
    let diagnostic = Diagnostic::at_value(file, last.pointer.clone(), expected, all.join(" and "));
    let title = format!("`{}` never passes {}", first.path, all.join(" and "));
    let is_hour = first.field == ProfileField::Hour;
    let help = if is_hour { WRAPPED_WINDOW } else { &[] };
    Diagnostic { help, ..diagnostic.with_title(title) }
}

/// Checks that the path in `pages.<path>` has the form that page events have.
fn check_page_path(file: &str, test: &FieldTest<'_>) -> Option<Diagnostic> {
    let name = test.page_path()?;
    let star = if name.ends_with('*') { "*" } else { "" };
    let path = name.strip_suffix('*').unwrap_or(name);
    let recorded = match (path, star) {
        ("", "*") => return None,
        _ => recorded_path(path, !star.is_empty()),
    };
    if recorded == nfc::normalize(path) {
        return None;
    }
    let expected = "a decoded path that begins with `/`, without host, query, fragment and final `/`, such as `pages./pricing`";
    let ending = &test.path["pages.".len() + name.len()..];
    let diagnostic = Diagnostic::at_key(file, test.pointer.clone(), expected, format!("{name:?}"));
    let diagnostic = diagnostic.with_title(format!("no page event has the path {name:?}"));
    Some(diagnostic.with_nearest(Some(format!("pages.{recorded}{star}{ending}"))))
}

/// Returns the path that page events have for an authored path or URL.
fn recorded_path(authored_path: &str, is_prefix: bool) -> String {
    let path = match authored_path.split_once("://") {
        Some((_, rest)) => &rest[rest.find('/').unwrap_or(rest.len())..],
        None => authored_path,
    };
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let path = if is_prefix { path } else { path.trim_end_matches('/') };
    let path = paths::decode(path);
    if path.starts_with('/') { path } else { format!("/{path}") }
}

/// Returns a time of RFC 3339 of milliseconds since 1970. A time that is no year of RFC 3339 is 1970.
pub(crate) fn time_text(time_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(time_ms).unwrap_or_default().to_string()
}

/// Parses a time of RFC 3339 to milliseconds since 1970.
pub(super) fn parse_time_ms(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}
