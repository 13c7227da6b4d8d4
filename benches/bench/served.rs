//! A handler that serves one snapshot, and its test requests.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use parallax::testing::api::{EventSink, Handler, Service, Settings};
use parallax::testing::http::head_parser::HeadParser;
use parallax::testing::http::request::{ParseOutcome, RequestMeta, Surface, parse};
use parallax::testing::resolve::user_agent::UserAgentParser;
use parallax::testing::site::catalog::catalog::CurrentCatalog;
use parallax::testing::site::catalog::directory::SnapshotDirectory;
use parallax::testing::site::snapshot::open::SnapshotBudget;
use parallax::testing::visitors::lookup::ProfileReader;
use tempfile::TempDir;

/// A handler that serves one snapshot.
pub struct TestHandler {
    pub handler: Handler,
    heads: HeadParser,
    /// True if header sections are remembered, as in a server.
    pub remembers: bool,
    pub out: Vec<u8>,
    pub meta: RequestMeta,
    _dir: TempDir,
}

impl TestHandler {
    /// Serves `snapshot`, with these visitor profiles.
    pub fn new(snapshot: &[u8], visitors: Option<ProfileReader>) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(dir.path().join("bench.snapshot"), snapshot).expect("written");
        let current = CurrentCatalog::default();
        let mut directory = SnapshotDirectory::new(SnapshotBudget::new(u64::MAX));
        directory.scan(dir.path(), &HashSet::new(), &current).expect("scanned");
        let settings = Settings::default();
        let handler = Handler::new(settings, &current, Arc::new(UserAgentParser::new()));
        let handler = match visitors {
            Some(visitors) => handler.with_profiles(visitors),
            None => handler,
        };
        let meta = RequestMeta {
            connection: 0,
            peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
            surface: Surface::Public,
            received_at: parallax::testing::clock::instant(),
        };
        Self {
            handler,
            heads: HeadParser::new(None),
            remembers: true,
            out: Vec::with_capacity(64 * 1024),
            meta,
            _dir: dir,
        }
    }

    /// Records events through `sink`.
    #[allow(dead_code, reason = "not all benchmarks post events")]
    pub fn with_event_sink(self, sink: EventSink) -> Self {
        Self { handler: self.handler.with_event_sink(sink), ..self }
    }

    /// Parses the request bytes and returns the response bytes.
    pub fn answer(&mut self, request: &[u8]) -> &[u8] {
        self.out.clear();
        let parsed = if self.remembers { self.heads.parse(0, request) } else { parse(request, None) };
        match parsed {
            ParseOutcome::Complete(request, _) => self.handler.handle(&request, &self.meta, &mut self.out),
            other => panic!("{other:?}"),
        };
        &self.out
    }
}

/// A request as a server sends it for its visitor, with the expected start and content of the response.
pub struct Case {
    pub name: &'static str,
    pub request: Vec<u8>,
    /// Status code and reason.
    pub status: &'static str,
    pub contains: &'static str,
}

impl Case {
    /// Creates a GET with the expected status 200.
    pub fn new(name: &'static str, target: &str, fields: &str, contains: &'static str) -> Self {
        let request = format!("GET {target} HTTP/1.1\r\nHost: edge.example\r\nAccept: */*\r\n{fields}\r\n");
        Self { name, request: request.into_bytes(), status: "200 OK", contains }
    }

    pub fn assert(&self, answer: &[u8]) {
        let whole = String::from_utf8_lossy(answer);
        let excerpt = &whole[..whole.floor_char_boundary(1_500)];
        assert!(whole.starts_with(&format!("HTTP/1.1 {}\r\n", self.status)), "{}: {excerpt}", self.name);
        assert!(whole.contains(self.contains), "{}: {excerpt}", self.name);
    }
}
