//! Producer IDs, and the file `producer` of a data directory.
//!
//! # Purpose
//!
//! A log is sent to the stream under a producer ID. (Producer ID, seq) names a record in the whole cluster,
//! so a record that is sent again has no effect. The first producer ID is the ID of the log. A node takes a
//! new one when its log and the stream differ: after a restored backup, on a copied machine, or after the
//! stream lost records. The file keeps the earlier ones, the *predecessors*. The node needs them to notice
//! that the stream has lost records of one.
//!
//! # Layout
//!
//! All numbers are little-endian.
//!
//! ```text
//! OFFSET  SIZE  FIELD          MEANING
//! 0       8     magic          FF 50 4C 58 50 52 4F 44 ("\xFFPLXPROD")
//! 8       4     format version 1
//! 12      4     predecessors   their number n, at most 64
//! 16      16    producer ID
//! 32      8     base seq       the first seq that is sent under the producer ID
//! 40      8     returned seq   the last own seq that the stream has returned and this directory has compared
//! 48      8     returned time  the time of the stream's state at that moment, milliseconds
//! 56      32n   predecessors   oldest first
//! ..      4     crc            CRC-32C of all bytes before
//!
//! PREDECESSOR
//! 0       16    producer ID
//! 16      8     base seq
//! 24      8     changed        the time of the stream's state when the node took the next ID, milliseconds
//! ```
//!
//! # Writing
//!
//! The file is written under a temporary name, synced and renamed, and the directory is synced. It is written
//! when the node first joins, with each new producer ID, every minute while records return, and at a clean
//! stop. **A new producer ID is durable before the first message under it is sent.** Otherwise a crash would
//! leave a log without its own ID.
//!
//! # A missing or damaged file
//!
//! The node continues with the ID of its log and base seq 1. The comparison with the stream then finds the
//! difference, and the node takes a new ID.
//!
//! **The smallest file in hex** is `tests/golden/smallest.producer.hex`, a golden test.

use std::ops::Range;

use crate::checksum::crc32c;
use crate::little_endian::{array_at, u32_at, u64_at};
use crate::log::LogId;

/// Name of the file, in the directory of the own log.
pub(crate) const PRODUCER_FILE: &str = "producer";
const MAGIC: [u8; 8] = *b"\xFFPLXPROD";
const FORMAT_VERSION: u32 = 1;
const HEADER_BYTES: usize = 56;
const PREDECESSOR_BYTES: usize = 32;
/// Predecessors of a directory. One leaves after 29 days, so only a fault that repeats reaches the limit. The
/// oldest is then dropped, and records that the stream loses under it are not sent again.
pub const PREDECESSORS_MAX: usize = 64;
/// Time after which a predecessor leaves the file, in ms: 29 days. Its entry stays in the state of the stream
/// for 30 days of silence.
pub const PREDECESSOR_MS: i64 = 29 * 24 * 60 * 60 * 1_000;

/// The ID under which a log is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(pub [u8; 16]);

/// A producer ID that the directory used before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Predecessor {
    pub id: ProducerId,
    pub base_seq: u64,
    /// The time of the stream's state when the next ID was taken, in milliseconds.
    pub changed_ms: i64,
}

/// The content of the file `producer`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Producer {
    pub id: ProducerId,
    /// The first seq that is sent under the ID.
    pub base_seq: u64,
    /// The last own seq that the stream has returned to this directory.
    pub returned_seq: u64,
    /// The time of the stream's state at that moment, in milliseconds.
    pub returned_ms: i64,
    /// Oldest first.
    pub predecessors: Vec<Predecessor>,
}

impl Producer {
    /// Returns the producer of a log that was never sent.
    pub fn first(log_id: LogId) -> Self {
        Self {
            id: ProducerId(log_id.0),
            base_seq: 1,
            returned_seq: 0,
            returned_ms: 0,
            predecessors: Vec::new(),
        }
    }

    /// Replaces the ID. `verified_seq` is the last seq that the stream is known to have as the log has it.
    /// All later records are sent again under the new ID. `clock_ms` is the time of the stream's state.
    pub fn replace(&mut self, id: ProducerId, verified_seq: u64, clock_ms: i64) {
        self.predecessors.retain(|one| clock_ms.saturating_sub(one.changed_ms) < PREDECESSOR_MS);
        self.predecessors.push(Predecessor { id: self.id, base_seq: self.base_seq, changed_ms: clock_ms });
        let surplus = self.predecessors.len().saturating_sub(PREDECESSORS_MAX);
        self.predecessors.drain(..surplus);
        (self.id, self.base_seq) = (id, verified_seq + 1);
        self.returned_seq = self.returned_seq.min(verified_seq);
    }

    /// Returns the own seqs that are sent under an ID of this directory: those before the base seqs of all
    /// later IDs. `None` for the ID of another directory.
    pub fn seqs_of(&self, id: ProducerId) -> Option<Range<u64>> {
        if id == self.id {
            return Some(self.base_seq..u64::MAX);
        }
        let index = self.predecessors.iter().rposition(|one| one.id == id)?;
        let later = self.predecessors[index + 1..].iter().map(|one| one.base_seq);
        let end = later.chain([self.base_seq]).min()?;
        Some(self.predecessors[index].base_seq..end)
    }

    /// Encodes the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + PREDECESSOR_BYTES * self.predecessors.len() + 4);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.predecessors.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.id.0);
        bytes.extend_from_slice(&self.base_seq.to_le_bytes());
        bytes.extend_from_slice(&self.returned_seq.to_le_bytes());
        bytes.extend_from_slice(&self.returned_ms.to_le_bytes());
        for one in &self.predecessors {
            bytes.extend_from_slice(&one.id.0);
            bytes.extend_from_slice(&one.base_seq.to_le_bytes());
            bytes.extend_from_slice(&one.changed_ms.to_le_bytes());
        }
        let crc = crc32c(&[&bytes]);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes the file. Returns `None` if it is damaged or of a later release.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (content, crc) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
        if content.len() < HEADER_BYTES
            || content[..8] != MAGIC
            || crc32c(&[content]).to_le_bytes() != *crc
            || u32_at(content, 8) != FORMAT_VERSION
        {
            return None;
        }
        let (header, rest) = content.split_at(HEADER_BYTES);
        let predecessors: Vec<Predecessor> = rest.chunks_exact(PREDECESSOR_BYTES).map(predecessor).collect();
        let is_whole = rest.len() == PREDECESSOR_BYTES * predecessors.len()
            && predecessors.len() <= PREDECESSORS_MAX
            && u32_at(header, 12) as usize == predecessors.len();
        is_whole.then(|| Self {
            id: ProducerId(array_at(header, 16)),
            base_seq: u64_at(header, 32),
            returned_seq: u64_at(header, 40),
            returned_ms: i64::from_le_bytes(array_at(header, 48)),
            predecessors,
        })
    }
}

fn predecessor(bytes: &[u8]) -> Predecessor {
    Predecessor {
        id: ProducerId(array_at(bytes, 0)),
        base_seq: u64_at(bytes, 16),
        changed_ms: i64::from_le_bytes(array_at(bytes, 24)),
    }
}
