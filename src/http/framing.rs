//! The framing of a request: how its body ends (RFC 9112 section 6). A request whose end is ambiguous is refused.

use super::headers::{Field, Headers};
use crate::problem::{self, Problem};

/// The framing of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFraming {
    /// This many bytes follow the head. 0 if there is no body.
    Length(usize),
    /// A chunked body follows the head.
    Chunked,
}

/// The transfer codings of a request, over all fields.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransferCodings {
    #[default]
    None,
    /// Only `chunked`.
    Chunked,
    /// Other codings, without `chunked`.
    Other,
    /// Other codings, and `chunked` as the last one.
    OtherThenChunked,
    /// A coding after `chunked`.
    AfterChunked,
}

impl TransferCodings {
    /// Adds the codings of one more field.
    pub(super) fn with_line(self, line: &[u8]) -> Self {
        line.split(|b| *b == b',').fold(self, |codings, coding| {
            match (codings, coding.trim_ascii().eq_ignore_ascii_case(b"chunked")) {
                (Self::None, true) => Self::Chunked,
                (Self::None | Self::Other, false) => Self::Other,
                (Self::Other, true) => Self::OtherThenChunked,
                (Self::Chunked | Self::OtherThenChunked | Self::AfterChunked, _) => Self::AfterChunked,
            }
        })
    }
}

/// Returns the framing of the body. `is_http_1_0` says that the request is HTTP/1.0.
///
/// # Errors
/// `malformed_request`, `unknown_transfer_coding`.
pub(super) fn body_framing<'a>(headers: &Headers<'a>, is_http_1_0: bool) -> Result<BodyFraming, Problem<'a>> {
    let malformed = |sentence| Problem::new(problem::MALFORMED_REQUEST, sentence);
    match (headers.get(Field::ContentLength), headers.index.transfer_codings) {
        (None, TransferCodings::None) => Ok(BodyFraming::Length(0)),
        (Some(_), TransferCodings::None) if headers.index.content_length_count > 1 => {
            Err(malformed("The request has more than one Content-Length."))
        }
        (Some(digits), TransferCodings::None) => parse_content_length(digits).map(BodyFraming::Length),
        (Some(_), _) => Err(malformed("The request has both Content-Length and Transfer-Encoding.")),
        (None, _) if is_http_1_0 => Err(malformed("An HTTP/1.0 request has Transfer-Encoding.")),
        (None, TransferCodings::Chunked) => Ok(BodyFraming::Chunked),
        (None, TransferCodings::OtherThenChunked) => Err(Problem::new(
            problem::UNKNOWN_TRANSFER_CODING,
            "The server supports only Transfer-Encoding: chunked.",
        )),
        (None, TransferCodings::Other) => {
            Err(malformed("The last transfer coding is not chunked, so the end of the body is unknown."))
        }
        (None, TransferCodings::AfterChunked) => {
            Err(malformed("Transfer-Encoding names a coding after chunked."))
        }
    }
}

/// Checks that the server supports the expectation, if there is one.
///
/// # Errors
/// `expectation_failed`.
pub(super) fn check_expectation<'a>(expectation: Option<&[u8]>) -> Result<(), Problem<'a>> {
    match expectation {
        Some(expect) if !expect.eq_ignore_ascii_case(b"100-continue") => {
            let sentence = "The server supports only the expectation 100-continue.";
            Err(Problem::new(problem::EXPECTATION_FAILED, sentence))
        }
        _ => Ok(()),
    }
}

fn parse_content_length<'a>(text: &'a [u8]) -> Result<usize, Problem<'a>> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        let sentence = "Content-Length is not a decimal number.";
        return Err(Problem::new(problem::MALFORMED_REQUEST, sentence));
    }
    let add = |length: usize, digit: &u8| length.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
    Ok(text.iter().fold(0, add))
}
