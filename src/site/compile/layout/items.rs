//! Compiles props that refer to the item of their page (`$item`).
//!
//! A layout is compiled once for all paths of its route. Its pieces have gaps for the values of an item. The
//! page of each item is a copy whose gaps are filled, so that a request finds finished text.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::super::each::ConcretePath;
use super::{LayoutCompiler, PageCompiler};
use crate::json;
use crate::limits::{BODY_RENDERED_BYTES_MAX, DIAGNOSTIC_TEXT_CHARS_MAX};
use crate::nearest::nearest;
use crate::site::snapshot::format::{Page, Part};
use crate::site::source::diagnostics::{Diagnostic, Diagnostics, join_token, truncate};
use crate::site::source::item_reference::{
    ITEM_MEMBER, TextPart, item_value, may_refer, names_item, split_text,
};
use crate::site::source::pattern::ITEM_PATH;
use crate::site::source::types::{Item, Members, RawJson};

const FORMS: &str =
    "`{\"$item\": \"fields.title\"}` as a whole value, or `{$item.fields.title}` inside a text";

/// The gaps of a page, by piece.
pub(in crate::site::compile) type ItemGaps = BTreeMap<u32, Vec<ItemGap>>;

/// A place in the text of a piece where a value of the item goes.
pub(in crate::site::compile) struct ItemGap {
    offset: usize,
    /// The path of the value, such as `fields.title`.
    path: String,
    is_in_text: bool,
    /// The pointer to the reference in the route.
    pointer: String,
}

impl LayoutCompiler<'_, '_, '_> {
    /// Writes the props of the node, or of the root, at `pointer`.
    pub(super) fn props(&mut self, props: &RawJson, pointer: &str) {
        match may_refer(props.get()) {
            true => self.prop(props.get(), &format!("{pointer}/props")),
            false => json::write_minified(&mut self.text, props.get()),
        }
    }

    /// Writes a value of the props. Its nesting is limited, because the reader has parsed it.
    fn prop(&mut self, prop_json: &str, pointer: &str) {
        if let Ok(Members(members)) = serde_json::from_str::<Members<String, RawJson>>(prop_json) {
            self.prop_object(&members, pointer);
        } else if let Ok(elements) = serde_json::from_str::<Vec<RawJson>>(prop_json) {
            self.text.push(b'[');
            for (i, element) in elements.iter().enumerate() {
                json::write_comma(&mut self.text, i);
                self.prop(element.get(), &format!("{pointer}/{i}"));
            }
            self.text.push(b']');
        } else {
            match serde_json::from_str::<String>(prop_json) {
                Ok(text) => self.prop_text(prop_json, &text, pointer),
                Err(_) => json::write_minified(&mut self.text, prop_json),
            }
        }
    }

    fn prop_object(&mut self, members: &[(String, RawJson)], pointer: &str) {
        if let Some((_, path)) = members.iter().find(|(name, _)| name == ITEM_MEMBER) {
            let path = serde_json::from_str::<String>(path.get()).unwrap_or_default();
            return match members.len() == 1 && (ITEM_PATH.matches)(&path) {
                true => self.item_gap(path, pointer, false),
                false => self.malformed(pointer, "another object"),
            };
        }
        self.text.push(b'{');
        for (i, (name, value)) in members.iter().enumerate() {
            json::write_comma(&mut self.text, i);
            json::write_string(&mut self.text, name);
            self.text.push(b':');
            self.prop(value.get(), &join_token(pointer, name));
        }
        self.text.push(b'}');
    }

    /// Writes a text of the props, with gaps for its references.
    fn prop_text(&mut self, prop_json: &str, text: &str, pointer: &str) {
        let parts = split_text(text).ok();
        if self.has_item && parts.as_ref().is_none_or(|parts| parts.iter().any(names_item)) {
            return self.malformed(pointer, prop_json);
        }
        let parts = parts.unwrap_or_default();
        if !parts.iter().any(|part| matches!(part, TextPart::Value(_))) {
            return json::write_minified(&mut self.text, prop_json);
        }
        self.text.push(b'"');
        for part in parts {
            match part {
                TextPart::Literal(text) => json::write_escaped(&mut self.text, text),
                TextPart::Value(path) => self.item_gap(path.to_owned(), pointer, true),
            }
        }
        self.text.push(b'"');
    }

    fn item_gap(&mut self, path: String, pointer: &str, is_in_text: bool) {
        if !self.has_item {
            let expected = "`each` in this route: it has the items that `$item` shows";
            let title = "`$item` needs a route with `each`";
            return self.diagnostics.add_titled(self.file, pointer, title, expected, "none");
        }
        let offset = self.text.len();
        self.text_gaps.push(ItemGap { offset, path, is_in_text, pointer: pointer.to_owned() });
    }

    fn malformed(&mut self, pointer: &str, actual: &str) {
        let actual = truncate(actual, DIAGNOSTIC_TEXT_CHARS_MAX);
        self.wrong(pointer, "invalid reference to `$item`", FORMS.to_owned(), &actual);
    }
}

impl PageCompiler<'_, '_> {
    /// Returns the page of an item: `page` with filled gaps. Appends the values to `description`.
    pub(in crate::site::compile) fn compile_item_page(
        &mut self,
        page: &Page,
        gaps: &ItemGaps,
        concrete_path: &ConcretePath<'_>,
        description: &mut Vec<u8>,
        diagnostics: &mut Diagnostics,
    ) -> Page {
        let mut own = page.clone();
        let mut pieces: BTreeMap<u32, u32> = BTreeMap::new();
        let mut value_bytes = 0;
        for (piece, gaps) in gaps {
            let text = self.pieces.text(*piece);
            let mut filled = Vec::with_capacity(text.len());
            let mut from = 0;
            for gap in gaps {
                filled.extend_from_slice(&text[from..gap.offset]);
                from = gap.offset;
                let start = filled.len();
                if let Err(diagnostic) = gap.write_value(concrete_path, &mut filled) {
                    diagnostics.add(*diagnostic);
                }
                description.extend_from_slice(&((filled.len() - start) as u64).to_le_bytes());
                description.extend_from_slice(&filled[start..]);
                value_bytes += filled.len() - start;
            }
            filled.extend_from_slice(&text[from..]);
            pieces.insert(*piece, self.pieces.add(&filled));
        }
        if self.body_bytes_max <= BODY_RENDERED_BYTES_MAX
            && self.body_bytes_max + value_bytes > BODY_RENDERED_BYTES_MAX
        {
            let expected = format!(
                "values with which the page {:?} has at most {BODY_RENDERED_BYTES_MAX} bytes",
                page.path
            );
            let actual = format!("{} bytes", self.body_bytes_max + value_bytes);
            let diagnostic = concrete_path.at_item(expected, actual);
            diagnostics.add(
                diagnostic.with_title(format!("the page of item {:?} is too large", concrete_path.item.id)),
            );
        }
        let variants = own.zones.iter_mut().flat_map(|zone| &mut zone.variants);
        for parts in variants.map(|variant| &mut variant.parts).chain([&mut own.parts]) {
            for part in parts {
                if let Part::Piece(index) = part {
                    *index = pieces.get(index).copied().unwrap_or(*index);
                }
            }
        }
        own
    }
}

impl ItemGap {
    /// Appends the value of the item.
    fn write_value(
        &self,
        concrete_path: &ConcretePath<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Box<Diagnostic>> {
        let Self { path, is_in_text, .. } = self;
        let id = &concrete_path.item.id;
        let Some(value) = item_value(concrete_path.item, path) else {
            let expected = format!("`{path}`, which the page {:?} shows", concrete_path.path);
            let diagnostic = concrete_path.at_item(expected, "none".to_owned());
            return Err(Box::new(diagnostic.with_title(format!("item {id:?} has no `{path}`"))));
        };
        if !is_in_text {
            json::write_minified(out, value.get());
            return Ok(());
        }
        match serde_json::from_str::<Json>(value.get()) {
            Ok(Json::String(text)) => json::write_escaped(out, &text),
            Ok(Json::Number(_) | Json::Bool(_)) => json::write_escaped(out, value.get()),
            _ => {
                let expected =
                    format!("a string, a number, true or false in `{path}`, which is a part of a text");
                let actual = truncate(value.get(), DIAGNOSTIC_TEXT_CHARS_MAX);
                let diagnostic = concrete_path.at_item(expected, actual);
                let title = format!("`{path}` of item {id:?} cannot be part of a text");
                return Err(Box::new(diagnostic.with_title(title)));
            }
        }
        Ok(())
    }
}

/// Removes the references to fields that none of these items has, and reports them.
pub(in crate::site::compile) fn remove_unknown_fields(
    file: &str,
    gaps: &mut ItemGaps,
    concrete_paths: &[ConcretePath<'_>],
    diagnostics: &mut Diagnostics,
) {
    if concrete_paths.is_empty() {
        return;
    }
    let mut known: BTreeMap<String, bool> = BTreeMap::new();
    for gap in gaps.values_mut() {
        gap.retain(|gap| {
            let is_known = *known.entry(gap.path.clone()).or_insert_with(|| {
                concrete_paths.iter().any(|concrete| item_value(concrete.item, &gap.path).is_some())
            });
            if !is_known {
                let expected = "a field that an item of this route has";
                let diagnostic =
                    Diagnostic::at_value(file, gap.pointer.clone(), expected, format!("`{}`", gap.path));
                let names = field_paths(concrete_paths);
                let hint = nearest(&gap.path, names.iter().map(String::as_str));
                diagnostics
                    .add(diagnostic.with_title(format!("unknown field `{}`", gap.path)).with_nearest(hint));
            }
            is_known
        });
    }
}

/// Returns the paths of all fields of these items, without those inside of values.
fn field_paths(concrete_paths: &[ConcretePath<'_>]) -> BTreeSet<String> {
    let fields =
        |item: &Item| item.fields.0.iter().map(|(name, _)| format!("fields.{name}")).collect::<Vec<_>>();
    concrete_paths.iter().flat_map(|concrete| fields(concrete.item)).collect()
}
