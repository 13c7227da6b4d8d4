//! A search for bytes in short texts. It compares 16 bytes at a time. The compiler inlines it into each
//! caller: for a few bytes, a call of memchr costs more than the search.

use wide::u8x16;

/// Returns the position of the first byte of `text` at or after `start` that is one of `bytes`. `start` is at most the
/// length of the text.
#[inline]
pub fn position<const WANTED: usize>(text: &[u8], start: usize, bytes: [u8; WANTED]) -> Option<usize> {
    find(text, start, |block| match_mask(block, bytes))
}

/// Returns the position of the first byte of `text` at or after `start` that is one of `bytes` or not ASCII. `start` is at
/// most the length of the text.
#[inline]
pub fn position_or_non_ascii<const WANTED: usize>(
    text: &[u8],
    start: usize,
    bytes: [u8; WANTED],
) -> Option<usize> {
    // The highest bit of each byte of a mask counts, and only a byte that is not ASCII has it.
    find(text, start, |block| match_mask(block, bytes) | u8x16::new(block))
}

/// Returns the position of the first byte of `text` at or after `start` whose highest bit is set in the mask of its block.
#[inline]
fn find(text: &[u8], start: usize, mask_of: impl Fn([u8; 16]) -> u8x16) -> Option<usize> {
    let mut at = start;
    while let Some(block) = text[at..].first_chunk::<16>() {
        let found = mask_of(*block).to_bitmask();
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize);
        }
        at += 16;
    }
    // The last block may begin before `at`. The shift drops those bytes, so no byte is compared alone.
    let begin = text.len().saturating_sub(16);
    let block = text.last_chunk::<16>().copied().unwrap_or_else(|| padded(text));
    let found = mask_of(block).to_bitmask() >> (at - begin);
    // Without a match, `trailing_zeros` is 32, which is more than the at most 15 bytes left. A zero that matches the
    // padding is after the end, too.
    let at = at + found.trailing_zeros() as usize;
    (at < text.len()).then_some(at)
}

/// Returns a text of fewer than 16 bytes, with zeros after it.
#[inline]
fn padded(text: &[u8]) -> [u8; 16] {
    let mut block = [0; 16];
    block[..text.len()].copy_from_slice(text);
    block
}

/// Returns whether `text` has one of `bytes`.
#[inline]
pub fn contains<const WANTED: usize>(text: &[u8], bytes: [u8; WANTED]) -> bool {
    let (blocks, rest) = text.as_chunks::<16>();
    let found = blocks.iter().fold(u8x16::ZERO, |found, block| found | match_mask(*block, bytes));
    match text.last_chunk::<16>() {
        // The last 16 bytes overlap a block, so that no byte of a long text is compared alone.
        Some(last) => (found | match_mask(*last, bytes)).any(),
        None => rest.iter().any(|byte| bytes.contains(byte)),
    }
}

/// Returns a mask of the bytes of `block` that are in `bytes`.
#[inline]
fn match_mask<const WANTED: usize>(block: [u8; 16], bytes: [u8; WANTED]) -> u8x16 {
    let block = u8x16::new(block);
    bytes.into_iter().fold(u8x16::ZERO, |found, byte| found | block.simd_eq(u8x16::splat(byte)))
}
