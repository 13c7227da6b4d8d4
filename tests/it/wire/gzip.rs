//! Decompresses all gzip bodies of the demo site, and a list of combinations, with an independent decoder.

use std::io::Read;

use flate2::read::MultiGzDecoder;

use serde_json::json;

use super::{page, percent_encode, start_server, zone};
use crate::harness::{Client, Server};

fn inflate(body: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    // Reads every gzip member to the end of input, and checks the length and the checksum of each.
    MultiGzDecoder::new(body).read_to_end(&mut text).expect("a gzip body");
    text
}

#[test]
fn every_combination_of_every_route_inflates_to_its_text() {
    let server = Server::demo();
    let mut client = Client::to(server.edge);
    let list = client.request("GET", "/v1/routes?site=fjell&include=variants", &[]).json();
    let mut compressed = 0;
    for route in list["routes"].as_array().expect("an array") {
        let path = route["path"].as_str().expect("text").replace(":city", "tromsø");
        let variants = route["variants"].as_array().expect("an array");
        let combinations = variants.iter().map(|v| format!("&variants={}", v.as_str().expect("text")));
        let unknown =
            format!("&variants={}", (0..64).map(|i| format!("none{i}:k")).collect::<Vec<_>>().join(","));
        for more in combinations.chain([String::new(), unknown]) {
            let target = format!("/v1/resolve?site=fjell&route={}{more}", percent_encode(&path));
            let text = client.request("GET", &target, &[]);
            assert_eq!(text.status, 200, "{target}");
            text.json();
            let packed = client.request("GET", &target, &[("Accept-Encoding", "gzip")]);
            if text.body.len() <= 1024 {
                assert_eq!(packed.body, text.body, "{target}");
                continue;
            }
            compressed += 1;
            assert_eq!(packed.field("content-encoding"), Some("gzip"), "{target}");
            assert_eq!(inflate(&packed.body), text.body, "{target}");
            assert!(packed.body.len() < text.body.len(), "{target}");
        }
    }
    assert!(compressed > 20, "{compressed}");
}

#[test]
fn a_list_of_combinations_inflates_to_its_text() {
    let zones: serde_json::Map<_, _> = (0..7)
        .map(|i| (format!("zone-{i}"), zone(&["a"], json!([{ "when": {}, "variant": "a" }]))))
        .collect();
    let server = start_server(&[page("/", zones.into())]);
    let target = "/v1/variants?site=acme&route=/&include=combinations";
    let packed = server.get_with(target, &[("Accept-Encoding", "gzip")]);
    assert_eq!(packed.field("content-encoding"), Some("gzip"));
    assert_eq!(inflate(&packed.body), server.get(target).body);
}

#[test]
fn every_body_over_one_kib_is_available_in_gzip() {
    let pages: Vec<String> = (0..40).map(|i| page(&format!("/page-{i}"), json!({}))).collect();
    let server = start_server(&pages);
    for target in ["/v1/routes?site=acme", "/v1/openapi.json"] {
        let plain = server.get(target);
        assert!(plain.body.len() > 1024);
        let packed = server.get_with(target, &[("Accept-Encoding", "gzip")]);
        assert_eq!(packed.field("content-encoding"), Some("gzip"), "{target}");
        assert_eq!(inflate(&packed.body), plain.body, "{target}");
        assert!(packed.body.len() * 2 < plain.body.len(), "{} of {}", packed.body.len(), plain.body.len());
        let etags = [&plain, &packed].map(|response| response.field("etag").expect("an ETag").to_owned());
        assert_ne!(etags[0], etags[1], "each coding has its own ETag");
        let fields = [("Accept-Encoding", "gzip"), ("If-None-Match", etags[1].as_str())];
        let unchanged = server.get_with(target, &fields);
        assert_eq!(unchanged.status, 304, "{target}");
        for response in [&plain, &packed, &unchanged] {
            assert_eq!(response.field("vary"), Some("Accept-Encoding"), "{target}");
        }
        let head = Client::to(server.edge).request("HEAD", target, &[("Accept-Encoding", "gzip")]);
        assert_eq!(head.field("content-length"), packed.field("content-length"), "{target}");
        let refused = server.get_with(target, &[("Accept-Encoding", "gzip;q=0, *;q=0")]);
        assert_eq!(refused.body, plain.body, "{target}");
    }
    let small = server.get_with("/v1/routes?site=acme&limit=1", &[("Accept-Encoding", "gzip")]);
    assert!(small.body.len() <= 1024);
    assert_eq!((small.field("content-encoding"), small.field("vary")), (None, None));
}
