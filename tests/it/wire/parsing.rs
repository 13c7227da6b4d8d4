//! Limits of a request's head and body, and the parsing of partial heads and of bytes after a head.

use parallax::testing::http::headers::Field;
use parallax::testing::http::request::{BodyFraming, Method, ParseOutcome, parse};
use proptest::prelude::*;
use serde_json::json;

use super::{SharedServer, page, problem, start_server};
use crate::harness::{Client, Response};

static SERVER: SharedServer = SharedServer::new(|| start_server(&[page("/", json!({}))]));

fn send_request(request: &str) -> (Response, bool) {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    client.send(request.as_bytes());
    let response = client.response(false);
    let closed = response.field("connection") == Some("close");
    if !closed {
        assert_eq!(client.request("GET", "/v1/routes?site=acme", &[]).status, 200);
    }
    (response, closed)
}

#[test]
fn a_target_has_at_most_8192_bytes() {
    let of_length = |n: usize| {
        let target = "/v1/routes?site=acme&pad=";
        format!("GET {target}{} HTTP/1.1\r\nHost: a\r\n\r\n", "p".repeat(n - target.len()))
    };
    for length in [8191, 8192] {
        assert_eq!(send_request(&of_length(length)).0.status, 200, "{length}");
    }
    for length in [8193, 12_000, 20_000] {
        let (response, closed) = send_request(&of_length(length));
        assert_eq!((problem(&response), closed), ((414, "target_too_long".into()), true), "{length}");
    }
}

#[test]
fn a_head_has_at_most_16_kib() {
    let of_length = |n: usize| {
        let start = "GET /v1/routes?site=acme HTTP/1.1\r\nHost: a\r\nX-Pad: ";
        format!("{start}{}\r\n\r\n", "p".repeat(n - start.len() - 4))
    };
    for length in [4095, 4096, 4097, 16 * 1024 - 1, 16 * 1024] {
        assert_eq!(of_length(length).len(), length);
        assert_eq!(send_request(&of_length(length)).0.status, 200, "{length}");
    }
    for length in [16 * 1024 + 1, 64 * 1024] {
        let (response, closed) = send_request(&of_length(length));
        assert_eq!((problem(&response), closed), ((431, "head_too_large".into()), true), "{length}");
    }
}

#[test]
fn a_head_has_at_most_64_fields() {
    let with = |n: usize| {
        let fields: String = (1..n).map(|i| format!("X-Field-{i}: {i}\r\n")).collect();
        format!("GET /v1/routes?site=acme HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
    };
    for count in [63, 64] {
        assert_eq!(send_request(&with(count)).0.status, 200, "{count}");
    }
    let (response, closed) = send_request(&with(65));
    assert_eq!((problem(&response), closed), ((431, "head_too_large".into()), true));
}

#[test]
fn a_body_has_at_most_512_kib_on_every_endpoint() {
    let of_length = |path: &str, n: usize| {
        format!("GET {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {n}\r\n\r\n{}", "b".repeat(n))
    };
    for length in [512 * 1024 - 1, 512 * 1024] {
        assert_eq!(send_request(&of_length("/v1/routes?site=acme", length)).0.status, 200, "{length}");
        assert_eq!(send_request(&of_length("/v1/nothing", length)).0.status, 404, "{length}");
    }
    for path in ["/v1/routes?site=acme", "/v1/nothing"] {
        let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 512 * 1024 + 1);
        // A line of the body may end with a bare LF.
        for body in ["", "a\nb"] {
            let (response, closed) = send_request(&format!("{head}{body}"));
            assert_eq!((problem(&response), closed), ((413, "body_too_large".into()), true), "{body:?}");
        }
    }
}

const REQUEST: &str = "HEAD http://a.example/v1/resolve?site=acme&route=/%20x HTTP/1.1\r\nHost: a.example\r\n\
                       CF-IPCountry: NO\r\nX-Anon-Id:  v1 \r\nContent-Length: 7\r\nCookie: a=b\r\n\r\n";

#[test]
fn a_head_is_partial_until_its_last_byte_has_arrived() {
    let bytes = format!("{REQUEST}GET / HTTP/1.1\r\n");
    for end in 0..REQUEST.len() {
        assert!(matches!(parse(&bytes.as_bytes()[..end], None), ParseOutcome::Partial), "{end}");
    }
    for end in REQUEST.len()..=bytes.len() {
        let ParseOutcome::Complete(request, length) = parse(&bytes.as_bytes()[..end], Some("cf-ipcountry"))
        else {
            panic!("{end}")
        };
        assert_eq!(
            (length, request.method, request.body_framing),
            (REQUEST.len(), Method::Head, BodyFraming::Length(7))
        );
        assert_eq!((request.path, request.query), ("/v1/resolve", "site=acme&route=/%20x"));
        let fields = &request.headers;
        assert_eq!(
            (fields.get(Field::Country), fields.get(Field::AnonId)),
            (Some(&b"NO"[..]), Some(&b"v1"[..]))
        );
        assert_eq!(
            (fields.get(Field::Cookie), fields.get(Field::Host)),
            (Some(&b"a=b"[..]), Some(&b"a.example"[..]))
        );
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic_the_parser(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let ParseOutcome::Complete(_, length) = parse(&bytes, None) {
            prop_assert!(length <= bytes.len());
        }
    }

    #[test]
    fn a_parsed_head_does_not_depend_on_the_following_bytes(rest in prop::collection::vec(any::<u8>(), 0..50)) {
        let bytes = [REQUEST.as_bytes(), &rest].concat();
        let ParseOutcome::Complete(request, length) = parse(&bytes, None) else { panic!("the head is incomplete") };
        prop_assert_eq!((length, request.query), (REQUEST.len(), "site=acme&route=/%20x"));
    }
}

#[test]
fn a_malformed_request_line_gets_400_and_says_why() {
    for line in
        ["GET / HTTP/1", "GET / HTTP/1.1.1", "GET / http/2.0", "GET / ICE/1.0", "GET / HTTP/x.1", "GET /"]
    {
        let (response, closed) = send_request(&format!("{line}\r\nHost: a\r\n\r\n"));
        assert_eq!((problem(&response), closed), ((400, "malformed_request".into()), true), "{line}");
    }
    let (response, _) = send_request("GET /v1/routes?site=a b HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(response.status, 400);
    let detail = "The request target has an unescaped space; write it as %20.";
    assert_eq!(response.json()["detail"], detail);
}

#[test]
fn a_transfer_encoding_must_end_with_chunked() {
    let malformed = (400, "malformed_request");
    for (fields, expected) in [
        ("Transfer-Encoding: gzip\r\n", malformed),
        ("Transfer-Encoding: identity\r\n", malformed),
        ("Transfer-Encoding:\r\n", malformed),
        ("Transfer-Encoding: xchunked\r\n", malformed),
        ("Transfer-Encoding: chunked, gzip\r\n", malformed),
        ("Transfer-Encoding: chunked, chunked\r\n", malformed),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n", malformed),
        ("Transfer-Encoding: gzip, chunked\r\n", (501, "unknown_transfer_coding")),
        ("Transfer-Encoding: gzip\r\nTransfer-Encoding: Chunked\r\n", (501, "unknown_transfer_coding")),
    ] {
        let request = format!("POST /v1/query HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let (response, closed) = send_request(&request);
        assert_eq!(
            (response.status, response.code().as_str(), closed),
            (expected.0, expected.1, true),
            "{fields:?}"
        );
    }
}

#[test]
fn framing_is_checked_before_limits_and_expectations() {
    let long = "p".repeat(9_000);
    for (target, fields, expected) in [
        (long.as_str(), "Expect: tea\r\n", 414),
        (long.as_str(), "Host: b\r\n", 400),
        ("", "Expect: tea\r\nHost: b\r\n", 400),
        ("", "Expect: tea\r\nContent-Length: 600000\r\n", 417),
        ("", "Expect: tea\r\nContent-Length: x\r\n", 400),
    ] {
        let request = format!("POST /v1/query?{target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        assert_eq!(send_request(&request).0.status, expected, "{fields:?}");
    }
}

#[test]
fn a_host_in_brackets_is_an_ip_address() {
    for (host, status) in [
        ("[::1]", 200),
        ("[2001:db8::7]:8080", 200),
        ("[::ffff:192.0.2.1]", 200),
        ("[v1.fe:80]", 200),
        ("[zz]", 400),
        ("[]", 400),
        ("[v1.]", 400),
        ("[vg.a]", 400),
        ("[::1", 400),
        ("[1.2.3.4]", 400),
    ] {
        let request = format!("GET /v1/openapi.json HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(send_request(&request).0.status, status, "{host}");
    }
}
