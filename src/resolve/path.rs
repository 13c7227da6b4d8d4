//! Parses the value of `route` as a path: splits it into segments and decodes them, so that a page can pass
//! its `location.pathname` unchanged.
//!
//! The text is in Unicode normalization form C, so that two spellings of a path are one path ([`crate::nfc`]).
//!
//! `%2F` becomes part of its segment, an invalid escape stays as written, and a plus is a plus. Query and
//! fragment are cut off, and a trailing slash is dropped. The buffers are reused for the next request.

use crate::http::short_search;
use crate::limits::ROUTE_BYTES_MAX;
use crate::nfc;

/// Number of segments of a requested route. Each segment takes two bytes at least, so a path of 2 KiB has no
/// more.
const ROUTE_SEGMENTS_MAX: usize = ROUTE_BYTES_MAX / 2;

/// A requested path. Its segments are never empty, and "/" has none.
#[derive(Debug)]
pub struct RoutePath {
    text: String,
    decoded: Vec<u8>,
    /// The path as it was spelled, while `text` is written.
    spelled: String,
    /// End of each segment in `text`. A segment begins one byte after the end of the previous one.
    ends: Vec<u16>,
    /// True if a segment contains a slash, so that `text` alone does not show the segments.
    has_escaped_slash: bool,
}

/// The reason why a value is not a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// The value does not begin with a slash.
    NotAbsolute,
    /// A segment is empty.
    EmptySegment,
    /// The value, or the path in form C, is longer than `ROUTE_BYTES_MAX`.
    TooLong,
}

/// A path at the start of a value.
struct SplitPath<'v> {
    path: &'v str,
    has_escapes: bool,
    has_non_ascii: bool,
    has_empty_segment: bool,
}

impl RoutePath {
    /// Creates an empty path with buffers that are large enough for any path.
    pub fn new() -> Self {
        Self {
            text: String::with_capacity(ROUTE_BYTES_MAX),
            decoded: Vec::with_capacity(ROUTE_BYTES_MAX),
            spelled: String::new(),
            ends: Vec::with_capacity(ROUTE_SEGMENTS_MAX),
            has_escaped_slash: false,
        }
    }

    /// Parses `text` and replaces the path.
    ///
    /// # Errors
    /// The first reason why it is not a path.
    pub fn parse(&mut self, text: &str) -> Result<(), PathError> {
        self.text.clear();
        self.ends.clear();
        self.has_escaped_slash = false;
        if !text.starts_with('/') {
            return Err(PathError::NotAbsolute);
        }
        // One search does all for a usual path. Only a path with '%' is split again, and decoded.
        let SplitPath { path, has_escapes, has_non_ascii, has_empty_segment } = self.find_segments(text);
        if path.len() > ROUTE_BYTES_MAX {
            return Err(PathError::TooLong);
        }
        if has_empty_segment {
            return Err(PathError::EmptySegment);
        }
        if has_escapes {
            // Decoding shortens segments, so their ends are written again.
            self.ends.clear();
            self.push_segments(path.trim_matches('/'));
        } else {
            // A trailing slash is dropped. A path without segments is "/".
            let end = self.ends.last().map_or(1, |end| usize::from(*end));
            self.text.push_str(&path[..end]);
        }
        if has_escapes || has_non_ascii { self.normalize() } else { Ok(()) }
    }

    /// Writes the segments again in form C. A slash combines with no character, so segments stay segments.
    fn normalize(&mut self) -> Result<(), PathError> {
        if nfc::is_normalized(&self.text) {
            return Ok(());
        }
        std::mem::swap(&mut self.text, &mut self.spelled);
        self.text.clear();
        let mut start = 1;
        for end in &mut self.ends {
            let segment = &self.spelled[start..usize::from(*end)];
            start = usize::from(*end) + 1;
            self.text.push('/');
            nfc::append(&mut self.text, segment);
            // Some characters become longer.
            if self.text.len() > ROUTE_BYTES_MAX {
                return Err(PathError::TooLong);
            }
            *end = self.text.len() as u16;
        }
        Ok(())
    }

    /// Finds the path at the start of `text`, and writes the ends of its segments as if it had no escapes.
    /// If the path is too long, `path` is the whole value.
    fn find_segments<'v>(&mut self, text: &'v str) -> SplitPath<'v> {
        let mut found =
            SplitPath { path: text, has_escapes: false, has_non_ascii: false, has_empty_segment: false };
        // One byte more than the limit shows that the path is too long.
        let bytes = &text.as_bytes()[..text.len().min(ROUTE_BYTES_MAX + 1)];
        let mut segment_start = 1;
        let mut search_from = 1;
        while let Some(at) = short_search::position_or_non_ascii(bytes, search_from, *b"/%?#") {
            search_from = at + 1;
            match bytes[at] {
                b'/' if at == segment_start => {
                    found.has_empty_segment = true;
                    segment_start = at + 1;
                }
                b'/' => {
                    self.ends.push(at as u16);
                    segment_start = at + 1;
                }
                b'%' => found.has_escapes = true,
                b'?' | b'#' => {
                    found.path = &text[..at];
                    break;
                }
                _ => found.has_non_ascii = true,
            }
        }
        if segment_start < found.path.len() {
            self.ends.push(found.path.len() as u16);
        }
        found
    }

    fn push_segments(&mut self, segments: &str) {
        for segment in segments.split('/') {
            self.text.push('/');
            self.push_segment(segment);
            self.ends.push(self.text.len() as u16);
        }
    }

    fn push_segment(&mut self, segment: &str) {
        if !segment.contains('%') {
            self.text.push_str(segment);
            return;
        }
        self.decoded.clear();
        crate::percent::decode(segment.as_bytes(), &mut self.decoded);
        // Escapes that decode to invalid UTF-8 are invalid: the segment stays as written.
        let text = std::str::from_utf8(&self.decoded).unwrap_or(segment);
        self.has_escaped_slash |= text.contains('/');
        self.text.push_str(text);
    }

    /// Returns the decoded path.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the decoded path if all of its slashes separate segments.
    pub fn literal(&self) -> Option<&str> {
        (!self.has_escaped_slash).then_some(&self.text)
    }

    /// Returns the number of segments.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether the path is "/".
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the decoded segment `index`, which must be less than `len`.
    pub fn segment(&self, index: usize) -> &str {
        &self.text[self.segment_start(index)..usize::from(self.ends[index])]
    }

    /// Returns the decoded segments from `first_index` on, with the slashes between them.
    pub fn rest(&self, first_index: usize) -> &str {
        &self.text[self.segment_start(first_index)..]
    }

    fn segment_start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(1, |before| usize::from(self.ends[before]) + 1)
    }

    /// Appends the path with all bytes escaped except the unreserved ones (RFC 3986 section 2.3) and the
    /// slashes between segments.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(b'/');
        self.encode_rest(0, out);
    }

    /// Appends the segments from `first_index` on, escaped in the same way, with slashes between them.
    pub fn encode_rest(&self, first_index: usize, out: &mut Vec<u8>) {
        for i in first_index..self.len() {
            if i > first_index {
                out.push(b'/');
            }
            crate::percent::encode(out, self.segment(i));
        }
    }
}

impl Default for RoutePath {
    fn default() -> Self {
        Self::new()
    }
}
