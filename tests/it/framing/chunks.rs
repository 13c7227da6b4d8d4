//! Chunked bodies against a naive encoder, and rejection of everything outside the grammar.

use parallax::testing::limits::{BODY_BYTES_MAX, CHUNK_LINE_BYTES_MAX, TRAILER_BYTES_MAX};
use proptest::prelude::*;

use super::{feed, outcome};

const HEAD: &str = "POST /v1/query HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

fn chunked(body: &str) -> Vec<u8> {
    [HEAD.as_bytes(), body.as_bytes()].concat()
}

/// Returns the content of one complete chunked request.
fn content(body: &str) -> Vec<u8> {
    let outcome = outcome(&chunked(body));
    assert_eq!((outcome.refused, outcome.unfinished, outcome.answered.len()), (None, false, 1), "{body:?}");
    outcome.answered[0].2.clone()
}

fn refusal(body: &str) -> Option<&'static str> {
    outcome(&chunked(body)).refused
}

#[test]
fn chunk_sizes_are_hex_digits_in_either_case_with_leading_zeros() {
    assert_eq!(content("0\r\n\r\n"), b"");
    assert_eq!(content("3\r\nabc\r\n0\r\n\r\n"), b"abc");
    assert_eq!(content("A\r\n0123456789\r\n00\r\n\r\n"), b"0123456789");
    assert_eq!(content("000000000000000a\r\n0123456789\r\n0\r\n\r\n"), b"0123456789");
    for size in ["", " 3", "3 ", "+3", "-3", "0x3", "3g", "３", "00000000000000003", "3;", "3\t"] {
        let body = format!("{size}\r\nabc\r\n0\r\n\r\n");
        assert_eq!(refusal(&body), Some("malformed_request"), "{size:?}");
    }
}

#[test]
fn chunk_lines_end_with_crlf_only() {
    for body in [
        "3\nabc\r\n0\r\n\r\n",
        "3\rabc\r\n0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nabc\r0\r\n\r\n",
        "0\r\n\n",
        "0\n\r\n",
        "0\r\nA: b\n\r\n",
        "3\r\r\nabc\r\n0\r\n\r\n",
    ] {
        assert_eq!(refusal(body), Some("malformed_request"), "{body:?}");
    }
}

#[test]
fn chunk_extensions_are_ignored_but_must_match_the_grammar() {
    for extensions in [";a", ";a=b", ";a;b=c;d", ";a=\"b c\"", ";a=\"\\\"\\\\\"", ";a=\"\""] {
        assert_eq!(
            content(&format!("3{extensions}\r\nabc\r\n0{extensions}\r\n\r\n")),
            b"abc",
            "{extensions}"
        );
    }
    for extensions in
        [";", ";=b", ";a=", "; a", ";a =b", ";a= b", ";a b", ";a=\"b", ";a=\"\u{1}\"", "x", ";a;;b"]
    {
        let body = format!("3{extensions}\r\nabc\r\n0\r\n\r\n");
        assert_eq!(refusal(&body), Some("malformed_request"), "{extensions:?}");
    }
    for bytes in [CHUNK_LINE_BYTES_MAX - 1, CHUNK_LINE_BYTES_MAX] {
        assert_eq!(content(&format!("3;{}\r\nabc\r\n0\r\n\r\n", "x".repeat(bytes - 2))), b"abc");
    }
    let above = format!("3;{}\r\nabc\r\n0\r\n\r\n", "x".repeat(CHUNK_LINE_BYTES_MAX - 1));
    assert_eq!(refusal(&above), Some("malformed_request"));
}

#[test]
fn trailer_fields_are_dropped_and_bounded() {
    assert_eq!(content("3\r\nabc\r\n0\r\nDigest: x\r\nA:\r\n\r\n"), b"abc");
    for trailer in ["Digest : x\r\n", " x: y\r\n", "x\r\n", ": y\r\n", "a: \u{0}\r\n", "a: b\r\n c\r\n"] {
        assert_eq!(refusal(&format!("0\r\n{trailer}\r\n")), Some("malformed_request"), "{trailer:?}");
    }
    let trailer =
        |bytes: usize| chunked(&format!("0\r\nA: {}\r\n\r\n", "x".repeat(bytes - "A: \r\n\r\n".len())));
    for bytes in [TRAILER_BYTES_MAX - 1, TRAILER_BYTES_MAX] {
        assert_eq!(feed([&trailer(bytes)[..]]).refused, None, "{bytes}");
    }
    assert_eq!(feed([&trailer(TRAILER_BYTES_MAX + 1)[..]]).refused, Some("malformed_request"));
}

#[test]
fn a_body_is_refused_as_soon_as_a_chunk_size_exceeds_the_limit() {
    let of = |bytes: usize| chunked(&format!("{bytes:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(bytes)));
    for bytes in [BODY_BYTES_MAX - 1, BODY_BYTES_MAX] {
        let outcome = feed(of(bytes).chunks(4096));
        assert_eq!((outcome.refused, outcome.answered[0].2.len()), (None, bytes));
    }
    for body in [format!("{:x}\r\n", BODY_BYTES_MAX + 1), "ffffffffffffffff\r\n".to_owned()] {
        assert_eq!(refusal(&body), Some("body_too_large"));
    }
    let two = format!("{:x}\r\n{}\r\n1\r\n", BODY_BYTES_MAX, "x".repeat(BODY_BYTES_MAX));
    assert_eq!(feed([&chunked(&two)[..]]).refused, Some("body_too_large"));
}

#[test]
fn a_request_after_a_chunked_body_is_parsed() {
    let both = chunked("3\r\nabc\r\n0\r\nA: b\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n");
    let outcome = outcome(&both);
    let paths: Vec<&str> = outcome.answered.iter().map(|(_, path, _)| path.as_str()).collect();
    assert_eq!(paths, ["/v1/query", "/next"]);
}

proptest! {
    #[test]
    fn a_chunked_body_decodes_to_its_content_however_it_is_split(
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..8),
        pieces in 1usize..500,
    ) {
        let mut bytes = HEAD.as_bytes().to_vec();
        for part in &parts {
            bytes.extend(format!("{:X}\r\n", part.len()).bytes());
            bytes.extend(part);
            bytes.extend(b"\r\n");
        }
        bytes.extend(b"0\r\n\r\n");
        let outcome = feed(bytes.chunks(pieces));
        prop_assert_eq!((outcome.refused, outcome.unfinished), (None, false));
        prop_assert_eq!(&outcome.answered[0].2, &parts.concat());
    }

    #[test]
    fn any_bytes_give_the_same_result_however_they_are_split(
        bytes in prop::collection::vec(prop::sample::select(b"3a0;=\"\r\n \tG:x".to_vec()), 0..40),
        at in any::<prop::sample::Index>(),
    ) {
        let bytes = [HEAD.as_bytes(), &bytes].concat();
        let (first, second) = bytes.split_at(at.index(bytes.len()));
        let (whole, split) = (feed([&bytes[..]]), feed([first, second]));
        prop_assert_eq!((whole.answered, whole.refused), (split.answered, split.refused));
    }
}
