//! `POST /explain`: the version of a page that an invented visitor gets, and why.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parallax::testing::limits::EVENTS_WITH_ARMS_MAX;
use parallax::testing::site::source::types::CASE_EVENTS_MAX;
use serde_json::{Value as Json, json};

use crate::dice::Dice;
use crate::harness::{Client, Response, Server};

const TOKEN: &str = "a-token-for-questions-of-32-letters";
const DAY: Duration = Duration::from_secs(86_400);

fn start() -> Server {
    let (_, snapshot) = parallax::testing::cli::demo::compile_demo();
    Server::start(&[("demo.snapshot", &snapshot)], &["--explain", "--admin-token", TOKEN])
}

/// Sends a question about the demo site.
fn explain(server: &Server, body: &[u8]) -> Response {
    ask(server, "POST", "/explain?site=fjell", body)
}

fn ask(server: &Server, method: &str, target: &str, body: &[u8]) -> Response {
    let length = body.len();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    let mut client = Client::to(server.admin);
    client.send(&[head.as_bytes(), body].concat());
    client.response(method == "HEAD")
}

fn answer(server: &Server, question: &Json) -> Json {
    let response = explain(server, question.to_string().as_bytes());
    assert_eq!(response.status, 200, "{question}: {}", response.text());
    response.json()
}

/// The milliseconds of a time so many days ago.
fn days_ago(days: u64) -> u128 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    (since_epoch - DAY * days as u32).as_millis()
}

/// Returns the events of a visitor, oldest first.
fn past(dice: &mut Dice) -> Vec<Json> {
    let count = dice.below(6) as u64;
    let of_day = |days: u64, dice: &mut Dice| {
        let mut event = match dice.below(5) {
            0 => {
                json!({ "type": "page", "properties": { "url": "https://a.example/?utm_source=sunday-letter" } })
            }
            1 => json!({ "event": "Product Added", "properties": { "sku": "FJ-T-201" } }),
            2 => json!({ "event": "Order Completed", "properties": { "value": 120 } }),
            3 => json!({ "type": "profile", "set": { "plan": "member" } }),
            _ => json!({ "type": "page", "properties": { "path": "/tents" } }),
        };
        event["timestamp"] = json!(days_ago(days));
        event
    };
    (0..count).map(|at| of_day(count - at, dice)).collect()
}

#[test]
fn the_decision_and_the_reasons_are_those_of_a_recorded_visitor_with_the_same_past() {
    let server = start();
    let mut dice = Dice(46);
    let mut texts = std::collections::BTreeSet::new();
    for number in 0..60 {
        let id = format!("v-{number}");
        let events = past(&mut dice);
        if !events.is_empty() {
            let body = json!({ "trackingId": "track_demo", "batch": events }).to_string();
            assert_eq!(server.post(&format!("/v1/batch?anonId={id}"), &[], body.as_bytes()).status, 200);
        }
        let locale = ["nb-NO", "de-DE", "en"][dice.below(3)];
        let target =
            format!("/v1/resolve?site=fjell&route=/&url=/&anonId={id}&locale={locale}&country=NO&explain=1");
        let recorded = server.get(&target).json();
        let visitor = json!({ "anonId": id, "events": events, "locale": locale, "country": "NO" });
        let invented = answer(&server, &json!({ "path": "/", "visitor": visitor }));
        for name in ["route", "variants", "selected", "experiments", "decisions", "layout"] {
            assert_eq!(invented[name], recorded[name], "{name} of {visitor}");
        }
        texts.insert(invented["variants"].to_string());
    }
    assert!(texts.len() > 3, "{texts:?}");
}

#[test]
fn a_question_leaves_no_record() {
    let server = start();
    let visitor = json!({ "anonId": "nobody", "events": [{ "event": "Product Added" }] });
    answer(&server, &json!({ "path": "/", "visitor": visitor }));
    let profile = ask(&server, "GET", "/visitors?site=fjell&anonId=nobody", b"").json();
    assert_eq!((&profile["known"], &profile["seq"]), (&json!(false), &json!("0")), "{profile}");
}

#[test]
fn the_page_is_that_of_the_time_of_the_question() {
    let server = start();
    for now in ["2026-01-01T12:00:00Z", "2031-06-01T08:30:00+02:00"] {
        let invented = answer(&server, &json!({ "path": "/", "now": now }));
        let target = format!("/v1/variants?site=fjell&route=/&explain=1&now={}", now.replace('+', "%2B"));
        let at_that_time = ask(&server, "GET", &target, b"").json();
        assert_eq!(invented["visitor"]["now"], at_that_time["visitor"]["now"]);
        assert_eq!(invented["selected"], at_that_time["selected"]);
    }
}

#[test]
fn events_have_times_before_the_present() {
    let server = start();
    let question = json!({
        "path": "/", "now": "2026-01-10T00:00:00Z",
        "visitor": { "events": [{ "at": "-3d", "type": "page", "properties": { "path": "/" } }] }
    });
    let invented = answer(&server, &question);
    assert_eq!(invented["visitor"]["visitor"]["isReturning"], true);
    assert_eq!(invented["visitor"]["visitor"]["firstSeen"], 1_767_744_000_000_u64);
}

#[test]
fn forced_variants_and_redirects_are_answered() {
    let server = start();
    let plain = answer(&server, &json!({ "path": "/" }));
    let zone = plain["decisions"][0]["zone"].as_str().expect("a zone").to_owned();
    let forced = answer(&server, &json!({ "path": "/", "override": { zone: "default" } }));
    assert_eq!(forced["decisions"][0]["source"], "forced");
    let redirect = answer(&server, &json!({ "path": "/campaigns/winter-sale" }));
    assert_eq!(redirect["type"], "redirect", "{redirect}");
}

#[test]
fn a_question_with_a_mistake_is_refused_with_its_place() {
    let server = start();
    let mistakes = [
        ("", "malformed_json", "Expected a JSON object"),
        ("{", "malformed_json", "Expected a JSON object"),
        ("[]", "invalid_param", "Expected a JSON object"),
        ("{}", "invalid_param", "missing field `path`"),
        (r#"{"path":"/","more":1}"#, "invalid_param", "unknown field `more`"),
        (r#"{"path":"/nowhere"}"#, "invalid_param", "/path: the server refuses this"),
        (r#"{"path":"/","now":"tomorrow"}"#, "invalid_param", "/now: invalid `now`"),
        (r#"{"path":"/","now":"2100-01-01T00:00:00Z"}"#, "invalid_param", "/now: invalid `now`"),
        (r#"{"path":"/","visitor":{"anonId":"null"}}"#, "invalid_param", "/visitor/anonId: expected"),
        (r#"{"path":"/","visitor":{"country":"XYZ"}}"#, "invalid_param", "/visitor/country: expected"),
        (
            r#"{"path":"/","visitor":{"events":[{"at":"3d","event":"a"}]}}"#,
            "invalid_param",
            "/visitor/events/0/at:",
        ),
        (r#"{"path":"/","visitor":{"events":[{"event":7}]}}"#, "invalid_param", "/visitor/events/0"),
        (r#"{"path":"/","visitor":{"arms":{"nothing":"a"}}}"#, "invalid_param", "/visitor/arms: no visitor"),
    ];
    for (body, code, text) in mistakes {
        let response = explain(&server, body.as_bytes());
        assert_eq!((response.status, &*response.code()), (400, code), "{body}: {}", response.text());
        assert!(response.body_contains(text), "{body}: {}", response.text());
    }
}

#[test]
fn a_visitor_has_at_most_1000_events_and_100_beside_arms() {
    let server = start();
    let with_events = |count: usize, arms: Json| {
        let event = json!({ "event": "a" });
        json!({ "path": "/", "visitor": { "arms": arms, "events": vec![event; count] } }).to_string()
    };
    for (events_max, arms) in
        [(CASE_EVENTS_MAX, json!({})), (EVENTS_WITH_ARMS_MAX, json!({ "nothing": "a" }))]
    {
        for count in [events_max - 1, events_max, events_max + 1] {
            let response = explain(&server, with_events(count, arms.clone()).as_bytes());
            let is_refused = response.body_contains(&format!("at most {events_max} events"));
            assert_eq!(is_refused, count > events_max, "{count}: {}", response.text());
            assert_eq!(response.status == 200, count <= events_max && arms == json!({}), "{count}");
        }
    }
}

#[test]
fn the_endpoint_has_one_method_and_needs_a_published_site() {
    let server = start();
    let get = ask(&server, "GET", "/explain?site=fjell", b"");
    assert_eq!((get.status, get.field("allow")), (405, Some("POST")));
    for (target, status, code) in [
        ("/explain", 400, "missing_site"),
        ("/explain?site=fjell&site=fjell", 400, "repeated_param"),
        ("/explain?site=other", 404, "site_not_found"),
    ] {
        let response = ask(&server, "POST", target, br#"{"path":"/"}"#);
        assert_eq!((response.status, &*response.code()), (status, code), "{target}");
    }
}
