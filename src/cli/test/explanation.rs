//! The explanation of a decision in lines: the members `decisions` and `visitor` of a response to `explain=1`.

use serde_json::Value as Json;

use crate::site::source::diagnostics::truncate;

/// Length of a line, in characters. A condition can be long. The rest is replaced by an ellipsis.
const LINE_CHARS_MAX: usize = 400;

/// Returns the lines of an explanation. Empty for a redirect, which has none.
pub(super) fn explanation_lines(body: &Json) -> Vec<String> {
    let mut lines = Vec::new();
    for decision in body["decisions"].as_array().into_iter().flatten() {
        let [zone, key, source] = ["zone", "key", "source"].map(|name| text(&decision[name]));
        lines.push(format!("zone {zone}: {key} (source: {source})"));
        for rule in decision["rules"].as_array().into_iter().flatten() {
            lines.push(format!("  {}", rule_line(rule)));
        }
    }
    if !body["visitor"].is_null() {
        lines.push("the visitor:".to_owned());
        add_leaves("", &body["visitor"], &mut lines);
    }
    lines.iter().map(|line| truncate(line, LINE_CHARS_MAX)).collect()
}

fn rule_line(rule: &Json) -> String {
    let verb = if rule["matched"] == true { "matches" } else { "does not match" };
    let mut line = format!("rule {} {verb}", rule["index"]);
    let why = &rule["why"];
    if !why.is_null() {
        let [path, operator] = ["path", "operator"].map(|name| text(&why[name]));
        line.push_str(&format!(": {path} {operator} {}, found {}", why["expected"], why["actual"]));
    }
    let experiment = &rule["experiment"];
    if !experiment.is_null() {
        let [key, standing] = ["key", "in"].map(|name| text(&experiment[name]));
        let [hash, enrolled] = ["hash", "enrolled"].map(|name| &experiment[name]);
        line.push_str(&format!("; experiment {key}: in {standing}, hash {hash}, enrolled {enrolled}"));
    }
    if !rule["condition"].is_null() {
        line.push_str(&format!("; condition {}", rule["condition"]));
    }
    line
}

/// Adds a line for each value, with its path as conditions name it.
fn add_leaves(path: &str, value: &Json, lines: &mut Vec<String>) {
    match value {
        Json::Object(members) if !members.is_empty() => {
            // The query of a URL without one has a parameter without a name.
            for (name, member) in members.iter().filter(|(name, _)| !name.is_empty()) {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                add_leaves(&path, member, lines);
            }
        }
        value => lines.push(format!("  {path}: {value}")),
    }
}

/// Returns a text without its quotes.
fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}
