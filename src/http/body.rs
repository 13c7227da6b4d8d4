//! A request body as a JSON object: checks its type, decompresses it, and gives its members as text.
//!
//! Members borrow from the body. Only text with escapes and compressed bodies are copied. If a member is
//! repeated, the last one counts. `null` and `""` count as absent.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::gzip::{self, InflateError};
use super::headers::Field;
use super::request::Request;
use crate::problem::{self, Problem};

/// The byte order mark in UTF-8. Some clients on Windows send it before JSON.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Returns the text of a request body. A compressed body is decompressed into `buffer`. A byte order mark at the
/// start is skipped.
///
/// # Errors
/// `unsupported_type`, `unsupported_encoding`, `body_too_large`, `malformed_json`.
pub(crate) fn decode_text<'a>(
    request: &Request<'a>,
    buffer: &'a mut Vec<u8>,
) -> Result<&'a str, Problem<'a>> {
    let content_type = ContentType::parse(request.headers.get(Field::ContentType))?;
    let bytes = match request.headers.get(Field::ContentEncoding).map(<[u8]>::trim_ascii) {
        None | Some(b"") => request.body,
        Some(coding) if coding.eq_ignore_ascii_case(b"identity") => request.body,
        Some(coding) if coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip") => {
            inflate(request.body, buffer)?
        }
        Some(coding) => {
            let sentence = "The content encoding {} is not supported; use gzip or none.";
            return Err(problem_with_value(problem::UNSUPPORTED_ENCODING, sentence, coding));
        }
    };
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    if let ContentType::Form(content_type) = content_type
        && !matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'['))
    {
        return Err(unsupported_type(content_type));
    }
    simdutf8::basic::from_utf8(bytes)
        .map_err(|_| Problem::new(problem::MALFORMED_JSON, "The body is not UTF-8."))
}

/// The declared type of a body.
enum ContentType<'a> {
    /// JSON, no type, or `text/plain`. Browsers send `text/plain` to another origin without a preflight.
    Json,
    /// `application/x-www-form-urlencoded`: the default of curl and others for a body whose type the caller
    /// did not set. It is accepted if the text begins like JSON.
    Form(&'a [u8]),
}

impl<'a> ContentType<'a> {
    fn parse(content_type: Option<&'a [u8]>) -> Result<Self, Problem<'a>> {
        let Some(content_type) = content_type else { return Ok(Self::Json) };
        let essence = content_type.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
        let is = |known: &[u8]| known.eq_ignore_ascii_case(essence);
        if is(b"application/json") || is(b"text/plain") || is(b"") {
            Ok(Self::Json)
        } else if is(b"application/x-www-form-urlencoded") {
            Ok(Self::Form(content_type))
        } else {
            Err(unsupported_type(content_type))
        }
    }
}

fn unsupported_type(content_type: &[u8]) -> Problem<'_> {
    let sentence = "The content type {} is not supported; use application/json, text/plain or none.";
    problem_with_value(problem::UNSUPPORTED_TYPE, sentence, content_type)
}

fn problem_with_value<'a>(
    kind: &'static problem::ProblemKind,
    sentence: &'static str,
    value: &'a [u8],
) -> Problem<'a> {
    Problem::with_value(kind, sentence, std::str::from_utf8(value).unwrap_or("(not UTF-8)"))
}

fn inflate<'a>(content: &[u8], buffer: &'a mut Vec<u8>) -> Result<&'a [u8], Problem<'a>> {
    match gzip::inflate(content, buffer) {
        Ok(()) => Ok(buffer),
        Err(InflateError::TooLarge) => {
            let sentence = "The decompressed body is larger than 524288 bytes.";
            Err(Problem::new(problem::BODY_TOO_LARGE, sentence))
        }
        Err(InflateError::Invalid) => {
            let sentence =
                "The body is not valid gzip, as Content-Encoding says, or has other bytes after it.";
            Err(Problem::new(problem::MALFORMED_JSON, sentence))
        }
    }
}

/// A JSON object: its members, in order.
#[derive(Debug, Default)]
pub struct JsonObject<'a>(Vec<Member<'a>>);

/// A member of a JSON object.
#[derive(Debug)]
pub struct Member<'a> {
    name: Cow<'a, str>,
    /// The JSON of the value.
    raw: &'a str,
    /// The decoded text, if the value is a string.
    text: Option<Cow<'a, str>>,
}

impl<'a> JsonObject<'a> {
    /// Parses an object.
    ///
    /// # Errors
    /// `malformed_json`, with the text from the position of the error on.
    pub fn parse(text: &'a str) -> Result<Self, Problem<'a>> {
        serde_json::from_str(text).map_err(|error| {
            let expected = "a JSON object";
            let start = text.trim_ascii_start();
            // serde reports the end of another value, and its begin says more.
            let rest = if start.starts_with('{') { text_at_error(text, &error) } else { start };
            match rest {
                "" => Problem::missing_value(problem::MALFORMED_JSON, expected),
                rest => Problem::invalid_value(problem::MALFORMED_JSON, expected, rest),
            }
        })
    }

    /// Returns a member, or `None` if it is missing or counts as absent.
    pub fn get(&self, name: &str) -> Option<&Member<'a>> {
        let last = self.0.iter().rfind(|member| member.name == name)?;
        Some(last).filter(|member| !member.is_absent())
    }

    /// Returns all members in order, including `null`, empty and repeated ones. The caller selects the last
    /// member of each name that it knows. A body can have 50,000 members, too many to compare each one with
    /// all others here.
    pub fn members(&self) -> impl Iterator<Item = &Member<'a>> {
        self.0.iter()
    }
}

impl Member<'_> {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the JSON of the value, as received.
    pub fn raw(&self) -> &str {
        self.raw
    }

    /// Returns whether the member counts as absent: `null` or `""`.
    pub fn is_absent(&self) -> bool {
        self.raw == "null" || self.string() == Some("")
    }

    /// Returns the text of a string, or `None` for any other value.
    pub fn string(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Returns the text of a string, or the JSON of any other value. So an ID may also be a number: its text
    /// is the digits.
    pub fn text(&self) -> &str {
        self.string().unwrap_or(self.raw)
    }
}

/// Returns the text from the position of the error on. serde counts lines and columns from 1, and its column
/// is that of the offending byte.
fn text_at_error<'a>(text: &'a str, error: &serde_json::Error) -> &'a str {
    let line: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let at = (line + error.column().saturating_sub(1)).min(text.len());
    &text[text.floor_char_boundary(at)..]
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = JsonObject<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonObject<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some((BorrowedText(name), raw)) = map.next_entry::<BorrowedText<'de>, &'de RawValue>()? {
            let raw = raw.get();
            // A string with a lone surrogate has no text.
            let text = raw.starts_with('"').then(|| serde_json::from_str(raw).ok()).flatten();
            members.push(Member { name, raw, text: text.map(|BorrowedText(text)| text) });
        }
        Ok(JsonObject(members))
    }
}

/// A text that is borrowed if it has no escapes.
#[derive(serde::Deserialize)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);
