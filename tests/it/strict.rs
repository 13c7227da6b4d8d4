//! What a server sent on a connection, read to the letter of RFC 9112: answers one behind the other, and nothing else.

use serde::de::IgnoredAny;

/// An answer, interim ones left out.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Whether it says that it is the last.
    pub closes: bool,
    /// Announced a body and brought none: an answer to HEAD.
    pub head_only: bool,
}

/// Everything that came.
#[derive(Debug)]
pub struct Answers {
    pub answers: Vec<Answer>,
    /// `100 Continue`.
    pub interim: usize,
}

/// What a head says.
struct Head<'a> {
    status: u16,
    length: Option<usize>,
    closes: bool,
    json: bool,
    gzip: bool,
    rest: &'a [u8],
}

/// Reads all of it; what is not HTTP, or not JSON, is told.
pub fn read(bytes: &[u8]) -> Result<Answers, String> {
    let mut read = Answers { answers: Vec::new(), interim: 0 };
    let mut rest = bytes;
    while !rest.is_empty() {
        if read.answers.last().is_some_and(|answer| answer.closes) {
            return Err(format!("something follows the last answer: {}", shown(rest)));
        }
        let head = head(rest)?;
        rest = head.rest;
        if head.status == 100 {
            read.interim += 1;
            continue;
        }
        let length = match (head.status, head.length) {
            (204 | 304, None) => 0,
            (204 | 304, Some(_)) | (_, None) => {
                return Err(format!("{}: a length too many or too few", head.status));
            }
            (_, Some(length)) => length,
        };
        // No body of ours begins like an answer.
        let head_only = length > 0 && (rest.is_empty() || rest.starts_with(b"HTTP/1.1 "));
        let (body, behind) = rest
            .split_at_checked(if head_only { 0 } else { length })
            .ok_or_else(|| format!("{} of {length} bytes: {}", rest.len(), shown(rest)))?;
        rest = behind;
        content(&head, body)?;
        read.answers.push(Answer { status: head.status, closes: head.closes, head_only });
    }
    Ok(read)
}

fn head(bytes: &[u8]) -> Result<Head<'_>, String> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(|| shown(bytes))?;
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| shown(bytes))?;
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(status).ok_or_else(|| format!("no status line: {text}"))?;
    let mut head =
        Head { status, length: None, closes: false, json: false, gzip: false, rest: &bytes[end + 4..] };
    let mut dates = 0;
    for line in lines {
        let (name, value) = field(line).ok_or_else(|| format!("no field: {line:?} in {text}"))?;
        match name {
            "Content-Length" if head.length.is_none() && value.bytes().all(|b| b.is_ascii_digit()) => {
                head.length = value.parse().ok();
            }
            "Content-Length" | "Transfer-Encoding" => return Err(format!("{line} in {text}")),
            "Connection" => head.closes = value == "close",
            "Content-Type" => head.json = value.ends_with("json"),
            "Content-Encoding" => head.gzip = value == "gzip",
            "Date" => dates += 1,
            _ => {}
        }
    }
    if dates != usize::from(status != 100) {
        return Err(format!("{dates} dates in {text}"));
    }
    Ok(head)
}

/// `HTTP/1.1 200 OK`
fn status(line: &str) -> Option<u16> {
    let (code, reason) = line.strip_prefix("HTTP/1.1 ")?.split_once(' ')?;
    let is_reason =
        reason.bytes().all(|b| b.is_ascii_alphabetic() || b == b' ' || b == b'-') && !reason.is_empty();
    code.parse().ok().filter(|code| is_reason && (100..600).contains(code))
}

/// `Name: value`, the value without white space around it.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(": ")?;
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let is_value = value.bytes().all(|b| b == b' ' || b.is_ascii_graphic()) && value.trim() == value;
    (is_name && is_value).then_some((name, value))
}

/// A body is JSON, as it is or inflated.
fn content(head: &Head<'_>, body: &[u8]) -> Result<(), String> {
    if body.is_empty() || !head.json {
        return Ok(());
    }
    let read = match head.gzip {
        true => serde_json::from_reader(flate2::read::GzDecoder::new(body)),
        false => serde_json::from_slice(body),
    };
    read.map(|IgnoredAny| ()).map_err(|error| format!("{error} in {}", shown(body)))
}

/// The beginning of bytes, for people.
fn shown(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(2_000)].escape_ascii().to_string()
}

#[test]
fn what_is_no_answer_is_told() {
    let head = "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 2\r\n";
    let one = format!("{head}Content-Type: application/json\r\n\r\n{{}}");
    let heads = format!("{head}\r\n{one}");
    let read = |text: &str| {
        let read = self::read(text.as_bytes());
        read.map(|read| read.answers.iter().map(|answer| answer.head_only).collect::<Vec<_>>())
    };
    assert_eq!(read(&format!("{one}{heads}")), Ok(vec![false, true, false]));
    assert_eq!(read("HTTP/1.1 100 Continue\r\n\r\n"), Ok(vec![]));
    assert!(read(&format!("{head}Connection: close\r\n\r\n{{}}{one}")).is_err());
    for (right, wrong) in [
        ("{}", "{"),
        ("{}", "{}x"),
        ("{}", "xx"),
        ("Date: x\r\n", ""),
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
        assert!(read(&one.replacen(right, wrong, 1)).is_err(), "{right:?} > {wrong:?}");
    }
}
