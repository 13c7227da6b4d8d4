//! What a connection's bytes amount to does not depend on the pieces that they come in.

use parallax::http::input::Input;
use parallax::http::request::{Method, Parsed, parse};
use parallax::limits::BODY_BYTES_MAX;

/// What became of a connection's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// The requests that would have been answered: method, path, content.
    pub answered: Vec<(String, String, Vec<u8>)>,
    /// The code of the refusal that ended it.
    pub refused: Option<&'static str>,
    /// Whether the client asked to close, with bytes behind.
    pub bytes_behind_close: bool,
    /// Whether the client asked to close.
    pub closed: bool,
    /// Whether bytes are left that are no whole request.
    pub unfinished: bool,
}

/// Feeds `pieces` as a connection would.
pub fn feed<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Outcome {
    let mut input = Input::new();
    let mut outcome = Outcome::default();
    for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            let mut buffer = input.take_buffer();
            let taken = rest.len().min(buffer.capacity() - buffer.len());
            assert!(taken > 0, "there is room for what is wanted");
            buffer.extend_from_slice(&rest[..taken]);
            input.give_buffer(buffer);
            rest = &rest[taken..];
            if !answer(&mut input, &mut outcome) {
                outcome.bytes_behind_close |= !rest.is_empty();
                return outcome;
            }
        }
    }
    outcome.unfinished = !input.unread().is_empty();
    outcome
}

/// Answers what is whole; false where the connection ends.
fn answer(input: &mut Input, outcome: &mut Outcome) -> bool {
    loop {
        match input.receive_body() {
            Ok(true) => {}
            Ok(false) => return true,
            Err(problem) => {
                outcome.refused = Some(problem.kind.code);
                return false;
            }
        }
        match parse(input.unread(), None) {
            Parsed::Partial => return true,
            Parsed::Refused(problem) => {
                outcome.refused = Some(problem.kind.code);
                return false;
            }
            Parsed::Whole(request, head_bytes) => {
                let Some(end) = input.end(&request, head_bytes) else {
                    let body = request.body;
                    input.expect_body(head_bytes, body);
                    continue;
                };
                let content = input.unread()[head_bytes..end].to_vec();
                let close = request.close;
                let method = if request.method == Method::Other { "other" } else { "known" };
                outcome.answered.push((method.to_owned(), request.path.to_owned(), content));
                input.consume(end);
                if close {
                    outcome.closed = true;
                    outcome.bytes_behind_close = !input.unread().is_empty();
                    return false;
                }
            }
        }
    }
}

const CHUNKED: &[u8] = b"POST /v1/query HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

/// The first byte says whether a chunked body follows, or heads as well, and how large the pieces are.
pub fn body(bytes: &[u8]) {
    let Some((how, bytes)) = bytes.split_first() else { return };
    let bytes = [if how & 1 == 1 { CHUNKED } else { b"" }, bytes].concat();
    let whole = feed([&bytes[..]]);
    // Of two mistakes the one that has come is told.
    let heard = |outcome: &Outcome| (outcome.answered.clone(), outcome.refused.is_some(), outcome.unfinished);
    let size = usize::from(how >> 1) + 1;
    let first = bytes.len().min(size / 2);
    let pieces = std::iter::once(&bytes[..first]).chain(bytes[first..].chunks(size));
    assert_eq!(heard(&feed(pieces)), heard(&whole));
    assert!(whole.answered.iter().all(|(.., content)| content.len() <= BODY_BYTES_MAX));
}
