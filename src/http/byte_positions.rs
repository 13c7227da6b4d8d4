//! The positions of some bytes in a text. Compares 16 bytes of the text at a time with each wanted byte.

use wide::u8x16;

/// Number of bytes that are compared at a time.
const BLOCK_BYTES: usize = 16;

/// Iterates over the positions of the wanted bytes in a text, in order.
pub(crate) struct BytePositions<'t, const WANTED: usize> {
    text: &'t [u8],
    wanted: [u8x16; WANTED],
    /// Position of the current block.
    block: usize,
    /// Bit `i` is set if byte `i` of the current block is wanted and was not returned yet.
    found: u32,
}

impl<'t, const WANTED: usize> BytePositions<'t, WANTED> {
    #[inline]
    pub(crate) fn new(text: &'t [u8], wanted: [u8; WANTED]) -> Self {
        let mut positions = Self { text, wanted: wanted.map(u8x16::splat), block: 0, found: 0 };
        positions.found = positions.compare_block();
        positions
    }

    /// Compares the bytes of the current block. The last block can be shorter than the others.
    #[inline]
    fn compare_block(&self) -> u32 {
        let rest = &self.text[self.block..];
        if let Some(block) = rest.first_chunk() {
            return self.compare(*block);
        }
        // The last 16 bytes of a long text are compared again, so that no byte is copied.
        if let Some(last) = self.text.last_chunk() {
            return self.compare(*last) >> (BLOCK_BYTES - rest.len());
        }
        let mut padded = [0; BLOCK_BYTES];
        padded[..rest.len()].copy_from_slice(rest);
        self.compare(padded) & ((1 << rest.len()) - 1)
    }

    #[inline]
    fn compare(&self, block: [u8; BLOCK_BYTES]) -> u32 {
        let block = u8x16::new(block);
        self.wanted.iter().fold(u8x16::ZERO, |found, wanted| found | block.simd_eq(*wanted)).to_bitmask()
    }
}

impl<const WANTED: usize> Iterator for BytePositions<'_, WANTED> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.found == 0 {
            self.block += BLOCK_BYTES;
            if self.block >= self.text.len() {
                self.block = self.text.len();
                return None;
            }
            self.found = self.compare_block();
        }
        let position = self.block + self.found.trailing_zeros() as usize;
        self.found &= self.found - 1;
        Some(position)
    }
}
