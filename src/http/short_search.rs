//! A search for bytes in short texts. It compares 16 bytes at a time. The compiler inlines it into each
//! caller: for a few bytes, a call of memchr costs more than the search.

use wide::u8x16;

/// Returns the position of the first byte of `text` that is one of `wanted`.
#[inline]
pub fn position<const WANTED: usize>(text: &[u8], wanted: [u8; WANTED]) -> Option<usize> {
    let (blocks, rest) = text.as_chunks::<16>();
    for (block_index, block) in blocks.iter().enumerate() {
        let found = match_mask(*block, wanted).to_bitmask();
        if found != 0 {
            return Some(block_index * 16 + found.trailing_zeros() as usize);
        }
    }
    let in_rest = rest.iter().position(|byte| wanted.contains(byte))?;
    Some(text.len() - rest.len() + in_rest)
}

/// Returns whether `text` has one of the bytes `wanted`.
#[inline]
pub fn contains<const WANTED: usize>(text: &[u8], wanted: [u8; WANTED]) -> bool {
    let (blocks, rest) = text.as_chunks::<16>();
    let found = blocks.iter().fold(u8x16::ZERO, |found, block| found | match_mask(*block, wanted));
    match text.last_chunk::<16>() {
        // The last 16 bytes overlap a block, so that no byte of a long text is compared alone.
        Some(last) => (found | match_mask(*last, wanted)).any(),
        None => rest.iter().any(|byte| wanted.contains(byte)),
    }
}

/// Returns a mask of the bytes of `block` that are in `wanted`.
#[inline]
fn match_mask<const WANTED: usize>(block: [u8; 16], wanted: [u8; WANTED]) -> u8x16 {
    let block = u8x16::new(block);
    wanted.into_iter().fold(u8x16::ZERO, |found, byte| found | block.simd_eq(u8x16::splat(byte)))
}
