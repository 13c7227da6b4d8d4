//! The value of `route` as a path: decoded segment by segment, so that `location.pathname` can be
//! passed as it is.
//!
//! `%2F` becomes part of its segment, a bad escape stays as written, a plus is a plus. Query and
//! fragment are cut, a trailing slash is dropped. The buffers are kept for the next request.

use crate::limits::{ROUTE_BYTES_MAX, ROUTE_SEGMENTS_MAX};

/// A requested path. Segments are never empty; "/" has none.
#[derive(Debug)]
pub struct RoutePath {
    text: String,
    decoded: Vec<u8>,
    /// Where each segment ends in `text`; it begins one behind the end of the one before.
    ends: Vec<u16>,
    /// Whether some segment has a slash inside, so that `text` alone does not tell the segments.
    slash_inside: bool,
}

/// Why a value is no path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPath {
    /// It does not begin with a slash.
    NotAbsolute,
    /// It has an empty segment.
    EmptySegment,
    /// It is over `ROUTE_BYTES_MAX`.
    TooLong,
}

impl RoutePath {
    /// An empty buffer, large enough for any path.
    pub fn new() -> Self {
        Self {
            text: String::with_capacity(ROUTE_BYTES_MAX),
            decoded: Vec::with_capacity(ROUTE_BYTES_MAX),
            ends: Vec::with_capacity(ROUTE_SEGMENTS_MAX),
            slash_inside: false,
        }
    }

    /// Takes the path out of `value`.
    ///
    /// # Errors
    /// The first reason why it is none.
    pub fn read(&mut self, value: &str) -> Result<(), NoPath> {
        let path = memchr::memchr2(b'?', b'#', value.as_bytes()).map_or(value, |at| &value[..at]);
        if !path.starts_with('/') {
            return Err(NoPath::NotAbsolute);
        }
        if path.len() > ROUTE_BYTES_MAX {
            return Err(NoPath::TooLong);
        }
        self.text.clear();
        self.ends.clear();
        self.slash_inside = false;
        let inner = path[1..].strip_suffix('/').unwrap_or(&path[1..]);
        if inner.is_empty() && path.len() <= 1 {
            self.text.push('/');
            return Ok(());
        }
        for segment in inner.split('/') {
            if segment.is_empty() {
                return Err(NoPath::EmptySegment);
            }
            self.text.push('/');
            self.push_segment(segment);
            self.ends.push(self.text.len() as u16);
        }
        Ok(())
    }

    fn push_segment(&mut self, segment: &str) {
        if !segment.contains('%') {
            self.text.push_str(segment);
            return;
        }
        self.decoded.clear();
        crate::percent::decode(segment.as_bytes(), &mut self.decoded);
        // Escapes that do not give UTF-8 are bad escapes: the segment stays as written.
        let text = std::str::from_utf8(&self.decoded).unwrap_or(segment);
        self.slash_inside |= text.contains('/');
        self.text.push_str(text);
    }

    /// The decoded path.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The decoded path where its slashes are exactly those between segments; else None.
    pub fn literal(&self) -> Option<&str> {
        (!self.slash_inside).then_some(&self.text)
    }

    /// How many segments there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it is "/".
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The decoded segment `i`, below `len`.
    pub fn segment(&self, i: usize) -> &str {
        &self.text[self.begin(i)..usize::from(self.ends[i])]
    }

    /// The decoded segments from `i` on, with the slashes between them.
    pub fn rest(&self, i: usize) -> &str {
        &self.text[self.begin(i)..]
    }

    fn begin(&self, i: usize) -> usize {
        i.checked_sub(1).map_or(1, |before| usize::from(self.ends[before]) + 1)
    }

    /// Appends the path with every byte escaped that is not unreserved (RFC 3986 section 2.3);
    /// slashes between segments stay.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if self.is_empty() {
            out.push(b'/');
        }
        for i in 0..self.len() {
            out.push(b'/');
            crate::percent::encode(out, self.segment(i));
        }
    }
}

impl Default for RoutePath {
    fn default() -> Self {
        Self::new()
    }
}
