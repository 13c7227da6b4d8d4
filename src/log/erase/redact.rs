//! Changes of one encoded record by an erasure: it becomes void or the end of a tie, or it loses the IDs of another visitor.
//!
//! [`super::super::format`] specifies both. A record keeps its length, so that the records after it stay in
//! their places.

use crate::record::fold_input::{RemovedParts, without_parts};
use crate::record::{
    FOLD_LENGTH_OFFSET, KEY_OFFSET, LENGTHS_OFFSET, RECORD_BYTES_MIN, Record, RecordKind, key_and_time,
    key_to_bytes,
};

/// The payload of a redacted record.
const EMPTY_PAYLOAD: &str = "{}";

/// Erases the content of an encoded record. Length and received time remain, and the key if `keeps_key`.
pub(super) fn make_void(bytes: &mut [u8], keeps_key: bool) {
    let payload_bytes = bytes.len() - RECORD_BYTES_MIN;
    let (key, _) = key_and_time(bytes);
    let key = if keeps_key { key } else { 0 };
    bytes[4] = RecordKind::Void as u8;
    bytes[5] = 0;
    bytes[16..24].fill(0);
    bytes[KEY_OFFSET..LENGTHS_OFFSET].copy_from_slice(&key_to_bytes(key, payload_bytes as u32));
    bytes[LENGTHS_OFFSET..FOLD_LENGTH_OFFSET].fill(0xFF);
    bytes[FOLD_LENGTH_OFFSET..].fill(0);
}

/// The IDs to remove from a record that belongs to another visitor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RedactedIds {
    /// The anonymous ID.
    pub anon_id: bool,
    /// The user ID.
    pub user_id: bool,
    /// The `previousId` of an alias.
    pub previous_id: bool,
}

impl RedactedIds {
    /// Returns the IDs that are in one of both.
    pub(crate) fn union(self, other: Self) -> Self {
        Self {
            anon_id: self.anon_id || other.anon_id,
            user_id: self.user_id || other.user_id,
            previous_id: self.previous_id || other.previous_id,
        }
    }
}

/// Removes IDs from an encoded record, and its payload, which repeats them. The length of the record and all
/// its other fields remain.
pub(super) fn redact(bytes: &mut [u8], ids: RedactedIds) {
    let Some((record, length)) = Record::decode(bytes) else { return };
    let mut redacted = Vec::with_capacity(length);
    let remaining = Record {
        anon_id: record.anon_id.filter(|_| !ids.anon_id),
        user_id: record.user_id.filter(|_| !ids.user_id),
        payload: &EMPTY_PAYLOAD[..record.payload.len().min(EMPTY_PAYLOAD.len())],
        is_redacted: true,
        ..record
    };
    // The enrolments are those of the anonymous ID. Without it they would be those of the user ID.
    let removed = RemovedParts { previous_id: ids.previous_id, enrolments: ids.anon_id };
    let encoded = without_parts(record.fold_input, removed, |fold_input| {
        Record { fold_input, ..remaining }.encode(&mut redacted)
    });
    // All parts are those of a valid record, or shorter.
    debug_assert!(encoded.is_ok());
    replace(bytes, redacted, length);
}

/// Erases the content of an encoded identify event, except that it ends the tie of its anonymous ID. The received time
/// remains, and the key if `keeps_key`.
pub(super) fn keep_end_of_tie(bytes: &mut [u8], keeps_key: bool) {
    let Some((record, length)) = Record::decode(bytes) else { return };
    let end = Record {
        key: if keeps_key { record.key } else { 0 },
        received_ms: record.received_ms,
        timestamp_ms: record.received_ms,
        site: record.site,
        anon_id: record.anon_id,
        payload: &EMPTY_PAYLOAD[..record.payload.len().min(EMPTY_PAYLOAD.len())],
        is_redacted: true,
        ..Record::new(RecordKind::Identify)
    };
    let mut encoded = Vec::with_capacity(length);
    let is_encoded = end.encode(&mut encoded).is_ok();
    // All parts are those of a valid record.
    debug_assert!(is_encoded);
    replace(bytes, encoded, length);
}

/// Replaces a record by an encoded one that is not longer.
fn replace(bytes: &mut [u8], mut encoded_record: Vec<u8>, record_bytes: usize) {
    encoded_record.resize(record_bytes, 0);
    encoded_record[..4].copy_from_slice(&(record_bytes as u32).to_le_bytes());
    bytes[..record_bytes].copy_from_slice(&encoded_record);
}
