//! Whatever a file holds, it is refused, or served without a panic.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Seek, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};

use parallax::api::{Desk, Settings};
use parallax::clock;
use parallax::http::request::{Arrival, Parsed, Surface, parse};
use parallax::resolve::user_agent::Agents;
use parallax::site::catalog::catalog::{Catalog, Current};
use parallax::site::catalog::versions::Versions;
use parallax::site::snapshot::format::{HEADER_BYTES, Header};
use parallax::site::snapshot::open::{Budget, Snapshot};

use super::site::{self, FILES};

/// A whole one, which is damaged.
static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| site::snapshot(&FILES, 1));

/// The first byte says what the others are: 0 a file, 1 what stands behind a header that has the right hash, else changes of a
/// whole one under the right hash, three bytes each: where (little-endian), and what stands there then.
pub fn snapshot(bytes: &[u8]) {
    let Some((how, bytes)) = bytes.split_first() else { return };
    let opened = match how {
        0 => open(bytes),
        1 => open(&sealed(bytes)),
        _ => open(&sealed(&changed(bytes))),
    };
    if let Some(snapshot) = opened {
        answers(snapshot);
    }
}

fn changed(changes: &[u8]) -> Vec<u8> {
    let mut payload = WHOLE[HEADER_BYTES..].to_vec();
    let length = payload.len();
    for change in changes.chunks_exact(3) {
        payload[usize::from(u16::from_le_bytes([change[0], change[1]])) % length] = change[2];
    }
    payload
}

fn sealed(payload: &[u8]) -> Vec<u8> {
    [&Header::of(payload, 1).to_bytes()[..], payload].concat()
}

pub fn open(bytes: &[u8]) -> Option<Snapshot> {
    thread_local! {
        static FILE: RefCell<File> = RefCell::new(tempfile::tempfile().expect("a temporary file"));
    }
    FILE.with_borrow_mut(|file| {
        file.set_len(0).expect("cut");
        file.rewind().expect("it is a file");
        file.write_all(bytes).expect("written");
        file.rewind().expect("it is a file");
        Snapshot::open_file(file, bytes.len() as u64, &Budget::new(u64::MAX)).ok()
    })
}

static AGENTS: LazyLock<Arc<Agents>> = LazyLock::new(|| Arc::new(Agents::new()));

/// Asks for everything that the snapshot shows, in every way.
pub fn answers(snapshot: Snapshot) {
    let snapshot = Arc::new(snapshot);
    let current = Current::default();
    let versions = Versions::default().and(&snapshot);
    current.swap(Catalog::new(std::iter::once((Arc::clone(&snapshot), versions))));
    let settings = Settings { explain: true, ..Settings::default() };
    let mut desk = Desk::new(settings, &current, Arc::clone(&AGENTS));
    let arrival =
        Arrival { peer: IpAddr::V4(Ipv4Addr::LOCALHOST), surface: Surface::Admin, at: clock::instant() };
    let id = snapshot.site().site.as_str();
    let mut asked = |target: &str| {
        for coding in ["gzip", "identity"] {
            let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n");
            let mut out = Vec::new();
            match parse(head.as_bytes(), None) {
                Parsed::Whole(request, _) => {
                    desk.answer(&request, &arrival, &mut out);
                }
                Parsed::Refused(problem) => desk.refuse(&problem, &mut out),
                Parsed::Partial => unreachable!("the head is whole"),
            }
            assert!(out.starts_with(b"HTTP/1.1 "), "{head}");
        }
    };
    for path in ["/", "/x", "/blog/a", "/blog/a/b", "/item/a", "/old/x/y", "/%2F"] {
        for how in
            ["", "&variants=", "&variants=hero:b,outer:b", "&explain=1&anonId=v", "&include=combinations"]
        {
            for endpoint in ["resolve", "variants", "routes"] {
                asked(&format!("/v1/{endpoint}?site={id}&route={path}{how}"));
            }
        }
    }
    for how in ["", "&params.s=a", "&params.n=1", "&params.n=2.5", "&params.s=b&params.n=-1", "&params.x=1"] {
        for limit in ["", "&limit=1", "&limit=100"] {
            asked(&format!("/v1/query?site={id}&query=q{how}{limit}"));
        }
    }
}
