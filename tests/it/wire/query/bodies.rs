//! Bodies of `POST /v1/query`: content types, codings, sizes, partial arrival, and pipelining.

use std::io::Write;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use super::{SERVER, get, ids, target};
use crate::harness::{self, Client, Response};
use crate::wire::{comparable, problem};

const BODY_BYTES_MAX: usize = 512 * 1024;
const BODY: &[u8] = br#"{"site":"acme","query":"latest","params":{"category":"guides"}}"#;

fn post(fields: &[(&str, &str)], body: &[u8]) -> Response {
    SERVER.get().post("/v1/query", fields, body)
}

#[test]
fn json_with_the_content_type_of_a_form_is_read_as_json() {
    let plain = get("latest", "&params.category=guides").body;
    let form = ("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8");
    assert_eq!(post(&[form], BODY).body, plain);
    assert_eq!(post(&[form], &[b"\r\n ", BODY].concat()).body, plain);
    assert_eq!(post(&[form, ("Content-Encoding", "gzip")], &gzip(BODY)).body, plain);
    assert_eq!(problem(&post(&[form], b"[]")), (400, "malformed_json".into()));
    for body in [&b""[..], b"query=latest", b"%7B%7D", b"\"{\""] {
        assert_eq!(problem(&post(&[form], body)), (415, "unsupported_type".into()), "{body:?}");
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).expect("writing to memory succeeds");
    encoder.finish().expect("writing to memory succeeds")
}

/// Returns a body with a size of `bytes` that requests all posts.
fn body_of_size(bytes: usize) -> Vec<u8> {
    let framing = r#"{"site":"acme","query":"all","filler":""}"#.len();
    format!(r#"{{"site":"acme","query":"all","filler":"{}"}}"#, "x".repeat(bytes - framing)).into_bytes()
}

#[test]
fn only_supported_content_types_are_read_as_json() {
    let plain = get("latest", "&params.category=guides").body;
    for name in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;charset=\"UTF-8\"",
        " application/json ; x=y",
        "text/plain",
        "text/plain;charset=UTF-8",
        "",
    ] {
        assert_eq!(post(&[("Content-Type", name)], BODY).body, plain, "{name}");
    }
    assert_eq!(post(&[], BODY).body, plain);
    for name in [
        "application/xml",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "application/problem+json",
        "text/html",
        "json",
        "text/plain, application/json",
    ] {
        let refused = post(&[("Content-Type", name)], BODY);
        assert_eq!(problem(&refused), (415, "unsupported_type".into()), "{name}");
        assert!(refused.json()["detail"].as_str().is_some_and(|detail| detail.contains(name)), "{name}");
    }
}

#[test]
fn a_body_that_is_no_json_object_is_refused() {
    let deep = "[".repeat(400 * 1024);
    let long = format!("{{\"site\":\"{}", "x".repeat(100 * 1024));
    for body in [
        "",
        " ",
        "{",
        "[]",
        "[{\"site\":\"acme\",\"query\":\"all\"}]",
        "null",
        "\"acme\"",
        "7",
        "{\"site\":\"acme\",\"query\":\"all\"",
        "{\"site\":\"acme\",\"query\":\"al",
        "{\"site\":\"acme\",\"query\":\"all\",}",
        "{\"site\":\"acme\" \"query\":\"all\"}",
        "{\"site\":\"acme\",\"query\":\"all\"} {}",
        "{\"site\":\"acme\",\"query\":\"all\"}\0",
        "{'site':'acme'}",
        "{\"site\":\"ac\nme\"}",
        "{\"x\":01}",
        "{\"x\":NaN}",
        "{\"x\":[1,2}",
        "{\"x\":tru}",
        "site=acme&query=all",
        &deep,
        &format!("{{\"x\":{deep}"),
        &long,
    ] {
        let refused = post(&[], body.as_bytes());
        assert_eq!(problem(&refused), (400, "malformed_json".into()), "{:.60}", body);
        assert!(refused.body.len() < 1024, "{}", refused.text());
    }
    let refused = post(&[], br#"{"site":"acme","query":"all",}"#);
    assert_eq!(refused.json()["detail"], "Expected a JSON object, got '}'.");
}

#[test]
fn a_body_that_is_not_utf_8_is_refused() {
    for body in [
        &b"{\"site\":\"acme\",\"query\":\"all\",\"x\":\"\xff\"}"[..],
        b"\xff\xfe{\0}\0",
        b"{\"x\":\"\xed\xa0\x80\"}",
    ] {
        let refused = post(&[], body);
        assert_eq!(problem(&refused), (400, "malformed_json".into()));
        assert_eq!(refused.json()["detail"], "The body is not UTF-8.");
    }
}

#[test]
fn deep_nesting_in_an_unknown_member_is_ignored() {
    let (open, close) = ("[".repeat(200_000), "]".repeat(200_000));
    let body = format!(r#"{{"x":{open}{close},"site":"acme","query":"all"}}"#);
    assert_eq!(ids(&post(&[], body.as_bytes())).len(), 6);
    let body = format!(r#"{{"site":"acme","query":"latest","params":{{"category":{open}{close}}}}}"#);
    assert_eq!(problem(&post(&[], body.as_bytes())), (400, "invalid_param".into()));
}

#[test]
fn a_body_may_be_compressed_with_gzip() {
    let plain = get("latest", "&params.category=guides").body;
    for coding in ["gzip", "GZIP", "x-gzip", " gzip "] {
        assert_eq!(post(&[("Content-Encoding", coding)], &gzip(BODY)).body, plain, "{coding}");
    }
    for coding in ["identity", "Identity", ""] {
        assert_eq!(post(&[("Content-Encoding", coding)], BODY).body, plain, "{coding}");
    }
    for coding in ["br", "deflate", "zstd", "gzip, gzip", "gzip, br", "*"] {
        let refused = post(&[("Content-Encoding", coding)], &gzip(BODY));
        assert_eq!(problem(&refused), (415, "unsupported_encoding".into()), "{coding}");
    }
}

#[test]
fn a_corrupt_gzip_body_is_refused() {
    let whole = gzip(BODY);
    let mut checksum = whole.clone();
    *checksum.iter_mut().nth_back(5).expect("a trailer") ^= 1;
    let broken =
        [&b""[..], BODY, &whole[..5], &whole[..whole.len() / 2], &whole[..whole.len() - 1], &checksum];
    for body in broken {
        let refused = post(&[("Content-Encoding", "gzip")], body);
        assert_eq!(problem(&refused), (400, "malformed_json".into()));
        let detail = "The body is not valid gzip, as Content-Encoding says, or has other bytes after it.";
        assert_eq!(refused.json()["detail"], detail);
    }
    assert_eq!(problem(&post(&[], &whole)), (400, "malformed_json".into()));
}

#[test]
fn a_body_has_at_most_512_kib_before_and_after_inflation() {
    for bytes in [BODY_BYTES_MAX - 1, BODY_BYTES_MAX] {
        assert_eq!(ids(&post(&[], &body_of_size(bytes))).len(), 6, "{bytes}");
        let response = post(&[("Content-Encoding", "gzip")], &gzip(&body_of_size(bytes)));
        assert_eq!(ids(&response).len(), 6, "{bytes}");
    }
    let too_large = (413, "body_too_large".to_owned());
    assert_eq!(
        problem(&post(&[("Content-Encoding", "gzip")], &gzip(&body_of_size(BODY_BYTES_MAX + 1)))),
        too_large
    );
    let bomb = gzip(&vec![b' '; 64 * 1024 * 1024]);
    assert!(bomb.len() <= BODY_BYTES_MAX, "{}", bomb.len());
    assert_eq!(problem(&post(&[("Content-Encoding", "gzip")], &bomb)), too_large);
    for endpoint in ["query", "resolve", "nothing"] {
        let mut client = Client::to(SERVER.get().edge);
        client.send(
            format!(
                "POST /v1/{endpoint} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
                BODY_BYTES_MAX + 1
            )
            .as_bytes(),
        );
        let refused = client.response(false);
        assert_eq!((problem(&refused), refused.field("connection")), (too_large.clone(), Some("close")));
        assert!(client.is_closed());
    }
}

/// Returns how long the server takes to refuse a body with two runs of 20,000 members in `params`. The names
/// in each run are consecutive numbers.
fn time_to_refuse(client: &mut Client, from: usize, and_from: usize) -> Duration {
    let numbers = (from..from + 20_000).chain(and_from..and_from + 20_000);
    let members: String = numbers.map(|number| format!("\"{number:x}\":1,")).collect();
    let body = format!(r#"{{"site":"acme","query":"latest","params":{{{members}"category":"news"}}}}"#);
    let start = Instant::now();
    assert_eq!(problem(&client.post("/v1/query", &[], body.as_bytes())), (400, "invalid_param".into()));
    start.elapsed()
}

#[test]
fn duplicate_members_cost_no_more_than_distinct_ones() {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    let (mut duplicate, mut distinct) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..5 {
        duplicate += time_to_refuse(&mut client, 0x10000, 0x10000);
        distinct += time_to_refuse(&mut client, 0x10000, 0x20000);
    }
    // Comparing each name with each other name would take hundreds of times as long.
    assert!(
        duplicate < distinct * 10,
        "duplicate names took {duplicate:?}, distinct names took {distinct:?}"
    );
}

#[test]
fn a_body_may_arrive_byte_by_byte() {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    let whole = comparable(client.post("/v1/query", &[], BODY));
    assert_eq!(whole.status, 200);
    for byte in harness::post("/v1/query", &[("Content-Type", "application/json")], BODY) {
        client.send(&[byte]);
    }
    assert_eq!(comparable(client.response(false)), whole);
    let request = harness::post("/v1/query", &[], BODY);
    for at in 1..request.len() {
        let (first, second) = request.split_at(at);
        client.send(first);
        client.send(second);
        assert_eq!(comparable(client.response(false)), whole, "split at {at}");
    }
    let large = harness::post("/v1/query", &[], &body_of_size(BODY_BYTES_MAX));
    for part in large.chunks(10_007) {
        client.send(part);
    }
    assert_eq!(ids(&client.response(false)).len(), 6);
}

#[test]
fn posts_and_gets_share_a_connection_in_any_order() {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    let get = |limit: usize| {
        format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", target("all", &format!("&limit={limit}")))
    };
    let post = |limit: usize| {
        // The body contains the text of a request, which the server must not parse as one.
        let body = json!({ "site": "acme", "query": "all", "limit": limit, "x": get(9) }).to_string();
        harness::post("/v1/query", &[], body.as_bytes())
    };
    let refused = harness::post("/v1/query", &[], get(1).as_bytes());
    let sent: Vec<u8> = (0..24)
        .flat_map(|n| match n % 3 {
            0 => post(n / 3 % 6 + 1),
            1 => get(n / 3 % 6 + 1).into_bytes(),
            _ => refused.clone(),
        })
        .collect();
    client.send(&sent);
    for n in 0..24 {
        let response = client.response(false);
        match n % 3 {
            2 => assert_eq!(problem(&response), (400, "malformed_json".into())),
            _ => assert_eq!(ids(&response).len(), n / 3 % 6 + 1, "{n}"),
        }
    }
    client.send(&harness::post("/v1/query", &[], &body_of_size(BODY_BYTES_MAX)));
    client.send(get(2).as_bytes());
    client.send(&harness::post("/v1/nothing", &[], &body_of_size(BODY_BYTES_MAX)));
    client.send(&post(3));
    assert_eq!([(); 2].map(|()| ids(&client.response(false)).len()), [6, 2]);
    assert_eq!(problem(&client.response(false)), (404, "unknown_endpoint".into()));
    assert_eq!(ids(&client.response(false)).len(), 3);
}

#[test]
fn a_client_that_expects_100_continue_gets_it_after_the_head() {
    let server = SERVER.get();
    let plain = get("latest", "&params.category=guides").body;
    let request = harness::post("/v1/query", &[("Expect", "100-Continue")], BODY);
    let (head, body) = request.split_at(request.len() - BODY.len());
    let mut client = Client::to(server.edge);
    for _ in 0..3 {
        client.send(head);
        let interim = client.response(false);
        assert_eq!((interim.status, interim.fields.len()), (100, 0));
        client.send(&body[..10]);
        client.send(&body[10..]);
        assert_eq!(client.response(false).body, plain);
        // A request whose body has already arrived gets no interim response.
        client.send(&request);
        assert_eq!(client.response(false).body, plain);
    }
    let refused = client.post("/v1/query", &[("Expect", "200-maybe")], BODY);
    assert_eq!(
        (problem(&refused), refused.field("connection")),
        ((417, "expectation_failed".into()), Some("close"))
    );
}

#[test]
fn a_body_without_a_length_is_empty_unless_it_is_chunked() {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    assert_eq!(problem(&client.request("POST", "/v1/query", &[])), (400, "malformed_json".into()));
    let head = "POST /v1/query HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (first, second) = BODY.split_at(7);
    for piece in
        [head.as_bytes(), b"7;a=b\r\n", first, format!("\r\n{:X}\r\n", second.len()).as_bytes(), second]
    {
        client.send(piece);
    }
    client.send(b"\r\n0\r\nDigest: x\r\n\r\n");
    assert_eq!(client.response(false).body, get("latest", "&params.category=guides").body);
    client.send(format!("{head}7\nabc").as_bytes());
    let refused = client.response(false);
    assert_eq!(
        (problem(&refused), refused.field("connection")),
        ((400, "malformed_request".into()), Some("close"))
    );
    let mut client = Client::to(server.edge);
    let unknown = client.request("POST", "/v1/query", &[("Transfer-Encoding", "gzip, chunked")]);
    assert_eq!(
        (problem(&unknown), unknown.field("connection")),
        ((501, "unknown_transfer_coding".into()), Some("close"))
    );
    let mut client = Client::to(server.edge);
    let old = harness::post("/v1/query", &[], BODY);
    client.send(&String::from_utf8(old).expect("text").replace("HTTP/1.1", "HTTP/1.0").into_bytes());
    let response = client.response(false);
    assert_eq!((ids(&response).len(), response.field("connection")), (2, Some("close")));
    assert!(client.is_closed());
}

#[test]
fn a_body_that_is_no_object_is_quoted_from_its_begin() {
    for body in ["5", "true", "null", "-1.5e3", "\"text\"", "[1, 2]", "  false"] {
        let response = post(&[], body.as_bytes());
        assert_eq!(problem(&response), (400, "malformed_json".into()), "{body}");
        let detail = format!("Expected a JSON object, got '{}'.", body.trim());
        assert_eq!(response.json()["detail"], detail, "{body}");
    }
    let marked = [b"\xEF\xBB\xBF", BODY].concat();
    assert_eq!(post(&[], &marked).body, post(&[], BODY).body, "a byte order mark is skipped");
}
