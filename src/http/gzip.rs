//! gzip bodies: decompresses those of requests, and compresses those of responses that have no finished pieces.

use std::io::Read;

use flate2::read::MultiGzDecoder;
use flate2::{Compress, Compression, FlushCompress};

use crate::limits::BODY_BYTES_MAX;

/// Size in bytes up to which a body is not compressed: a smaller one fits in one packet in any coding.
pub(crate) const GZIP_ABOVE_BYTES: usize = 1024;
/// Logarithm of the compressor's window: the largest, 32 KiB.
const WINDOW_BITS: u8 = 15;
/// Smallest space for compressed bytes that a call of the compressor gets.
const OUTPUT_STEP_BYTES: usize = 16 * 1024;

/// The reason why a body cannot be decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InflateError {
    /// It has more than `BODY_BYTES_MAX` after decompression.
    TooLarge,
    /// It is not a sequence of complete gzip members.
    Invalid,
}

/// Decompresses all members of `content` and replaces `text` by their text.
///
/// # Errors
/// The content is too large, or has other bytes than gzip members.
pub(crate) fn inflate(content: &[u8], text: &mut Vec<u8>) -> Result<(), InflateError> {
    text.clear();
    match MultiGzDecoder::new(content).take(BODY_BYTES_MAX as u64 + 1).read_to_end(text) {
        Ok(bytes) if bytes > BODY_BYTES_MAX => Err(InflateError::TooLarge),
        Ok(_) => Ok(()),
        Err(_) => Err(InflateError::Invalid),
    }
}

/// A compressor with its tables and its buffer, which are reused for every body.
#[derive(Debug)]
pub(crate) struct GzipCompressor {
    compress: Compress,
    body: Vec<u8>,
}

impl GzipCompressor {
    /// Creates a compressor for the response to one request. Allocates the tables.
    pub(crate) fn new() -> Self {
        // The fastest level: caches keep the result, and the worker serves other requests after it.
        Self::with_level(Compression::fast())
    }

    /// Creates a compressor for a body that is compressed once and sent often.
    pub(crate) fn for_static_body() -> Self {
        Self::with_level(Compression::best())
    }

    fn with_level(level: Compression) -> Self {
        Self { compress: Compress::new_gzip(level, WINDOW_BITS), body: Vec::new() }
    }

    /// Compresses `text` to one gzip member.
    pub(crate) fn compress(&mut self, text: &[u8]) -> &[u8] {
        let Self { compress, body } = self;
        compress.reset();
        body.clear();
        loop {
            let rest = &text[compress.total_in() as usize..];
            body.reserve(OUTPUT_STEP_BYTES);
            match compress.compress_vec(rest, body, FlushCompress::Finish) {
                Ok(flate2::Status::StreamEnd) => return body,
                Ok(_) => {}
                Err(error) => unreachable!("a reset compressor accepts input: {error}"),
            }
        }
    }
}
