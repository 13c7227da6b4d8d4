//! A parser of request heads with a cache of header sections.
//!
//! Many clients send the same header fields with each request of a connection. If a section equals the one in
//! the slot of its connection, and the request line is a usual one, only the request line is parsed. The
//! result is that of [`parse`], because the index and the checked fields of an HTTP/1.1 section depend on its
//! bytes alone. If a proxy adds `X-Forwarded-For`, sections differ. Then each request costs one comparison and
//! one copy more.

use super::framing::BodyFraming;
use super::headers::{FieldIndex, Headers};
use super::request::{CheckedFields, ParseOutcome, Request, RequestLine, build_request, parse};
use super::target::Target;

/// Number of cached sections. The descriptor of a connection selects one. A power of two, so that the
/// remainder is a mask.
const SECTIONS_CACHED: usize = 256;
/// Largest size of a cached section. Browsers send 500 to 1,000 bytes. A longer section is parsed each time.
const SECTION_BYTES_MAX: usize = 1024;

/// Longest request line, in bytes, whose length follows from that of the section. For a longer one the parser searches
/// for the end of the line. Otherwise it would read many pipelined requests for nothing.
const LINE_BYTES_EXPECTED_MAX: usize = 512;

/// The end of a usual request line.
const USUAL_LINE_END: &[u8] = b" HTTP/1.1\r\n";

/// A parser of the request heads of one worker.
pub struct HeadParser {
    /// In lower case.
    country_header: Option<Box<str>>,
    sections: Box<[CachedSection]>,
}

/// A section of an HTTP/1.1 request, with its index and its checked fields. An empty one matches nothing.
#[derive(Clone)]
struct CachedSection {
    length: usize,
    bytes: [u8; SECTION_BYTES_MAX],
    index: FieldIndex,
    fields: CheckedFields,
}

impl HeadParser {
    /// Creates a parser, and allocates all memory that it needs.
    pub fn new(country_header_name: Option<&str>) -> Self {
        let body_framing = BodyFraming::Length(0);
        let fields = CheckedFields { body_framing, close: false, expects_continue: false };
        let index = FieldIndex::default();
        let empty = CachedSection { length: 0, bytes: [0; SECTION_BYTES_MAX], index, fields };
        Self {
            country_header: country_header_name.map(Box::from),
            sections: vec![empty; SECTIONS_CACHED].into(),
        }
    }

    /// Parses the head at the start of `bytes`, as [`parse`] does. `descriptor` is its descriptor, which
    /// selects the slot.
    pub fn parse<'a>(&mut self, descriptor: i32, bytes: &'a [u8]) -> ParseOutcome<'a> {
        let section = &mut self.sections[descriptor as usize % SECTIONS_CACHED];
        if let Some((line, after_line)) = section.split_line(bytes) {
            let headers = Headers { section: &after_line[..section.length], index: section.index };
            let head_bytes = bytes.len() - after_line.len() + section.length;
            return build_request(line, section.fields, headers, head_bytes);
        }
        let outcome = parse(bytes, self.country_header.as_deref());
        if let ParseOutcome::Complete(request, length) = &outcome {
            // The checks of an HTTP/1.0 section differ, so only sections of HTTP/1.1 are cached.
            let line = &bytes[..length - request.headers.section.len()];
            if line.ends_with(USUAL_LINE_END) {
                section.store(request);
            }
        }
        outcome
    }
}

impl CachedSection {
    /// Splits the request line from `bytes`. The rest begins with the cached section. Returns `None` if it begins with
    /// other bytes, or if the line is not a usual one.
    fn split_line<'a>(&self, bytes: &'a [u8]) -> Option<(RequestLine<'a>, &'a [u8])> {
        // Most clients wait for the response. Then the bytes end with the section, and no search is needed. A wrong
        // length never matches, because a usual line has no other line end in it.
        let line_bytes = bytes.len().saturating_sub(self.length);
        if line_bytes <= LINE_BYTES_EXPECTED_MAX
            && let Some(found) = self.split_line_at(line_bytes, bytes)
        {
            return Some(found);
        }
        self.split_line_at(memchr::memchr(b'\n', bytes)? + 1, bytes)
    }

    /// Splits a request line of `line_bytes` bytes from `bytes`. Returns `None` like [`Self::split_line`].
    fn split_line_at<'a>(&self, line_bytes: usize, bytes: &'a [u8]) -> Option<(RequestLine<'a>, &'a [u8])> {
        let (line, after) = bytes.split_at_checked(line_bytes)?;
        // A cached section ends with the empty line, so equal bytes are the whole section.
        let section = after.get(..self.length).filter(|section| !section.is_empty())?;
        if section != &self.bytes[..self.length] {
            return None;
        }
        Some((parse_usual_line(line)?, after))
    }

    fn store(&mut self, request: &Request<'_>) {
        let &Request { headers, body_framing, close, expects_continue, .. } = request;
        let length = headers.section.len();
        self.length = 0;
        if let Some(bytes) = self.bytes.get_mut(..length) {
            bytes.copy_from_slice(headers.section);
            self.length = length;
            self.index = headers.index;
            self.fields = CheckedFields { body_framing, close, expects_continue };
        }
    }
}

/// Parses a usual request line: GET or POST, a path of visible ASCII without '#', and HTTP/1.1. Returns
/// `None` for other lines. [`parse`] decides about them.
fn parse_usual_line(line: &[u8]) -> Option<RequestLine<'_>> {
    let line = line.strip_suffix(USUAL_LINE_END)?;
    let (method, target) = match line.strip_prefix(b"GET ") {
        Some(target) => ("GET", target),
        None => ("POST", line.strip_prefix(b"POST ")?),
    };
    if !target.starts_with(b"/") {
        return None;
    }
    Some(RequestLine { method, target: Target::of_plain(target)? })
}
