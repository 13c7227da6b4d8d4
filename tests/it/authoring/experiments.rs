//! An experiment key in several zones: all of them must have the same definition.

use parallax::testing::limits::{
    ENROLMENTS_MAX, EVENT_NAME_CHARS_MAX, GUARDRAILS_MAX, RAMP_STEPS_MAX, ROUTE_BYTES_MAX, SEED_CHARS_MAX,
};
use parallax::testing::site::compile::{compile, warn_about_past};
use parallax::testing::site::experiment_metrics::Goal;
use parallax::testing::site::source::diagnostics::Diagnostics;
use parallax::testing::site::source::read::read;
use serde_json::{Value, json};

use super::{SITE, files, line};

/// Compiles a page with a zone for each experiment. Returns the titles of the errors.
fn titles(experiments: &[Value]) -> Vec<String> {
    compile_zones(experiments).0
}

/// Compiles a page with a zone for each experiment. Returns the errors and the warnings: the titles, and the lines of a
/// report.
fn compile_zones(experiments: &[Value]) -> (Vec<String>, Vec<String>) {
    let zone = |experiment: &Value| {
        let arms = experiment["variants"].as_array().cloned().unwrap_or_default();
        let known = ["b", "c"].into_iter().filter(|key| arms.iter().any(|arm| arm == key));
        let variants: serde_json::Map<String, Value> = known.map(|key| (key.to_owned(), json!([]))).collect();
        json!({ "default": [], "variants": variants, "rules": [{ "experiment": experiment }] })
    };
    let zones: serde_json::Map<String, Value> =
        experiments.iter().enumerate().map(|(i, experiment)| (format!("z{i}"), zone(experiment))).collect();
    let page = json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": zones } }).to_string();
    let other = r#"{"path":"/café","layout":{"root":{"props":{}},"zones":{}}}"#;
    let files = files(&[SITE, ("routes/index.json", &page), ("routes/other.json", other)]);
    let (source, diagnostics) = read(&files, &|_, _| {});
    let compiled = compile(&source, diagnostics, 1, &|_, _| {});
    let shown = match compiled {
        Ok(compiled) => compiled.warnings.report(&files).diagnostics,
        Err(mistakes) => mistakes.report(&files).diagnostics,
    };
    let lines = shown.iter().map(line).collect();
    (shown.into_iter().map(|placed| placed.diagnostic.title.unwrap_or_default()).collect(), lines)
}

fn experiment(member: &str, value: Value) -> Value {
    let mut experiment = json!({
        "key": "e", "variants": ["default", "b"], "weights": [0.5, 0.5], "coverage": 1, "seed": "s",
        "namespace": ["n", 0, 0.5], "holdout": 0.1,
    });
    if !member.is_empty() {
        experiment[member] = value;
    }
    experiment
}

#[test]
fn zones_of_one_experiment_have_the_same_definition() {
    let first = || experiment("", Value::Null);
    assert_eq!(titles(&[first(), first()]), [""; 0]);
    for (member, value) in [
        ("variants", json!(["b", "default"])),
        ("variants", json!(["default", "c"])),
        ("weights", json!([0.4, 0.6])),
        ("coverage", json!(0.9)),
        ("seed", json!("t")),
        ("namespace", json!(["n", 0.5, 1])),
        ("holdout", json!(0)),
        ("from", json!("2026-03-01T00:00:00Z")),
        ("to", json!("2026-03-01T00:00:00Z")),
    ] {
        let title = format!("conflicting `{member}` of experiment `e`");
        assert_eq!(titles(&[first(), experiment(member, value)]), [title], "{member}");
        let other_key = experiment("key", json!("f"));
        assert_eq!(titles(&[first(), other_key]), [""; 0]);
    }
}

#[test]
fn wrong_times_of_an_experiment_are_refused_with_their_place() {
    let with = |more: Value| {
        let mut experiment = json!({ "key": "e", "variants": ["default", "b"] });
        experiment.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        compile_zones(&[experiment])
    };
    let (march, april) = ("2026-03-01T00:00:00Z", "2026-04-01T00:00:00+02:00");
    let step = |from: &str| json!({ "from": from, "share": 0.5 });
    for sound in [
        json!({ "from": march, "to": april, "winner": "b" }),
        json!({ "to": march, "winner": "default" }),
        json!({ "coverage": [step(march), step(april)] }),
    ] {
        assert_eq!(with(sound.clone()).0, [""; 0], "{sound}");
    }
    let pointer = "/layout/zones/z0/rules/0/experiment";
    for (wrong, member, title) in [
        (json!({ "from": "2026-03-01" }), "from", "invalid time"),
        (json!({ "to": "soon" }), "to", "invalid time"),
        (json!({ "from": april, "to": march }), "to", "the experiment ends before it begins"),
        (json!({ "from": march, "to": march }), "to", "the experiment ends before it begins"),
        (json!({ "to": march, "winner": "c" }), "winner", "unknown arm"),
        (json!({ "winner": "b" }), "winner", "a winner without `to`"),
        (json!({ "coverage": [step("x")] }), "coverage/0/from", "invalid time"),
        (
            json!({ "coverage": [step(march), step(march)] }),
            "coverage/1/from",
            "steps that are not in the order of time",
        ),
    ] {
        let (titles, lines) = with(wrong.clone());
        assert_eq!(titles, [title], "{wrong}");
        assert!(lines[0].contains(&format!("{pointer}/{member} ")), "{lines:?}");
    }
    // The line can be copied.
    let (_, lines) = with(json!({ "winner": "b" }));
    let text = lines[0].split("\"to\": \"").nth(1).and_then(|rest| rest.split('"').next()).expect("a time");
    assert_eq!(with(json!({ "to": text, "winner": "b" })).0, [""; 0]);
}

#[test]
fn a_ramp_has_a_limited_number_of_steps() {
    for count in [0, 1, RAMP_STEPS_MAX - 1, RAMP_STEPS_MAX, RAMP_STEPS_MAX + 1] {
        let step = |day: usize| json!({ "from": format!("2026-{:02}-{:02}T00:00:00Z", 1 + day / 28, 1 + day % 28), "share": 1 });
        let steps: Vec<Value> = (0..count).map(step).collect();
        let ramp = json!({ "key": "e", "variants": ["default", "b"], "coverage": steps });
        assert_eq!(titles(&[ramp]).is_empty(), (1..=RAMP_STEPS_MAX).contains(&count), "{count}");
    }
}

#[test]
fn a_site_with_more_experiments_than_a_visitor_can_be_enrolled_in_has_a_warning() {
    for count in [ENROLMENTS_MAX - 1, ENROLMENTS_MAX, ENROLMENTS_MAX + 1] {
        let experiments: Vec<Value> =
            (0..count).map(|n| json!({ "key": format!("e{n}"), "variants": ["default", "b"] })).collect();
        let warnings = titles(&experiments);
        let is_warned = warnings.iter().any(|title| title.contains("so many experiments"));
        assert_eq!(is_warned, count > ENROLMENTS_MAX, "{count}: {warnings:?}");
    }
}

#[test]
fn an_experiment_that_has_ended_without_a_winner_has_a_warning() {
    let titles_at = |more: &str, now_ms: i64| -> Vec<String> {
        let rule = format!(
            r#"{{"experiment":{{"key":"e","variants":["default","b"],"to":"1970-01-01T00:00:10Z"{more}}}}}"#
        );
        let page = format!(
            r#"{{"path":"/","layout":{{"root":{{"props":{{}}}},"zones":{{"z":{{"default":[],"variants":{{"b":[]}},"rules":[{rule}]}}}}}}}}"#
        );
        let files = files(&[SITE, ("routes/index.json", &page)]);
        let (source, _) = read(&files, &|_, _| {});
        let mut warnings = Diagnostics::default();
        warn_about_past(&source, now_ms, &mut warnings);
        let shown = warnings.report(&files).diagnostics.into_iter();
        shown.map(|placed| placed.diagnostic.title.unwrap_or_default()).collect()
    };
    assert_eq!(titles_at("", 9_999), [""; 0]);
    assert_eq!(titles_at("", 10_000), ["the experiment `e` has ended"]);
    assert_eq!(titles_at(r#","winner":"b""#, 10_000), [""; 0]);
}

#[test]
fn zones_of_one_experiment_have_the_same_number_of_variants() {
    let short = json!({ "key": "e", "variants": ["default", "b"] });
    let long = json!({ "key": "e", "variants": ["default", "b", "c"] });
    assert_eq!(titles(&[short, long]), ["conflicting `variants` of experiment `e`"]);
}

/// Returns an experiment with these metrics.
fn measured(metrics: Value) -> Value {
    let mut experiment = experiment("", Value::Null);
    for (name, value) in metrics.as_object().expect("an object") {
        experiment[name] = value.clone();
    }
    experiment
}

fn rails(count: usize) -> Value {
    json!(vec![json!({ "goal": "Refund", "margin": 0.02 }); count])
}

#[test]
fn valid_metrics_have_no_diagnostics() {
    let name = "é".repeat(EVENT_NAME_CHARS_MAX);
    for metrics in [
        json!({}),
        json!({ "goal": "Order Placed", "value": "properties.revenue", "planned": 20_000, "window": "14d",
            "guardrails": [{ "goal": "Refund Requested", "margin": 0.02, "lowerIsBetter": true }] }),
        json!({ "goal": "page:/" }),
        json!({ "goal": "event:page:/", "value": "properties.quantity" }),
        json!({ "goal": name }),
        json!({ "goal": "a", "value": "properties.total", "cap": "p50" }),
        json!({ "goal": "a", "value": "properties.total", "cap": "p99.9" }),
        json!({ "goal": "a", "value": "properties.total", "cap": "none" }),
        json!({ "goal": "a", "value": "properties.total", "cap": 0.0001 }),
        json!({ "goal": "a", "value": "properties.total", "cap": 99_999_999_999_u64 }),
        json!({ "planned": 2 }),
        json!({ "window": "1s" }),
        json!({ "guardrails": [] }),
        json!({ "guardrails": rails(GUARDRAILS_MAX - 1) }),
        json!({ "guardrails": rails(GUARDRAILS_MAX) }),
        json!({ "guardrails": [{ "goal": "a", "margin": 1 }, { "goal": "b", "margin": 1e-9 }] }),
        json!({ "seed": "é".repeat(SEED_CHARS_MAX - 1) }),
        json!({ "seed": "é".repeat(SEED_CHARS_MAX) }),
        json!({ "segments": [] }),
        json!({ "segments": ["device", "country", "source"] }),
        json!({ "segments": ["new", "language", "source", "country"] }),
        json!({ "goal": null, "value": null, "planned": null, "window": null, "guardrails": null, "segments": null }),
    ] {
        assert_eq!(titles(&[measured(metrics.clone())]), [""; 0], "{metrics}");
    }
}

#[test]
fn each_invalid_metric_is_reported_at_its_place() {
    let goal = "the name of an event with 1 to 200 characters, or `page:` and a path such as `page:/thanks`";
    for (metrics, pointer, expected, actual) in [
        (json!({ "goal": "page:thanks" }), "/goal", goal, "\"page:thanks\""),
        (json!({ "goal": "page:/thanks#a" }), "/goal", goal, "\"page:/thanks#a\""),
        (json!({ "goal": "event:" }), "/goal", goal, "\"event:\""),
        (
            json!({ "guardrails": [{ "goal": "page:", "margin": 0.1 }] }),
            "/guardrails/0/goal",
            goal,
            "\"page:\"",
        ),
        (
            json!({ "guardrails": [{ "goal": "a", "margin": 0.1 }, { "goal": "a", "margin": 0 }] }),
            "/guardrails/1/margin",
            "a fraction above 0, such as 0.02 for two percent",
            "0",
        ),
        (
            json!({ "guardrails": [{ "goal": "a", "margin": 2 }] }),
            "/guardrails/0/margin",
            "0 to 1",
            "the number 2",
        ),
        (
            json!({ "guardrails": rails(GUARDRAILS_MAX + 1) }),
            "/guardrails",
            "up to 16 elements",
            "an array of 17 elements",
        ),
        (
            json!({ "seed": "é".repeat(SEED_CHARS_MAX + 1) }),
            "/seed",
            "1 to 256 characters",
            &format!("the string \"{}…\"", "é".repeat(59)),
        ),
        (
            json!({ "window": "two weeks" }),
            "/window",
            "a whole number of s, m, h or d, such as \"14d\"",
            "\"two weeks\"",
        ),
        (json!({ "window": "0d" }), "/window", "a whole number of s, m, h or d, such as \"14d\"", "\"0d\""),
        (json!({ "planned": 1 }), "/planned", "2 to 9007199254740992", "the number 1"),
        (
            json!({ "value": "properties.revenue" }),
            "/value",
            "an event as `goal`, because its property is added up",
            "no `goal`",
        ),
        (
            json!({ "goal": "page:/", "value": "properties.revenue" }),
            "/value",
            "an event as `goal`, because its property is added up",
            "\"page:/\"",
        ),
    ] {
        assert_reported(&metrics, pointer, expected, actual);
    }
}

#[test]
fn invalid_segments_are_reported_at_their_place() {
    for (metrics, pointer, expected, actual) in [
        (
            json!({ "segments": ["new", "language", "source", "country", "device"] }),
            "/segments",
            "up to 4 elements",
            "an array of 5 elements",
        ),
        (
            json!({ "segments": ["new", "device", "new"] }),
            "/segments",
            "at most 4 different names",
            "new, device, new",
        ),
        (
            json!({ "segments": ["browser"] }),
            "/segments/0",
            "one of `device`, `country`, `source`, `language`, `new`",
            "the string \"browser\"",
        ),
    ] {
        assert_reported(&metrics, pointer, expected, actual);
    }
}

/// Asserts that invalid metrics give one diagnostic, with this place and text.
fn assert_reported(metrics: &Value, pointer: &str, expected: &str, actual: &str) {
    let (_, lines) = compile_zones(&[measured(metrics.clone())]);
    let suffix = format!("/layout/zones/z0/rules/0/experiment{pointer} | {expected} | {actual}");
    assert_eq!(lines.len(), 1, "{metrics}: {lines:?}");
    let place = lines[0].split(' ').next().unwrap_or_default();
    assert!(lines[0].ends_with(&suffix), "{lines:?}, expected {suffix}");
    assert!(place.starts_with("routes/index.json:1:") && place.len() > 20, "{place}");
}

#[test]
fn each_invalid_cap_is_reported_at_its_place() {
    for (metrics, pointer, expected, actual) in [
        (
            json!({ "goal": "a", "value": "properties.total", "cap": "p49.9" }),
            "/cap",
            "an amount above 0, a quantile from `\"p50\"` to `\"p99.9\"`, or `\"none\"`",
            "\"p49.9\"",
        ),
        (
            json!({ "goal": "a", "value": "properties.total", "cap": 0 }),
            "/cap",
            "an amount above 0, a quantile from `\"p50\"` to `\"p99.9\"`, or `\"none\"`",
            "0",
        ),
        (
            json!({ "goal": "a", "value": "properties.total", "cap": 100_000_000_000_u64 }),
            "/cap",
            "an amount above 0, a quantile from `\"p50\"` to `\"p99.9\"`, or `\"none\"`",
            "100000000000",
        ),
        (
            json!({ "goal": "a", "cap": "p99" }),
            "/cap",
            "a `value` too, because the cap limits it",
            "no `value`",
        ),
    ] {
        assert_reported(&metrics, pointer, expected, actual);
    }
}

#[test]
fn a_misspelt_metric_is_reported_with_the_nearest_name() {
    for (metrics, nearest) in [
        (json!({ "gaol": "Order Placed" }), "| goal"),
        (json!({ "goal": "Order Placed", "currrency": "properties.c" }), "| currency"),
        (json!({ "guardrails": [{ "goal": "a", "margin": 0.1, "lowerisBetter": true }] }), "| lowerIsBetter"),
    ] {
        let (_, lines) = compile_zones(&[measured(metrics.clone())]);
        assert!(lines.len() == 1 && lines[0].ends_with(nearest), "{metrics}: {lines:?}");
    }
}

#[test]
fn a_goal_on_a_page_that_is_not_published_is_a_warning_with_the_nearest_path() {
    let experiments = [
        measured(json!({ "goal": "page:/thanks", "guardrails": [{ "goal": "page:/x/y", "margin": 0.1 }] })),
        measured(json!({})),
    ];
    let (titles, lines) = compile_zones(&experiments);
    let pages =
        ["/thanks", "/x/y"].map(|path| format!("the goal is the page {path:?}, which is not published"));
    assert_eq!(titles, pages);
    assert!(
        lines[0].contains("/experiment/goal | a path that this site publishes | \"page:/thanks\""),
        "{lines:?}"
    );
    assert!(lines[1].contains("/experiment/guardrails/0/goal | "), "{lines:?}");
}

#[test]
fn a_goal_on_a_path_that_no_event_has_is_a_warning() {
    // The é in two characters.
    for path in ["/café", "/café*", "/cafe\u{301}*"] {
        assert_eq!(titles(&[measured(json!({ "goal": format!("page:{path}") }))]), [""; 0]);
    }
    for (path, title) in [
        ("/café/", "the goal is the page \"/café/\", whose events have the path \"/café\""),
        ("/caf%C3%A9", "the goal is the page \"/caf%C3%A9\", whose events have the path \"/café\""),
        ("/:slug", "the goal is the pattern \"/:slug\"; choose the path of one page"),
        ("/:slug/*", "the goal is the pattern \"/:slug/*\"; choose the path of one page"),
        ("/a/*", "the goal is pages \"/a/*\", none of which is published"),
        (
            "/caf%C3%A9*",
            "the goal is pages \"/caf%C3%A9*\", whose events have paths that begin with \"/café\"",
        ),
    ] {
        assert_eq!(titles(&[measured(json!({ "goal": format!("page:{path}") }))]), [title]);
    }
}

#[test]
fn each_zone_of_an_experiment_may_give_a_part_of_its_metrics_and_all_must_agree() {
    let parts = [
        json!({ "goal": "Order Placed" }),
        json!({ "value": "properties.revenue", "planned": 9 }),
        json!({}),
    ];
    assert_eq!(titles(&parts.map(measured)), [""; 0]);
    for (member, first, second) in [
        ("goal", json!("a"), json!("b")),
        ("value", json!("properties.revenue"), json!("properties.total")),
        ("currency", json!("properties.currency"), json!("properties.a")),
        ("cap", json!("p99"), json!("p98")),
        ("guardrails", rails(1), rails(2)),
        ("planned", json!(10), json!(11)),
        ("window", json!("1d"), json!("24h")),
        ("segments", json!(["new"]), json!(["device"])),
    ] {
        let zone = |value: &Value| {
            let mut zone = measured(json!({ "goal": "a", "value": "properties.revenue" }));
            zone[member] = value.clone();
            zone
        };
        let title = format!("conflicting `{member}` of experiment `e`");
        assert_eq!(titles(&[zone(&first), zone(&second)]), [title], "{member}");
        assert_eq!(titles(&[zone(&first), zone(&first), zone(&Value::Null)]), [""; 0], "{member}");
    }
}

#[test]
fn a_goal_is_an_event_or_the_path_of_a_page() {
    let longest = format!("page:/{}", "x".repeat(ROUTE_BYTES_MAX - 1));
    for (text, goal) in [
        ("Order Placed", Some(Goal::Event("Order Placed"))),
        ("event:Order Placed", Some(Goal::Event("Order Placed"))),
        ("event:page:/x", Some(Goal::Event("page:/x"))),
        ("event:event:x", Some(Goal::Event("event:x"))),
        ("page", Some(Goal::Event("page"))),
        ("page:/", Some(Goal::Page("/"))),
        ("page:/a b/ü", Some(Goal::Page("/a b/ü"))),
        (&longest, Some(Goal::Page(&longest[5..]))),
        (&format!("{longest}x"), None),
        ("page:", None),
        ("page:x", None),
        ("page:/x?y", None),
        ("event:", None),
        ("", None),
    ] {
        assert_eq!(Goal::parse(text), goal, "{text}");
    }
}
