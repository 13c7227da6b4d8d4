//! Visitor profiles: an acknowledged event affects the next resolve.
//!
//! The tests also read, export and erase visitors on the admin address.

use std::path::Path;
use std::thread;

use parallax::testing::site::compile::compile;
use parallax::testing::site::source::files::Files;
use parallax::testing::site::source::read::read;
use serde_json::{Value, json};

use super::{page, resolve_target, start_server, zone};
use crate::harness::{Client, Response, Server, example_site, times};

/// Starts a server with a page whose zone `hero` has these rules.
fn start_with_hero_rules(rules: Value) -> Server {
    let variants = ["pinged", "twice", "pro", "known"];
    start_server(&[page("/", json!({ "hero": zone(&variants, rules) }))])
}

/// Posts an event and asserts that it was accepted.
fn post_accepted(client: &mut Client, endpoint: &str, event: &Value) -> Response {
    let response = client.post(&format!("/v1/{endpoint}?site=acme"), &[], event.to_string().as_bytes());
    assert_eq!((response.status, &response.json()["accepted"]), (200, &json!(1)), "{}", response.text());
    response
}

fn hero_variant(client: &mut Client, anon_id: &str) -> String {
    let response = client.request("GET", &resolve_target("/", &format!("&anonId={anon_id}")), &[]);
    response.json()["selected"]["hero"].as_str().unwrap_or_else(|| panic!("{}", response.text())).to_owned()
}

#[test]
fn an_acknowledged_event_affects_the_next_resolve_on_another_connection() {
    let server = start_with_hero_rules(json!([
        { "when": { "traits.plan": "pro" }, "variant": "pro" },
        { "when": { "events.ping": { "$count": { "$gte": 2, "within": "1h" } } }, "variant": "twice" },
        { "when": { "events.ping.count": 1 }, "variant": "pinged" },
    ]));
    const VISITORS: usize = 1_000;
    let threads = times(20, 100);
    thread::scope(|scope| {
        for first in 0..threads {
            let server = &server;
            scope.spawn(move || {
                let (mut events, mut pages) = (Client::to(server.edge), Client::to(server.edge));
                for visitor in (first..VISITORS).step_by(threads) {
                    let id = format!("visitor-{visitor}");
                    assert_eq!(hero_variant(&mut pages, &id), "default");
                    let ping = json!({ "anonId": id, "event": "ping" });
                    post_accepted(&mut events, "track", &ping);
                    assert_eq!(hero_variant(&mut pages, &id), "pinged", "{id}");
                    post_accepted(&mut events, "track", &ping);
                    assert_eq!(hero_variant(&mut pages, &id), "twice", "{id}");
                    let plan = json!({ "anonId": id, "userId": format!("user-{visitor}"), "traits": { "plan": "pro" } });
                    post_accepted(&mut events, "track", &plan);
                    assert_eq!(hero_variant(&mut pages, &id), "pro", "{id}");
                }
            });
        }
    });
}

/// Each condition is true for a visitor with this history, and false for a new visitor.
#[test]
fn every_path_of_the_profile_document_reflects_the_log() {
    let conditions = [
        json!({ "visitor.isReturning": true }),
        json!({ "visitor.isNew": false }),
        json!({ "visitor.visits": 2 }),
        json!({ "visitor.pageViews": 3 }),
        json!({ "visitor.events": 1 }),
        json!({ "visitor.firstSeen": { "$gt": "2026-01-01T00:00:00Z", "$lt": "2026-01-03T00:00:00Z" } }),
        json!({ "visitor.firstSeen": { "$exists": true } }),
        json!({ "visitor.lastSeen": { "$within": "1h" } }),
        json!({ "visitor.userId": "u1" }),
        json!({ "traits.plan": "pro" }),
        json!({ "traits.company.size": { "$gt": 10 } }),
        json!({ "traits.tags": { "$all": ["a", "b"] } }),
        json!({ "events.Signed Up.count": 1 }),
        json!({ "events.Signed Up.first": { "$exists": true } }),
        json!({ "events.Signed Up.last": { "$within": "1h" } }),
        json!({ "events.Signed Up": { "$count": { "$gte": 1, "within": "1d" } } }),
        json!({ "pages./docs/a.count": 1 }),
        json!({ "pages./docs/*.count": 2 }),
        json!({ "pages./docs/*": { "$count": { "$gte": 1, "within": "1h" } } }),
        json!({ "pages./docs/*.first": { "$gt": "2026-01-01T00:00:00Z", "$lt": "2026-01-03T00:00:00Z" } }),
        json!({ "pages./docs/a.last": { "$gt": "2026-01-01T00:00:00Z", "$lt": "2026-01-03T00:00:00Z" } }),
        json!({ "firstTouch.source": "letter" }),
        json!({ "firstTouch.landing": "/docs/a" }),
        json!({ "lastTouch.referrer": { "$regex": "search\\.example" } }),
    ];
    let routes: Vec<String> = conditions
        .iter()
        .enumerate()
        .map(|(i, condition)| {
            let rules = json!([{ "when": condition, "variant": "known" }]);
            page(&format!("/{i}"), json!({ "hero": zone(&["known"], rules) }))
        })
        .collect();
    let server = start_server(&routes);
    let mut client = Client::to(server.edge);
    let old = "2026-01-02T10:00:00Z";
    for (endpoint, event) in [
        (
            "page",
            json!({ "anonId": "v", "timestamp": old,
            "properties": { "url": "https://acme.example/docs/a?utm_source=letter" } }),
        ),
        (
            "page",
            json!({ "anonId": "v", "properties": { "path": "/docs/b" },
            "context": { "page": { "url": "https://acme.example/docs/b", "referrer": "https://search.example/?q=x" } } }),
        ),
        ("page", json!({ "anonId": "v", "properties": { "path": "/elsewhere" } })),
        ("track", json!({ "anonId": "v", "event": "Signed Up" })),
        (
            "track",
            json!({ "anonId": "v", "userId": "u1", "traits": { "plan": "free", "company": { "size": 12 } } }),
        ),
        ("track", json!({ "anonId": "v", "set": { "plan": "pro" }, "union": { "tags": ["a", "b"] } })),
    ] {
        post_accepted(&mut client, endpoint, &event);
    }
    for (i, condition) in conditions.iter().enumerate() {
        for (id, expected) in [("v", "known"), ("stranger", "default")] {
            let response =
                client.request("GET", &resolve_target(&format!("/{i}"), &format!("&anonId={id}")), &[]);
            assert_eq!(response.json()["selected"]["hero"], expected, "{condition} for {id}");
            assert!(response.field("cache-control").is_some_and(|value| value.starts_with("private")));
        }
    }
}

#[test]
fn the_id_comes_from_parameter_then_header_then_cookie() {
    let server = start_with_hero_rules(json!([{ "when": { "events.ping.count": 1 }, "variant": "pinged" }]));
    let mut client = Client::to(server.edge);
    post_accepted(&mut client, "track", &json!({ "anonId": "v1", "event": "ping" }));
    let mut is_pinged = |more: &str, fields: &[(&str, &str)]| {
        client.request("GET", &resolve_target("/", more), fields).json()["selected"]["hero"] == "pinged"
    };
    let (known, other) = (("X-Anon-Id", "v1"), ("X-Anon-Id", "v2"));
    assert!(is_pinged("&anonId=v1", &[other, ("Cookie", "anon_id=v2")]));
    assert!(!is_pinged("&anonId=v2", &[known, ("Cookie", "anon_id=v1")]));
    assert!(is_pinged("", &[known, ("Cookie", "anon_id=v2")]));
    assert!(!is_pinged("", &[other, ("Cookie", "anon_id=v1")]));
    assert!(is_pinged("", &[("Cookie", "anon_id=v1")]));
    assert!(!is_pinged("", &[]));
    let crawler = "&anonId=v1&userAgent=Googlebot/2.1%20(%2Bhttp://www.google.com/bot.html)";
    assert!(!is_pinged(crawler, &[]), "a crawler gets the default variant");
}

#[test]
fn variants_decides_like_resolve_and_forcing_ignores_the_visitor() {
    let server = start_with_hero_rules(json!([{ "when": { "traits.plan": "pro" }, "variant": "pro" }]));
    let mut client = Client::to(server.edge);
    post_accepted(
        &mut client,
        "track",
        &json!({ "anonId": "v1", "traits": { "plan": "pro" }, "type": "identify" }),
    );
    let variants = client.request("GET", "/v1/variants?site=acme&route=/&anonId=v1", &[]);
    assert_eq!(variants.json()["variants"], "hero:pro");
    assert_eq!(hero_variant(&mut client, "v1"), "pro");
    let forced = client.request("GET", &resolve_target("/", "&anonId=v1&variants="), &[]);
    assert_eq!(forced.json()["selected"]["hero"], "default");
    assert!(forced.field("cache-control").is_some_and(|value| value.starts_with("public")));
}

#[test]
fn visitors_belong_to_one_site() {
    let rules = json!([{ "when": { "events.ping.count": { "$gte": 1 } }, "variant": "pinged" }]);
    let routes = [page("/", json!({ "hero": zone(&["pinged"], rules) }))];
    let site = |id: &str| super::compile_site(&super::site_file(id, json!({})), &routes, 1);
    let server = Server::start(&[("a.snapshot", &site("acme")), ("b.snapshot", &site("other"))], &[]);
    let mut client = Client::to(server.edge);
    post_accepted(&mut client, "track", &json!({ "anonId": "v1", "event": "ping" }));
    assert_eq!(hero_variant(&mut client, "v1"), "pinged");
    let other = client.request("GET", "/v1/resolve?site=other&route=/&anonId=v1", &[]);
    assert_eq!(other.json()["selected"]["hero"], "default");
}

/// Returns the explanation from the admin address.
fn explain(server: &Server, anon_id: &str, route: &str) -> Value {
    server.admin_get(&format!("/v1/resolve?site=acme&route={route}&anonId={anon_id}&explain=1")).json()
}

#[test]
fn the_example_site_reacts_to_events_and_explain_gives_the_reasons() {
    let Some(directory) = example_site() else { return };
    let files = Files::from_directory(&directory).expect("the example");
    let (source, diagnostics) = read(&files, &|_, _| {});
    let compiled = compile(&source, diagnostics, 1, &|_, _| {});
    let bytes = compiled.unwrap_or_else(|diagnostics| panic!("{}", diagnostics.report(&files))).bytes;
    let server = Server::start(&[("acme.snapshot", &bytes)], &[]);
    let mut client = Client::to(server.edge);
    let decision = |document: &Value, zone: &str| {
        let decisions = document["decisions"].as_array().expect("decisions");
        decisions.iter().find(|decision| decision["zone"] == zone).expect("the zone exists").clone()
    };

    assert_eq!(hero_variant(&mut client, "v1"), "default");
    let why = decision(&explain(&server, "v1", "/"), "hero");
    assert_eq!(
        (&why["source"], &why["rules"][1]["why"]["actual"]),
        (&json!("default"), &json!(false)),
        "{why}"
    );

    let two_days_ago = parallax::testing::clock::now_ms() - 2 * 24 * 60 * 60 * 1000;
    let viewed = json!({ "anonId": "v1", "timestamp": two_days_ago, "properties": { "path": "/" } });
    post_accepted(&mut client, "page", &viewed);
    assert_eq!(hero_variant(&mut client, "v1"), "returning");
    let document = explain(&server, "v1", "/");
    let why = decision(&document, "hero");
    assert_eq!((&why["source"], &why["key"]), (&json!("audience"), &json!("returning")));
    let reason =
        json!({ "path": "visitor.isReturning", "operator": "$eq", "expected": true, "actual": true });
    assert_eq!((&why["rules"][1]["matched"], &why["rules"][1]["why"]), (&json!(true), &reason), "{why}");
    assert_eq!(document["visitor"]["visitor"]["lastSeen"], two_days_ago);

    post_accepted(
        &mut client,
        "track",
        &json!({ "anonId": "v1", "userId": "u1", "traits": { "plan": "pro" } }),
    );
    assert_eq!(hero_variant(&mut client, "v1"), "pro");
    let document = explain(&server, "v1", "/");
    let why = decision(&document, "hero");
    assert_eq!(
        (&why["rules"][0]["why"]["path"], &why["rules"][0]["why"]["actual"]),
        (&json!("traits.plan"), &json!("pro"))
    );
    assert_eq!(
        (&document["visitor"]["visitor"]["userId"], &document["visitor"]["traits"]),
        (&json!("u1"), &json!({ "plan": "pro" }))
    );

    for views in 0..3 {
        let pricing = client.request("GET", "/v1/resolve?site=acme&route=/pricing&anonId=v2", &[]);
        assert_ne!(pricing.json()["variants"], "cta:call", "after {views}");
        post_accepted(&mut client, "page", &json!({ "anonId": "v2", "properties": { "path": "/pricing" } }));
    }
    let pricing = client.request("GET", "/v1/resolve?site=acme&route=/pricing&anonId=v2", &[]);
    assert_eq!(pricing.json()["selected"]["cta"], "call", "{}", pricing.text());
    let document = explain(&server, "v2", "/pricing");
    let why = decision(&document, "cta");
    assert_eq!((&why["key"], &why["rules"][0]["matched"]), (&json!("call"), &json!(true)), "{why}");
    assert_eq!(document["visitor"]["pages"]["/pricing"]["count"], 3);
}

#[test]
fn a_visitor_can_be_read_by_any_of_its_ids() {
    let server = start_with_hero_rules(json!([]));
    let mut client = Client::to(server.edge);
    for anon_id in ["phone", "desk"] {
        post_accepted(&mut client, "page", &json!({ "anonId": anon_id, "properties": { "path": "/a" } }));
        let identify =
            json!({ "anonId": anon_id, "userId": "u 1", "type": "identify", "traits": { "plan": "pro" } });
        post_accepted(&mut client, "track", &identify);
    }
    let last =
        post_accepted(&mut client, "track", &json!({ "anonId": "stranger", "event": "e" })).json()["seq"]
            .clone();
    let read = |id: &str| server.admin_get(&format!("/visitors?site=acme&{id}"));
    let by_user = read("userId=u%201").json();
    assert_eq!(
        (&by_user["aliases"], &by_user["known"]),
        (&json!(["phone", "desk"]), &json!(true)),
        "{by_user}"
    );
    assert_eq!(by_user["profile"]["visitor"]["userId"], "u 1");
    assert_eq!((&by_user["profile"]["pages"]["/a"]["count"], &by_user["seq"]), (&json!(2), &last));
    for id in ["anonId=phone", "anonId=desk"] {
        assert_eq!(read(id).json()["profile"], by_user["profile"], "{id}");
    }
    let stranger = read("anonId=nobody").json();
    assert_eq!((&stranger["known"], &stranger["profile"]["visitor"]["isNew"]), (&json!(false), &json!(true)));
    for (query, code) in [
        ("site=acme", "missing_visitor"),
        ("site=acme&anonId=a&userId=b", "missing_visitor"),
        ("anonId=a", "missing_site"),
    ] {
        let refused = server.admin_get(&format!("/visitors?{query}"));
        assert_eq!((refused.status, &*refused.code()), (400, code), "{query}");
    }
}

/// Sends a request with the token to the admin address.
fn admin_request(server: &Server, method: &str, target: &str) -> Response {
    Client::to(server.admin).request(method, target, &[("Authorization", "Bearer open")])
}

fn export_records(server: &Server, target: &str) -> Vec<Value> {
    let (mut records, mut since) = (Vec::new(), String::new());
    loop {
        let response = admin_request(server, "GET", &format!("/visitors/export?{target}{since}"));
        assert_eq!((response.status, response.field("content-type")), (200, Some("application/x-ndjson")));
        records.extend(response.text().lines().map(|line| serde_json::from_str(line).expect("a record")));
        match response.field("x-next-since") {
            Some(seq) => since = format!("&since={seq}"),
            None => return records,
        }
    }
}

/// Returns the names of the files in the data directory, and of the audit log, that contain `text`.
fn files_containing(server: &Server, text: &str) -> Vec<String> {
    let directories = [server.data().to_owned(), server.data().join("audit")];
    let files = directories.iter().flat_map(|dir| std::fs::read_dir(dir).expect("a directory").flatten());
    let files = files.filter(|file| file.path().is_file());
    let holds = |path: &Path| {
        let bytes = std::fs::read(path).expect("a file");
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    let holding = files.filter(|file| holds(&file.path()));
    holding.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn an_erasure_removes_a_visitor_from_checkpoints() {
    let flags = ["--admin-token", "open"];
    let mut server =
        Server::start(&[("demo.snapshot", &parallax::testing::cli::demo::compile_demo().1)], &flags);
    for round in 0..2 {
        let mut client = Client::to(server.edge);
        for anon_id in ["phone-of-ana", "stranger"] {
            let body =
                json!({ "anonId": anon_id, "properties": { "path": format!("/{round}") } }).to_string();
            assert_eq!(client.post("/v1/page?site=fjell", &[], body.as_bytes()).status, 200);
        }
        // The server writes a checkpoint when it stops.
        server.signal("TERM");
        assert_eq!(server.exit_code(), 0);
        server = server.restart(&flags);
    }
    let checkpoints = |server: &Server| {
        let holding = files_containing(server, "of-ana");
        holding.iter().filter(|name| name.ends_with(".checkpoint")).count()
    };
    assert_eq!(checkpoints(&server), 2);
    let erased = admin_request(&server, "DELETE", "/visitors?site=fjell&anonId=phone-of-ana").json();
    assert_eq!(erased["erased"]["records"], 2, "{erased}");
    assert_eq!(files_containing(&server, "of-ana"), Vec::<String>::new());
    for _ in 0..2 {
        let known = |id: &str| {
            admin_request(&server, "GET", &format!("/visitors?site=fjell&anonId={id}")).json()["known"]
                .clone()
        };
        assert_eq!((known("phone-of-ana"), known("stranger")), (json!(false), json!(true)));
        server = server.restart(&flags);
    }
}

#[test]
fn a_405_of_the_admin_address_names_the_methods() {
    let flags = ["--admin-token", "open"];
    let server = Server::start(&[("acme.snapshot", &super::acme_snapshot(&[page("/", json!({}))]))], &flags);
    for (method, path, allow) in [
        ("POST", "/visitors", "GET, HEAD, DELETE"),
        ("DELETE", "/visitors/export", "GET, HEAD"),
        ("POST", "/healthz", "GET, HEAD"),
        ("PUT", "/readyz", "GET, HEAD"),
        ("DELETE", "/metrics", "GET, HEAD"),
    ] {
        let refused = admin_request(&server, method, path);
        assert_eq!((refused.status, refused.field("allow")), (405, Some(allow)), "{path}");
    }
}

#[test]
fn an_erased_visitor_is_found_nowhere_and_starts_as_new() {
    let rules = json!([{ "when": { "visitor.pageViews": { "$gte": 1 } }, "variant": "known" }]);
    let routes = [page("/", json!({ "hero": zone(&["known"], rules) }))];
    let snapshot = super::acme_snapshot(&routes);
    let server = Server::start(
        &[("acme.snapshot", &snapshot)],
        &["--admin-token", "open", "--segment-bytes", "65536"],
    );
    let mut client = Client::to(server.edge);
    let note = "x".repeat(1_000);
    for round in 0..100 {
        for anon_id in ["phone-of-ana", "desk-of-ana", "stranger"] {
            let page_view = json!({ "anonId": anon_id, "properties": { "path": "/a", "note": format!("{anon_id} {round} {note}") } });
            post_accepted(&mut client, "page", &page_view);
        }
    }
    for anon_id in ["phone-of-ana", "desk-of-ana"] {
        post_accepted(
            &mut client,
            "track",
            &json!({ "anonId": anon_id, "userId": "ana", "traits": { "plan": "pro" } }),
        );
    }
    let last = post_accepted(
        &mut client,
        "track",
        &json!({ "userId": "ana", "event": "e", "messageId": "of-ana-too" }),
    );
    crate::logged::records_up_to(server.data(), &last);
    assert_eq!(export_records(&server, "site=acme&userId=ana").len(), 203);
    assert_eq!(
        export_records(&server, "site=acme&anonId=phone-of-ana").len(),
        203,
        "the export contains all linked IDs"
    );
    assert_eq!(export_records(&server, "site=acme&anonId=stranger").len(), 100);

    let refused = Client::to(server.admin).request("DELETE", "/visitors?site=acme&userId=ana", &[]);
    assert_eq!((refused.status, &*refused.code()), (401, "unauthorized"));
    let erased = admin_request(&server, "DELETE", "/visitors?site=acme&anonId=desk-of-ana").json();
    assert_eq!(erased["erased"]["records"], 203, "{erased}");
    assert!(erased["erased"]["segments"].as_u64().is_some_and(|segments| segments > 3), "{erased}");
    assert_eq!(files_containing(&server, "of-ana"), Vec::<String>::new());
    for id in ["anonId=phone-of-ana", "anonId=desk-of-ana", "userId=ana"] {
        let visitor = admin_request(&server, "GET", &format!("/visitors?site=acme&{id}")).json();
        assert_eq!((&visitor["known"], &visitor["aliases"]), (&json!(false), &json!([])), "{id}");
    }
    assert_eq!(export_records(&server, "site=acme&userId=ana"), Vec::<Value>::new());
    assert_eq!(export_records(&server, "site=acme&anonId=stranger").len(), 100);
    assert_eq!(hero_variant(&mut client, "phone-of-ana"), "default");
    assert_eq!(hero_variant(&mut client, "stranger"), "known");
    let again = admin_request(&server, "DELETE", "/visitors?site=acme&userId=ana").json();
    assert_eq!(again["erased"]["records"], 0);
    post_accepted(&mut client, "page", &json!({ "anonId": "phone-of-ana", "properties": { "path": "/a" } }));
    assert_eq!(hero_variant(&mut client, "phone-of-ana"), "known");
    let visitor = admin_request(&server, "GET", "/visitors?site=acme&anonId=phone-of-ana").json();
    assert_eq!(
        (&visitor["profile"]["visitor"]["pageViews"], &visitor["aliases"]),
        (&json!(1), &json!(["phone-of-ana"]))
    );

    let server = server.restart(&["--admin-token", "open"]);
    let visitor = admin_request(&server, "GET", "/visitors?site=acme&anonId=phone-of-ana").json();
    assert_eq!(visitor["profile"]["visitor"]["pageViews"], 1, "a restart restores no erased events");
    assert_eq!(admin_request(&server, "GET", "/visitors?site=acme&userId=ana").json()["known"], false);
}

#[test]
fn a_long_export_continues_in_the_next_response() {
    let server = start_with_hero_rules(json!([]));
    let mut client = Client::to(server.edge);
    let note = "x".repeat(29_000);
    for _ in 0..20 {
        let event = json!({ "anonId": "v1", "event": "e", "properties": { "note": note } });
        let body = json!({ "batch": vec![event; 15] }).to_string();
        let response = client.post("/v1/batch?site=acme", &[], body.as_bytes());
        assert_eq!(response.json()["accepted"], 15, "{}", response.text());
    }
    post_accepted(&mut client, "track", &json!({ "anonId": "v1", "event": "last" }));
    let target = "/visitors/export?site=acme&anonId=v1";
    let first = server.admin_get(target);
    assert!(
        first.body.len() > parallax::testing::limits::EXPORT_PAGE_BYTES_TARGET
            && first.field("x-next-since").is_some()
    );
    let all = export_records(&server, "site=acme&anonId=v1");
    let seqs: Vec<u64> = all.iter().map(|record| crate::logged::parse_seq(&record["seq"])).collect();
    assert_eq!(seqs, (1..=301).collect::<Vec<_>>());
}

#[test]
fn an_export_reports_damage_and_returns_the_other_records() {
    let server = Server::start(
        &[("acme.snapshot", &super::acme_snapshot(&[page("/", json!({}))]))],
        &["--admin-token", "open", "--segment-bytes", "65536"],
    );
    let mut client = Client::to(server.edge);
    let note = "x".repeat(20_000);
    for anon_id in ["v1", "v1", "v1", "v1", "v1", "v2"] {
        let event = json!({ "anonId": anon_id, "event": "e", "properties": { "note": note } });
        post_accepted(&mut client, "track", &event);
    }
    let export = |since: u64| {
        let target = format!("/visitors/export?site=acme&anonId=v1&since={since}");
        let response = admin_request(&server, "GET", &target);
        assert_eq!(response.status, 200);
        let lines = response.text().lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let seqs: Vec<u64> = lines.map(|record| crate::logged::parse_seq(&record["seq"])).collect();
        (seqs, response.field("x-damaged").map(str::to_owned))
    };
    assert_eq!(export(0), (vec![1, 2, 3, 4, 5], None));
    // The first segment is sealed. This byte is in its first record, after the headers of segment and batch.
    let first = server.data().join(parallax::testing::log::segment_name(1));
    let mut bytes = std::fs::read(&first).expect("the segment");
    bytes[10_000] ^= 1;
    std::fs::write(&first, bytes).expect("the damaged segment is written");
    assert_eq!(export(0), (vec![2, 3, 4, 5], Some("1".to_owned())));
    assert_eq!(export(4), (vec![5], None), "damage before `since` is not reported");
    let metrics = server.admin_get("/metrics");
    assert!(metrics.text().contains("\nparallax_export_damaged_total 1\n"), "{}", metrics.text());
    assert_eq!(export(0), (vec![2, 3, 4, 5], Some("1".to_owned())));
    assert!(server.admin_get("/metrics").text().contains("\nparallax_log_damaged 1\n"));
    let log_line = "finding=00000000000000000001.segment at offset 56, ";
    server.wait_for_log(log_line);
    assert_eq!(server.log().matches("found damage").count(), 1, "each place is logged once");
}
