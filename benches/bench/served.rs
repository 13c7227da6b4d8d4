//! A desk that serves one snapshot, and the requests that are put to it.

use std::collections::HashSet;
use std::sync::Arc;

use parallax::api::{Desk, Settings, Surface};
use parallax::edge::agent::Agents;
use parallax::http::request::{Parsed, parse};
use parallax::snapshot::current::Current;
use parallax::snapshot::open::Budget;
use parallax::snapshot::shelf::Shelf;
use tempfile::TempDir;

/// A desk that serves one snapshot.
pub struct Served {
    pub desk: Desk,
    pub out: Vec<u8>,
    _folder: TempDir,
}

impl Served {
    pub fn new(snapshot: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("bench.snapshot"), snapshot).expect("written");
        let current = Current::default();
        let mut shelf = Shelf::new(Budget::new(u64::MAX));
        shelf.scan(folder.path(), &HashSet::new(), &current).expect("scanned");
        let settings = Settings { explain: false, country_header: None };
        let desk = Desk::new(Surface::Edge, settings, &current, Arc::new(Agents::new()));
        Self { desk, out: Vec::with_capacity(64 * 1024), _folder: folder }
    }

    /// From request bytes to response bytes.
    pub fn answer(&mut self, request: &[u8]) -> &[u8] {
        self.out.clear();
        match parse(request, None) {
            Parsed::Whole(request, _) => self.desk.answer(&request, &mut self.out),
            other => panic!("{other:?}"),
        }
        &self.out
    }
}

/// A request as a server sends it for its visitor, and what its answer must begin with and contain.
pub struct Case {
    pub name: &'static str,
    pub request: Vec<u8>,
    pub contains: &'static str,
}

impl Case {
    fn new(name: &'static str, target: &str, fields: &str, contains: &'static str) -> Self {
        let request = format!("GET {target} HTTP/1.1\r\nHost: edge.example\r\nAccept: */*\r\n{fields}\r\n");
        Self { name, request: request.into_bytes(), contains }
    }

    pub fn assert(&self, answer: &[u8]) {
        let whole = String::from_utf8_lossy(answer);
        let text = &whole[..whole.floor_char_boundary(1_500)];
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{}: {text}", self.name);
        assert!(text.contains(self.contains), "{}: {text}", self.name);
    }
}

const FORCED: &str = "/v1/resolve?trackingId=track_bench&route=/page-7&variants=hero:de,aside:b";
const DECIDED: &str = "trackingId=track_bench&route=/page-7&anonId=0c9a4e6b-visitor&country=SE";
const BROWSER: &str = "User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:143.0) Gecko/20100101 Firefox/143.0\r\n\
                       Accept-Language: de-DE,de;q=0.9,en;q=0.8\r\n";

/// The requests of the benchmarks.
pub fn cases() -> [Case; 5] {
    let gzip = "Accept-Encoding: gzip\r\n";
    [
        Case::new("resolve_forced", FORCED, "", "\"variants\":\"aside:b,hero:de\""),
        Case::new("resolve_forced_gzip", FORCED, gzip, "Content-Encoding: gzip"),
        Case::new(
            "resolve_decided",
            &format!("/v1/resolve?{DECIDED}"),
            BROWSER,
            "X-Variants: aside:b,hero:de",
        ),
        Case::new(
            "resolve_decided_gzip",
            &format!("/v1/resolve?{DECIDED}"),
            &format!("{BROWSER}{gzip}"),
            "Content-Encoding: gzip",
        ),
        Case::new(
            "variants",
            &format!("/v1/variants?{DECIDED}"),
            BROWSER,
            "\"variants\":\"aside:b,hero:de\"",
        ),
    ]
}
