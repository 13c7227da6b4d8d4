//! Pieces of response bodies: text, and the same text as a self-contained sequence of deflate blocks.

use flate2::{Compress, Compression, FlushCompress};

use crate::checksum;
use crate::site::snapshot::format::Piece;

/// A builder for the pieces of a site. It reuses the tables of the compressor.
pub(super) struct PieceBuilder {
    compress: Compress,
    pieces: Vec<Piece>,
}

impl PieceBuilder {
    pub(super) fn new() -> Self {
        // Raw deflate at zlib's default level. The level must not change: the same source gives the same
        // bytes.
        Self { compress: Compress::new(Compression::new(6), false), pieces: Vec::new() }
    }

    /// Adds a piece and returns its index.
    pub(super) fn add(&mut self, text: Vec<u8>) -> u32 {
        let deflate = self.deflate(&text);
        let (crc, crc_shift) = (checksum::crc32(&text), checksum::crc32_shift(text.len()));
        self.pieces.push(Piece { deflate, crc, crc_shift, text });
        self.pieces.len() as u32 - 1
    }

    pub(super) fn text(&self, piece: u32) -> &[u8] {
        &self.pieces[piece as usize].text
    }

    pub(super) fn finish(self) -> Vec<Piece> {
        self.pieces
    }

    /// Compresses with a full flush, which ends at a byte boundary and resets the window (RFC 1951 section
    /// 3.2.4, zlib's Z_FULL_FLUSH). So pieces can follow each other in any order.
    fn deflate(&mut self, text: &[u8]) -> Vec<u8> {
        self.compress.reset();
        let mut out = Vec::with_capacity(text.len() / 2 + 64);
        loop {
            let read = self.compress.total_in() as usize;
            self.compress
                .compress_vec(&text[read..], &mut out, FlushCompress::Full)
                .expect("a deflate stream accepts more input");
            // The flush is complete if the output buffer has room left.
            if self.compress.total_in() as usize == text.len() && out.len() < out.capacity() {
                return out;
            }
            out.reserve(out.len());
        }
    }
}
