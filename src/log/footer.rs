//! A sealed segment's footer and trailer. [`super::format`] specifies them.

use super::bloom::BloomFilter;
use super::format::{Batch, FOOTER_MAGIC, Records, TRAILER_MAGIC};
use crate::checksum::crc32c;
use crate::limits::{FOOTER_BYTES_MAX, SEQ_MAX};
use crate::little_endian::{u32_at, u64_at};
use crate::record::{key_and_time, key_from_bytes, key_to_bytes};

/// Distance between two entries of a segment's index. It is the most that a reader skips before the seq that
/// it wants.
const INDEX_INTERVAL_BYTES: u64 = 64 * 1024;

/// Length of the fields before the index.
pub(super) const FIXED_BYTES: usize = 56;
/// Length of the trailer, which ends the file.
pub(super) const TRAILER_BYTES: usize = 24;
const INDEX_ENTRY_BYTES: usize = 16;
const KEY_BYTES: usize = 24;

/// A builder that collects the footer while the segment is written.
#[derive(Debug)]
pub(super) struct FooterBuilder {
    first_seq: u64,
    next_seq: u64,
    /// The oldest and the newest received time of the records, in milliseconds.
    received_ms: Option<(i64, i64)>,
    index: Vec<(u64, u64)>,
    keys: Vec<(u128, i64)>,
    filter: BloomFilter,
}

impl FooterBuilder {
    /// Creates the builder of a segment without batches.
    pub(super) fn new(first_seq: u64) -> Self {
        Self {
            first_seq,
            next_seq: first_seq,
            received_ms: None,
            index: Vec::new(),
            keys: Vec::new(),
            filter: BloomFilter::default(),
        }
    }

    /// Adds the batch at `offset`.
    pub(super) fn add_batch(&mut self, offset: u64, batch: &Batch<'_>) {
        let Records { first_seq, count, .. } = batch.records;
        if count == 0 {
            return;
        }
        if self.index.last().is_none_or(|&(_, last)| offset - last >= INDEX_INTERVAL_BYTES) {
            self.index.push((first_seq, offset));
        }
        for record in batch.records.iter_encoded() {
            let (key, received_ms) = key_and_time(record);
            let (oldest, newest) = self.received_ms.unwrap_or((received_ms, received_ms));
            self.received_ms = Some((oldest.min(received_ms), newest.max(received_ms)));
            self.keys.push((key, received_ms));
            self.filter.add(record);
        }
        self.next_seq = self.next_seq.max(batch.records.seqs().end);
    }

    /// Extends the footer to `next_seq`: all lower seqs were in the segment, even if damage has destroyed
    /// some of them.
    pub(super) fn extend_to(&mut self, next_seq: u64) {
        self.next_seq = self.next_seq.max(next_seq);
    }

    /// Returns the number of records.
    pub(super) fn records(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Encodes footer and trailer of a segment whose batches end at `offset`.
    pub(super) fn finish(self, offset: u64) -> Vec<u8> {
        let (oldest_ms, newest_ms) = self.received_ms.unwrap_or((0, 0));
        let filter = self.filter.into_bytes();
        let mut bytes = Vec::with_capacity(FIXED_BYTES + self.keys.len() * KEY_BYTES + filter.len());
        bytes.extend_from_slice(&FOOTER_MAGIC);
        for number in [self.first_seq, self.next_seq - 1, oldest_ms as u64, newest_ms as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for length in [self.index.len(), self.keys.len(), filter.len(), 0] {
            bytes.extend_from_slice(&(length as u32).to_le_bytes());
        }
        for number in self.index.iter().flat_map(|&(seq, offset)| [seq, offset]) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for &(key, received_ms) in &self.keys {
            let later_ms = u32::try_from(received_ms.saturating_sub(oldest_ms)).unwrap_or(u32::MAX);
            bytes.extend_from_slice(&key_to_bytes(key, later_ms));
        }
        bytes.extend_from_slice(&filter);
        append_trailer(&mut bytes, offset);
        bytes
    }
}

fn append_trailer(bytes: &mut Vec<u8>, footer_offset: u64) {
    let footer_end = bytes.len();
    bytes.extend_from_slice(&footer_offset.to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&TRAILER_MAGIC);
    let crc = crc32c(&[&bytes[..footer_end + 12], &TRAILER_MAGIC]);
    bytes[footer_end + 12..footer_end + 16].copy_from_slice(&crc.to_le_bytes());
}

/// The footer of a sealed segment. Its checks have passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    /// The offset of the footer, where the batches end.
    pub offset: u64,
    /// The first seq of the segment, as in the header.
    pub first_seq: u64,
    /// The last seq of the segment, which is durable.
    pub last_seq: u64,
    /// The newest received time, in milliseconds.
    pub newest_ms: i64,
    /// First seq and offset of the indexed batches.
    pub index: Vec<(u64, u64)>,
    /// Key and received time of each record, in order.
    pub keys: Vec<(u128, i64)>,
    /// The Bloom filter, for [`super::bloom::may_contain`].
    pub filter: Vec<u8>,
}

/// Returns the offset of the footer of a file of `length` bytes that ends with `trailer`, if the trailer may
/// be valid.
pub(super) fn footer_offset(trailer: &[u8], length: u64) -> Option<u64> {
    if trailer.len() != TRAILER_BYTES || trailer[16..] != TRAILER_MAGIC {
        return None;
    }
    let offset = u64_at(trailer, 0);
    let bytes = length.checked_sub(offset)?;
    (offset.is_multiple_of(8) && bytes <= FOOTER_BYTES_MAX).then_some(offset)
}

/// Returns the length of the footer that begins with `fields`, without the trailer. Returns `None` if it does
/// not begin with the magic.
pub(super) fn footer_length(fields: &[u8]) -> Option<u64> {
    if fields.len() < FIXED_BYTES || fields[..8] != FOOTER_MAGIC {
        return None;
    }
    let [index, keys, filter] = [40, 44, 48].map(|offset| u64::from(u32_at(fields, offset)));
    Some(FIXED_BYTES as u64 + index * INDEX_ENTRY_BYTES as u64 + keys * KEY_BYTES as u64 + filter)
}

impl Footer {
    /// Decodes footer and trailer from `bytes`, which begin at `offset` of the file. Returns `None` if
    /// they are damaged.
    pub fn from_bytes(bytes: &[u8], offset: u64) -> Option<Self> {
        let footer_end = bytes.len().checked_sub(TRAILER_BYTES).filter(|&end| end >= FIXED_BYTES)?;
        let (footer, trailer) = bytes.split_at(footer_end);
        let crc = crc32c(&[footer, &trailer[..12], &trailer[16..]]);
        if footer[..8] != FOOTER_MAGIC || crc != u32_at(trailer, 12) {
            return None;
        }
        let lengths = [40, 44, 48].map(|offset| u32_at(footer, offset) as usize);
        let sizes = [lengths[0] * INDEX_ENTRY_BYTES, lengths[1] * KEY_BYTES, lengths[2]];
        if FIXED_BYTES + sizes.iter().sum::<usize>() != footer.len() || !sizes[2].is_power_of_two() {
            return None;
        }
        let first_seq = u64_at(footer, 8);
        let last_seq = u64_at(footer, 16);
        if !(1..=SEQ_MAX).contains(&first_seq) || !(first_seq - 1..SEQ_MAX).contains(&last_seq) {
            return None;
        }
        let (index, rest) = footer[FIXED_BYTES..].split_at(sizes[0]);
        let (keys, filter) = rest.split_at(sizes[1]);
        let oldest_ms = u64_at(footer, 24) as i64;
        let entry = |entry: &[u8]| (u64_at(entry, 0), u64_at(entry, 8));
        let key = |bytes: &[u8]| {
            key_from_bytes(bytes).map(|(key, ms)| (key, oldest_ms.saturating_add(i64::from(ms))))
        };
        Some(Self {
            offset,
            first_seq,
            last_seq,
            newest_ms: u64_at(footer, 32) as i64,
            index: index.chunks_exact(INDEX_ENTRY_BYTES).map(entry).collect(),
            keys: keys.chunks_exact(KEY_BYTES).map(key).collect::<Option<_>>()?,
            filter: filter.to_vec(),
        })
    }
}
