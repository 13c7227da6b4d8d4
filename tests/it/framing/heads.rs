//! Request heads, parsed directly.

use parallax::testing::http::head_parser::HeadParser;
use parallax::testing::http::request::{ParseOutcome, parse};

use crate::dice::Dice;

/// A head with a line of each kind: empty lines before it, fields with and without a value, white space after a
/// value.
const HEAD: &str = "\r\n\r\nGET /v1/site?site=a HTTP/1.1\r\nHost: a\r\nX-Empty:\r\nAccept: */* \r\n\r\n";

fn is_complete(bytes: &[u8]) -> bool {
    matches!(parse(bytes, None), ParseOutcome::Complete(..))
}

#[test]
fn a_head_with_one_bare_lf_is_rejected() {
    assert!(is_complete(HEAD.as_bytes()));
    for (at, _) in HEAD.match_indices("\r\n") {
        let bare = [&HEAD[..at], &HEAD[at + 1..]].concat();
        assert!(matches!(parse(bare.as_bytes(), None), ParseOutcome::Rejected(_)), "{}", bare.escape_debug());
    }
    for first in ["\n", "\r\n\n", "\n\r\n"] {
        assert!(matches!(parse(format!("{first}{HEAD}").as_bytes(), None), ParseOutcome::Rejected(_)));
    }
    assert!(matches!(parse(b"GET / HTTP/1.0\n\r\n", None), ParseOutcome::Rejected(_)));
    assert!(matches!(parse(b"GET / HTTP/1.0\r\n\n", None), ParseOutcome::Rejected(_)));
}

#[test]
fn empty_lines_before_a_head_do_not_end_it() {
    // One field more than the limit.
    let fields = "A: b\r\n".repeat(65);
    for (head, is_partial) in [
        ("GET / HTTP/1.1\nHost: a\r\n".to_owned(), false),
        ("GET / HTTP/2.0\r\nHost: a\r\n".to_owned(), false),
        (format!("GET / HTTP/1.1\r\n{fields}"), true),
        (format!("GET / HTTP/1.1\r\n{fields}\r\n"), false),
    ] {
        let outcome = |bytes: &str| format!("{:?}", parse(bytes.as_bytes(), None));
        assert_eq!(outcome(&head) == "Partial", is_partial, "{head:?}");
        for lines in ["\r\n", "\r\n\r\n"] {
            assert_eq!(outcome(&format!("{lines}{head}")), outcome(&head), "{lines:?} before {head:?}");
        }
    }
}

#[test]
fn no_mutated_head_with_a_bare_lf_is_complete() {
    let has_bare_lf =
        |head: &[u8]| (0..head.len()).any(|at| head[at] == b'\n' && !head[..at].ends_with(b"\r"));
    let (mut complete, mut bare) = (0, 0);
    for seed in 0..20_000 {
        let mut dice = Dice(seed);
        let mut bytes = HEAD.as_bytes().to_vec();
        for _ in 0..=dice.below(2) {
            let at = dice.below(bytes.len());
            match dice.below(3) {
                0 => drop(bytes.remove(at)),
                1 => bytes.insert(at, *dice.pick(b"\r\n :a")),
                _ => bytes[at] = *dice.pick(b"\r\n :a"),
            }
        }
        bare += usize::from(has_bare_lf(&bytes));
        if let ParseOutcome::Complete(_, head_bytes) = parse(&bytes, None) {
            assert!(!has_bare_lf(&bytes[..head_bytes]), "{}", bytes.escape_ascii());
            complete += 1;
        }
    }
    assert!(complete > 1_000 && bare > 1_000, "{complete} complete, {bare} with a bare LF");
}

const REQUEST_LINES: &[&str] = &[
    "GET /v1/site?site=a HTTP/1.1\r\n",
    "GET /v1/site?site=b HTTP/1.1\r\n",
    "POST /v1/track HTTP/1.1\r\n",
    "POST /v1/track HTTP/1.0\r\n",
    "GET / HTTP/1.0\r\n",
    "GET / HTTP/1.1\n",
    "\r\nGET / HTTP/1.1\r\n",
    "\r\n\r\nGET / HTTP/1.0\r\n",
    "GET  / HTTP/1.1\r\n",
    "GET /# HTTP/1.1\r\n",
    "GET / HTTP/2.0\r\n",
    "",
];

const FIELDS: &[&str] = &[
    "Host: a\r\n",
    "Host: a b\r\n",
    "Connection: close\r\n",
    "Content-Length: 3\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Expect: 100-continue\r\n",
    "Expect: tea\r\n",
    "X-Anon-Id: v1\r\n",
    "X-Forwarded-For: 10.0.0.1\r\n",
    "CF-IPCountry: SE\r\n",
    "Cookie:\r\n",
];

/// Returns a head of a few fields, which is often equal to another one, and sometimes damaged or incomplete.
fn any_head(dice: &mut Dice) -> Vec<u8> {
    let mut head = dice.pick(REQUEST_LINES).to_string();
    let fields = if dice.below(4) > 0 { &FIELDS[..1] } else { &[] };
    head.extend(fields.iter().copied());
    for _ in 0..dice.below(3) {
        head += FIELDS[dice.below(FIELDS.len())];
    }
    let mut bytes = (head + "\r\n").into_bytes();
    let length = bytes.len();
    match dice.below(8) {
        0 => bytes.truncate(dice.below(length)),
        1 => bytes[dice.below(length)] = *dice.pick(b"\r\n :a"),
        2 => bytes.extend_from_slice(b"GET / HTTP/1.1\r\n"),
        3 => bytes.extend_from_within(..),
        _ => {}
    }
    bytes
}

#[test]
fn a_remembered_header_section_changes_no_result() {
    let mut dice = Dice(1);
    let mut heads = HeadParser::new(Some("cf-ipcountry"));
    let mut complete = 0;
    for _ in 0..100_000 {
        let bytes = any_head(&mut dice);
        let outcome = heads.parse(dice.below(3) as i32, &bytes);
        complete += usize::from(matches!(outcome, ParseOutcome::Complete(..)));
        let alone = parse(&bytes, Some("cf-ipcountry"));
        assert_eq!(format!("{outcome:?}"), format!("{alone:?}"), "{}", bytes.escape_ascii());
    }
    assert!(complete > 20_000, "{complete} of 100,000 heads are complete");
}

#[test]
fn a_request_line_of_any_length_before_a_known_section_has_the_same_result() {
    let mut heads = HeadParser::new(None);
    // The longest line whose length follows from the section has 512 bytes.
    for path_bytes in 1..1_024 {
        let head = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(path_bytes - 1));
        for bytes in [head.clone(), head.repeat(2)] {
            let ParseOutcome::Complete(request, length) = heads.parse(7, bytes.as_bytes()) else {
                panic!("{path_bytes}");
            };
            assert_eq!((request.path.len(), length), (path_bytes, head.len()));
        }
    }
}

#[test]
fn a_header_section_of_any_length_is_parsed_again_with_the_same_result() {
    let mut heads = HeadParser::new(None);
    // At the size of a remembered section, below and above it.
    for length in (1..40).chain(1000..1050) {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}\r\n\r\n", "a".repeat(length));
        for _ in 0..2 {
            let ParseOutcome::Complete(request, bytes) = heads.parse(7, head.as_bytes()) else {
                panic!("{length}");
            };
            assert_eq!((request.path, bytes), ("/", head.len()));
        }
    }
}

#[test]
fn a_host_is_a_name_or_an_address_with_an_optional_port() {
    let accepts = |host: &str| is_complete(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
    for host in [
        "a",
        "a:",
        "a:80",
        "edge.example:8443",
        "%41-._~!$&'()*+,;=",
        "127.0.0.1:1",
        "[::1]",
        "[::1]:",
        "[::1]:80",
        "[v1.a:b]:80",
    ] {
        assert!(accepts(host), "{host}");
    }
    for host in [
        "",
        ":",
        ":80",
        "a:b",
        "a:80:80",
        "a b",
        "a/b",
        "a@b",
        "a\u{e4}",
        "[",
        "]",
        "[]",
        "[::1",
        "::1",
        "[::1]x",
        "[::1]x:80",
        "[::1]80",
        "[::1]:8:0",
        "[a]",
        "[[::1]]",
        "a[::1]",
        "[::1]]:80",
    ] {
        assert!(!accepts(host), "{host}");
    }
}
