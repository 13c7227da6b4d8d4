//! Renders a body from the chosen pieces: copies texts for identity coding, joins finished deflate blocks for
//! gzip.
//!
//! A plan lists pieces and texts in their order. It knows the length in both codings before a byte is
//! written. A request never compresses or hashes a body.

use crate::checksum;
use crate::site::snapshot::format::{ArchivedPage, ArchivedPart, ArchivedPiece, ArchivedSite};
use crate::site::snapshot::pieces::{PieceRange, Pieces};

use super::content::EmbeddedQueries;
use super::variants::Choice;

/// The plan of one body: its pieces and texts in order.
#[derive(Debug, Default)]
pub(crate) struct BodyPlan {
    /// Texts that belong to this body only. Text appended here follows the pieces that were added so far.
    pub text: Vec<u8>,
    steps: Vec<Step>,
    /// Length of the part of `text` that the steps cover.
    planned_text_bytes: usize,
    piece_bytes: usize,
    /// Length of the longest piece, without compression.
    longest_piece_bytes: usize,
    deflate_bytes: usize,
    /// Number of stored blocks for the texts in the steps.
    stored_blocks: usize,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// The text up to this offset.
    Text { end: usize },
    /// Index of a piece of the site.
    Piece(u32),
}

/// RFC 1952 section 2.3: deflate, no name, no time, unknown operating system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// An empty final block with fixed codes (RFC 1951 section 3.2.6).
const LAST_BLOCK: [u8; 2] = [3, 0];
/// CRC-32 and length.
const TRAILER_BYTES: usize = 8;
/// Size of a stored block without its text (RFC 1951 section 3.2.4).
const STORED_HEADER_BYTES: usize = 5;
/// Largest text of a stored block. Texts in a body are much shorter. A longer one takes several blocks.
const STORED_BYTES_MAX: usize = u16::MAX as usize;

impl BodyPlan {
    /// Clears the plan for the next body.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.steps.clear();
        self.planned_text_bytes = 0;
        self.piece_bytes = 0;
        self.deflate_bytes = 0;
        self.stored_blocks = 0;
        self.longest_piece_bytes = 0;
    }

    /// Adds the pieces of `page` with these variants, and the items of its embedded queries.
    pub(crate) fn add_page(
        &mut self,
        site: &ArchivedSite,
        page: &ArchivedPage,
        choice: &Choice,
        embedded_queries: &mut EmbeddedQueries<'_>,
    ) {
        self.add_parts(site, page, choice, &page.parts, embedded_queries);
    }

    /// Zones nest at most `NODE_NESTING_MAX` deep and never in a cycle. Opening the snapshot verified that.
    fn add_parts(
        &mut self,
        site: &ArchivedSite,
        page: &ArchivedPage,
        choice: &Choice,
        parts: &[ArchivedPart],
        embedded_queries: &mut EmbeddedQueries<'_>,
    ) {
        for part in parts {
            match part {
                ArchivedPart::Piece(index) => self.push_piece(&site.pieces, index.to_native()),
                ArchivedPart::Zone(zone) => {
                    let chosen = usize::from(choice.get(*zone).unwrap_or(0));
                    let variant = &page.zones[usize::from(*zone)].variants[chosen];
                    self.add_parts(site, page, choice, &variant.parts, embedded_queries);
                }
                ArchivedPart::RouteValue(index, param) => {
                    let embedded = &page.embedded[usize::from(index.to_native())];
                    embedded_queries.push_route_value(site, page, embedded, usize::from(*param), self);
                }
                ArchivedPart::Query(index) => {
                    embedded_queries.push_query(
                        site,
                        page,
                        &page.embedded[usize::from(index.to_native())],
                        self,
                    );
                }
            }
        }
    }

    /// Adds one piece of the site.
    pub(crate) fn push_piece(&mut self, pieces: &[ArchivedPiece], index: u32) {
        self.flush_text();
        let piece = &pieces[index as usize];
        self.steps.push(Step::Piece(index));
        let text_bytes = piece.text_bytes.to_native() as usize;
        self.piece_bytes += text_bytes;
        self.longest_piece_bytes = self.longest_piece_bytes.max(text_bytes);
        self.deflate_bytes += piece.deflate_bytes.to_native() as usize;
    }

    fn flush_text(&mut self) {
        let end = self.text.len();
        if end > self.planned_text_bytes {
            self.stored_blocks += (end - self.planned_text_bytes).div_ceil(STORED_BYTES_MAX);
            self.steps.push(Step::Text { end });
            self.planned_text_bytes = end;
        }
    }

    /// Ends the plan. Nothing may be added afterwards.
    pub(crate) fn finish(&mut self) {
        self.flush_text();
    }

    /// Returns the length of the body in identity coding.
    pub(crate) fn identity_bytes(&self) -> usize {
        self.planned_text_bytes + self.piece_bytes
    }

    /// Returns the length of the body in gzip coding.
    pub(crate) fn gzip_bytes(&self) -> usize {
        GZIP_HEADER.len()
            + self.stored_blocks * STORED_HEADER_BYTES
            + self.planned_text_bytes
            + self.deflate_bytes
            + LAST_BLOCK.len()
            + TRAILER_BYTES
    }

    /// Returns the pieces of a body whose text precedes all of them. Returns `None` for another body.
    pub(crate) fn pieces_after_text(&self) -> Option<impl Iterator<Item = u32>> {
        let (first, rest) = self.steps.split_first()?;
        let piece = |step: &Step| match step {
            Step::Piece(index) => Some(*index),
            Step::Text { .. } => None,
        };
        let is_split = piece(first).is_none() && rest.iter().all(|step| piece(step).is_some());
        is_split.then(|| rest.iter().filter_map(piece))
    }

    /// Appends the bytes before the pieces, for a body with [`Self::pieces_after_text`].
    pub(crate) fn write_start(&self, is_gzip: bool, out: &mut Vec<u8>) {
        if is_gzip {
            out.extend_from_slice(&GZIP_HEADER);
            write_stored_blocks(&self.text, out);
        } else {
            out.extend_from_slice(&self.text);
        }
    }

    /// Appends the bytes after the last piece.
    pub(crate) fn write_end(&self, pieces: Pieces<'_>, is_gzip: bool, out: &mut Vec<u8>) {
        if is_gzip {
            out.extend_from_slice(&LAST_BLOCK);
            out.extend_from_slice(&self.crc(pieces).to_le_bytes());
            out.extend_from_slice(&(self.identity_bytes() as u32).to_le_bytes());
        }
    }

    /// Returns the length of the longest piece, without compression.
    pub(crate) fn longest_piece_bytes(&self) -> usize {
        self.longest_piece_bytes
    }

    /// Returns the range of each piece, with its offset in the body.
    pub(crate) fn piece_ranges(
        &self,
        pieces: Pieces<'_>,
        is_gzip: bool,
    ) -> impl Iterator<Item = (usize, PieceRange)> {
        let mut from = 0;
        let mut at = if is_gzip { GZIP_HEADER.len() } else { 0 };
        self.steps.iter().filter_map(move |step| match *step {
            Step::Text { end } => {
                let bytes = end - std::mem::replace(&mut from, end);
                let headers =
                    if is_gzip { bytes.div_ceil(STORED_BYTES_MAX) * STORED_HEADER_BYTES } else { 0 };
                at += bytes + headers;
                None
            }
            Step::Piece(index) => {
                let range = pieces.range(index, is_gzip);
                let begin = at;
                at += range[1] as usize;
                Some((begin, range))
            }
        })
    }

    /// Computes the CRC-32 of the body.
    fn crc(&self, pieces: Pieces<'_>) -> u32 {
        let mut from = 0;
        self.steps.iter().fold(0, |crc, step| match *step {
            Step::Text { end } => {
                let text = &self.text[from..end];
                from = end;
                checksum::crc32_append(crc, text)
            }
            Step::Piece(index) => {
                let piece = pieces.get(index);
                checksum::crc32_combine(crc, piece.crc.to_native(), piece.crc_shift.to_native())
            }
        })
    }

    /// Appends the body in identity coding.
    pub(crate) fn write_identity(&self, pieces: Pieces<'_>, out: &mut Vec<u8>) {
        out.reserve(self.identity_bytes());
        let mut from = 0;
        for step in &self.steps {
            match *step {
                Step::Text { end } => {
                    out.extend_from_slice(&self.text[from..end]);
                    from = end;
                }
                Step::Piece(index) => out.extend_from_slice(pieces.text(index)),
            }
        }
    }

    /// Appends the body in gzip coding.
    pub(crate) fn write_gzip(&self, pieces: Pieces<'_>, out: &mut Vec<u8>) {
        out.reserve(self.gzip_bytes());
        out.extend_from_slice(&GZIP_HEADER);
        let mut from = 0;
        for step in &self.steps {
            match *step {
                Step::Text { end } => {
                    write_stored_blocks(&self.text[from..end], out);
                    from = end;
                }
                Step::Piece(index) => out.extend_from_slice(pieces.deflate(index)),
            }
        }
        self.write_end(pieces, true, out);
    }
}

fn write_stored_blocks(text: &[u8], out: &mut Vec<u8>) {
    for block in text.chunks(STORED_BYTES_MAX) {
        let length = block.len() as u16;
        out.push(0);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
}
