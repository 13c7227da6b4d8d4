//! A second evaluator that works directly on JSON, without regard to speed. It follows GrowthBook's
//! JavaScript line by line, with the two deviations of this project: null has no text, and containers compare
//! by contents.

use serde_json::{Map, Value as Json, json};

use super::Groups;

pub fn holds(condition: &Json, document: &Json, groups: &Groups) -> bool {
    let members = condition.as_object().expect("conditions are objects");
    members.iter().all(|(key, operand)| match key.as_str() {
        "$and" => list(operand).iter().all(|each| holds(each, document, groups)),
        "$or" => any(operand, document, groups),
        "$nor" => !any(operand, document, groups),
        "$not" => !holds(operand, document, groups),
        path => value_holds(operand, &lookup(document, path), groups),
    })
}

fn any(operand: &Json, document: &Json, groups: &Groups) -> bool {
    let conditions = list(operand);
    conditions.is_empty() || conditions.iter().any(|each| holds(each, document, groups))
}

fn list(operand: &Json) -> &[Json] {
    operand.as_array().expect("an array of conditions")
}

fn lookup(document: &Json, path: &str) -> Json {
    let pointer = path.split('.').map(|part| format!("/{part}")).collect::<String>();
    document.pointer(&pointer).cloned().unwrap_or_default()
}

fn is_operators(members: &Map<String, Json>) -> bool {
    !members.is_empty() && members.keys().all(|key| key.starts_with('$'))
}

fn value_holds(test: &Json, actual: &Json, groups: &Groups) -> bool {
    match test {
        Json::Object(members) if is_operators(members) => {
            let mut members = members.iter();
            members.all(|(operator, operand)| operator_holds(operator, operand, actual, groups))
        }
        literal => equals(literal, actual, str::to_owned),
    }
}

fn equals(literal: &Json, actual: &Json, fold: fn(&str) -> String) -> bool {
    match literal {
        Json::String(text) => text_of(actual).is_some_and(|actual| fold(&actual) == fold(text)),
        Json::Number(number) => number_of(actual) == number.as_f64().unwrap(),
        Json::Bool(flag) => !actual.is_null() && truthy(actual) == *flag,
        _ => same(literal, actual),
    }
}

fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            let found = |(key, a): (&String, &Json)| b.get(key).is_some_and(|b| same(a, b));
            a.len() == b.len() && a.iter().all(found)
        }
        _ => a == b,
    }
}

fn operator_holds(operator: &str, operand: &Json, actual: &Json, groups: &Groups) -> bool {
    let group = || groups.get(operand.as_str().unwrap_or("?")).cloned().unwrap_or_default();
    let operands = operand.as_array().map(Vec::as_slice);
    match operator {
        "$eq" => same(actual, operand),
        "$ne" => !same(actual, operand),
        "$gt" => less(operand, actual, false),
        "$gte" => less(operand, actual, true),
        "$lt" => less(actual, operand, false),
        "$lte" => less(actual, operand, true),
        "$in" => operands.is_some_and(|list| is_in(actual, list, Json::clone)),
        "$nin" => operands.is_some_and(|list| !is_in(actual, list, Json::clone)),
        "$ini" => operands.is_some_and(|list| is_in(actual, list, lower)),
        "$nini" => operands.is_some_and(|list| !is_in(actual, list, lower)),
        "$all" => operands.is_some_and(|list| has_all(actual, list, str::to_owned)),
        "$alli" => operands.is_some_and(|list| has_all(actual, list, str::to_lowercase)),
        "$exists" => truthy(operand) != actual.is_null(),
        "$type" => *operand == type_of(actual),
        "$veq" => padded(actual) == padded(operand),
        "$vne" => padded(actual) != padded(operand),
        "$vgt" => padded(actual) > padded(operand),
        "$vgte" => padded(actual) >= padded(operand),
        "$vlt" => padded(actual) < padded(operand),
        "$vlte" => padded(actual) <= padded(operand),
        "$inGroup" => is_in(actual, &group(), Json::clone),
        "$notInGroup" => !is_in(actual, &group(), Json::clone),
        "$not" => !value_holds(operand, actual, groups),
        "$size" => {
            let length = actual.as_array().map(Vec::len);
            length.is_some_and(|length| value_holds(operand, &json!(length), groups))
        }
        "$elemMatch" => elem_match(operand, actual, groups),
        "$regex" => matches(operand, actual, str::to_owned) == Some(true),
        "$regexi" => matches(operand, actual, str::to_lowercase) == Some(true),
        "$notRegex" => matches(operand, actual, str::to_owned) == Some(false),
        "$notRegexi" => matches(operand, actual, str::to_lowercase) == Some(false),
        _ => false,
    }
}

fn elem_match(operand: &Json, actual: &Json, groups: &Groups) -> bool {
    let (Json::Object(members), Json::Array(items)) = (operand, actual) else {
        return false;
    };
    items.iter().any(|item| match is_operators(members) {
        true => value_holds(operand, item, groups),
        false => holds(operand, item, groups),
    })
}

/// Matches one of the four expressions of the generated conditions. Returns `None` for any other, which is
/// invalid.
fn matches(operand: &Json, actual: &Json, fold: fn(&str) -> String) -> Option<bool> {
    let text = text_of(actual).map(|text| fold(&text));
    let test = |test: &dyn Fn(&str) -> bool| Some(text.as_deref().is_some_and(test));
    match operand.as_str()? {
        "^a" => test(&|text| text.starts_with('a')),
        "1$" => test(&|text| text.ends_with('1')),
        "[.]" => test(&|text| text.contains('.')),
        "A" => test(&|text| text.contains(&fold("A"))),
        _ => None,
    }
}

fn is_in(actual: &Json, list: &[Json], fold: fn(&Json) -> Json) -> bool {
    let listed = |item: &Json| list.iter().any(|each| same(&fold(each), &fold(item)));
    match actual {
        Json::Array(items) => items.iter().any(listed),
        single => listed(single),
    }
}

fn lower(value: &Json) -> Json {
    value.as_str().map_or_else(|| value.clone(), |text| text.to_lowercase().into())
}

fn has_all(actual: &Json, list: &[Json], fold: fn(&str) -> String) -> bool {
    let Json::Array(items) = actual else {
        return false;
    };
    list.iter().all(|each| items.iter().any(|item| equals(each, item, fold)))
}

fn less(a: &Json, b: &Json, or_equal: bool) -> bool {
    match (a, b) {
        (Json::String(a), Json::String(b)) => a < b || or_equal && a == b,
        _ => {
            let (a, b) = (number_of(a), number_of(b));
            a < b || or_equal && a == b
        }
    }
}

/// Returns the number of a value, or NaN if it has none.
fn number_of(value: &Json) -> f64 {
    match value {
        Json::Null => 0.0,
        Json::Bool(flag) => f64::from(*flag),
        Json::Number(number) => number.as_f64().unwrap(),
        Json::String(text) if text.trim().is_empty() => 0.0,
        Json::String(text) => text.trim().parse().unwrap_or(f64::NAN),
        _ => f64::NAN,
    }
}

fn text_of(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Bool(flag) => Some(flag.to_string()),
        // Negative zero becomes zero.
        Json::Number(number) => Some((number.as_f64().unwrap() + 0.0).to_string()),
        _ => None,
    }
}

fn truthy(value: &Json) -> bool {
    !(value.is_null() || *value == false || value.as_f64() == Some(0.0) || *value == "")
}

fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

/// Returns a version as a text that sorts by version, as `paddedVersionString` of GrowthBook does.
fn padded(value: &Json) -> String {
    let text = match value {
        Json::String(text) if !text.is_empty() => text.clone(),
        Json::Number(_) => text_of(value).unwrap(),
        _ => "0".to_owned(),
    };
    let core = text.strip_prefix('v').unwrap_or(&text);
    let core = &core[..core.find('+').unwrap_or(core.len())];
    let mut parts: Vec<String> = core.split(['-', '.']).map(str::to_owned).collect();
    if parts.len() == 3 {
        parts.push("~".to_owned());
    }
    for part in &mut parts {
        if !part.is_empty() && part.chars().all(|char| char.is_ascii_digit()) {
            *part = format!("{part:>5}");
        }
    }
    parts.join("-")
}
