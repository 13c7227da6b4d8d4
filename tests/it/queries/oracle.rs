//! The expected result of a query by the rules of the interface. It evaluates one item after the other,
//! without an index.

use std::cmp::Ordering;

use serde_json::{Map, Value as Json, json};

use crate::condition::oracle::holds;

/// Returns the values of a query's parameters with defaults, or `None` if the given values are invalid.
pub fn complete_params(declared: &Map<String, Json>, given: &Map<String, Json>) -> Option<Map<String, Json>> {
    let mut values = Map::new();
    for (name, param) in declared {
        let default = param.get("default");
        let may_be_absent = param["optional"] == true || default.is_some();
        let is_absent = |value: &&Json| may_be_absent && (value.is_null() || **value == "");
        match given.get(name).filter(|value| !is_absent(value)).or(default) {
            Some(value) if accepts(param, value) => values.insert(name.clone(), value.clone()),
            None if param["optional"] == true => None,
            _ => return None,
        };
    }
    Some(values)
}

fn accepts(param: &Json, value: &Json) -> bool {
    let of_type = match param["type"].as_str() {
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        _ => value.is_boolean(),
    };
    let listed = param["enum"].as_array().is_none_or(|all| all.iter().any(|one| same(one, value)));
    let number = value.as_f64().unwrap_or_default();
    let above = param["minimum"].as_f64().is_none_or(|minimum| number >= minimum);
    let below = param["maximum"].as_f64().is_none_or(|maximum| number <= maximum);
    of_type && listed && above && below
}

fn same(a: &Json, b: &Json) -> bool {
    a == b || a.is_number() && a.as_f64() == b.as_f64()
}

/// Returns the matching items, in order.
pub fn matching_items<'i>(query: &Json, values: &Map<String, Json>, items: &'i [Json]) -> Vec<&'i Json> {
    let condition = query.get("where").and_then(|written| substitute(written, values));
    let condition = condition.unwrap_or(json!({}));
    let mut found: Vec<&Json> =
        items.iter().filter(|item| holds(&condition, &item["fields"], &Default::default())).collect();
    let order: Vec<&str> =
        query["orderBy"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    found.sort_by(|a, b| compare(a, b, &order));
    found
}

/// Replaces the parameters of a condition by values. Removes a parameter without a value, and each object or
/// list that becomes empty by this.
pub fn substitute(written: &Json, values: &Map<String, Json>) -> Option<Json> {
    match written {
        Json::Object(members) if members.contains_key("$param") => {
            values.get(members["$param"].as_str().expect("a name")).cloned()
        }
        Json::Object(members) if !members.is_empty() => {
            let left =
                members.iter().filter_map(|(key, value)| Some((key.clone(), substitute(value, values)?)));
            Some(left.collect::<Map<_, _>>()).filter(|left| !left.is_empty()).map(Json::Object)
        }
        Json::Array(items) if !items.is_empty() => {
            let left: Vec<Json> = items.iter().filter_map(|item| substitute(item, values)).collect();
            Some(left).filter(|left| !left.is_empty()).map(Json::Array)
        }
        other => Some(other.clone()),
    }
}

fn compare(a: &Json, b: &Json, order: &[&str]) -> Ordering {
    let by = |path: &str| {
        let (path, descends) = path.strip_prefix('-').map_or((path, false), |path| (path, true));
        match (sort_value(a, path), sort_value(b, path)) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(a), Some(b)) if descends => value_order(&b, &a),
            (Some(a), Some(b)) => value_order(&a, &b),
        }
    };
    order.iter().chain(&["id"]).map(|path| by(path)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Returns the sort value of an item, or `None` if it is missing or has no order.
fn sort_value(item: &Json, path: &str) -> Option<Json> {
    let pointer = path.split('.').map(|part| format!("/{part}")).collect::<String>();
    let value = if path == "id" { &item["id"] } else { item["fields"].pointer(&pointer)? };
    (value.is_boolean() || value.is_number() || value.is_string()).then(|| value.clone())
}

/// Orders booleans before numbers before texts.
pub fn value_order(a: &Json, b: &Json) -> Ordering {
    match (a, b) {
        (Json::Bool(a), Json::Bool(b)) => a.cmp(b),
        (Json::Number(a), Json::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()).expect("JSON has no NaN"),
        (Json::String(a), Json::String(b)) => a.chars().cmp(b.chars()),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn rank(value: &Json) -> u8 {
    match value {
        Json::Bool(_) => 0,
        Json::Number(_) => 1,
        _ => 2,
    }
}
