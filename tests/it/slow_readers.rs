//! Clients that request much and read little: what they cost, and which of them is cut off.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use parallax::testing::api::prepared_lists::PreparedList;
use parallax::testing::api::{SharedBytes, SharedParts};
use parallax::testing::worker::{Output, UnsentBytes};
use serde_json::json;
use socket2::{Domain, Socket, Type};

use crate::dice::Dice;
use crate::harness::{Server, eventually, post, snapshot, times};

const ROUTES: &str = "/v1/routes?site=acme";
const PAGE: &str = "/v1/resolve?site=acme&route=/&anonId=v";
/// A list that is not prepared, of 600 KB, so that no part of it is shared.
const OWN_LIST: &str = "/v1/routes?site=acme&prefix=/p";

/// A site with a page of 900 KB, of which a half is a personalized zone, and with 2,000 small pages.
fn site(version: u64) -> Vec<u8> {
    let node = |id: &str| json!([{ "id": id, "type": "Text", "props": { "text": format!("{id}{version}").repeat(90_000) } }]);
    let rules = json!([{ "when": { "visitor.isNew": true }, "variant": "new" }]);
    let zones = json!({ "main": node("main"), "top": { "default": [], "variants": { "new": node("top0") }, "rules": rules } });
    let page = json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": zones } }).to_string();
    let about = json!({ "site": "acme", "trackingId": "track_acme", "name": "acme" }).to_string();
    let mut files = vec![("site.json".to_owned(), about), ("routes/index.json".to_owned(), page)];
    files.extend((0..2_000).map(|number| {
        let path = format!("/p/{number}{}", "p".repeat(200));
        (
            format!("routes/{number}.json"),
            json!({ "path": path, "redirect": { "to": "/", "status": 308 } }).to_string(),
        )
    }));
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    snapshot(&files, version)
}

fn start(flags: &[&str]) -> Server {
    let mut all = vec!["--workers", "1"];
    all.extend(flags);
    Server::start(&[("acme.snapshot", &site(1))], &all)
}

/// Connects a client with a small receive buffer and small segments, and sends these requests.
fn connect(server: &Server, requests: &[u8]) -> Socket {
    let mut client = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    client.set_recv_buffer_size(4096).expect("the buffer size is set");
    // With small segments the kernel of the server buffers little, so the server sees how fast the client reads.
    client.set_tcp_mss(536).expect("the segment size is set");
    client.connect(&server.edge.into()).expect("connected");
    client.write_all(requests).expect("the kernel buffers it");
    client
}

fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

/// Reads a whole response. Returns its body.
fn read_body(client: &mut impl Read) -> Vec<u8> {
    let (mut bytes, mut part) = (Vec::new(), [0; 65_536]);
    loop {
        let length = client.read(&mut part).expect("the response arrives");
        assert!(length > 0, "the connection ended after {} bytes", bytes.len());
        bytes.extend_from_slice(&part[..length]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|text| text.lines().next());
        let length: usize = length.and_then(|text| text.parse().ok()).expect("a length");
        if bytes.len() >= end + 4 + length {
            return bytes[end + 4..][..length].to_vec();
        }
    }
}

#[test]
fn three_hundred_readers_of_a_large_page_that_read_nothing_stop_no_request() {
    let server = start(&["--connections-memory", "0"]);
    let page = server.get(PAGE);
    assert_eq!(page.status, 200);
    let before_kib = server.resident_kib();
    let mut slow: Vec<Socket> = (0..300).map(|_| connect(&server, &get(PAGE).repeat(8))).collect();
    for number in 0..20 {
        assert_eq!(server.get(PAGE).body, page.body);
        assert_eq!(server.get(ROUTES).status, 200);
        let event = json!({ "type": "track", "event": "E", "anonId": format!("v{number}") }).to_string();
        assert_eq!(server.post("/v1/track?site=acme", &[], event.as_bytes()).status, 200);
    }
    let grown_kib = server.resident_kib() - before_kib;
    assert!(grown_kib < 64 * 1024, "{grown_kib} KiB for 300 responses of 900 KB");
    // A publication changes nothing in a response that has begun.
    server.publish("acme.snapshot", &site(2));
    eventually("version 2 is served", || (server.get(ROUTES).field("x-version") == Some("2")).then_some(()));
    for client in &mut slow[..10] {
        assert_eq!(read_body(client), page.body);
    }
}

#[test]
fn a_steady_reader_of_a_replaced_version_is_cut_off_after_the_write_timeout() {
    let (server, version_2) = (start(&["--timeout-write-ms", "1000"]), site(2));
    let [mut page, mut document] =
        [PAGE, "/v1/openapi.json"].map(|target| connect(&server, &get(target).repeat(40)));
    let begin = Instant::now();
    server.publish("acme.snapshot", &version_2);
    eventually("version 2 is served", || (server.get(ROUTES).field("x-version") == Some("2")).then_some(()));
    let mut part = [0; 1024];
    let mut is_open = |client: &mut Socket| matches!(client.read(&mut part), Ok(1..));
    let end = eventually("the reader of the page is cut off", || {
        // It reads as slowly, but not from a snapshot.
        assert!(is_open(&mut document), "the reader of the document is cut off");
        (!is_open(&mut page)).then(|| begin.elapsed())
    });
    assert!(end >= Duration::from_millis(1000), "{end:?}");
}

#[test]
fn at_the_memory_limit_the_slowest_response_is_cut_off_but_none_younger_than_a_second() {
    // Only the memory limit ends a slow reader.
    let server = start(&["--connections-memory", "0", "--timeout-write-ms", "600000"]);
    let begin = Instant::now();
    let mut slow = Vec::new();
    let refused = eventually("the memory limit is reached", || {
        slow.push(connect(&server, &get(OWN_LIST).repeat(20)));
        Some(server.get(OWN_LIST)).filter(|response| response.status != 200)
    });
    assert_eq!((refused.status, refused.code().as_str()), (503, "overloaded"));
    assert!(begin.elapsed() < Duration::from_millis(1000), "the machine is too slow for this test");
    // A small response has a part of the memory that no large one gets.
    assert_eq!(server.get("/v1/variants?site=acme&route=/&anonId=v").status, 200);
    let is_admitted = || (server.get(OWN_LIST).status == 200).then(|| begin.elapsed());
    let admitted = eventually("a slow reader is cut off", is_admitted);
    assert!(admitted >= Duration::from_millis(1000), "{admitted:?}");
    for _ in 0..20 {
        assert_eq!(server.get(OWN_LIST).status, 200);
    }
}

#[test]
fn the_rest_of_an_output_is_the_same_from_shared_bytes_as_from_the_buffer() {
    let sizes = [0, 1, 100, 16_383, 16_384, 16_385, 70_000];
    for seed in 0..times(300, 20_000) as u64 {
        let mut dice = Dice(seed);
        let mut output = Output::default();
        let (mut shared, mut is_shared) = (SharedParts::recording(), false);
        for _ in 0..dice.below(80) {
            let bytes: Vec<u8> = (0..*dice.pick(&sizes)).map(|_| dice.next_u64() as u8).collect();
            let (begin, is_gzip) = (output.bytes.len(), dice.below(2) == 0);
            output.bytes.extend_from_slice(&bytes);
            if dice.below(2) == 0 {
                is_shared |= bytes.len() >= 16_384;
                let (text, gzip) = if is_gzip { (Vec::new(), bytes) } else { (bytes, Vec::new()) };
                let list = PreparedList { text: text.into(), gzip: gzip.into(), next_key: None };
                shared.push(begin, SharedBytes::List { list: Arc::new(list), is_gzip });
            }
        }
        output.shared.append(&mut shared);
        let expected = output.bytes.clone();
        let mut sent = dice.below(expected.len());
        let mut unsent = UnsentBytes::of(&mut output, sent);
        if sent == 0 && is_shared {
            assert!(unsent.own_bytes() < expected.len(), "seed {seed}");
        }
        while !unsent.is_empty() {
            let (mut chunk, bytes_max) = (Vec::new(), 1 + dice.below(100_000));
            unsent.copy_next(bytes_max, &mut chunk);
            assert_eq!(chunk, expected[sent..][..bytes_max.min(expected.len() - sent)], "seed {seed}");
            let taken = 1 + dice.below(chunk.len());
            sent += taken.min(chunk.len());
            unsent.advance(taken.min(chunk.len()));
        }
        assert_eq!(sent, expected.len(), "seed {seed}");
    }
}

/// Returns the memory that an unsent response takes beside its shared parts. It consists of `parts` parts of `part_bytes` each.
fn own_bytes(parts: usize, part_bytes: usize) -> usize {
    let mut output = Output::default();
    let mut shared = SharedParts::recording();
    for _ in 0..parts {
        let list = PreparedList { text: vec![b'p'; part_bytes].into(), gzip: [].into(), next_key: None };
        shared.push(output.bytes.len(), SharedBytes::List { list: Arc::new(list), is_gzip: false });
        output.bytes.resize(output.bytes.len() + part_bytes, b'p');
    }
    output.bytes.shrink_to_fit();
    output.shared.append(&mut shared);
    UnsentBytes::of(&mut output, 0).own_bytes()
}

#[test]
fn a_response_shares_at_most_64_parts_of_at_least_16_kib() {
    assert_eq!([63, 64].map(|parts| own_bytes(parts, 16_384)), [0, 0]);
    assert_eq!(own_bytes(65, 16_384), 16_384);
    assert_eq!([16_384, 16_385].map(|part_bytes| own_bytes(1, part_bytes)), [0, 0]);
    assert_eq!(own_bytes(1, 16_383), 16_383);
}

/// Connects a client that requests much, sends a batch after that, repeats both, and reads next to nothing.
/// Each batch is 300 bytes of gzip, which become 64 KiB of body and 3 MiB of records.
fn slow_reader(server: &Server) -> Socket {
    let batch = vec![json!({ "event": "e", "anonId": "v" }); 2_000];
    let body = json!({ "context": { "pad": "p".repeat(1_500) }, "batch": batch }).to_string();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(body.as_bytes()).expect("a Vec accepts every byte");
    let body = gzip.finish().expect("a Vec accepts every byte");
    let mut requests = b"GET /v1/openapi.json HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3);
    requests.extend(post("/v1/batch?site=acme", &[("Content-Encoding", "gzip")], &body));
    let mut client = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    client.set_recv_buffer_size(4096).expect("the buffer size is set");
    client.connect(&server.edge.into()).expect("connected");
    client.write_all(&requests.repeat(40)).expect("the kernel buffers it");
    client
}

#[test]
fn records_that_wait_for_a_slow_reader_count_as_memory() {
    let server = start(&["--connections-memory", "0"]);
    let idle: Vec<Socket> = (0..3).map(|_| slow_reader(&server)).collect();
    let event = json!({ "type": "track", "event": "E", "anonId": "v" }).to_string();
    let refused_now = || {
        Some(server.post("/v1/track?site=acme", &[], event.as_bytes()))
            .filter(|response| response.status != 200)
    };
    let refused = eventually("the memory limit is reached", refused_now);
    assert_eq!((refused.status, refused.code().as_str()), (503, "overloaded"));
    drop(idle);
    eventually("the server accepts requests again", || refused_now().is_none().then_some(()));
}
