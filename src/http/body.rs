//! A request's body as a JSON object: its type, its coding, its members as text.
//!
//! Members are borrowed from the body; only what has escapes, or comes compressed, is copied. Of doubled members the last
//! counts; `null` and `""` count as absent.

use std::borrow::Cow;
use std::fmt;
use std::io::Read;

use flate2::read::GzDecoder;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::request::Request;
use crate::limits::BODY_BYTES_MAX;
use crate::problem::{self, Problem};

/// The text of a request's body. `inflated` is for one that is compressed.
///
/// # Errors
/// `unsupported_type`, `unsupported_encoding`, `body_too_large`, `malformed_json`.
pub fn text<'a>(request: &Request<'a>, inflated: &'a mut Vec<u8>) -> Result<&'a str, Problem<'a>> {
    let content_type = ContentType::of(request.fields.content_type)?;
    let bytes = match request.fields.content_encoding.map(<[u8]>::trim_ascii) {
        None | Some(b"") => request.content,
        Some(coding) if coding.eq_ignore_ascii_case(b"identity") => request.content,
        Some(coding) if coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip") => {
            inflate(request.content, inflated)?
        }
        Some(coding) => {
            let expected = "Content-Encoding: gzip or none";
            return Err(refusal(problem::UNSUPPORTED_ENCODING, expected, coding));
        }
    };
    if let ContentType::Form(named) = content_type
        && !matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'['))
    {
        return Err(unsupported(named));
    }
    simdutf8::basic::from_utf8(bytes)
        .map_err(|_| Problem::missing(problem::MALFORMED_JSON, "a JSON object in UTF-8"))
}

/// What a body is said to be.
enum ContentType<'a> {
    /// JSON, or nothing; or `text/plain`, which is what a browser sends without asking first.
    Json,
    /// `application/x-www-form-urlencoded`, which curl and others call JSON that they were not told to be JSON.
    Form(&'a [u8]),
}

impl<'a> ContentType<'a> {
    fn of(named: Option<&'a [u8]>) -> Result<Self, Problem<'a>> {
        let Some(named) = named else { return Ok(Self::Json) };
        let essence = named.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
        let is = |known: &[u8]| known.eq_ignore_ascii_case(essence);
        match essence {
            _ if is(b"application/json") || is(b"text/plain") || is(b"") => Ok(Self::Json),
            _ if is(b"application/x-www-form-urlencoded") => Ok(Self::Form(named)),
            _ => Err(unsupported(named)),
        }
    }
}

fn unsupported(named: &[u8]) -> Problem<'_> {
    let expected = "Content-Type: application/json, text/plain, or none";
    refusal(problem::UNSUPPORTED_TYPE, expected, named)
}

fn refusal<'a>(kind: &'static problem::Kind, expected: &'static str, came: &'a [u8]) -> Problem<'a> {
    match std::str::from_utf8(came) {
        Ok(came) => Problem::new(kind, expected, came),
        Err(_) => Problem::missing(kind, expected),
    }
}

fn inflate<'a>(content: &[u8], inflated: &'a mut Vec<u8>) -> Result<&'a [u8], Problem<'a>> {
    inflated.clear();
    let read = GzDecoder::new(content).take(BODY_BYTES_MAX as u64 + 1).read_to_end(inflated);
    match read {
        Ok(bytes) if bytes > BODY_BYTES_MAX => {
            let expected = "a body of at most 524288 bytes, inflated";
            Err(Problem::missing(problem::BODY_TOO_LARGE, expected))
        }
        Ok(_) => Ok(inflated),
        Err(_) => {
            let expected = "a body in gzip, as Content-Encoding says";
            Err(Problem::missing(problem::MALFORMED_JSON, expected))
        }
    }
}

/// The members of an object.
#[derive(Debug, Default)]
pub struct Object<'a>(Vec<Member<'a>>);

/// A member of an object.
#[derive(Debug)]
pub struct Member<'a> {
    name: Cow<'a, str>,
    /// The value's JSON.
    raw: &'a str,
    /// The text of a string.
    text: Option<Cow<'a, str>>,
}

impl<'a> Object<'a> {
    /// Reads an object.
    ///
    /// # Errors
    /// `malformed_json`, with the text where it breaks.
    pub fn read(text: &'a str) -> Result<Self, Problem<'a>> {
        serde_json::from_str(text).map_err(|error| {
            let expected = "a JSON object";
            match rest(text, &error) {
                "" => Problem::missing(problem::MALFORMED_JSON, expected),
                rest => Problem::new(problem::MALFORMED_JSON, expected, rest),
            }
        })
    }

    /// A member that is there.
    pub fn get(&self, name: &str) -> Option<&Member<'a>> {
        let last = self.0.iter().rfind(|member| member.name == name)?;
        Some(last).filter(|member| !member.is_absent())
    }

    /// All members as they came, `null`, empty and doubled ones too. To find out which are the last of their name is left to
    /// whom few names are known: a body has room for 50,000, too many to compare each with each.
    pub fn members(&self) -> impl Iterator<Item = &Member<'a>> {
        self.0.iter()
    }
}

impl Member<'_> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value's JSON, as it came.
    pub fn raw(&self) -> &str {
        self.raw
    }

    /// Whether it counts as not there.
    pub fn is_absent(&self) -> bool {
        self.raw == "null" || self.string() == Some("")
    }

    /// The text of a string; None for any other value.
    pub fn string(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The text of a string, or of whatever else stands there: a number where an id belongs is its digits.
    pub fn text(&self) -> &str {
        self.string().unwrap_or(self.raw)
    }
}

/// What stands where the text breaks; serde counts lines and bytes from 1, and has read the byte at fault.
fn rest<'a>(text: &'a str, error: &serde_json::Error) -> &'a str {
    let line: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let at = (line + error.column().saturating_sub(1)).min(text.len());
    &text[text.floor_char_boundary(at)..]
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some((Name(name), raw)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
            let raw = raw.get();
            // A string with half of a surrogate pair has no text.
            let text = raw.starts_with('"').then(|| serde_json::from_str(raw).ok()).flatten();
            members.push(Member { name, raw, text: text.map(|Name(text)| text) });
        }
        Ok(Object(members))
    }
}

/// A text that is borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
