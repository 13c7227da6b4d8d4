//! `GET /insights/audiences`: the sizes of audiences, compared with a naive count.

use serde_json::{Map, Value, json};

use super::problem;
use crate::dice::Dice;
use crate::harness::{Client, Server, eventually, snapshot, times};

/// Returns the snapshot of a site with these audiences.
fn site(audiences: &Map<String, Value>, version: u64) -> Vec<u8> {
    let about = json!({ "site": "acme", "trackingId": "track_acme", "name": "Acme" }).to_string();
    let page = json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": {} } }).to_string();
    let audiences = Value::Object(audiences.clone()).to_string();
    snapshot(&[("site.json", &about), ("audiences.json", &audiences), ("routes/index.json", &page)], version)
}

fn send(server: &Server, events: &[Value]) {
    let body = json!({ "batch": events }).to_string();
    let response = server.post("/v1/batch?site=acme", &[], body.as_bytes());
    assert_eq!(response.json()["accepted"], events.len(), "{}", response.text());
}

fn ask(server: &Server) -> Value {
    let response = server.admin_get("/insights/audiences?site=acme");
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()
}

/// A visitor whose profile decides the known tests.
struct Visitor {
    is_pro: bool,
    views: usize,
    has_viewed: bool,
}

/// A condition. A test of the request has a number: requests decide it independently of the others.
enum Node {
    Pro,
    Views(usize),
    Viewed,
    Request(usize),
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Audience(usize),
}

const REQUEST_TESTS: [(&str, &str); 3] = [("country", "DE"), ("device.type", "mobile"), ("url.path", "/")];

impl Node {
    /// Draws a condition that has each test of the request at most once, `used` included.
    fn draw(dice: &mut Dice, depth: usize, used: &mut Vec<usize>, earlier: &[(Node, Vec<usize>)]) -> Self {
        let mut nodes = |dice: &mut Dice| {
            (0..dice.below(4)).map(|_| Self::draw(dice, depth - 1, used, earlier)).collect()
        };
        match dice.below(if depth == 0 { 4 } else { 8 }) {
            0 => Self::Pro,
            1 => Self::Views(dice.below(4)),
            2 => Self::Viewed,
            3 => {
                let test = dice.below(REQUEST_TESTS.len());
                if used.contains(&test) {
                    return Self::Viewed;
                }
                used.push(test);
                Self::Request(test)
            }
            4 => Self::All(nodes(dice)),
            5 => Self::Any(nodes(dice)),
            6 => Self::Not(Box::new(Self::draw(dice, depth - 1, used, earlier))),
            _ => {
                let at = dice.below(earlier.len());
                match earlier.get(at) {
                    Some((_, tests)) if tests.iter().all(|test| !used.contains(test)) => {
                        used.extend(tests);
                        Self::Audience(at)
                    }
                    _ => Self::Pro,
                }
            }
        }
    }

    fn json(&self) -> Value {
        let list = |nodes: &[Self]| nodes.iter().map(Self::json).collect::<Vec<_>>();
        match self {
            Self::Pro => json!({ "traits.plan": "pro" }),
            Self::Views(views) => json!({ "visitor.pageViews": { "$gte": views } }),
            Self::Viewed => json!({ "events.Viewed.count": { "$gt": 0 } }),
            Self::Request(test) => json!({ REQUEST_TESTS[*test].0: REQUEST_TESTS[*test].1 }),
            Self::All(nodes) => json!({ "$and": list(nodes) }),
            Self::Any(nodes) if nodes.is_empty() => json!({ "$nor": [{}] }),
            Self::Any(nodes) => json!({ "$or": list(nodes) }),
            Self::Not(node) => json!({ "$not": node.json() }),
            Self::Audience(at) => json!({ "$audience": format!("a{at:02}") }),
        }
    }

    /// Returns whether it holds for a visitor and a request. Bit n of `request` is the result of test n.
    fn holds(&self, visitor: &Visitor, request: usize, all: &[(Self, Vec<usize>)]) -> bool {
        let holds = |node: &Self| node.holds(visitor, request, all);
        match self {
            Self::Pro => visitor.is_pro,
            Self::Views(views) => visitor.views >= *views,
            Self::Viewed => visitor.has_viewed,
            Self::Request(test) => request & 1 << test != 0,
            Self::All(nodes) => nodes.iter().all(holds),
            Self::Any(nodes) => nodes.iter().any(holds),
            Self::Not(node) => !holds(node),
            Self::Audience(at) => holds(&all[*at].0),
        }
    }
}

#[test]
fn sizes_equal_a_naive_count_over_all_requests() {
    for round in 0..times(3, 50) {
        let mut dice = Dice(round as u64 + 5);
        let mut conditions: Vec<(Node, Vec<usize>)> = Vec::new();
        for _ in 0..40 {
            let mut used = Vec::new();
            let node = Node::draw(&mut dice, 3, &mut used, &conditions);
            conditions.push((node, used));
        }
        let audiences: Map<String, Value> = conditions
            .iter()
            .enumerate()
            .map(|(at, (node, _))| (format!("a{at:02}"), json!({ "when": node.json() })))
            .collect();
        let flags: &[&str] = if round == 1 { &["--insights-memory", "0"] } else { &[] };
        let server = Server::start(&[("acme.snapshot", &site(&audiences, 1))], flags);
        let visitors: Vec<Visitor> = (0..40)
            .map(|_| Visitor {
                is_pro: dice.below(2) == 0,
                views: dice.below(4),
                has_viewed: dice.below(2) == 0,
            })
            .collect();
        for (number, visitor) in visitors.iter().enumerate() {
            let (anon, user) = (format!("v{number}"), format!("u{number}"));
            let plan = if visitor.is_pro { "pro" } else { "free" };
            let mut events = vec![
                json!({ "type": "identify", "anonId": anon, "userId": user, "traits": { "plan": plan } }),
            ];
            events.extend(
                (0..visitor.views)
                    .map(|_| json!({ "type": "page", "anonId": anon, "properties": { "path": "/" } })),
            );
            events.extend(
                visitor.has_viewed.then(|| json!({ "type": "track", "event": "Viewed", "anonId": anon })),
            );
            send(&server, &events);
        }
        let answer = ask(&server);
        assert_eq!(answer["profiles"], visitors.len());
        let listed = answer["audiences"].as_array().expect("audiences");
        assert_eq!(listed.len(), conditions.len());
        for (at, (audience, (node, _))) in listed.iter().zip(&conditions).enumerate() {
            let results = |visitor: &Visitor| -> Vec<bool> {
                (0..1 << REQUEST_TESTS.len())
                    .map(|request| node.holds(visitor, request, &conditions))
                    .collect()
            };
            let at_least =
                visitors.iter().filter(|visitor| results(visitor).iter().all(|holds| *holds)).count();
            let at_most =
                visitors.iter().filter(|visitor| results(visitor).iter().any(|holds| *holds)).count();
            let expected = json!({
                "name": format!("a{at:02}"), "condition": node.json(), "atLeast": at_least, "atMost": at_most,
            });
            assert_eq!(audience, &expected);
        }
    }
}

fn audiences() -> Map<String, Value> {
    let touch = json!({ "when": { "lastTouch.source": "news" } });
    let audiences = json!({ "new": { "when": { "visitor.pageViews": 1 } }, "touched": touch });
    audiences.as_object().expect("an object").clone()
}

#[test]
fn sizes_are_kept_for_a_while_and_counted_again_for_another_version() {
    let server = Server::start(&[("acme.snapshot", &site(&audiences(), 1))], &[]);
    // More entries than a slice has.
    for batch in 0..6 {
        let event = |number: usize| json!({ "type": "page", "anonId": format!("v{batch}-{number}"), "properties": { "path": "/" } });
        send(&server, &(0..400).map(event).collect::<Vec<_>>());
    }
    let first = ask(&server);
    let sizes = json!([
        { "name": "new", "condition": { "visitor.pageViews": 1 }, "atLeast": 2_400, "atMost": 2_400 },
        // A request can have a campaign.
        { "name": "touched", "condition": { "lastTouch.source": "news" }, "atLeast": 0, "atMost": 2_400 },
    ]);
    assert_eq!((&first["profiles"], &first["audiences"]), (&json!(2_400), &sizes));
    send(&server, &[json!({ "type": "page", "anonId": "later", "properties": { "path": "/" } })]);
    assert_eq!(ask(&server), first);
    server.publish("acme.snapshot", &site(&audiences(), 2));
    eventually("another version is counted", || (ask(&server)["profiles"] == 2_401).then_some(()));
}

#[test]
fn csv_304_and_refusals() {
    let server = Server::start(&[("acme.snapshot", &site(&audiences(), 1))], &[]);
    let target = "/insights/audiences?site=acme";
    let mut admin = Client::to(server.admin);
    let csv = admin.request("GET", target, &[("Accept", "text/csv")]);
    assert_eq!(csv.text(), "name,atLeast,atMost\r\nnew,0,0\r\ntouched,0,0\r\n");
    assert_eq!(csv.field("content-type"), Some("text/csv; charset=utf-8"));
    let json = admin.request("GET", target, &[]);
    assert_eq!(
        (json.field("cache-control"), json.field("vary")),
        (Some("private, no-cache"), Some("Accept"))
    );
    let etag = json.field("etag").expect("an ETag").to_owned();
    assert_ne!(csv.field("etag"), Some(&*etag));
    assert_eq!(admin.request("GET", target, &[("If-None-Match", &etag)]).status, 304);
    assert_eq!(admin.request("HEAD", target, &[]).field("content-length"), json.field("content-length"));
    for (query, expected) in [
        ("", (400, "missing_site")),
        ("?site=acme&site=acme", (400, "repeated_param")),
        ("?site=acne", (404, "site_not_found")),
    ] {
        let response = admin.request("GET", &format!("/insights/audiences{query}"), &[]);
        assert_eq!(problem(&response), (expected.0, expected.1.into()), "{query}");
    }
    // The log knows the site, but nobody publishes audiences.
    send(&server, &[json!({ "type": "page", "anonId": "v1", "properties": { "path": "/" } })]);
    std::fs::remove_file(server.path("acme.snapshot")).expect("removed");
    eventually("the site has no audiences", || {
        (ask(&server) == json!({ "at": null, "profiles": null, "audiences": [] })).then_some(())
    });
}

#[test]
fn sizes_use_the_last_recorded_context() {
    let audiences = json!({
        "germans": { "when": { "country": "DE" } },
        "phones": { "when": { "device.type": "mobile" } },
        "german-phones": { "when": { "$audience": "germans", "device.type": "mobile" } },
        "language": { "when": { "locale": "de" } },
        "german-here": { "when": { "country": "DE", "url.path": "/" } },
    });
    let audiences = audiences.as_object().expect("an object");
    let server = Server::start(&[("acme.snapshot", &site(audiences, 1))], &[]);
    let phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1";
    let desktop = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36";
    let event = |id: &str, context: Value| json!({ "type": "page", "anonId": id, "properties": { "path": "/" }, "context": context });
    send(
        &server,
        &[
            event("v1", json!({ "country": "SE", "userAgent": desktop })),
            event("v1", json!({ "country": "DE", "userAgent": phone, "locale": "de" })),
            event("v2", json!({ "country": "DE", "userAgent": desktop })),
            event("v3", json!({ "userAgent": phone })),
            event("v4", json!({})),
        ],
    );
    let sizes: Vec<(Value, Value, Value)> = ask(&server)["audiences"]
        .as_array()
        .expect("audiences")
        .iter()
        .map(|size| (size["name"].clone(), size["atLeast"].clone(), size["atMost"].clone()))
        .collect();
    let expected = [
        ("german-here", 0, 4),
        ("german-phones", 1, 3),
        ("germans", 2, 4),
        ("language", 0, 4),
        ("phones", 2, 3),
    ];
    assert_eq!(sizes, expected.map(|(name, low, high)| (json!(name), json!(low), json!(high))));
}
