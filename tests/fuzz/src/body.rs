//! The result of a connection's bytes does not depend on the pieces in which they arrive.

use parallax::testing::http::input::ReadBuffer;
use parallax::testing::http::request::{Method, ParseOutcome, parse};
use parallax::testing::limits::BODY_BYTES_MAX;

/// The result of a connection's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// The complete requests: `known` or `other` method, path, body.
    pub answered: Vec<(String, String, Vec<u8>)>,
    /// The code of the refusal that ended the connection.
    pub refused: Option<&'static str>,
    /// True if bytes follow the request that asked to close. Also set if pieces are left after a refusal.
    pub bytes_after_close: bool,
    /// True if a request asked to close the connection.
    pub closed: bool,
    /// True if the bytes end with an incomplete request.
    pub unfinished: bool,
}

/// Feeds `pieces` into a read buffer as a connection does.
pub fn feed<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Outcome {
    let mut input = ReadBuffer::new();
    let mut outcome = Outcome::default();
    for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            let mut buffer = input.take();
            let taken = rest.len().min(buffer.capacity() - buffer.len());
            assert!(taken > 0, "the read buffer is full but wants more bytes");
            buffer.extend_from_slice(&rest[..taken]);
            input.put_back(buffer);
            rest = &rest[taken..];
            if !answer(&mut input, &mut outcome) {
                outcome.bytes_after_close |= !rest.is_empty();
                return outcome;
            }
        }
    }
    outcome.unfinished = !input.pending().is_empty();
    outcome
}

/// Answers the complete requests. Returns false if the connection ends.
fn answer(input: &mut ReadBuffer, outcome: &mut Outcome) -> bool {
    loop {
        match input.decode_body() {
            Ok(true) => {}
            Ok(false) => return true,
            Err(problem) => {
                outcome.refused = Some(problem.kind.code);
                return false;
            }
        }
        match parse(input.pending(), None) {
            ParseOutcome::Partial => return true,
            ParseOutcome::Rejected(problem) => {
                outcome.refused = Some(problem.kind.code);
                return false;
            }
            ParseOutcome::Complete(request, head_bytes) => {
                let Some(end) = input.request_end(&request, head_bytes) else {
                    let body = request.body_framing;
                    input.expect_body(head_bytes, body);
                    continue;
                };
                let content = input.pending()[head_bytes..end].to_vec();
                let close = request.close;
                let method = if request.method == Method::Other { "other" } else { "known" };
                outcome.answered.push((method.to_owned(), request.path.to_owned(), content));
                input.advance(end);
                if close {
                    outcome.closed = true;
                    outcome.bytes_after_close = !input.pending().is_empty();
                    return false;
                }
            }
        }
    }
}

const CHUNKED: &[u8] = b"POST /v1/query HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Feeds the bytes whole and in pieces. Bit 0 of the first byte chooses whether the head of a chunked
/// request precedes the other bytes. The other bits give the size of the pieces.
pub fn body(bytes: &[u8]) {
    let Some((options, bytes)) = bytes.split_first() else { return };
    let bytes = [if options & 1 == 1 { CHUNKED } else { b"" }, bytes].concat();
    let whole = feed([&bytes[..]]);
    // If the bytes contain two errors, the first that is complete is reported. So codes are not compared.
    let observed =
        |outcome: &Outcome| (outcome.answered.clone(), outcome.refused.is_some(), outcome.unfinished);
    let size = usize::from(options >> 1) + 1;
    let first = bytes.len().min(size / 2);
    let pieces = std::iter::once(&bytes[..first]).chain(bytes[first..].chunks(size));
    assert_eq!(observed(&feed(pieces)), observed(&whole));
    assert!(whole.answered.iter().all(|(.., content)| content.len() <= BODY_BYTES_MAX));
}
