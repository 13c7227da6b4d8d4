//! Any snapshot file is refused, or served without a panic.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Seek, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};

use parallax::testing::api::{Handler, Service, Settings};
use parallax::testing::clock;
use parallax::testing::http::refused_head::RefusedHead;
use parallax::testing::http::request::{ParseOutcome, RequestMeta, Surface, parse};
use parallax::testing::resolve::user_agent::UserAgentParser;
use parallax::testing::site::catalog::catalog::{Catalog, CurrentCatalog};
use parallax::testing::site::catalog::versions::Versions;
use parallax::testing::site::snapshot::format::{ARCHIVE_ALIGNMENT, HEADER_BYTES, Header};
use parallax::testing::site::snapshot::open::{Snapshot, SnapshotBudget};

use super::site::{self, FILES};

/// A valid snapshot. The target damages copies of it.
static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| site::snapshot(&FILES, 1));

/// The first byte gives the meaning of the other bytes. 0: a file. 1: the payload after a header with a valid
/// hash; its first byte is the length of the piece data, in blocks of 16 bytes. Else: changes of a valid
/// payload, of three bytes each: offset (little-endian) and new byte. The hash is valid after the changes.
pub fn snapshot(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let opened = match kind {
        0 => open(bytes),
        1 => {
            let blocks = bytes.first().map_or(0, |blocks| usize::from(*blocks));
            open(&with_header(bytes, blocks * ARCHIVE_ALIGNMENT))
        }
        _ => open(&with_header(&changed(bytes), whole_piece_data_bytes())),
    };
    if let Some(snapshot) = opened {
        request_everything(snapshot);
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

/// Returns the length of the piece data of the valid snapshot.
fn whole_piece_data_bytes() -> usize {
    let length = WHOLE[32..].first_chunk().expect("a header");
    u64::from_le_bytes(*length) as usize
}

fn with_header(payload: &[u8], piece_data_bytes: usize) -> Vec<u8> {
    [&Header::for_payload(payload, piece_data_bytes, 1).to_bytes()[..], payload].concat()
}

pub fn open(bytes: &[u8]) -> Option<Snapshot> {
    thread_local! {
        static FILE: RefCell<File> = RefCell::new(tempfile::tempfile().expect("a temporary file"));
    }
    FILE.with_borrow_mut(|file| {
        file.set_len(0).expect("cut");
        file.rewind().expect("rewinding works");
        file.write_all(bytes).expect("written");
        file.rewind().expect("rewinding works");
        Snapshot::open_file(file, bytes.len() as u64, &SnapshotBudget::new(u64::MAX)).ok()
    })
}

static AGENTS: LazyLock<Arc<UserAgentParser>> = LazyLock::new(|| Arc::new(UserAgentParser::new()));

/// Requests the content of the snapshot with many combinations of parameters.
pub fn request_everything(snapshot: Snapshot) {
    let snapshot = Arc::new(snapshot);
    let current = CurrentCatalog::default();
    let versions = Versions::default().with_snapshot(&snapshot);
    current.swap(Catalog::new(std::iter::once((Arc::clone(&snapshot), versions))));
    let settings = Settings { explain: true, ..Settings::default() };
    let mut handler = Handler::new(settings, &current, Arc::clone(&AGENTS));
    let meta = RequestMeta {
        connection: 0,
        peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
        surface: Surface::Admin,
        received_at: clock::instant(),
    };
    let id = snapshot.site().site.get();
    let mut get = |target: &str| {
        for coding in ["gzip", "identity"] {
            let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n");
            let mut out = Vec::new();
            match parse(head.as_bytes(), None) {
                ParseOutcome::Complete(request, _) => {
                    handler.handle(&request, &meta, &mut out);
                }
                ParseOutcome::Rejected(problem) => {
                    let refused = RefusedHead::read(head.as_bytes());
                    let meta = RequestMeta { surface: Surface::Public, ..meta };
                    handler.reject_unparsed(&problem, &refused, &meta, &mut out);
                }
                ParseOutcome::Partial => unreachable!("the head is complete"),
            }
            assert!(out.starts_with(b"HTTP/1.1 "), "{head}");
        }
    };
    for path in ["/", "/x", "/blog/a", "/blog/a/b", "/item/a", "/old/x/y", "/%2F"] {
        for params in
            ["", "&variants=", "&variants=hero:b,outer:b", "&explain=1&anonId=v", "&include=combinations"]
        {
            for endpoint in ["resolve", "variants", "routes"] {
                get(&format!("/v1/{endpoint}?site={id}&route={path}{params}"));
            }
        }
    }
    for params in
        ["", "&params.s=a", "&params.n=1", "&params.n=2.5", "&params.s=b&params.n=-1", "&params.x=1"]
    {
        for limit in ["", "&limit=1", "&limit=100"] {
            get(&format!("/v1/query?site={id}&query=q{params}{limit}"));
        }
    }
}
