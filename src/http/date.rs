//! The `Date` field of responses (RFC 9110 section 6.6.1). Each worker formats it once a second.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

/// A formatted line: `Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DateLine([u8; 37]);

impl DateLine {
    /// Formats a time in seconds since 1970.
    pub(crate) fn new(now_s: u64) -> Self {
        let mut line = *b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
        let date = httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(now_s));
        // The date always has 29 bytes, up to the year 9999, which is the limit of the crate.
        let _ = write!(&mut line[6..35], "{date}");
        Self(line)
    }

    /// Returns the bytes of the line.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}
