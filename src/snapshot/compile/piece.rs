//! Pieces of bodies: text that is also a self-contained run of deflate blocks.

use flate2::{Compress, Compression, FlushCompress};

use crate::checksum;
use crate::snapshot::format::Piece;

/// Makes pieces; keeps the compressor's tables from one to the next.
pub(super) struct Pieces {
    compress: Compress,
}

impl Pieces {
    pub(super) fn new() -> Self {
        // Raw deflate; the level is the customary one, and part of "same source, same bytes".
        Self { compress: Compress::new(Compression::new(6), false) }
    }

    pub(super) fn piece(&mut self, text: Vec<u8>) -> Piece {
        Piece {
            deflate: self.deflate(&text),
            crc: checksum::crc(&text),
            shift: checksum::crc_shift(text.len()),
            text,
        }
    }

    /// A full flush ends at a byte's end and forgets what came before (RFC 1951 section 3.2.4,
    /// zlib's Z_FULL_FLUSH), so that pieces can follow each other in any order.
    fn deflate(&mut self, text: &[u8]) -> Vec<u8> {
        self.compress.reset();
        let mut out = Vec::with_capacity(text.len() / 2 + 64);
        loop {
            let read = self.compress.total_in() as usize;
            self.compress
                .compress_vec(&text[read..], &mut out, FlushCompress::Full)
                .expect("a deflate stream that was begun can be continued");
            // Room that is left says that the flush is complete.
            if self.compress.total_in() as usize == text.len() && out.len() < out.capacity() {
                return out;
            }
            out.reserve(out.len());
        }
    }
}
