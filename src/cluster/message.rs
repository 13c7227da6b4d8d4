//! The messages of the stream: their format, encoder and decoder.
//!
//! # Purpose
//!
//! A message is a run of consecutive records of one log, a heartbeat, the declaration of an era, the removal of a
//! member, or a request for the status of all nodes. A node sends runs and heartbeats. The operator's commands send the
//! others. Every node reads all messages in the order of the stream. The stream drops a message after `max_age`.
//!
//! # Senders
//!
//! The subject of a message names its sender: `plx.CLUSTER.log.NODE` or `plx.CLUSTER.control`. The NATS servers let each
//! user publish at its own subject only. So a kind that its sender may not send has no effect: [`Kind::is_allowed`].
//!
//! # Layout
//!
//! All numbers are little-endian.
//!
//! ```text
//! OFFSET  SIZE  FIELD         MEANING
//! 0       8     magic         FF 50 4C 58 4D 45 53 53 ("\xFFPLXMESS")
//! 8       2     format        message format, 3. Each value implies one layout of records, that of log/format.rs
//! 10      2     kind          1 run, 2 heartbeat, 3 forget, 4 era, 5 status request
//! 12      4     count         of records; 0 in a message that is no run
//! 16      16    era
//! 32      16    producer ID   0 in messages of kinds 3, 4 and 5
//! 48      8     base seq      the first seq that is sent under the producer ID
//! 56      8     first         the seq of the first record
//! 64      8     sent_ms       clock of the sender, milliseconds since 1970
//! 72      8     hash          XXH3-64 of the payload before compression
//! 80      4     raw bytes     of the payload before compression
//! 84      4     crc           CRC-32C of bytes 0..84 and of bytes 88 to the end
//! 88      n     payload       one zstd frame
//! ```
//!
//! The payload of a run is its records, one after the other, as a segment has them. The key of a record is
//! zero if it follows from site and message ID, because a hash does not compress. The reader computes it:
//! [`RunRecord::key`]. The payload of an era is the JSON of [`super::era::Era`], those of heartbeats and
//! removed members are [`super::payloads::Heartbeat`] and [`super::payloads::Forget`]. That of a status request is `{}`.
//!
//! # Checks on reading, in this order
//!
//! Magic, length, checksum, format, kind, count and raw bytes, zstd frame, hash, records. A message that
//! fails one has no effect, on every node alike. So a sender with an unknown format stops nobody but itself.
//!
//! # Changes of a version
//!
//! Another layout of messages or of records takes another format, and another fold version of the era. All nodes of an
//! era have its fold version, so they agree on the messages that have no effect.
//!
//! **The smallest message in hex** is `tests/golden/smallest.message.hex`, a golden test: one page event.

use std::io;

use super::era::EraId;
use super::producer::ProducerId;
use crate::checksum::{crc32c, hash64, hash128_parts};
use crate::little_endian::{array_at, u16_at, u32_at, u64_at};
use crate::record::Record;

/// First bytes of a message.
const MAGIC: [u8; 8] = *b"\xFFPLXMESS";
/// The format that this release writes and reads.
pub const FORMAT: u16 = 3;
/// Length of the fixed part.
pub const HEADER_BYTES: usize = 88;
/// Bytes of records in a run before compression, unless a single record is longer. 256 KiB batches compress to
/// 89 bytes per event, 16 KiB batches to 120.
pub const RUN_BYTES_MAX: usize = 256 << 10;
/// Bytes of a payload before compression. The longest record has 1.09 MB. A reader refuses more before it
/// decompresses, so that a forged size reserves no memory.
pub const RAW_BYTES_MAX: usize = 2 << 20;
/// zstd's fastest positive level: 830 MB/s, ratio 7.4.
const ZSTD_LEVEL: i32 = 1;
const CRC_OFFSET: usize = 84;
/// The bytes of the key in a record, as `log/format.rs` specifies them. The payload's length follows.
const KEY_RANGE: std::ops::Range<usize> = 24..44;

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// Consecutive records of one log.
    Run = 1,
    /// The facts about a node.
    Heartbeat = 2,
    /// The removal of a member.
    Forget = 3,
    /// The declaration of an era.
    Era = 4,
    /// The request that each node sends a heartbeat at once.
    StatusRequest = 5,
}

impl Kind {
    /// Returns whether a sender may send messages of this kind.
    pub fn is_allowed(self, sender: &Sender) -> bool {
        match self {
            Self::Run | Self::Heartbeat => matches!(sender, Sender::Node(_)),
            Self::Forget | Self::Era | Self::StatusRequest => *sender == Sender::Control,
        }
    }
}

/// The sender of a message, as its subject says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sender {
    /// The operator's commands.
    Control,
    /// A node, by its name.
    Node(String),
}

impl Sender {
    /// Returns the end of the subject, which the chain covers. A node's differs from that of the operator for each name.
    pub fn subject_end(&self) -> String {
        match self {
            Self::Control => "control".to_owned(),
            Self::Node(name) => format!("log.{name}"),
        }
    }
}

/// The fixed part of a message without magic, format, sizes and checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    pub era: EraId,
    pub producer_id: ProducerId,
    pub base_seq: u64,
    /// The seq of the first record.
    pub first: u64,
    /// The sender's clock, in milliseconds since 1970.
    pub sent_ms: i64,
    /// The number of records.
    pub count: u32,
}

/// A message as the stream returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamMessage<B> {
    /// The number of the message in the stream, from 1.
    pub position: u64,
    /// The stream's clock when it appended the message, in milliseconds since 1970.
    pub stream_ms: i64,
    pub sender: Sender,
    /// The encoded message.
    pub bytes: B,
}

/// A decoded message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub header: Header,
    /// The payload before compression.
    pub payload: Vec<u8>,
}

/// An error while decoding a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Another release wrote the message.
    #[error("message format {0} is not supported; the sender needs the release of the other nodes")]
    UnsupportedFormat(u16),
    /// The message is damaged or not ours.
    #[error("the message is malformed: {0}")]
    Malformed(&'static str),
}

/// An encoder with a reusable compressor.
pub struct Encoder(zstd::bulk::Compressor<'static>);

impl Encoder {
    /// Creates an encoder.
    ///
    /// # Errors
    /// There is no memory for the compressor.
    pub fn new() -> io::Result<Self> {
        Ok(Self(zstd::bulk::Compressor::new(ZSTD_LEVEL)?))
    }

    /// Encodes a message with this payload.
    ///
    /// # Errors
    /// There is no memory for the compressed payload.
    pub fn encode(&mut self, header: &Header, payload: &[u8]) -> io::Result<Vec<u8>> {
        let compressed = self.0.compress(payload)?;
        let mut bytes = Vec::with_capacity(HEADER_BYTES + compressed.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&(header.kind as u16).to_le_bytes());
        bytes.extend_from_slice(&header.count.to_le_bytes());
        bytes.extend_from_slice(&header.era.0);
        bytes.extend_from_slice(&header.producer_id.0);
        bytes.extend_from_slice(&header.base_seq.to_le_bytes());
        bytes.extend_from_slice(&header.first.to_le_bytes());
        bytes.extend_from_slice(&header.sent_ms.to_le_bytes());
        bytes.extend_from_slice(&hash64(payload).to_le_bytes());
        bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        let crc = crc32c(&[&bytes, &compressed]);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&compressed);
        Ok(bytes)
    }
}

/// A decoder with a reusable decompressor.
pub struct Decoder(zstd::bulk::Decompressor<'static>);

impl Decoder {
    /// Creates a decoder.
    ///
    /// # Errors
    /// There is no memory for the decompressor.
    pub fn new() -> io::Result<Self> {
        Ok(Self(zstd::bulk::Decompressor::new()?))
    }

    /// Decodes a message. The records are not decoded yet.
    ///
    /// # Errors
    /// The message is malformed, or of a later release.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Message, MessageError> {
        let malformed = MessageError::Malformed;
        if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC {
            return Err(malformed("no header"));
        }
        let (header, compressed) = bytes.split_at(HEADER_BYTES);
        if crc32c(&[&header[..CRC_OFFSET], compressed]) != u32_at(header, CRC_OFFSET) {
            return Err(malformed("wrong checksum"));
        }
        let format = u16_at(header, 8);
        if format != FORMAT {
            return Err(MessageError::UnsupportedFormat(format));
        }
        let kind = match u16_at(header, 10) {
            1 => Kind::Run,
            2 => Kind::Heartbeat,
            3 => Kind::Forget,
            4 => Kind::Era,
            5 => Kind::StatusRequest,
            _ => return Err(malformed("unknown kind")),
        };
        let raw_bytes = u32_at(header, 80) as usize;
        let header = Header {
            kind,
            count: u32_at(header, 12),
            era: EraId(array_at(header, 16)),
            producer_id: ProducerId(array_at(header, 32)),
            base_seq: u64_at(header, 48),
            first: u64_at(header, 56),
            sent_ms: i64::from_le_bytes(array_at(header, 64)),
        };
        let is_counted = header.first.checked_add(u64::from(header.count)).is_some();
        if raw_bytes > RAW_BYTES_MAX || !is_counted || (header.count == 0) == (kind == Kind::Run) {
            return Err(malformed("a number is out of range"));
        }
        let payload = self.0.decompress(compressed, raw_bytes).map_err(|_| malformed("not a zstd frame"))?;
        if payload.len() != raw_bytes || hash64(&payload).to_le_bytes() != array_at(bytes, 72) {
            return Err(malformed("wrong payload hash"));
        }
        Ok(Message { header, payload })
    }
}

/// A record of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunRecord<'a> {
    pub seq: u64,
    /// The record as the payload has it.
    pub bytes: &'a [u8],
    /// The decoded record.
    pub record: Record<'a>,
    /// The dedup key. 0 if the record has none.
    pub key: u128,
}

impl RunRecord<'_> {
    /// Returns the fields that the running hash of the producer covers.
    pub fn identity(&self) -> RecordIdentity {
        let length = self.bytes.len() as u32;
        RecordIdentity { length, received_ms: self.record.received_ms, key: self.key }
    }
}

/// Returns the dedup key of a record: its own, or that of its site and message ID. So an event whose message ID the
/// server generated has a key too, and takes effect once although a new producer ID sends it again.
pub fn dedup_key(record: &Record<'_>) -> u128 {
    match (record.key, record.site, record.message_id) {
        (0, Some(site), Some(message_id)) => hash128_parts([site.as_bytes(), &[0], message_id.as_bytes()]),
        (key, ..) => key,
    }
}

/// Appends a record of the log to the payload of a run. Its key becomes zero if the reader can compute it.
/// Returns whether the record is valid. An invalid one is not appended.
pub fn push_record(payload: &mut Vec<u8>, bytes: &[u8]) -> bool {
    let Some((record, length)) = Record::decode(bytes).filter(|(_, length)| *length == bytes.len()) else {
        return false;
    };
    let start = payload.len();
    payload.extend_from_slice(&bytes[..length]);
    if record.key == dedup_key(&Record { key: 0, ..record }) {
        payload[start..][KEY_RANGE].fill(0);
    }
    true
}

/// Decodes the records of a run. Returns `None` if the payload is anything else.
pub(super) fn decode_records<'a>(header: &Header, payload: &'a [u8]) -> Option<Vec<RunRecord<'a>>> {
    let mut offset = 0;
    let mut seq = header.first;
    let mut records = Vec::new();
    while offset < payload.len() {
        records.push(next_record(payload, &mut offset, &mut seq)?);
    }
    (records.len() == header.count as usize).then_some(records)
}

/// Decodes the record of a run at `offset`, whose seq is `seq`, and moves both to the next record.
pub(super) fn next_record<'a>(payload: &'a [u8], offset: &mut usize, seq: &mut u64) -> Option<RunRecord<'a>> {
    let (record, length) = Record::decode(payload.get(*offset..)?)?;
    let found =
        RunRecord { seq: *seq, bytes: &payload[*offset..][..length], record, key: dedup_key(&record) };
    *offset += length;
    *seq += 1;
    Some(found)
}

/// The fields of a record that the running hash of its producer covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordIdentity {
    pub length: u32,
    pub received_ms: i64,
    /// The dedup key. 0 if the record has none, for example because it is void.
    pub key: u128,
}

impl RecordIdentity {
    /// Returns the running hash after this record.
    pub fn extend(&self, hash: u128) -> u128 {
        let fields = [self.length.to_le_bytes().as_slice(), &self.received_ms.to_le_bytes()].concat();
        hash128_parts([&hash.to_le_bytes(), &fields, &self.key.to_le_bytes()])
    }
}
