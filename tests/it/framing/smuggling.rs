//! On the wire, a request after one that llhttp rejects is never answered (R1).

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{Case, feed, llhttp, with_final_lines};
use crate::harness::{PATIENCE, Server};
use crate::strict;

/// The only request here whose answer would be 200.
const SMUGGLED: &[u8] = b"GET /v1/routes?site=fjell HTTP/1.1\r\nHost: a\r\n\r\n";

/// Sends the pieces and returns the statuses of the responses until the server closes the connection. The
/// client does not close its side.
fn statuses(server: &Server, pieces: [&[u8]; 2]) -> Vec<u16> {
    let mut stream = TcpStream::connect(server.edge).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("the timeout is set");
    stream.set_nodelay(true).expect("the socket option is set");
    // The server may have closed before the second piece.
    let _ = pieces.iter().try_for_each(|piece| stream.write_all(piece));
    let mut received = Vec::new();
    // A reset may end the connection. A timeout is a failure.
    if let Err(error) = stream.read_to_end(&mut received) {
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::ConnectionReset,
            "the server does not close the connection"
        );
    }
    let read = strict::parse(&received).unwrap_or_else(|fault| panic!("{fault}"));
    assert!(
        read.responses.last().is_none_or(|answer| answer.closes),
        "the last response does not announce the close: {read:?}"
    );
    read.responses.iter().map(|answer| answer.status).collect()
}

#[test]
fn a_smuggled_request_after_a_rejected_one_is_never_answered() {
    let Some(cases) = llhttp() else { return };
    let server = Server::demo();
    assert_eq!(server.get("/v1/routes?site=fjell").status, 200);
    for Case { name, bytes, messages, .. } in cases.iter().filter(|case| case.refused) {
        let bytes = if feed([&bytes[..]]).unfinished { with_final_lines(bytes) } else { bytes.clone() };
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
