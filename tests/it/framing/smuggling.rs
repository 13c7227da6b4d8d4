//! What llhttp refuses, on the wire with a request behind it that must not be heard (R1).

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{Case, ended, feed, llhttp};
use crate::harness::{PATIENCE, Server};
use crate::strict;

/// Nothing but this is answered by 200.
const SMUGGLED: &[u8] = b"GET /v1/routes?site=fjell HTTP/1.1\r\nHost: a\r\n\r\n";

/// The statuses of what comes back until the server closes; nothing here tells it to.
fn statuses(server: &Server, pieces: [&[u8]; 2]) -> Vec<u16> {
    let mut stream = TcpStream::connect(server.edge).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out is set");
    stream.set_nodelay(true).expect("a socket option is set");
    // It may have closed by the second piece.
    let _ = pieces.iter().try_for_each(|piece| stream.write_all(piece));
    let mut received = Vec::new();
    // The end may be a reset; one that does not come is not.
    if let Err(error) = stream.read_to_end(&mut received) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "it does not close");
    }
    let read = strict::read(&received).unwrap_or_else(|fault| panic!("{fault}"));
    assert!(read.answers.last().is_none_or(|answer| answer.closes), "the last answer says so: {read:?}");
    read.answers.iter().map(|answer| answer.status).collect()
}

#[test]
fn a_request_behind_what_llhttp_refuses_is_never_heard_however_it_is_split() {
    let Some(cases) = llhttp() else { return };
    let server = Server::demo();
    assert_eq!(server.get("/v1/routes?site=fjell").status, 200);
    for Case { name, bytes, messages, .. } in cases.iter().filter(|case| case.refused) {
        let bytes = if feed([&bytes[..]]).unfinished { ended(bytes) } else { bytes.clone() };
        let bytes = [&bytes[..], SMUGGLED].concat();
        let whole = statuses(&server, [&bytes, b""]);
        let shown = bytes.escape_ascii();
        assert!(whole.len() <= (*messages).max(1) + 1, "{name}: {whole:?} {shown}");
        assert!(whole.iter().all(|status| (400..600).contains(status)), "{name}: {whole:?} {shown}");
        for at in 1..bytes.len() {
            let (first, second) = bytes.split_at(at);
            assert_eq!(statuses(&server, [first, second]), whole, "{name}, split at {at}: {shown}");
        }
    }
    assert_eq!(server.get("/v1/routes?site=fjell").status, 200);
}
