//! The supported subset of JSON Schema: the keywords, and the check of each against one value.
//!
//! A schema with an unknown keyword fails to deserialize.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::LazyLock;

use jsonc_parser::ast::Value;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Number, Value as Json};

use super::pattern::{PATTERNS, Pattern};
use super::schema::SCHEMA_MEMBER;

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Schema {
    /// `true` allows any value. `false` occurs only as `additionalProperties` and allows none.
    Anything(bool),
    Keywords(Box<Keywords>),
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Keywords {
    #[serde(rename = "$ref")]
    pub reference: Option<String>,
    #[serde(rename = "$defs")]
    pub definitions: BTreeMap<String, Schema>,
    pub any_of: Vec<Schema>,
    pub one_of: Vec<Schema>,
    #[serde(rename = "type")]
    types: Option<Types>,
    #[serde(rename = "const")]
    constant: Option<Json>,
    #[serde(rename = "enum")]
    constants: Vec<Json>,
    pub properties: BTreeMap<String, Schema>,
    pub required: Vec<String>,
    pub pattern_properties: BTreeMap<String, Schema>,
    additional_properties: Option<Schema>,
    items: Option<Schema>,
    prefix_items: Vec<Schema>,
    min_items: Option<usize>,
    max_items: Option<usize>,
    pattern: Option<String>,
    min_length: Option<usize>,
    max_length: Option<usize>,
    minimum: Option<Number>,
    maximum: Option<Number>,
    #[serde(rename = "$schema")]
    _schema: IgnoredAny,
    #[serde(rename = "title")]
    _title: IgnoredAny,
    #[serde(rename = "description")]
    _description: IgnoredAny,
    #[serde(rename = "default")]
    _default: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Types {
    One(Type),
    Any(Vec<Type>),
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

pub(super) static ANYTHING: Schema = Schema::Anything(true);
pub(super) static NO_KEYWORDS: LazyLock<Keywords> = LazyLock::new(Keywords::default);

impl Schema {
    pub(super) fn keywords(&self) -> &Keywords {
        match self {
            Schema::Anything(_) => &NO_KEYWORDS,
            Schema::Keywords(keywords) => keywords,
        }
    }
}

impl Keywords {
    pub(super) fn types(&self) -> &[Type] {
        match &self.types {
            None => &[],
            Some(Types::One(one)) => std::slice::from_ref(one),
            Some(Types::Any(types)) => types,
        }
    }

    pub(super) fn admits_type_of(&self, value: &Value<'_>) -> bool {
        self.types.is_none() || self.types().iter().any(|admitted| admitted.admits(value))
    }

    pub(super) fn constants(&self) -> impl Iterator<Item = &Json> {
        self.constants.iter().chain(&self.constant)
    }

    /// Returns the schema of a member, or `None` if the member is not allowed.
    pub(super) fn member_schema(&self, name: &str) -> Option<&Schema> {
        let by_pattern = || {
            self.pattern_properties
                .iter()
                .find(|(regex, _)| (find_pattern(regex).matches)(name))
                .map(|(_, schema)| schema)
        };
        let others = || match &self.additional_properties {
            None => Some(&ANYTHING),
            Some(Schema::Anything(false)) => None,
            Some(schema) => Some(schema),
        };
        self.properties.get(name).or_else(by_pattern).or_else(others)
    }

    pub(super) fn element_schema(&self, index: usize) -> &Schema {
        self.prefix_items.get(index).or(self.items.as_ref()).unwrap_or(&ANYTHING)
    }

    pub(super) fn accepts_members(&self, names: &BTreeSet<&str>) -> bool {
        self.required.iter().all(|name| names.contains(name.as_str()))
            && names.iter().all(|name| self.member_schema(name).is_some())
    }

    /// Returns the constraint that a string or a number of the right type violates, if any.
    pub(super) fn unmet_constraint(&self, value: &Value<'_>) -> Option<String> {
        match value {
            Value::StringLit(string) => self.unmet_text_constraint(&string.value),
            Value::NumberLit(number) => self.unmet_number_constraint(number.value),
            _ => None,
        }
    }

    fn unmet_text_constraint(&self, text: &str) -> Option<String> {
        let pattern = self.pattern.as_deref().map(find_pattern);
        if let Some(missed) = pattern.filter(|pattern| !(pattern.matches)(text)) {
            return Some(missed.description.to_owned());
        }
        let length = text.chars().count();
        let short = self.min_length.is_some_and(|min| length < min);
        let long = self.max_length.is_some_and(|max| length > max);
        (short || long).then(|| describe_bounds(self.min_length, self.max_length, " characters"))
    }

    fn unmet_number_constraint(&self, number: &str) -> Option<String> {
        let min = self.minimum.as_ref();
        let max = self.maximum.as_ref();
        let below = min.is_some_and(|min| compare_numbers(number, min).is_lt());
        let above = max.is_some_and(|max| compare_numbers(number, max).is_gt());
        (below || above).then(|| describe_bounds(min, max, ""))
    }

    /// Returns whether the value is a share, from 0 to 1.
    pub(super) fn is_share(&self) -> bool {
        let is = |bound: &Option<Number>, value: u64| bound.as_ref().and_then(Number::as_u64) == Some(value);
        is(&self.minimum, 0) && is(&self.maximum, 1)
    }

    /// Returns the length constraint that an array violates, if any.
    pub(super) fn unmet_length_constraint(&self, count: usize) -> Option<String> {
        let few = self.min_items.is_some_and(|min| count < min);
        let many = self.max_items.is_some_and(|max| count > max);
        (few || many).then(|| describe_bounds(self.min_items, self.max_items, " elements"))
    }

    /// Describes the members of an object: `{audience, variant}`, with `?` after optional members.
    pub(super) fn describe_form(&self) -> String {
        let mark = |name: &String| {
            if self.required.contains(name) { format!("`{name}`") } else { format!("`{name}`?") }
        };
        let names = self.properties.keys().filter(|name| *name != SCHEMA_MEMBER);
        format!("{{{}}}", names.map(mark).collect::<Vec<_>>().join(", "))
    }
}

impl Type {
    fn admits(self, value: &Value<'_>) -> bool {
        match value {
            Value::NullKeyword(_) => self == Type::Null,
            Value::BooleanLit(_) => self == Type::Boolean,
            Value::NumberLit(number) => {
                self == Type::Number || (self == Type::Integer && is_integer(number.value))
            }
            Value::StringLit(_) => self == Type::String,
            Value::Array(_) => self == Type::Array,
            Value::Object(_) => self == Type::Object,
        }
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            Type::Null => "null",
            Type::Boolean => "true or false",
            Type::Integer => "an integer",
            Type::Number => "a number",
            Type::String => "a string",
            Type::Array => "an array",
            Type::Object => "an object",
        }
    }
}

/// Follows serde: `1.0`, `1e3` and `-0` are not integers.
fn is_integer(number: &str) -> bool {
    number != "-0" && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

pub(super) fn find_pattern(regex: &str) -> &'static Pattern {
    static BY_REGEX: LazyLock<BTreeMap<&str, &Pattern>> =
        LazyLock::new(|| PATTERNS.iter().map(|pattern| (pattern.regex, pattern)).collect());
    BY_REGEX[regex]
}

/// Compares integers exactly and other numbers as doubles, as serde reads them.
fn compare_numbers(number_text: &str, schema_number: &Number) -> Ordering {
    if let Ok(number) = number_text.parse::<i128>()
        && let Some(schema_number) = schema_number.as_i128()
    {
        return number.cmp(&schema_number);
    }
    let number: f64 = number_text.parse().expect("Rust parses every JSON number");
    let schema_number = schema_number.as_f64().expect("bounds are representable as doubles");
    number.partial_cmp(&schema_number).expect("JSON numbers are finite")
}

pub(super) fn equals(value: &Value<'_>, constant: &Json) -> bool {
    match (value, constant) {
        (Value::StringLit(string), Json::String(constant)) => string.value == *constant,
        (Value::NumberLit(number), Json::Number(constant)) => compare_numbers(number.value, constant).is_eq(),
        (Value::NullKeyword(_), Json::Null) => true,
        _ => false,
    }
}

fn describe_bounds<T: Display + PartialEq>(min: Option<T>, max: Option<T>, unit: &str) -> String {
    match (min, max) {
        (Some(min), Some(max)) if min == max => format!("{min}{unit}"),
        (Some(min), Some(max)) => format!("{min} to {max}{unit}"),
        (Some(min), None) => format!("{min} or more{unit}"),
        (None, Some(max)) => format!("up to {max}{unit}"),
        (None, None) => unreachable!("only an existing bound can be violated"),
    }
}
