//! A strict parser (RFC 9112) for everything that a server sent on a connection: a sequence of responses.

use serde::de::IgnoredAny;

/// A final response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// True if the response has `Connection: close`.
    pub closes: bool,
    /// True if the response announces a body and has none, as after HEAD.
    pub head_only: bool,
}

/// All responses of a connection.
#[derive(Debug)]
pub struct Responses {
    pub responses: Vec<Response>,
    /// The number of `100 Continue` responses.
    pub interim: usize,
}

/// The parsed head of a response, and the bytes after it.
struct Head<'a> {
    status: u16,
    length: Option<usize>,
    closes: bool,
    json: bool,
    gzip: bool,
    rest: &'a [u8],
}

/// Parses all bytes. Returns an error for bytes that are not HTTP, and for bodies that are not JSON.
pub fn parse(bytes: &[u8]) -> Result<Responses, String> {
    let mut parsed = Responses { responses: Vec::new(), interim: 0 };
    let mut rest = bytes;
    while !rest.is_empty() {
        if parsed.responses.last().is_some_and(|response| response.closes) {
            return Err(format!("bytes follow the last response: {}", excerpt(rest)));
        }
        let head = parse_head(rest)?;
        rest = head.rest;
        if head.status == 100 {
            parsed.interim += 1;
            continue;
        }
        let length = match (head.status, head.length) {
            (204 | 304, None) => 0,
            (204 | 304, Some(_)) | (_, None) => {
                return Err(format!("{}: an unexpected or missing length", head.status));
            }
            (_, Some(length)) => length,
        };
        // No body of the server begins like a response.
        let head_only = length > 0 && (rest.is_empty() || rest.starts_with(b"HTTP/1.1 "));
        let (body, after) = rest
            .split_at_checked(if head_only { 0 } else { length })
            .ok_or_else(|| format!("{} of {length} bytes: {}", rest.len(), excerpt(rest)))?;
        rest = after;
        check_body(&head, body)?;
        parsed.responses.push(Response { status: head.status, closes: head.closes, head_only });
    }
    Ok(parsed)
}

fn parse_head(bytes: &[u8]) -> Result<Head<'_>, String> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(|| excerpt(bytes))?;
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| excerpt(bytes))?;
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(parse_status).ok_or_else(|| format!("no status line: {text}"))?;
    let mut head =
        Head { status, length: None, closes: false, json: false, gzip: false, rest: &bytes[end + 4..] };
    let (mut dates, mut sniffing) = (0, 0);
    for line in lines {
        let (name, value) = parse_field(line).ok_or_else(|| format!("invalid field: {line:?} in {text}"))?;
        match name {
            "Content-Length" if head.length.is_none() && value.bytes().all(|b| b.is_ascii_digit()) => {
                head.length = value.parse().ok();
            }
            "Content-Length" | "Transfer-Encoding" => return Err(format!("{line} in {text}")),
            "Connection" => head.closes = value == "close",
            "Content-Type" => head.json = value.ends_with("json"),
            "Content-Encoding" => head.gzip = value == "gzip",
            "Date" => dates += 1,
            "X-Content-Type-Options" => sniffing += usize::from(value == "nosniff"),
            _ => {}
        }
    }
    let expected = usize::from(status != 100);
    if dates != expected || sniffing != expected {
        return Err(format!("{dates} dates and {sniffing} times nosniff in {text}"));
    }
    Ok(head)
}

/// Parses a status line: `HTTP/1.1 200 OK`.
fn parse_status(line: &str) -> Option<u16> {
    let (code, reason) = line.strip_prefix("HTTP/1.1 ")?.split_once(' ')?;
    let is_reason =
        reason.bytes().all(|b| b.is_ascii_alphabetic() || b == b' ' || b == b'-') && !reason.is_empty();
    code.parse().ok().filter(|code| is_reason && (100..600).contains(code))
}

/// Parses a field line, `Name: value`. The value has no white space around it.
fn parse_field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(": ")?;
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let is_value = value.bytes().all(|b| b == b' ' || b.is_ascii_graphic()) && value.trim() == value;
    (is_name && is_value).then_some((name, value))
}

/// Checks that a body of a JSON type is JSON, after decompression.
fn check_body(head: &Head<'_>, body: &[u8]) -> Result<(), String> {
    if body.is_empty() || !head.json {
        return Ok(());
    }
    let read = match head.gzip {
        true => serde_json::from_reader(flate2::read::GzDecoder::new(body)),
        false => serde_json::from_slice(body),
    };
    read.map(|IgnoredAny| ()).map_err(|error| format!("{error} in {}", excerpt(body)))
}

/// Returns the beginning of `bytes` as readable text.
fn excerpt(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(2_000)].escape_ascii().to_string()
}

#[test]
fn malformed_responses_are_reported() {
    let head = "HTTP/1.1 200 OK\r\nX-Content-Type-Options: nosniff\r\nDate: x\r\nContent-Length: 2\r\n";
    let one = format!("{head}Content-Type: application/json\r\n\r\n{{}}");
    let heads = format!("{head}\r\n{one}");
    let parse = |text: &str| {
        let parsed = self::parse(text.as_bytes());
        parsed.map(|parsed| parsed.responses.iter().map(|response| response.head_only).collect::<Vec<_>>())
    };
    assert_eq!(parse(&format!("{one}{heads}")), Ok(vec![false, true, false]));
    assert_eq!(parse("HTTP/1.1 100 Continue\r\n\r\n"), Ok(vec![]));
    assert!(parse(&format!("{head}Connection: close\r\n\r\n{{}}{one}")).is_err());
    for (right, wrong) in [
        ("{}", "{"),
        ("{}", "{}x"),
        ("{}", "xx"),
        ("Date: x\r\n", ""),
        ("X-Content-Type-Options: nosniff\r\n", ""),
        ("Date: x\r\n", "Date: x\r\nDate: x\r\n"),
        ("Date: x", "Date : x"),
        ("Date: x", "Date: x\ny"),
        ("Date: x", "Date: \u{e9}"),
        ("Content-Length: 2\r\n", ""),
        ("Content-Length: 2", "Content-Length: +2"),
        ("Content-Length: 2", "Content-Length: 2\r\nContent-Length: 2"),
        ("200 OK", "200 "),
        ("HTTP/1.1", "HTTP/1.0"),
    ] {
        assert!(parse(&one.replacen(right, wrong, 1)).is_err(), "{right:?} > {wrong:?}");
    }
}
