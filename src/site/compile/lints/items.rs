//! Items that differ from most items of their type: the name of a field with another case, and a date in another form.
//! Texts of paths that are not in the form of paths.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::nfc;
use crate::site::profile_values::is_date;
use crate::site::source::diagnostics::{Diagnostic, Diagnostics, join_token};
use crate::site::source::read::Collection;
use crate::site::source::types::{EachItem, Item, ItemPath};

/// The use of a field by the items of a type.
#[derive(Default)]
struct FieldUse<'c> {
    /// The number of items that have the field.
    items: usize,
    /// The number of items that have a date in the field.
    dates: usize,
    /// A field of more items whose name differs only in its case.
    usual: Option<&'c str>,
}

/// The fields of the items of a type, by name.
type FieldUses<'c> = BTreeMap<&'c str, FieldUse<'c>>;

/// Adds the warnings about the items of a collection.
pub(super) fn check(collection: &Collection, warnings: &mut Diagnostics) {
    let items = collection.items.as_deref().unwrap_or_default();
    let mut uses: BTreeMap<&str, FieldUses<'_>> = BTreeMap::new();
    for item in items {
        let fields = uses.entry(&item.kind).or_default();
        for (name, value) in &item.fields.0 {
            let field = fields.entry(name).or_default();
            field.items += 1;
            field.dates += usize::from(text_of(value.get()).is_some_and(|text| begins_with_date(&text)));
        }
    }
    uses.values_mut().for_each(find_usual_names);
    for (i, item) in items.iter().enumerate() {
        let lint = ItemLint { file: &collection.file, item, index: i, uses: &uses[&*item.kind] };
        for (name, value) in &item.fields.0 {
            let diagnostic = lint.check_name(name).or_else(|| lint.check_date(name, value.get()));
            diagnostic.into_iter().for_each(|diagnostic| warnings.add(diagnostic));
        }
    }
}

/// Adds a warning for each text that `each_item` takes for a path and that paths spell differently. A query that compares
/// the field with a part of the path does not find the item.
pub(super) fn check_spelling(each_item: &EachItem, collection: &Collection, warnings: &mut Diagnostics) {
    let fields = each_item.params.values().filter_map(|ItemPath(path)| path.strip_prefix("fields."));
    for field in fields {
        for (i, item) in collection.items.as_deref().unwrap_or_default().iter().enumerate() {
            let value = item.fields.0.iter().find(|(name, _)| name.as_str() == field);
            let text = value.and_then(|(_, value)| serde_json::from_str::<String>(value.get()).ok());
            let Some(text) = text.filter(|text| !nfc::is_normalized(text)) else { continue };
            let pointer = join_token(&format!("/{i}/fields"), field);
            let expected = "a text in Unicode normalization form C (NFC), in which paths are";
            let title = format!("`{field}` of item {:?} is spelled differently in its path", item.id);
            warnings.add_titled(&collection.file, pointer, title, expected, format!("{text:?}"));
        }
    }
}

fn find_usual_names(uses: &mut FieldUses<'_>) {
    let mut usual: BTreeMap<String, (usize, &str)> = BTreeMap::new();
    for (name, field) in &*uses {
        let most = usual.entry(letters(name)).or_default();
        *most = (*most).max((field.items, name));
    }
    for (name, field) in uses {
        let (items, other) = usual[&letters(name)];
        field.usual = Some(other).filter(|_| items > field.items);
    }
}

/// The check of one item.
struct ItemLint<'c> {
    file: &'c str,
    item: &'c Item,
    index: usize,
    /// The fields of all items of this type.
    uses: &'c FieldUses<'c>,
}

impl ItemLint<'_> {
    /// Checks that a field has not the name of another field with other upper and lower case.
    fn check_name(&self, name: &str) -> Option<Diagnostic> {
        let has = |other: &str| self.item.fields.0.iter().any(|(name, _)| name == other);
        let other = self.uses[name].usual.filter(|other| !has(other))?;
        let expected = format!("the name `{other}`, as in other items of this type");
        let diagnostic = Diagnostic::at_key(self.file, self.pointer(name), expected, format!("`{name}`"));
        let diagnostic = diagnostic.with_title(format!("other items have the field `{other}`, not `{name}`"));
        Some(diagnostic.with_nearest(Some(other.to_owned())))
    }

    /// Checks that a text is a date, if most items of the type have a date in this field.
    fn check_date(&self, name: &str, json: &str) -> Option<Diagnostic> {
        let FieldUse { items, dates, .. } = self.uses[name];
        let text = text_of(json).filter(|text| !text.is_empty() && !begins_with_date(text))?;
        if dates * 2 <= items {
            return None;
        }
        let expected = "a date such as \"2026-01-05\", as in other items of this type";
        let diagnostic = Diagnostic::at_value(self.file, self.pointer(name), expected, format!("{text:?}"));
        let title = format!("`{name}` has the date {text:?} in another form than other items");
        Some(diagnostic.with_title(title))
    }

    fn pointer(&self, name: &str) -> String {
        join_token(&format!("/{}/fields", self.index), name)
    }
}

fn text_of(json: &str) -> Option<String> {
    // Only a short text can be a date.
    let is_text = json.starts_with('"') && json.len() <= DATE_JSON_BYTES_MAX;
    is_text.then(|| serde_json::from_str::<Json>(json).ok()?.as_str().map(str::to_owned)).flatten()
}

/// Largest length of the JSON of a date or time, in bytes. A longer text is prose, which is not parsed.
const DATE_JSON_BYTES_MAX: usize = 64;

fn begins_with_date(text: &str) -> bool {
    text.get(..10).is_some_and(is_date)
}

fn letters(name: &str) -> String {
    name.replace(['_', '-'], "").to_lowercase()
}
