//! Every limit of an event: one below, at and above it.

use std::time::{Duration, Instant};

use parallax::testing::events::endpoint::EventEndpoint;
use parallax::testing::events::receipt::EventResults;
use parallax::testing::events::submission::Submission;
use parallax::testing::limits::{
    BODY_BYTES_MAX, CANONICAL_BYTES_MAX, CONTEXT_MEMBERS_MAX, CONTEXTS_BYTES_MAX, EVENT_BYTES_MAX,
    EVENT_NAME_CHARS_MAX, EVENT_NESTING_MAX, EVENTS_MAX, NAME_BYTES_MAX, TOUCH_TEXT_BYTES_MAX,
};
use parallax::testing::log::Request;
use parallax::testing::record::RECORD_BYTES_MIN;
use serde_json::{Map, Value, json};

use super::{Outcome, REQUEST, Server, page, post, track};

fn code(outcome: &Outcome) -> Option<String> {
    let is_taken = matches!(&outcome.results, Ok(results) if results.problem().is_none());
    (!is_taken).then(|| outcome.code())
}

/// Returns a track event of `bytes` bytes.
fn event_of(bytes: usize) -> String {
    let empty = track(json!({"x": "é"}));
    track(json!({"x": format!("é{}", "x".repeat(bytes - empty.len()))}))
}

#[test]
fn an_event_has_at_most_32_kib() {
    for (bytes, refusal) in
        [(EVENT_BYTES_MAX - 1, None), (EVENT_BYTES_MAX, None), (EVENT_BYTES_MAX + 1, Some("event_too_large"))]
    {
        let event = event_of(bytes);
        assert_eq!(event.len(), bytes);
        assert_eq!(code(&post("/v1/track", format!("\n {event} "))).as_deref(), refusal);
        let batch = format!("{{\"batch\":[ {event} , {}]}}", track(json!({})));
        let receipt = post("/v1/batch", batch).receipt();
        assert_eq!(receipt["rejected"], usize::from(refusal.is_some()));
        assert_eq!(receipt["results"][0]["code"].as_str(), refusal);
    }
    let problem = post("/v1/track", event_of(EVENT_BYTES_MAX + 1)).problem();
    assert_eq!((&problem["status"], &problem["pointer"]), (&json!(413), &json!("")));
    assert_eq!(problem["detail"], "The event has 32769 bytes, more than the limit of 32768.");
}

#[test]
fn a_batch_has_at_most_2500_events() {
    let batch = |events: usize| {
        format!("{{\"batch\":[{}]}}", vec!["{\"anonId\":\"v\",\"event\":\"e\"}"; events].join(","))
    };
    for events in [EVENTS_MAX - 1, EVENTS_MAX] {
        assert_eq!(post("/v1/batch", batch(events)).receipt()["accepted"], events);
    }
    let problem = post("/v1/batch", batch(EVENTS_MAX + 1)).problem();
    assert_eq!((&problem["code"], &problem["status"]), (&json!("batch_too_large"), &json!(413)));
    assert_eq!(problem["detail"], "The batch has 2501 events, more than the limit of 2500.");
}

#[test]
fn a_body_is_nested_at_most_32_deep() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |depth: usize| {
            let inner = depth - 1;
            let value = format!("{}1{}", open.repeat(inner), close.repeat(inner));
            post("/v1/track", format!("{{\"anonId\":\"v\",\"event\":\"e\",\"x\":{value}}}"))
        };
        assert_eq!(code(&nested(EVENT_NESTING_MAX - 1)), None);
        assert_eq!(code(&nested(EVENT_NESTING_MAX)), None);
        let problem = nested(EVENT_NESTING_MAX + 1).problem();
        assert_eq!(problem["code"], "malformed_json");
        assert_eq!(problem["detail"], "Expected arrays and objects at most 32 deep in each other.");
    }
}

#[test]
fn endless_nesting_is_refused_quickly() {
    for text in ["[", "{\"a\":", "[{\"a\":"] {
        let body = format!("{{\"x\":{}", text.repeat(400 * 1024 / text.len()));
        let start = Instant::now();
        assert_eq!(code(&post("/v1/track", body)).as_deref(), Some("malformed_json"));
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    }
}

#[test]
fn an_event_name_has_1_to_200_characters() {
    let named = |length: usize| code(&post("/v1/track", track(json!({"event": "é".repeat(length)}))));
    assert_eq!(named(1), None);
    assert_eq!(named(EVENT_NAME_CHARS_MAX - 1), None);
    assert_eq!(named(EVENT_NAME_CHARS_MAX), None);
    assert_eq!(named(EVENT_NAME_CHARS_MAX + 1).as_deref(), Some("invalid_event"));
}

#[test]
fn a_page_name_has_at_most_1024_bytes() {
    let named = |bytes: usize| {
        let name = "é".repeat(bytes / 2) + &"x".repeat(bytes % 2);
        post("/v1/page", page(json!({"name": name})))
    };
    for bytes in [1, NAME_BYTES_MAX - 1, NAME_BYTES_MAX] {
        assert_eq!(named(bytes).record()["name"].as_str().map(str::len), Some(bytes));
    }
    let longer = named(NAME_BYTES_MAX + 1);
    assert_eq!(longer.record()["name"], json!(null));
    let warning = longer.receipt()["warnings"][0].clone();
    assert_eq!((&warning["code"], &warning["pointer"]), (&json!("invalid_event"), &json!("/name")));
    let detail = warning["detail"].as_str().expect("a detail");
    assert!(detail.starts_with("Expected a string of at most 1024 bytes, got 'éé"), "{detail}");
}

#[test]
fn the_variants_of_an_event_have_at_most_2048_bytes() {
    let with_variants = |bytes: usize| {
        let pairs: String = (10..39).map(|zone| format!("z{zone}:{},", "k".repeat(64))).collect();
        let variants = format!("{pairs}last:{}", "k".repeat(bytes - pairs.len() - 5));
        assert_eq!(variants.len(), bytes);
        post("/v1/track", track(json!({"variants": variants})))
    };
    for bytes in [CANONICAL_BYTES_MAX - 1, CANONICAL_BYTES_MAX] {
        assert_eq!(with_variants(bytes).record()["variants"].as_str().map(str::len), Some(bytes));
    }
    assert_eq!(code(&with_variants(CANONICAL_BYTES_MAX + 1)).as_deref(), Some("invalid_variants"));
}

#[test]
fn an_object_in_a_batch_context_has_at_most_256_members() {
    let with = |members: usize| {
        let context: Map<String, Value> = (0..members).map(|i| (format!("m{i}"), json!(i))).collect();
        code(&post("/v1/batch", json!({"context": context, "batch": []}).to_string()))
    };
    assert_eq!(with(CONTEXT_MEMBERS_MAX - 1), None);
    assert_eq!(with(CONTEXT_MEMBERS_MAX), None);
    assert_eq!(with(CONTEXT_MEMBERS_MAX + 1).as_deref(), Some("invalid_event"));
}

#[test]
fn the_copies_of_a_batch_context_have_a_size_limit() {
    let with = |bytes: usize, events: usize| {
        let context = format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
        let events = vec!["{\"anonId\":\"v\",\"event\":\"e\"}"; events].join(",");
        post("/v1/batch", format!("{{\"context\":{context},\"batch\":[{events}]}}"))
    };
    let events = 64;
    let bytes = CONTEXTS_BYTES_MAX / events;
    assert_eq!(with(bytes - 1, events).receipt()["accepted"], events);
    assert_eq!(with(bytes, events).receipt()["accepted"], events);
    let problem = with(bytes + 1, events).problem();
    assert_eq!((&problem["code"], &problem["pointer"]), (&json!("batch_too_large"), &json!("/context")));
}

/// Repeats `piece`, with its number in place of `#`, almost up to the size limit of a body.
fn fill_body(piece: &str) -> String {
    let pieces = BODY_BYTES_MAX / (piece.len() + 5) - 1_000;
    (0..pieces).map(|i| piece.replace('#', &format!("{i:05}"))).collect()
}

/// Largest time of a body as a multiple of the time of an ordinary batch of the same size. The worst body takes 14 times as long.
const TIME_RATIO_MAX: u32 = 100;

/// Returns the time in which the body is handled, and the outcome.
fn timed_post(body: String) -> (Duration, Outcome) {
    let start = Instant::now();
    let outcome = post("/v1/batch", body);
    (start.elapsed(), outcome)
}

#[test]
fn no_body_takes_much_longer_than_an_ordinary_batch_of_its_size() {
    let event = "{\"event\":\"Viewed\",\"anonId\":\"visitor-1\",\"properties\":{\"name\":\"Tent\",\"price\":1290.5}},";
    let ordinary =
        format!("{{\"batch\":[{}null]}}", event.repeat(EVENTS_MAX.min(BODY_BYTES_MAX / event.len()) - 1));
    let (scale, _) =
        (0..3).map(|_| timed_post(ordinary.clone())).min_by_key(|(time, _)| *time).expect("three times");
    let members = |n: usize| (0..n).map(|i| format!("\"m{i:04}\":1,")).collect::<String>();
    let nested = format!("{{\"event\":\"e\",\"anonId\":\"v\",\"context\":{{{}\"x\":1}}}},", members(3_000));
    for body in [
        format!("{{{}\"x\":1}}", fill_body("\"\":1,")),
        format!("{{{}\"x\":1}}", fill_body("\"#\":1,")),
        format!("{{\"x\":[{}1]}}", fill_body("1,")),
        format!("{{\"x\":[{}1]}}", fill_body("{},")),
        format!("{{\"x\":[{}1]}}", fill_body("\"\\ud800\",")),
        format!("{{\"x\":[{}1]}}", fill_body("\"\\ud800\",1e999,")),
        format!("{{\"x\":1{}}}", fill_body(" ")),
        format!("{{{}\"batch\":[{}1]}}", &fill_body("\"#\":1,")[..450_000], "1,".repeat(2_000)),
        format!("{{\"context\":{{{}\"x\":1}},\"batch\":[{}1]}}", members(255), nested.repeat(13)),
    ] {
        let bytes = body.len();
        let (time, outcome) = timed_post(body);
        // The ordinary batch is shorter than the limit if it has as many events as a batch may have.
        let scale = scale * (bytes / ordinary.len()).max(1) as u32;
        assert!(time < scale * TIME_RATIO_MAX, "{time:?}, {scale:?}");
        assert!(outcome.surrogates == 0 || outcome.surrogates > 10_000);
    }
}

/// Pushes the records of a batch into one request. Returns the bytes of the records without fold inputs, and the
/// bytes of the request.
fn push_records(body: &str) -> (usize, usize) {
    let mut server = Server::new();
    let Server { parser, validator, environment } = &mut server;
    let document = parser.parse(body).expect("JSON");
    let sent = Submission::parse(&document, EventEndpoint::Batch).expect("a batch");
    let (mut request, mut bytes) = (Request::new(0), 0);
    validator.validate(&sent, &REQUEST, environment, EventResults::default(), |record| {
        let texts = [record.site, record.message_id, record.anon_id, record.path];
        let texts: usize = texts.iter().flatten().map(|text| text.len()).sum();
        bytes += (RECORD_BYTES_MIN + texts + record.payload.len()).next_multiple_of(8);
        request.push(record).expect("the record fits with its fold input");
    });
    (bytes, request.byte_len())
}

#[test]
fn a_batch_of_4_mib_without_fold_inputs_fits_in_a_request_with_them() {
    let text = "c".repeat(TOUCH_TEXT_BYTES_MAX);
    let campaign = json!({"source": text, "medium": text, "name": text, "term": text, "content": text});
    let event = json!({"type": "page", "anonId": "v"});
    let batch = json!({"context": {"campaign": campaign}, "batch": vec![event; EVENTS_MAX]}).to_string();
    let (bytes, with_fold_inputs) = push_records(&batch);
    assert!((7 << 19..=4 << 20).contains(&bytes), "{bytes}");
    assert!(with_fold_inputs > bytes * 7 / 4, "{with_fold_inputs}");
    // The most changes that a body holds: each event of nearly 32 KiB is nothing but numbers.
    let traits = format!("{{{}\"a\":1}}", (0..3_600).map(|n| format!("\"{n}\":1,")).collect::<String>());
    let event = format!(r#"{{"type":"identify","anonId":"v","traits":{traits}}}"#);
    let batch = format!(
        r#"{{"context":{{"x":"{}"}},"batch":[{}]}}"#,
        "x".repeat(1 << 15),
        vec![&*event; 14].join(",")
    );
    let (bytes, with_fold_inputs) = push_records(&batch);
    assert!(with_fold_inputs > bytes + 14 * 20_000, "{bytes} {with_fold_inputs}");
    assert!(
        with_fold_inputs - bytes < 14 * event.len() * 8 / 7,
        "a fold input is no longer than its payload"
    );
}
