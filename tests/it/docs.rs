//! The documentation, compared with the tables of the program.
//!
//! `docs/conditions.md` must have every path, every operator and every limit of conditions, and no others.
//! Each of its examples must compile. Its rules for values and missing values must be true.

use std::collections::BTreeSet;
use std::process::Command;

use parallax::testing::condition::{FieldKind, operator_names};
use parallax::testing::limits;
use parallax::testing::site::compile::compile;
use parallax::testing::site::profile_fields::{ProfileField, field_paths, find_field};
use parallax::testing::site::profile_values::{FieldValues, ValueType};
use parallax::testing::site::source::diagnostics::Diagnostic;
use parallax::testing::site::source::files::Files;
use parallax::testing::site::source::read::read;
use parallax::testing::site::source::schema::FileKind;
use serde_json::{Value as Json, json};

use super::authoring::editor_errors;
use super::condition::holds_leniently;

/// Returns the text of the page. It is read at run time, so that a change of the page needs no build.
fn conditions_page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/conditions.md");
    std::fs::read_to_string(path).expect("the page is UTF-8")
}

/// Returns the text of a section, from its heading to the next one of the same level.
fn section<'t>(text: &'t str, title: &str) -> &'t str {
    let heading = format!("\n## {title}\n");
    let (_, rest) = text.split_once(&heading).unwrap_or_else(|| panic!("no section {title:?}"));
    rest.split_once("\n## ").map_or(rest, |(section, _)| section)
}

/// Returns the cells of a row.
fn cells(row: &str) -> Vec<&str> {
    let row = row.strip_prefix("| ").and_then(|row| row.strip_suffix(" |"));
    row.unwrap_or_else(|| panic!("a row without its borders")).split(" | ").collect()
}

/// Returns the rows of the tables whose first column is `column`, without the header.
fn rows<'t>(text: &'t str, column: &str) -> Vec<Vec<&'t str>> {
    let mut rows = Vec::new();
    for table in text.split("\n\n").filter(|block| block.starts_with('|')) {
        let mut lines = table.lines();
        let header = cells(lines.next().expect("a block has a line"));
        if header[0] != column {
            continue;
        }
        for line in lines.skip(1) {
            let row = cells(line);
            assert_eq!(row.len(), header.len(), "the number of cells of {line}");
            rows.push(row);
        }
    }
    rows
}

/// Returns the text between the backquotes of a cell that is one piece of code.
fn code(cell: &str) -> &str {
    let inner = cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`'));
    inner.filter(|text| !text.contains('`')).unwrap_or_else(|| panic!("{cell} is not one piece of code"))
}

fn example(row: &[&str]) -> Json {
    let text = code(row.last().expect("a row has cells"));
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns the contents of all fenced blocks. Each must be marked as JSON.
fn fenced_blocks(text: &str) -> Vec<Json> {
    let parts: Vec<&str> = text.split("```").collect();
    assert_eq!(parts.len() % 2, 1, "a block without an end");
    let json = |block: &&str| {
        let source = block.strip_prefix("json\n").unwrap_or_else(|| panic!("not marked as JSON: {block}"));
        serde_json::from_str(source).unwrap_or_else(|error| panic!("{source}: {error}"))
    };
    parts.iter().skip(1).step_by(2).map(json).collect()
}

/// Returns whether any object in `json` has the member `name`.
fn has_member(json: &Json, name: &str) -> bool {
    match json {
        Json::Object(members) => members.iter().any(|(key, value)| key == name || has_member(value, name)),
        Json::Array(items) => items.iter().any(|item| has_member(item, name)),
        _ => false,
    }
}

/// Compiles a site with these files. Returns the errors as `expected, actual`.
fn compile_errors(files: &[(&str, Json)]) -> Vec<String> {
    let about = json!({ "site": "acme", "trackingId": "track_acme", "name": "Acme" });
    let groups = json!({ "staff": ["u-17", "u-42"], "nordics": ["NO", "SE", "DK", "FI", "IS"] });
    let common = [("site.json", about), ("groups.json", groups)];
    let texts: Vec<_> = common.iter().chain(files).map(|(path, json)| (*path, json.to_string())).collect();
    let files = Files::from_memory(texts.iter().map(|(path, text)| (*path, text.as_bytes())));
    let (source, diagnostics) = read(&files, &|_, _| {});
    let compiled = compile(&source, diagnostics, 1, &|_, _| {});
    let shown = compiled.err().map(|errors| errors.report(&files).diagnostics).unwrap_or_default();
    let line = |error: &Diagnostic| format!("expected {}, got {}", error.expected, error.actual);
    shown.iter().map(|placed| line(&placed.diagnostic)).collect()
}

/// Compiles a condition over visitors.
fn visitor_condition_errors(condition: &Json) -> Vec<String> {
    let returning = json!({ "when": { "visitor.isReturning": true } });
    let audiences = json!({ "returning": returning, "example": { "when": condition } });
    compile_errors(&[("audiences.json", audiences)])
}

/// Compiles a condition over content items.
fn content_condition_errors(condition: &Json) -> Vec<String> {
    let params =
        json!({ "category": { "type": "string", "optional": true }, "maxPrice": { "type": "number" } });
    let queries = json!({ "example": { "collection": "items", "params": params, "where": condition } });
    compile_errors(&[("content/items.json", json!([])), ("queries.json", queries)])
}

/// Returns the path of a field in the form of the page: `traits.` is `traits.<name>`.
fn documented_form(path: &str) -> String {
    let name = if path.starts_with("pages.") { "<path>" } else { "<name>" };
    let path = if path.ends_with('.') { format!("{path}*") } else { path.to_owned() };
    path.replace('*', name)
}

#[test]
fn the_page_of_conditions_has_every_path_with_its_type_and_an_example() {
    let page = conditions_page();
    let rows = rows(section(&page, "Paths"), "path");
    let mut documented: Vec<_> = rows.iter().map(|row| code(row[0]).to_owned()).collect();
    let mut known: Vec<_> = field_paths().map(|(path, _)| documented_form(path)).collect();
    documented.sort_unstable();
    known.sort_unstable();
    assert_eq!(documented, known);
    for row in &rows {
        let path = code(row[0]);
        let at = field_paths().position(|(form, _)| documented_form(form) == path).expect("just compared");
        let kind = match code(row[1]) {
            "time" => FieldKind::Time,
            "history" => FieldKind::History,
            "boolean" | "number" | "string" | "any" => FieldKind::Any,
            other => panic!("{path}: the type {other} is not in the list of types"),
        };
        assert_eq!(field_paths().nth(at).map(|(_, kind)| kind), Some(kind), "{path}");
        let values = ProfileField::from_code(at as u16).map(|field| FieldValues::of(field).value_type);
        let documented_type = match code(row[1]) {
            "boolean" => [ValueType::Boolean; 2],
            "number" => [ValueType::Number; 2],
            "string" => [ValueType::Text, ValueType::NumericText],
            _ => [ValueType::Any; 2],
        };
        assert!(values.is_some_and(|known| documented_type.contains(&known)), "{path}: {values:?}");
        let example = example(row);
        let field = ProfileField::from_code(at as u16);
        let names_field =
            |key: &String| find_field(key).is_ok_and(|f| ProfileField::from_code(f.code) == field);
        let members = example.as_object().expect("a condition is an object");
        assert!(members.keys().any(names_field), "{path}: its example does not use it: {example}");
    }
}

#[test]
fn the_vocabulary_of_conditions_is_that_of_the_page() {
    let output = Command::new(env!("CARGO_BIN_EXE_parallax")).args(["schema", "conditions"]).output();
    let vocabulary: Json = serde_json::from_slice(&output.expect("the program runs").stdout).expect("JSON");
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let page = conditions_page();
    let documented: Vec<_> = rows(section(&page, "Paths"), "path")
        .iter()
        .map(|row| (code(row[0]).to_owned(), code(row[1]).to_owned()))
        .collect();
    // Goals are abbreviations of events and pages, and have no row.
    let paths = vocabulary["paths"].as_array().expect("paths");
    let (goals, fields): (Vec<&Json>, Vec<&Json>) = paths.iter().partition(|entry| entry["path"] == "goals.");
    assert_eq!(goals.len(), 4);
    let known = fields.into_iter().map(|entry| {
        let name = match (entry["parameter"].is_null(), &entry["parameter"] == "page") {
            (true, _) => "",
            (false, true) => "<path>",
            (false, false) => "<name>",
        };
        (format!("{}{name}{}", text(&entry["path"]), text(&entry["suffix"])), text(&entry["type"]))
    });
    let sorted = |entries: Vec<(String, String)>| BTreeSet::from_iter(entries);
    assert_eq!(sorted(known.collect()), sorted(documented));
    let operators = vocabulary["operators"].as_array().expect("operators");
    let names: BTreeSet<String> = operators.iter().map(|operator| text(&operator["name"])).collect();
    let rows = rows(section(&page, "Operators on values"), "operator");
    assert_eq!(names, rows.iter().map(|row| code(row[0]).to_owned()).collect());
    let types_of =
        |name: &str| &operators.iter().find(|operator| operator["name"] == name).expect("listed")["types"];
    assert_eq!(types_of("$within"), &json!(["time"]));
    assert_eq!(types_of("$count"), &json!(["history"]));
    assert_eq!(types_of("$gte"), &json!(["boolean", "number", "string", "any", "time"]));
    assert_eq!(
        vocabulary["limits"],
        json!({ "nesting": 16, "rulesOfZone": 64, "patternBytes": 1024, "countWithin": 16 })
    );
    let hour =
        vocabulary["paths"].as_array().expect("paths").iter().find(|entry| entry["path"] == "now.hour");
    assert_eq!(hour, Some(&json!({ "path": "now.hour", "type": "number", "minimum": 0, "maximum": 23 })));
}

#[test]
fn the_page_of_conditions_has_every_operator_with_an_example() {
    let page = conditions_page();
    let titles = ["Operators on conditions", "Operators on values"];
    let rows: Vec<_> = titles.iter().flat_map(|title| rows(section(&page, title), "operator")).collect();
    let mut documented: Vec<_> = rows.iter().map(|row| code(row[0])).collect();
    let mut known: Vec<_> = operator_names().collect();
    documented.sort_unstable();
    known.sort_unstable();
    assert_eq!(documented, known);
    for row in &rows {
        let (operator, example) = (code(row[0]), example(row));
        assert!(has_member(&example, operator), "{operator}: its example does not use it: {example}");
    }
}

#[test]
fn every_example_of_a_condition_compiles() {
    let page = conditions_page();
    let content = section(&page, "Content");
    let over_content = fenced_blocks(content);
    assert!(!over_content.is_empty());
    for condition in &over_content {
        let queries = json!({ "example": { "collection": "items", "where": condition } });
        assert_eq!(editor_errors(FileKind::Queries, &queries), [""; 0], "{condition}");
        assert_eq!(content_condition_errors(condition), [""; 0], "{condition}");
    }
    let without_content = page.replace(content, "");
    let mut over_visitors = fenced_blocks(&without_content);
    let with_example = ["path", "operator"].map(|column| rows(&without_content, column));
    over_visitors.extend(with_example.iter().flatten().filter(|row| row.len() == 4).map(|row| example(row)));
    assert!(over_visitors.len() > operator_names().count() + field_paths().count());
    for condition in &over_visitors {
        let audiences = json!({ "example": { "when": condition } });
        assert_eq!(editor_errors(FileKind::Audiences, &audiences), [""; 0], "{condition}");
        assert_eq!(visitor_condition_errors(condition), [""; 0], "{condition}");
    }
}

#[test]
fn an_example_with_an_error_does_not_compile() {
    for condition in [
        json!({ "visitor.visit": 3 }),
        json!({ "visitor.visits": { "$least": 3 } }),
        json!({ "visitor.firstSeen": { "$lt": "yesterday" } }),
        json!({ "now.at": { "$gte": "2026-12-01" } }),
        json!({ "now.at": { "$gte": "2026-12-01T08:30:00" } }),
        json!({ "events.Pro*duct.count": 1 }),
        json!({ "pages./docs/**": { "$count": { "$gte": 1 } } }),
        json!({ "events.*Viewed.last": { "$exists": true } }),
        json!({ "events.Product*": { "$count": { "$gte": 17, "within": "7d" } } }),
        json!({ "pages./docs/*": { "$count": { "$eq": 16, "within": "7d" } } }),
        json!({ "$audience": "unknown" }),
    ] {
        assert_ne!(visitor_condition_errors(&condition), [""; 0], "{condition}");
    }
    let at =
        "a time with a UTC offset, such as \"2026-01-05T10:00:00Z\" (RFC 3339), or milliseconds since 1970";
    let errors = visitor_condition_errors(&json!({ "now.at": { "$lt": "tomorrow" } }));
    assert_eq!(errors, [format!("expected {at}, got \"tomorrow\"")]);
    let path = "a path of a known field, with `*` only at the end of the name of an event or page";
    let errors = visitor_condition_errors(&json!({ "pages./*/docs.count": 1 }));
    assert_eq!(errors, [format!("expected {path}, got pages./*/docs.count")]);
    let unknown_param = json!({ "price": { "$lte": { "$param": "unknown" } } });
    assert_ne!(content_condition_errors(&unknown_param), [""; 0]);
}

/// Returns the limits with their names.
macro_rules! limits {
    ($($name:ident)*) => { [$((stringify!($name), limits::$name as u64)),*] };
}

#[test]
fn the_limits_of_conditions_are_those_of_the_program() {
    let mut known = BTreeSet::from(limits![
        CONDITION_NESTING_MAX RULES_MAX AUDIENCES_MAX AUDIENCE_CHAIN_MAX PROGRAM_BYTES_MAX
        PATTERN_BYTES_MAX PATTERN_NFA_STATES_MAX PATTERN_DFA_BYTES_MAX PATTERNS_MAX TIMES_KEPT
        VISIT_TIMEOUT_MS PROFILE_BYTES_MAX PROFILE_EVENT_NAMES_MAX PROFILE_PATHS_MAX PROFILE_PATH_BYTES_MAX
        TRAITS_MAX TRAIT_BYTES_MAX TRAIT_NAME_BYTES_MAX TOUCH_TEXT_BYTES_MAX URL_BYTES_MAX URL_PARAMS_MAX
        USER_AGENT_BYTES_MAX
    ]);
    known.insert(("TIMES_KEPT - 1", limits::TIMES_KEPT - 1));
    let page = conditions_page();
    let rows = rows(section(&page, "Limits"), "limit");
    let documented: BTreeSet<_> = rows.iter().map(|row| (code(row[row.len() - 1]), value(row[1]))).collect();
    assert_eq!(documented, known);
}

/// Returns the number at the start of a cell, such as `1,024 bytes`.
fn value(cell: &str) -> u64 {
    let digits = cell.split(' ').next().unwrap_or_default().replace(',', "");
    digits.parse().unwrap_or_else(|error| panic!("{cell}: {error}"))
}

/// Asserts that the tests of the member `a` of `document` hold, or do not hold.
fn assert_tests(document: &Json, tests: &[Json], expected: bool) {
    for test in tests {
        let holds = holds_leniently(&json!({ "a": test }), document, &Default::default());
        assert_eq!(holds, expected, "{test} over {document}");
    }
}

#[test]
fn tests_of_a_missing_value_have_the_documented_results() {
    let holding = json!([
        null, 0, {"$eq": null}, {"$in": [null]}, {"$ini": [null]}, {"$ne": "x"}, {"$nin": ["x"]},
        {"$nini": ["x"]}, {"$notInGroup": "none"}, {"$lt": 3}, {"$lt": "3"}, {"$gte": 0}, {"$lte": 0},
        {"$vlt": "3.0.0"}, {"$veq": "0"}, {"$notRegex": ""}, {"$notRegexi": ""}, {"$exists": false},
        {"$type": "null"},
    ]);
    let failing = json!([
        "", "x", false, true, [], {}, {"$eq": 0}, {"$in": [0]}, {"$ne": null}, {"$nin": [null]},
        {"$nini": [null]}, {"$inGroup": "none"}, {"$gt": 0}, {"$lt": "x"}, {"$gte": "x"},
        {"$vgt": "0"}, {"$vne": "0"}, {"$regex": ""}, {"$regexi": ""}, {"$all": []}, {"$alli": []},
        {"$elemMatch": {}}, {"$size": 0}, {"$exists": true},
    ]);
    assert_tests(&json!({}), holding.as_array().expect("an array"), true);
    assert_tests(&json!({}), failing.as_array().expect("an array"), false);
}

#[test]
fn tests_of_values_have_the_documented_results() {
    let cases = json!([
        [5, ["5", 5, true, {"$eq": 5}, {"$regex": "^5$"}], [false, "5.0", {"$eq": "5"}, {"$in": ["5"]}]],
        ["5", ["5", 5, true, {"$gt": 4}], [false, {"$eq": 5}, {"$gt": "x"}]],
        [0, [0, "0", false, {"$eq": 0}], [true, null]],
        ["", ["", 0, false, {"$lte": 0}, {"$regex": "^$"}], [true, null]],
        [true, [true, "true", 1, {"$gt": 0}], [false, "1", {"$eq": 1}]],
        ["10", [{"$lt": "9"}, {"$gt": 9}], [{"$lt": 9}]],
        ["Z", [{"$lt": "a"}, {"$ini": ["z"]}], [{"$in": ["z"]}, {"$lt": 1}, {"$gte": 1}]],
        [[], [true, [], {"$size": 0}, {"$all": []}], [false, {"$elemMatch": {}}, {"$lt": 1}, {"$regex": ""}]],
        [["x", "y"], [["x", "y"], {"$in": ["x"]}, {"$all": ["y"]}, {"$alli": ["Y"]}, {"$size": 2}],
            [["y", "x"], "x", {"$nin": ["x"]}, {"$all": ["x", "z"]}, {"$eq": "x"}]],
        [{"b": 1, "c": [2]}, [true, {"c": [2], "b": 1}], [{"b": 1}, {"$gt": 0}, {"$size": 2}]],
        ["2.10.0-beta.2", [{"$vlt": "2.10.0"}, {"$vgt": "2.9.0"}], [{"$veq": "2.10.0"}]],
        ["v2.4.0+build7", [{"$veq": "2.4.0"}], [{"$vne": "2.4.0"}]],
        ["2.10", [{"$vne": "2.10.0"}], [{"$veq": "2.10.0"}]],
    ]);
    for case in cases.as_array().expect("an array") {
        let document = json!({ "a": case[0] });
        assert_tests(&document, case[1].as_array().expect("an array"), true);
        assert_tests(&document, case[2].as_array().expect("an array"), false);
    }
    for (condition, expected) in [("$and", true), ("$or", true), ("$nor", false)] {
        let condition = json!({ condition: [] });
        assert_eq!(holds_leniently(&condition, &json!({}), &Default::default()), expected, "{condition}");
    }
    let position = json!({ "a.tags.1": "y" });
    assert!(holds_leniently(&position, &json!({ "a": { "tags": ["x", "y"] } }), &Default::default()));
}

/// Returns the number of a constant in a source file.
fn constant(source_path: &str, name: &str) -> String {
    let path = format!("{}/src/{source_path}", env!("CARGO_MANIFEST_DIR"));
    let source = std::fs::read_to_string(path).expect("a source file");
    let (_, rest) = source.split_once(&format!("const {name}: u32 = ")).expect("the constant");
    rest.split_once(';').expect("the end of the constant").0.to_owned()
}

#[test]
fn the_table_of_formats_has_the_numbers_of_the_program() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/upgrading.md");
    let page = std::fs::read_to_string(path).expect("the page is UTF-8");
    let table = rows(&page, "file");
    for (file, source_path) in [
        ("`*.segment`", "log/format.rs"),
        ("`*.checkpoint`", "visitors/checkpoint/format.rs"),
        ("`*.columns`", "insights/columns/format.rs"),
        ("`*.snapshot`", "site/snapshot/format.rs"),
        ("`node`, `outbox/producer`", "cluster/producer.rs"),
    ] {
        let row = table.iter().find(|row| row[0] == file).expect("a row of the table");
        assert_eq!(row[2], constant(source_path, "FORMAT_VERSION"), "{file}");
        assert_eq!(row[3].rsplit(", ").next(), Some(row[2]), "{file}");
    }
}
