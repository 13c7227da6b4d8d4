//! HTTP for well-formed clients: persistent connections, closing, pipelining, methods and problem documents.

use serde_json::json;

use super::{SharedServer, comparable, page, problem, start_server};
use crate::harness::{Client, Response};

static SERVER: SharedServer =
    SharedServer::new(|| start_server(&[page("/", json!({})), page("/:n", json!({}))]));

const LAYOUT: &str = "/v1/resolve?site=acme&route=/&variants=";

/// Sends these bytes and returns the bytes that the server sends before it closes.
fn read_until_close(bytes: &str) -> String {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    client.send(bytes.as_bytes());
    String::from_utf8(client.read_to_end()).expect("UTF-8")
}

#[test]
fn a_connection_serves_several_requests() {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    let first = comparable(client.request("GET", LAYOUT, &[]));
    assert_eq!((first.status, first.field("connection")), (200, None));
    for _ in 0..50 {
        assert_eq!(comparable(client.request("GET", LAYOUT, &[])), first);
    }
    assert_eq!(client.request("GET", "/v1/nothing", &[]).status, 404);
    assert_eq!(client.request("HEAD", LAYOUT, &[]).status, 200);
    assert_eq!(comparable(client.request("GET", LAYOUT, &[("Connection", "keep-alive")])), first);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    let request = |n: usize| match n % 4 {
        0 => format!("GET /v1/resolve?site=acme&route=/{n} HTTP/1.1\r\nHost: a\r\n\r\n"),
        1 => {
            format!("HEAD /v1/resolve?site=acme&route=/{n} HTTP/1.1\r\nHost: a\r\nX-Request-Id: r{n}\r\n\r\n")
        }
        2 => format!("GET /v1/nothing/{n} HTTP/1.1\r\nHost: a\r\nX-Request-Id: r{n}\r\n\r\n"),
        _ => format!(
            "GET /v1/resolve?site=acme&route=/{n} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nGET "
        ),
    };
    client.send((0..16).map(request).collect::<String>().as_bytes());
    for n in 0..16 {
        let response = client.response(n % 4 == 1);
        match n % 4 {
            1 => assert_eq!(response.field("x-request-id"), Some(&*format!("r{n}"))),
            2 => assert_eq!(
                (response.status, response.json()["requestId"].clone()),
                (404, json!(format!("r{n}")))
            ),
            _ => assert_eq!(response.json()["route"], format!("/{n}")),
        }
    }
    assert_eq!(client.request("GET", LAYOUT, &[]).status, 200);
}

#[test]
fn a_request_may_arrive_in_two_parts() {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    let whole = comparable(client.request("GET", LAYOUT, &[]));
    let request = format!("GET {LAYOUT} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    for at in 1..request.len() {
        let (first, second) = request.split_at(at);
        client.send(first.as_bytes());
        client.send(second.as_bytes());
        assert_eq!(comparable(client.response(false)), whole, "split at {at}");
    }
}

#[test]
fn the_body_of_a_get_is_skipped() {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    let whole = comparable(client.request("GET", LAYOUT, &[]));
    for body in ["x", "GET / HTTP/1.1\r\n\r\n", &"b".repeat(20_000)] {
        let length = body.len().to_string();
        client.send(
            format!("GET {LAYOUT} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}").as_bytes(),
        );
        assert_eq!(comparable(client.response(false)), whole);
    }
    assert_eq!(comparable(client.request("GET", LAYOUT, &[("Content-Length", "0")])), whole);
}

#[test]
fn connection_close_is_case_insensitive_and_may_be_in_a_list() {
    for value in ["close", "Close", "keep-alive, close", "CLOSE , te"] {
        let server = SERVER.get();
        let mut client = Client::to(server.edge);
        let response = client.request("GET", LAYOUT, &[("Connection", value)]);
        assert_eq!((response.status, response.field("connection")), (200, Some("close")), "{value}");
        assert!(client.is_closed(), "{value}");
    }
    for value in ["closed", "keep-alive", "xclose"] {
        assert_eq!(
            Client::to(SERVER.get().edge)
                .request("GET", LAYOUT, &[("Connection", value)])
                .field("connection"),
            None,
            "{value}"
        );
    }
}

#[test]
fn requests_after_connection_close_are_not_answered() {
    let get = |more: &str| format!("GET {LAYOUT} HTTP/1.1\r\nHost: a\r\n{more}\r\n");
    let text = read_until_close(&format!("{}{}{}", get(""), get("Connection: close\r\n"), get("")));
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2);
}

#[test]
fn an_http_1_0_request_gets_an_http_1_1_response_and_a_close() {
    for fields in ["", "Host: a\r\n", "Connection: keep-alive\r\n"] {
        let text = read_until_close(&format!("GET {LAYOUT} HTTP/1.0\r\n{fields}\r\n"));
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains("\r\nConnection: close\r\n"), "{text}");
        assert!(text.ends_with("}}"), "{text}");
    }
}

#[test]
fn a_target_may_be_absolute() {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    let whole = comparable(client.request("GET", LAYOUT, &[]));
    for authority in ["http://localhost", "https://edge.example:8443", "HTTP://[::1]:80", "hTTpS://a"] {
        assert_eq!(
            comparable(client.request("GET", &format!("{authority}{LAYOUT}"), &[])),
            whole,
            "{authority}"
        );
    }
    assert_eq!(client.request("GET", "http://localhost", &[]).code(), "unknown_endpoint");
    assert_eq!(client.request("GET", "http://localhost?site=acme", &[]).code(), "unknown_endpoint");
    for target in ["http:/a/v1/routes", "httpx://a/v1/routes", "ftp://a/v1/routes", "http://", "HTTP://u@a/"]
    {
        let response = Client::to(server.edge).request("GET", target, &[]);
        assert_eq!(problem(&response), (400, "malformed_request".into()), "{target}");
    }
}

#[test]
fn options_lists_the_allowed_methods() {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    for target in ["*", "/v1/routes", "/v1/resolve?x", "/v1/variants"] {
        let response = client.request("OPTIONS", target, &[]);
        assert_eq!((response.status, response.field("allow")), (204, Some("GET, HEAD, OPTIONS")), "{target}");
        assert_eq!(response.field("content-length"), None);
    }
    assert_eq!(problem(&client.request("OPTIONS", "/v1/nothing", &[])), (404, "unknown_endpoint".into()));
    assert_eq!(problem(&client.request("GET", "*", &[])), (400, "malformed_request".into()));
}

#[test]
fn an_unsupported_method_gets_405_with_allow() {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    for method in ["PUT", "DELETE", "PATCH", "TRACE", "POST"] {
        let response = client.request(method, "/v1/resolve?site=gamma", &[]);
        assert_eq!(problem(&response), (405, "method_not_allowed".into()), "{method}");
        assert_eq!(response.field("allow"), Some("GET, HEAD, OPTIONS"));
        assert_eq!(problem(&client.request(method, "/v1/nothing", &[])).1, "unknown_endpoint");
    }
}

/// Sends this head alone, expects a problem and a close, and returns the status and code.
fn rejected_head(head: &str) -> (u16, String) {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    client.send(head.as_bytes());
    let response = client.response(false);
    assert_eq!(response.field("connection"), Some("close"), "{head}");
    assert!(client.is_closed(), "{head}");
    problem(&response)
}

#[test]
fn an_unknown_method_gets_501() {
    for method in ["BREW", "get", "GETS", "query", "M-SEARCH"] {
        let head = format!("{method} /v1/resolve HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(rejected_head(&head), (501, "unknown_method".into()), "{method}");
    }
}

#[test]
fn an_unsupported_http_version_gets_505() {
    for version in ["HTTP/2.0", "HTTP/1.2", "HTTP/0.9"] {
        let head = format!("GET / {version}\r\nHost: a\r\n\r\n");
        assert_eq!(rejected_head(&head), (505, "unsupported_version".into()), "{version}");
    }
}

#[test]
fn an_http_1_1_request_has_exactly_one_host() {
    for hosts in ["", "Host: a\r\nHost: a\r\n", "Host: a\r\nhost: b\r\n"] {
        let head = format!("GET {LAYOUT} HTTP/1.1\r\n{hosts}\r\n");
        assert_eq!(rejected_head(&head), (400, "malformed_request".into()), "{hosts}");
    }
    assert_eq!(rejected_head("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n").1, "malformed_request");
}

#[test]
fn field_names_are_case_insensitive() {
    let text = read_until_close(&format!(
        "GET {LAYOUT} HTTP/1.1\r\nhOsT: a\r\nCONNECTION: close\r\naccept-ENCODING:gzip\r\n\r\n"
    ));
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
}

#[test]
fn an_expectation_other_than_100_continue_gets_417() {
    let head = |more: &str| format!("GET {LAYOUT} HTTP/1.1\r\nHost: a\r\n{more}\r\n");
    assert_eq!(rejected_head(&head("Expect: 200-ok\r\n")), (417, "expectation_failed".into()));
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    client.send(head("Expect: 100-continue\r\nContent-Length: 5\r\n").as_bytes());
    assert_eq!(client.response(true).status, 100);
    client.send(b"abcde");
    assert_eq!(client.response(false).status, 200);
    // A client that does not wait for the interim response does not get one.
    client.send(format!("{}abcde", head("Expect: 100-continue\r\nContent-Length: 5\r\n")).as_bytes());
    assert_eq!(client.response(false).status, 200);
    client.send(head("Expect: 100-continue\r\n").as_bytes());
    assert_eq!(client.response(false).status, 200);
}

fn assert_problem_document(response: &Response, code: &str) {
    assert_eq!(response.field("content-type"), Some("application/problem+json"));
    let body = response.json();
    assert_eq!(body["type"], format!("/v1/problems/{code}"));
    assert_eq!(body["code"], code);
    assert_eq!(body["status"], response.status);
    for text in ["title", "detail"] {
        assert!(body[text].as_str().is_some_and(|t| !t.is_empty()), "{body}");
    }
}

#[test]
fn problems_are_rfc_9457_documents() {
    let server = SERVER.get();
    for (target, code, param) in [
        ("/v1/nothing", "unknown_endpoint", None),
        ("/v1/resolve", "missing_site", None),
        ("/v1/resolve?site=acme", "missing_route", Some("route")),
        ("/v1/resolve?site=acme&route=/&variants=%22%0A%00%C3%A9", "invalid_variants", Some("variants")),
        ("/v1/routes?site=acme&limit=x", "invalid_limit", Some("limit")),
    ] {
        let response = server.get(target);
        assert_problem_document(&response, code);
        let body = response.json();
        assert_eq!(body["requestId"].as_str(), response.field("x-request-id"));
        assert_eq!(body.get("param").and_then(|p| p.as_str()), param, "{target}");
        assert_eq!((response.field("etag"), response.field("cache-control")), (None, Some("no-store")));
    }
}

#[test]
fn a_detail_truncates_the_received_value_at_100_characters() {
    let server = SERVER.get();
    for length in [99, 100, 101, 2000] {
        let target = format!("/v1/resolve?site=acme&route={}", "%C3%A9".repeat(length.min(1300)));
        let detail = server.get(&target).json()["detail"].as_str().expect("text").to_owned();
        assert_eq!(detail.matches('é').count(), length.min(100), "{length}");
        assert_eq!(detail.contains('…'), length > 100, "{length}");
    }
}

#[test]
fn the_404_of_a_route_is_public_and_equal_for_all_clients() {
    let server = SERVER.get();
    for more in ["&variants=", "&variants=hero:b"] {
        let target = format!("/v1/resolve?site=acme&route=/not/published{more}");
        let response = server.get_with(&target, &[("X-Request-Id", "mine"), ("Origin", "https://a.example")]);
        assert_eq!(response.status, 404);
        assert_problem_document(&response, "route_not_found");
        assert_eq!(response.field("cache-control"), Some("public, s-maxage=10"));
        assert_eq!(response.json().get("requestId"), None);
        assert_ne!(response.field("x-request-id"), Some("mine"));
        assert_eq!(
            comparable(response),
            comparable(server.get("/v1/resolve?site=acme&route=/not/published&variants="))
        );
    }
}
