//! Consistency checks within one file that a JSON Schema cannot express.
//!
//! References from one file to another are checked by the compiler.

use std::collections::HashSet;

use serde_json::Number;

use super::diagnostics::{Diagnostic, Diagnostics};
use super::read::{Collection, QUERIES_FILE, Source};
use super::types::{Content, Param, ParamKind, Scalar};

/// Adds a diagnostic for each inconsistency in the source.
pub(super) fn check(source: &Source, diagnostics: &mut Diagnostics) {
    for (query, declared) in source.queries.iter().flatten() {
        for (name, param) in &declared.params {
            let pointer = format!("/{query}/params/{name}");
            check_bounds(&pointer, param, diagnostics);
            check_values(&pointer, param, diagnostics);
        }
    }
    for Collection { file, items } in source.content.values() {
        items.iter().for_each(|items| check_ids(file, items, diagnostics));
    }
}

/// Checks that the item IDs of a collection are unique.
fn check_ids(file: &str, items: &Content, diagnostics: &mut Diagnostics) {
    let mut ids = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        if !ids.insert(&item.id) {
            let expected = "an ID that no other item of the collection has";
            let actual = format!("{:?} again", item.id);
            let title = format!("duplicate item ID {:?}", item.id);
            diagnostics.add_titled(file, format!("/{index}/id"), title, expected, actual);
        }
    }
}

/// Checks that only numbers have bounds, and that the minimum is not above the maximum.
fn check_bounds(pointer: &str, param: &Param, diagnostics: &mut Diagnostics) {
    for (member, bound) in [("minimum", &param.minimum), ("maximum", &param.maximum)] {
        if let Some(bound) = bound.as_ref().filter(|_| param.kind != ParamKind::Number) {
            let expected = "no bound, because the parameter is not a number";
            let pointer = format!("{pointer}/{member}");
            diagnostics.add_titled(QUERIES_FILE, pointer, format!("unexpected `{member}`"), expected, bound);
        }
    }
    if let Some(minimum) = &param.minimum
        && let Some(maximum) = &param.maximum
        && is_less(maximum, minimum)
    {
        let expected = format!("at least {minimum} (the minimum)");
        let pointer = format!("{pointer}/maximum");
        diagnostics.add_titled(QUERIES_FILE, pointer, "`maximum` is less than `minimum`", expected, maximum);
    }
}

/// Checks that the values of `enum` and `default` are valid for the parameter.
fn check_values(pointer: &str, param: &Param, diagnostics: &mut Diagnostics) {
    for (index, value) in param.values.iter().flatten().enumerate() {
        if let Some(expected) = unmet_constraint(param, value) {
            let pointer = format!("{pointer}/enum/{index}");
            diagnostics.add(Diagnostic::at_value(QUERIES_FILE, pointer, expected, value.to_string()));
        }
    }
    if let Some(default) = &param.default {
        let listed = param.values.as_ref().is_none_or(|values| values.contains(default));
        let unlisted = (!listed).then(|| "one of the values of `enum`".to_owned());
        if let Some(expected) = unmet_constraint(param, default).or(unlisted) {
            let pointer = format!("{pointer}/default");
            diagnostics.add(Diagnostic::at_value(QUERIES_FILE, pointer, expected, default.to_string()));
        }
    }
}

/// Returns the constraint that this value violates, if any.
fn unmet_constraint(param: &Param, value: &Scalar) -> Option<String> {
    match (param.kind, value) {
        (ParamKind::String, Scalar::String(_)) | (ParamKind::Boolean, Scalar::Boolean(_)) => None,
        (ParamKind::Number, Scalar::Number(number)) => {
            let below = param.minimum.as_ref().filter(|minimum| is_less(number, minimum));
            let above = param.maximum.as_ref().filter(|maximum| is_less(maximum, number));
            let at_least = below.map(|minimum| format!("at least {minimum}"));
            at_least.or_else(|| above.map(|maximum| format!("at most {maximum}")))
        }
        (ParamKind::String, _) => Some("a string (the `type` of the parameter)".to_owned()),
        (ParamKind::Number, _) => Some("a number (the `type` of the parameter)".to_owned()),
        (ParamKind::Boolean, _) => Some("true or false (the `type` of the parameter)".to_owned()),
    }
}

/// Compares as doubles, as queries compare parameters.
fn is_less(a: &Number, b: &Number) -> bool {
    a.as_f64() < b.as_f64()
}
