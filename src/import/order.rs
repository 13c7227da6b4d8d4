//! The order of the records of an import, and the keys by which duplicates are found.
//!
//! Records are in the order of their received times, then of the inputs, then of their places in the input. The data
//! directories come before the files, because an export has less than its log.
//!
//! A server appends records in an order that may differ by a moment from that of their received times, and a profile depends on
//! the order. So the records of one log keep its order: a record whose seq is after that of the record before it in the same
//! input, and whose received time is earlier by at most [`CLOCK_CORRECTION_MS_MAX`], counts as received at the same time.

use serde::{Deserialize, Serialize};

use crate::checksum::hash128;
use crate::little_endian::u64_at;
use crate::record::{Record, RecordKind};

/// Difference of the received times of two records of a log, in milliseconds, up to which the order of the log counts: one hour.
/// A greater one is no correction of the clock, and the received times decide.
const CLOCK_CORRECTION_MS_MAX: i64 = 60 * 60 * 1_000;

/// Bytes of an encoded place.
pub(super) const PLACE_BYTES: usize = 20;
/// Bytes of an encoded key.
pub(super) const KEY_BYTES: usize = 16;

/// The place of a record in the order of all records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The received time in milliseconds, or a later one: see the module.
    pub(super) order_ms: i64,
    /// The number of the input.
    pub(super) input: u32,
    /// The number of the line, or the seq.
    pub(super) position: u64,
}

impl Place {
    /// Encodes the place. The order of the bytes is that of the places.
    pub(super) fn to_bytes(self) -> [u8; PLACE_BYTES] {
        let mut bytes = [0; PLACE_BYTES];
        // With the sign bit inverted, negative times come first.
        bytes[..8].copy_from_slice(&(self.order_ms.cast_unsigned() ^ 1 << 63).to_be_bytes());
        bytes[8..12].copy_from_slice(&self.input.to_be_bytes());
        bytes[12..].copy_from_slice(&self.position.to_be_bytes());
        bytes
    }

    /// Returns the number of the input of an encoded place.
    pub(super) fn input_of(bytes: &[u8]) -> usize {
        bytes[8..12].iter().fold(0, |input, byte| input << 8 | usize::from(*byte))
    }
}

/// The place of the last record of an input in the order of its log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LogOrder {
    seq: Option<u64>,
    order_ms: i64,
}

impl LogOrder {
    /// Returns the time by which the next record of the input is ordered. `seq` is that in its log, if it is known.
    pub(super) fn add(&mut self, seq: Option<u64>, received_ms: i64) -> i64 {
        let follows = seq.zip(self.seq).is_some_and(|(seq, before)| seq > before);
        let earlier_ms = self.order_ms.saturating_sub(received_ms);
        let order_ms = match follows && (0..=CLOCK_CORRECTION_MS_MAX).contains(&earlier_ms) {
            true => self.order_ms,
            false => received_ms,
        };
        *self = Self { seq, order_ms };
        order_ms
    }
}

/// Returns the keys by which duplicates of a record are found. Records that have a key in common are duplicates.
///
/// A record with a dedup key has this key. Another one has a key of its content. The end of a tie has both: an erasure has removed
/// its message ID, so its export cannot give the dedup key.
pub(super) fn import_keys(record: &Record<'_>) -> impl Iterator<Item = [u8; KEY_BYTES]> {
    let own = (record.key != 0).then_some(record.key);
    let is_end_of_tie = record.message_id.is_none() && record.kind != RecordKind::Void;
    let of_content = (own.is_none() || is_end_of_tie).then(|| content_key(record));
    own.into_iter().chain(of_content).map(u128::to_be_bytes)
}

/// Returns the hash of the parts of a record that an erasure does not change, if it leaves the record.
fn content_key(record: &Record<'_>) -> u128 {
    let texts = match record.message_id {
        _ if record.kind == RecordKind::Tombstone => [Some(record.payload), None],
        None => [record.anon_id, record.user_id],
        // An erasure may remove the IDs. The generated message ID is unique.
        message_id => [message_id, None],
    };
    // No text has the byte FF, so the hashed bytes are unambiguous, and differ from those of a dedup key.
    let mut parts = vec![0xFF, record.kind as u8];
    parts.extend(record.received_ms.to_le_bytes());
    for text in [record.site].into_iter().chain(texts) {
        parts.push(0xFF);
        parts.extend(text.unwrap_or_default().bytes());
    }
    hash128(&parts)
}

/// Returns the received time of an encoded record, in milliseconds.
pub(super) fn received_ms(encoded_record: &[u8]) -> i64 {
    u64_at(encoded_record, 8).cast_signed()
}
