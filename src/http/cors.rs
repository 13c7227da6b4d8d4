//! CORS: which origins may read a response (Fetch standard, section 3.2).
//!
//! Every origin may read a public response. A private response names the caller's origin, with credentials,
//! if the site allows that origin. It never names `null` (the origin of a sandboxed frame or a file). Problems
//! have the same permission as the response that they replace.

use super::headers::{Field, Headers};
use super::negotiate::has_token;
use super::response::ResponseHead;

/// A response's permission for pages of other origins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cors<'a> {
    /// Every origin may read it, without credentials. One cache entry serves all origins.
    Anyone,
    /// Only this origin may read it, with credentials. The response varies by origin.
    Only(&'a [u8]),
    /// No other origin may read it. The response varies by origin.
    Nobody,
}

impl<'a> Cors<'a> {
    /// Returns the permission of a private response to `origin`, at a site that allows `patterns`.
    pub(crate) fn for_private<'o>(
        origin: Option<&'a [u8]>,
        patterns: impl ExactSizeIterator<Item = &'o str>,
    ) -> Self {
        if patterns.len() == 0 {
            return Self::Anyone;
        }
        match origin {
            Some(origin) if is_origin_allowed(origin, patterns) => Self::Only(origin),
            _ => Self::Nobody,
        }
    }

    /// Returns the permission of the response to an event from `origin`, with credentials, because a beacon
    /// always sends them. Returns `None` if the site does not allow the origin: its events are rejected.
    /// Events without an origin do not come from a page, and are accepted.
    pub(crate) fn for_events<'o>(
        origin: Option<&'a [u8]>,
        patterns: impl ExactSizeIterator<Item = &'o str>,
    ) -> Option<Self> {
        match origin {
            None => Some(Self::Nobody),
            Some(origin) if patterns.len() == 0 && !is_nameable_origin(origin) => Some(Self::Anyone),
            Some(origin) if patterns.len() == 0 || is_origin_allowed(origin, patterns) => {
                Some(Self::Only(origin))
            }
            Some(_) => None,
        }
    }

    /// Returns the permission of a private response, or of one to an event, whose site is not known: any origin
    /// may read it, with credentials. It names only a fault of the request.
    pub(crate) fn before_site_known(origin: Option<&'a [u8]>) -> Self {
        Self::for_events(origin, std::iter::empty()).unwrap_or(Self::Nobody)
    }

    /// Returns whether `Vary` must name `Origin`.
    pub(crate) fn varies_by_origin(self) -> bool {
        !matches!(self, Self::Anyone)
    }

    /// Writes the CORS fields, except for `Vary`.
    pub(crate) fn write(self, head: &mut ResponseHead<'_>) {
        match self {
            Self::Anyone => head.raw(b"Access-Control-Allow-Origin: *\r\n"),
            Self::Only(origin) => {
                head.field("Access-Control-Allow-Origin: ", origin);
                head.raw(b"Access-Control-Allow-Credentials: true\r\n");
            }
            Self::Nobody => return,
        }
        head.raw(EXPOSED_HEADERS);
    }
}

const EXPOSED_HEADERS: &[u8] = b"Access-Control-Expose-Headers: ETag, X-Request-Id, X-Version, \
X-Variants, X-Experiments, Parallax-Stale, X-Dropped, Server-Timing, Retry-After\r\n";

/// Returns whether `origin` matches one of the patterns. A pattern is an origin, optionally with one `*` in
/// place of labels or of a port.
pub(crate) fn is_origin_allowed<'o>(origin: &[u8], mut patterns: impl Iterator<Item = &'o str>) -> bool {
    is_nameable_origin(origin) && patterns.any(|pattern| matches_pattern(pattern, origin))
}

/// Returns whether a response may name this origin. We only echo values that a browser can have sent.
fn is_nameable_origin(origin: &[u8]) -> bool {
    origin != b"null" && !origin.is_empty() && origin.iter().all(u8::is_ascii_graphic)
}

fn matches_pattern(pattern: &str, origin: &[u8]) -> bool {
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

/// The request headers that a page of another origin may send.
const ALLOWED_HEADERS: &[&str] = &[
    "content-type",
    "content-encoding",
    "authorization",
    "if-match",
    "if-none-match",
    "prefer",
    "x-anon-id",
    "x-user-hash",
    "x-request-id",
    "x-preview",
    "x-debug-timing",
    "x-retry-count",
    "traceparent",
    "tracestate",
    "baggage",
];

/// Writes the fields of the response to a preflight.
pub(crate) fn write_preflight(head: &mut ResponseHead<'_>, headers: &Headers<'_>) {
    match headers.get(Field::Origin) {
        Some(origin) if is_nameable_origin(origin) => {
            head.field("Access-Control-Allow-Origin: ", origin);
            head.raw(b"Access-Control-Allow-Credentials: true\r\n");
        }
        _ => head.raw(b"Access-Control-Allow-Origin: *\r\n"),
    }
    head.raw(
        b"Access-Control-Allow-Methods: GET, HEAD, POST\r\n\
          Access-Control-Max-Age: 86400\r\n\
          Vary: Origin, Access-Control-Request-Headers\r\n",
    );
    // Iterate over our list, so that each header is named once even if the preflight repeats it.
    let is_asked =
        |name: &&&str| headers.preflight_headers_lines().any(|list| has_token(list, name.as_bytes()));
    let mut separator: &[u8] = b"Access-Control-Allow-Headers: ";
    for name in ALLOWED_HEADERS.iter().filter(is_asked) {
        head.raw(separator);
        head.raw(name.as_bytes());
        separator = b", ";
    }
    if separator == b", " {
        head.raw(b"\r\n");
    }
}
