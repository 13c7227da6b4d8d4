//! A request's head: bytes in, a borrowed view out (RFC 9112 sections 2 to 6).
//!
//! `parse` is a pure function of the bytes received so far. It answers `Partial` until the empty
//! line has come, whatever the bytes are split into, and never looks behind it.

use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::time::Instant;

use super::forwarded::Forwarded;
use crate::limits::{HEAD_BYTES_MAX, HEADER_FIELDS_MAX, TARGET_BYTES_MAX};
use crate::problem::{self, Problem};

/// The methods that some endpoint has, and the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET
    Get,
    /// HEAD: answered like GET, without the body.
    Head,
    /// POST
    Post,
    /// DELETE
    Delete,
    /// OPTIONS: a preflight, or a question what an endpoint can do.
    Options,
    /// A registered method that no endpoint has.
    Other,
}

impl Method {
    /// As it is written; "other" stands for all that no endpoint has.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
            Self::Other => "other",
        }
    }
}

/// How long the request's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// This many bytes follow the head; 0 where there is none.
    Length(usize),
    /// A chunked body follows.
    Chunked,
}

/// What an address of ours serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// Pages and events.
    Public,
    /// Pages alone, where events have an address of their own.
    Edge,
    /// Events alone.
    Events,
    /// The operator; explains always.
    Admin,
}

/// From where, to where and when a request came.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// Who sent it: a client, or a proxy.
    pub peer: IpAddr,
    /// The address that it came to.
    pub surface: Surface,
    /// When the last of it was received.
    pub at: Instant,
}

/// One request's head. All texts borrow from the read buffer.
#[derive(Debug)]
pub struct Request<'a> {
    /// Its method.
    pub method: Method,
    /// The target's path, as sent; "*" for `OPTIONS *`.
    pub path: &'a str,
    /// The target's query, as sent, without the question mark; empty where there is none.
    pub query: &'a str,
    /// Whether the client will not send another request here (HTTP/1.0, `Connection: close`).
    pub close: bool,
    /// How long its body is.
    pub body: Body,
    /// The body itself, where it was waited for: that of a POST.
    pub content: &'a [u8],
    /// The header fields that something looks at.
    pub fields: Fields<'a>,
}

impl Request<'_> {
    /// Whether the client may hold its body back until it is told to go on (RFC 9110 section 10.1.1).
    pub fn waits_to_continue(&self) -> bool {
        self.fields.framing.expect.is_some() && self.body != Body::Length(0)
    }
}

/// A request whose answer had to wait: as it was sent, for whoever needs more of it than was kept.
#[derive(Debug, Clone, Copy)]
pub struct Waited<'a> {
    /// Its head, and its content as it was decoded.
    pub bytes: &'a [u8],
    /// As in [`Request::close`].
    pub close: bool,
}

impl<'a> Waited<'a> {
    /// The request as it was, but for its content and the visitor's country. It was parsed before, so that there is one.
    pub fn request(&self) -> Option<Request<'a>> {
        match parse(self.bytes, None) {
            Parsed::Whole(request, _) => Some(Request { close: self.close, ..request }),
            Parsed::Partial | Parsed::Refused(_) => None,
        }
    }
}

/// The fields that something looks at; of repeated ones the first.
#[derive(Debug, Default)]
pub struct Fields<'a> {
    /// Host
    pub host: Option<&'a [u8]>,
    /// Origin
    pub origin: Option<&'a [u8]>,
    /// If-None-Match
    pub if_none_match: Option<&'a [u8]>,
    /// Accept-Encoding
    pub accept_encoding: Option<&'a [u8]>,
    /// Accept-Language
    pub accept_language: Option<&'a [u8]>,
    /// User-Agent
    pub user_agent: Option<&'a [u8]>,
    /// Referer
    pub referer: Option<&'a [u8]>,
    /// Cookie
    pub cookie: Option<&'a [u8]>,
    /// Authorization
    pub authorization: Option<&'a [u8]>,
    /// X-Anon-Id
    pub anon_id: Option<&'a [u8]>,
    /// X-Request-Id
    pub request_id: Option<&'a [u8]>,
    /// X-Debug-Timing
    pub debug_timing: Option<&'a [u8]>,
    /// Content-Type
    pub content_type: Option<&'a [u8]>,
    /// Content-Encoding
    pub content_encoding: Option<&'a [u8]>,
    /// Prefer
    pub prefer: Option<&'a [u8]>,
    /// Sec-GPC
    pub gpc: Option<&'a [u8]>,
    /// X-Preview
    pub preview: Option<&'a [u8]>,
    /// Sec-Fetch-Mode
    pub fetch_mode: Option<&'a [u8]>,
    /// Access-Control-Request-Method: makes an OPTIONS a preflight.
    pub preflight_method: Option<&'a [u8]>,
    /// Access-Control-Request-Headers
    pub preflight_headers: Option<&'a [u8]>,
    /// X-Forwarded-For
    pub forwarded: Forwarded<'a>,
    /// The header that the operator named for the visitor's country.
    pub country: Option<&'a [u8]>,
    framing: Framing<'a>,
}

#[derive(Debug, Default)]
struct Framing<'a> {
    hosts: usize,
    length: Option<&'a [u8]>,
    lengths: usize,
    coding: Option<&'a [u8]>,
    connection_close: bool,
    expect: Option<&'a [u8]>,
}

/// What the bytes so far amount to.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives on one stack frame and is taken apart at once")]
pub enum Parsed<'a> {
    /// The head's end has not come yet.
    Partial,
    /// A whole head, and how many bytes it took.
    Whole(Request<'a>, usize),
    /// It cannot be answered as a request; the connection must close behind the refusal.
    Refused(Problem<'a>),
}

/// Parses the head at the beginning of `bytes`. `country_header` is lower case.
pub fn parse<'a>(bytes: &'a [u8], country_header: Option<&str>) -> Parsed<'a> {
    let parsed = parse_lines(bytes, country_header);
    // The library takes a bare LF for a line's end; who stands before us may not (RFC 9112 section 2.2).
    let head_bytes = if let Parsed::Whole(_, head_bytes) = parsed { head_bytes } else { bytes.len() };
    match has_bare_lf(&bytes[..head_bytes]) {
        true => Parsed::Refused(refusal(httparse::Error::NewLine)),
        false => parsed,
    }
}

fn has_bare_lf(head: &[u8]) -> bool {
    let pairs = head.iter().zip(head.iter().skip(1));
    // Without a way out between, so that many bytes are looked at together.
    let is_bare =
        pairs.fold(false, |is_bare, (before, byte)| is_bare | (*byte == b'\n') & (*before != b'\r'));
    is_bare || head.first() == Some(&b'\n')
}

fn parse_lines<'a>(bytes: &'a [u8], country_header: Option<&str>) -> Parsed<'a> {
    let mut fields = [MaybeUninit::uninit(); HEADER_FIELDS_MAX];
    let mut head = httparse::Request::new(&mut []);
    match head.parse_with_uninit_headers(bytes, &mut fields) {
        Ok(httparse::Status::Complete(length)) => match read(&head, country_header) {
            Ok(_) if length > HEAD_BYTES_MAX => Parsed::Refused(too_large()),
            Ok(request) => Parsed::Whole(request, length),
            Err(problem) => Parsed::Refused(problem),
        },
        Ok(httparse::Status::Partial) => partial(bytes, head.path),
        Err(error) => Parsed::Refused(refusal(error)),
    }
}

fn partial<'a>(bytes: &'a [u8], path: Option<&'a str>) -> Parsed<'a> {
    let target_unfinished = !bytes.contains(&b'\n') && bytes.len() > TARGET_BYTES_MAX + 32;
    if target_unfinished || path.is_some_and(|p| p.len() > TARGET_BYTES_MAX) {
        return Parsed::Refused(too_long());
    }
    if bytes.len() >= HEAD_BYTES_MAX {
        return Parsed::Refused(too_large());
    }
    Parsed::Partial
}

const fn too_long<'a>() -> Problem<'a> {
    Problem::missing(problem::TARGET_TOO_LONG, "a target of at most 8192 bytes")
}

const fn too_large<'a>() -> Problem<'a> {
    let expected = "a head of at most 16384 bytes and 64 fields";
    Problem::missing(problem::HEAD_TOO_LARGE, expected)
}

fn refusal<'a>(error: httparse::Error) -> Problem<'a> {
    let malformed = |expected| Problem::missing(problem::MALFORMED_REQUEST, expected);
    match error {
        httparse::Error::TooManyHeaders => too_large(),
        httparse::Error::Version => Problem::missing(problem::UNSUPPORTED_VERSION, "HTTP/1.1 or HTTP/1.0"),
        httparse::Error::HeaderName => malformed("field names made of token characters"),
        httparse::Error::HeaderValue => malformed("field values without control characters"),
        httparse::Error::NewLine => malformed("lines that end with CR LF"),
        httparse::Error::Token | httparse::Error::Status => malformed("a method, a target and a version"),
    }
}

fn read<'a>(
    head: &httparse::Request<'_, 'a>,
    country_header: Option<&str>,
) -> Result<Request<'a>, Problem<'a>> {
    let target = head.path.unwrap_or_default();
    if target.len() > TARGET_BYTES_MAX {
        return Err(too_long());
    }
    let old = head.version == Some(0);
    let mut fields = Fields::default();
    for field in head.headers.iter() {
        fields.take(field.name, field.value, country_header);
    }
    let body = body(&fields.framing, old)?;
    host(&fields, old)?;
    let method = method(head.method.unwrap_or_default())?;
    let (path, query) = target_parts(target, method)?;
    Ok(Request {
        method,
        path,
        query,
        close: old || fields.framing.connection_close,
        body,
        content: &[],
        fields,
    })
}

impl<'a> Fields<'a> {
    fn take(&mut self, name: &str, value: &'a [u8], country_header: Option<&str>) {
        // The length picks one or two candidates, so that a field costs one comparison.
        let slot = match name.len() {
            4 if is(name, b"host") => {
                self.framing.hosts += 1;
                &mut self.host
            }
            6 if is(name, b"cookie") => &mut self.cookie,
            6 if is(name, b"origin") => &mut self.origin,
            6 if is(name, b"expect") => &mut self.framing.expect,
            6 if is(name, b"prefer") => &mut self.prefer,
            7 if is(name, b"referer") => &mut self.referer,
            7 if is(name, b"sec-gpc") => &mut self.gpc,
            9 if is(name, b"x-preview") => &mut self.preview,
            9 if is(name, b"x-anon-id") => &mut self.anon_id,
            10 if is(name, b"user-agent") => &mut self.user_agent,
            10 if is(name, b"connection") => {
                self.framing.connection_close |= has_token(value, b"close");
                return;
            }
            12 if is(name, b"content-type") => &mut self.content_type,
            12 if is(name, b"x-request-id") => &mut self.request_id,
            13 if is(name, b"if-none-match") => &mut self.if_none_match,
            13 if is(name, b"authorization") => &mut self.authorization,
            14 if is(name, b"content-length") => {
                self.framing.lengths += 1;
                &mut self.framing.length
            }
            14 if is(name, b"x-debug-timing") => &mut self.debug_timing,
            14 if is(name, b"sec-fetch-mode") => &mut self.fetch_mode,
            15 if is(name, b"x-forwarded-for") => return self.forwarded.push(value),
            15 if is(name, b"accept-encoding") => &mut self.accept_encoding,
            15 if is(name, b"accept-language") => &mut self.accept_language,
            16 if is(name, b"content-encoding") => &mut self.content_encoding,
            17 if is(name, b"transfer-encoding") => {
                // Two fields are one list; no list of codings but the single "chunked" is known.
                let coding = match self.framing.coding {
                    Some(_) => &b","[..],
                    None => value,
                };
                self.framing.coding = Some(coding);
                return;
            }
            29 if is(name, b"access-control-request-method") => &mut self.preflight_method,
            30 if is(name, b"access-control-request-headers") => &mut self.preflight_headers,
            _ if country_header.is_some_and(|country| name.eq_ignore_ascii_case(country)) => {
                &mut self.country
            }
            _ => return,
        };
        slot.get_or_insert(value);
    }
}

/// Whether a field's name, which is a token, is `wanted` in any case. `wanted` is of letters and hyphens: the bit that tells the
/// cases apart is set in all of them, and no other token's byte becomes one of them with it.
fn is<const LENGTH: usize>(name: &str, wanted: &[u8; LENGTH]) -> bool {
    let name: Option<&[u8; LENGTH]> = name.as_bytes().try_into().ok();
    // Without a way out between, so that it is a few wide comparisons.
    name.is_some_and(|name| name.iter().zip(wanted).fold(0, |other, (a, b)| other | ((a | 0x20) ^ b)) == 0)
}

/// Whether a comma-separated list holds `token`, in any case.
pub fn has_token(list: &[u8], token: &[u8]) -> bool {
    list.split(|b| *b == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(token))
}

fn body<'a>(framing: &Framing<'a>, old: bool) -> Result<Body, Problem<'a>> {
    let malformed = |expected| Problem::missing(problem::MALFORMED_REQUEST, expected);
    if let Some(expect) = framing.expect
        && !expect.eq_ignore_ascii_case(b"100-continue")
    {
        let expected = "Expect: 100-continue or none";
        return Err(Problem::missing(problem::EXPECTATION_FAILED, expected));
    }
    match (framing.length, framing.coding) {
        (None, None) => Ok(Body::Length(0)),
        (Some(_), Some(_)) => Err(malformed("Content-Length or Transfer-Encoding, not both")),
        (None, Some(_)) if old => Err(malformed("no Transfer-Encoding in HTTP/1.0")),
        (None, Some(coding)) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Body::Chunked),
        (None, Some(_)) => {
            Err(Problem::missing(problem::UNKNOWN_TRANSFER_CODING, "Transfer-Encoding: chunked or none"))
        }
        (Some(_), None) if framing.lengths > 1 => Err(malformed("one Content-Length")),
        (Some(digits), None) => length(digits).map(Body::Length),
    }
}

fn length<'a>(digits: &'a [u8]) -> Result<usize, Problem<'a>> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        let expected = "a Content-Length of decimal digits";
        return Err(Problem::missing(problem::MALFORMED_REQUEST, expected));
    }
    let add = |length: usize, digit: &u8| length.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
    match digits.iter().fold(0, add) {
        length if length <= crate::limits::BODY_BYTES_MAX => Ok(length),
        _ => Err(Problem::missing(problem::BODY_TOO_LARGE, "a body of at most 524288 bytes")),
    }
}

fn host<'a>(fields: &Fields<'a>, old: bool) -> Result<(), Problem<'a>> {
    let malformed = |expected| Problem::missing(problem::MALFORMED_REQUEST, expected);
    match (fields.framing.hosts, fields.host) {
        (0, _) if old => Ok(()),
        (1, Some(host)) if is_authority(host) => Ok(()),
        (1, _) => Err(malformed("a Host of a name or an address, with a port or without")),
        _ => Err(malformed("exactly one Host field")),
    }
}

/// unreserved, pct-encoded and sub-delims of a `reg-name` (RFC 3986 section 3.2.2).
const IS_NAME: [bool; 256] = {
    let (mut is_name, others) = ([false; 256], b"-._~%!$&'()*+,;=");
    let mut at = 0;
    while at < others.len() {
        is_name[others[at] as usize] = true;
        at += 1;
    }
    let mut byte = 0;
    while byte < 128 {
        is_name[byte] |= (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    is_name
};

/// `uri-host [ ":" port ]` (RFC 9110 section 7.2), the host not empty.
fn is_authority(text: &[u8]) -> bool {
    let port_at = text.iter().rposition(|b| *b == b':').filter(|at| !text[*at..].contains(&b']'));
    let (host, port) = text.split_at(port_at.unwrap_or(text.len()));
    let is_name = |b: &u8| IS_NAME[usize::from(*b)];
    let is_host = match host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")) {
        Some(address) => !address.is_empty() && address.iter().all(|b| is_name(b) || *b == b':'),
        None => !host.is_empty() && host.iter().all(is_name),
    };
    is_host && port.iter().skip(1).all(u8::is_ascii_digit)
}

fn method<'a>(name: &'a str) -> Result<Method, Problem<'a>> {
    Ok(match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "OPTIONS" => Method::Options,
        "DELETE" => Method::Delete,
        "PUT" | "PATCH" | "TRACE" | "QUERY" => Method::Other,
        _ => {
            let expected = "a method of RFC 9110 other than CONNECT, PATCH, or QUERY";
            return Err(Problem::new(problem::UNKNOWN_METHOD, expected, name));
        }
    })
}

/// Path and query of an origin-form, of an absolute-form, or of `OPTIONS *` (RFC 9112 section 3.2).
fn target_parts(target: &str, method: Method) -> Result<(&str, &str), Problem<'_>> {
    let absolute = target.strip_prefix("http://").or_else(|| target.strip_prefix("https://"));
    let (authority, origin_form) = match absolute {
        Some(rest) => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            (Some(&rest[..end]), if end < rest.len() { &rest[end..] } else { "/" })
        }
        None => (None, target),
    };
    let (path, query) = match memchr::memchr(b'?', origin_form.as_bytes()) {
        Some(at) => (&origin_form[..at], &origin_form[at + 1..]),
        None => (origin_form, ""),
    };
    let path = if path.is_empty() && absolute.is_some() { "/" } else { path };
    let is_form = path.starts_with('/') || path == "*" && method == Method::Options;
    // Without a way out between, so that many bytes are looked at together.
    let is_plain = target.bytes().fold(true, |is_plain, b| is_plain & b.is_ascii_graphic() & (b != b'#'));
    if is_form && is_plain && authority.is_none_or(|authority| is_authority(authority.as_bytes())) {
        return Ok((path, query));
    }
    let expected = "a target such as '/path?query' in visible ASCII, without '#'";
    Err(Problem::new(problem::MALFORMED_REQUEST, expected, target))
}
