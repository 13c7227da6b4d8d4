//! The shape of a kind of file, and the walk that holds a file's tree against it.
//!
//! In come the schema that authors see and the tree of one file; out come all mistakes of shape, each on its bytes: unknown,
//! doubled and missing members, wrong types, values out of bounds. What always holds: a schema with a keyword that the walk
//! does not know is refused when the shape is made, so the schema cannot promise what is not checked; and members doubled
//! anywhere are found, also where the schema allows anything.

use std::collections::{BTreeMap, BTreeSet};

use jsonc_parser::ast::{Array, Object, ObjectPropName, Value};
use jsonc_parser::common::Ranged;
use serde::Deserialize;
use serde_json::Value as Json;

use super::diagnostics::{At, Mistake, Mistakes, cut, push_token, span_of, visible};
use super::json_schema::{ANYTHING, Keywords, NO_KEYWORDS, Schema, Type, equals, pattern};
use super::schema::{Kind, schema};
use crate::nearest::nearest;

/// Characters of an author's string, and names of an author's members, that a message repeats.
const QUOTED_CHARS_MAX: usize = 60;
const QUOTED_NAMES_MAX: usize = 8;

/// What a kind of file has to look like.
pub struct Shape {
    root: Schema,
}

impl Shape {
    pub fn of(kind: Kind) -> Shape {
        let root = Schema::deserialize(schema(kind)).expect("the walk knows every keyword of the schemas");
        Shape { root }
    }

    /// Adds every mistake of shape in a file's tree.
    pub fn check(&self, file: &str, tree: &Value<'_>, mistakes: &mut Mistakes) {
        let definitions = &self.root.keywords().definitions;
        let pointer = String::new();
        let mut walk = Walk { definitions, file, pointer, mistakes };
        walk.value(&self.root, tree);
    }
}

/// One file under the walk; `pointer` is where it stands.
struct Walk<'a> {
    definitions: &'a BTreeMap<String, Schema>,
    file: &'a str,
    pointer: String,
    mistakes: &'a mut Mistakes,
}

impl<'a> Walk<'a> {
    fn value(&mut self, schema: &'a Schema, value: &'a Value<'a>) {
        let mut branches = Vec::new();
        self.branches(schema, &mut branches);
        if !branches.iter().any(|branch| branch.admits_type_of(value)) {
            self.tell(value, types_of(&branches), describe(value), None);
        }
        branches.retain(|branch| branch.admits_type_of(value));
        match value {
            Value::Object(object) => self.object(&branches, object, value),
            Value::Array(array) => self.array(&branches, array, value),
            _ => self.scalar(&branches, value),
        }
    }

    /// The alternatives of a schema without references. Those of one value differ in type, in constants, or are forms of an object.
    fn branches(&self, schema: &'a Schema, branches: &mut Vec<&'a Keywords>) {
        let keywords = schema.keywords();
        if let Some(name) =
            keywords.reference.as_deref().and_then(|reference| reference.strip_prefix("#/$defs/"))
        {
            return self.branches(&self.definitions[name], branches);
        }
        let alternatives = || keywords.any_of.iter().chain(&keywords.one_of);
        for alternative in alternatives() {
            self.branches(alternative, branches);
        }
        if alternatives().next().is_none() {
            branches.push(keywords);
        }
    }

    /// Where several forms are allowed, the one that has exactly these members counts, or else all of them together.
    fn object(&mut self, forms: &[&'a Keywords], object: &'a Object<'a>, value: &Value<'_>) {
        let names: BTreeSet<&str> = object.properties.iter().map(|member| member.name.as_str()).collect();
        let fitting = forms.iter().position(|form| form.is_form_of(&names));
        let counting = fitting.map_or(forms, |fitting| &forms[fitting..=fitting]);
        let meant = self.members(counting, object);
        match counting {
            [form] => self.missing_members(form, &meant, value),
            [_, ..] if !forms.iter().any(|form| form.is_form_of(&meant)) => self.no_form(forms, value),
            _ => {}
        }
    }

    /// Checks the members one by one. Back comes which the author meant to write: the known ones, and the nearest of the others.
    fn members(&mut self, forms: &[&'a Keywords], object: &'a Object<'a>) -> BTreeSet<&'a str> {
        let mut seen = BTreeSet::new();
        let mut meant = BTreeSet::new();
        let length = self.pointer.len();
        for member in &object.properties {
            let name = member.name.as_str();
            push_token(&mut self.pointer, name);
            if !seen.insert(name) {
                let came = format!("{} again", quoted(name));
                self.tell(&member.name, "each member once".to_owned(), came, None);
            }
            let known = forms.iter().find_map(|form| form.member(name));
            let known = known.map(|schema| (name, schema));
            let read_as = known.or_else(|| self.unknown_member(forms, &member.name));
            meant.extend(read_as.map(|(name, _)| name));
            self.value(read_as.map_or(&ANYTHING, |(_, schema)| schema), &member.value);
            self.pointer.truncate(length);
        }
        meant
    }

    /// Tells a member that may not be there. Back comes what it probably was to be, so that its value is checked all the same.
    fn unknown_member(
        &mut self,
        forms: &[&'a Keywords],
        name: &ObjectPropName<'_>,
    ) -> Option<(&'a str, &'a Schema)> {
        if let Some((regex, schema)) = forms.iter().find_map(|form| form.pattern_properties.iter().next()) {
            let expected = format!("a name of {}", pattern(regex).says);
            self.tell(name, expected, quoted(name.as_str()), None);
            return Some((regex, schema));
        }
        let known = forms.iter().flat_map(|form| &form.properties);
        let known: BTreeMap<&'a str, &'a Schema> =
            known.map(|(name, schema)| (name.as_str(), schema)).collect();
        let meant = nearest(name.as_str(), known.keys().copied());
        if !forms.is_empty() {
            let expected = one_of(known.keys().copied());
            self.tell(name, expected, quoted(name.as_str()), meant.clone());
        }
        known.into_iter().find(|(name, _)| Some(*name) == meant.as_deref())
    }

    fn missing_members(&mut self, form: &Keywords, names: &BTreeSet<&str>, value: &Value<'_>) {
        for name in &form.required {
            if !names.contains(name.as_str()) {
                self.tell(value, format!("the member `{name}`"), describe(value), None);
            }
        }
    }

    fn no_form(&mut self, forms: &[&Keywords], value: &Value<'_>) {
        let forms = forms.iter().map(|form| form.form()).collect::<Vec<_>>().join(" or ");
        self.tell(value, forms, describe(value), None);
    }

    fn array(&mut self, branches: &[&'a Keywords], array: &'a Array<'a>, value: &Value<'_>) {
        let branch = branches.first().copied().unwrap_or(&NO_KEYWORDS);
        if let Some(expected) = branch.expected_elements(array.elements.len()) {
            self.tell(value, expected, describe(value), None);
        }
        let length = self.pointer.len();
        for (index, element) in array.elements.iter().enumerate() {
            push_token(&mut self.pointer, &index.to_string());
            self.value(branch.element(index), element);
            self.pointer.truncate(length);
        }
    }

    fn scalar(&mut self, branches: &[&'a Keywords], value: &Value<'_>) {
        let constants: Vec<&Json> = branches.iter().flat_map(|branch| branch.constants()).collect();
        if constants.is_empty() {
            for expected in branches.iter().filter_map(|branch| branch.expected_instead(value)) {
                self.tell(value, expected, describe(value), None);
            }
        } else if !constants.iter().any(|constant| equals(value, constant)) {
            let texts: Vec<String> = constants.iter().map(|constant| plain(constant)).collect();
            let texts = || texts.iter().map(String::as_str);
            let string = value.as_string_lit();
            let nearest = string.and_then(|string| nearest(&string.value, texts()));
            self.tell(value, one_of(texts()), describe(value), nearest);
        }
    }

    fn tell(&mut self, at: &impl Ranged, expected: String, came: String, nearest: Option<String>) {
        self.mistakes.add(Mistake {
            file: self.file.to_owned(),
            pointer: self.pointer.clone(),
            at: At::Span(span_of(at)),
            expected,
            came,
            nearest,
        });
    }
}

/// The types that a schema admits. `null`, which counts as absent, is nothing that an author should write.
fn types_of(branches: &[&Keywords]) -> String {
    let types = branches.iter().flat_map(|branch| branch.types());
    let mut says: Vec<&str> = types.filter(|&&kind| kind != Type::Null).map(|kind| kind.says()).collect();
    says.dedup();
    says.join(" or ")
}

/// What stands there, for `Mistake::came`.
fn describe(value: &Value<'_>) -> String {
    match value {
        Value::NullKeyword(_) => "null".to_owned(),
        Value::BooleanLit(boolean) => boolean.value.to_string(),
        Value::NumberLit(number) => format!("the number {}", cut(number.value, QUOTED_CHARS_MAX)),
        Value::StringLit(string) => {
            format!("the string {:?}", cut(&string.value, QUOTED_CHARS_MAX))
        }
        Value::Array(array) => format!("an array of {}", array.elements.len()),
        Value::Object(object) if object.properties.is_empty() => "an empty object".to_owned(),
        Value::Object(object) => {
            let names =
                object.properties.iter().take(QUOTED_NAMES_MAX).map(|member| quoted(member.name.as_str()));
            let more = if object.properties.len() > QUOTED_NAMES_MAX { ", …" } else { "" };
            format!("an object with {}{more}", names.collect::<Vec<_>>().join(", "))
        }
    }
}

fn plain(constant: &Json) -> String {
    constant.as_str().map_or_else(|| constant.to_string(), str::to_owned)
}

fn quoted(name: &str) -> String {
    format!("`{}`", visible(&cut(name, QUOTED_CHARS_MAX)))
}

fn one_of<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(quoted).collect();
    match texts.as_slice() {
        [only] => only.clone(),
        _ => format!("one of {}", texts.join(", ")),
    }
}
