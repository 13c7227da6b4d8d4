//! Where requests end: a pure function of the bytes, however they are split (RFC 9112). The definition of what is refused are
//! llhttp's cases: we may refuse more, never less.

mod chunks;
mod smuggling;

use serde_json::Value;

use crate::fuzz::body::{Outcome, feed};
use crate::harness::cases;

/// The outcome, which is the same for every split in two and byte by byte.
fn outcome(bytes: &[u8]) -> Outcome {
    let whole = feed([bytes]);
    let heard = |outcome: &Outcome| (outcome.answered.clone(), outcome.refused);
    for at in 1..bytes.len() {
        let split = feed([&bytes[..at], &bytes[at..]]);
        assert_eq!(heard(&split), heard(&whole), "split at {at}: {:?}", String::from_utf8_lossy(bytes));
    }
    assert_eq!(heard(&feed(bytes.chunks(1))), heard(&whole), "{:?}", String::from_utf8_lossy(bytes));
    whole
}

/// Codes of llhttp that are signals, not refusals: paused after a message, or to change the protocol.
const SIGNALS: [i64; 3] = [21, 22, 23];

/// A case of llhttp's.
struct Case {
    name: String,
    /// With a Host, which llhttp does not ask for.
    bytes: Vec<u8>,
    refused: bool,
    messages: usize,
}

/// The strict cases; None, and said so, where they are not to be had.
fn llhttp() -> Option<Vec<Case>> {
    let text = std::fs::read_to_string(cases()?.join("llhttp/request-cases.json")).expect("the cases");
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

/// Some are cut where llhttp stops: it may refuse a value before its line has ended.
fn ended(bytes: &[u8]) -> Vec<u8> {
    [bytes, b"\r\n\r\n"].concat()
}

#[test]
fn whatever_llhttp_refuses_is_refused() {
    let Some(cases) = llhttp() else { return };
    let refused: Vec<&Case> = cases.iter().filter(|case| case.refused).collect();
    assert_eq!(refused.len(), 53);
    for Case { name, bytes, messages, .. } in refused {
        let outcome = outcome(bytes);
        assert!(outcome.answered.len() <= (*messages).max(1), "{name}: {outcome:?}");
        let bytes = if outcome.unfinished { ended(bytes) } else { bytes.clone() };
        let outcome = self::outcome(&bytes);
        let ends = outcome.refused.is_some() || outcome.bytes_behind_close;
        assert!(ends, "{name}: {outcome:?} {:?}", String::from_utf8_lossy(&bytes));
    }
}

/// What llhttp takes and we refuse. It stops where the protocol changes, we read on and find no request of ours; it knows
/// other protocols; and it leaves codings to others.
const STRICTER: &[(&str, &str)] = &[
    ("Multiple tokens with folding and LWS", "unsupported_version"),
    ("Upgrade GET request", "unsupported_version"),
    ("Upgrade POST request", "unsupported_version"),
    ("CONNECT request", "unknown_method"),
    ("CONNECT with body", "unknown_method"),
    ("SOURCE request with ICE", "unsupported_version"),
    ("OPTIONS request with RTSP", "unsupported_version"),
    ("ANNOUNCE request with RTSP", "unsupported_version"),
    ("PRI request HTTP2", "unknown_method"),
    ("No HTTP version", "malformed_request"),
    ("POST with `chunked` as last transfer-encoding", "unknown_transfer_coding"),
    ("POST with `chunked` as last transfer-encoding (multiple headers)", "unknown_transfer_coding"),
];

#[test]
fn what_llhttp_takes_is_answered_but_for_a_few_that_are_known() {
    let Some(cases) = llhttp() else { return };
    let mut stricter = Vec::new();
    for Case { name, bytes, .. } in cases.iter().filter(|case| !case.refused) {
        let outcome = outcome(bytes);
        stricter.extend(outcome.refused.map(|code| (name.as_str(), code)));
    }
    assert_eq!(stricter, STRICTER);
}
