//! The texts of a site, which are outside of its archive.

use super::format::ArchivedPiece;

/// The pieces of a verified snapshot with their texts.
#[derive(Clone, Copy)]
pub struct Pieces<'s> {
    table: &'s [ArchivedPiece],
    data: &'s [u8],
}

impl<'s> Pieces<'s> {
    /// Joins the table of the pieces and the piece data of one snapshot.
    pub(super) fn new(table: &'s [ArchivedPiece], piece_data: &'s [u8]) -> Self {
        Self { table, data: piece_data }
    }

    /// Returns the lengths and checksums of a piece.
    pub(crate) fn get(&self, index: u32) -> &'s ArchivedPiece {
        &self.table[index as usize]
    }

    /// Returns the number of pieces.
    pub(crate) fn len(&self) -> u32 {
        self.table.len() as u32
    }

    /// Returns the text of a piece.
    pub(crate) fn text(&self, index: u32) -> &'s [u8] {
        self.bytes(self.range(index, false))
    }

    /// Returns the compressed text of a piece.
    pub(crate) fn deflate(&self, index: u32) -> &'s [u8] {
        self.bytes(self.range(index, true))
    }

    /// Returns the range of the text of a piece, or that of the compressed text.
    pub(crate) fn range(&self, index: u32, is_compressed: bool) -> PieceRange {
        let piece = self.get(index);
        let (offset, bytes) = match is_compressed {
            true => (piece.deflate_offset, piece.deflate_bytes),
            false => (piece.text_offset, piece.text_bytes),
        };
        [offset.to_native(), bytes.to_native().into()]
    }

    /// Returns the bytes of a range of the same snapshot.
    pub(crate) fn bytes(&self, range: PieceRange) -> &'s [u8] {
        let [offset, bytes] = range;
        &self.data[offset as usize..][..bytes as usize]
    }
}

/// A range of the piece data: its offset and its length in bytes. A stored range saves the lookup in the table of the
/// pieces. It is an array of integers, because `vec!` then gets zeroed pages from the system and does not write them.
pub(crate) type PieceRange = [u64; 2];
