//! The vocabulary of conditions over visitors, for editors that show a condition as a form: the paths with the types and values of their
//! fields, the operators with their operands, and the limits. It is generated from the tables of the compiler.

use serde_json::{Value, json};

use crate::condition::{FieldKind, OperandKind, condition_operators, value_operators, written_operators};
use crate::limits::{CONDITION_NESTING_MAX, PATTERN_BYTES_MAX, RULES_MAX, TIMES_KEPT};
use crate::site::profile_fields::{ProfileField, field_paths};
use crate::site::profile_values::{FieldValues, ValueList, ValueType};

/// The types of the fields that have values, in the order of the documentation.
const VALUE_TYPES: [&str; 4] = ["boolean", "number", "string", "any"];

/// The paths of goals, which the compiler replaces by those of an event or a page: the suffix after the key, and the type.
const GOALS: [(&str, &str); 4] =
    [("", "history"), (".count", "number"), (".first", "time"), (".last", "time")];

/// Returns the vocabulary.
pub(crate) fn vocabulary() -> Value {
    let paths = field_paths().enumerate().map(|(code, (path, kind))| path_entry(code as u16, path, kind));
    let goals = GOALS.into_iter().map(|(suffix, value_type)| goal_entry(suffix, value_type));
    let operators = written_operators().map(|(name, operand)| operator_entry(name, operand));
    json!({
        "paths": paths.chain(goals).collect::<Vec<_>>(),
        "operators": operators.collect::<Vec<_>>(),
        "conditionOperators": condition_operators().collect::<Vec<_>>(),
        "limits": {
            "nesting": CONDITION_NESTING_MAX,
            "rulesOfZone": RULES_MAX,
            "patternBytes": PATTERN_BYTES_MAX,
            "countWithin": TIMES_KEPT,
        },
    })
}

/// Returns the entry of a field. A path with a name is in two parts: `events.`, and `.count` after the name.
fn path_entry(code: u16, path: &str, kind: FieldKind) -> Value {
    let values = ProfileField::from_code(code).map(FieldValues::of);
    let (before, suffix) = path.split_once('*').unwrap_or((path, ""));
    let mut entry = json!({ "path": before, "type": type_name(kind, values) });
    if before.ends_with('.') {
        entry["parameter"] = json!(parameter_of(before));
    }
    if !suffix.is_empty() {
        entry["suffix"] = json!(suffix);
    }
    match values.map(|values| values.list) {
        Some(ValueList::Names(names)) => entry["values"] = json!(names),
        Some(ValueList::Integers(minimum, maximum)) => {
            entry["minimum"] = json!(minimum);
            entry["maximum"] = json!(maximum);
        }
        Some(ValueList::Country) => entry["format"] = json!("country"),
        Some(ValueList::Language) => entry["format"] = json!("language"),
        Some(ValueList::Date) => entry["format"] = json!("date"),
        Some(ValueList::All) | None => {}
    }
    entry
}

fn goal_entry(suffix: &str, value_type: &str) -> Value {
    let mut entry = json!({ "path": "goals.", "type": value_type, "parameter": "goal" });
    if !suffix.is_empty() {
        entry["suffix"] = json!(suffix);
    }
    entry
}

fn type_name(kind: FieldKind, values: Option<FieldValues>) -> &'static str {
    match (kind, values.map(|values| values.value_type)) {
        (FieldKind::Time, _) => "time",
        (FieldKind::History, _) => "history",
        (FieldKind::Any, Some(ValueType::Boolean)) => "boolean",
        (FieldKind::Any, Some(ValueType::Number)) => "number",
        (FieldKind::Any, Some(ValueType::Text | ValueType::NumericText)) => "string",
        (FieldKind::Any, Some(ValueType::Any) | None) => "any",
    }
}

/// Returns the kind of name that follows a path.
fn parameter_of(path: &str) -> &'static str {
    match path {
        "traits." => "trait",
        "events." => "event",
        "pages." => "page",
        _ => "parameter",
    }
}

/// Returns the entry of an operator on values.
fn operator_entry(name: &str, operand: OperandKind) -> Value {
    let accepts = |kind| value_operators(kind).any(|accepted| accepted == name);
    let mut types = Vec::new();
    if accepts(FieldKind::Any) {
        types.extend(VALUE_TYPES);
    }
    types.extend(accepts(FieldKind::Time).then_some("time"));
    types.extend(accepts(FieldKind::History).then_some("history"));
    json!({ "name": name, "operand": operand.name(), "types": types })
}
