//! `explain=1`: the reasons for each selected variant, and the addresses that give them.

use parallax::testing::condition::hash;
use serde_json::{Value, json};

use super::{SharedServer, compile_site, node, page, problem, redirect, site_file, zone};
use crate::harness::{Client, Response, Server, snapshot};

fn site() -> Vec<u8> {
    let experiment = json!({ "key": "colour", "variants": ["default", "b"], "coverage": 0.5, "holdout": 0.1,
        "namespace": ["checkout", 0, 0.8], "seed": "s" });
    let rules = json!([
        { "audience": "german", "variant": "b" },
        { "when": { "country": { "$in": ["NO", "SE"] } }, "variant": "c" },
        { "experiment": experiment },
    ]);
    let hero = zone(&["b", "c"], rules);
    let nested = json!({ "default": [node("d")], "variants": { "b": [
        { "id": "x", "type": "Box", "props": {}, "zones": { "deep": zone(&["b"], json!([])) } },
    ] }, "rules": [{ "when": {}, "variant": "b" }] });
    let audiences = json!({ "german": { "when": { "locale": "de" } } }).to_string();
    let index = page("/", json!({ "hero": hero, "a-box": nested, "main": [node("m")] }));
    let old = redirect("/old", "/", 308);
    snapshot(
        &[
            ("site.json", &site_file("acme", json!({}))),
            ("audiences.json", &audiences),
            ("routes/index.json", &index),
            ("routes/old.json", &old),
        ],
        1,
    )
}

static SERVER: SharedServer = SharedServer::new(|| Server::start(&[("acme.snapshot", &site())], &[]));

fn explain(query: &str) -> Response {
    let target = format!("/v1/resolve?site=acme&route=/&explain=1{query}");
    Client::to(SERVER.get().admin).request("GET", &target, &[])
}

/// Returns the decision for the zone `hero`.
fn hero(query: &str) -> Value {
    let decisions = explain(query).json()["decisions"].clone();
    let mut decisions = decisions.as_array().expect("an array").iter();
    decisions.find(|decision| decision["zone"] == "hero").expect("the zone exists").clone()
}

#[test]
fn decisions_list_every_present_zone_in_order() {
    let zones = |query: &str| -> Vec<Value> {
        explain(query).json()["decisions"]
            .as_array()
            .expect("an array")
            .iter()
            .map(|d| d["zone"].clone())
            .collect()
    };
    assert_eq!(zones(""), ["a-box", "deep", "hero"]);
    assert_eq!(zones("&variants="), ["a-box", "hero"]);
}

#[test]
fn a_matching_audience_ends_the_list_of_rules() {
    let rule = json!({ "index": 0, "matched": true, "condition": { "locale": "de" }, "experiment": null,
        "why": { "path": "locale", "operator": "$eq", "expected": "de", "actual": "de" } });
    let expected = json!({ "zone": "hero", "key": "b", "source": "audience", "rules": [rule] });
    assert_eq!(hero("&locale=de&country=NO"), expected);
}

#[test]
fn rules_that_do_not_match_have_a_reason() {
    let decision = hero("&locale=fr&country=SE");
    assert_eq!((&decision["key"], &decision["source"]), (&json!("c"), &json!("when")));
    let first = json!({ "path": "locale", "operator": "$eq", "expected": "de", "actual": "fr" });
    let second = json!({ "path": "country", "operator": "$in", "expected": ["NO", "SE"], "actual": "SE" });
    assert_eq!(
        decision["rules"][0],
        json!({ "index": 0, "matched": false, "condition": { "locale": "de" }, "why": first,
            "experiment": null })
    );
    assert_eq!(
        decision["rules"][1],
        json!({ "index": 1, "matched": true, "condition": { "country": { "$in": ["NO", "SE"] } },
            "why": second, "experiment": null })
    );
    assert_eq!(decision["rules"].as_array().map(Vec::len), Some(2));
}

#[test]
fn an_experiment_reports_the_bucket_of_the_id() {
    let mut outcomes = std::collections::BTreeSet::new();
    for n in 0..200 {
        let id = format!("v{n}");
        let decision = hero(&format!("&anonId={id}"));
        let experiment = &decision["rules"][2]["experiment"];
        let in_namespace = hash(&["__checkout"], &id, 1).expect("version 1 hashes") < 0.8;
        let is_held_out = hash(&["holdout:s"], &id, 2).expect("version 2 hashes") < 0.1;
        let bucket = hash(&["s"], &id, 2).expect("version 2 hashes");
        let (outcome, source, key) = match (in_namespace, is_held_out, bucket) {
            (false, ..) => ("namespace", "default", "default"),
            (_, true, _) => ("holdout", "experiment", "default"),
            (.., n) if n < 0.25 => ("range", "experiment", "default"),
            (.., n) if (0.5..0.75).contains(&n) => ("range", "experiment", "b"),
            _ => ("coverage", "default", "default"),
        };
        let expected = json!({ "key": "colour", "hash": bucket, "ranges": [[0.0, 0.25], [0.5, 0.75]],
            "namespace": ["checkout", 0.0, 0.8], "seed": "s", "enrolled": false, "in": outcome });
        assert_eq!(*experiment, expected, "{id}");
        assert_eq!(decision["rules"][2]["condition"], json!(null));
        assert_eq!((&decision["source"], &decision["key"]), (&json!(source), &json!(key)), "{id}");
        assert_eq!(decision["rules"][2]["matched"], source == "experiment");
        outcomes.insert(outcome);
    }
    assert_eq!(outcomes.len(), 4);
}

#[test]
fn a_condition_is_explained_as_authored() {
    let authored =
        r#"{ "$or": [{ "country": "NO" }, { "visitor.lastSeen": { "$within": "24h" } }], "locale": "no" }"#;
    let when: Value = serde_json::from_str(authored).expect("JSON");
    let experiment = json!({ "key": "e", "variants": ["b"] });
    let rules = json!([{ "when": when, "variant": "b" }, { "experiment": experiment, "when": when }]);
    let site =
        compile_site(&site_file("acme", json!({})), &[page("/", json!({ "z": zone(&["b"], rules) }))], 1);
    let server = Server::start(&[("acme.snapshot", &site)], &[]);
    let response = server.admin_get("/v1/variants?site=acme&route=/&explain=1&anonId=v1");
    for rule in [0, 1] {
        assert_eq!(response.json()["decisions"][0]["rules"][rule]["condition"], when);
    }
    // The members have the order of the author.
    let minified = authored.replace(' ', "");
    assert_eq!(response.text().matches(&minified).count(), 2, "{}", response.text());
}

#[test]
fn without_an_id_an_experiment_does_not_match() {
    let decision = hero("");
    assert_eq!((&decision["source"], &decision["key"]), (&json!("default"), &json!("default")));
    assert_eq!(
        (&decision["rules"][2]["matched"], &decision["rules"][2]["experiment"]["in"]),
        (&json!(false), &json!("no_id"))
    );
}

#[test]
fn a_forced_variant_has_the_source_forced() {
    let decision = hero("&variants=hero:c&locale=de");
    assert_eq!(decision, json!({ "zone": "hero", "key": "c", "source": "forced", "rules": [] }));
}

#[test]
fn the_explanation_contains_the_visitor_that_the_rules_see() {
    let query = "&anonId=v1&locale=de&country=no&url=https://acme.example/shop?a=1";
    let visitor = explain(query).json()["visitor"].clone();
    assert_eq!(
        (&visitor["anonId"], &visitor["locale"], &visitor["country"]),
        (&json!("v1"), &json!("de"), &json!("NO"))
    );
    assert_eq!(visitor["device"], json!({ "type": "unknown", "os": "unknown", "browser": "unknown" }));
    for part in ["visitor", "traits", "events", "pages", "firstTouch", "lastTouch", "url", "now"] {
        assert!(visitor.get(part).is_some(), "{part}");
    }
}

#[test]
fn the_explanation_contains_a_url_that_no_rule_uses() {
    let visitor = explain("&url=https://acme.example/shop?a=1").json()["visitor"].clone();
    assert_eq!(visitor["url"], json!({ "path": "/shop", "query": { "a": "1" } }));
}

#[test]
fn an_explained_response_is_not_cacheable() {
    for query in ["", "&variants=", "&variants=hero:b", "&variants=no:such", "&route2="] {
        let response = explain(query);
        assert_eq!(response.status, 200);
        assert_eq!(response.field("cache-control"), Some("no-store"), "{query}");
        assert_eq!(response.field("etag"), None, "{query}");
        assert_eq!(response.field("cache-tag"), None, "{query}");
        assert_eq!(response.json()["type"], "layout");
    }
    let decided = SERVER.get().admin_get("/v1/variants?site=acme&route=/&explain=1");
    assert_eq!((decided.field("cache-control"), decided.field("etag")), (Some("no-store"), None));
    assert!(decided.json()["decisions"].is_array() && decided.json()["layout"].is_null());
}

#[test]
fn an_explained_redirect_is_not_cacheable() {
    for endpoint in ["resolve", "variants"] {
        for more in ["", "&variants="] {
            let target = format!("/v1/{endpoint}?site=acme&route=/old&explain=1{more}");
            let response = SERVER.get().admin_get(&target);
            assert_eq!(response.json()["to"], "/");
            assert_eq!((response.field("cache-control"), response.field("etag")), (Some("no-store"), None));
        }
    }
}

#[test]
fn the_public_address_explains_only_with_the_flag() {
    let server = SERVER.get();
    for endpoint in ["resolve", "variants"] {
        for more in ["", "&variants=", "&include=combinations"] {
            let target = format!("/v1/{endpoint}?site=acme&route=/&explain=1{more}");
            assert_eq!(problem(&server.get(&target)), (403, "explain_not_allowed".into()), "{target}");
            assert_eq!(server.get(&target.replace("explain=1", "explain=0")).status, 200);
        }
    }
    let other =
        compile_site(&site_file("acme", json!({})), &[page("/", json!({ "hero": zone(&[], json!([])) }))], 1);
    let explaining_server = Server::start(&[("acme.snapshot", &other)], &["--explain"]);
    let response = explaining_server.get("/v1/resolve?site=acme&route=/&explain=1&anonId=v1");
    assert_eq!(response.json()["decisions"][0]["source"], "default");
    assert_eq!((response.field("cache-control"), response.field("etag")), (Some("no-store"), None));
}

#[test]
fn now_is_in_the_time_zone_of_the_site() {
    let zones = [("UTC", 0), ("Asia/Kolkata", 5 * 60 + 30), ("Etc/GMT+11", -11 * 60)];
    let snapshots: Vec<(String, Vec<u8>)> = zones
        .iter()
        .enumerate()
        .map(|(i, (name, _))| {
            let site = site_file(&format!("s{i}"), json!({ "timeZone": name }));
            (
                format!("{i}.snapshot"),
                compile_site(&site, &[page("/", json!({ "z": zone(&[], json!([])) }))], 1),
            )
        })
        .collect();
    let named: Vec<(&str, &[u8])> = snapshots.iter().map(|(name, bytes)| (&**name, &**bytes)).collect();
    let server = Server::start(&named, &[]);
    let since_1970 =
        || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    for (i, (name, offset_min)) in zones.iter().enumerate() {
        let before = since_1970().as_secs() as i64;
        let answer = server.admin_get(&format!("/v1/variants?site=s{i}&route=/&explain=1"));
        let after = since_1970().as_secs() as i64;
        let now = answer.json()["visitor"]["now"].clone();
        let local = |utc_s: i64| {
            let local_s = utc_s + offset_min * 60;
            let weekday = (local_s.div_euclid(86_400) + 3).rem_euclid(7) + 1;
            (json!(local_s.rem_euclid(86_400) / 3600), json!(weekday))
        };
        let actual = (now["hour"].clone(), now["weekday"].clone());
        assert!(actual == local(before) || actual == local(after), "{name}: {now}");
        assert_eq!(now["date"].as_str().map(str::len), Some(10));
    }
}

/// A visitor with a German iPhone.
fn send_german(server: &Server) {
    let agent = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1";
    let context = json!({ "userAgent": agent, "locale": "de-DE", "country": "DE" });
    let event =
        json!({ "type": "page", "anonId": "german", "properties": { "path": "/" }, "context": context });
    let body = json!({ "batch": [event] }).to_string();
    assert_eq!(server.post("/v1/batch?site=acme", &[], body.as_bytes()).json()["accepted"], 1);
}

#[test]
fn a_visitor_is_explained_with_the_recorded_context() {
    let server = Server::start(&[("acme.snapshot", &site())], &["--explain"]);
    send_german(&server);
    let ask = |address: std::net::SocketAddr, query: &str| {
        let target = format!("/v1/variants?site=acme&route=/&explain=1&anonId=german{query}");
        // The headers are those of an operator.
        let fields = [
            ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
            ("Accept-Language", "fr"),
        ];
        let answer = Client::to(address).request("GET", &target, &fields).json();
        let hero = answer["selected"]["hero"].as_str().unwrap_or_default().to_owned();
        (answer["visitor"].clone(), hero)
    };
    let (visitor, hero) = ask(server.admin, "");
    assert_eq!(hero, "b");
    assert_eq!((&visitor["locale"], &visitor["country"]), (&json!("de"), &json!("DE")));
    assert_eq!(visitor["device"], json!({ "type": "mobile", "os": "iOS", "browser": "Safari" }));
    let recorded = &visitor["recorded"];
    assert_eq!(recorded["members"], json!(["device", "locale", "country"]));
    let profile = server.admin_get("/visitors?site=acme&anonId=german").json();
    let context = json!({ "at": recorded["at"], "device": "mobile", "os": "iOS", "browser": "Safari", "country": "DE", "language": "de" });
    assert_eq!(profile["context"], context);
    assert_eq!(profile["profile"]["visitor"]["lastSeen"].as_i64().map(|at| at > 0), Some(true));
    // A parameter changes one value.
    let (visitor, hero) = ask(server.admin, "&locale=fr&country=SE&userAgent=unknown");
    assert_eq!((&*hero, &visitor["recorded"]["members"]), ("c", &json!([])));
    assert_eq!(visitor["device"]["type"], "unknown");
    let (visitor, _) = ask(server.admin, "&country=NO");
    assert_eq!(
        (&visitor["country"], &visitor["recorded"]["members"]),
        (&json!("NO"), &json!(["device", "locale"]))
    );
    // On the public address the request is the visitor's.
    let (visitor, _) = ask(server.edge, "");
    assert_eq!((&visitor["locale"], &visitor["device"]["type"]), (&json!("fr"), &json!("desktop")));
    assert!(visitor.get("recorded").is_none());
}

#[test]
fn an_event_of_a_server_changes_no_recorded_context() {
    let server = Server::start(&[("acme.snapshot", &site())], &[]);
    send_german(&server);
    let context = json!({ "locale": "sv", "country": "SE" });
    let events = [
        json!({ "type": "identify", "anonId": "german", "userId": "ana", "context": context }),
        json!({ "type": "track", "event": "Paid", "userId": "ana", "context": context }),
        json!({ "type": "page", "anonId": "german", "properties": { "path": "/" }, "timestamp": "2026-01-05T10:00:00Z", "context": context }),
    ];
    let body = json!({ "batch": events }).to_string();
    assert_eq!(server.post("/v1/batch?site=acme", &[], body.as_bytes()).json()["accepted"], 3);
    let country = |id: &str| {
        server.admin_get(&format!("/visitors?site=acme&{id}")).json()["context"]["country"].clone()
    };
    assert_eq!((country("userId=ana"), country("anonId=german")), (json!("DE"), json!("DE")));
    let later = json!({ "type": "track", "event": "Seen", "anonId": "german", "context": context });
    let body = json!({ "batch": [later] }).to_string();
    assert_eq!(server.post("/v1/batch?site=acme", &[], body.as_bytes()).json()["accepted"], 1);
    assert_eq!(country("userId=ana"), "SE");
}
