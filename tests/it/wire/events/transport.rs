//! Event requests on the wire: methods, pipelining, partial arrival, chunks, and order of checks.

use serde_json::json;

use super::super::problem;
use super::{
    SERVER, counts, expected_problem, only_record, post, problem_with_pointer, records_of, start_with_flags,
    unique_id,
};
use crate::harness::{self, Client};
use crate::logged;

fn event(anon_id: &str, name: &str) -> String {
    json!({ "site": "acme", "anonId": anon_id, "event": name }).to_string()
}

#[test]
fn event_endpoints_accept_only_post() {
    let mut client = Client::to(SERVER.get().edge);
    for path in ["/v1/page", "/v1/track", "/v1/batch", "/v1/import", "/v1/i"] {
        for method in ["GET", "HEAD", "PUT", "DELETE"] {
            client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            let response = client.response(method == "HEAD");
            assert_eq!(
                (response.status, response.field("allow")),
                (405, Some("POST, OPTIONS")),
                "{method} {path}"
            );
            if method != "HEAD" {
                assert_eq!(response.code(), "method_not_allowed");
            }
        }
        assert_eq!(client.request("OPTIONS", path, &[]).field("allow"), Some("POST, OPTIONS"));
    }
}

#[test]
fn pipelined_events_and_gets_are_answered_in_order() {
    let (server, id) = (SERVER.get(), unique_id("piped"));
    let mut bytes = Vec::new();
    for n in 0..40 {
        bytes.extend(harness::post(
            "/v1/track",
            &[("X-Request-Id", &format!("e{n}"))],
            event(&id, &n.to_string()).as_bytes(),
        ));
        bytes.extend(
            format!("GET /v1/resolve?site=acme&route=/ HTTP/1.1\r\nHost: a\r\nX-Request-Id: g{n}\r\n\r\n")
                .bytes(),
        );
        let wrong = [("X-Request-Id", &*format!("w{n}"))];
        bytes.extend(harness::post("/v1/page", &wrong, b"{"));
    }
    let mut client = Client::to(server.edge);
    client.send(&bytes);
    let mut last = None;
    for n in 0..40 {
        let receipt = client.response(false);
        assert_eq!(
            (counts(&receipt), receipt.field("x-request-id")),
            ([1, 0, 0, 0], Some(&*format!("e{n}")))
        );
        last = Some(receipt);
        let response = client.response(false);
        assert_eq!((response.status, response.field("x-request-id")), (200, Some(&*format!("g{n}"))));
        let response = client.response(false);
        assert_eq!((response.status, response.field("x-request-id")), (400, Some(&*format!("w{n}"))));
    }
    let records = records_of(&last.expect("40 receipts"), &id);
    let names: Vec<_> =
        records.iter().map(|record| record["event"].as_str().expect("a name").to_owned()).collect();
    assert_eq!(names, (0..40).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn an_event_may_arrive_in_two_parts() {
    let (server, id) = (SERVER.get(), unique_id("split"));
    let request = harness::post("/v1/track", &[], event(&id, "e").as_bytes());
    let mut client = Client::to(server.edge);
    for at in 1..request.len() {
        let (first, second) = request.split_at(at);
        client.send(first);
        client.send(second);
        assert_eq!(counts(&client.response(false)), [1, 0, 0, 0], "split at {at}");
    }
}

#[test]
fn chunked_events_may_be_pipelined() {
    let (server, id) = (SERVER.get(), unique_id("chunked"));
    let mut client = Client::to(server.edge);
    let head = "POST /v1/track HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunked = |text: &str| -> String {
        let chunks = text.as_bytes().chunks(7).map(|chunk| {
            format!("{:x};x=y\r\n{}\r\n", chunk.len(), std::str::from_utf8(chunk).expect("ASCII"))
        });
        format!("{head}{}0\r\nTrailer: t\r\n\r\n", chunks.collect::<String>())
    };
    let both = format!("{}{}", chunked(&event(&id, "one")), chunked(&event(&id, "two")));
    client.send(both.as_bytes());
    client.response(false);
    let records = records_of(&client.response(false), &id);
    assert_eq!(
        (records.len(), &records[0]["event"], &records[1]["event"]),
        (2, &json!("one"), &json!("two"))
    );
    assert_eq!(client.request("GET", "/v1/routes?site=acme", &[]).status, 200);
}

#[test]
fn a_client_that_expects_100_continue_gets_it() {
    let (server, id) = (SERVER.get(), unique_id("continued"));
    let mut client = Client::to(server.edge);
    let request = harness::post("/v1/track", &[("Expect", "100-continue")], event(&id, "e").as_bytes());
    let head = request.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4;
    client.send(&request[..head]);
    assert_eq!(client.response(true).status, 100);
    client.send(&request[head..]);
    only_record(&client.response(false), &id);
}

#[test]
fn an_http_1_0_event_is_answered_and_its_connection_closed() {
    let (server, id) = (SERVER.get(), unique_id("old"));
    let body = event(&id, "e");
    for fields in ["HTTP/1.0\r\n", "HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"] {
        let mut client = Client::to(server.edge);
        client
            .send(format!("POST /v1/track {fields}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
        let response = client.response(false);
        assert_eq!((counts(&response), response.field("connection")), ([1, 0, 0, 0], Some("close")));
        assert!(client.is_closed());
    }
}

#[test]
fn a_client_that_disconnects_early_does_not_affect_others() {
    let server = start_with_flags(&[]);
    let mut steady = Client::to(server.edge);
    for n in 0..200 {
        let mut leaving = Client::to(server.edge);
        let event = event("goes", &n.to_string());
        leaving.send(
            &[
                harness::post("/v1/track", &[], event.as_bytes()),
                harness::post("/v1/track", &[], event.as_bytes()),
            ]
            .concat(),
        );
        drop(leaving);
        let receipt = steady.post("/v1/track", &[], self::event("stays", &n.to_string()).as_bytes());
        assert_eq!(counts(&receipt), [1, 0, 0, 0]);
        if n == 199 {
            let records = logged::records_up_to(server.data(), &receipt);
            let names: Vec<_> = records
                .iter()
                .filter(|record| record["anonId"] == "stays")
                .map(|record| &record["event"])
                .collect();
            let sent: Vec<_> = (0..200).map(|n| json!(n.to_string())).collect();
            assert!(names.into_iter().eq(&sent));
        }
    }
    assert_eq!(server.get("/v1/routes?site=acme").status, 200);
    assert!(!server.log().contains("panic"), "{}", server.log());
}

#[test]
fn the_body_is_checked_before_the_site() {
    let response = SERVER.get().post("/v1/track?site=nobody", &[("Content-Type", "text/html")], b"{");
    assert_eq!(problem(&response), (415, "unsupported_type".into()));
    let response = SERVER.get().post("/v1/track?site=nobody&dryRun=2", &[], b"{");
    assert_eq!(problem(&response), (400, "malformed_json".into()));
    let response = post("/v1/track?site=nobody&dryRun=2", &json!({ "event": "e" }));
    assert_eq!(response.code(), "site_not_found");
    let fields = [("Origin", "https://elsewhere.example")];
    let response = super::post_with("/v1/track?site=closed&dryRun=2", &fields, &json!({ "event": "e" }));
    assert_eq!(response.code(), "origin_not_allowed");
    let response = post("/v1/track?site=closed&dryRun=2", &json!({ "batch": 7 }));
    assert_eq!(problem_with_pointer(&response), expected_problem(400, "invalid_event", "/batch"));
}
