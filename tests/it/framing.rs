//! Where requests end: a pure function of the bytes, however they are split (RFC 9112). The definition of what is refused are
//! llhttp's cases: we may refuse more, never less.

mod chunks;

use parallax::http::input::Input;
use parallax::http::request::{Method, Parsed, parse};
use serde_json::Value;

use crate::harness::cases;

/// What became of a connection's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Outcome {
    /// The requests that would have been answered: method, path, content.
    answered: Vec<(String, String, Vec<u8>)>,
    /// The code of the refusal that ended it.
    refused: Option<&'static str>,
    /// Whether the client asked to close, with bytes behind.
    bytes_behind_close: bool,
    /// Whether bytes are left that are no whole request.
    unfinished: bool,
}

/// Feeds `pieces` as a connection would.
fn feed<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Outcome {
    let mut input = Input::new();
    let mut outcome = Outcome::default();
    for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            let mut buffer = input.take_buffer();
            let taken = rest.len().min(buffer.capacity() - buffer.len());
            assert!(taken > 0, "there is room for what is wanted");
            buffer.extend_from_slice(&rest[..taken]);
            input.give_buffer(buffer);
            rest = &rest[taken..];
            if !answer(&mut input, &mut outcome) {
                outcome.bytes_behind_close |= !rest.is_empty();
                return outcome;
            }
        }
    }
    outcome.unfinished = !input.unread().is_empty();
    outcome
}

/// Answers what is whole; false where the connection ends.
fn answer(input: &mut Input, outcome: &mut Outcome) -> bool {
    loop {
        match input.receive_body() {
            Ok(true) => {}
            Ok(false) => return true,
            Err(problem) => {
                outcome.refused = Some(problem.kind.code);
                return false;
            }
        }
        match parse(input.unread(), None) {
            Parsed::Partial => return true,
            Parsed::Refused(problem) => {
                outcome.refused = Some(problem.kind.code);
                return false;
            }
            Parsed::Whole(request, head_bytes) => {
                let Some(end) = input.end(&request, head_bytes) else {
                    let body = request.body;
                    input.expect_body(head_bytes, body);
                    continue;
                };
                let content = input.unread()[head_bytes..end].to_vec();
                let close = request.close;
                let method = if request.method == Method::Other { "other" } else { "known" };
                outcome.answered.push((method.to_owned(), request.path.to_owned(), content));
                input.consume(end);
                if close {
                    outcome.bytes_behind_close = !input.unread().is_empty();
                    return false;
                }
            }
        }
    }
}

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

#[test]
fn whatever_llhttp_refuses_is_refused() {
    let Some(cases) = llhttp() else { return };
    let refused: Vec<&Case> = cases.iter().filter(|case| case.refused).collect();
    assert_eq!(refused.len(), 53);
    for Case { name, bytes, messages, .. } in refused {
        let outcome = outcome(bytes);
        assert!(outcome.answered.len() <= (*messages).max(1), "{name}: {outcome:?}");
        // Some are cut where llhttp stops: it may refuse a value before its line has ended.
        let ended = [&bytes[..], b"\r\n\r\n"].concat();
        let outcome = if outcome.unfinished { self::outcome(&ended) } else { outcome };
        let ends = outcome.refused.is_some() || outcome.bytes_behind_close;
        assert!(ends, "{name}: {outcome:?} {:?}", String::from_utf8_lossy(bytes));
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
    ("QUERY request", "unknown_method"),
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
