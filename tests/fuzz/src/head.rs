//! A head is read alike whatever follows it, and never before it is whole.

use parallax::http::request::{Body, Parsed, parse};
use parallax::limits::{BODY_BYTES_MAX, HEAD_BYTES_MAX, TARGET_BYTES_MAX};

/// Prefixes that are looked at; of longer bytes not every one.
const PREFIXES: usize = 512;

/// The bytes of a connection.
pub fn head(bytes: &[u8]) {
    let whole = read(bytes);
    if let Read::Whole(_, length) = whole {
        let head = &bytes[..length];
        assert!(head.ends_with(b"\r\n\r\n") && !head.contains(&0));
        assert!(head.iter().enumerate().all(|(at, byte)| *byte != b'\r' || head[at + 1] == b'\n'));
        assert!(head.iter().enumerate().all(|(at, byte)| *byte != b'\n' || head[at - 1] == b'\r'));
    }
    for end in (0..bytes.len()).step_by(1 + bytes.len() / PREFIXES) {
        match read(&bytes[..end]) {
            Read::Partial => {}
            // Of two mistakes the one that has come is told.
            Read::Refused => assert_eq!(whole, Read::Refused, "refused at {end}"),
            early => assert_eq!(whole, early, "whole at {end}"),
        }
    }
}

#[derive(Debug, PartialEq)]
enum Read {
    Partial,
    Refused,
    /// All that it says, and its bytes.
    Whole(String, usize),
}

fn read(bytes: &[u8]) -> Read {
    match parse(bytes, Some("cf-ipcountry")) {
        Parsed::Partial => {
            assert!(bytes.len() < HEAD_BYTES_MAX);
            Read::Partial
        }
        Parsed::Refused(problem) => {
            assert!((400..600).contains(&problem.kind.status));
            Read::Refused
        }
        Parsed::Whole(request, length) => {
            assert!(length <= bytes.len().min(HEAD_BYTES_MAX));
            assert!(request.path.len() + request.query.len() <= TARGET_BYTES_MAX);
            assert!(matches!(request.body, Body::Chunked | Body::Length(0..=BODY_BYTES_MAX)));
            Read::Whole(format!("{request:?}"), length)
        }
    }
}
