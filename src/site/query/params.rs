//! The values that a caller gives to a query, against its declaration.
//!
//! Types are exact: `"1"` is no number. In a URL a value is text, and is read as the declared type.

use super::super::snapshot::format::{ArchivedParam, ArchivedParamKind, ArchivedQuery};
use crate::condition::Value;
use crate::limits::QUERY_PARAMS_MAX;

/// A value for each of a query's parameters, in order; `None` where one is not given and has no default.
pub type Values<'v> = [Option<Value<'v>>; QUERY_PARAMS_MAX];

/// Nothing is given.
pub const NO_VALUES: Values<'static> = [None; QUERY_PARAMS_MAX];

/// The index of a declared parameter.
pub fn index(query: &ArchivedQuery, name: &str) -> Option<usize> {
    query.params.binary_search_by(|param| param.name.as_str().cmp(name)).ok()
}

/// Puts defaults where nothing is given.
///
/// # Errors
/// The first parameter that has to be given and is not.
pub fn complete<'v>(query: &'v ArchivedQuery, values: &mut Values<'v>) -> Result<(), &'v ArchivedParam> {
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

/// Whether a parameter takes this value.
pub fn takes(param: &ArchivedParam, value: Value<'_>) -> bool {
    let is_listed =
        || param.values.is_empty() || param.values.iter().any(|listed| Value::decode(listed) == Some(value));
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

/// What `text` says as a value of a parameter's type; `None` where it is none that the parameter takes.
pub fn read<'v>(param: &ArchivedParam, text: &'v str) -> Option<Value<'v>> {
    let value = match (&param.kind, text) {
        (ArchivedParamKind::Text, text) => Value::String(text),
        (ArchivedParamKind::Boolean, "true") => Value::Bool(true),
        (ArchivedParamKind::Boolean, "false") => Value::Bool(false),
        (ArchivedParamKind::Boolean, _) => return None,
        (ArchivedParamKind::Number, text) => Value::Number(number(text)?),
    };
    takes(param, value).then_some(value)
}

/// A finite number as JSON writes it (RFC 8259 section 6): Rust would also read "+1", ".5" and "inf".
fn number(text: &str) -> Option<f64> {
    serde_json::from_str(text).ok().filter(|_| !text.contains([' ', '\n', '\r', '\t']))
}
