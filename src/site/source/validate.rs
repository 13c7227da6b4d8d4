//! Validates the tree of a file against the JSON Schema of its kind.
//!
//! Reports all schema violations of a file, each with its byte range: unknown, duplicate and missing members,
//! wrong types, values out of bounds. A schema with a keyword that this validator does not implement is
//! rejected when the validator is created, so the schema cannot promise a check that does not happen.
//! Duplicate members are found everywhere, even where the schema allows any value.

use std::collections::{BTreeMap, BTreeSet};

use jsonc_parser::ast::{Array, Object, ObjectPropName, Value};
use jsonc_parser::common::Ranged;
use serde::Deserialize;
use serde_json::Value as Json;

use super::diagnostics::{Diagnostic, Diagnostics, Target, escape_invisible, push_token, span_of, truncate};
use super::json_schema::{ANYTHING, Keywords, NO_KEYWORDS, Schema, Type, equals, find_pattern};
use super::schema::{FileKind, SCHEMA_MEMBER, structure};
use crate::nearest::nearest;

/// The help for a share that is written as a percentage.
const SHARE_HELP: &[&str] = &["write a share as a fraction: 50 percent is 0.5"];

/// Limits for repeating an author's text in a message: characters of a string, and members of an object. The
/// rest is replaced by an ellipsis.
const QUOTED_CHARS_MAX: usize = 60;
const QUOTED_NAMES_MAX: usize = 8;

/// A validator for one kind of file.
pub struct Validator {
    root: Schema,
}

impl Validator {
    pub fn new(kind: FileKind) -> Validator {
        let root = Schema::deserialize(structure(kind)).expect("every keyword of the schemas is supported");
        Validator { root }
    }

    /// Adds a diagnostic for each schema violation in a file's tree.
    pub fn check(&self, file: &str, tree: &Value<'_>, diagnostics: &mut Diagnostics) {
        let definitions = &self.root.keywords().definitions;
        let pointer = String::new();
        let mut walk = TreeValidator { definitions, file, pointer, diagnostics };
        walk.check_value(&self.root, tree);
    }
}

/// The validation of one file; `pointer` is the current position.
struct TreeValidator<'a> {
    definitions: &'a BTreeMap<String, Schema>,
    file: &'a str,
    pointer: String,
    diagnostics: &'a mut Diagnostics,
}

impl<'a> TreeValidator<'a> {
    fn check_value(&mut self, schema: &'a Schema, value: &'a Value<'a>) {
        let mut branches = Vec::new();
        self.collect_branches(schema, &mut branches);
        if !branches.iter().any(|branch| branch.admits_type_of(value)) {
            self.report(value, describe_types(&branches), describe_value(value));
        }
        branches.retain(|branch| branch.admits_type_of(value));
        match value {
            Value::Object(object) => self.check_object(&branches, object, value),
            Value::Array(array) => self.check_array(&branches, array, value),
            _ => self.check_scalar(&branches, value),
        }
    }

    /// Collects the alternatives of a schema and resolves references. Alternatives for one value differ by
    /// type, by constants, or are forms of an object.
    fn collect_branches(&self, schema: &'a Schema, branches: &mut Vec<&'a Keywords>) {
        let keywords = schema.keywords();
        if let Some(name) =
            keywords.reference.as_deref().and_then(|reference| reference.strip_prefix("#/$defs/"))
        {
            return self.collect_branches(&self.definitions[name], branches);
        }
        let alternatives = || keywords.any_of.iter().chain(&keywords.one_of);
        for alternative in alternatives() {
            self.collect_branches(alternative, branches);
        }
        if alternatives().next().is_none() {
            branches.push(keywords);
        }
    }

    /// Checks an object. If the schema has several forms and one has exactly these members, only that form
    /// applies. Otherwise the members of all forms are allowed.
    fn check_object(&mut self, forms: &[&'a Keywords], object: &'a Object<'a>, value: &Value<'_>) {
        let names: BTreeSet<&str> = object.properties.iter().map(|member| member.name.as_str()).collect();
        let fitting = forms.iter().position(|form| form.accepts_members(&names));
        let counting = fitting.map_or(forms, |fitting| &forms[fitting..=fitting]);
        let meant = self.check_members(counting, object);
        match counting {
            [form] => self.report_missing_members(form, &meant, value),
            [_, ..] if !forms.iter().any(|form| form.accepts_members(&meant)) => {
                self.report_no_form(forms, value)
            }
            _ => {}
        }
    }

    /// Checks each member. Returns the names that the author meant: known names, and for a misspelled name
    /// the most similar known one.
    fn check_members(&mut self, forms: &[&'a Keywords], object: &'a Object<'a>) -> BTreeSet<&'a str> {
        let mut seen = BTreeSet::new();
        let mut meant = BTreeSet::new();
        let length = self.pointer.len();
        for member in &object.properties {
            let name = member.name.as_str();
            push_token(&mut self.pointer, name);
            if !seen.insert(name) {
                let actual = format!("{} again", quote(name));
                let diagnostic = self.diagnostic(&member.name, "each member once".to_owned(), actual);
                self.diagnostics.add(diagnostic.with_title(format!("duplicate member {}", quote(name))));
            }
            let known = forms.iter().find_map(|form| form.member_schema(name));
            let known = known.map(|schema| (name, schema));
            let read_as = known.or_else(|| self.report_unknown_member(forms, &member.name));
            meant.extend(read_as.map(|(name, _)| name));
            self.check_value(read_as.map_or(&ANYTHING, |(_, schema)| schema), &member.value);
            self.pointer.truncate(length);
        }
        meant
    }

    /// Reports a member that is not allowed. Returns the member that the author probably meant, so that its
    /// value is checked too.
    fn report_unknown_member(
        &mut self,
        forms: &[&'a Keywords],
        name: &ObjectPropName<'_>,
    ) -> Option<(&'a str, &'a Schema)> {
        if let Some((regex, schema)) = forms.iter().find_map(|form| form.pattern_properties.iter().next()) {
            let expected = format!("a name of {}", find_pattern(regex).description);
            let diagnostic = self.diagnostic(name, expected, quote(name.as_str()));
            self.diagnostics.add(diagnostic.with_title(format!("invalid name {}", quote(name.as_str()))));
            return Some((regex, schema));
        }
        let known = forms
            .iter()
            .flat_map(|form| form.properties.iter().map(|(name, schema)| (name.as_str(), schema)));
        let known: BTreeMap<&'a str, &'a Schema> = known.filter(|(name, _)| *name != SCHEMA_MEMBER).collect();
        let meant = nearest(name.as_str(), known.keys().copied());
        if !forms.is_empty() {
            let expected = list_alternatives(known.keys().copied());
            let diagnostic =
                self.diagnostic(name, expected, quote(name.as_str())).with_nearest(meant.clone());
            self.diagnostics.add(diagnostic.with_title(format!("unknown member {}", quote(name.as_str()))));
        }
        known.into_iter().find(|(name, _)| Some(*name) == meant.as_deref())
    }

    fn report_missing_members(&mut self, form: &Keywords, found_names: &BTreeSet<&str>, value: &Value<'_>) {
        for name in &form.required {
            if !found_names.contains(name.as_str()) {
                let diagnostic =
                    self.diagnostic(value, format!("the member `{name}`"), describe_value(value));
                self.diagnostics.add(diagnostic.with_title(format!("missing member `{name}`")));
            }
        }
    }

    fn report_no_form(&mut self, forms: &[&Keywords], value: &Value<'_>) {
        let forms = forms.iter().map(|form| form.describe_form()).collect::<Vec<_>>().join(" or ");
        let diagnostic = self.diagnostic(value, forms, describe_value(value));
        self.diagnostics.add(diagnostic.with_title("missing or conflicting members"));
    }

    fn check_array(&mut self, branches: &[&'a Keywords], array: &'a Array<'a>, value: &Value<'_>) {
        let branch = branches.first().copied().unwrap_or(&NO_KEYWORDS);
        if let Some(expected) = branch.unmet_length_constraint(array.elements.len()) {
            self.report(value, expected, describe_value(value));
        }
        let length = self.pointer.len();
        for (index, element) in array.elements.iter().enumerate() {
            push_token(&mut self.pointer, &index.to_string());
            self.check_value(branch.element_schema(index), element);
            self.pointer.truncate(length);
        }
    }

    fn check_scalar(&mut self, branches: &[&'a Keywords], value: &Value<'_>) {
        let constants: Vec<&Json> = branches.iter().flat_map(|branch| branch.constants()).collect();
        if constants.is_empty() {
            for branch in branches {
                let Some(expected) = branch.unmet_constraint(value) else { continue };
                let help = if branch.is_share() { SHARE_HELP } else { &[] };
                let diagnostic = self.diagnostic(value, expected, describe_value(value));
                self.diagnostics.add(Diagnostic { help, ..diagnostic });
            }
        } else if !constants.iter().any(|constant| equals(value, constant)) {
            let texts: Vec<String> = constants.iter().map(|constant| constant_text(constant)).collect();
            let texts = || texts.iter().map(String::as_str);
            let string = value.as_string_lit();
            let nearest = string.and_then(|string| nearest(&string.value, texts()));
            let diagnostic = self.diagnostic(value, list_alternatives(texts()), describe_value(value));
            self.diagnostics.add(diagnostic.with_nearest(nearest));
        }
    }

    fn report(&mut self, node: &impl Ranged, expected: String, actual: String) {
        let diagnostic = self.diagnostic(node, expected, actual);
        self.diagnostics.add(diagnostic);
    }

    fn diagnostic(&self, node: &impl Ranged, expected: String, actual: String) -> Diagnostic {
        let diagnostic = Diagnostic::at_value(self.file, self.pointer.clone(), expected, actual);
        Diagnostic { target: Target::Span(span_of(node)), ..diagnostic }
    }
}

/// Lists the types that a schema allows, without `null`. An author should leave a member out instead.
fn describe_types(branches: &[&Keywords]) -> String {
    let types = branches.iter().flat_map(|branch| branch.types());
    let mut says: Vec<&str> =
        types.filter(|&&kind| kind != Type::Null).map(|kind| kind.description()).collect();
    says.dedup();
    says.join(" or ")
}

/// Describes a value for [`Diagnostic::actual`].
fn describe_value(value: &Value<'_>) -> String {
    match value {
        Value::NullKeyword(_) => "null".to_owned(),
        Value::BooleanLit(boolean) => boolean.value.to_string(),
        Value::NumberLit(number) => format!("the number {}", truncate(number.value, QUOTED_CHARS_MAX)),
        Value::StringLit(string) => {
            format!("the string {:?}", truncate(&string.value, QUOTED_CHARS_MAX))
        }
        Value::Array(array) if array.elements.is_empty() => "an empty array".to_owned(),
        Value::Array(array) if array.elements.len() == 1 => "an array of 1 element".to_owned(),
        Value::Array(array) => format!("an array of {} elements", array.elements.len()),
        Value::Object(object) if object.properties.is_empty() => "an empty object".to_owned(),
        Value::Object(object) => {
            let names =
                object.properties.iter().take(QUOTED_NAMES_MAX).map(|member| quote(member.name.as_str()));
            let more = if object.properties.len() > QUOTED_NAMES_MAX { ", …" } else { "" };
            format!("an object with {}{more}", names.collect::<Vec<_>>().join(", "))
        }
    }
}

fn constant_text(constant: &Json) -> String {
    constant.as_str().map_or_else(|| constant.to_string(), str::to_owned)
}

fn quote(text: &str) -> String {
    format!("`{}`", escape_invisible(&truncate(text, QUOTED_CHARS_MAX)))
}

fn list_alternatives<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(quote).collect();
    match texts.as_slice() {
        [only] => only.clone(),
        _ => format!("one of {}", texts.join(", ")),
    }
}
