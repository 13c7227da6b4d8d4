//! A parser of request heads with a cache of header sections.
//!
//! Many clients send the same header fields with each request of a connection. If a section equals the one in
//! the slot of its connection, and the request line is a usual one, only the request line is parsed. The
//! result is that of [`parse`], because the index of a section depends on its bytes alone. If a proxy adds
//! `X-Forwarded-For`, sections differ. Then each request costs one comparison and one copy more.

use std::os::fd::RawFd;

use super::headers::{FieldIndex, Headers};
use super::request::{Head, ParseOutcome, build_request, parse};
use super::target::Target;

/// Number of cached sections. The descriptor of a connection selects one. A power of two, so that the
/// remainder is a mask.
const SECTIONS_CACHED: usize = 256;
/// Largest size of a cached section. Browsers send 500 to 1,000 bytes. A longer section is parsed each time.
const SECTION_BYTES_MAX: usize = 1024;

/// Longest request line, in bytes, whose length follows from that of the section. For a longer one the parser searches
/// for the end of the line. Otherwise it would read many pipelined requests for nothing.
const LINE_BYTES_EXPECTED_MAX: usize = 512;

/// A parser of the request heads of one worker.
pub struct HeadParser {
    /// In lower case.
    country_header: Option<Box<str>>,
    sections: Box<[CachedSection]>,
}

/// A section and its index. An empty one matches nothing.
#[derive(Clone)]
struct CachedSection {
    length: usize,
    bytes: [u8; SECTION_BYTES_MAX],
    index: FieldIndex,
}

impl HeadParser {
    /// Creates a parser, and allocates all memory that it needs.
    pub fn new(country_header: Option<&str>) -> Self {
        let empty = CachedSection { length: 0, bytes: [0; SECTION_BYTES_MAX], index: FieldIndex::default() };
        Self { country_header: country_header.map(Box::from), sections: vec![empty; SECTIONS_CACHED].into() }
    }

    /// Parses the head at the start of `bytes`, as [`parse`] does. `connection` is its descriptor, which
    /// selects the slot.
    pub fn parse<'a>(&mut self, connection: RawFd, bytes: &'a [u8]) -> ParseOutcome<'a> {
        let section = &mut self.sections[connection as usize % SECTIONS_CACHED];
        if let Some((head, length)) = section.head(bytes) {
            return build_request(head, length);
        }
        let outcome = parse(bytes, self.country_header.as_deref());
        if let ParseOutcome::Complete(request, _) = &outcome {
            section.store(&request.headers);
        }
        outcome
    }
}

impl CachedSection {
    /// Returns the head at the start of `bytes` and its length. `None` if its section is another one, or its request
    /// line is not a usual one.
    fn head<'a>(&self, bytes: &'a [u8]) -> Option<(Head<'a>, usize)> {
        // Most clients wait for the response. Then the bytes end with the section, and no search is needed. A wrong
        // length never matches, because a usual line has no other line end in it.
        let line_bytes = bytes.len().saturating_sub(self.length);
        if line_bytes <= LINE_BYTES_EXPECTED_MAX
            && let Some(head) = self.head_after(line_bytes, bytes)
        {
            return Some(head);
        }
        self.head_after(memchr::memchr(b'\n', bytes)? + 1, bytes)
    }

    /// Returns the same, if the request line has `line_bytes` bytes.
    fn head_after<'a>(&self, line_bytes: usize, bytes: &'a [u8]) -> Option<(Head<'a>, usize)> {
        let (line, after) = bytes.split_at_checked(line_bytes)?;
        // A cached section ends with the empty line, so equal bytes are the whole section.
        let section = after.get(..self.length).filter(|section| !section.is_empty())?;
        if section != &self.bytes[..self.length] {
            return None;
        }
        let (method, target) = parse_usual_line(line)?;
        let headers = Headers { section, index: self.index };
        Some((Head { method, target, is_old: false, headers }, line_bytes + self.length))
    }

    fn store(&mut self, headers: &Headers<'_>) {
        let length = headers.section.len();
        self.length = 0;
        if let Some(bytes) = self.bytes.get_mut(..length) {
            bytes.copy_from_slice(headers.section);
            (self.length, self.index) = (length, headers.index);
        }
    }
}

/// Parses a usual request line: GET or POST, a path of visible ASCII without '#', and HTTP/1.1. Returns
/// `None` for other lines. [`parse`] decides about them.
fn parse_usual_line(line: &[u8]) -> Option<(&'static str, Target<'_>)> {
    let line = line.strip_suffix(b" HTTP/1.1\r\n")?;
    let (method, target) = match line.strip_prefix(b"GET ") {
        Some(target) => ("GET", target),
        None => ("POST", line.strip_prefix(b"POST ")?),
    };
    if !target.starts_with(b"/") {
        return None;
    }
    Some((method, Target::of_plain(target)?))
}
