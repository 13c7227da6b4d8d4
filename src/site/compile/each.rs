//! Generates paths from a pattern and the items of a collection.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::content::Collections;
use super::entry::Entry;
use super::index::Filter;
use super::paths;
use crate::condition::Value;
use crate::limits::{DIAGNOSTIC_TEXT_CHARS_MAX, ROUTE_BYTES_MAX};
use crate::nearest::nearest;
use crate::nfc;
use crate::site::source::diagnostics::{Diagnostic, Diagnostics, join_token, truncate};
use crate::site::source::types::{EachItem, Item, ItemPath};

/// The values of a pattern's parameters, by name.
type ParamValues = BTreeMap<String, String>;

/// A path generated from a pattern.
pub(super) struct ConcretePath<'c> {
    pub(super) path: String,
    /// The item, its number in its collection, and the file of the collection.
    pub(super) item: &'c Item,
    pub(super) number: usize,
    pub(super) file: &'c str,
    /// The values of the pattern's parameters, by name.
    pub(super) values: ParamValues,
}

impl ConcretePath<'_> {
    /// Creates a diagnostic for the item.
    pub(super) fn at_item(&self, expected: String, actual: String) -> Diagnostic {
        Diagnostic::at_value(self.file, format!("/{}", self.number), expected, actual)
    }
}

/// Generates the paths of `pattern`, which is defined in `file`.
pub(super) fn make_paths<'c>(
    file: &str,
    pattern: &str,
    each_item: &EachItem,
    collections: &'c Collections<'_>,
    diagnostics: &mut Diagnostics,
) -> Vec<ConcretePath<'c>> {
    let before = diagnostics.len();
    check_params(file, pattern, each_item, diagnostics);
    let condition = each_item.condition.as_ref().and_then(|written| {
        let condition = collections.parse_condition(written, None, file, "/each/where", diagnostics)?;
        Filter::new(&condition)
            .map_err(|reason| {
                let title = "the condition is too large";
                diagnostics.add_titled(file, "/each/where", title, "a smaller condition", reason);
            })
            .ok()
    });
    let named = collections.find(&each_item.collection, file, "/each/collection", diagnostics);
    let Some((collection, entries)) = named.filter(|_| diagnostics.len() == before) else {
        return Vec::new();
    };
    let mut makers: BTreeMap<String, &str> = BTreeMap::new();
    let mut made = Vec::new();
    let filter = condition.as_ref().map(Filter::evaluator);
    for (number, entry) in entries.iter().enumerate() {
        if !filter.as_ref().is_none_or(|filter| filter.holds(entry.root(), &[])) {
            continue;
        }
        let (path, values) = match make_path(pattern, each_item, entry) {
            Ok(made) => made,
            Err((ItemPath(path), expected)) => {
                diagnostics.add(unusable_value(collection.file, number, entry, path, expected));
                continue;
            }
        };
        if let Some(other) = makers.insert(path.clone(), &entry.item.id) {
            let expected = format!("values that generate a unique path from `{pattern}`");
            let actual = format!("{path:?}, which the item {other:?} also generates");
            let title = format!("duplicate path {path:?}");
            diagnostics.add_titled(collection.file, format!("/{number}"), title, expected, actual);
            continue;
        }
        made.push(ConcretePath { path, item: entry.item, number, file: collection.file, values });
    }
    made
}

/// Checks that `each_item` has a member for every parameter of the pattern, and no other members.
fn check_params(file: &str, pattern: &str, each_item: &EachItem, diagnostics: &mut Diagnostics) {
    let names: Vec<&str> = paths::param_names(pattern).collect();
    if names.is_empty() {
        let expected = "a path with parameters, such as `/blog/:slug`";
        let title = format!("`each` needs a path with parameters, but the path is {pattern:?}");
        diagnostics.add_titled(file, "/path", title, expected, format!("{pattern:?}"));
    }
    for name in names.iter().filter(|name| !each_item.params.contains_key(**name)) {
        let expected = format!("the member `{name}` with the item field for `{}`", display_param(name));
        diagnostics.add_titled(file, "/each", format!("missing member `{name}`"), expected, "none");
    }
    for name in each_item.params.keys().filter(|name| !names.contains(&name.as_str())) {
        let expected = "`collection`, `where`, or a parameter of the path";
        let diagnostic = Diagnostic::at_key(file, join_token("/each", name), expected, format!("`{name}`"));
        let diagnostic = diagnostic.with_title(format!("unknown member `{name}`"));
        let known = names.iter().copied().chain(["collection", "where"]);
        diagnostics.add(diagnostic.with_nearest(nearest(name, known)));
    }
}

fn display_param(name: &str) -> String {
    if name == "*" { name.to_owned() } else { format!(":{name}") }
}

/// Returns the path of an item and the values of the parameters.
fn make_path<'e>(
    pattern: &str,
    each_item: &'e EachItem,
    entry: &Entry<'_>,
) -> Result<(String, ParamValues), (&'e ItemPath, String)> {
    let mut values = BTreeMap::new();
    let mut path = String::new();
    for segment in pattern[1..].split('/') {
        path.push('/');
        let Some(name) = paths::param_name(segment) else {
            path.push_str(segment);
            continue;
        };
        let from = &each_item.params[name];
        let text = value_text(entry, &from.0).filter(|text| is_path_part(text, name == "*")).ok_or_else(|| {
            let expected = "a text or a whole number that can be part of a path: not empty, without `%`, `?` and `#`, not `*`, \
                            no leading `:`, and a `/` only between the parts of a `*`";
            (from, expected.to_owned())
        })?;
        let text = nfc::normalize(&text);
        path.push_str(&text);
        values.insert(name.to_owned(), text.into_owned());
    }
    if path.len() > ROUTE_BYTES_MAX {
        let from = each_item.params.values().next().expect("a pattern has a parameter");
        return Err((from, format!("values that generate a path of at most {ROUTE_BYTES_MAX} bytes")));
    }
    Ok((path, values))
}

/// Creates the diagnostic for an item's value that cannot be part of a path. Points to the item if it has no
/// value.
fn unusable_value(
    file: &str,
    item_index: usize,
    entry: &Entry<'_>,
    path: &str,
    expected: String,
) -> Diagnostic {
    let diagnostic = match item_value(entry, path) {
        None => Diagnostic::at_value(file, format!("/{item_index}"), format!("`{path}`: {expected}"), "none"),
        Some(value) => {
            let actual = truncate(&value.to_json().to_string(), DIAGNOSTIC_TEXT_CHARS_MAX);
            Diagnostic::at_value(file, item_pointer(item_index, path), expected, actual)
        }
    };
    diagnostic.with_title(format!("`{path}` of item {:?} cannot be part of a path", entry.item.id))
}

/// Returns an item's value as the text of a path segment.
fn value_text<'e>(entry: &'e Entry<'_>, path: &str) -> Option<Cow<'e, str>> {
    match item_value(entry, path)? {
        Value::String(text) => Some(Cow::from(text)),
        Value::Number(number) if number.fract() == 0.0 => Some(Cow::from(format!("{number}"))),
        _ => None,
    }
}

fn item_value<'e>(entry: &'e Entry<'_>, path: &str) -> Option<Value<'e>> {
    match path {
        "id" => Some(Value::String(&entry.item.id)),
        "type" => Some(Value::String(&entry.item.kind)),
        _ => entry.get(path.strip_prefix("fields.")?),
    }
}

fn is_path_part(text: &str, is_rest: bool) -> bool {
    let is_segment = |segment: &str| !segment.is_empty() && segment != "*" && !segment.starts_with(':');
    !text.contains(['%', '?', '#'])
        && if is_rest { text.split('/').all(is_segment) } else { !text.contains('/') && is_segment(text) }
}

fn item_pointer(item_index: usize, path: &str) -> String {
    path.split('.').fold(format!("/{item_index}"), |pointer, name| join_token(&pointer, name))
}
