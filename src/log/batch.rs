//! Batches of records, in memory. [`super::format`] specifies them.

use super::format::{BATCH_HEADER_BYTES, BATCH_MAGIC};
use super::records::Records;
use crate::checksum::crc32c;
use crate::limits::{BATCH_BYTES_MAX, BATCH_RECORDS_MAX, SEQ_MAX};
use crate::little_endian::{u32_at, u64_at};

/// Begins a batch at the end of `out` and returns its start. The caller appends records, then calls
/// [`end_batch`].
pub(crate) fn begin_batch(out: &mut Vec<u8>) -> usize {
    out.resize(out.len() + BATCH_HEADER_BYTES, 0);
    out.len() - BATCH_HEADER_BYTES
}

/// Writes the header of the batch that occupies `out` from `start` to the end.
pub(crate) fn end_batch(out: &mut [u8], start: usize, first_seq: u64, record_count: u32, durable_seq: u64) {
    let batch = &mut out[start..];
    let length = batch.len() as u32;
    batch[0..8].copy_from_slice(&BATCH_MAGIC);
    batch[8..12].copy_from_slice(&length.to_le_bytes());
    batch[16..24].copy_from_slice(&first_seq.to_le_bytes());
    batch[24..28].copy_from_slice(&record_count.to_le_bytes());
    batch[32..40].copy_from_slice(&durable_seq.to_le_bytes());
    let crc = crc32c(&[&batch[..12], &batch[16..]]);
    batch[12..16].copy_from_slice(&crc.to_le_bytes());
}

/// Returns the length field of the batch header at the start of `bytes`, if magic and length are valid.
pub fn batch_length(bytes: &[u8]) -> Option<usize> {
    if bytes.len() < BATCH_HEADER_BYTES || bytes[..8] != BATCH_MAGIC {
        return None;
    }
    let length = u32_at(bytes, 8) as usize;
    let fits = (BATCH_HEADER_BYTES..=BATCH_BYTES_MAX).contains(&length) && length.is_multiple_of(8);
    fits.then_some(length)
}

/// A batch that passed all checks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batch<'a> {
    /// The whole batch, header included.
    pub bytes: &'a [u8],
    /// All seqs up to this one were durable when the batch was written.
    pub durable_seq: u64,
    /// The records of the batch.
    pub records: Records<'a>,
}

impl<'a> Batch<'a> {
    /// Parses `bytes` as one batch. Returns `None` if a check fails.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        if batch_length(bytes) != Some(bytes.len())
            || crc32c(&[&bytes[..12], &bytes[16..]]) != u32_at(bytes, 12)
        {
            return None;
        }
        let batch = Self::from_trusted(bytes);
        let Records { first_seq, count, .. } = batch.records;
        let in_bounds = count as usize <= BATCH_RECORDS_MAX && u32_at(bytes, 28) == 0;
        let in_order =
            batch.durable_seq < first_seq && first_seq <= SEQ_MAX && batch.records.seqs().end <= SEQ_MAX + 1;
        (in_bounds && in_order && batch.records.are_valid()).then_some(batch)
    }

    /// Iterates over the consecutive batches in `bytes`, which this process has written or checked.
    pub(crate) fn iter_trusted(mut bytes: &'a [u8]) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let (batch, rest) = bytes.split_at_checked(batch_length(bytes)?)?;
            bytes = rest;
            Some(Self::from_trusted(batch))
        })
    }

    /// Parses `bytes`, which are known to be a valid batch, without checks.
    pub(super) fn from_trusted(bytes: &'a [u8]) -> Self {
        let records = Records::new(u64_at(bytes, 16), u32_at(bytes, 24), &bytes[BATCH_HEADER_BYTES..]);
        Self { bytes, durable_seq: u64_at(bytes, 32), records }
    }
}
