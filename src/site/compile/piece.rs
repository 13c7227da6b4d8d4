//! Pieces of bodies: text that is also a self-contained run of deflate blocks.

use flate2::{Compress, Compression, FlushCompress};

use crate::checksum;
use crate::site::snapshot::format::Piece;

/// Makes the pieces of a site; keeps the compressor's tables from one to the next.
pub(super) struct Pieces {
    compress: Compress,
    all: Vec<Piece>,
}

impl Pieces {
    pub(super) fn new() -> Self {
        // Raw deflate; the level is the customary one, and part of "same source, same bytes".
        Self { compress: Compress::new(Compression::new(6), false), all: Vec::new() }
    }

    /// The index of a new piece.
    pub(super) fn add(&mut self, text: Vec<u8>) -> u32 {
        let deflate = self.deflate(&text);
        let (crc, shift) = (checksum::crc(&text), checksum::crc_shift(text.len()));
        self.all.push(Piece { deflate, crc, shift, text });
        self.all.len() as u32 - 1
    }

    pub(super) fn text(&self, piece: u32) -> &[u8] {
        &self.all[piece as usize].text
    }

    pub(super) fn finish(self) -> Vec<Piece> {
        self.all
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
