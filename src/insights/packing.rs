//! Packed columns: blocks of 1,024 numbers, each with frame of reference and bit packing. [`super::format`]
//! specifies the bytes.

use std::ops::RangeInclusive;

/// Numbers of a full block. A block that is full is packed at once, so a column in the making needs little memory.
pub(crate) const BLOCK_ROWS: usize = 1024;
/// Bytes of a block before its packed numbers.
const BLOCK_HEADER_BYTES: usize = 9;
/// Most bits of a packed number, so that eight bytes hold it together with the seven bits before it.
const WIDTH_MAX: u32 = 56;

/// A writer of one packed column.
#[derive(Debug, Default, Clone)]
pub(super) struct PackedWriter {
    packed: Vec<u8>,
    pending: Vec<i64>,
}

impl PackedWriter {
    /// Appends a number.
    pub(super) fn push(&mut self, number: i64) {
        self.pending.push(number);
        if self.pending.len() == BLOCK_ROWS {
            pack_block(&self.pending, &mut self.packed);
            self.pending.clear();
        }
    }

    /// Appends the packed column to `out`.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.packed);
        if !self.pending.is_empty() {
            pack_block(&self.pending, out);
        }
    }
}

/// Appends one block. `numbers` is not empty.
fn pack_block(numbers: &[i64], out: &mut Vec<u8>) {
    let base = numbers.iter().copied().min().unwrap_or_default();
    let range = numbers.iter().map(|number| number.wrapping_sub(base) as u64).max().unwrap_or_default();
    let width = u64::BITS - range.leading_zeros();
    debug_assert!(width <= WIDTH_MAX, "times are within ±2^47, and codes are smaller");
    out.extend_from_slice(&base.to_le_bytes());
    out.push(width as u8);
    let (mut word, mut bits) = (0_u64, 0);
    for number in numbers {
        word |= (number.wrapping_sub(base) as u64) << bits;
        bits += width;
        while bits >= 8 {
            out.push(word as u8);
            word >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(word as u8);
    }
}

/// A packed column that is read block by block.
pub(crate) struct PackedColumn {
    bytes: Vec<u8>,
    at: usize,
    rows_left: usize,
    bounds: RangeInclusive<i64>,
}

impl PackedColumn {
    /// Creates the reader of a column of `rows` numbers within `bounds`.
    pub(super) fn new(bytes: Vec<u8>, rows: usize, bounds: RangeInclusive<i64>) -> Self {
        Self { bytes, at: 0, rows_left: rows, bounds }
    }

    /// Unpacks the next block into `numbers`, which is cleared first. It is empty after the last block. Returns
    /// `None` if the bytes are not such a column.
    pub(crate) fn next_block(&mut self, numbers: &mut Vec<i64>) -> Option<()> {
        numbers.clear();
        let count = self.rows_left.min(BLOCK_ROWS);
        if count == 0 {
            return (self.at == self.bytes.len()).then_some(());
        }
        let (header, rest) = self.bytes[self.at..].split_at_checked(BLOCK_HEADER_BYTES)?;
        let base = i64::from_le_bytes(header[..8].try_into().ok()?);
        let width = u32::from(header[8]);
        if width > WIDTH_MAX {
            return None;
        }
        let packed_bytes = (count * width as usize).div_ceil(8);
        unpack_block(rest.get(..packed_bytes)?, count, (base, width), numbers);
        self.at += BLOCK_HEADER_BYTES + packed_bytes;
        self.rows_left -= count;
        numbers.iter().all(|number| self.bounds.contains(number)).then_some(())
    }
}

fn unpack_block(packed: &[u8], count: usize, (base, width): (i64, u32), numbers: &mut Vec<i64>) {
    if width == 0 {
        return numbers.extend(std::iter::repeat_n(base, count));
    }
    let mask = (1_u64 << width) - 1;
    // All words up to here have eight bytes.
    let whole = ((packed.len().saturating_sub(8) * 8) / width as usize).min(count);
    let number_at = |index: usize, bytes: &[u8]| {
        let shift = (index * width as usize) % 8;
        let word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        base.wrapping_add((word >> shift & mask) as i64)
    };
    let offset = |index: usize| index * width as usize / 8;
    numbers.extend((0..whole).map(|index| number_at(index, &packed[offset(index)..][..8])));
    let last = &packed[offset(whole).min(packed.len())..];
    let mut padded = [0; 24];
    padded[..last.len().min(24)].copy_from_slice(&last[..last.len().min(24)]);
    let start = offset(whole);
    numbers.extend((whole..count).map(|index| number_at(index, &padded[offset(index) - start..][..8])));
}
