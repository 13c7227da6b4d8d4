//! Data of the Puck editor gets one error, which says how to convert it.

use super::{line, read_texts, report_lines_of};
use crate::command_line::Workspace;

/// A document as Puck saves it.
const DATA: &str = r#"{"root":{"props":{"title":"Pricing"},"readOnly":{"title":true}},
  "content":[{"type":"Columns","props":{"id":"Columns-1","gap":2},"readOnly":{"gap":true}},{"type":"Text","props":{"id":"Text-2"}}],
  "zones":{"Columns-1:left":[{"type":"Text","props":{"id":"Text-1"}}],"root:aside":[]}}"#;

const COMPONENT: &str = r#"{"type":"Text","props":{"id":"Text-1"}}"#;

/// Returns a route file with these zones.
fn route(zones: &str) -> String {
    format!(r#"{{"path":"/a","layout":{{"root":{{"props":{{}}}},"zones":{zones}}}}}"#)
}

/// Returns the pointer and the feature of the only diagnostic of a route file.
#[track_caller]
fn only_diagnostic(text: &str) -> (String, String) {
    let report = read_texts(&[("routes/a.json", text)]).1;
    let [only] = &report.diagnostics[..] else {
        panic!("{:?}", report.diagnostics.iter().map(line).collect::<Vec<_>>());
    };
    assert!(only.to_string().starts_with("this is data of the Puck editor ("), "{only}");
    (only.diagnostic.pointer.clone(), only.diagnostic.actual.clone())
}

#[test]
fn a_document_of_puck_is_one_error_wherever_it_is() {
    let feature = "`content` beside `root` or `zones`".to_owned();
    for (text, pointer) in [
        (DATA.to_owned(), ""),
        (format!(r#"{{"path":"/a","layout":{DATA}}}"#), "/layout"),
        (format!(r#"{{"/":{DATA}}}"#), "/~1"),
        (format!(r#"{{"path":"/a","data":{DATA}}}"#), "/data"),
        (r#"{"content":[],"root":{},"zones":{}}"#.to_owned(), ""),
        (r#"{"content":[],"root":{"title":"old"}}"#.to_owned(), ""),
        (r#"{"path":"/a","layout":{"content":[],"zones":{}}}"#.to_owned(), "/layout"),
    ] {
        assert_eq!(only_diagnostic(&text), (pointer.to_owned(), feature.clone()), "{text}");
    }
}

#[test]
fn a_component_of_puck_in_a_zone_is_one_error() {
    let own = r#"{"id":"a","type":"Box","props":{}}"#;
    let nested = |zones: &str| {
        route(&format!(r#"{{"main":[{{"id":"a","type":"Box","props":{{}},"zones":{zones}}}]}}"#))
    };
    let feature = "`id` inside `props`";
    for (text, pointer) in [
        (route(&format!(r#"{{"main":[{own},{COMPONENT},{COMPONENT}]}}"#)), "/layout/zones/main/1"),
        (nested(&format!(r#"{{"left":[{COMPONENT}]}}"#)), "/layout/zones/main/0/zones/left/0"),
        (
            route(&format!(r#"{{"hero":{{"default":[],"variants":{{"b":[{COMPONENT}]}},"rules":[]}}}}"#)),
            "/layout/zones/hero/variants/b/0",
        ),
        (
            route(&format!(r#"{{"main":[{{"type":"Box","props":{{"id":7,"slot":[{COMPONENT}]}}}}]}}"#)),
            "/layout/zones/main/0",
        ),
    ] {
        assert_eq!(only_diagnostic(&text), (pointer.to_owned(), feature.to_owned()), "{text}");
    }
    let half_converted = r#"{"main":[{"id":"a","type":"Text","props":{},"readOnly":{"text":true}}]}"#;
    let read_only = "`readOnly` beside `props`".to_owned();
    assert_eq!(
        only_diagnostic(&route(half_converted)),
        ("/layout/zones/main/0".to_owned(), read_only.clone())
    );
    let root = r#"{"path":"/a","layout":{"root":{"props":{},"readOnly":{}},"zones":{}}}"#;
    assert_eq!(only_diagnostic(root), ("/layout/root".to_owned(), read_only));
    let of_parent = "zones with names such as `PARENT:NAME`".to_owned();
    let zones = route(&format!(r#"{{"main":[{own}],"a:left":[{own}]}}"#));
    assert_eq!(only_diagnostic(&zones), ("/layout".to_owned(), of_parent));
}

#[test]
fn errors_beside_the_data_of_puck_stay() {
    let text = format!(
        r#"{{"path":"a","layout":{{"root":{{"props":{{}}}},"zones":{{"main":[{COMPONENT}],"x y":[]}}}},"more":1}}"#
    );
    let lines = report_lines_of("routes/a.json", &text);
    let has = |text: &str| lines.iter().any(|line| line.contains(text));
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(
        has("/path |") && has("/layout/zones/main/0 |") && has("/layout/zones/x y |") && has("/more |"),
        "{lines:?}"
    );
}

#[test]
fn a_page_without_data_of_puck_gets_no_error_about_it() {
    let inside_props = r#"{"main":[{"id":"a","type":"Box","props":{"items":[{"type":"Text","props":{"id":"b"},"readOnly":{}}],
        "content":[],"root":{},"zones":{"a:b":[]}}}]}"#;
    assert_eq!(report_lines_of("routes/a.json", &route(inside_props)), [""; 0]);
    for zones in [
        &inside_props.replace("\"id\":\"a\",", ""),
        r#"{"main":[{"type":"Text","props":{}}]}"#,
        r#"{"main":[{"type":"Text","props":{"identity":1}}]}"#,
        r#"{"main":[{"id":"a","props":{"id":"b"}}]}"#,
        r#"{"x y":[]}"#,
    ] {
        let lines = report_lines_of("routes/a.json", &route(zones));
        assert!(!lines.is_empty() && lines.iter().all(|line| !line.contains("form of a page")), "{lines:?}");
    }
    let groups = report_lines_of("groups.json", DATA);
    assert!(groups.iter().all(|line| !line.contains("form of a page")), "{groups:?}");
}

#[test]
fn the_error_lists_the_steps_of_the_conversion() {
    let workspace = Workspace::new();
    workspace.write("site/routes/a.json", &format!(r#"{{"path":"/a","layout":{DATA}}}"#));
    for command in [&["lint", "site"][..], &["compile", "site", "-o", "x"]] {
        let refused = workspace.run(command);
        refused.assert_exit(
            1,
            &[
                "error: this is data of the Puck editor (`content` beside `root` or `zones`) and has to be converted\n",
                " --> routes/a.json:1:23 at /layout\n",
                "= help: move `props.id` of each component to `id`, beside `type` and `props`\n",
                "= help: move each zone `PARENT:NAME` to `zones.NAME` of the component with the ID PARENT",
                "= help: leave out `readOnly`, and keep only `props` of `root`\n",
                "docs/authoring.md",
                "compilation failed with 1 error",
            ],
        );
    }
}

#[test]
fn the_example_of_the_documentation_is_converted_by_these_steps() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/authoring.md")).expect("UTF-8");
    let section =
        page.split("## Pages of Puck\n").nth(1).expect("a section").split("\n## ").next().expect("its text");
    let blocks: Vec<&str> =
        section.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let [puck, converted] = blocks[..] else { panic!("{} blocks", blocks.len()) };
    assert_eq!(only_diagnostic(puck).0, "");
    assert_eq!(report_lines_of("routes/a.json", converted), [""; 0]);
}
