//! The `Date` of responses (RFC 9110 section 6.6.1), formed once a second for a worker.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

/// `Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n`
#[derive(Debug, Clone, Copy)]
pub struct DateLine([u8; 37]);

impl DateLine {
    /// The line for a time in seconds since 1970.
    pub fn new(now_s: u64) -> Self {
        let mut line = *b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
        let date = httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(now_s));
        // The form is fixed at 29 bytes until the year 9999, where the crate stops.
        let _ = write!(&mut line[6..35], "{date}");
        Self(line)
    }

    /// The line's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}
