//! A head is parsed independently of the bytes after it, and never before it is complete.

use parallax::testing::http::request::{BodyFraming, ParseOutcome, parse};
use parallax::testing::limits::{BODY_BYTES_MAX, HEAD_BYTES_MAX, TARGET_BYTES_MAX};

/// Approximate number of prefixes that are parsed. Of longer inputs some prefixes are skipped.
const PREFIXES: usize = 512;

/// Parses the bytes of a connection, whole and in prefixes.
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
            // With two errors in the bytes a prefix may be refused for another one. So codes are not
            // compared.
            Read::Refused => assert_eq!(whole, Read::Refused, "refused at {end}"),
            early => assert_eq!(whole, early, "whole at {end}"),
        }
    }
}

#[derive(Debug, PartialEq)]
enum Read {
    Partial,
    Refused,
    /// The parsed request as text, and the bytes of its head.
    Whole(String, usize),
}

fn read(bytes: &[u8]) -> Read {
    match parse(bytes, Some("cf-ipcountry")) {
        ParseOutcome::Partial => {
            assert!(bytes.len() < HEAD_BYTES_MAX);
            Read::Partial
        }
        ParseOutcome::Rejected(problem) => {
            assert!((400..600).contains(&problem.kind.status));
            Read::Refused
        }
        ParseOutcome::Complete(request, length) => {
            assert!(length <= bytes.len().min(HEAD_BYTES_MAX));
            assert!(request.path.len() + request.query.len() <= TARGET_BYTES_MAX);
            assert!(matches!(
                request.body_framing,
                BodyFraming::Chunked | BodyFraming::Length(0..=BODY_BYTES_MAX)
            ));
            Read::Whole(format!("{request:?}"), length)
        }
    }
}
