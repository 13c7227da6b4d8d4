//! `GET /visitors/explain`: pages of the past, compared with what the server decided then.

use parallax::testing::log::format::oldest_to_bytes;
use serde_json::{Value, json};

use super::owners::flood_until;
use super::{compile_site, page, problem, site_file, zone};
use crate::dice::Dice;
use crate::harness::{Client, Response, Server, eventually, times};
use crate::logged::parse_seq;

const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1";
const DESKTOP: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36";

/// Returns version `version` of a site whose rules read every part of a visitor. Another version has other variants.
fn site(version: u64) -> Vec<u8> {
    let [b, c] = if version == 1 { ["b", "c"] } else { ["c", "b"] };
    let context = json!([
        { "when": { "locale": "de-AT" }, "variant": b },
        { "when": { "device.type": "mobile", "country": "DE" }, "variant": c },
    ]);
    let past = json!([
        { "when": { "visitor.pageViews": { "$gte": 3 } }, "variant": b },
        { "when": { "$or": [{ "events.Bought.count": { "$gt": 0 } }, { "traits.plan": "pro" }] }, "variant": c },
    ]);
    let origin = json!([
        { "when": { "lastTouch.source": "news" }, "variant": b },
        { "when": { "firstTouch.referrer": { "$regex": "partner" } }, "variant": c },
        { "when": { "url.query.preview": "1" }, "variant": b },
    ]);
    let experiment = json!([{ "when": { "visitor.userId": { "$exists": true } }, "experiment": { "key": "colour", "variants": ["default", b, c] } }]);
    let zones = json!({
        "context": zone(&["b", "c"], context), "past": zone(&["b", "c"], past), "origin": zone(&["b", "c"], origin),
        "experiment": zone(&["b", "c"], experiment),
    });
    compile_site(&site_file("acme", json!({})), &[page("/", zones), page("/plain", json!({}))], version)
}

fn start(flags: &[&str]) -> Server {
    Server::start(&[("acme-1.snapshot", &site(1))], &[&["--admin-token", "open"], flags].concat())
}

fn admin(server: &Server, method: &str, target: &str) -> Response {
    Client::to(server.admin).request(method, target, &[("Authorization", "Bearer open")])
}

fn send(server: &Server, event: &Value) {
    let response =
        server.post("/v1/batch?site=acme", &[], json!({ "batch": [event] }).to_string().as_bytes());
    assert_eq!(response.json()["accepted"], 1, "{event}: {}", response.text());
}

/// A visit of a page: the request for its variants, and the event that reports them.
#[derive(Clone)]
struct View {
    anon_id: String,
    agent: &'static str,
    locale: &'static str,
    country: &'static str,
    url: &'static str,
    referrer: &'static str,
}

impl View {
    fn of(anon_id: &str) -> Self {
        let url = "https://acme.example/";
        Self { anon_id: anon_id.to_owned(), agent: IPHONE, locale: "de-DE", country: "DE", url, referrer: "" }
    }

    /// Decides the page on the public address, and sends the event with the result.
    fn send(&self, server: &Server) -> Value {
        let Self { anon_id, agent, locale, country, url, referrer } = self;
        let encode = |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02x}")).collect() };
        let [agent, url_text, referrer_text] = [agent, url, referrer].map(|text| encode(text));
        let target = format!(
            "/v1/variants?site=acme&route=/&anonId={anon_id}&userAgent={agent}&locale={locale}&country={country}&url={url_text}&referrer={referrer_text}"
        );
        let decided = server.get(&target).json();
        send(
            server,
            &json!({
                "type": "page", "anonId": anon_id, "variants": decided["variants"], "experiments": decided["experiments"],
                "properties": { "path": "/", "url": url, "referrer": referrer },
                "context": { "locale": locale, "country": country, "userAgent": self.agent },
            }),
        );
        decided
    }
}

/// Returns the records of an export.
fn export(server: &Server, id: &str) -> Vec<Value> {
    let response = admin(server, "GET", &format!("/visitors/export?site=acme&{id}"));
    assert_eq!(response.status, 200, "{}", response.text());
    response.text().lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
}

fn explain(server: &Server, id: &str, seq: u64) -> Value {
    let response = admin(server, "GET", &format!("/visitors/explain?site=acme&{id}&seq={seq}"));
    assert_eq!(response.status, 200, "{id} {seq}: {}", response.text());
    response.json()
}

/// Asserts that an answer explains nothing, for these reasons.
#[track_caller]
fn assert_cut(answer: &Value, codes: &[&str]) {
    let found: Vec<&str> = answer["missing"]
        .as_array()
        .expect("reasons")
        .iter()
        .map(|reason| reason["code"].as_str().expect("a code"))
        .collect();
    assert_eq!(found, codes, "{answer}");
    assert!(answer.get("decisions").is_none() && answer.get("computed").is_none(), "{answer}");
}

#[test]
fn a_page_of_the_past_is_explained_as_it_was_decided() {
    let server = start(&[]);
    let german = View::of("v1");
    let first = german.send(&server);
    assert_eq!(first["variants"], "context:c");
    send(&server, &json!({ "type": "track", "event": "Bought", "anonId": "v1" }));
    let austrian = View { agent: DESKTOP, locale: "de-AT", country: "AT", ..german.clone() };
    let second = View { url: "https://acme.example/?utm_source=news", ..austrian }.send(&server);
    assert_eq!(second["variants"], "context:b,origin:b,past:c");
    // The profile, the user and the rules change.
    send(
        &server,
        &json!({ "type": "identify", "anonId": "v1", "userId": "ana", "traits": { "plan": "pro" } }),
    );
    (0..3).for_each(|_| drop(german.send(&server)));
    server.publish("acme-2.snapshot", &site(2));
    eventually("version 2 is served", || {
        let now = german.send(&server);
        (now["variants"].as_str()?.contains("context:b")).then_some(())
    });
    for id in ["anonId=v1", "userId=ana"] {
        for (seq, decided) in [(1, &first), (3, &second)] {
            let answer = explain(&server, id, seq);
            assert_eq!((&answer["missing"], &answer["differs"]), (&json!([]), &json!(false)), "{answer}");
            assert_eq!(answer["computed"]["variants"], decided["variants"]);
            assert_eq!((&answer["version"], &answer["seq"]), (&json!(1), &json!(seq.to_string())));
        }
    }
    let visitor = explain(&server, "userId=ana", 3)["visitor"].clone();
    assert_eq!((&visitor["locale"], &visitor["country"]), (&json!("de-AT"), &json!("AT")));
    assert_eq!(visitor["device"], json!({ "type": "desktop", "os": "Windows", "browser": "Chrome" }));
    assert_eq!((&visitor["visitor"]["pageViews"], &visitor["visitor"]["userId"]), (&json!(1), &json!(null)));
    assert_eq!(visitor["lastTouch"]["source"], "news");
    let last =
        export(&server, "userId=ana").last().map(|record| parse_seq(&record["seq"])).expect("a record");
    assert_eq!(explain(&server, "userId=ana", last)["version"], 2);
    let server = server.restart(&["--admin-token", "open"]);
    assert_eq!(
        explain(&server, "userId=ana", 3)["computed"]["variants"],
        second["variants"],
        "after a restart"
    );
}

#[test]
fn the_answer_says_if_the_page_showed_something_else() {
    let server = start(&[]);
    let event = |variants: &str, experiments: Value| {
        json!({ "type": "page", "anonId": "v1", "variants": variants, "experiments": experiments,
            "properties": { "path": "/" }, "context": { "locale": "de-AT" } })
    };
    send(&server, &event("context:b", Value::Null));
    send(&server, &event("context:c", Value::Null));
    send(&server, &event("context:b", json!("colour:b")));
    send(&server, &json!({ "type": "page", "anonId": "v1", "properties": { "path": "/" } }));
    let differs = |seq| explain(&server, "anonId=v1", seq)["differs"].clone();
    assert_eq!([1, 2, 3, 4].map(differs), [json!(false), json!(true), json!(true), json!(null)]);
}

#[test]
fn an_exposure_of_another_sdk_is_compared_with_the_experiments_of_its_page() {
    let server = start(&[]);
    send(&server, &json!({ "type": "identify", "anonId": "v1", "userId": "ana" }));
    let decided = View::of("v1").send(&server)["experiments"].as_str().expect("a text").to_owned();
    let (_, variant) = decided.split_once(':').expect("an experiment");
    let other = if variant == "b" { "c" } else { "b" };
    for variant in [variant, other] {
        send(
            &server,
            &json!({ "type": "track", "event": "Experiment Viewed", "anonId": "v1",
            "properties": { "experiment_id": "colour", "variation_id": variant }, "context": { "page": { "path": "/" } } }),
        );
    }
    send(
        &server,
        &json!({ "type": "track", "event": "Experiment Viewed", "anonId": "v1",
        "properties": { "experiment_id": "colour", "variation_id": variant } }),
    );
    assert_eq!(explain(&server, "anonId=v1", 3)["differs"], false);
    assert_eq!(explain(&server, "anonId=v1", 4)["differs"], true);
    assert_cut(&explain(&server, "anonId=v1", 5), &["path"]);
}

#[test]
fn random_histories_are_explained_as_they_were_decided() {
    for round in 0..times(3, 60) {
        let server = start(if round % 2 == 0 { &[] } else { &["--segment-bytes", "65536"] });
        let mut dice = Dice(round as u64 + 1);
        for _ in 0..60 {
            let (device, user) = (format!("v{}", dice.below(3)), format!("u{}", dice.below(2)));
            match dice.below(10) {
                0 => send(
                    &server,
                    &json!({ "type": "identify", "anonId": device, "userId": user, "traits": { "plan": *dice.pick(&["pro", "free"]) } }),
                ),
                1 => send(&server, &json!({ "type": "alias", "userId": user, "previousId": device })),
                2 => send(&server, &json!({ "type": "track", "event": "Bought", "userId": user })),
                3 => send(
                    &server,
                    &json!({ "type": "track", "event": *dice.pick(&["Bought", "Seen"]), "anonId": device }),
                ),
                4 => send(&server, &json!({ "type": "profile", "userId": user, "unset": ["plan"] })),
                _ => {
                    let view = View {
                        agent: pick(&mut dice, &[IPHONE, DESKTOP, "unknown"]),
                        locale: pick(&mut dice, &["de-AT", "de", "fr-FR"]),
                        country: pick(&mut dice, &["DE", "AT"]),
                        url: pick(
                            &mut dice,
                            &[
                                "https://acme.example/",
                                "https://acme.example/?preview=1",
                                "https://acme.example/?utm_source=news&utm_medium=mail",
                            ],
                        ),
                        referrer: pick(
                            &mut dice,
                            &["", "https://partner.example/list", "https://acme.example/plain"],
                        ),
                        ..View::of(&device)
                    };
                    view.send(&server);
                }
            }
        }
        server.publish("acme-2.snapshot", &site(2));
        eventually("version 2 is served", || {
            (server.get("/v1/variants?site=acme&route=/&locale=de-AT").json()["variants"] == "context:c")
                .then_some(())
        });
        let mut explained = 0;
        for id in ["anonId=v0", "anonId=v1", "anonId=v2", "userId=u0", "userId=u1"] {
            for record in export(&server, id).iter().filter(|record| record["type"] == "page") {
                let answer = explain(&server, id, parse_seq(&record["seq"]));
                assert_eq!(answer["missing"], json!([]), "round {round}, {id}: {answer}");
                // An event without experiments is recorded with null.
                let experiments = record["experiments"].as_str().unwrap_or_default();
                assert_eq!(
                    answer["computed"],
                    json!({ "variants": record["variants"], "experiments": experiments }),
                    "round {round}, {id}: {answer}"
                );
                assert_eq!((&answer["differs"], &answer["version"]), (&json!(false), &json!(1)));
                explained += 1;
            }
        }
        assert!(explained >= 25, "{explained}");
    }
}

#[test]
fn a_version_that_is_not_kept_explains_nothing() {
    let server = start(&[]);
    View::of("v1").send(&server);
    server.publish("acme-2.snapshot", &site(2));
    eventually("version 2 is served", || {
        (server.get("/v1/variants?site=acme&route=/&locale=de-AT").json()["variants"] == "context:c")
            .then_some(())
    });
    assert_eq!(explain(&server, "anonId=v1", 1)["computed"]["variants"], "context:c");
    std::fs::remove_file(server.path("acme-1.snapshot")).expect("removed");
    eventually("version 1 is not in memory", || {
        (explain(&server, "anonId=v1", 1)["missing"][0]["code"] == "snapshot").then_some(())
    });
    let answer = explain(&server, "anonId=v1", 1);
    assert_cut(&answer, &["snapshot"]);
    let detail = "The snapshot of version 1 is not in the snapshots directory.";
    assert_eq!(answer["missing"][0]["detail"], detail);
}

#[test]
fn a_page_before_the_first_known_version_explains_nothing() {
    let server = start(&[]);
    let event = json!({ "type": "page", "anonId": "v1", "properties": { "path": "/" }, "timestamp": "2026-01-05T10:00:00Z" });
    send(&server, &event);
    assert_cut(&explain(&server, "anonId=v1", 1), &["version"]);
}

#[test]
fn a_path_without_a_page_explains_nothing() {
    let server = start(&[]);
    for path in ["/none", "/"] {
        send(&server, &json!({ "type": "page", "anonId": "v1", "properties": { "path": path } }));
    }
    assert_cut(&explain(&server, "anonId=v1", 1), &["route"]);
    assert_eq!(explain(&server, "anonId=v1", 2)["missing"], json!([]));
}

#[test]
fn an_erased_or_redacted_record_explains_nothing() {
    let server = start(&[]);
    send(&server, &json!({ "type": "identify", "anonId": "v1", "userId": "ana" }));
    let page = |ids: Value| {
        let mut event = json!({ "type": "page", "properties": { "path": "/" } });
        event.as_object_mut().expect("an object").extend(ids.as_object().expect("an object").clone());
        event
    };
    send(&server, &page(json!({ "anonId": "v1" })));
    send(&server, &page(json!({ "anonId": "v1", "userId": "ben" })));
    assert_eq!(admin(&server, "DELETE", "/visitors?site=acme&userId=ana").status, 200);
    assert_cut(&explain(&server, "userId=ana", 2), &["erased"]);
    assert_cut(&explain(&server, "userId=ben", 3), &["redacted"]);
}

/// Deletes the first segment of a server, as retention does, and starts it again.
fn expire_first_segment(mut server: Server, flags: &[&str]) -> Server {
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
    let names =
        std::fs::read_dir(server.data()).expect("a directory").map(|entry| entry.expect("an entry").path());
    let mut segments: Vec<_> =
        names.filter(|path| path.extension().is_some_and(|ending| ending == "segment")).collect();
    segments.sort();
    let next = segments[1].file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
    std::fs::write(server.data().join("oldest"), oldest_to_bytes(next.expect("a seq"))).expect("written");
    std::fs::remove_file(&segments[0]).expect("removed");
    server.restart(&[&["--admin-token", "open"], flags].concat())
}

#[test]
fn records_that_have_expired_explain_nothing() {
    let flags = ["--segment-bytes", "65536"];
    let server = start(&flags);
    View::of("v1").send(&server);
    for _ in 0..20 {
        let properties = json!({ "note": "x".repeat(8_000) });
        send(
            &server,
            &json!({ "type": "track", "event": "Filled", "anonId": "v2", "properties": properties }),
        );
    }
    let server = expire_first_segment(server, &flags);
    assert_cut(&explain(&server, "anonId=v1", 1), &["expired"]);
    let seq_of_last =
        |id: &str| export(&server, id).last().map(|record| parse_seq(&record["seq"])).expect("a record");
    View::of("v1").send(&server);
    assert_cut(&explain(&server, "anonId=v1", seq_of_last("anonId=v1")), &["expired"]);
    // All records of a new visitor are kept.
    View::of("v3").send(&server);
    assert_eq!(explain(&server, "anonId=v3", seq_of_last("anonId=v3"))["differs"], false);
}

#[test]
fn an_evicted_visitor_explains_nothing() {
    let server = start(&["--profiles-memory", "1MiB"]);
    View::of("v1").send(&server);
    let mut client = Client::to(server.edge);
    let is_known = || admin(&server, "GET", "/visitors?site=acme&anonId=v1").json()["known"] == json!(true);
    flood_until(&mut client, || !is_known());
    assert_cut(&explain(&server, "anonId=v1", 1), &["evicted"]);
    View::of("v1").send(&server);
    let last = export(&server, "anonId=v1").last().map(|record| parse_seq(&record["seq"])).expect("a record");
    assert_cut(&explain(&server, "anonId=v1", last), &["evicted"]);
}

#[test]
fn other_records_and_visitors_are_refused() {
    let server = start(&[]);
    send(&server, &json!({ "type": "track", "event": "Seen", "anonId": "v1" }));
    View::of("v2").send(&server);
    let ask = |query: &str| problem(&admin(&server, "GET", &format!("/visitors/explain?site=acme{query}")));
    for query in ["&anonId=v1", "&anonId=v1&seq=", "&anonId=v1&seq=0", "&anonId=v1&seq=x"] {
        assert_eq!(ask(query), (400, "invalid_param".into()), "{query}");
    }
    for (id, seq) in [("v1", 1), ("v1", 2), ("v2", 3), ("v3", 2)] {
        assert_eq!(ask(&format!("&anonId={id}&seq={seq}")), (400, "invalid_param".into()), "{id} {seq}");
    }
    assert_eq!(ask("&anonId=v2&seq=2&seq=2"), (400, "repeated_param".into()));
    assert_eq!(ask("&seq=2"), (400, "missing_visitor".into()));
    let response = admin(&server, "POST", "/visitors/explain?site=acme&anonId=v2&seq=2");
    assert_eq!((response.status, response.field("allow")), (405, Some("GET, HEAD")));
}

fn pick(dice: &mut Dice, from: &[&'static str]) -> &'static str {
    from[dice.below(from.len())]
}
