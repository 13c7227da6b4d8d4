//! The JSON Schema of conditions, for editors: the paths and the operators that the compiler knows.
//!
//! It is generated from the tables of the compiler, so that an editor completes exactly these names and marks
//! all others. It refuses nothing that the compiler accepts. It does not check most operands, because the
//! compiler's diagnostics describe them better.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::condition::{FieldKind, TYPE_NAMES, condition_operators, value_operators};
use crate::site::profile_fields::field_paths;

/// Replaces the definitions of both conditions in `schema` by detailed ones.
pub(super) fn describe_conditions(schema: &mut Value) {
    let Some(definitions) = schema.get_mut("$defs").and_then(Value::as_object_mut) else { return };
    if definitions.contains_key("VisitorCondition") {
        definitions.insert("VisitorCondition".to_owned(), visitor_condition());
        for (name, kind) in VALUE_TESTS {
            definitions.insert(name.to_owned(), value_test(kind, name, &[]));
        }
        definitions.insert("ElementCondition".to_owned(), element_condition("ValueTest"));
    }
    if definitions.contains_key("ItemCondition") {
        definitions.insert("ItemCondition".to_owned(), item_condition());
        definitions.insert("ItemTest".to_owned(), value_test(FieldKind::Any, "ItemTest", &["$param"]));
        definitions.insert("ElementCondition".to_owned(), element_condition("ItemTest"));
    }
}

/// The definition of the test for each kind of field.
const VALUE_TESTS: [(&str, FieldKind); 3] =
    [("ValueTest", FieldKind::Any), ("TimeTest", FieldKind::Time), ("HistoryTest", FieldKind::History)];

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// Returns the schema of a condition over the paths of the profile.
fn visitor_condition() -> Value {
    let mut properties = operator_properties(condition_operators(), "VisitorCondition");
    let mut patterns = Map::new();
    for (path, kind) in field_paths() {
        let (name, _) = VALUE_TESTS.iter().find(|(_, known)| *known == kind).expect("a test for each kind");
        match path_regex(path) {
            Some(regex) => patterns.insert(regex, reference(name)),
            None => properties.insert(path.to_owned(), reference(name)),
        };
    }
    let key = "^goals\\.[A-Za-z0-9_-]{1,64}";
    patterns.insert(format!("{key}$"), reference("HistoryTest"));
    patterns.insert(format!("{key}\\.count$"), reference("ValueTest"));
    patterns.insert(format!("{key}\\.(first|last)$"), reference("TimeTest"));
    json!({
        "type": "object", "description": "A condition over visitors. All its members must hold.",
        "properties": properties, "patternProperties": patterns, "additionalProperties": false,
    })
}

/// Returns the regular expression for the paths of a field that carry a name, or `None` if there is one path.
fn path_regex(path: &str) -> Option<String> {
    let escape = |text: &str| text.replace('.', "\\.");
    if let Some((before, ending)) = path.split_once('*') {
        return Some(format!("^{}[\\s\\S]+{}$", escape(before), escape(ending)));
    }
    if !path.ends_with('.') {
        return None;
    }
    // A name with one of these endings is the path of another field.
    let forms = field_paths().filter_map(|(form, _)| form.strip_prefix(path)?.strip_prefix('*'));
    let endings: Vec<String> = forms.map(escape).collect();
    let others = match endings.is_empty() {
        true => String::new(),
        false => format!("(?![\\s\\S]+({})$)", endings.join("|")),
    };
    Some(format!("^{}{others}[\\s\\S]+$", escape(path)))
}

/// Returns the schema of a condition over the fields of an item, which can have any names.
fn item_condition() -> Value {
    let operators = condition_operators().filter(|name| *name != "$audience");
    json!({
        "type": "object", "description": "A condition over items. All its members must hold.",
        "properties": operator_properties(operators, "ItemCondition"),
        "patternProperties": { "^(?!\\$)": reference("ItemTest") }, "additionalProperties": false,
    })
}

/// Returns the schema of the operand of `$elemMatch`: operators on the element, or a condition over its members.
fn element_condition(test_name: &str) -> Value {
    let mut properties = operator_properties(condition_operators(), "ElementCondition");
    properties.extend(operator_properties(value_operators(FieldKind::Any), test_name));
    properties.insert("$not".to_owned(), json!({ "type": "object" }));
    json!({
        "type": "object", "properties": properties,
        "patternProperties": { "^(?!\\$)": reference(test_name) }, "additionalProperties": false,
    })
}

/// Returns the schema of the value beside a path: a literal, or an object of operators.
fn value_test(kind: FieldKind, own_name: &str, extra_operators: &[&'static str]) -> Value {
    let operators = value_operators(kind).chain(extra_operators.iter().copied());
    let mut object = json!({
        "type": "object", "properties": operator_properties(operators, own_name),
        "additionalProperties": false,
    });
    if kind == FieldKind::History {
        return object;
    }
    // An object without operators is a literal.
    object["patternProperties"] = json!({ "^(?!\\$)": true });
    // Not `anyOf`: for an unknown operator VS Code would ask for another type.
    object["type"] = json!(["null", "boolean", "number", "string", "array", "object"]);
    object
}

/// Returns a property for each operator. `own_name` is the definition that `$not`, `$and` and the like nest.
fn operator_properties<'n>(names: impl Iterator<Item = &'n str>, own_name: &str) -> Map<String, Value> {
    let operands: BTreeMap<&str, Value> = BTreeMap::from([
        ("$and", json!({ "type": "array", "items": reference(own_name) })),
        ("$or", json!({ "type": "array", "items": reference(own_name) })),
        ("$nor", json!({ "type": "array", "items": reference(own_name) })),
        ("$not", reference(own_name)),
        ("$audience", json!({ "type": "string" })),
        ("$param", json!({ "type": "string" })),
        ("$elemMatch", reference("ElementCondition")),
        ("$exists", json!({ "type": "boolean" })),
        ("$type", json!({ "enum": TYPE_NAMES })),
    ]);
    // Not `true`: VS Code completes only members whose schema is an object.
    names.map(|name| (name.to_owned(), operands.get(name).cloned().unwrap_or(json!({})))).collect()
}
