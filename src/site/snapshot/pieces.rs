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
    pub(super) fn new(table: &'s [ArchivedPiece], data: &'s [u8]) -> Self {
        Self { table, data }
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
        let piece = self.get(index);
        let start = piece.text_offset.to_native() as usize;
        &self.data[start..][..piece.text_bytes.to_native() as usize]
    }

    /// Returns the compressed text of a piece.
    pub(crate) fn deflate(&self, index: u32) -> &'s [u8] {
        let piece = self.get(index);
        let start = piece.deflate_offset.to_native() as usize;
        &self.data[start..][..piece.deflate_bytes.to_native() as usize]
    }
}
