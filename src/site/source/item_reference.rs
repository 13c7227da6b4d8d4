//! References to the item of a page in its props: `{"$item": "fields.title"}` is a whole value, and
//! `{$item.fields.title}` is a part of a text.

use serde_json::Value as Json;

use super::pattern::ITEM_PATH;
use super::types::{Item, Members, RawJson};

/// The member that makes an object a reference.
pub(crate) const ITEM_MEMBER: &str = "$item";

/// The beginning of a reference in a text.
const TEXT_OPENING: &str = "{$item.";

/// A part of a text with references.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TextPart<'t> {
    Literal(&'t str),
    /// The path of a value of the item, such as `fields.title`.
    Value(&'t str),
}

/// Returns whether the text of a JSON value may have a reference. Only an escape can hide the name.
pub(crate) fn may_refer(json: &str) -> bool {
    json.contains(ITEM_MEMBER) || json.contains("\\u")
}

/// Splits a text at its references.
///
/// # Errors
/// A brace is missing or doubled, or the path cannot be that of a value.
pub(crate) fn split_text(text: &str) -> Result<Vec<TextPart<'_>>, MalformedReference> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(TEXT_OPENING) {
        let before = &rest[..at];
        let reference = &rest[at + TEXT_OPENING.len()..];
        let (path, after) = reference.split_once('}').ok_or(MalformedReference)?;
        if before.ends_with('{') || after.starts_with('}') || !(ITEM_PATH.matches)(path) {
            return Err(MalformedReference);
        }
        if !before.is_empty() {
            parts.push(TextPart::Literal(before));
        }
        parts.push(TextPart::Value(path));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(TextPart::Literal(rest));
    }
    Ok(parts)
}

/// A text contains a reference that cannot be read.
#[derive(Debug)]
pub(crate) struct MalformedReference;

/// Returns whether a text contains the name of the reference.
pub(crate) fn names_item(part: &TextPart<'_>) -> bool {
    matches!(part, TextPart::Literal(text) if text.contains(ITEM_MEMBER))
}

/// Returns the value at `path` of an item, as authored.
pub(crate) fn item_value(item: &Item, path: &str) -> Option<RawJson> {
    let text = |text: &str| serde_json::value::to_raw_value(text).ok();
    match path {
        "id" => text(&item.id),
        "type" => text(&item.kind),
        _ => {
            let mut names = path.strip_prefix("fields.")?.split('.');
            let first = names.next()?;
            let (_, value) = item.fields.0.iter().find(|(name, _)| name == first)?;
            names.try_fold(value.clone(), |value, name| member(&value, name))
        }
    }
}

/// Returns a member of an object, or an element of an array by its index.
fn member(value: &RawJson, name: &str) -> Option<RawJson> {
    if let Ok(Members(members)) = serde_json::from_str::<Members<String, RawJson>>(value.get()) {
        return members.into_iter().find(|(known, _)| known == name).map(|(_, value)| value);
    }
    let elements: Vec<RawJson> = serde_json::from_str(value.get()).ok()?;
    elements.into_iter().nth(name.parse().ok()?)
}

/// Replaces the whole values in `props` by those of an item. A text with references stays a text.
pub(crate) fn with_item_values(props: &Json, item: &Item) -> Json {
    match props {
        Json::Object(members) => match members.get(ITEM_MEMBER).and_then(Json::as_str) {
            Some(path) if members.len() == 1 => {
                let value = item_value(item, path);
                value.and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default()
            }
            _ => members.iter().map(|(name, value)| (name.clone(), with_item_values(value, item))).collect(),
        },
        Json::Array(elements) => elements.iter().map(|value| with_item_values(value, item)).collect(),
        scalar => scalar.clone(),
    }
}
