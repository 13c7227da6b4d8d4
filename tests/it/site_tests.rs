//! `parallax test`: the cases of a site directory, their results and reports, and the mistakes in them.

mod mistakes;
mod reports;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use parallax::testing::condition::{hash_after_seed, seed_hash};
use parallax::testing::events::time;
use parallax::testing::site::source::types::ARM_IDS_MAX;
use serde_json::{Value as Json, json};

use crate::command_line::{CommandResult, Workspace};
use crate::harness::Server;

const AUDIENCES: &str = r#"{
  "returning": { "when": { "visitor.isReturning": true } },
  "member": { "when": { "traits.plan": "member" } },
  "german": { "when": { "locale": { "$regex": "^de" } } },
  "norwegian": { "when": { "country": "NO" } },
  "phone": { "when": { "device.type": "mobile" } },
  "letter": { "when": { "lastTouch.source": "letter" } },
  "buyer": { "when": { "events.Order Placed": { "$count": { "$gte": 2, "within": "7d" } } } },
  "evening": { "when": { "now.hour": { "$gte": 20 } } }
}"#;

const PAGE: &str = r#"{
  "path": "/",
  "layout": {
    "root": { "props": { "title": "Home" } },
    "zones": {
      "hero": {
        "default": [{ "id": "hero", "type": "Hero", "props": { "title": "Hello", "tags": ["a", "b"], "price": 5 } }],
        "variants": {
          "back": [{ "id": "hero-back", "type": "Hero", "props": { "title": "Back" }, "zones": {
            "inner": {
              "default": [], "variants": { "deal": [] }, "rules": [{ "audience": "buyer", "variant": "deal" }]
            }
          } }],
          "member": [], "german": [], "norwegian": [], "phone": [], "letter": [], "evening": []
        },
        "rules": [
          { "audience": "member", "variant": "member" },
          { "audience": "returning", "variant": "back" },
          { "audience": "german", "variant": "german" },
          { "audience": "norwegian", "variant": "norwegian" },
          { "audience": "phone", "variant": "phone" },
          { "audience": "letter", "variant": "letter" },
          { "audience": "evening", "variant": "evening" }
        ]
      },
      "cta": {
        "default": [{ "id": "cta", "type": "Button", "props": {} }],
        "variants": { "start": [] },
        "rules": [{ "experiment": { "key": "label", "variants": ["default", "start"], "weights": [0, 1] } }]
      },
      "main": [{ "id": "text", "type": "Text", "props": { "image": { "src": "/a.webp", "width": 3.0 } } }]
    }
  }
}"#;

/// Returns a working directory with a site that has a page and a redirect.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("site/audiences.json", AUDIENCES);
    workspace.write("site/routes/index.json", PAGE);
    let redirect = r#"{ "path": "/old/:name", "redirect": { "to": "/?from=:name", "status": 307 } }"#;
    workspace.write("site/routes/old.json", redirect);
    workspace
}

/// Writes cases to `tests/a.json`, and runs the command.
fn run_cases(workspace: &Workspace, cases: &Json, flags: &[&str]) -> CommandResult {
    workspace.write("site/tests/a.json", &json!({ "cases": cases }).to_string());
    workspace.run(&[&["test", "site"], flags].concat())
}

/// Returns the case of a visitor who gets this variant of the zone `hero` at the path `/`.
fn hero(variant: &str, visitor: Json) -> Json {
    json!({ "name": format!("{variant} {visitor}"), "visitor": visitor, "path": "/", "expect": { "variants": { "hero": variant } } })
}

/// Asserts that a case with these expectations passes at the path `/`.
#[track_caller]
fn assert_passes(workspace: &Workspace, case: Json) {
    run_cases(workspace, &json!([case]), &[]).assert_exit(0, &["1 case, 1 passed, 0 failed"]);
}

/// Asserts that a case with these expectations fails at the path `/`, and that the output has these texts.
#[track_caller]
fn assert_fails(workspace: &Workspace, case: Json, texts: &[&str]) {
    let result = run_cases(workspace, &json!([case]), &[]);
    assert_eq!(result.code, 1, "{result:?}");
    assert_eq!(result.err, "error: 1 of 1 case failed\n");
    for text in texts.iter().chain(&["1 case, 0 passed, 1 failed"]) {
        assert!(result.out.contains(text), "{text:?} is missing: {}", result.out);
    }
}

fn expecting(expect: Json) -> Json {
    json!({ "name": "x", "path": "/", "expect": expect })
}

#[test]
fn the_cases_of_the_demo_and_of_init_pass() {
    let workspace = Workspace::new();
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/demo");
    let demo = workspace.run(&["test", &demo.to_string_lossy()]);
    demo.assert_exit(0, &["site fjell: ", " passed, 0 failed"]);
    assert_eq!(demo.err, "");
    workspace.run(&["init", "my-shop"]).assert_exit(0, &["parallax test my-shop"]);
    workspace.run(&["test", "my-shop"]).assert_exit(0, &["site my-shop: 3 cases, 3 passed, 0 failed"]);
    workspace.run(&["lint", "my-shop"]).assert_exit(0, &["0 errors, 0 warnings"]);
}

#[test]
fn tests_are_not_part_of_the_compiled_site() {
    let workspace = workspace();
    workspace.run(&["compile", "site", "--version", "1", "-o", "a.snapshot"]).assert_exit(0, &[]);
    workspace.write("site/tests/a.json", "no JSON");
    workspace.run(&["compile", "site", "--version", "1", "-o", "b.snapshot"]).assert_exit(0, &[]);
    let read = |name: &str| fs::read(workspace.path(name)).expect("a snapshot");
    assert!(read("a.snapshot") == read("b.snapshot"));
    workspace.run(&["lint", "site"]).assert_exit(0, &["0 errors, 0 warnings"]);
}

#[test]
fn each_part_of_a_visitor_decides() {
    let phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
                 Version/18.1 Mobile/15E148 Safari/604.1";
    let letter = json!({ "type": "page", "at": "-1m", "properties": { "url": "https://a.example/?utm_source=letter" } });
    let cases = json!([
        hero("default", json!({})),
        hero("member", json!({ "traits": { "plan": "member" } })),
        hero("member", json!({ "userId": "ana", "traits": { "plan": "member" } })),
        hero(
            "default",
            json!({ "traits": { "plan": "guest" }, "events": [{ "traits": { "plan": "member" } }] })
        ),
        hero("member", json!({ "events": [{ "traits": { "plan": "member" }, "userId": "ana" }] })),
        hero("back", json!({ "events": [{ "event": "x", "at": "-1d" }] })),
        hero("default", json!({ "events": [{ "event": "x", "at": "-29m" }] })),
        hero("default", json!({ "events": [{ "event": "x", "at": "-1d", "anonId": "visitor-2" }] })),
        hero(
            "back",
            json!({ "anonId": "a", "events": [{ "event": "x", "timestamp": "2025-12-31T12:00:00Z" }] })
        ),
        hero("german", json!({ "locale": "de-AT" })),
        hero("norwegian", json!({ "country": "no" })),
        hero("phone", json!({ "userAgent": phone })),
        hero("letter", json!({ "events": [letter] })),
        hero("default", json!({ "gpc": true, "userAgent": "Googlebot/2.1", "country": "NO" })),
    ]);
    run_cases(&workspace(), &cases, &[]).assert_exit(0, &["14 cases, 14 passed, 0 failed"]);
}

#[test]
fn consent_governs_events_and_decisions() {
    let yesterday = json!([{ "event": "x", "at": "-1d" }]);
    let consent = |consent: Json| json!({ "events": yesterday, "consent": consent });
    let workspace = workspace();
    workspace.write(
        "site/site.json",
        r#"{"site":"acme","trackingId":"track_acme","name":"Acme","privacy":{"honorGpc":true}}"#,
    );
    let cases = json!([
        hero("back", consent(json!({}))),
        hero("default", consent(json!({ "measure": false }))),
        hero("default", consent(json!({ "personalize": false }))),
        hero("default", json!({ "events": yesterday, "gpc": true })),
    ]);
    run_cases(&workspace, &cases, &[]).assert_exit(0, &["4 cases, 4 passed"]);
}

#[test]
fn the_present_is_that_of_the_case_or_of_the_file_and_fixed_without_one() {
    let workspace = workspace();
    let evening = json!({ "name": "own", "now": "2026-06-01T21:00:00+01:00", "path": "/", "expect": { "variants": { "hero": "evening" } } });
    let noon = expecting(json!({ "variants": { "hero": "default" } }));
    run_cases(&workspace, &json!([evening, noon]), &[]).assert_exit(0, &["2 passed"]);
    let of_file = json!({ "now": "2026-06-01T20:00:00Z", "cases": [
        { "name": "file", "path": "/", "expect": { "variants": { "hero": "evening" } } },
        { "name": "own", "now": "2026-06-01T19:59:59.999Z", "path": "/", "expect": { "variants": { "hero": "default" } } }
    ] });
    workspace.write("site/tests/a.json", &of_file.to_string());
    workspace.run(&["test", "site"]).assert_exit(0, &["2 passed"]);
    let fails = expecting(json!({ "variants": { "hero": "evening" } }));
    assert_fails(&workspace, fails, &["now.date: \"2026-01-01\"", "now.hour: 12", "now.at: 1767268800000"]);
}

#[test]
fn a_zone_has_the_expected_variant_or_is_not_on_the_page() {
    let workspace = workspace();
    let back = json!({ "events": [{ "event": "Order Placed", "at": "-2d" }, { "event": "Order Placed", "at": "-1d" }] });
    let case = |visitor: &Json, variants: Json| json!({ "name": "x", "visitor": visitor, "path": "/", "expect": { "variants": variants } });
    assert_passes(&workspace, case(&back, json!({ "hero": "back", "inner": "deal" })));
    assert_passes(&workspace, case(&json!({}), json!({ "inner": null })));
    let found = ["zone `inner` is on the page", "expected no such zone, found the variant `deal`"];
    assert_fails(&workspace, case(&back, json!({ "inner": null })), &found);
    let missing = ["zone `inner` is not on the page", "expected `deal`, found no such zone"];
    assert_fails(&workspace, case(&json!({}), json!({ "inner": "deal" })), &missing);
    let other = [
        "FAIL  tests/a.json:1: x",
        "error: zone `hero` shows another variant",
        "--> tests/a.json:1:",
        "at /cases/0/expect/variants/hero",
        "= note: expected `back`, found `default`",
        "zone hero: default (source: default)",
        "rule 1 does not match: visitor.isReturning $eq true, found false",
        "visitor.visits: 1",
    ];
    assert_fails(&workspace, case(&json!({}), json!({ "hero": "back" })), &other);
}

#[test]
fn an_experiment_has_the_expected_arm_or_decides_no_zone() {
    let workspace = workspace();
    assert_passes(&workspace, expecting(json!({ "experiments": { "label": "start" } })));
    let other = [
        "experiment `label` has another arm",
        "expected `default`, found `start`",
        "experiment label: in range",
    ];
    assert_fails(&workspace, expecting(json!({ "experiments": { "label": "default" } })), &other);
    let decides = ["experiment `label` decides a zone", "expected no arm, found `start`"];
    assert_fails(&workspace, expecting(json!({ "experiments": { "label": null } })), &decides);
    let forced = |arm: Json| json!({ "name": "x", "override": { "cta": "default" }, "path": "/", "expect": { "variants": { "cta": "default" }, "experiments": { "label": arm } } });
    assert_passes(&workspace, forced(Json::Null));
    assert_fails(
        &workspace,
        forced(json!("~")),
        &["experiment `label` decides no zone", "expected `~`, found no arm"],
    );
}

#[test]
fn a_visitor_with_arms_has_the_first_id_that_gets_them() {
    let workspace = workspace();
    let halves = PAGE.replace("[0, 1]", "[0.5, 0.5]");
    workspace.write("site/routes/index.json", &halves);
    for arm in ["default", "start"] {
        let visitor = json!({ "arms": { "label": arm }, "events": [{ "event": "x", "at": "-1d" }] });
        let expect = json!({ "variants": { "cta": arm, "hero": "back" }, "experiments": { "label": arm } });
        assert_passes(&workspace, json!({ "name": "x", "visitor": visitor, "path": "/", "expect": expect }));
    }
}

/// Returns a seed with which the hash of `visitor-NUMBER` is above those of all visitors before it, and the middle between its hash
/// and the greatest one before.
fn seed_of_record(number: usize) -> (String, f64) {
    let hash = |seed: &str, number: usize| hash_after_seed(seed_hash(seed), &format!("visitor-{number}"));
    let seeds = (0..100_000).map(|at| format!("seed-{at}"));
    let mut records = seeds.filter_map(|seed| {
        let before = (1..number).map(|number| hash(&seed, number)).fold(0.0, f64::max);
        let own = hash(&seed, number);
        (own > before).then(|| (seed, (own + before) / 2.0))
    });
    records.next().expect("one of a thousand seeds")
}

#[test]
fn a_visitor_with_arms_has_one_of_1000_ids() {
    let workspace = workspace();
    let case = json!({
        "name": "x", "visitor": { "arms": { "label": "start" } }, "path": "/", "expect": { "experiments": { "label": "start" } }
    });
    for number in [ARM_IDS_MAX - 1, ARM_IDS_MAX, ARM_IDS_MAX + 1] {
        let (seed, border) = seed_of_record(number);
        let experiment = format!(r#"[{border}, {}], "seed": "{seed}""#, 1.0 - border);
        workspace.write("site/routes/index.json", &PAGE.replace("[0, 1]", &experiment));
        let result = run_cases(&workspace, &json!([case]), &[]);
        match number > ARM_IDS_MAX {
            false => result.assert_exit(0, &["1 passed"]),
            true => result.assert_exit(
                1,
                &[
                    "no visitor from `visitor-1` to `visitor-1000` has these arms",
                    "found `label:start`",
                    "/visitor/arms",
                ],
            ),
        }
    }
}

#[test]
fn props_are_compared_as_far_as_they_are_named() {
    let workspace = workspace();
    assert_passes(
        &workspace,
        expecting(json!({ "props": {
        "root": { "title": "Home" }, "hero": { "tags": ["a", "b"], "price": 5.0, "missing": null }, "hero-back": null,
        "text": { "image": { "width": 3 } }, "cta": null
    } })),
    );
    let fails = [
        (
            json!({ "root": { "title": "House" } }),
            "prop `title` of `root` has another value",
            "expected \"House\", found \"Home\"",
        ),
        (
            json!({ "hero": { "tags": ["a"] } }),
            "prop `tags` of `hero` has another value",
            "expected [\"a\"], found [\"a\",\"b\"]",
        ),
        (
            json!({ "hero": { "tags": ["a", "c"] } }),
            "/expect/props/hero/tags/1",
            "expected \"c\", found \"b\"",
        ),
        (json!({ "hero": { "price": null } }), "/expect/props/hero/price", "expected no value, found 5"),
        (json!({ "hero": { "old": 1 } }), "prop `old` of `hero`", "expected 1, found no value"),
        (
            json!({ "text": { "image": { "src": "/b.webp" } } }),
            "/expect/props/text/image/src",
            "found \"/a.webp\"",
        ),
        (json!({ "hero": null }), "component `hero` is on the page", "found one of the type \"Hero\""),
        (
            json!({ "hero-back": { "title": "Back" } }),
            "component `hero-back` is not on the page",
            "found no such component",
        ),
    ];
    for (props, title, note) in fails {
        assert_fails(&workspace, expecting(json!({ "props": props })), &[title, note]);
    }
}

#[test]
fn a_redirect_has_the_expected_target_and_status() {
    let workspace = workspace();
    let case = |redirect: Json| json!({ "name": "x", "path": "/old/a", "expect": { "redirect": redirect } });
    assert_passes(&workspace, case(json!({ "to": "/?from=a" })));
    assert_passes(&workspace, case(json!({ "to": "/?from=a", "status": 307 })));
    let target = ["the redirect has another target", "expected `/`, found `/?from=a`"];
    assert_fails(&workspace, case(json!({ "to": "/" })), &target);
    let status = ["the redirect has another status", "expected 308, found 307"];
    assert_fails(&workspace, case(json!({ "to": "/?from=a", "status": 308 })), &status);
}

#[test]
fn a_case_does_not_see_the_visitors_of_another_case() {
    let event = json!({ "events": [{ "event": "x", "at": "-1d", "messageId": "m" }] });
    let cases = json!([
        { "name": "1", "visitor": event, "path": "/", "expect": { "variants": { "hero": "back" } } },
        { "name": "2", "path": "/", "expect": { "variants": { "hero": "default" } } },
        { "name": "3", "visitor": event, "path": "/", "expect": { "variants": { "hero": "back" } } }
    ]);
    run_cases(&workspace(), &cases, &[]).assert_exit(0, &["3 passed"]);
}

#[test]
fn the_message_id_of_an_earlier_event_makes_a_duplicate() {
    let workspace = workspace();
    let order = |id: &str| json!({ "event": "Order Placed", "at": "-1d", "messageId": id });
    for (second_id, variant) in [("b", "deal"), ("a", "default")] {
        let visitor = json!({ "events": [order("a"), order(second_id)] });
        let case = json!({ "name": "x", "visitor": visitor, "path": "/", "expect": { "variants": { "inner": variant } } });
        assert_passes(&workspace, case);
    }
}

#[test]
fn the_user_ids_of_a_site_that_verifies_them_count() {
    let workspace = workspace();
    let site = r#"{"site":"acme","trackingId":"track_acme","name":"Acme","identity":{"verify":"signed"}}"#;
    workspace.write("site/site.json", site);
    let cases = json!([
        hero("member", json!({ "userId": "ana", "traits": { "plan": "member" } })),
        hero("member", json!({ "events": [{ "userId": "ana", "traits": { "plan": "member" } }] })),
        hero(
            "member",
            json!({ "anonId": "a", "events": [
            { "userId": 7, "anonId": "b", "traits": { "plan": "member" } }, { "type": "identify", "userId": 7 }
        ] })
        ),
    ]);
    run_cases(&workspace, &cases, &[]).assert_exit(0, &["3 passed"]);
}

/// Returns the present time in milliseconds, and as the `now` of a case.
fn present() -> (u64, String) {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    let now_ms = since_epoch.as_millis() as u64;
    let mut text = Vec::new();
    time::write(&mut text, now_ms as i64);
    (now_ms, String::from_utf8(text).expect("UTF-8"))
}

#[test]
fn the_decision_is_that_of_a_server_with_the_same_events() {
    const DAY_MS: u64 = 86_400_000;
    let workspace = Workspace::new();
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/demo");
    let copy = Command::new("cp").arg("-r").arg(demo).arg(workspace.path("demo")).status();
    assert!(copy.expect("cp runs").success());
    let (now_ms, now) = present();
    let event = |days: u64, mut event: Json| {
        event["timestamp"] = json!(now_ms - days * DAY_MS);
        event
    };
    let events = json!([
        event(
            6,
            json!({ "type": "page", "properties": { "url": "https://a.example/?utm_source=sunday-letter" } })
        ),
        event(4, json!({ "type": "page", "properties": { "path": "/tents" } })),
        event(3, json!({ "event": "Product Added", "properties": { "sku": "FJ-T-201" } })),
        event(
            2,
            json!({ "type": "page", "properties": { "path": "/tents" }, "experiments": "slow-front:slow" })
        ),
        event(1, json!({ "traits": { "plan": "member", "visits": [1, 2.50] }, "userId": "ana" })),
        event(1, json!({ "type": "page", "properties": { "path": "/tents" } })),
    ]);
    let case = json!({
        "name": "x", "now": now, "path": "/", "expect": { "props": { "root": { "title": "no" } } },
        "visitor": { "anonId": "v", "events": events, "locale": "nb-NO", "country": "NO" }
    });
    workspace.write("demo/tests/a.json", &json!({ "cases": [case] }).to_string());
    let result = workspace.run(&["test", "demo", "--format", "json", "--filter", "a.json"]);
    assert_eq!(result.code, 1, "{result:?}");
    let report: Json = serde_json::from_str(&result.out).expect("JSON");
    let explained = &report["results"][0]["explanation"];

    let (_, snapshot) = parallax::testing::cli::demo::compile_demo();
    let server = Server::start(&[("demo.snapshot", &snapshot)], &["--explain"]);
    let body =
        json!({ "trackingId": "track_demo", "context": { "locale": "nb-NO" }, "batch": events }).to_string();
    assert_eq!(server.post("/v1/batch?anonId=v", &[], body.as_bytes()).status, 200);
    let target = "/v1/resolve?site=fjell&route=/&url=/&anonId=v&locale=nb-NO&country=NO&explain=1";
    let answer = server.get(target).json();
    assert_eq!(answer["selected"]["next-step"], "tent-desk");
    assert_eq!(explained["decisions"], answer["decisions"]);
    let without_now = |visitor: &Json| {
        let mut visitor = visitor.clone();
        visitor["now"] = Json::Null;
        visitor
    };
    assert_eq!(without_now(&explained["visitor"]), without_now(&answer["visitor"]));
}
