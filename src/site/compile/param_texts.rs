//! Noun phrases for the parameters of a query. The server sends them in problems: "Expected {phrase}, got ...".

use crate::site::snapshot::format::Param;
use crate::site::source::types::{self, Scalar};

/// Maximum number of `enum` values that an error message lists. The others are replaced by `...`.
const VALUES_LISTED_MAX: usize = 12;

/// Returns the noun phrase for the values that a parameter accepts.
pub(super) fn describe_param(param: &types::Param) -> String {
    if let Some(values) = &param.values {
        let named: Vec<String> = values.iter().take(VALUES_LISTED_MAX).map(Scalar::to_string).collect();
        let more = if values.len() > VALUES_LISTED_MAX { ", ..." } else { "" };
        return format!("one of {}{more}", named.join(", "));
    }
    match (param.kind, &param.minimum, &param.maximum) {
        (types::ParamKind::String, ..) => "a string".to_owned(),
        (types::ParamKind::Boolean, ..) => "true or false".to_owned(),
        (types::ParamKind::Number, None, None) => "a number".to_owned(),
        (types::ParamKind::Number, Some(minimum), None) => format!("a number from {minimum}"),
        (types::ParamKind::Number, None, Some(maximum)) => format!("a number up to {maximum}"),
        (types::ParamKind::Number, Some(minimum), Some(maximum)) => {
            format!("a number from {minimum} to {maximum}")
        }
    }
}

/// Returns the noun phrase for the names of all parameters of a query.
pub(super) fn describe_params(params: &[Param]) -> String {
    let names: Vec<&str> = params.iter().map(|param| param.name.as_str()).collect();
    if names.is_empty() {
        "no parameter (the query has none)".to_owned()
    } else {
        format!("one of {}", names.join(", "))
    }
}
