//! Writes and reads packed columns. Each block of 1,024 numbers is encoded with a frame of reference, and then
//! bit-packed. [`super::format`] specifies the bytes.

use std::ops::{Range, RangeInclusive};

use super::format::ColumnFileError;

/// Number of numbers in a full block. The writer packs each block as soon as the block is full. So an unfinished column
/// takes little memory.
pub(crate) const BLOCK_ROWS: usize = 1024;
/// Length of the header of a block, in bytes. The header has the base and the width.
const BLOCK_HEADER_BYTES: usize = 9;
/// Maximum number of bits of a packed number. Eight bytes can contain such a number, even if the number begins in the
/// middle of the first byte.
const WIDTH_MAX: u32 = 56;

/// A writer of one packed column.
#[derive(Debug, Default, Clone)]
pub(crate) struct PackedWriter {
    headers: Vec<u8>,
    packed: Vec<u8>,
    pending: Vec<i64>,
    rows: usize,
}

impl PackedWriter {
    /// Appends a number.
    pub(crate) fn push(&mut self, number: i64) {
        self.pending.push(number);
        self.rows += 1;
        if self.pending.len() == BLOCK_ROWS {
            pack_block(&self.pending, &mut self.headers, &mut self.packed);
            self.pending.clear();
        }
    }

    /// Appends the packed column to `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut headers = Vec::new();
        let mut packed = Vec::new();
        if !self.pending.is_empty() {
            pack_block(&self.pending, &mut headers, &mut packed);
        }
        for part in [&self.headers, &headers, &self.packed, &packed] {
            out.extend_from_slice(part);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns all numbers.
    pub(crate) fn numbers(&self) -> Vec<i64> {
        let mut numbers = Vec::with_capacity(self.rows);
        let mut offset = 0;
        for header in self.headers.as_chunks::<BLOCK_HEADER_BYTES>().0 {
            let header = BlockHeader::parse(header);
            let end = offset + header.packed_bytes(BLOCK_ROWS);
            unpack_block(&self.packed[offset..end], BLOCK_ROWS, header, &mut numbers);
            offset = end;
        }
        numbers.extend_from_slice(&self.pending);
        numbers
    }
}

/// Appends a packed column in which each row has the number 0.
pub(crate) fn write_zeros(rows: usize, out: &mut Vec<u8>) {
    out.resize(out.len() + BlockHeaders::bytes(rows), 0);
}

/// Appends a block to `headers` and `out`. `numbers` is not empty.
fn pack_block(numbers: &[i64], headers: &mut Vec<u8>, out: &mut Vec<u8>) {
    let base = numbers.iter().copied().min().unwrap_or_default();
    let range = numbers.iter().map(|number| number.wrapping_sub(base) as u64).max().unwrap_or_default();
    let width = u64::BITS - range.leading_zeros();
    debug_assert!(width <= WIDTH_MAX, "times are within ±2^47, and codes are smaller");
    headers.extend_from_slice(&base.to_le_bytes());
    headers.push(width as u8);
    if width == 0 {
        return;
    }
    let mut word = 0_u64;
    let mut bits = 0;
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

/// The header of a block.
#[derive(Debug, Clone, Copy)]
struct BlockHeader {
    /// The smallest number of the block.
    base: i64,
    /// The number of bits of each packed number.
    width: u32,
}

impl BlockHeader {
    fn parse(bytes: &[u8; BLOCK_HEADER_BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, width] = *bytes;
        Self { base: i64::from_le_bytes([a, b, c, d, e, f, g, h]), width: u32::from(width) }
    }

    /// Returns the largest number that the block can have.
    fn largest(self) -> i64 {
        self.base.saturating_add((1 << self.width) - 1)
    }

    fn packed_bytes(self, row_count: usize) -> usize {
        (row_count * self.width as usize).div_ceil(8)
    }
}

/// The headers of a packed column, and the offsets of its blocks.
#[derive(Debug)]
pub(crate) struct BlockHeaders {
    headers: Vec<BlockHeader>,
    /// The offset of each block in the column. The last entry is the end of the last block.
    offsets: Vec<usize>,
    rows: usize,
}

impl BlockHeaders {
    /// Returns the length of all headers in bytes, for a column of `row_count` numbers.
    pub(crate) fn bytes(row_count: usize) -> usize {
        row_count.div_ceil(BLOCK_ROWS) * BLOCK_HEADER_BYTES
    }

    /// Parses the headers, which are the first bytes of a column of `row_count` numbers.
    ///
    /// # Errors
    /// The column is too short, or a width is out of range.
    pub(crate) fn parse(column_start: &[u8], row_count: usize) -> Result<Self, ColumnFileError> {
        let bytes = column_start.get(..Self::bytes(row_count)).ok_or(ColumnFileError::OUT_OF_RANGE)?;
        let headers: Vec<_> =
            bytes.as_chunks::<BLOCK_HEADER_BYTES>().0.iter().map(BlockHeader::parse).collect();
        if headers.iter().any(|header| header.width > WIDTH_MAX) {
            return Err(ColumnFileError::OUT_OF_RANGE);
        }
        let mut end = bytes.len();
        let mut offsets = vec![end];
        for (block, header) in headers.iter().enumerate() {
            end += header.packed_bytes(rows_of(row_count, block));
            offsets.push(end);
        }
        Ok(Self { headers, offsets, rows: row_count })
    }

    /// Returns each block that can have one of these numbers. The numbers are sorted.
    pub(crate) fn blocks_with(&self, numbers: &[i64]) -> Vec<usize> {
        let may_have = |block: &usize| {
            let header = self.headers[*block];
            let from = numbers.partition_point(|number| *number < header.base);
            numbers.get(from).is_some_and(|number| *number <= header.largest())
        };
        (0..self.headers.len()).filter(may_have).collect()
    }

    /// Returns the blocks that can have a number from `first_number` to `last_number`.
    pub(crate) fn blocks_within(&self, first_number: i64, last_number: i64) -> Vec<usize> {
        let may_have = |block: &usize| {
            let header = self.headers[*block];
            header.base <= last_number && header.largest() >= first_number
        };
        (0..self.headers.len()).filter(may_have).collect()
    }

    /// Returns all blocks.
    pub(crate) fn all(&self) -> Vec<usize> {
        (0..self.headers.len()).collect()
    }

    /// Returns the byte range from the first to the last of these blocks.
    pub(crate) fn range_of(&self, block_indexes: &[usize]) -> Range<usize> {
        match (block_indexes.first(), block_indexes.last()) {
            (Some(first), Some(last)) => self.offsets[*first]..self.offsets[*last + 1],
            _ => 0..0,
        }
    }

    fn column_bytes(&self) -> usize {
        self.offsets[self.headers.len()]
    }
}

/// Returns the number of rows in a block, for a column of `row_count` rows.
fn rows_of(row_count: usize, block_index: usize) -> usize {
    (row_count - block_index * BLOCK_ROWS).min(BLOCK_ROWS)
}

/// A reader of the blocks of a packed column.
pub(crate) struct PackedColumn {
    headers: BlockHeaders,
    /// A part of the bytes of the column.
    packed: Vec<u8>,
    /// The offset of `packed` in the column.
    packed_offset: usize,
    /// The blocks that the reader has not read yet.
    blocks: std::vec::IntoIter<usize>,
    /// The range of valid numbers.
    bounds: RangeInclusive<i64>,
}

impl PackedColumn {
    /// Creates the reader of a whole column of `row_count` numbers within `bounds`.
    ///
    /// # Errors
    /// The bytes are no column of `row_count` numbers.
    pub(crate) fn new(
        column: Vec<u8>,
        row_count: usize,
        bounds: RangeInclusive<i64>,
    ) -> Result<Self, ColumnFileError> {
        let headers = BlockHeaders::parse(&column, row_count)?;
        if headers.column_bytes() != column.len() {
            return Err(ColumnFileError::OUT_OF_RANGE);
        }
        let blocks = headers.all();
        Ok(Self { headers, packed: column, packed_offset: 0, blocks: blocks.into_iter(), bounds })
    }

    /// Creates the reader of some blocks. `packed_bytes` has their bytes, from the first to the last block.
    pub(crate) fn of_blocks(
        headers: BlockHeaders,
        packed_bytes: Vec<u8>,
        block_indexes: Vec<usize>,
        bounds: RangeInclusive<i64>,
    ) -> Self {
        let packed_offset = headers.range_of(&block_indexes).start;
        Self { headers, packed: packed_bytes, packed_offset, blocks: block_indexes.into_iter(), bounds }
    }

    /// Limits the reader to these blocks.
    pub(crate) fn limit_to(&mut self, block_indexes: Vec<usize>) {
        self.blocks = block_indexes.into_iter();
    }

    pub(crate) fn headers(&self) -> &BlockHeaders {
        &self.headers
    }

    /// Clears `numbers`, and then unpacks the next block into `numbers`. After the last block, `numbers` is empty.
    ///
    /// # Errors
    /// Returns an error if a number is out of range.
    pub(crate) fn next_block(&mut self, numbers: &mut Vec<i64>) -> Result<(), ColumnFileError> {
        numbers.clear();
        let Some(block) = self.blocks.next() else { return Ok(()) };
        let header = self.headers.headers[block];
        let rows = rows_of(self.headers.rows, block);
        let start = self.headers.offsets[block] - self.packed_offset;
        let end = self.headers.offsets[block + 1] - self.packed_offset;
        let packed = self.packed.get(start..end);
        let packed = packed.ok_or(ColumnFileError::OUT_OF_RANGE)?;
        unpack_block(packed, rows, header, numbers);
        let is_within = self.bounds.contains(&header.base) && self.bounds.contains(&header.largest());
        let is_valid = is_within || numbers.iter().all(|number| self.bounds.contains(number));
        if is_valid { Ok(()) } else { Err(ColumnFileError::OUT_OF_RANGE) }
    }

    /// Reads the numbers of all blocks.
    ///
    /// # Errors
    /// Returns an error if a number is out of range.
    pub(super) fn into_numbers(mut self) -> Result<Vec<i64>, ColumnFileError> {
        let mut all = Vec::new();
        let mut numbers = Vec::new();
        loop {
            self.next_block(&mut numbers)?;
            if numbers.is_empty() {
                return Ok(all);
            }
            all.extend_from_slice(&numbers);
        }
    }

    /// Checks the numbers of all blocks.
    ///
    /// # Errors
    /// Returns an error if a number is out of range.
    pub(super) fn check(mut self) -> Result<(), ColumnFileError> {
        let mut numbers = vec![0];
        while !numbers.is_empty() {
            self.next_block(&mut numbers)?;
        }
        Ok(())
    }
}

fn unpack_block(packed_bytes: &[u8], row_count: usize, header: BlockHeader, numbers: &mut Vec<i64>) {
    let base = header.base;
    let width = header.width as usize;
    if width == 0 {
        return numbers.extend(std::iter::repeat_n(base, row_count));
    }
    let mask = (1_u64 << width) - 1;
    let number = |bit: usize, word: u64| base.wrapping_add((word >> (bit % 8) & mask) as i64);
    // For each number before this index, eight bytes can be read.
    let fast_count = ((packed_bytes.len().saturating_sub(8) * 8) / width).min(row_count);
    numbers.extend((0..fast_count).map(|index| {
        let bit = index * width;
        let mut word = [0; 8];
        word.copy_from_slice(&packed_bytes[bit / 8..bit / 8 + 8]);
        number(bit, u64::from_le_bytes(word))
    }));
    let start = fast_count * width / 8;
    let last = &packed_bytes[start.min(packed_bytes.len())..];
    let mut padded = [0; 24];
    padded[..last.len().min(24)].copy_from_slice(&last[..last.len().min(24)]);
    numbers.extend((fast_count..row_count).map(|index| {
        let bit = index * width;
        let mut word = [0; 8];
        word.copy_from_slice(&padded[bit / 8 - start..][..8]);
        number(bit, u64::from_le_bytes(word))
    }));
}
