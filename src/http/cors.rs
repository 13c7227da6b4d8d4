//! Who may read an answer from another origin (Fetch standard, section 3.2).
//!
//! Public answers are for everyone. Private ones name the caller's origin, with credentials, where
//! the site allows it; `null` (a sandboxed frame, a file) is never named.

use super::request;
use super::response::Head;

/// What an answer says to a page of another origin.
#[derive(Debug, Clone, Copy)]
pub enum Cors<'a> {
    /// Everyone may read it, without credentials; one cache entry serves all.
    Anyone,
    /// This origin may read it, with credentials; the answer differs by origin.
    Only(&'a [u8]),
    /// Nobody else may read it; the answer differs by origin.
    Nobody,
}

impl<'a> Cors<'a> {
    /// For a private answer to a request from `origin` at a site with these `origins`.
    pub fn private<'o>(origin: Option<&'a [u8]>, origins: impl ExactSizeIterator<Item = &'o str>) -> Self {
        if origins.len() == 0 {
            return Self::Anyone;
        }
        match origin {
            Some(origin) if is_allowed(origin, origins) => Self::Only(origin),
            _ => Self::Nobody,
        }
    }

    /// For an answer to an event that was sent from `origin`: credentials always, since a beacon always sends them. None for a
    /// stranger to a site with these `origins`, whose events are not taken; who names no origin is no page, and is taken.
    pub fn events<'o>(
        origin: Option<&'a [u8]>,
        origins: impl ExactSizeIterator<Item = &'o str>,
    ) -> Option<Self> {
        match origin {
            None => Some(Self::Nobody),
            Some(origin) if origins.len() == 0 && !is_named(origin) => Some(Self::Nobody),
            Some(origin) if origins.len() == 0 || is_allowed(origin, origins) => Some(Self::Only(origin)),
            Some(_) => None,
        }
    }

    /// Whether `Vary` must name `Origin`.
    pub fn varies(self) -> bool {
        !matches!(self, Self::Anyone)
    }

    /// Writes the fields, `Vary` excepted.
    pub fn write(self, head: &mut Head<'_>) {
        match self {
            Self::Anyone => head.lines(b"Access-Control-Allow-Origin: *\r\n"),
            Self::Only(origin) => {
                head.field("Access-Control-Allow-Origin: ", origin);
                head.lines(b"Access-Control-Allow-Credentials: true\r\n");
            }
            Self::Nobody => return,
        }
        head.lines(EXPOSED);
    }
}

const EXPOSED: &[u8] = b"Access-Control-Expose-Headers: ETag, X-Request-Id, X-Version, \
X-Variants, X-Dropped, Server-Timing, Retry-After\r\n";

/// Whether one of the patterns (exact, or with one `*` in place of labels or of a port) is `origin`.
pub fn is_allowed<'o>(origin: &[u8], mut patterns: impl Iterator<Item = &'o str>) -> bool {
    is_named(origin) && patterns.any(|pattern| matches(pattern, origin))
}

/// Whether an answer may name this origin: only what a browser can have sent comes back.
fn is_named(origin: &[u8]) -> bool {
    origin != b"null" && !origin.is_empty() && origin.iter().all(u8::is_ascii_graphic)
}

fn matches(pattern: &str, origin: &[u8]) -> bool {
    let Some((before, behind)) = pattern.split_once('*') else {
        return pattern.as_bytes() == origin;
    };
    let is_port = before.ends_with(':');
    let middle = origin.strip_prefix(before.as_bytes()).and_then(|rest| rest.strip_suffix(behind.as_bytes()));
    middle.is_some_and(|middle| {
        !middle.is_empty()
            && middle.iter().all(|b| match is_port {
                true => b.is_ascii_digit(),
                false => b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'),
            })
    })
}

/// The request headers that a page may send along.
const ALLOWED_HEADERS: &[&str] = &[
    "content-type",
    "content-encoding",
    "authorization",
    "if-none-match",
    "prefer",
    "x-anon-id",
    "x-request-id",
    "x-preview",
    "x-debug-timing",
    "x-retry-count",
    "traceparent",
    "tracestate",
    "baggage",
];

/// Writes the fields that answer a preflight from `origin` asking for the headers `asked`.
pub fn preflight(head: &mut Head<'_>, origin: Option<&[u8]>, asked: Option<&[u8]>) {
    match origin {
        Some(origin) if is_named(origin) => {
            head.field("Access-Control-Allow-Origin: ", origin);
            head.lines(b"Access-Control-Allow-Credentials: true\r\n");
        }
        _ => head.lines(b"Access-Control-Allow-Origin: *\r\n"),
    }
    head.lines(
        b"Access-Control-Allow-Methods: GET, HEAD, POST\r\n\
          Access-Control-Max-Age: 86400\r\n\
          Vary: Origin, Access-Control-Request-Headers\r\n",
    );
    // By the list of ours, so that each is named once however often it was asked for.
    let is_asked = |name: &&&str| request::has_token(asked.unwrap_or_default(), name.as_bytes());
    let mut separator: &[u8] = b"Access-Control-Allow-Headers: ";
    for name in ALLOWED_HEADERS.iter().filter(is_asked) {
        head.lines(separator);
        head.lines(name.as_bytes());
        separator = b", ";
    }
    if separator == b", " {
        head.lines(b"\r\n");
    }
}
