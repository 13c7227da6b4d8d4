//! Warnings: valid source that is probably a mistake.

use std::path::Path;

use parallax::testing::site::compile::compile;
use parallax::testing::site::source::files::Files;
use parallax::testing::site::source::read::read;
use serde_json::{Value, json};

use super::{SITE, line};
use crate::harness::temporary_directory;

/// Compiles the files. Returns the warnings as `file:line:column pointer | expected | actual`.
fn warnings(files: &Files) -> Vec<String> {
    let (source, diagnostics) = read(files, &|_, _| {});
    let compiled = compile(&source, diagnostics, 1, &|_, _| {});
    let compiled = compiled.unwrap_or_else(|mistakes| panic!("{}", mistakes.report(files)));
    compiled.warnings.report(files).diagnostics.iter().map(line).collect()
}

const PAGE: &str = r#"{"path":"/","layout":{"root":{"props":{}},"zones":{}}}"#;

/// Returns the warnings of a site with these further files.
fn warnings_of(texts: &[(&str, &str)]) -> Vec<String> {
    warnings(&super::files(&[&[SITE, ("routes/index.json", PAGE)], texts].concat()))
}

/// Returns the titles of the warnings about a condition.
fn condition_titles(condition: &Value) -> Vec<String> {
    let audiences = json!({ "a": { "when": condition } }).to_string();
    let files = super::files(&[SITE, ("routes/index.json", PAGE), ("audiences.json", &audiences)]);
    let (source, diagnostics) = read(&files, &|_, _| {});
    let compiled = compile(&source, diagnostics, 1, &|_, _| {});
    let compiled = compiled.unwrap_or_else(|mistakes| panic!("{condition}: {}", mistakes.report(&files)));
    let shown = compiled.warnings.report(&files).diagnostics;
    shown.into_iter().map(|placed| placed.diagnostic.title.expect("a title")).collect()
}

/// Returns the warnings of a page whose zone `z` has these rules and the variants `a` and `b`.
fn rule_warnings(rules: Value) -> Vec<String> {
    let zone = json!({ "default": [], "variants": { "a": [], "b": [] }, "rules": rules });
    let page =
        json!({ "path": "/p", "layout": { "root": { "props": {} }, "zones": { "z": zone } } }).to_string();
    let audiences = r#"{"all":{"when":{}},"back":{"when":{"visitor.isReturning":true}},"any":{"when":{"$or":[{"$audience":"all"},{"country":"DE"}]}}}"#;
    warnings_of(&[("routes/p.json", &page), ("audiences.json", audiences)])
}

#[test]
fn a_rule_after_one_that_matches_every_visitor_is_never_reached() {
    let german = json!({ "when": { "country": "DE" }, "variant": "b" });
    for always in [
        json!({ "when": {}, "variant": "a" }),
        json!({ "when": { "$and": [{}, { "$or": [] }] }, "variant": "a" }),
        json!({ "audience": "all", "variant": "a" }),
        json!({ "audience": "any", "variant": "a" }),
    ] {
        let lines = rule_warnings(json!([always, german]));
        assert_eq!(lines.len(), 1, "{always}: {lines:?}");
        assert!(
            lines[0].contains("/layout/zones/z/rules/1 | no rule after rule 0, which matches every visitor"),
            "{lines:?}"
        );
        assert_eq!(rule_warnings(json!([german, always])), [""; 0]);
    }
}

#[test]
fn audiences_that_name_each_other_many_times_are_checked_in_a_moment() {
    let when = |level: usize| match level {
        0 => json!({}),
        _ => json!({ "$and": vec![json!({ "$audience": format!("a{}", level - 1) }); 30] }),
    };
    let audiences = (0..8).map(|level| (format!("a{level}"), json!({ "when": when(level) })));
    let audiences = serde_json::Value::Object(audiences.collect()).to_string();
    let rules = json!([{ "audience": "a7", "variant": "a" }, { "audience": "a0", "variant": "a" }]);
    let zone = json!({ "default": [], "variants": { "a": [] }, "rules": rules });
    let route =
        json!({ "path": "/x", "layout": { "root": { "props": {} }, "zones": { "z": zone } } }).to_string();
    let lines = warnings_of(&[("audiences.json", &audiences), ("routes/x.json", &route)]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("no rule after rule 0, which matches every visitor"), "{lines:?}");
}

#[test]
fn a_rule_with_the_condition_of_an_earlier_one_is_never_reached() {
    let back = json!({ "audience": "back", "variant": "a" });
    let german = json!({ "when": { "country": "DE" }, "variant": "b" });
    let lines = rule_warnings(json!([back, german, back, german]));
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("/rules/2 | another condition than that of rule 0"), "{lines:?}");
    assert!(lines[1].contains("/rules/3 | another condition than that of rule 1"), "{lines:?}");
}

#[test]
fn a_rule_after_an_experiment_is_reached_by_visitors_without_an_id() {
    let experiment = json!({ "experiment": { "key": "e", "variants": ["default", "a"] } });
    assert_eq!(rule_warnings(json!([experiment, { "audience": "back", "variant": "b" }])), [""; 0]);
}

#[test]
fn a_value_outside_a_closed_list_is_a_warning_with_the_nearest_value() {
    for (condition, title) in [
        (json!({ "device.type": "phone" }), "`device.type` is never \"phone\""),
        (json!({ "device.type": { "$in": ["mobile", "Tablet"] } }), "`device.type` is never \"Tablet\""),
        (json!({ "country": "de" }), "`country` is never \"de\""),
        (json!({ "country": { "$not": { "$ne": "GER" } } }), "`country` is never \"GER\""),
    ] {
        assert_eq!(condition_titles(&condition), [title], "{condition}");
    }
    let lower = r#"{"a":{"when":{"country":"de"}}}"#;
    assert_eq!(
        warnings_of(&[("audiences.json", lower)]),
        ["audiences.json:1:25 /a/when/country | a country in upper case, such as \"DE\" | \"de\" | DE"]
    );
}

#[test]
fn types_that_cannot_match_are_a_warning() {
    for (condition, title) in [
        (json!({ "country": 3 }), "`country` is a text, which never matches 3"),
        (json!({ "locale": { "$gte": 3 } }), "`locale` is a text, which never matches 3"),
        (json!({ "visitor.visits": "many" }), "`visitor.visits` is a number, which never matches \"many\""),
        (
            json!({ "visitor.visits": { "$eq": "3" } }),
            "`visitor.visits` is a number, which never matches \"3\"",
        ),
        (
            json!({ "events.Viewed.count": { "$gt": "x" } }),
            "`events.Viewed.count` is a number, which never matches \"x\"",
        ),
        (json!({ "visitor.isNew": "yes" }), "`visitor.isNew` is true or false, which never matches \"yes\""),
        (json!({ "url.query.page": { "$in": [1] } }), "`url.query.page` is a text, which never matches 1"),
        (json!({ "lastTouch.source": ["x"] }), "`lastTouch.source` is a text, which never matches [\"x\"]"),
        (json!({ "device.os": { "$size": 1 } }), "`device.os` is never an array"),
    ] {
        assert_eq!(condition_titles(&condition), [title], "{condition}");
    }
}

#[test]
fn values_that_can_match_are_no_warning() {
    for condition in [
        json!({ "device.type": { "$ini": ["MOBILE"] }, "country": { "$in": ["DE", "GB", "US"] } }),
        json!({ "country": { "$ini": ["de"] }, "device.os": "iOS", "visitor.userId": null }),
        json!({ "url.query.page": 2, "lastTouch.campaign": { "$gte": 2024 }, "traits.plan": 3 }),
        json!({ "visitor.visits": "3", "visitor.isNew": 1, "visitor.isReturning": "true" }),
        json!({ "now.hour": { "$gte": 9, "$lt": 24 }, "now.weekday": { "$in": [1, 7] }, "now.date": { "$gte": "2026" } }),
        json!({ "traits.tags": { "$all": ["a"], "$size": 2 }, "visitor.firstSeen": { "$lt": "2026-01-05T00:00:00Z" } }),
    ] {
        assert_eq!(condition_titles(&condition), [""; 0], "{condition}");
    }
}

#[test]
fn a_node_id_twice_on_a_page_is_a_warning() {
    let node = |id: &str| json!({ "id": id, "type": "T", "props": {} });
    let page = |zones: Value| {
        json!({ "path": "/p", "layout": { "root": { "props": {} }, "zones": zones } }).to_string()
    };
    let lines = |zones: Value| warnings_of(&[("routes/p.json", &page(zones))]);
    let twice = lines(json!({ "main": [node("a"), node("b")], "side": [node("a")] }));
    assert_eq!(twice.len(), 1);
    assert!(
        twice[0].contains("/layout/zones/side/0/id | an ID that no other node of the page has | \"a\""),
        "{twice:?}"
    );
    // A response has one variant, so two variants may have the same ID.
    let rule = json!({ "when": { "country": "DE" }, "variant": "v" });
    let zone = json!({ "default": [node("a")], "variants": { "v": [node("a")] }, "rules": [rule] });
    assert_eq!(lines(json!({ "hero": zone })), [""; 0]);
    assert_eq!(lines(json!({ "hero": zone, "main": [node("a")] })).len(), 1);
    assert_eq!(lines(json!({ "main": [node("a")], "hero": zone })).len(), 2);
    let outer = json!({ "id": "o", "type": "T", "props": {}, "zones": { "in": [node("o")] } });
    assert_eq!(lines(json!({ "main": [outer] })).len(), 1);
}

#[test]
fn a_redirect_to_an_unpublished_internal_path_is_a_warning() {
    let posts = r#"[{"id":"1","type":"t","fields":{"s":"a"}}]"#;
    let each = r#"{"path":"/posts/:s","each":{"collection":"c","s":"fields.s"},"layout":{"root":{"props":{}},"zones":{}}}"#;
    let docs = r#"{"path":"/docs/*","layout":{"root":{"props":{}},"zones":{}}}"#;
    let lines = |path: &str, to: &str| {
        let redirect = json!({ "path": path, "redirect": { "to": to, "status": 308 } }).to_string();
        warnings_of(&[
            ("content/c.json", posts),
            ("routes/e.json", each),
            ("routes/d.json", docs),
            ("routes/r.json", &redirect),
        ])
    };
    for to in ["/", "/?a=1#b", "/posts/a", "/posts/a/", "/docs/x/y", "https://a.example/x", "/posts/%61"] {
        assert_eq!(lines("/old", to), [""; 0], "{to}");
    }
    for to in ["/posts/b", "/doc", "/docs", "/posts/a/b"] {
        let lines = lines("/old", to);
        assert!(
            lines.len() == 1 && lines[0].contains("/redirect/to | a path that this site publishes"),
            "{to}: {lines:?}"
        );
    }
    assert_eq!(lines("/blog/:x", "/posts/:x"), [""; 0]);
    assert_eq!(lines("/blog/:x", "/articles/:x").len(), 1);
    assert_eq!(
        lines("/blog/:x", "/posts/post-:x"),
        [""; 0],
        "a segment with a parameter in it can be any of many"
    );
}

#[test]
fn skipped_files_are_a_warning() {
    let directory = temporary_directory();
    let write = |path: &str, text: &str| {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("created");
        std::fs::write(path, text).expect("written");
    };
    write("site.json", SITE.1);
    write("routes/index.json", PAGE);
    for ignored in ["README.md", ".git/x.json", "routes/.index.json.swp", "assets/a.json", "package.lock"] {
        write(ignored, "{}");
    }
    let lines = || warnings(&Files::from_directory(directory.path()).expect("read"));
    assert_eq!(lines(), [""; 0]);
    for skipped in [
        "routes/about.jsonc",
        "routes/help/a.json.bak",
        "content/posts.yaml",
        "audiences.yml",
        "route/a.json",
    ] {
        write(skipped, "{}");
    }
    assert_eq!(
        lines(),
        [
            "audiences.yml:1:1  | a name that ends in `.json` | `audiences.yml`",
            "content/posts.yaml:1:1  | a name that ends in `.json` | `content/posts.yaml`",
            "route:1:1  | a directory `routes` or `content` | `route`",
            "routes/about.jsonc:1:1  | a name that ends in `.json` | `routes/about.jsonc`",
            "routes/help/a.json.bak:1:1  | a name that ends in `.json` | `routes/help/a.json.bak`",
        ]
    );
}

#[test]
fn a_site_without_routes_is_a_warning() {
    let lines = warnings(&super::files(&[SITE]));
    assert_eq!(lines, ["site.json:1:1  | at least one file `routes/NAME.json` | none"]);
}

#[test]
fn the_demo_site_and_the_starter_have_no_warnings() {
    for site in ["snapshots/demo", "src/cli/starter"] {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(site);
        assert_eq!(warnings(&Files::from_directory(&directory).expect("read")), [""; 0], "{site}");
    }
}

#[test]
fn an_unknown_path_or_operator_lists_the_possible_ones_if_none_is_near() {
    let lines = |condition: &str| {
        let audiences = format!(r#"{{"a":{{"when":{condition}}}}}"#);
        let files = super::files(&[SITE, ("audiences.json", &audiences)]);
        let (source, diagnostics) = read(&files, &|_, _| {});
        let errors = compile(&source, diagnostics, 1, &|_, _| {}).expect_err("an unknown name");
        errors.report(&files).diagnostics.iter().map(line).collect::<Vec<_>>()
    };
    let path = lines(r#"{"device.manufacturer":"x"}"#);
    assert!(
        path[0].contains("| one of device.type, device.os, device.browser | device.manufacturer"),
        "{path:?}"
    );
    let part = lines(r#"{"basket":"x"}"#);
    assert!(part[0].contains("which begins with one of country, device., events., "), "{part:?}");
    let operator = lines(r#"{"visitor.visits":{"$between":[1,2]}}"#);
    assert!(operator[0].contains("| an operator: one of $eq, $ne, $gt, $gte, "), "{operator:?}");
    let near = lines(r#"{"device.typ":{"$reg":"x"}}"#);
    assert!(near[0].ends_with(" | device.type") && near[1].ends_with(" | $regex"), "{near:?}");
}

#[test]
fn a_text_for_a_path_that_is_not_in_the_form_of_paths_is_a_warning() {
    let page = r#"{"path":"/menu/:slug","each":{"collection":"dishes","slug":"fields.slug"},"layout":{"root":{"props":{}},"zones":{}}}"#;
    let dishes = "[{\"id\":\"1\",\"type\":\"d\",\"fields\":{\"slug\":\"cr\u{e8}me\",\"title\":\"the\u{301}\"}},\n{\"id\":\"2\",\"type\":\"d\",\"fields\":{\"slug\":\"the\u{301}\",\"title\":\"\"}}]";
    assert_eq!(
        warnings_of(&[("routes/menu.json", page), ("content/dishes.json", dishes)]),
        [format!(
            "content/dishes.json:2:39 /1/fields/slug | a text in Unicode normalization form C (NFC), in which paths are | {:?}",
            "the\u{301}"
        )]
    );
}
