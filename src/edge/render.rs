//! Chosen pieces to a body: identity by copying, gzip by joining finished blocks.
//!
//! `plan` walks the page once and notes the pieces; the length of either coding is then known
//! before a byte is written, and a body is never compressed or hashed by a request.

use crate::checksum;
use crate::snapshot::format::{ArchivedPage, ArchivedPart, ArchivedPiece};

use super::variants::Choice;

/// The pieces of one body, by index, behind a prefix made for the request.
#[derive(Debug, Default)]
pub struct Plan {
    /// The body's beginning, up to the first piece.
    pub prefix: Vec<u8>,
    pieces: Vec<u32>,
    text_bytes: usize,
    deflate_bytes: usize,
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
        self.prefix.clear();
        self.pieces.clear();
        self.text_bytes = 0;
        self.deflate_bytes = 0;
    }

    /// Notes the pieces of `page` under `choice`.
    pub fn add(&mut self, page: &ArchivedPage, choice: &Choice) {
        self.add_parts(page, choice, &page.parts);
    }

    /// Zones nest at most `NODE_NESTING_MAX` deep and never in a circle: checked when the snapshot was opened.
    fn add_parts(&mut self, page: &ArchivedPage, choice: &Choice, parts: &[ArchivedPart]) {
        for part in parts {
            match part {
                ArchivedPart::Piece(index) => self.push(page, index.to_native()),
                ArchivedPart::Zone(zone) => {
                    let chosen = usize::from(choice.get(*zone).unwrap_or(0));
                    let variant = &page.zones[usize::from(*zone)].variants[chosen];
                    self.add_parts(page, choice, &variant.parts);
                }
            }
        }
    }

    /// Notes one piece.
    pub fn push(&mut self, page: &ArchivedPage, index: u32) {
        let piece = &page.pieces[index as usize];
        self.pieces.push(index);
        self.text_bytes += piece.text.len();
        self.deflate_bytes += piece.deflate.len();
    }

    /// Bytes of the body as text.
    pub fn identity_bytes(&self) -> usize {
        self.prefix.len() + self.text_bytes
    }

    /// Bytes of the body in gzip.
    pub fn gzip_bytes(&self) -> usize {
        let stored_blocks = self.prefix.len().div_ceil(STORED_BYTES_MAX);
        GZIP_HEADER.len()
            + stored_blocks * STORED_HEADER_BYTES
            + self.prefix.len()
            + self.deflate_bytes
            + LAST_BLOCK.len()
            + TRAILER_BYTES
    }

    /// Appends the body as text.
    pub fn identity(&self, page: &ArchivedPage, out: &mut Vec<u8>) {
        out.reserve(self.identity_bytes());
        out.extend_from_slice(&self.prefix);
        for piece in self.chosen(page) {
            out.extend_from_slice(&piece.text);
        }
    }

    /// Appends the body in gzip.
    pub fn gzip(&self, page: &ArchivedPage, out: &mut Vec<u8>) {
        out.reserve(self.gzip_bytes());
        out.extend_from_slice(&GZIP_HEADER);
        for block in self.prefix.chunks(STORED_BYTES_MAX) {
            let length = block.len() as u16;
            out.push(0);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&(!length).to_le_bytes());
            out.extend_from_slice(block);
        }
        let mut crc = checksum::crc(&self.prefix);
        for piece in self.chosen(page) {
            out.extend_from_slice(&piece.deflate);
            crc = checksum::crc_join(crc, piece.crc.to_native(), piece.shift.to_native());
        }
        out.extend_from_slice(&LAST_BLOCK);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&(self.identity_bytes() as u32).to_le_bytes());
    }

    fn chosen<'p>(&self, page: &'p ArchivedPage) -> impl Iterator<Item = &'p ArchivedPiece> {
        self.pieces.iter().map(|index| &page.pieces[*index as usize])
    }
}
