//! Valid requests to the demo, of every kind that the server answers.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::harness::post;

const QUERY: &str = r#"{"trackingId":"track_demo","query":"products","params":{"category":"tents","maxPrice":500.5,"inStock":true},"limit":12,"cursor":null}"#;

const PAGE: &str = r#"{"trackingId":"track_demo","anonId":"visitor-5","properties":{"path":"/products/fell-2?a=b","title":"T\u00e9"},"context":{"ip":"192.0.2.7","userAgent":"Mozilla/5.0"},"timestamp":"2026-01-05T10:00:00Z"}"#;

const BATCH: &str = r#"{"batch":[{"type":"page","anonId":"v","path":"/"},{"anonId":"v","event":"Added","messageId":"m"},{"userId":"u","set":{"plan":"pro"}},{"type":"identify","userId":7,"anonId":"v"},{"anonId":"undefined"}],"context":{"locale":"de-DE"},"sentAt":1767607200000,"site":"fjell"}"#;

const TARGETS: [&str; 16] = [
    "/v1/resolve?trackingId=track_demo&route=/&anonId=visitor-2&country=SE&locale=de",
    "/v1/resolve?site=fjell&route=/products/fell-2&variants=",
    "/v1/resolve?site=fjell&route=%2Fmagazine%2Fa+b&variants=hero:slow,promo:slow&strict=1",
    "/v1/resolve?site=fjell&route=/&variants=hero:deutsch,promo:nope",
    "/v1/resolve?site=fjell&route=/moved/sleep&url=https%3A%2F%2Fa.example%2F%3Futm_source%3Dx",
    "/v1/resolve?site=fjell&route=/about&explain=1&referrer=https://b.example/&userAgent=Mozilla/5.0",
    "/v1/variants?trackingId=track_demo&route=/&anonId=%76isitor-2",
    "/v1/variants?site=fjell&route=/tents&include=combinations",
    "/v1/routes?site=fjell&prefix=/magazine&limit=3&include=variants",
    "/v1/routes?site=fjell&since=1&limit=10000&cursor=",
    "/v1/query?site=fjell&query=products&params.category=tents&params.maxPrice=500&limit=100",
    "/v1/query?site=fjell&query=light&params.grams=900&limit=1&cursor=00ff",
    "/v1/nothing?a=b&c=%zz",
    "/healthz",
    "/readyz",
    "http://a.example:80/v1/resolve?site=fjell&route=/",
];

const FIELDS: [&str; 10] = [
    "Accept-Encoding: gzip;q=0.5, br, *;q=0\r\nIf-None-Match: W/\"x\", \"0123456789abcdef0123456789abcdef\", *\r\n",
    "Accept-Language: de-DE,de;q=0.9,en;q=0.8\r\nReferer: https://c.example/d?utm_campaign=e\r\n",
    "User-Agent: Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Safari/605.1\r\nSec-Fetch-Mode: cors\r\n",
    "User-Agent: Googlebot/2.1 (+http://www.google.com/bot.html)\r\nAccept-Encoding: gzip\r\n",
    "Cookie: a=b; anon_id=visitor-3; c=\"d\"\r\nX-Anon-Id: visitor-4\r\n",
    "Origin: https://shop.example\r\nX-Request-Id: 0af7651916cd43dd\r\nX-Debug-Timing: 1\r\n",
    "Authorization: Basic dHJhY2tfZGVtbzo=\r\nConnection: keep-alive, Upgrade\r\nUpgrade: h2c\r\n",
    "Content-Length: 5\r\nX-Fifth:\r\n\r\nhello",
    "Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    "Transfer-Encoding: chunked\r\n\r\n4;ext=\"a b\"\r\nwiki\r\n00A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
];

/// Returns all valid requests.
pub fn corpus() -> Vec<Vec<u8>> {
    let mut corpus = Vec::new();
    for (at, target) in TARGETS.iter().enumerate() {
        for fields in [FIELDS[at % FIELDS.len()], FIELDS[(3 * at + 1) % FIELDS.len()]] {
            let method = ["GET", "HEAD", "GET", "GET"][at % 4];
            let end = if fields.ends_with("\r\n") && !fields.contains("\r\n\r\n") { "\r\n" } else { "" };
            corpus.push(format!("{method} {target} HTTP/1.1\r\nHost: a.example:80\r\n{fields}{end}").into());
        }
    }
    corpus.extend(posts());
    corpus.extend(events());
    for request in [
        "OPTIONS /v1/query HTTP/1.1\r\nHost: a\r\nOrigin: https://b.example\r\nAccess-Control-Request-Method: POST\r\n\
         Access-Control-Request-Headers: content-type, x-anon-id\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
        "PUT /v1/routes HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        "GET /v1/routes?site=fjell HTTP/1.0\r\n\r\n",
        "GET /v1/routes?site=fjell HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        corpus.push(request.into());
    }
    // Three pipelined requests. The body of the middle one looks like a request.
    let smuggling = post("/v1/query", &[], b"GET /v1/routes?site=fjell HTTP/1.1\r\nHost: a\r\n\r\n");
    corpus.push([&corpus[0][..], &smuggling, &corpus[1]].concat());
    corpus
}

fn posts() -> Vec<Vec<u8>> {
    vec![
        post(
            "/v1/query",
            &[("Content-Type", "application/json"), ("Origin", "https://b.example")],
            QUERY.as_bytes(),
        ),
        post("/v1/query?site=fjell", &[("Content-Type", "text/plain; charset=utf-8")], QUERY.as_bytes()),
        post(
            "/v1/query",
            &[("Content-Encoding", "gzip"), ("Content-Type", "application/x-www-form-urlencoded")],
            &gzipped(QUERY),
        ),
        post("/v1/query", &[("Expect", "100-continue")], QUERY.as_bytes()),
        post("/v1/resolve", &[], b"x"),
        chunked("/v1/query", QUERY),
    ]
}

fn events() -> Vec<Vec<u8>> {
    let track = r#"{"anonymousId":"v","event":"Added","variants":"hero:deutsch"}"#;
    vec![
        post("/v1/page", &[("Content-Type", "application/json"), ("Sec-GPC", "1")], PAGE.as_bytes()),
        post("/v1/p?dryRun=1", &[("Origin", "https://b.example"), ("X-Preview", "1")], PAGE.as_bytes()),
        // The user is "track_demo", the password is empty.
        post("/v1/track", &[("Authorization", "Basic dHJhY2tfZGVtbzo=")], track.as_bytes()),
        post(
            "/v1/t?site=fjell",
            &[("Prefer", "return=minimal"), ("X-Anon-Id", "visitor-6")],
            track.as_bytes(),
        ),
        post(
            "/v1/batch",
            &[("Content-Type", "text/plain"), ("X-Forwarded-For", "192.0.2.9")],
            BATCH.as_bytes(),
        ),
        post("/v1/b", &[("Content-Encoding", "gzip")], &gzipped(BATCH)),
        chunked("/v1/import", BATCH),
        chunked("/v1/page", PAGE),
    ]
}

fn gzipped(text: &str) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(text.as_bytes()).expect("into memory");
    gzip.finish().expect("into memory")
}

fn chunked(target: &str, body: &str) -> Vec<u8> {
    let (first, second) = body.split_at(40);
    let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunks = format!("{:x}\r\n{first}\r\n{:X};a=b\r\n{second}\r\n0\r\n\r\n", first.len(), second.len());
    (head + &chunks).into()
}
