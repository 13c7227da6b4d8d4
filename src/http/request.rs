//! Request heads: parses received bytes into a borrowed view (RFC 9112 sections 2 to 6).
//!
//! `parse` is a pure function of the bytes received so far. It returns `Partial` until the empty line at the
//! end of the head is received, however the bytes are split into reads. Bytes after a valid head do not
//! affect the result.

use std::mem::MaybeUninit;
use std::net::IpAddr;

pub use super::framing::BodyFraming;
use super::framing::{body_framing, check_expectation};
use super::headers::{Field, FieldIndex, Headers};
use super::line_ends;
use super::target::{Target, TargetParts, target_parts};
use crate::clock::Instant;
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

    /// Returns the name of the method as the subject of a sentence. The name of a method that no endpoint
    /// supports is not kept.
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
    /// The admin address, for a client that does not see private traits.
    AdminWithoutPrivateTraits,
}

impl Surface {
    /// Returns whether this is the admin address.
    pub(crate) fn is_admin(self) -> bool {
        matches!(self, Self::Admin | Self::AdminWithoutPrivateTraits)
    }
}

/// The origin, destination and time of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestMeta {
    /// The address of the peer: a client, or a proxy.
    pub peer: IpAddr,
    /// The surface of the address that received the request.
    pub surface: Surface,
    /// The descriptor of the connection.
    pub connection: i32,
    /// When the last byte of the request was received.
    pub received_at: Instant,
}

/// A parsed request. All texts borrow from the read buffer.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    pub method: Method,
    /// The host and the port of an absolute-form target. [`Request::host`] reads it.
    pub authority: Option<&'a str>,
    /// The path of the target, as sent. "*" for `OPTIONS *`.
    pub path: &'a str,
    /// The query of the target, as sent, without the question mark. Empty if there is none.
    pub query: &'a str,
    /// True if this is the last request on the connection (HTTP/1.0, `Connection: close`).
    pub close: bool,
    /// The framing of the body.
    pub body_framing: BodyFraming,
    /// True if the client may hold back the body until it gets 100 Continue (RFC 9110 section 10.1.1).
    pub expects_continue: bool,
    /// The received body, decoded from chunks. `parse` leaves it empty, and the connection sets it.
    pub body: &'a [u8],
    /// The header fields that the server uses.
    pub headers: Headers<'a>,
}

impl<'a> Request<'a> {
    /// Returns the host of the request, with its port: that of an absolute-form target, which makes `Host` void, else that
    /// of `Host` (RFC 9112 sections 3.2.2 and 3.3).
    pub fn host(&self) -> Option<&'a str> {
        self.authority.or_else(|| std::str::from_utf8(self.headers.get(Field::Host)?).ok())
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

/// The bytes that end a head.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// The result of parsing the bytes received so far.
#[derive(Debug)]
pub enum ParseOutcome<'a> {
    /// The end of the head was not received yet.
    Partial,
    /// A complete head, and its length in bytes.
    Complete(Request<'a>, usize),
    /// The bytes are not a request that we accept. The connection must close after the problem is sent.
    Rejected(Problem<'a>),
}

/// Parses the head at the start of `bytes`. `country_header_name` is lower case.
pub fn parse<'a>(bytes: &'a [u8], country_header_name: Option<&str>) -> ParseOutcome<'a> {
    match parse_head(bytes, country_header_name) {
        ParseOutcome::Partial | ParseOutcome::Rejected(_) if line_ends::has_bare_lf(head_of(bytes)) => {
            ParseOutcome::Rejected(parse_problem(httparse::Error::NewLine))
        }
        outcome => outcome,
    }
}

/// Returns the received bytes without those of the body.
fn head_of(bytes: &[u8]) -> &[u8] {
    let begin = bytes.len() - skip_empty_lines(bytes).len();
    let end = memchr::memmem::find(&bytes[begin..], HEAD_END).map(|end| begin + end + HEAD_END.len());
    &bytes[..end.unwrap_or(bytes.len())]
}

/// Skips the empty lines before a request line (RFC 9112 section 2.2).
fn skip_empty_lines(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    while let Some(after) = rest.strip_prefix(b"\r\n") {
        rest = after;
    }
    rest
}

fn parse_head<'a>(bytes: &'a [u8], country_header_name: Option<&str>) -> ParseOutcome<'a> {
    let mut fields = [MaybeUninit::uninit(); HEADER_FIELDS_MAX];
    let mut head = httparse::Request::new(&mut []);
    match head.parse_with_uninit_headers(bytes, &mut fields) {
        Ok(httparse::Status::Complete(length)) => {
            let head_text = &bytes[..length];
            let names = head.headers.iter().map(|field| field.name);
            if !line_ends::are_crlf(head_text, head.method.unwrap_or_default(), names) {
                return ParseOutcome::Rejected(parse_problem(httparse::Error::NewLine));
            }
            // `FieldIndex` has offsets of 16 bits.
            if length > usize::from(u16::MAX) {
                return ParseOutcome::Rejected(head_too_large());
            }
            // The section begins with the first field, or is the empty line.
            let from = head
                .headers
                .first()
                .map_or(length - 2, |field| field.name.as_ptr().addr() - bytes.as_ptr().addr());
            let section = &head_text[from..];
            let fields = head.headers.iter().map(|field| (field.name, field.value));
            let index = FieldIndex::read(section, fields, country_header_name);
            let headers = Headers { section, index };
            let line = RequestLine::new(&head);
            match check_fields(&line, &headers, head.version == Some(0), length) {
                Ok(fields) => build_request(line, fields, headers, length),
                Err(problem) => ParseOutcome::Rejected(problem),
            }
        }
        Ok(httparse::Status::Partial) => check_partial(bytes, head.path),
        Err(error) => check_malformed(bytes, error),
    }
}

/// Rejects an unfinished head that is too large. `target` is `None` if it is not parsed yet. A long target is
/// rejected only then, or with the end of the head, because the fields after it decide which pages can read the
/// response.
fn check_partial<'a>(bytes: &'a [u8], target: Option<&'a str>) -> ParseOutcome<'a> {
    if bytes.len() < HEAD_BYTES_MAX {
        return ParseOutcome::Partial;
    }
    let is_target_too_long =
        !bytes.contains(&b'\n') || target.is_some_and(|target| target.len() > TARGET_BYTES_MAX);
    ParseOutcome::Rejected(if is_target_too_long { target_too_long() } else { head_too_large() })
}

/// Rejects a head that httparse rejects, as soon as the part of it that the response depends on is received.
fn check_malformed(bytes: &[u8], error: httparse::Error) -> ParseOutcome<'_> {
    let head = skip_empty_lines(bytes);
    let problem = match error {
        httparse::Error::Version => match memchr::memchr(b'\n', head) {
            Some(end) => version_problem(&head[..end]),
            None => return check_partial(bytes, None),
        },
        httparse::Error::TooManyHeaders if memchr::memmem::find(head, HEAD_END).is_none() => {
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

/// A request line.
pub(super) struct RequestLine<'a> {
    pub(super) method: &'a str,
    pub(super) target: Target<'a>,
}

impl<'a> RequestLine<'a> {
    fn new(head: &httparse::Request<'_, 'a>) -> Self {
        Self { method: head.method.unwrap_or_default(), target: Target::new(head.path.unwrap_or_default()) }
    }

    /// Checks the length of the target, and that of the head.
    fn check_lengths(&self, head_bytes: usize) -> Result<(), Problem<'a>> {
        if self.target.text.len() > TARGET_BYTES_MAX {
            return Err(target_too_long());
        }
        if head_bytes > HEAD_BYTES_MAX {
            return Err(head_too_large());
        }
        Ok(())
    }

    /// Checks the lengths and the target. Returns the method and the parts of the target.
    fn parts(self, head_bytes: usize) -> Result<(Method, TargetParts<'a>), Problem<'a>> {
        // Also here, because a line before a cached section has no other check.
        self.check_lengths(head_bytes)?;
        let method = parse_method(self.method)?;
        Ok((method, target_parts(self.target, method)?))
    }
}

/// The checked fields of a header section. They depend on the section and the version alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct CheckedFields {
    pub(super) body_framing: BodyFraming,
    pub(super) close: bool,
    pub(super) expects_continue: bool,
}

/// Checks the fields of a complete head of `head_bytes` bytes. `is_http_1_0` says that the request is HTTP/1.0. An error of the
/// framing precedes that of a limit, and a limit precedes an expectation.
fn check_fields<'a>(
    line: &RequestLine<'a>,
    headers: &Headers<'a>,
    is_http_1_0: bool,
    head_bytes: usize,
) -> Result<CheckedFields, Problem<'a>> {
    let body_framing = body_framing(headers, is_http_1_0)?;
    check_host(headers, is_http_1_0)?;
    line.check_lengths(head_bytes)?;
    // An HTTP/1.0 client does not understand the interim response (RFC 9110 section 10.1.1).
    let expectation = headers.get(Field::Expect).filter(|_| !is_http_1_0);
    check_expectation(expectation)?;
    if matches!(body_framing, BodyFraming::Length(length) if length > BODY_BYTES_MAX) {
        return Err(Problem::new(problem::BODY_TOO_LARGE, "The body is larger than 524288 bytes."));
    }
    Ok(CheckedFields {
        body_framing,
        close: is_http_1_0 || headers.index.connection_close,
        expects_continue: expectation.is_some() && body_framing != BodyFraming::Length(0),
    })
}

/// Builds the request of a complete head of `head_bytes` bytes, whose fields are checked. It is inlined, so that the headers
/// are copied once.
#[inline]
pub(super) fn build_request<'a>(
    line: RequestLine<'a>,
    fields: CheckedFields,
    headers: Headers<'a>,
    head_bytes: usize,
) -> ParseOutcome<'a> {
    let CheckedFields { body_framing, close, expects_continue } = fields;
    match line.parts(head_bytes) {
        Ok((method, TargetParts { authority, path, query })) => {
            let body = &[];
            let request = Request {
                method,
                authority,
                path,
                query,
                close,
                body_framing,
                expects_continue,
                body,
                headers,
            };
            ParseOutcome::Complete(request, head_bytes)
        }
        Err(problem) => ParseOutcome::Rejected(problem),
    }
}

fn check_host<'a>(headers: &Headers<'_>, is_http_1_0: bool) -> Result<(), Problem<'a>> {
    let malformed = |sentence| Problem::new(problem::MALFORMED_REQUEST, sentence);
    match (headers.index.host_count, headers.index.is_host_valid) {
        (0, _) if is_http_1_0 => Ok(()),
        (1, true) => Ok(()),
        (1, false) => Err(malformed("Host is not a name or an address with an optional port.")),
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
