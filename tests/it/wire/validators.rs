//! `ETag`, `If-Match`, `If-None-Match`, `Vary`, and the content coding of a body.

use serde_json::json;

use super::{SharedServer, comparable, page, redirect, start_server, zone};
use crate::harness::{Client, Response};

/// A public response for `/n1023` has 1,023 bytes, and so on. `/large` is compressible.
static SERVER: SharedServer = SharedServer::new(|| {
    let sized = |bytes: usize| {
        let path = format!("/n{bytes}");
        let framing = format!(
            "{{\"type\":\"layout\",\"site\":\"acme\",\"route\":\"{path}\",\"pattern\":\"{path}\",\"params\":{{}},\
             \"variants\":\"\",\"selected\":{{}},\"layout\":{{\"root\":{{\"props\":{{\"text\":\"\"}}}},\"zones\":{{}}}}}}"
        );
        let root = json!({ "props": { "text": "t".repeat(bytes - framing.len()) } });
        json!({ "path": path, "layout": { "root": root, "zones": {} } }).to_string()
    };
    let long = json!([{ "id": "long", "type": "Text", "props": { "text": "word ".repeat(1000) } }]);
    let hero = zone(&["b"], json!([{ "when": { "country": "DE" }, "variant": "b" }]));
    start_server(&[
        page("/large", json!({ "main": long, "hero": hero })),
        page("/small", json!({})),
        page("/any/:name", json!({})),
        redirect("/old", "/small", 301),
        sized(1023),
        sized(1024),
        sized(1025),
        sized(1023 - EXPERIMENTS),
        sized(1024 - EXPERIMENTS),
        sized(1025 - EXPERIMENTS),
    ])
});

/// Length of the member that only private responses have.
const EXPERIMENTS: usize = ",\"experiments\":\"\"".len();
const LARGE: &str = "/v1/resolve?site=acme&route=/large&variants=";
const SMALL: &str = "/v1/resolve?site=acme&route=/small&variants=";

fn get(target: &str, fields: &[(&str, &str)]) -> Response {
    SERVER.get().get_with(target, fields)
}

fn etag(response: &Response) -> String {
    response.field("etag").expect("an ETag").to_owned()
}

#[test]
fn every_response_to_a_get_has_its_own_strong_etag() {
    let targets = [
        LARGE,
        "/v1/resolve?site=acme&route=/large&variants=hero:b",
        "/v1/resolve?site=acme&route=/large&variants=hero:x",
        "/v1/resolve?site=acme&route=/large&variants=x:b",
        "/v1/variants?site=acme&route=/large",
        "/v1/variants?site=acme&route=/large&country=DE",
        "/v1/variants?site=acme&route=/large&include=combinations",
        SMALL,
        "/v1/resolve?site=acme&route=/any/a&variants=",
        "/v1/resolve?site=acme&route=/any/b&variants=",
        "/v1/resolve?site=acme&route=/old",
        "/v1/routes?site=acme",
        "/v1/routes?site=acme&prefix=/n",
        "/v1/routes?site=acme&limit=1",
        "/v1/routes?site=acme&include=variants",
        "/v1/routes?site=acme&since=1",
        "/v1/routes?site=acme&since=2",
    ];
    let mut etags: Vec<String> = targets.iter().map(|target| etag(&get(target, &[]))).collect();
    for etag in &etags {
        assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() > 10, "{etag}");
    }
    etags.push(etag(&get(LARGE, &[("Accept-Encoding", "gzip")])));
    etags.sort();
    etags.dedup();
    assert_eq!(etags.len(), targets.len() + 1);
}

#[test]
fn parameters_without_effect_do_not_change_the_etag() {
    let same = |one: &str, other: &str| {
        assert_eq!(comparable(get(one, &[])), comparable(get(other, &[])), "{other}")
    };
    same(LARGE, &format!("{LARGE}&anonId=v&locale=de&x=y&strict=1"));
    same("/v1/routes?site=acme", "/v1/routes?trackingId=track_acme&limit=10000&prefix=&cursor=&since=");
    same("/v1/routes?site=acme&include=variants", "/v1/routes?site=acme&include=variants&limit=1000");
    same("/v1/variants?site=acme&route=/large", "/v1/variants?site=acme&route=/large/&country=FR&anonId=z");
}

#[test]
fn if_none_match_is_a_list_compared_weakly() {
    for target in [LARGE, "/v1/resolve?site=acme&route=/large", "/v1/routes?site=acme"] {
        let etag = etag(&get(target, &[]));
        let status = |list: &str| get(target, &[("If-None-Match", list)]).status;
        for known in [
            etag.clone(),
            format!("W/{etag}"),
            "*".to_owned(),
            " * ".to_owned(),
            format!("\"other\", {etag}"),
            format!("\"other\",W/{etag} ,\"third\""),
        ] {
            assert_eq!(status(&known), 304, "{known}");
        }
        let bare = etag.trim_matches('"').to_owned();
        for unknown in ["\"other\"", &bare, &format!("w/{etag}"), "", &etag[..etag.len() - 1], "\"*\""] {
            assert_eq!(status(unknown), 200, "{unknown}");
        }
    }
}

#[test]
fn if_match_without_the_present_etag_gets_412() {
    for target in [
        LARGE,
        "/v1/resolve?site=acme&route=/large",
        "/v1/routes?site=acme",
        "/v1/problems/timeout",
        "/v1/openapi.json",
        "/v1/parallax.js",
    ] {
        let etag = etag(&get(target, &[]));
        let of = |list: &str| get(target, &[("If-Match", list)]);
        for present in [etag.clone(), " * ".to_owned(), format!("\"other\", {etag}")] {
            assert_eq!(of(&present).status, 200, "{target}, {present}");
        }
        for absent in ["\"other\"", &format!("W/{etag}"), "", etag.trim_matches('"')] {
            assert_eq!(of(absent).code(), "precondition_failed", "{target}, {absent}");
            assert_eq!(of(absent).status, 412, "{target}, {absent}");
        }
        let both = [("If-Match", "\"other\""), ("If-None-Match", &*etag)];
        assert_eq!(get(target, &both).status, 412, "If-Match counts first");
    }
    assert_eq!(get("/v1/resolve?site=acme&route=/missing", &[("If-Match", "\"other\"")]).status, 404);
}

#[test]
fn a_list_on_several_lines_is_read_as_one_list() {
    let etag = etag(&get(LARGE, &[]));
    for lines in [["\"other\"", etag.as_str()], [etag.as_str(), "\"other\""]] {
        assert_eq!(get(LARGE, &lines.map(|line| ("If-None-Match", line))).status, 304, "{lines:?}");
    }
    let coding = |lines: &[&str]| {
        let fields: Vec<_> = lines.iter().map(|line| ("Accept-Encoding", *line)).collect();
        get(LARGE, &fields).field("content-encoding").map(str::to_owned)
    };
    assert_eq!(coding(&["br", "deflate", "gzip"]).as_deref(), Some("gzip"));
    assert_eq!(coding(&["*", "gzip;q=0"]), None);
    assert_eq!(coding(&["br", "deflate"]), None);
}

#[test]
fn a_304_has_no_body_and_the_fields_of_the_200() {
    let server = SERVER.get();
    let mut client = Client::to(server.edge);
    for target in [
        LARGE,
        SMALL,
        "/v1/resolve?site=acme&route=/large&variants=x:y",
        "/v1/resolve?site=acme&route=/large",
        "/v1/routes?site=acme",
        "/v1/variants?site=acme&route=/large&include=combinations",
    ] {
        let whole = client.request("GET", target, &[]);
        let known = [("If-None-Match", whole.field("etag").expect("an ETag"))];
        for method in ["GET", "HEAD"] {
            client.send(
                format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{}: {}\r\n\r\n", known[0].0, known[0].1)
                    .as_bytes(),
            );
            let short = client.response(true);
            assert_eq!(short.status, 304);
            for absent in ["content-length", "content-type", "content-encoding", "transfer-encoding"] {
                assert_eq!(short.field(absent), None, "{target}");
            }
            let mut expected = comparable(whole.clone()).fields;
            expected.retain(|(name, _)| !name.starts_with("content-") || name == "content-location");
            assert_eq!(comparable(short).fields, expected, "{target}");
        }
    }
}

#[test]
fn each_coding_has_its_own_etag() {
    let gzip = get(LARGE, &[("Accept-Encoding", "gzip")]);
    let plain = get(LARGE, &[]);
    let (of_gzip, of_plain) = (etag(&gzip), etag(&plain));
    let status =
        |known: &str, coding: &str| get(LARGE, &[("If-None-Match", known), ("Accept-Encoding", coding)]);
    assert_eq!(status(&of_gzip, "gzip").status, 304);
    assert_eq!(status(&of_gzip, "gzip").field("etag"), Some(&*of_gzip));
    assert_eq!(status(&of_gzip, "identity").status, 200);
    assert_eq!(status(&of_plain, "gzip").status, 200);
    assert_eq!(status(&of_plain, "gzip").field("content-encoding"), Some("gzip"));
}

#[test]
fn gzip_is_sent_only_to_clients_that_accept_it() {
    let coding = |accept: &str| {
        get(LARGE, &[("Accept-Encoding", accept)]).field("content-encoding").map(str::to_owned)
    };
    for taken in [
        "gzip",
        "GZIP",
        "deflate, gzip, br",
        "gzip;q=1.0",
        "gzip; q=0.001",
        "br;q=1, gzip;q=0.5",
        "*",
        "*;q=0.1",
        "identity, *;q=0.5",
        "x-gzip",
    ] {
        assert_eq!(coding(taken).as_deref(), Some("gzip"), "{taken}");
    }
    for refused in
        ["", "identity", "br", "gzip;q=0", "gzip;q=0.000", "gzip; q=0, *", "*;q=0", "deflate, gzip;Q=0"]
    {
        assert_eq!(coding(refused), None, "{refused}");
    }
    assert_eq!(get(LARGE, &[]).field("content-encoding"), None);
}

#[test]
fn only_bodies_above_1_kib_are_compressed() {
    for (bytes, coding) in [(1023, None), (1024, None), (1025, Some("gzip"))] {
        for (route, more) in [(bytes - EXPERIMENTS, ""), (bytes, "&variants=")] {
            let target = format!("/v1/resolve?site=acme&route=/n{route}{more}");
            assert_eq!(get(&target, &[]).body.len(), bytes);
            for accept in ["gzip", "*"] {
                let response = get(&target, &[("Accept-Encoding", accept)]);
                assert_eq!(response.field("content-encoding"), coding, "{target}");
            }
        }
    }
}

#[test]
fn only_compressible_responses_vary_by_accept_encoding() {
    for accept in ["gzip", "identity", "gzip;q=0"] {
        let fields = [("Accept-Encoding", accept)];
        assert_eq!(get(LARGE, &fields).field("vary"), Some("Accept-Encoding"));
        assert_eq!(get(SMALL, &fields).field("vary"), None);
        assert_eq!(get("/v1/resolve?site=acme&route=/large", &fields).field("vary"), Some("Accept-Encoding"));
        let known = etag(&get(LARGE, &fields));
        let short = get(LARGE, &[("Accept-Encoding", accept), ("If-None-Match", &known)]);
        assert_eq!((short.status, short.field("vary")), (304, Some("Accept-Encoding")));
    }
}
