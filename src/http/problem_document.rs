//! The writer of problem documents (`application/problem+json`, RFC 9457).
//!
//! A document has the members type, title, status, code, detail, then the location of the fault (`param` or
//! `pointer`), then `errors` of a batch, and `requestId`.

use crate::json;
use crate::limits::ACTUAL_CHARS_MAX;
use crate::problem::{Actual, Detail, Location, Problem, ProblemKind};

/// The form in which a document names the location of a fault.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LocationStyle {
    /// The name of a query parameter: `params.category`.
    Param,
    /// A pointer into the body (RFC 6901): `/params/category`.
    Pointer,
}

/// Replaces `body` by the document of `problem`.
pub(crate) fn write(
    body: &mut Vec<u8>,
    problem: &Problem<'_>,
    style: LocationStyle,
    request_id: Option<&[u8]>,
) {
    body.clear();
    write_kind(body, problem.kind);
    body.extend_from_slice(b",\"code\":");
    json::write_string(body, problem.kind.code);
    body.push(b',');
    write_detail(body, problem.detail, problem.actual, problem.allow);
    if let Some(location) = problem.location {
        write_location(body, location, if location.in_query { LocationStyle::Param } else { style });
    }
    write_end(body, request_id);
}

/// Appends `{"type":...,"title":...,"status":...`.
pub(crate) fn write_kind(body: &mut Vec<u8>, kind: &ProblemKind) {
    body.extend_from_slice(b"{\"type\":\"/v1/problems/");
    body.extend_from_slice(kind.code.as_bytes());
    body.extend_from_slice(b"\",\"title\":");
    json::write_string(body, kind.title);
    body.extend_from_slice(b",\"status\":");
    json::write_number(body, kind.status);
}

/// Appends `"detail":"..."`.
pub(crate) fn write_detail(
    body: &mut Vec<u8>,
    detail: Detail<'_>,
    actual: Actual<'_>,
    allowed_methods: &str,
) {
    body.extend_from_slice(b"\"detail\":\"");
    match detail {
        Detail::Sentence(sentence) => match actual {
            Actual::Missing => json::write_escaped(body, sentence),
            _ => write_sentence(body, sentence, actual, allowed_methods),
        },
        Detail::Expected(expected) => {
            body.extend_from_slice(b"Expected ");
            json::write_escaped(body, expected);
            if !matches!(actual, Actual::Missing) {
                body.extend_from_slice(b", got ");
                write_actual(body, actual);
            }
            body.push(b'.');
        }
        Detail::MissingParam(expected) => {
            body.extend_from_slice(b"The parameter is missing; expected ");
            json::write_escaped(body, expected);
            body.push(b'.');
        }
    }
    body.push(b'"');
}

/// Appends `,"requestId":"..."}`. Without a request ID it appends only the brace.
pub(crate) fn write_end(body: &mut Vec<u8>, request_id: Option<&[u8]>) {
    if let Some(id) = request_id {
        body.extend_from_slice(b",\"requestId\":\"");
        for byte in id {
            if matches!(byte, b'"' | b'\\') {
                body.push(b'\\');
            }
            body.push(*byte);
        }
        body.push(b'"');
    }
    body.push(b'}');
}

/// Appends a sentence with its placeholders replaced.
fn write_sentence(body: &mut Vec<u8>, sentence: &str, actual: Actual<'_>, allowed_methods: &str) {
    for (index, part) in sentence.split('{').enumerate() {
        let rest = match part.split_once('}') {
            Some(("", rest)) if index > 0 => {
                write_actual(body, actual);
                rest
            }
            Some(("allow", rest)) => {
                json::write_escaped(body, allowed_methods);
                rest
            }
            _ => part,
        };
        json::write_escaped(body, rest);
    }
}

fn write_actual(body: &mut Vec<u8>, actual: Actual<'_>) {
    match actual {
        Actual::Missing => {}
        Actual::Text(text) => {
            let (text, is_truncated) = truncate(text);
            body.push(b'\'');
            json::write_escaped(body, text);
            body.extend_from_slice(if is_truncated { "…'".as_bytes() } else { b"'" });
        }
        Actual::Name(name) => json::write_escaped(body, name),
        Actual::Count(count) => json::write_number(body, count),
    }
}

fn write_location(body: &mut Vec<u8>, location: Location<'_>, style: LocationStyle) {
    let group = location.group.into_iter();
    let name = truncate(location.name).0;
    match style {
        LocationStyle::Param => {
            body.extend_from_slice(b",\"param\":\"");
            group.for_each(|group| {
                body.extend_from_slice(group.as_bytes());
                body.push(b'.');
            });
            json::write_escaped(body, name);
        }
        LocationStyle::Pointer => {
            body.extend_from_slice(b",\"pointer\":\"");
            for name in group.chain([name]) {
                body.push(b'/');
                write_pointer_token(body, name);
            }
        }
    }
    body.push(b'"');
}

/// Appends a reference token (RFC 6901 section 3).
fn write_pointer_token(body: &mut Vec<u8>, name: &str) {
    for part in name.split_inclusive(['~', '/']) {
        let plain = part.strip_suffix(['~', '/']).unwrap_or(part);
        json::write_escaped(body, plain);
        body.extend_from_slice(match &part.as_bytes()[plain.len()..] {
            b"~" => b"~0",
            b"/" => b"~1",
            _ => b"",
        });
    }
}

/// Returns the part of a client's text that is repeated, and whether it is shorter than the whole.
pub(crate) fn truncate(text: &str) -> (&str, bool) {
    let end = text.char_indices().nth(ACTUAL_CHARS_MAX).map_or(text.len(), |(at, _)| at);
    (&text[..end], end < text.len())
}
