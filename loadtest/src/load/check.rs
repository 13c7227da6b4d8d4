//! Whether an answer, kept whole, is what its request was to have: by a parser of its own, not by the reader that framed it.

use std::io::Read;

use flate2::read::MultiGzDecoder;

use super::answer::begin;
use crate::request::{Body, Expected};

/// Fields of a head that are looked at; the servers of the comparisons send fewer than twenty.
const FIELDS_MAX: usize = 64;

/// What is wrong with an answer; its status was looked at before.
pub fn check(answer: &[u8], expected: &Expected) -> Result<(), String> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut fields);
    let body = match head.parse(answer) {
        Ok(httparse::Status::Complete(bytes)) => &answer[bytes..],
        Ok(httparse::Status::Partial) => return Err("its head does not end".to_owned()),
        Err(error) => return Err(format!("its head is none: {error}: {}", begin(answer))),
    };
    let field = |name: &str| {
        let field = head.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        field.and_then(|field| std::str::from_utf8(field.value).ok())
    };
    let length = field("content-length").and_then(|length| length.parse::<usize>().ok());
    if !matches!(head.code, Some(204 | 304)) && length != Some(body.len()) {
        return Err(format!("{} bytes came where {length:?} were announced", body.len()));
    }
    if let Body::Same(bytes) = &expected.body {
        return if body == bytes { Ok(()) } else { Err(format!("its body is another: {}", begin(body))) };
    }
    if field("content-encoding") == Some("gzip") {
        let mut inflated = Vec::new();
        let outcome = MultiGzDecoder::new(body).read_to_end(&mut inflated);
        outcome.map_err(|error| format!("its body is no gzip: {error}"))?;
        return content(&inflated, &expected.body);
    }
    content(body, &expected.body)
}

/// Looks at a body as its reader sees it.
fn content(body: &[u8], expected: &Body) -> Result<(), String> {
    match expected {
        Body::Same(_) => Ok(()),
        Body::Contains(texts) => {
            let is_missing = |text: &&String| memchr::memmem::find(body, text.as_bytes()).is_none();
            let missing = texts.iter().find(is_missing);
            missing.map_or(Ok(()), |text| Err(format!("it does not contain {text:?}: {}", begin(body))))
        }
        Body::Alike { mark, times } => alike(body, mark, *times),
    }
}

fn alike(body: &[u8], mark: &str, times: usize) -> Result<(), String> {
    let digits = |at: usize| {
        let behind = &body[at + mark.len()..];
        let count = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
        &behind[..count]
    };
    let marked: Vec<&[u8]> = memchr::memmem::find_iter(body, mark.as_bytes()).map(digits).collect();
    if marked.len() < times {
        return Err(format!("it contains {mark:?} {} times, not {times}", marked.len()));
    }
    let Some(other) = marked.iter().find(|digits| digits.is_empty() || **digits != marked[0]) else {
        return Ok(());
    };
    let (one, other) = (marked[0].escape_ascii(), other.escape_ascii());
    Err(format!("it is mixed: {mark:?} stands before \"{one}\" and before \"{other}\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn answer(fields: &str, body: &[u8]) -> Vec<u8> {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    }

    fn gzip(body: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(body).expect("in memory");
        encoder.finish().expect("in memory")
    }

    fn say(answer: &[u8], body: Body) -> String {
        check(answer, &Expected { status: 200, body }).err().unwrap_or_default()
    }

    fn contains(text: &str) -> Body {
        Body::Contains(vec![text.to_owned()])
    }

    fn alike() -> Body {
        Body::Alike { mark: "v=".to_owned(), times: 2 }
    }

    #[test]
    fn a_body_must_be_what_is_expected_inflated_where_it_is_gzip() {
        let plain = answer("", b"v=12 and v=12");
        let packed = answer("Content-Encoding: gzip\r\n", &gzip(b"v=12 and v=12"));
        for answer in [&plain, &packed] {
            assert_eq!(say(answer, contains("2 and v")), "");
            assert_eq!(say(answer, alike()), "");
            assert_eq!(say(answer, Body::Contains(Vec::new())), "");
            assert!(say(answer, contains("other")).contains("does not contain"));
        }
        assert_eq!(say(&plain, Body::Same(b"v=12 and v=12".to_vec())), "");
        assert!(say(&plain, Body::Same(b"v=12 and v=1".to_vec())).contains("another"));
        assert!(
            say(&answer("Content-Encoding: gzip\r\n", b"v=1"), Body::Contains(Vec::new()))
                .contains("no gzip")
        );
        assert!(say(&plain[..plain.len() - 1], Body::Contains(Vec::new())).contains("announced"));
    }

    #[test]
    fn an_answer_mixed_from_two_versions_is_found_out() {
        assert!(say(&answer("", b"v=12 and v=13"), alike()).contains("mixed"));
        assert!(say(&answer("", b"v=12 and v=121"), alike()).contains("mixed"));
        assert!(say(&answer("", b"v= and v="), alike()).contains("mixed"));
        assert!(say(&answer("", b"v=12"), alike()).contains("1 times, not 2"));
    }
}
