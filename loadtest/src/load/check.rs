//! The check of complete responses against their expectations. It parses with httparse, independently of the
//! framing.

use std::io::Read;

use flate2::read::MultiGzDecoder;

use super::framing::quoted_start;
use crate::request::{Expected, ExpectedBody};

/// Header fields that are parsed. The compared servers send fewer than twenty. More is an error.
const FIELDS_MAX: usize = 64;

/// Checks framing and body of a response. The caller has checked the status.
pub fn check_response(response: &[u8], expected: &Expected) -> Result<(), String> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut fields);
    let body = match head.parse(response) {
        Ok(httparse::Status::Complete(bytes)) => &response[bytes..],
        Ok(httparse::Status::Partial) => return Err("the head does not end".to_owned()),
        Err(error) => return Err(format!("malformed head: {error}: {}", quoted_start(response))),
    };
    let field = |name: &str| {
        let field = head.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        field.and_then(|field| std::str::from_utf8(field.value).ok())
    };
    let length = field("content-length").and_then(|length| length.parse::<usize>().ok());
    if !matches!(head.code, Some(204 | 304)) && length != Some(body.len()) {
        return Err(format!("body of {} bytes, but Content-Length announced {length:?}", body.len()));
    }
    if let ExpectedBody::Exact(bytes) = &expected.body {
        return if body == bytes { Ok(()) } else { Err(format!("unexpected body: {}", quoted_start(body))) };
    }
    if field("content-encoding") == Some("gzip") {
        let mut inflated = Vec::new();
        let outcome = MultiGzDecoder::new(body).read_to_end(&mut inflated);
        outcome.map_err(|error| format!("the body is no gzip: {error}"))?;
        return check_content(&inflated, &expected.body);
    }
    check_content(body, &expected.body)
}

/// Checks a decompressed body.
fn check_content(body: &[u8], expected: &ExpectedBody) -> Result<(), String> {
    match expected {
        ExpectedBody::Exact(_) => Ok(()),
        ExpectedBody::Contains(texts) => {
            let is_missing = |text: &&String| memchr::memmem::find(body, text.as_bytes()).is_none();
            let missing = texts.iter().find(is_missing);
            missing.map_or(Ok(()), |text| {
                Err(format!("the body does not contain {text:?}: {}", quoted_start(body)))
            })
        }
        ExpectedBody::SameMark { mark, times } => check_same_mark(body, mark, *times),
    }
}

fn check_same_mark(body: &[u8], mark: &str, times: usize) -> Result<(), String> {
    let digits = |at: usize| {
        let after = &body[at + mark.len()..];
        let count = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
        &after[..count]
    };
    let marked: Vec<&[u8]> = memchr::memmem::find_iter(body, mark.as_bytes()).map(digits).collect();
    if marked.len() < times {
        return Err(format!("the body contains {mark:?} {} times, not {times}", marked.len()));
    }
    let Some(other) = marked.iter().find(|digits| digits.is_empty() || **digits != marked[0]) else {
        return Ok(());
    };
    let (one, other) = (marked[0].escape_ascii(), other.escape_ascii());
    Err(format!("mixed versions: {mark:?} is followed by \"{one}\" and by \"{other}\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn response(fields: &str, body: &[u8]) -> Vec<u8> {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    }

    fn gzip(body: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(body).expect("in memory");
        encoder.finish().expect("in memory")
    }

    fn check_error(response: &[u8], body: ExpectedBody) -> String {
        check_response(response, &Expected { status: 200, body }).err().unwrap_or_default()
    }

    fn contains(text: &str) -> ExpectedBody {
        ExpectedBody::Contains(vec![text.to_owned()])
    }

    fn same_mark() -> ExpectedBody {
        ExpectedBody::SameMark { mark: "v=".to_owned(), times: 2 }
    }

    #[test]
    fn a_body_is_checked_after_decompression() {
        let plain = response("", b"v=12 and v=12");
        let packed = response("Content-Encoding: gzip\r\n", &gzip(b"v=12 and v=12"));
        for response in [&plain, &packed] {
            assert_eq!(check_error(response, contains("2 and v")), "");
            assert_eq!(check_error(response, same_mark()), "");
            assert_eq!(check_error(response, ExpectedBody::Contains(Vec::new())), "");
            assert!(check_error(response, contains("other")).contains("does not contain"));
        }
        assert_eq!(check_error(&plain, ExpectedBody::Exact(b"v=12 and v=12".to_vec())), "");
        assert!(
            check_error(&plain, ExpectedBody::Exact(b"v=12 and v=1".to_vec())).contains("unexpected body")
        );
        assert!(
            check_error(&response("Content-Encoding: gzip\r\n", b"v=1"), ExpectedBody::Contains(Vec::new()))
                .contains("no gzip")
        );
        assert!(
            check_error(&plain[..plain.len() - 1], ExpectedBody::Contains(Vec::new())).contains("announced")
        );
    }

    #[test]
    fn a_response_mixed_from_two_versions_is_detected() {
        assert!(check_error(&response("", b"v=12 and v=13"), same_mark()).contains("mixed"));
        assert!(check_error(&response("", b"v=12 and v=121"), same_mark()).contains("mixed"));
        assert!(check_error(&response("", b"v= and v="), same_mark()).contains("mixed"));
        assert!(check_error(&response("", b"v=12"), same_mark()).contains("1 times, not 2"));
    }
}
