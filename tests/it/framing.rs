//! Request framing is a pure function of the bytes, however they are split (RFC 9112). llhttp's cases define
//! the requests that must be rejected: we may reject more, never fewer.

mod chunks;
mod heads;
mod short_texts;
mod smuggling;

use serde_json::Value;

use crate::fuzz::body::{Outcome, feed};
use crate::harness::cases;

/// Returns the outcome. Asserts that it is the same for every split in two and byte by byte.
fn outcome(bytes: &[u8]) -> Outcome {
    let whole = feed([bytes]);
    let observed = |outcome: &Outcome| (outcome.answered.clone(), outcome.refused);
    for at in 1..bytes.len() {
        let split = feed([&bytes[..at], &bytes[at..]]);
        assert_eq!(observed(&split), observed(&whole), "split at {at}: {:?}", String::from_utf8_lossy(bytes));
    }
    assert_eq!(observed(&feed(bytes.chunks(1))), observed(&whole), "{:?}", String::from_utf8_lossy(bytes));
    whole
}

/// Error codes of llhttp that are signals, not rejections: paused after a message, or protocol upgrade.
const SIGNALS: [i64; 3] = [21, 22, 23];

/// A case of llhttp.
struct Case {
    name: String,
    /// The request, with a Host field, which llhttp does not require.
    bytes: Vec<u8>,
    refused: bool,
    messages: usize,
}

/// Returns the strict request cases, or `None` with a notice if the public cases are not available.
fn llhttp() -> Option<Vec<Case>> {
    let text = std::fs::read_to_string(cases()?.join("llhttp/request-cases.json")).expect("llhttp's cases");
    let all: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    let strict = all.iter().filter(|case| case["type"] == "request");
    Some(strict.map(case).collect())
}

fn case(case: &Value) -> Case {
    let mut request = case["request_latin1"].as_str().expect("a request").to_owned();
    if !request.to_ascii_lowercase().contains("\nhost:") {
        request = request.replace(" HTTP/1.1\r\n", " HTTP/1.1\r\nHost: a\r\n");
    }
    let error = case["llhttp_error"]["code"].as_i64();
    Case {
        name: case["name"].as_str().expect("a name").to_owned(),
        bytes: request.chars().map(|c| c as u8).collect(),
        refused: error.is_some_and(|code| !SIGNALS.contains(&code)),
        messages: case["messages"].as_u64().expect("a count") as usize,
    }
}

/// Ends the head of a case. Some cases end where llhttp stops, because it can reject a value before the end
/// of its line.
fn with_final_lines(bytes: &[u8]) -> Vec<u8> {
    [bytes, b"\r\n\r\n"].concat()
}

#[test]
fn every_request_that_llhttp_rejects_is_rejected() {
    let Some(cases) = llhttp() else { return };
    let refused: Vec<&Case> = cases.iter().filter(|case| case.refused).collect();
    assert_eq!(refused.len(), 53);
    for Case { name, bytes, messages, .. } in refused {
        let outcome = outcome(bytes);
        assert!(outcome.answered.len() <= (*messages).max(1), "{name}: {outcome:?}");
        let bytes = if outcome.unfinished { with_final_lines(bytes) } else { bytes.clone() };
        let outcome = self::outcome(&bytes);
        let ends = outcome.refused.is_some() || outcome.bytes_after_close;
        assert!(ends, "{name}: {outcome:?} {:?}", String::from_utf8_lossy(&bytes));
    }
}

/// Requests that llhttp accepts and we reject. llhttp also knows other protocols, and leaves transfer codings
/// to its users.
const STRICTER: &[(&str, &str)] = &[
    ("CONNECT request", "unknown_method"),
    ("CONNECT with body", "unknown_method"),
    ("SOURCE request with ICE", "malformed_request"),
    ("OPTIONS request with RTSP", "malformed_request"),
    ("ANNOUNCE request with RTSP", "malformed_request"),
    ("PRI request HTTP2", "unknown_method"),
    ("No HTTP version", "malformed_request"),
    ("POST with `chunked` as last transfer-encoding", "unknown_transfer_coding"),
    ("POST with `chunked` as last transfer-encoding (multiple headers)", "unknown_transfer_coding"),
];

#[test]
fn requests_that_llhttp_accepts_are_accepted_with_known_exceptions() {
    let Some(cases) = llhttp() else { return };
    let mut stricter = Vec::new();
    for Case { name, bytes, .. } in cases.iter().filter(|case| !case.refused) {
        let outcome = outcome(bytes);
        stricter.extend(outcome.refused.map(|code| (name.as_str(), code)));
    }
    assert_eq!(stricter, STRICTER);
}
