//! The parameter values of a content query, checked against the query's declaration.
//!
//! Types are exact: `"1"` is not a number. In a URL a value is text, which is parsed as the declared type.

use super::super::snapshot::format::{ArchivedParam, ArchivedParamKind, ArchivedQuery};
use crate::condition::Value;
use crate::json;
use crate::limits::QUERY_PARAMS_MAX;

/// A value for each of a query's parameters, in order. `None` if the value is absent and has no default.
pub(crate) type ParamValues<'v> = [Option<Value<'v>>; QUERY_PARAMS_MAX];

/// No value for any parameter.
pub(crate) const NO_VALUES: ParamValues<'static> = [None; QUERY_PARAMS_MAX];

/// Returns the index of a declared parameter.
pub(crate) fn index_of(query: &ArchivedQuery, name: &str) -> Option<usize> {
    query.params.binary_search_by(|param| param.name.as_str().cmp(name)).ok()
}

/// Returns whether a caller may leave the parameter out. Then `null` and an empty text count as absent.
pub(crate) fn may_be_absent(param: &ArchivedParam) -> bool {
    param.optional || param.default.is_some()
}

/// Appends a text of a path as a JSON value of the parameter's type. A text that the parameter does not accept
/// becomes a string.
pub(crate) fn write_route_value(param: &ArchivedParam, text: &str, out: &mut Vec<u8>) {
    match parse(param, text) {
        // The text of an accepted number or boolean is JSON.
        Some(Value::Number(_) | Value::Bool(_)) => out.extend_from_slice(text.as_bytes()),
        _ => json::write_string(out, text),
    }
}

/// Fills in the defaults of absent values.
///
/// # Errors
/// The first required parameter without a value.
pub(crate) fn apply_defaults<'v>(
    query: &'v ArchivedQuery,
    values: &mut ParamValues<'v>,
) -> Result<(), &'v ArchivedParam> {
    for (param, value) in query.params.iter().zip(values) {
        if value.is_none() {
            *value = param.default.as_ref().and_then(|default| Value::decode(default));
            if value.is_none() && !param.optional {
                return Err(param);
            }
        }
    }
    Ok(())
}

/// Returns whether the parameter accepts this value.
pub(crate) fn accepts(param: &ArchivedParam, value: Value<'_>) -> bool {
    let is_listed =
        || param.values.is_empty() || param.values.iter().any(|listed| value.is_encoded_as(listed));
    match (&param.kind, value) {
        (ArchivedParamKind::Number, Value::Number(number)) => {
            let above = param.minimum.as_ref().is_none_or(|minimum| number >= minimum.to_native());
            let below = param.maximum.as_ref().is_none_or(|maximum| number <= maximum.to_native());
            above && below && is_listed()
        }
        (ArchivedParamKind::Text, Value::String(_)) | (ArchivedParamKind::Boolean, Value::Bool(_)) => {
            is_listed()
        }
        _ => false,
    }
}

/// Parses `text` as the parameter's type. Returns `None` if it is not a value that the parameter accepts.
pub(crate) fn parse<'v>(param: &ArchivedParam, text: &'v str) -> Option<Value<'v>> {
    let value = match (&param.kind, text) {
        (ArchivedParamKind::Text, text) => Value::String(text),
        (ArchivedParamKind::Boolean, "true") => Value::Bool(true),
        (ArchivedParamKind::Boolean, "false") => Value::Bool(false),
        (ArchivedParamKind::Boolean, _) => return None,
        (ArchivedParamKind::Number, text) => Value::Number(parse_number(text)?),
    };
    accepts(param, value).then_some(value)
}

/// Parses a finite number in the syntax of JSON (RFC 8259 section 6). Rust's parser would also accept "+1",
/// ".5" and "inf".
fn parse_number(text: &str) -> Option<f64> {
    serde_json::from_str(text).ok().filter(|_| !text.contains([' ', '\n', '\r', '\t']))
}
