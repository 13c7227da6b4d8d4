//! The reports of `parallax test`: text, JSON and JUnit, the filter, the output file, and exit codes.

use std::fs;

use serde_json::{Value as Json, json};

use super::{expecting, run_cases, workspace};
use crate::command_line::Workspace;

/// Returns a case with a name that passes, or one that fails.
fn case(name: &str, passes: bool) -> Json {
    let variant = if passes { "default" } else { "back" };
    json!({ "name": name, "path": "/", "expect": { "variants": { "hero": variant } } })
}

/// Returns a site with two files: three cases that pass, and two that fail.
fn five_cases() -> Workspace {
    let workspace = workspace();
    let write = |file: &str, cases: Json| {
        workspace.write(&format!("site/tests/{file}"), &format!("{:#}", json!({ "cases": cases })));
    };
    write("a.json", json!([case("first", true), case("<b> & \"c\"\u{1}\n", false), case("third", true)]));
    write("more/b.json", json!([case("fourth", false), case("fifth", true)]));
    workspace
}

/// An element of XML: its name, its attributes and its text.
#[derive(Debug, PartialEq, Eq)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    text: String,
    depth: usize,
}

impl Element {
    fn attribute(&self, name: &str) -> &str {
        let found = self.attributes.iter().find(|(own, _)| own == name);
        &found.unwrap_or_else(|| panic!("{name} is missing: {self:?}")).1
    }
}

/// Replaces the references of a text. Panics if it has a character that XML does not allow there.
fn unescape(text: &str) -> String {
    let mut parts = text.split('&');
    let mut plain = parts.next().expect("split has a first part").to_owned();
    for part in parts {
        let (reference, rest) = part.split_once(';').expect("a reference ends with a semicolon");
        let number = reference.strip_prefix('#').map(|digits| digits.parse::<u32>().expect("a number"));
        plain.push(match (reference, number) {
            ("amp", _) => '&',
            ("lt", _) => '<',
            ("gt", _) => '>',
            ("quot", _) => '"',
            (_, Some(number)) => char::from_u32(number).expect("a character"),
            _ => panic!("unknown reference {reference}"),
        });
        plain.push_str(rest);
    }
    let is_allowed = |c: char| c >= ' ' || ['\t', '\n', '\r'].contains(&c);
    assert!(plain.chars().all(is_allowed) && !text.contains(['<', '>', '"']), "{text:?}");
    plain
}

/// Parses a document of elements, in the order of their starts. Panics if it is not well-formed.
fn parse_xml(xml: &str) -> Vec<Element> {
    let body = xml.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").expect("a declaration");
    let mut elements: Vec<Element> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for (index, part) in body.split('<').enumerate() {
        let Some((tag, text)) = part.split_once('>') else {
            assert!(index == 0 && part.is_empty(), "text outside of elements: {part:?}");
            continue;
        };
        if let Some(name) = tag.strip_prefix('/') {
            let closed = open.pop().expect("an open element");
            assert_eq!(elements[closed].name, name);
        } else {
            let is_empty = tag.ends_with('/');
            let (name, mut rest) = tag.trim_end_matches('/').split_once(' ').unwrap_or((tag, ""));
            let mut attributes = Vec::new();
            while let Some((attribute, after)) = rest.split_once("=\"") {
                let (value, after) = after.split_once('"').expect("the end of a value");
                attributes.push((attribute.trim().to_owned(), unescape(value)));
                rest = after;
            }
            assert_eq!(rest.trim(), "");
            let text = unescape(text);
            elements.push(Element { name: name.to_owned(), attributes, text, depth: open.len() });
            if !is_empty {
                open.push(elements.len() - 1);
            }
        }
    }
    assert_eq!(open, [0; 0]);
    elements
}

#[test]
fn the_text_has_a_line_for_each_case_and_the_exit_code_is_the_result() {
    let workspace = five_cases();
    let result = workspace.run(&["test", "site"]);
    assert_eq!((result.code, result.err.as_str()), (1, "error: 2 of 5 cases failed\n"));
    for text in [
        "pass  tests/a.json: first\n",
        "FAIL  tests/a.json:12: <b> & \"c\"\\u{1}\\n\n",
        "pass  tests/a.json: third\n",
        "FAIL  tests/more/b.json:3: fourth\n",
        "site acme: 5 cases, 3 passed, 2 failed\n",
    ] {
        assert!(result.out.contains(text), "{text:?} is missing: {}", result.out);
    }
    workspace.run(&["test"]).assert_exit(2, &["<SITE>"]);
    workspace.run(&["test", "site", "--format", "tap"]).assert_exit(2, &["text, json, junit"]);
}

#[test]
fn the_filter_selects_cases_by_file_or_name() {
    let workspace = five_cases();
    let filter = |text: &str| workspace.run(&["test", "site", "--filter", text]);
    filter("ir").assert_exit(0, &["2 cases, 2 passed"]);
    assert!(filter("more/").out.contains("2 cases, 1 passed, 1 failed"));
    filter("").assert_exit(1, &["2 of 5 cases failed"]);
    filter("First").assert_exit(1, &["--filter \"First\" is in no file and no name of the 5 cases of site"]);
}

#[test]
fn json_has_each_result_and_the_explanation_of_a_failure() {
    let workspace = five_cases();
    let result = workspace.run(&["test", "site", "--format", "json"]);
    assert_eq!((result.code, result.err.as_str()), (1, "error: 2 of 5 cases failed\n"));
    let report: Json = serde_json::from_str(&result.out).expect("JSON");
    assert_eq!(report["site"], "acme");
    assert_eq!(["cases", "passed", "failed"].map(|name| report[name].as_u64()), [Some(5), Some(3), Some(2)]);
    let passed = json!({ "name": "first", "file": "tests/a.json", "line": 3, "status": "passed" });
    assert_eq!(report["results"][0], passed);
    let failed = &report["results"][1];
    assert_eq!((&failed["name"], &failed["status"]), (&json!("<b> & \"c\"\u{1}\n"), &json!("failed")));
    assert_eq!(
        failed["failures"],
        json!([{
            "line": 17, "column": 19, "pointer": "/cases/1/expect/variants/hero", "message": "zone `hero` shows another variant",
            "expected": "`back`", "found": "`default`"
        }])
    );
    assert_eq!(failed["explanation"]["decisions"][1]["zone"], "hero");
    assert_eq!(failed["explanation"]["visitor"]["visitor"]["isNew"], true);
}

#[test]
fn junit_is_well_formed_and_has_the_numbers() {
    let workspace = five_cases();
    let result = workspace.run(&["test", "site", "--format", "junit"]);
    assert_eq!((result.code, result.err.as_str()), (1, "error: 2 of 5 cases failed\n"));
    let elements = parse_xml(&result.out);
    let named = |name: &str| elements.iter().filter(|element| element.name == name).collect::<Vec<_>>();
    let numbers = |element: &Element| {
        ["name", "tests", "failures", "errors"].map(|name| element.attribute(name).to_owned())
    };
    let suites: Vec<_> = named("testsuites").into_iter().chain(named("testsuite")).map(numbers).collect();
    assert_eq!(
        suites,
        [["acme", "5", "2", "0"], ["tests/a.json", "3", "1", "0"], ["tests/more/b.json", "2", "1", "0"]]
    );
    let cases: Vec<_> = named("testcase").iter().map(|case| case.attribute("name").to_owned()).collect();
    assert_eq!(cases, ["first", "<b> & \"c\"\u{fffd}\n", "third", "fourth", "fifth"]);
    let second = named("testcase")[1];
    assert_eq!((second.attribute("file"), second.attribute("line"), second.depth), ("tests/a.json", "12", 2));
    assert!(second.attribute("time").parse::<f64>().is_ok());
    let [first, _] = named("failure")[..] else { panic!("two failures: {elements:?}") };
    assert_eq!(
        first.attribute("message"),
        "zone `hero` shows another variant: expected `back`, found `default`"
    );
    assert!(first.text.contains("--> tests/a.json:17:19") && first.text.contains("zone hero: default"));
}

#[test]
fn a_report_goes_to_a_file_and_the_text_to_standard_output() {
    let workspace = five_cases();
    for (format, begin) in [("junit", "<?xml"), ("json", "{"), ("text", "pass  tests/a.json: first")] {
        let result = workspace.run(&["test", "site", "--format", format, "-o", "report"]);
        assert_eq!(result.code, 1);
        assert!(result.out.ends_with("site acme: 5 cases, 3 passed, 2 failed\n"), "{}", result.out);
        let report = fs::read_to_string(workspace.path("report")).expect("a report");
        assert!(report.starts_with(begin), "{report}");
    }
    let failed = workspace.run(&["test", "site", "-o", "missing/report"]);
    failed.assert_exit(3, &["cannot write missing/report", "choose another file with -o"]);
}

#[test]
fn a_long_list_of_failures_is_cut() {
    let props: Json =
        (0..101).map(|number| (format!("p{number}"), json!(1))).collect::<serde_json::Map<_, _>>().into();
    let result = run_cases(&workspace(), &json!([expecting(json!({ "props": { "hero": props } }))]), &[]);
    assert!(result.out.contains("1 more failure not shown"), "{}", result.out);
}
