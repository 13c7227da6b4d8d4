//! Pieces of response bodies: text, and the same text as a self-contained sequence of deflate blocks.

use flate2::{Compress, Compression, FlushCompress};

use crate::checksum;
use crate::parallel;
use crate::site::snapshot::format::{ARCHIVE_ALIGNMENT, HEADER_BYTES, Piece};

/// Size of the texts that one thread compresses at once. It is large beside the cost of handing them over, and small
/// beside a site, so that all threads have work until the end.
const BATCH_TEXT_BYTES: usize = 256 * 1024;

/// A builder for the pieces of a site. It collects their texts where they are in the snapshot file.
pub(super) struct PieceBuilder {
    pieces: Vec<Piece>,
    /// The beginning of the file: room for the header, then the texts.
    file: Vec<u8>,
}

impl PieceBuilder {
    pub(super) fn new() -> Self {
        Self { pieces: Vec::new(), file: vec![0; HEADER_BYTES] }
    }

    /// Adds a piece and returns its index.
    pub(super) fn add(&mut self, text: &[u8]) -> u32 {
        let text_offset = (self.file.len() - HEADER_BYTES) as u64;
        self.file.extend_from_slice(text);
        let text_bytes = text.len() as u32;
        // `finish` fills in the other members.
        let piece =
            Piece { text_offset, text_bytes, deflate_offset: 0, deflate_bytes: 0, crc: 0, crc_shift: 0 };
        self.pieces.push(piece);
        self.pieces.len() as u32 - 1
    }

    pub(super) fn text(&self, piece_index: u32) -> &[u8] {
        text(&self.file, &self.pieces[piece_index as usize])
    }

    /// Compresses all texts, on all CPUs. Calls `report_progress` with the number of batches done and the total. Returns
    /// the pieces and the beginning of the file: room for the header, then the piece data.
    pub(super) fn finish(self, report_progress: &dyn Fn(usize, usize)) -> (Vec<Piece>, Vec<u8>) {
        let Self { pieces: mut table, mut file } = self;
        let batches = split_into_batches(&table);
        let compress =
            |compressor: &mut Compressor, batch: &&[Piece]| compressor.compress_batch(batch, &file);
        let compressed = parallel::map(&batches, Compressor::new, compress, report_progress);
        let mut finished = table.iter_mut();
        for (pieces, deflated) in compressed {
            let offset = (file.len() - HEADER_BYTES) as u64;
            for (piece, slot) in pieces.into_iter().zip(finished.by_ref()) {
                *slot = Piece { deflate_offset: offset + piece.deflate_offset, ..piece };
            }
            file.extend_from_slice(&deflated);
        }
        let data_bytes = (file.len() - HEADER_BYTES).next_multiple_of(ARCHIVE_ALIGNMENT);
        file.resize(HEADER_BYTES + data_bytes, 0);
        (table, file)
    }
}

fn text<'f>(file_content: &'f [u8], piece: &Piece) -> &'f [u8] {
    &file_content[HEADER_BYTES + piece.text_offset as usize..][..piece.text_bytes as usize]
}

/// Splits the pieces into batches of about [`BATCH_TEXT_BYTES`].
fn split_into_batches(pieces: &[Piece]) -> Vec<&[Piece]> {
    let batch = |piece: &Piece| piece.text_offset / BATCH_TEXT_BYTES as u64;
    pieces.chunk_by(|a, b| batch(a) == batch(b)).collect()
}

/// A compressor with its tables, for one piece after the other.
struct Compressor(Compress);

impl Compressor {
    fn new() -> Self {
        // Raw deflate at zlib's default level. The level must not change: the same source gives the same
        // bytes.
        Self(Compress::new(Compression::new(6), false))
    }

    /// Returns the pieces with their checksums, and their compressed texts one after the other. The offsets of the
    /// compressed texts count from the first of them.
    fn compress_batch(&mut self, batch: &[Piece], file_content: &[u8]) -> (Vec<Piece>, Vec<u8>) {
        let mut deflated = Vec::new();
        let mut compress = |piece: &Piece| {
            let text = text(file_content, piece);
            let start = deflated.len();
            self.deflate(text, &mut deflated);
            Piece {
                deflate_offset: start as u64,
                deflate_bytes: (deflated.len() - start) as u32,
                crc: checksum::crc32(text),
                crc_shift: checksum::crc32_shift(text.len()),
                ..*piece
            }
        };
        (batch.iter().map(&mut compress).collect(), deflated)
    }

    /// Appends the compressed text, with a full flush. It ends at a byte boundary and resets the window (RFC 1951
    /// section 3.2.4, zlib's Z_FULL_FLUSH). So pieces can follow each other in any order.
    fn deflate(&mut self, text: &[u8], out: &mut Vec<u8>) {
        self.0.reset();
        out.reserve(text.len() / 2 + 64);
        loop {
            let read = self.0.total_in() as usize;
            self.0
                .compress_vec(&text[read..], out, FlushCompress::Full)
                .expect("a deflate stream accepts more input");
            // The flush is complete if the output buffer has room left.
            if self.0.total_in() as usize == text.len() && out.len() < out.capacity() {
                return;
            }
            out.reserve(text.len() / 2 + 64);
        }
    }
}
