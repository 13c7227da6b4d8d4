//! `GET /v1/parallax.js`: the bytes of `sdk/parallax.js`, and how long caches keep them.

use parallax::testing::checksum::sha256_prefix;

use super::{SharedServer, comparable};
use crate::harness::{Client, Response, Server};

static SERVER: SharedServer = SharedServer::new(|| Server::start(&[], &[]));

const SCRIPT: &[u8] = include_bytes!("../../../sdk/parallax.js");
const PATH: &str = "/v1/parallax.js";
const CHANGING: &str = "public, max-age=3600, stale-while-revalidate=86400";
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

fn own_url() -> String {
    format!("{PATH}?h={:016x}", sha256_prefix(SCRIPT))
}

#[test]
fn a_sha_256_begins_with_the_bytes_of_the_standard() {
    // FIPS 180-4, the examples of NIST for "abc" and for the empty text.
    assert_eq!(sha256_prefix(b"abc"), 0xba78_16bf_8f01_cfea);
    assert_eq!(sha256_prefix(b""), 0xe3b0_c442_98fc_1c14);
}

#[test]
fn the_script_is_that_of_the_sdk_and_belongs_to_no_site() {
    let server = SERVER.get();
    let fields = [("Origin", "https://shop.example"), ("X-Request-Id", "mine"), ("X-Debug-Timing", "1")];
    let response = server.get_with(PATH, &fields);
    assert!(response.status == 200 && response.body == SCRIPT);
    assert_eq!(response.field("content-type"), Some("text/javascript; charset=utf-8"));
    assert_eq!(response.field("access-control-allow-origin"), Some("*"));
    assert_ne!(response.field("x-request-id"), Some("mine"));
    for absent in ["x-version", "cache-tag", "surrogate-key", "set-cookie", "server-timing"] {
        assert_eq!(response.field(absent), None, "{absent}");
    }
    assert_eq!(server.admin_get(PATH).code(), "unknown_endpoint");
}

#[test]
fn only_the_url_with_the_hash_of_the_script_is_immutable() {
    let server = SERVER.get();
    let own = own_url();
    let caching = |target: &str| {
        let response = server.get(target);
        assert!(response.status == 200 && response.body == SCRIPT, "{target}");
        ["cache-control", "content-location"].map(|name| response.field(name).map(str::to_owned))
    };
    assert_eq!(caching(&own), [Some(IMMUTABLE.to_owned()), None]);
    assert_eq!(caching(&format!("{own}&v=1&x=%FF")), [Some(IMMUTABLE.to_owned()), None]);
    let without = [Some(CHANGING.to_owned()), Some(own.clone())];
    assert_eq!(caching(PATH), without);
    let upper = own.to_ascii_uppercase().replace("/V1/PARALLAX.JS?H", "/v1/parallax.js?h");
    let (shorter, longer) = (&own[..own.len() - 1], format!("{own}0"));
    let others = ["?h=", "?h", "?h=0000000000000000", "?h=%00", "?H=1"].map(|query| format!("{PATH}{query}"));
    for other in others.into_iter().chain([upper, shorter.to_owned(), longer]) {
        assert_eq!(caching(&other), without, "{other}");
    }
}

#[test]
fn the_script_is_available_in_gzip_and_unchanged_bytes_are_not_sent_again() {
    let server = SERVER.get();
    for target in [PATH, &own_url()] {
        let whole = server.get(target);
        let packed = server.get_with(target, &[("Accept-Encoding", "gzip")]);
        assert_eq!(packed.field("content-encoding"), Some("gzip"));
        let mut text = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(packed.body.as_slice());
        std::io::Read::read_to_end(&mut decoder, &mut text).expect("gzip");
        assert!(text == SCRIPT && packed.body.len() <= 4224, "{} bytes", packed.body.len());
        assert_ne!(whole.field("etag"), packed.field("etag"));
        for (response, coding) in [(&whole, "identity"), (&packed, "gzip")] {
            assert_eq!(response.field("vary"), Some("Accept-Encoding"));
            let known =
                [("If-None-Match", response.field("etag").expect("a tag")), ("Accept-Encoding", coding)];
            let unchanged = server.get_with(target, &known);
            assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
            for name in ["etag", "cache-control", "content-location", "vary"] {
                assert_eq!(unchanged.field(name), response.field(name), "{target}: {name}");
            }
        }
    }
    let excluded = server.get_with(PATH, &[("If-Match", "\"other\"")]);
    assert_eq!((excluded.status, excluded.code().as_str()), (412, "precondition_failed"));
}

#[test]
fn the_script_has_the_methods_and_the_faults_of_other_endpoints() {
    let server = SERVER.get();
    let send = |method: &str, target: &str| Client::to(server.edge).request(method, target, &[]);
    let whole = server.get(PATH);
    let head = send("HEAD", PATH);
    let without_body = |response: Response| comparable(Response { body: Vec::new(), ..response }).fields;
    assert_eq!(without_body(head), without_body(whole));
    let options = send("OPTIONS", PATH);
    assert_eq!((options.status, options.field("allow")), (204, Some("GET, HEAD, OPTIONS")));
    for method in ["POST", "PUT", "DELETE"] {
        let refused = send(method, PATH);
        assert_eq!((refused.status, refused.code().as_str()), (405, "method_not_allowed"), "{method}");
        assert_eq!(refused.field("allow"), Some("GET, HEAD, OPTIONS"));
    }
    assert_eq!(server.get("/v1/parallax.js?h=1&h=1").code(), "repeated_param");
    assert_eq!(server.get("/v1/parallax.js?h=%FF").code(), "invalid_query");
    for other in ["/v1/parallax.js/", "/v1/parallax", "/parallax.js", "/v1/Parallax.js"] {
        assert_eq!(server.get(other).code(), "unknown_endpoint", "{other}");
    }
}
