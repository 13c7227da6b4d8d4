//! Each mistake in a file of cases has a message with its place, and the nearest name if there is one.

use std::fs;

use parallax::testing::site::source::types::{CASE_EVENTS_MAX, CASE_NAME_CHARS_MAX, CASES_MAX};
use serde_json::{Value as Json, json};

use super::{expecting, run_cases, workspace};

/// A mistake: the case, and the texts of its message.
type Mistake = (Json, &'static [&'static str]);

/// Asserts that each case has exactly one error, with these texts.
fn assert_errors(mistakes: impl IntoIterator<Item = Mistake>) {
    let workspace = workspace();
    for (case, texts) in mistakes {
        let result = run_cases(&workspace, &json!([case]), &[]);
        result.assert_exit(1, texts);
        result.assert_exit(
            1,
            &["--> tests/a.json:1:", "error: the tests have 1 error; no result was reported"],
        );
        assert_eq!(result.out, "");
    }
}

/// Returns a case that passes, with some members replaced.
fn with(members: Json) -> Json {
    let mut case = json!({ "name": "x", "path": "/", "expect": { "variants": { "hero": "default" } } });
    for (name, value) in members.as_object().expect("an object") {
        case[name] = value.clone();
    }
    case
}

#[test]
fn an_unknown_name_is_an_error_with_the_nearest_one() {
    assert_errors([
        (
            with(json!({ "path": "/ol" })),
            &["unknown path \"/ol\"", "at /cases/0/path", "expected a path of the site"][..],
        ),
        (with(json!({ "path": "/old/a/b" })), &["unknown path"]),
        (with(json!({ "paht": "/" })), &["unknown member `paht`", "did you mean `path`?"]),
        (
            expecting(json!({ "variants": { "heroo": null } })),
            &[
                "unknown zone \"heroo\"",
                "expected one of `cta`, `hero`, `inner` of the page",
                "did you mean `hero`?",
            ],
        ),
        (
            expecting(json!({ "variants": { "hero": "bakc" } })),
            &["unknown variant \"bakc\"", "of zone `hero`", "did you mean `back`?", "/expect/variants/hero"],
        ),
        (
            expecting(json!({ "experiments": { "lable": null } })),
            &["unknown experiment \"lable\"", "expected `label` of the page", "did you mean `label`?"],
        ),
        (
            expecting(json!({ "experiments": { "label": "strat" } })),
            &["unknown arm \"strat\"", "one of `default`, `start`, `~`", "did you mean `start`?"],
        ),
        (expecting(json!({ "experiments": { "~": "on" } })), &["unknown experiment \"~\""]),
        (
            expecting(json!({ "props": { "hero-bak": {} } })),
            &["unknown component \"hero-bak\"", "did you mean `hero-back`?"],
        ),
        (
            with(json!({ "override": { "inne": "deal" } })),
            &["unknown zone \"inne\"", "did you mean `inner`?", "/override/inne"],
        ),
        (
            with(json!({ "override": { "inner": "dael" } })),
            &["unknown variant \"dael\"", "did you mean `deal`?"],
        ),
        (
            with(json!({ "visitor": { "events": [{ "evnt": "x" }] } })),
            &["unknown member `evnt`", "did you mean `event`?", "/visitor/events/0/evnt"],
        ),
        (
            with(json!({ "visitor": { "events": [{ "event": "x", "sentAt": "2026-01-01" }] } })),
            &["unknown member `sentAt`"],
        ),
        (
            with(json!({ "visitor": { "events": [{ "type": "pgae" }] } })),
            &["expected one of `track`, `page`", "did you mean `page`?"],
        ),
    ]);
}

#[test]
fn arms_are_those_of_the_page_and_exclude_an_id() {
    let visitor = |visitor: Json| with(json!({ "visitor": visitor }));
    let both = &["the visitor has both `arms` and an ID", "note: expected one of them", "/visitor/arms"][..];
    assert_errors([
        (
            visitor(json!({ "arms": { "lable": "start" } })),
            &["unknown experiment \"lable\"", "/visitor/arms/lable"][..],
        ),
        (visitor(json!({ "arms": { "label": "stop" } })), &["unknown arm \"stop\"", "of experiment `label`"]),
        (
            visitor(json!({ "arms": { "label": "default" } })),
            &["has these arms on this page", "found `label:default`"],
        ),
        (visitor(json!({ "arms": { "label": "start" }, "anonId": "a" })), both),
        (visitor(json!({ "arms": { "label": "start" }, "userId": "a" })), both),
        (
            json!({ "name": "x", "path": "/old/a", "visitor": { "arms": { "label": "start" } }, "expect": { "redirect": { "to": "/" } } }),
            &["a redirect has no zones and no props"],
        ),
    ]);
}

#[test]
fn the_holdout_of_the_site_is_an_experiment_of_its_pages() {
    let workspace = workspace();
    let site = r#"{"site":"acme","trackingId":"track_acme","name":"Acme","holdout":{"share":1}}"#;
    workspace.write("site/site.json", site);
    let holdout = |arm: &str| json!([expecting(json!({ "experiments": { "~": arm, "label": null } }))]);
    run_cases(&workspace, &holdout("~"), &[]).assert_exit(0, &["1 passed"]);
    run_cases(&workspace, &holdout("on"), &[]).assert_exit(1, &["1 of 1 case failed"]);
    let unknown = ["unknown arm \"off\"", "expected one of `on`, `~` of experiment `~`"];
    run_cases(&workspace, &holdout("off"), &[]).assert_exit(1, &unknown);
}

#[test]
fn a_value_that_the_server_would_ignore_or_refuse_is_an_error() {
    let visitor = |visitor: Json| with(json!({ "visitor": visitor }));
    let event = |event: Json| visitor(json!({ "events": [event] }));
    assert_errors([
        (
            with(json!({ "now": "2026-01-01T12:00:00" })),
            &["invalid `now`", "years 2020 to 2099", "found \"2026-01-01T12:00:00\""][..],
        ),
        (with(json!({ "now": "2019-12-31T23:59:59.999Z" })), &["invalid `now`"]),
        (with(json!({ "now": "2100-01-01T00:00:00Z" })), &["invalid `now`", "at /cases/0/now"]),
        (
            with(json!({ "path": "/?utm_source=a" })),
            &["`path` has a query or a fragment", "write the query in `url`"],
        ),
        (visitor(json!({ "anonId": "a b" })), &["expected 1 to 128 bytes of visible ASCII", "found \"a b\""]),
        (visitor(json!({ "anonId": "null" })), &["no placeholder such as `null`", "/visitor/anonId"]),
        (visitor(json!({ "userId": "undefined" })), &["no placeholder such as `null`", "/visitor/userId"]),
        (visitor(json!({ "userId": "u".repeat(257) })), &["1 to 256 bytes of text", "/visitor/userId"]),
        (visitor(json!({ "country": "Norway" })), &["expected the code of a country, such as `NO`"]),
        (visitor(json!({ "traits": 1 })), &["expected an object, found the number 1"]),
        (
            event(json!({ "event": "x", "at": "3d" })),
            &["expected a time before `now` such as `-3d`", "found \"3d\""],
        ),
        (event(json!({ "event": "x", "at": "-0d" })), &["expected a time before `now`"]),
        (event(json!({ "event": "x", "at": "-1w" })), &["expected a time before `now`", "/events/0/at"]),
        (
            event(json!({ "event": "x", "at": "-1d", "timestamp": 1 })),
            &["the event has both `at` and `timestamp`"],
        ),
        (event(json!({ "event": "x", "at": "-9999d" })), &["a time from the year 2000 on", "/events/0/at"]),
        (
            event(json!({ "event": "x", "timestamp": "soon" })),
            &["the problem `invalid_timestamp`", "/events/0/timestamp"],
        ),
        (
            event(json!({ "type": "track" })),
            &["the server refuses this: The event has no name", "/visitor/events/0\n"],
        ),
        (event(json!({ "event": "x", "context": { "locale": 3 } })), &["/events/0/context/locale"]),
        (event(json!({ "event": "x", "anonId": [] })), &["`invalid_anon_id`", "/events/0/anonId"]),
        (event(json!({ "event": "x", "site": "other" })), &["unknown member `site`"]),
        (event(json!({ "event": "x".repeat(40_000) })), &["The event has 40", "/visitor/events/0\n"]),
        (
            with(json!({ "url": format!("/{}", "é".repeat(2_000)) })),
            &["the server refuses this: ", "at /cases/0\n"],
        ),
    ]);
}

#[test]
fn an_expectation_that_no_response_can_meet_is_an_error() {
    assert_errors([
        (
            expecting(json!({})),
            &["the case expects nothing", "`variants`, `experiments`, `props` or `redirect`"][..],
        ),
        (expecting(json!({ "variants": {}, "props": {} })), &["the case expects nothing"]),
        (
            expecting(json!({ "redirect": { "to": "/" } })),
            &["this path is not a redirect", "/expect/redirect"],
        ),
        (with(json!({ "path": "/old/a" })), &["a redirect has no zones and no props", "/cases/0/path"]),
        (
            json!({ "name": "x", "path": "/old/a", "override": { "hero": "back" }, "expect": { "redirect": { "to": "/" } } }),
            &["a redirect has no zones and no props"],
        ),
        (expecting(json!({ "redirect": { "to": "/", "status": 200 } })), &["expected one of `301`"]),
        (with(json!({ "expect": null })), &["expected an object, found null"]),
        (json!({ "name": "x", "path": "/" }), &["missing member `expect`"]),
        (json!({ "path": "/", "expect": {} }), &["missing member `name`"]),
    ]);
}

#[test]
fn the_errors_of_all_files_are_reported_at_once() {
    let workspace = workspace();
    workspace.write("site/tests/b/c.json", r#"{ "cases": [ { "name": "x" "path": "/" } ] }"#);
    workspace.write("site/tests/.hidden.json", "{");
    workspace.write("site/tests/notes.txt", "cases");
    let twice = expecting(json!({ "variants": { "hero": "x" } }));
    let result = run_cases(&workspace, &json!([twice, twice]), &[]);
    result.assert_exit(
        1,
        &[
            "warning: tests/notes.txt is not read, because it is not a name that ends in `.json`",
            "--> tests/a.json:1:",
            "duplicate name \"x\"",
            "unknown variant \"x\"",
            "--> tests/b/c.json:1:28",
            "error: the tests have 4 errors; no result was reported",
        ],
    );
    // An error of the site itself comes first.
    workspace.write("site/audiences.json", "{");
    workspace.run(&["test", "site"]).assert_exit(1, &["compilation failed with 1 error"]);
    workspace.run(&["test", "missing"]).assert_exit(1, &["missing"]);
}

#[test]
fn without_a_case_there_is_nothing_to_pass() {
    let workspace = workspace();
    let none = "site has no case; write one in site/tests/";
    workspace.run(&["test", "site"]).assert_exit(1, &[none]);
    fs::create_dir(workspace.path("site/tests")).expect("created");
    workspace.run(&["test", "site"]).assert_exit(1, &[none]);
    run_cases(&workspace, &json!([]), &[])
        .assert_exit(1, &["expected 1 to 10000 elements", "an empty array"]);
}

#[test]
fn a_name_has_1_to_200_characters() {
    let workspace = workspace();
    let named = |name: String| run_cases(&workspace, &json!([with(json!({ "name": name }))]), &[]);
    for length in [1, CASE_NAME_CHARS_MAX - 1, CASE_NAME_CHARS_MAX] {
        named("é".repeat(length)).assert_exit(0, &["1 passed"]);
    }
    for length in [0, CASE_NAME_CHARS_MAX + 1] {
        named("é".repeat(length)).assert_exit(1, &["expected 1 to 200 characters"]);
    }
}

#[test]
fn a_visitor_has_up_to_1000_events() {
    let workspace = workspace();
    for count in [CASE_EVENTS_MAX - 1, CASE_EVENTS_MAX, CASE_EVENTS_MAX + 1] {
        let events = vec![json!({ "event": "Order Placed", "at": "-1d" }); count];
        let visitor = json!({ "events": events, "traits": { "a": 1 } });
        let case = json!({ "name": "x", "visitor": visitor, "path": "/", "expect": { "variants": { "inner": "deal" } } });
        let result = run_cases(&workspace, &json!([case]), &[]);
        match count > CASE_EVENTS_MAX {
            false => result.assert_exit(0, &["1 passed"]),
            true => result.assert_exit(1, &["expected up to 1000 elements", "an array of 1001 elements"]),
        }
    }
}

#[test]
fn a_file_has_1_to_10000_cases() {
    let workspace = workspace();
    for count in [CASES_MAX - 1, CASES_MAX, CASES_MAX + 1] {
        let case = |number: usize| with(json!({ "name": format!("case {number}") }));
        let cases: Json = (0..count).map(case).collect();
        // The filter runs few of them.
        let result = run_cases(&workspace, &cases, &["--filter", "case 999"]);
        match count > CASES_MAX {
            false => result.assert_exit(0, &[" passed, 0 failed"]),
            true => result.assert_exit(1, &["expected 1 to 10000 elements", "an array of 10001 elements"]),
        }
    }
}
