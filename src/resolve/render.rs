//! Chosen pieces to a body: identity by copying, gzip by joining finished blocks.
//!
//! A plan notes pieces and texts in their order; the length of either coding is then known before a byte is written, and a
//! body is never compressed or hashed by a request.

use crate::checksum;
use crate::site::snapshot::format::{ArchivedPage, ArchivedPart, ArchivedPiece, ArchivedSite};

use super::content::Holes;
use super::variants::Choice;

/// What one body is made of.
#[derive(Debug, Default)]
pub struct Plan {
    /// The texts made for this body. What is written here stands behind the pieces pushed so far.
    pub text: Vec<u8>,
    steps: Vec<Step>,
    /// Bytes of `text` that are in steps.
    stepped: usize,
    piece_bytes: usize,
    deflate_bytes: usize,
    /// Stored blocks that the texts in steps take.
    blocks: usize,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// The texts up to here.
    Text { end: usize },
    /// A piece of the site.
    Piece(u32),
}

/// RFC 1952 section 2.3: deflate, no name, no time, unknown operating system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// An empty last block with fixed codes (RFC 1951 section 3.2.6).
const LAST_BLOCK: [u8; 2] = [3, 0];
/// CRC-32 and length.
const TRAILER_BYTES: usize = 8;
/// What a stored block takes beside its text (RFC 1951 section 3.2.4).
const STORED_HEADER_BYTES: usize = 5;
/// The largest stored block. Prefixes stay far below; longer ones take several.
const STORED_BYTES_MAX: usize = u16::MAX as usize;

impl Plan {
    /// Forgets the body before.
    pub fn clear(&mut self) {
        self.text.clear();
        self.steps.clear();
        (self.stepped, self.piece_bytes, self.deflate_bytes, self.blocks) = (0, 0, 0, 0);
    }

    /// Notes the pieces of `page` under `choice`, and what is found for its holes.
    pub fn add(&mut self, site: &ArchivedSite, page: &ArchivedPage, choice: &Choice, holes: &mut Holes<'_>) {
        self.add_parts(site, page, choice, &page.parts, holes);
    }

    /// Zones nest at most `NODE_NESTING_MAX` deep and never in a circle: checked when the snapshot was opened.
    fn add_parts(
        &mut self,
        site: &ArchivedSite,
        page: &ArchivedPage,
        choice: &Choice,
        parts: &[ArchivedPart],
        holes: &mut Holes<'_>,
    ) {
        for part in parts {
            match part {
                ArchivedPart::Piece(index) => self.push(&site.pieces, index.to_native()),
                ArchivedPart::Zone(zone) => {
                    let chosen = usize::from(choice.get(*zone).unwrap_or(0));
                    let variant = &page.zones[usize::from(*zone)].variants[chosen];
                    self.add_parts(site, page, choice, &variant.parts, holes);
                }
                ArchivedPart::Query(index) => {
                    holes.fill(site, page, &page.embedded[usize::from(index.to_native())], self);
                }
            }
        }
    }

    /// Notes one piece of the site's.
    pub fn push(&mut self, pieces: &[ArchivedPiece], index: u32) {
        self.step_text();
        let piece = &pieces[index as usize];
        self.steps.push(Step::Piece(index));
        self.piece_bytes += piece.text.len();
        self.deflate_bytes += piece.deflate.len();
    }

    fn step_text(&mut self) {
        let end = self.text.len();
        if end > self.stepped {
            self.blocks += (end - self.stepped).div_ceil(STORED_BYTES_MAX);
            self.steps.push(Step::Text { end });
            self.stepped = end;
        }
    }

    /// Ends the body: from here on it is only read.
    pub fn end(&mut self) {
        self.step_text();
    }

    /// Bytes of the body as text.
    pub fn identity_bytes(&self) -> usize {
        self.stepped + self.piece_bytes
    }

    /// Bytes of the body in gzip.
    pub fn gzip_bytes(&self) -> usize {
        GZIP_HEADER.len()
            + self.blocks * STORED_HEADER_BYTES
            + self.stepped
            + self.deflate_bytes
            + LAST_BLOCK.len()
            + TRAILER_BYTES
    }

    /// Appends the body as text.
    pub fn identity(&self, pieces: &[ArchivedPiece], out: &mut Vec<u8>) {
        out.reserve(self.identity_bytes());
        let mut from = 0;
        for step in &self.steps {
            match *step {
                Step::Text { end } => {
                    out.extend_from_slice(&self.text[from..end]);
                    from = end;
                }
                Step::Piece(index) => out.extend_from_slice(&pieces[index as usize].text),
            }
        }
    }

    /// Appends the body in gzip.
    pub fn gzip(&self, pieces: &[ArchivedPiece], out: &mut Vec<u8>) {
        out.reserve(self.gzip_bytes());
        out.extend_from_slice(&GZIP_HEADER);
        let (mut from, mut crc) = (0, 0);
        for step in &self.steps {
            match *step {
                Step::Text { end } => {
                    store(&self.text[from..end], out);
                    crc = checksum::crc_on(crc, &self.text[from..end]);
                    from = end;
                }
                Step::Piece(index) => {
                    let piece = &pieces[index as usize];
                    out.extend_from_slice(&piece.deflate);
                    crc = checksum::crc_join(crc, piece.crc.to_native(), piece.shift.to_native());
                }
            }
        }
        out.extend_from_slice(&LAST_BLOCK);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&(self.identity_bytes() as u32).to_le_bytes());
    }
}

fn store(text: &[u8], out: &mut Vec<u8>) {
    for block in text.chunks(STORED_BYTES_MAX) {
        let length = block.len() as u16;
        out.push(0);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
}
