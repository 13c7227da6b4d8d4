//! Request heads: parses received bytes into a borrowed view (RFC 9112 sections 2 to 6).
//!
//! `parse` is a pure function of the bytes received so far. It returns `Partial` until the empty line at the
//! end of the head is received, however the bytes are split into reads. Bytes after a valid head do not
//! affect the result.

use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::time::Instant;

use super::authority::is_authority;
use super::forwarded::ForwardedFor;
pub use super::framing::BodyFraming;
use super::framing::{FramingHeaders, body_framing, check_expectation};
use super::line_ends;
use super::negotiate::has_token;
use super::target::target_parts;
use crate::limits::{BODY_BYTES_MAX, HEAD_BYTES_MAX, HEADER_FIELDS_MAX, TARGET_BYTES_MAX};
use crate::problem::{self, Problem};

/// A request method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    /// HEAD: handled like GET, without the body of the response.
    Head,
    Post,
    Delete,
    /// OPTIONS: a preflight, or a request for the capabilities of an endpoint.
    Options,
    /// A registered method that no endpoint supports.
    Other,
}

impl Method {
    /// Returns the name of the method, or "other" for those that no endpoint supports.
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

    /// Returns the name of the method as the subject of a sentence. The name of a method that no endpoint supports is not kept.
    pub const fn subject(self) -> &'static str {
        match self {
            Self::Other => "This method",
            _ => self.name(),
        }
    }
}

/// The set of endpoints that an address serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// All public endpoints.
    Public,
    /// The public endpoints without those of events, which have an address of their own.
    Edge,
    /// Only the endpoints of events.
    Events,
    /// The admin address. Requests there may always use `explain=1`.
    Admin,
}

/// The origin, destination and time of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestMeta {
    /// The address of the peer: a client, or a proxy.
    pub peer: IpAddr,
    /// The surface of the address that received the request.
    pub surface: Surface,
    /// When the last byte of the request was received.
    pub received_at: Instant,
}

/// A parsed request. All texts borrow from the read buffer.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    pub method: Method,
    /// The path of the target, as sent. "*" for `OPTIONS *`.
    pub path: &'a str,
    /// The query of the target, as sent, without the question mark. Empty if there is none.
    pub query: &'a str,
    /// True if this is the last request on the connection (HTTP/1.0, `Connection: close`).
    pub close: bool,
    /// The framing of the body.
    pub body_framing: BodyFraming,
    /// The received body, decoded from chunks. `parse` leaves it empty, and the connection sets it.
    pub body: &'a [u8],
    /// The header fields that the server uses.
    pub headers: Headers<'a>,
}

impl Request<'_> {
    /// Returns whether the client may hold back the body until it gets 100 Continue (RFC 9110 section
    /// 10.1.1).
    pub fn expects_continue(&self) -> bool {
        self.headers.framing.expect.is_some() && self.body_framing != BodyFraming::Length(0)
    }
}

/// A request whose response was pending, as received. It can be parsed again for data that was not stored.
#[derive(Debug, Clone, Copy)]
pub struct BufferedRequest<'a> {
    /// The head, and the body decoded from chunks.
    pub bytes: &'a [u8],
    /// As in [`Request::close`].
    pub close: bool,
}

impl<'a> BufferedRequest<'a> {
    /// Parses the request again, without its body and the country header. Always returns a request, because
    /// the same bytes were parsed before.
    pub fn request(&self) -> Option<Request<'a>> {
        match parse(self.bytes, None) {
            ParseOutcome::Complete(request, _) => Some(Request { close: self.close, ..request }),
            ParseOutcome::Partial | ParseOutcome::Rejected(_) => None,
        }
    }
}

/// The header fields that the server uses. Of a repeated field, the first one counts. Of some lists all lines
/// count, which methods return.
#[derive(Debug, Default, Clone)]
pub struct Headers<'a> {
    /// The head from the request line on.
    pub(crate) head: &'a [u8],
    /// True if a known field is repeated.
    has_repeats: bool,
    pub host: Option<&'a [u8]>,
    pub origin: Option<&'a [u8]>,
    pub if_none_match: Option<&'a [u8]>,
    pub if_match: Option<&'a [u8]>,
    pub accept_encoding: Option<&'a [u8]>,
    pub accept_language: Option<&'a [u8]>,
    pub user_agent: Option<&'a [u8]>,
    pub referer: Option<&'a [u8]>,
    pub cookie: Option<&'a [u8]>,
    pub authorization: Option<&'a [u8]>,
    /// X-Anon-Id
    pub anon_id: Option<&'a [u8]>,
    /// X-Request-Id
    pub request_id: Option<&'a [u8]>,
    /// X-Debug-Timing
    pub debug_timing: Option<&'a [u8]>,
    pub content_type: Option<&'a [u8]>,
    pub content_encoding: Option<&'a [u8]>,
    pub prefer: Option<&'a [u8]>,
    /// Sec-GPC
    pub gpc: Option<&'a [u8]>,
    /// X-Preview
    pub preview: Option<&'a [u8]>,
    /// Sec-Fetch-Mode
    pub fetch_mode: Option<&'a [u8]>,
    /// Sec-Fetch-Site
    pub fetch_site: Option<&'a [u8]>,
    /// Access-Control-Request-Method: makes an OPTIONS a preflight.
    pub preflight_method: Option<&'a [u8]>,
    /// Access-Control-Request-Headers
    pub preflight_headers: Option<&'a [u8]>,
    /// X-Forwarded-For: the last fields, if it is repeated.
    pub forwarded: ForwardedFor<'a>,
    /// X-Forwarded-Proto
    pub forwarded_proto: Option<&'a [u8]>,
    /// True if a proxy sent the request: Forwarded, X-Forwarded-For or Via.
    pub is_forwarded: bool,
    /// The visitor's country, from the header that `--country-header` names.
    pub country: Option<&'a [u8]>,
    framing: FramingHeaders<'a>,
}

/// The result of parsing the bytes received so far.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives on one stack frame and is taken apart at once")]
pub enum ParseOutcome<'a> {
    /// The end of the head was not received yet.
    Partial,
    /// A complete head, and its length in bytes.
    Complete(Request<'a>, usize),
    /// The bytes are not a request that we accept. The connection must close after the problem is sent.
    Rejected(Problem<'a>),
}

/// Parses the head at the start of `bytes`. `country_header` is lower case.
pub fn parse<'a>(bytes: &'a [u8], country_header: Option<&str>) -> ParseOutcome<'a> {
    match parse_head(bytes, country_header) {
        ParseOutcome::Partial | ParseOutcome::Rejected(_) if line_ends::has_bare_lf(bytes) => {
            ParseOutcome::Rejected(parse_problem(httparse::Error::NewLine))
        }
        outcome => outcome,
    }
}

fn parse_head<'a>(bytes: &'a [u8], country_header: Option<&str>) -> ParseOutcome<'a> {
    let mut fields = [MaybeUninit::uninit(); HEADER_FIELDS_MAX];
    let mut head = httparse::Request::new(&mut []);
    match head.parse_with_uninit_headers(bytes, &mut fields) {
        Ok(httparse::Status::Complete(length)) => {
            let head_bytes = &bytes[..length];
            let names = head.headers.iter().map(|field| field.name);
            if !line_ends::are_crlf(head_bytes, head.method.unwrap_or_default(), names) {
                return ParseOutcome::Rejected(parse_problem(httparse::Error::NewLine));
            }
            match build_request(&head, head_bytes, country_header) {
                Ok(request) => ParseOutcome::Complete(request, length),
                Err(problem) => ParseOutcome::Rejected(problem),
            }
        }
        Ok(httparse::Status::Partial) => check_partial(bytes, head.path),
        Err(error) => check_malformed(bytes, error),
    }
}

/// Rejects an unfinished head that is too large. A long target is rejected only then, or with the end of the
/// head, because the fields after it decide which pages can read the response.
fn check_partial<'a>(bytes: &'a [u8], path: Option<&'a str>) -> ParseOutcome<'a> {
    if bytes.len() < HEAD_BYTES_MAX {
        return ParseOutcome::Partial;
    }
    let is_target_too_long =
        !bytes.contains(&b'\n') || path.is_some_and(|path| path.len() > TARGET_BYTES_MAX);
    ParseOutcome::Rejected(if is_target_too_long { target_too_long() } else { head_too_large() })
}

/// Rejects a head that httparse rejects, as soon as the part of it that the response depends on is received.
fn check_malformed(bytes: &[u8], error: httparse::Error) -> ParseOutcome<'_> {
    let problem = match error {
        httparse::Error::Version => match memchr::memchr(b'\n', bytes) {
            Some(end) => version_problem(&bytes[..end]),
            None => return check_partial(bytes, None),
        },
        httparse::Error::TooManyHeaders if memchr::memmem::find(bytes, b"\r\n\r\n").is_none() => {
            return check_partial(bytes, None);
        }
        error => parse_problem(error),
    };
    ParseOutcome::Rejected(problem)
}

/// Returns the problem of a request line that does not end with a supported version.
fn version_problem<'a>(line: &[u8]) -> Problem<'a> {
    let mut words = line.trim_ascii_end().rsplit(|b| *b == b' ');
    let malformed = |sentence| Problem::new(problem::MALFORMED_REQUEST, sentence);
    match words.next() {
        Some([b'H', b'T', b'T', b'P', b'/', major, b'.', minor])
            if major.is_ascii_digit() && minor.is_ascii_digit() => {}
        _ => return malformed("The request line does not end with a version such as HTTP/1.1."),
    }
    match words.count() {
        0..=2 => {
            Problem::new(problem::UNSUPPORTED_VERSION, "The server supports only HTTP/1.1 and HTTP/1.0.")
        }
        _ => malformed("The request target has an unescaped space; write it as %20."),
    }
}

const fn target_too_long<'a>() -> Problem<'a> {
    Problem::new(problem::TARGET_TOO_LONG, "The request target is longer than 8192 bytes.")
}

const fn head_too_large<'a>() -> Problem<'a> {
    let sentence = "The request head has more than 16384 bytes or more than 64 header fields.";
    Problem::new(problem::HEAD_TOO_LARGE, sentence)
}

fn parse_problem<'a>(error: httparse::Error) -> Problem<'a> {
    let malformed = |sentence| Problem::new(problem::MALFORMED_REQUEST, sentence);
    match error {
        httparse::Error::TooManyHeaders => head_too_large(),
        httparse::Error::HeaderName => {
            malformed("A header field name has a character that is not a token character.")
        }
        httparse::Error::HeaderValue => malformed("A header field value has a control character."),
        httparse::Error::NewLine => malformed("A line of the request head does not end with CR LF."),
        httparse::Error::Token | httparse::Error::Status | httparse::Error::Version => {
            malformed("The request line is not a method, a target without spaces, and a version.")
        }
    }
}

fn build_request<'a>(
    head: &httparse::Request<'_, 'a>,
    bytes: &'a [u8],
    country_header: Option<&str>,
) -> Result<Request<'a>, Problem<'a>> {
    let target = head.path.unwrap_or_default();
    let old = head.version == Some(0);
    let mut fields = Headers { head: bytes, ..Headers::default() };
    for field in head.headers.iter() {
        fields.insert(field.name, field.value, country_header);
    }
    if old {
        // An HTTP/1.0 client does not understand the interim response (RFC 9110 section 10.1.1).
        fields.framing.expect = None;
    }
    let body = body_framing(&fields.framing, old)?;
    check_host(&fields, old)?;
    if target.len() > TARGET_BYTES_MAX {
        return Err(target_too_long());
    }
    if bytes.len() > HEAD_BYTES_MAX {
        return Err(head_too_large());
    }
    check_expectation(&fields.framing)?;
    if matches!(body, BodyFraming::Length(length) if length > BODY_BYTES_MAX) {
        return Err(Problem::new(problem::BODY_TOO_LARGE, "The body is larger than 524288 bytes."));
    }
    let method = parse_method(head.method.unwrap_or_default())?;
    let (path, query) = target_parts(target, method)?;
    Ok(Request {
        method,
        path,
        query,
        close: old || fields.framing.connection_close,
        body_framing: body,
        body: &[],
        headers: fields,
    })
}

impl<'a> Headers<'a> {
    fn insert(&mut self, name: &str, value: &'a [u8], country_header: Option<&str>) {
        // The length leaves one or two candidates, so that a field costs one comparison.
        let slot = match name.len() {
            3 if is_header(name, b"via") => {
                self.is_forwarded = true;
                return;
            }
            4 if is_header(name, b"host") => {
                self.framing.host_count += 1;
                &mut self.host
            }
            6 if is_header(name, b"cookie") => &mut self.cookie,
            6 if is_header(name, b"origin") => &mut self.origin,
            6 if is_header(name, b"expect") => &mut self.framing.expect,
            6 if is_header(name, b"prefer") => &mut self.prefer,
            7 if is_header(name, b"referer") => &mut self.referer,
            7 if is_header(name, b"sec-gpc") => &mut self.gpc,
            8 if is_header(name, b"if-match") => &mut self.if_match,
            9 if is_header(name, b"x-preview") => &mut self.preview,
            9 if is_header(name, b"x-anon-id") => &mut self.anon_id,
            9 if is_header(name, b"forwarded") => {
                self.is_forwarded = true;
                return;
            }
            10 if is_header(name, b"user-agent") => &mut self.user_agent,
            10 if is_header(name, b"connection") => {
                self.framing.connection_close |= has_token(value, b"close");
                return;
            }
            12 if is_header(name, b"content-type") => &mut self.content_type,
            12 if is_header(name, b"x-request-id") => &mut self.request_id,
            13 if is_header(name, b"if-none-match") => &mut self.if_none_match,
            13 if is_header(name, b"authorization") => &mut self.authorization,
            14 if is_header(name, b"content-length") => {
                self.framing.content_length_count += 1;
                &mut self.framing.content_length
            }
            14 if is_header(name, b"x-debug-timing") => &mut self.debug_timing,
            14 if is_header(name, b"sec-fetch-mode") => &mut self.fetch_mode,
            14 if is_header(name, b"sec-fetch-site") => &mut self.fetch_site,
            15 if is_header(name, b"x-forwarded-for") => {
                self.is_forwarded = true;
                return self.forwarded.push(value);
            }
            15 if is_header(name, b"accept-encoding") => &mut self.accept_encoding,
            15 if is_header(name, b"accept-language") => &mut self.accept_language,
            16 if is_header(name, b"content-encoding") => &mut self.content_encoding,
            17 if is_header(name, b"transfer-encoding") => {
                self.framing.transfer_codings = self.framing.transfer_codings.with_line(value);
                return;
            }
            17 if is_header(name, b"x-forwarded-proto") => &mut self.forwarded_proto,
            29 if is_header(name, b"access-control-request-method") => &mut self.preflight_method,
            30 if is_header(name, b"access-control-request-headers") => &mut self.preflight_headers,
            _ if country_header.is_some_and(|country| name.eq_ignore_ascii_case(country)) => {
                &mut self.country
            }
            _ => return,
        };
        if slot.is_some() {
            self.has_repeats = true;
        } else {
            *slot = Some(value);
        }
    }

    /// Returns the values of all `Accept-Encoding` fields.
    pub(crate) fn accept_encoding_lines(&self) -> impl Iterator<Item = &'a [u8]> {
        self.lines(self.accept_encoding, b"accept-encoding")
    }

    /// Returns the values of all `If-None-Match` fields.
    pub(crate) fn if_none_match_lines(&self) -> impl Iterator<Item = &'a [u8]> {
        self.lines(self.if_none_match, b"if-none-match")
    }

    /// Returns the values of all `If-Match` fields.
    pub(crate) fn if_match_lines(&self) -> impl Iterator<Item = &'a [u8]> {
        self.lines(self.if_match, b"if-match")
    }

    /// Returns the values of all `Prefer` fields.
    pub(crate) fn prefer_lines(&self) -> impl Iterator<Item = &'a [u8]> {
        self.lines(self.prefer, b"prefer")
    }

    /// Returns the values of all `Cookie` fields.
    pub(crate) fn cookie_lines(&self) -> impl Iterator<Item = &'a [u8]> {
        self.lines(self.cookie, b"cookie")
    }

    /// Returns the values of all `Access-Control-Request-Headers` fields.
    pub(crate) fn preflight_headers_lines(&self) -> impl Iterator<Item = &'a [u8]> {
        self.lines(self.preflight_headers, b"access-control-request-headers")
    }

    /// Returns the value of the first field and then those of its repetitions, which are rare: they are read
    /// from the head again.
    fn lines(&self, first: Option<&'a [u8]>, name: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
        let all_lines = || {
            self.head.split(|b| *b == b'\n').filter_map(move |line| {
                let (field, value) = line.split_at_checked(name.len())?;
                let value = value.strip_prefix(b":")?;
                field.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
            })
        };
        let repetitions = self.has_repeats.then(|| all_lines().skip(1));
        first.into_iter().chain(repetitions.into_iter().flatten())
    }
}

/// Returns whether a field name, which is a token, equals `wanted` in any case. `wanted` has only lower-case
/// letters and hyphens. Bit 0x20, which distinguishes the cases, is set in all of them. No other byte of a
/// token becomes one of them when that bit is set.
fn is_header<const LENGTH: usize>(name: &str, wanted: &[u8; LENGTH]) -> bool {
    let name: Option<&[u8; LENGTH]> = name.as_bytes().try_into().ok();
    // `fold` has no early return, so that it compiles to a few wide comparisons.
    name.is_some_and(|name| name.iter().zip(wanted).fold(0, |other, (a, b)| other | ((a | 0x20) ^ b)) == 0)
}

fn check_host<'a>(fields: &Headers<'a>, old: bool) -> Result<(), Problem<'a>> {
    let malformed = |sentence| Problem::new(problem::MALFORMED_REQUEST, sentence);
    match (fields.framing.host_count, fields.host) {
        (0, _) if old => Ok(()),
        (1, Some(host)) if is_authority(host) => Ok(()),
        (1, _) => Err(malformed("Host is not a name or an address with an optional port.")),
        _ => Err(malformed("The request must have exactly one Host field.")),
    }
}

fn parse_method<'a>(name: &'a str) -> Result<Method, Problem<'a>> {
    Ok(match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "OPTIONS" => Method::Options,
        "DELETE" => Method::Delete,
        "PUT" | "PATCH" | "TRACE" | "QUERY" => Method::Other,
        _ => {
            return Err(Problem::with_value(
                problem::UNKNOWN_METHOD,
                "The server does not know the method {}.",
                name,
            ));
        }
    })
}
