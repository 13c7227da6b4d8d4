//! The paths that the items of a collection make of a pattern.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::content::{Collections, Entry};
use super::index::Filter;
use super::paths;
use crate::condition::Value;
use crate::limits::{FAULT_TEXT_CHARS_MAX, ROUTE_BYTES_MAX};
use crate::nearest::nearest;
use crate::site::source::diagnostics::{Mistake, Mistakes, cut, push_token};
use crate::site::source::types::{Each, ItemPath};

/// One path, made of a pattern.
pub(super) struct Concrete {
    pub(super) path: String,
    /// The values of the pattern's parameters, by name.
    pub(super) values: BTreeMap<String, String>,
}

/// Makes the paths of `pattern`, which stands in `file`.
pub(super) fn paths(
    file: &str,
    pattern: &str,
    each: &Each,
    collections: &Collections<'_>,
    mistakes: &mut Mistakes,
) -> Vec<Concrete> {
    let before = mistakes.len();
    check_names(file, pattern, each, mistakes);
    let condition = each.matching.as_ref().and_then(|written| {
        let condition = collections.condition(written, None, (file, "/each/where"), mistakes)?;
        Filter::new(&condition)
            .map_err(|reason| {
                mistakes.add(Mistake::of_value(file, "/each/where", "a smaller condition", reason));
            })
            .ok()
    });
    let named = collections.named(&each.collection, (file, "/each/collection"), mistakes);
    let Some((collection, entries)) = named.filter(|_| mistakes.len() == before) else {
        return Vec::new();
    };
    let mut makers: BTreeMap<String, &str> = BTreeMap::new();
    let mut made = Vec::new();
    let mut scratch = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        if !condition.as_ref().is_none_or(|filter| filter.holds(entry.root(), &[], &mut scratch)) {
            continue;
        }
        let concrete = match concrete(pattern, each, entry) {
            Ok(concrete) => concrete,
            Err((ItemPath(path), expected)) => {
                mistakes.add(unusable(collection.file, number, entry, path, expected));
                continue;
            }
        };
        if let Some(other) = makers.insert(concrete.path.clone(), &entry.item.id) {
            let expected = format!("values that make a path which no other item makes of `{pattern}`");
            let came = format!("{:?}, which the item {other:?} makes as well", concrete.path);
            mistakes.add(Mistake::of_value(collection.file, format!("/{number}"), expected, came));
            continue;
        }
        made.push(concrete);
    }
    made
}

/// Each of the pattern's parameters has a member, and no member has another name.
fn check_names(file: &str, pattern: &str, each: &Each, mistakes: &mut Mistakes) {
    let names: Vec<&str> = paths::param_names(pattern).collect();
    if names.is_empty() {
        let expected = "a path with parameters, such as `/blog/:slug`";
        mistakes.add(Mistake::of_value(file, "/path", expected, format!("{pattern:?}")));
    }
    for name in names.iter().filter(|name| !each.params.contains_key(**name)) {
        let expected = format!("the member `{name}`, which says what of an item `{}` is", shown(name));
        mistakes.add(Mistake::of_value(file, "/each", expected, "none"));
    }
    for name in each.params.keys().filter(|name| !names.contains(&name.as_str())) {
        let mut at = "/each".to_owned();
        push_token(&mut at, name);
        let expected = "`collection`, `where`, or a parameter of the path";
        let mistake = Mistake::of_key(file, at, expected, format!("`{name}`"));
        mistakes
            .add(mistake.with_nearest(nearest(name, names.iter().copied().chain(["collection", "where"]))));
    }
}

fn shown(name: &str) -> String {
    if name == "*" { name.to_owned() } else { format!(":{name}") }
}

fn concrete<'e>(
    pattern: &str,
    each: &'e Each,
    entry: &Entry<'_>,
) -> Result<Concrete, (&'e ItemPath, String)> {
    let mut values = BTreeMap::new();
    let mut path = String::new();
    for segment in pattern[1..].split('/') {
        path.push('/');
        let Some(name) = paths::param_name(segment) else {
            path.push_str(segment);
            continue;
        };
        let from = &each.params[name];
        let text = text(entry, &from.0).filter(|text| is_path_part(text, name == "*")).ok_or_else(|| {
            let expected = "a text or a whole number that can stand in a path: not empty, without `%`, `?` and `#`, not `*`, \
                            no `:` before it, and a `/` only between the parts of a `*`";
            (from, expected.to_owned())
        })?;
        path.push_str(&text);
        values.insert(name.to_owned(), text.into_owned());
    }
    if path.len() > ROUTE_BYTES_MAX {
        let from = each.params.values().next().expect("a pattern has a parameter");
        return Err((from, format!("values whose path takes at most {ROUTE_BYTES_MAX} bytes")));
    }
    Ok(Concrete { path, values })
}

/// The mistake of an item: where it has what cannot be used, or at the item where it has nothing there.
fn unusable(file: &str, number: usize, entry: &Entry<'_>, path: &str, expected: String) -> Mistake {
    match value(entry, path) {
        None => Mistake::of_value(file, format!("/{number}"), format!("`{path}`: {expected}"), "none"),
        Some(value) => {
            let came = cut(&value.to_json().to_string(), FAULT_TEXT_CHARS_MAX);
            Mistake::of_value(file, pointer(number, path), expected, came)
        }
    }
}

/// The text of what an item has there.
fn text<'e>(entry: &'e Entry<'_>, path: &str) -> Option<Cow<'e, str>> {
    match value(entry, path)? {
        Value::String(text) => Some(Cow::from(text)),
        Value::Number(number) if number.fract() == 0.0 => Some(Cow::from(format!("{number}"))),
        _ => None,
    }
}

fn value<'e>(entry: &'e Entry<'_>, path: &str) -> Option<Value<'e>> {
    match path {
        "id" => Some(Value::String(&entry.item.id)),
        "type" => Some(Value::String(&entry.item.kind)),
        _ => entry.at(path.strip_prefix("fields.")?),
    }
}

fn is_path_part(text: &str, rest: bool) -> bool {
    let is_segment = |segment: &str| !segment.is_empty() && segment != "*" && !segment.starts_with(':');
    !text.contains(['%', '?', '#'])
        && if rest { text.split('/').all(is_segment) } else { !text.contains('/') && is_segment(text) }
}

fn pointer(number: usize, path: &str) -> String {
    let mut pointer = format!("/{number}");
    path.split('.').for_each(|name| push_token(&mut pointer, name));
    pointer
}
