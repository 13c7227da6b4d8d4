//! The comparison of a response with the expectations of its case.

use serde_json::{Map, Value as Json};

use super::page_names::ROOT;
use crate::invented::arms_of;
use crate::site::source::diagnostics::{join_token, truncate};
use crate::site::source::types::{Expectations, ExpectedRedirect};

/// Length of a JSON value in a failure, in characters. The rest is replaced by an ellipsis.
const VALUE_CHARS_MAX: usize = 300;

/// An expectation that the response does not meet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The JSON pointer of the expectation in `expect`.
    pub(super) pointer: String,
    pub(super) title: String,
    pub(super) expected: String,
    pub(super) actual: String,
}

/// Returns the expectations that the body of a response does not meet.
pub(super) fn compare(expect: &Expectations, body: &Json) -> Vec<Failure> {
    let mut failures = Vec::new();
    for (zone, variant) in &expect.variants {
        failures.extend(compare_zone(zone, variant.as_deref(), body["selected"][zone].as_str()));
    }
    let arms = arms_of(body);
    for (key, arm) in &expect.experiments {
        failures.extend(compare_experiment(key, arm.as_deref(), arms.get(key.as_str()).copied()));
    }
    for (id, props) in &expect.props {
        compare_component(id, props.as_ref(), &body["layout"], &mut failures);
    }
    if let Some(redirect) = &expect.redirect {
        compare_redirect(redirect, body, &mut failures);
    }
    failures
}

fn compare_zone(zone: &str, expected_key: Option<&str>, actual_key: Option<&str>) -> Option<Failure> {
    if expected_key == actual_key {
        return None;
    }
    let pointer = join_token("/variants", zone);
    let Some(expected_key) = expected_key else {
        return Some(Failure {
            pointer,
            title: format!("zone `{zone}` is on the page"),
            expected: "no such zone".to_owned(),
            actual: format!("the variant {}", quote(actual_key.unwrap_or_default())),
        });
    };
    let title = match actual_key {
        Some(_) => format!("zone `{zone}` shows another variant"),
        None => format!("zone `{zone}` is not on the page"),
    };
    let hidden = "no such zone, because the variant that contains it is not shown";
    let actual = actual_key.map_or_else(|| hidden.to_owned(), quote);
    Some(Failure { pointer, title, expected: quote(expected_key), actual })
}

fn compare_experiment(key: &str, expected_arm: Option<&str>, actual_arm: Option<&str>) -> Option<Failure> {
    if expected_arm == actual_arm {
        return None;
    }
    let title = if actual_arm.is_none() {
        format!("experiment `{key}` decides no zone")
    } else if expected_arm.is_none() {
        format!("experiment `{key}` decides a zone")
    } else {
        format!("experiment `{key}` has another arm")
    };
    let describe = |arm: Option<&str>| arm.map_or_else(|| "no arm".to_owned(), quote);
    let pointer = join_token("/experiments", key);
    Some(Failure { pointer, title, expected: describe(expected_arm), actual: describe(actual_arm) })
}

fn compare_component(
    id: &str,
    expected_props: Option<&Map<String, Json>>,
    layout: &Json,
    failures: &mut Vec<Failure>,
) {
    let component = match id {
        ROOT => Some(&layout["root"]),
        id => find_component(&layout["zones"], id),
    };
    let pointer = join_token("/props", id);
    let Some(component) = component else {
        failures.extend(expected_props.map(|_| Failure {
            pointer,
            title: format!("component `{id}` is not on the page"),
            expected: "its props".to_owned(),
            actual: "no such component".to_owned(),
        }));
        return;
    };
    let Some(props) = expected_props else {
        failures.push(Failure {
            pointer,
            title: format!("component `{id}` is on the page"),
            expected: "no such component".to_owned(),
            actual: format!("one of the type {}", component["type"]),
        });
        return;
    };
    for (name, value) in props {
        let prop = format!("prop `{name}` of `{id}`");
        let mut comparison = PropComparison { name: prop, failures: &mut *failures };
        comparison.compare(&join_token(&pointer, name), value, &component["props"][name]);
    }
}

/// Finds the component with an ID in the zones of a layout, and in those of its components.
fn find_component<'b>(zones: &'b Json, id: &str) -> Option<&'b Json> {
    let lists = zones.as_object()?.values().filter_map(Json::as_array);
    lists.flatten().find_map(|component| match component["id"] == id {
        true => Some(component),
        false => find_component(&component["zones"], id),
    })
}

/// The comparison of one prop.
struct PropComparison<'f> {
    /// The prop, as the titles of failures name it.
    name: String,
    failures: &'f mut Vec<Failure>,
}

impl PropComparison<'_> {
    /// Compares a value. Members of objects that `expected` does not name may have any value.
    fn compare(&mut self, pointer: &str, expected: &Json, actual: &Json) {
        if let Json::Object(members) = expected
            && actual.is_object()
        {
            for (name, value) in members {
                self.compare(&join_token(pointer, name), value, &actual[name]);
            }
        } else if let Json::Array(elements) = expected
            && actual.as_array().is_some_and(|others| others.len() == elements.len())
        {
            for (index, element) in elements.iter().enumerate() {
                self.compare(&format!("{pointer}/{index}"), element, &actual[index]);
            }
        } else if !is_equal(expected, actual) {
            self.failures.push(Failure {
                pointer: pointer.to_owned(),
                title: format!("{} has another value", self.name),
                expected: describe(expected),
                actual: describe(actual),
            });
        }
    }
}

/// Compares two values that are not both objects. `1` and `1.0` are equal, as in JavaScript.
fn is_equal(expected: &Json, actual: &Json) -> bool {
    expected == actual || expected.as_f64().is_some_and(|number| actual.as_f64() == Some(number))
}

fn describe(value: &Json) -> String {
    match value {
        Json::Null => "no value".to_owned(),
        value => truncate(&value.to_string(), VALUE_CHARS_MAX),
    }
}

fn compare_redirect(redirect: &ExpectedRedirect, body: &Json, failures: &mut Vec<Failure>) {
    let ExpectedRedirect { to, status } = redirect;
    let actual_to = body["to"].as_str().unwrap_or_default();
    if to != actual_to {
        failures.push(Failure {
            pointer: "/redirect/to".to_owned(),
            title: "the redirect has another target".to_owned(),
            expected: quote(to),
            actual: quote(actual_to),
        });
    }
    if let Some(status) = status.filter(|status| body["status"] != *status) {
        failures.push(Failure {
            pointer: "/redirect/status".to_owned(),
            title: "the redirect has another status".to_owned(),
            expected: status.to_string(),
            actual: body["status"].to_string(),
        });
    }
}

fn quote(text: &str) -> String {
    format!("`{text}`")
}
