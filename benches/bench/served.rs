//! A desk that serves one snapshot, and the requests that are put to it.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use parallax::api::{Desk, Settings};
use parallax::http::request::{Arrival, Parsed, Surface, parse};
use parallax::resolve::user_agent::Agents;
use parallax::site::catalog::catalog::Current;
use parallax::site::catalog::directory::Shelf;
use parallax::site::snapshot::open::Budget;
use parallax::visitors::lookup::Lookup;
use tempfile::TempDir;

/// A desk that serves one snapshot.
pub struct Served {
    pub desk: Desk,
    pub out: Vec<u8>,
    arrival: Arrival,
    _folder: TempDir,
}

impl Served {
    /// Serves `snapshot`, and knows these visitors.
    pub fn new(snapshot: &[u8], visitors: Option<Lookup>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("bench.snapshot"), snapshot).expect("written");
        let current = Current::default();
        let mut shelf = Shelf::new(Budget::new(u64::MAX));
        shelf.scan(folder.path(), &HashSet::new(), &current).expect("scanned");
        let settings = Settings::default();
        let desk = Desk::new(settings, &current, Arc::new(Agents::new()));
        let desk = match visitors {
            Some(visitors) => desk.knowing(visitors),
            None => desk,
        };
        let arrival = Arrival {
            peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
            surface: Surface::Public,
            at: parallax::clock::instant(),
        };
        Self { desk, out: Vec::with_capacity(64 * 1024), arrival, _folder: folder }
    }

    /// From request bytes to response bytes.
    pub fn answer(&mut self, request: &[u8]) -> &[u8] {
        self.out.clear();
        match parse(request, None) {
            Parsed::Whole(request, _) => self.desk.answer(&request, &self.arrival, &mut self.out),
            other => panic!("{other:?}"),
        };
        &self.out
    }
}

/// A request as a server sends it for its visitor, and what its answer must begin with and contain.
pub struct Case {
    pub name: &'static str,
    pub request: Vec<u8>,
    /// Code and reason.
    pub status: &'static str,
    pub contains: &'static str,
}

impl Case {
    /// A GET, answered by 200.
    pub fn new(name: &'static str, target: &str, fields: &str, contains: &'static str) -> Self {
        let request = format!("GET {target} HTTP/1.1\r\nHost: edge.example\r\nAccept: */*\r\n{fields}\r\n");
        Self { name, request: request.into_bytes(), status: "200 OK", contains }
    }

    pub fn assert(&self, answer: &[u8]) {
        let whole = String::from_utf8_lossy(answer);
        let shown = &whole[..whole.floor_char_boundary(1_500)];
        assert!(whole.starts_with(&format!("HTTP/1.1 {}\r\n", self.status)), "{}: {shown}", self.name);
        assert!(whole.contains(self.contains), "{}: {shown}", self.name);
    }
}
