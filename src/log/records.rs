//! A run of records, as the log passes them to its consumer and its readers return them.

use std::ops::Range;

use crate::record::{Record, encoded_records};

/// A run of encoded records with consecutive seqs.
#[derive(Debug, Clone, Copy)]
pub struct Records<'a> {
    /// The seq of the first record.
    pub first_seq: u64,
    /// The number of records.
    pub count: u32,
    bytes: &'a [u8],
}

impl<'a> Records<'a> {
    /// Returns the `count` records that `bytes` hold. They must be valid.
    pub(super) fn new(first_seq: u64, count: u32, bytes: &'a [u8]) -> Self {
        Self { first_seq, count, bytes }
    }

    /// Returns the encoded records.
    pub(crate) fn encoded(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the range of seqs.
    pub fn seqs(&self) -> Range<u64> {
        self.first_seq..self.first_seq + u64::from(self.count)
    }

    /// Returns the length of all records, in bytes.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Iterates over the decoded records with their seqs.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Record<'a>)> + use<'a> {
        let mut rest = self.bytes;
        self.seqs().map_while(move |seq| {
            let (record, length) = Record::decode(rest)?;
            rest = &rest[length..];
            Some((seq, record))
        })
    }

    /// Iterates over the encoded records without decoding their columns.
    pub(crate) fn iter_encoded(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        encoded_records(self.bytes).take(self.count as usize)
    }

    /// Drops the records below `seq`.
    #[must_use]
    pub fn from_seq(mut self, seq: u64) -> Self {
        while self.count > 0 && self.first_seq < seq {
            let Some((_, length)) = Record::decode(self.bytes) else { break };
            self.bytes = &self.bytes[length..];
            self.first_seq += 1;
            self.count -= 1;
        }
        self
    }

    /// Drops the records at or above `seq`.
    #[must_use]
    pub fn before_seq(mut self, seq: u64) -> Self {
        let room = u32::try_from(seq.saturating_sub(self.first_seq)).unwrap_or(u32::MAX);
        self.count = self.count.min(room);
        self
    }

    /// Returns the seq of the record that contains byte `offset` of these records.
    pub fn seq_at(&self, offset: usize) -> Option<u64> {
        let mut end = 0;
        self.seqs().find(|_| {
            end += self.bytes.get(end..).and_then(Record::decode).map_or(0, |(_, length)| length);
            offset < end
        })
    }

    /// Returns whether each record decodes, and no byte is left.
    pub(super) fn are_valid(&self) -> bool {
        let mut rest = self.bytes;
        for _ in 0..self.count {
            let Some((_, length)) = Record::decode(rest) else { return false };
            rest = &rest[length..];
        }
        rest.is_empty()
    }
}
