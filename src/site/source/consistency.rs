//! What the parts of one file have to say alike, where a schema cannot tell.
//!
//! In comes the typed source; out come mistakes. What refers from one file to another is not looked at here.

use std::collections::HashSet;

use serde_json::Number;

use super::diagnostics::{Mistake, Mistakes};
use super::read::{Collection, QUERIES, Source};
use super::types::{Content, Param, ParamKind, Scalar};

/// Adds every disagreement in the source.
pub fn check(source: &Source, mistakes: &mut Mistakes) {
    for (query, declared) in source.queries.iter().flatten() {
        for (name, param) in &declared.params {
            let pointer = format!("/{query}/params/{name}");
            check_bounds(&pointer, param, mistakes);
            check_values(&pointer, param, mistakes);
        }
    }
    for Collection { file, items } in source.content.values() {
        items.iter().for_each(|items| check_ids(file, items, mistakes));
    }
}

/// An item's id is the only one of its collection.
fn check_ids(file: &str, items: &Content, mistakes: &mut Mistakes) {
    let mut ids = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        if !ids.insert(&item.id) {
            let expected = "an id that no other item of the collection has";
            let came = format!("{:?} again", item.id);
            mistakes.add(Mistake::of_value(file, format!("/{index}/id"), expected, came));
        }
    }
}

/// Only numbers have bounds, and the least is not above the greatest.
fn check_bounds(pointer: &str, param: &Param, mistakes: &mut Mistakes) {
    for (member, bound) in [("minimum", &param.minimum), ("maximum", &param.maximum)] {
        if let Some(bound) = bound.as_ref().filter(|_| param.kind != ParamKind::Number) {
            let expected = "no bound, since the parameter is no number";
            let pointer = format!("{pointer}/{member}");
            mistakes.add(Mistake::of_value(QUERIES, pointer, expected, bound.to_string()));
        }
    }
    if let (Some(minimum), Some(maximum)) = (&param.minimum, &param.maximum)
        && less(maximum, minimum)
    {
        let expected = format!("at least the minimum, {minimum}");
        let pointer = format!("{pointer}/maximum");
        mistakes.add(Mistake::of_value(QUERIES, pointer, expected, maximum.to_string()));
    }
}

/// The values that a declaration names are values that it allows.
fn check_values(pointer: &str, param: &Param, mistakes: &mut Mistakes) {
    for (index, value) in param.values.iter().flatten().enumerate() {
        if let Some(expected) = expected_instead(param, value) {
            let pointer = format!("{pointer}/enum/{index}");
            mistakes.add(Mistake::of_value(QUERIES, pointer, expected, value.to_string()));
        }
    }
    if let Some(default) = &param.default {
        let listed = param.values.as_ref().is_none_or(|values| values.contains(default));
        let unlisted = (!listed).then(|| "one of the values of `enum`".to_owned());
        if let Some(expected) = expected_instead(param, default).or(unlisted) {
            let pointer = format!("{pointer}/default");
            mistakes.add(Mistake::of_value(QUERIES, pointer, expected, default.to_string()));
        }
    }
}

/// What a parameter takes, where that is not this value.
fn expected_instead(param: &Param, value: &Scalar) -> Option<String> {
    match (param.kind, value) {
        (ParamKind::String, Scalar::String(_)) | (ParamKind::Boolean, Scalar::Boolean(_)) => None,
        (ParamKind::Number, Scalar::Number(number)) => {
            let below = param.minimum.as_ref().filter(|minimum| less(number, minimum));
            let above = param.maximum.as_ref().filter(|maximum| less(maximum, number));
            let at_least = below.map(|minimum| format!("at least {minimum}"));
            at_least.or_else(|| above.map(|maximum| format!("at most {maximum}")))
        }
        (ParamKind::String, _) => Some("a string, as `type` says".to_owned()),
        (ParamKind::Number, _) => Some("a number, as `type` says".to_owned()),
        (ParamKind::Boolean, _) => Some("true or false, as `type` says".to_owned()),
    }
}

/// As doubles, which is how parameters are compared when a query is answered.
fn less(a: &Number, b: &Number) -> bool {
    a.as_f64() < b.as_f64()
}
