//! The holdout of a site over the wire: its visitors see no experiment, and both groups are counted.

use parallax::testing::condition::{bucket_ranges, choose_variation, hash};
use parallax::testing::limits::{EXPERIMENTS_BYTES_MAX, PAIRS_MAX};
use serde_json::{Value, json};

use crate::harness::{Server, eventually, snapshot};

const SHARE: f64 = 0.3;
const SEED: &str = "2026-q1";
const BROWSER: (&str, &str) = ("User-Agent", "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X)");
const CRAWLER: (&str, &str) = ("User-Agent", "Googlebot/2.1 (+http://www.google.com/bot.html)");

const TOKEN: (&str, &str) = ("Authorization", "Bearer open");

/// Compiles site `acme` with this holdout. Page `/` has a zone with an experiment before a rule, and one with a rule alone.
/// Page `/rules` has only a rule, and page `/plain` has no rule.
fn compile(version: u64, holdout: &Value, experiment: &Value) -> Vec<u8> {
    let rule = json!({ "when": {}, "variant": "c" });
    let zone = |rules: &[&Value]| json!({ "default": [], "variants": { "b": [], "c": [] }, "rules": rules });
    let page = |path: &str, zones: Value| {
        json!({ "path": path, "layout": { "root": { "props": {} }, "zones": zones } }).to_string()
    };
    let tested = json!({ "experiment": experiment });
    let home = page("/", json!({ "tested": zone(&[&tested, &rule]), "ruled": zone(&[&rule]) }));
    let [rules, plain] = [("/rules", json!({ "ruled": zone(&[&rule]) })), ("/plain", json!({ "all": [] }))]
        .map(|(path, zones)| page(path, zones));
    let mut site = json!({ "site": "acme", "trackingId": "track_acme", "name": "Acme" });
    if !holdout.is_null() {
        site["holdout"] = holdout.clone();
    }
    let site = site.to_string();
    let files = [
        ("site.json", site.as_str()),
        ("routes/index.json", &home),
        ("routes/rules.json", &rules),
        ("routes/plain.json", &plain),
    ];
    snapshot(&files, version)
}

fn experiment(more: Value) -> Value {
    let mut experiment = json!({ "key": "e", "variants": ["b", "c"], "goal": "Order Placed" });
    experiment.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    experiment
}

fn start(holdout: &Value, experiment: &Value) -> Server {
    Server::start(&[("acme.snapshot", &compile(1, holdout, experiment))], &["--admin-token", "open"])
}

fn is_held_out(id: &str) -> bool {
    hash(&["site-holdout:", SEED], id, 2).expect("version 2 hashes") < SHARE
}

fn arm(id: &str) -> &'static str {
    let bucket = hash(&["e"], id, 2).expect("version 2 hashes");
    ["b", "c"][choose_variation(bucket, bucket_ranges(2, 1.0, None)).expect("all are covered")]
}

/// Returns the variants of the page, and `experiments`.
fn shown(server: &Server, target: &str, agent: (&str, &str)) -> (Value, Value) {
    let page = server.get_with(&format!("/v1/resolve?site=acme&{target}"), &[agent]).json();
    (page["variants"].clone(), page["experiments"].clone())
}

fn record(server: &Server, event: &Value) -> u16 {
    let fields = [("Content-Type", "application/json"), BROWSER];
    server.post("/v1/page?site=acme", &fields, event.to_string().as_bytes()).status
}

fn result(server: &Server, query: &str) -> Value {
    let token = [("Authorization", "Bearer open")];
    let target = format!("/insights/holdout?site=acme{query}");
    crate::harness::Client::to(server.admin).request("GET", &target, &token).json()
}

#[test]
fn a_held_out_visitor_sees_default_in_place_of_experiments_and_both_groups_are_named() {
    let holdout = json!({ "share": SHARE, "seed": SEED });
    let server = start(&holdout, &experiment(json!({})));
    let ids: Vec<String> = (0..60).map(|number| format!("v{number}")).collect();
    assert!(ids.iter().any(|id| is_held_out(id)) && ids.iter().any(|id| !is_held_out(id)));
    for id in &ids {
        let expected = match is_held_out(id) {
            // The rule after the experiment is not tried. A zone without experiments keeps its rules.
            true => ("ruled:c".to_owned(), "~:~".to_owned()),
            false => (format!("ruled:c,tested:{}", arm(id)), format!("~:on,e:{}", arm(id))),
        };
        let (variants, experiments) = shown(&server, &format!("route=/&anonId={id}"), BROWSER);
        assert_eq!((variants, experiments), (json!(expected.0), json!(expected.1)), "{id}");
        let header = server.get_with(&format!("/v1/resolve?site=acme&route=/&anonId={id}"), &[BROWSER]);
        assert_eq!(header.field("x-experiments"), Some(expected.1.as_str()));
    }
    let held_out = ids.iter().find(|id| is_held_out(id)).expect("one is held out");
    // No zone of these pages has an experiment, and a visitor without an ID is in no group.
    for target in [format!("route=/rules&anonId={held_out}"), "route=/&locale=de".to_owned()] {
        assert_eq!(shown(&server, &target, BROWSER).1, "", "{target}");
    }
    assert_eq!(shown(&server, &format!("route=/plain&anonId={held_out}"), BROWSER).1, "");
    assert_eq!(shown(&server, &format!("route=/&anonId={held_out}"), CRAWLER).1, "");
}

#[test]
fn with_rules_a_held_out_visitor_sees_default_in_each_zone_with_rules() {
    let holdout = json!({ "share": SHARE, "seed": SEED, "rules": true });
    let server = start(&holdout, &experiment(json!({})));
    for id in (0..40).map(|number| format!("v{number}")) {
        let (group, variants) = if is_held_out(&id) { ("~:~", "") } else { ("~:on", "ruled:c") };
        let page = shown(&server, &format!("route=/rules&anonId={id}"), BROWSER);
        assert_eq!(page, (json!(variants), json!(group)), "{id}");
        if is_held_out(&id) {
            assert_eq!(shown(&server, &format!("route=/&anonId={id}"), BROWSER), (json!(""), json!("~:~")));
        }
    }
}

#[test]
fn a_winner_is_shown_to_everyone_but_the_holdout() {
    let holdout = json!({ "share": SHARE, "seed": SEED });
    let times = json!({ "from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00Z" });
    let mut decided = experiment(times.clone());
    decided["winner"] = json!("b");
    let server = start(&holdout, &decided);
    for id in (0..30).map(|number| format!("v{number}")) {
        let (variants, experiments) = shown(&server, &format!("route=/&anonId={id}"), BROWSER);
        let expected = if is_held_out(&id) { ("ruled:c", "~:~") } else { ("ruled:c,tested:b", "~:on") };
        assert_eq!((variants, experiments), (json!(expected.0), json!(expected.1)), "{id}");
    }
    assert_eq!(shown(&server, "route=/&locale=de", BROWSER), (json!("ruled:c,tested:b"), json!("")));
    let target = "/insights/experiment?site=acme&key=e";
    let answer = crate::harness::Client::to(server.admin).request("GET", target, &[TOKEN]).json();
    assert_eq!(
        answer["decision"]["sentence"],
        "Decided: everyone gets b from 2026-02-01T00:00:00.000Z on, except the visitors in the holdout of the site."
    );
    // Without a winner the rule is skipped in both groups.
    let server = start(&holdout, &experiment(times));
    for id in (0..30).map(|number| format!("v{number}")) {
        assert_eq!(shown(&server, &format!("route=/&anonId={id}"), BROWSER).0, "ruled:c,tested:c", "{id}");
    }
}

#[test]
fn an_explanation_names_the_holdout_of_the_site() {
    let explained = |rules: bool, id: &str| {
        let server = start(&json!({ "share": SHARE, "seed": SEED, "rules": rules }), &experiment(json!({})));
        let token = [("Authorization", "Bearer open"), BROWSER];
        let target = format!("/v1/resolve?site=acme&route=/&explain=1&anonId={id}");
        let answer = crate::harness::Client::to(server.admin).request("GET", &target, &token).json();
        answer["decisions"].as_array().expect("decisions").clone()
    };
    let id = (0..).map(|number| format!("v{number}")).find(|id| is_held_out(id)).expect("one");
    let zones = explained(false, &id);
    let tested = zones.iter().find(|zone| zone["zone"] == "tested").expect("the zone");
    assert_eq!([&tested["key"], &tested["source"]], [&json!("default"), &json!("experiment")]);
    assert_eq!(tested["rules"][0]["experiment"]["in"], "site_holdout");
    for zone in explained(true, &id) {
        assert_eq!([&zone["key"], &zone["source"]], [&json!("default"), &json!("site_holdout")], "{zone}");
    }
}

#[test]
fn an_event_may_begin_its_experiments_with_one_pair_of_the_holdout() {
    let server = start(&json!({ "share": SHARE }), &experiment(json!({})));
    let pairs = |count: usize| (0..count).map(|n| format!("k{n}:b")).collect::<Vec<_>>().join(",");
    let sent = |experiments: &str| {
        let event = json!({ "anonId": "v", "properties": { "path": "/" }, "experiments": experiments });
        record(&server, &event)
    };
    for accepted in ["~:~", "~:on", "~:on,e:b", "~:~,e:~", &format!("~:on,{}", pairs(PAIRS_MAX))] {
        assert_eq!(sent(accepted), 200, "{accepted}");
    }
    for refused in [
        "~",
        "~:",
        "~:x",
        "~:on,",
        "~:on,~:on",
        "e:b,~:on",
        "~:~e:b",
        &format!("~:on,{}", pairs(PAIRS_MAX + 1)),
        &pairs(PAIRS_MAX + 1),
    ] {
        assert_eq!(sent(refused), 400, "{refused}");
    }
}

#[test]
fn the_result_compares_the_holdout_with_all_others_and_a_new_share_begins_a_phase() {
    let holdout = |share: f64| json!({ "share": share, "seed": SEED });
    let server = start(&holdout(SHARE), &experiment(json!({ "value": "properties.revenue" })));
    let ids: Vec<String> = (0..400).map(|number| format!("v{number}")).collect();
    for (number, id) in ids.iter().enumerate() {
        let (_, experiments) = shown(&server, &format!("route=/&anonId={id}"), BROWSER);
        let event = json!({ "anonId": id, "properties": { "path": "/" }, "experiments": experiments });
        assert_eq!(record(&server, &event), 200);
        if number % 3 == 0 {
            let order = json!({ "type": "track", "event": "Order Placed", "anonymousId": id, "properties": { "revenue": 10 } });
            let body = json!({ "trackingId": "track_acme", "batch": [order] }).to_string();
            let fields = [("Content-Type", "application/json"), BROWSER];
            assert_eq!(server.post("/v1/batch", &fields, body.as_bytes()).status, 200);
        }
    }
    let answer = result(&server, "");
    let held_out = ids.iter().filter(|id| is_held_out(id)).count();
    let arms = json!([
        { "key": "~", "weight": SHARE, "exposed": held_out },
        { "key": "on", "weight": 1.0 - SHARE, "exposed": ids.len() - held_out },
    ]);
    assert_eq!(answer["arms"], arms, "{answer}");
    assert_eq!(
        [&answer["key"], &answer["decision"], &answer["alarms"]],
        [&json!("~"), &Value::Null, &json!([])]
    );
    let metrics = answer["metrics"].as_array().expect("metrics");
    let named: Vec<&Value> = metrics.iter().flat_map(|metric| [&metric["goal"], &metric["value"]]).collect();
    assert_eq!(
        named,
        [&json!("Order Placed"), &Value::Null, &json!("Order Placed"), &json!("properties.revenue")]
    );
    let ordered = ids.iter().step_by(3).filter(|id| is_held_out(id)).count();
    assert_eq!(metrics[0]["arms"][0]["converted"], ordered);
    assert_eq!(metrics[0]["against"][0]["key"], "on");
    assert!(metrics[0]["against"][0]["low"].is_number(), "{}", metrics[0]);
    // The list of experiments does not have it, and its key is that of no experiment.
    let token = [("Authorization", "Bearer open")];
    let admin = |target: &str| crate::harness::Client::to(server.admin).request("GET", target, &token);
    let list = admin("/insights/experiments?site=acme").json();
    let keys: Vec<&Value> =
        list["experiments"].as_array().expect("a list").iter().map(|one| &one["key"]).collect();
    assert_eq!((keys, &list["siteHoldout"]), (vec![&json!("e")], &json!(true)));
    assert_eq!(admin("/insights/experiment?site=acme&key=~").status, 400);

    server.publish("acme.snapshot", &compile(2, &holdout(0.5), &experiment(json!({}))));
    let phases = eventually("the new phase", || {
        let answer = result(&server, "");
        (answer["phases"].as_array().map(Vec::len) == Some(2)).then_some(answer)
    });
    assert_eq!(phases["phases"][1]["arms"][0], json!({ "key": "~", "weight": 0.5 }));
}

#[test]
fn a_site_without_a_holdout_has_no_result_of_it() {
    let server = start(&Value::Null, &experiment(json!({})));
    let answer = result(&server, "");
    assert_eq!([&answer["code"], &answer["param"]], [&json!("invalid_param"), &json!("site")], "{answer}");
    let token = [("Authorization", "Bearer open")];
    let target = "/insights/experiments?site=acme";
    let list = crate::harness::Client::to(server.admin).request("GET", target, &token).json();
    assert_eq!(list["siteHoldout"], false);
    assert_eq!(shown(&server, "route=/&anonId=v1", BROWSER).1, format!("e:{}", arm("v1")));
}

#[test]
fn the_pair_of_the_holdout_comes_before_the_longest_text_of_experiments() {
    // 64 pairs with `default`, and their commas.
    let keys: Vec<String> =
        (0..64).map(|n| if n == 0 { "e".repeat(24) } else { format!("f{n:022}") }).collect();
    let zone = |key: &str| json!({ "default": [], "variants": {}, "rules": [{ "experiment": { "key": key, "variants": ["default"] } }] });
    let zones: serde_json::Map<String, Value> =
        keys.iter().enumerate().map(|(n, key)| (format!("z{n:02}"), zone(key))).collect();
    let page = json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": zones } }).to_string();
    let site = r#"{"site":"acme","trackingId":"track_acme","name":"Acme","holdout":{"share":0}}"#;
    let files = [("site.json", site), ("routes/index.json", page.as_str())];
    let server = Server::start(&[("acme.snapshot", &snapshot(&files, 1))], &[]);
    let (_, experiments) = shown(&server, "route=/&anonId=v1", BROWSER);
    let text = experiments.as_str().expect("a text");
    assert_eq!(text.len(), "~:on,".len() + EXPERIMENTS_BYTES_MAX);
    assert!(text.starts_with("~:on,eeee"), "{text}");
    assert_eq!(
        record(&server, &json!({ "anonId": "v1", "properties": { "path": "/" }, "experiments": text })),
        200
    );
}
