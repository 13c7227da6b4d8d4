//! The checkpoint format: the table of visitors exactly as of one seq. This is the only specification.
//!
//! **Purpose.** Recovery loads the newest checkpoint and folds only the records after its seq. After
//! retention has deleted the older segments, the checkpoint is the only copy of their effect. The
//! checkpointer's thread writes checkpoints, and deletes all but the newest two. Recovery, `check` and
//! `inspect` read them. Checkpoints are data: every later release reads every released format version.
//!
//! **Limits.** All numbers are little-endian, on every machine. The limits are in `limits`:
//! `CHECKPOINT_BLOCK_BYTES`, `CHECKPOINT_RUNS_MAX`, and `PROFILE_BYTES_MAX` for a value.
//!
//! # Directory
//!
//! ```text
//! NAME                                      MEANING
//! 00000000000000000100.checkpoint           the table as of seq 100; the newest two are kept
//! .checkpoint                               a checkpoint being written; deleted at the next start
//! ```
//!
//! It is the directory of the log. A process that writes here must have the log's lock.
//!
//! # Checkpoint
//!
//! ```text
//! +--------+-------+-------+-- - --+-------+-- - --+------+------+-------+--------+---------+
//! | header | block | block |       | block |       | ties | lost | sites | stream | trailer |  blocks end to end;
//! | (96)   |      first run        |  second run   |      |      |       |        |         |  within a run orders
//! +--------+-------+-------+-- - --+-------+-- - --+------+------+-------+--------+---------+  ascend
//!
//! HEADER
//! OFFSET  SIZE  FIELD           MEANING
//! 0       8     magic           FF 50 4C 58 43 48 4B 50 ("\xFFPLXCHKP")
//! 8       4     format version  3; version 2 is read too
//! 12      4     header length   96; the first block begins here
//! 16      8     seq             exactly the records up to this one are folded; with a section *stream*: the position in
//!                               the stream up to which exactly the messages are folded
//! 24      8     created         time in milliseconds
//! 32      16    secret          hash secret of the keys; never changes in one directory. With a section *stream*: a check
//!                               value of the key, which all nodes of the cluster have
//! 48      8     memory limit    of the table (--profiles-memory)
//! 56      8     entries         number of entries in the table
//! 64      16    log ID          of the log whose records are folded, as in its segments
//! 80      8     evicted         visitors evicted since the first record of the log
//! 88      4     key check       the first 4 bytes of the HMAC-SHA-256 of nothing under the key of the file `secret`
//!                               with which the ties were made; 0 without a key
//! 92      4     crc             CRC-32C of bytes 0..92
//!
//! BLOCK
//! 0       8     magic           FF 50 4C 58 42 4C 43 4B ("\xFFPLXBLCK")
//! 8       4     length          of the block, header included
//! 12      4     crc             CRC-32C of bytes 0..12 and 16..length
//! 16      4     count           number of entries, at least 1
//! 20      4     zero
//! 24      n     entries
//!
//! ENTRY
//! 0       16    key             of a visitor, or of an anon ID that is linked to a user
//! 16      8     order           put order: unique, grows with each put, evictions follow it
//! 24      1     class           eviction class: 0 pinned (alias), 1 single visit, 2 returning
//! 25      1     zero
//! 26      2     length          of the value
//! 28      n     value           a profile or an alias: see `profile.rs`
//!
//! TIE, an entry of the section *ties*; ascending by anon and seq, 1,000 in each block but the last
//! 0       16    anon            digest of (site, anon ID): the first 16 bytes of its HMAC
//! 16      8     seq             of the record that made the tie, or of the tombstone
//! 24      16    user            digest of (site, user ID); 0 for an end
//! 40      8     anon hash       hash of the anon ID for the filters of segments; 0 if unknown
//! 48      8     user hash       the same of the user ID
//!
//! LINE, an entry of the section *lost*; ascending by number, lines of zeros are left out
//! 0       4     number          of the line in the filter
//! 4       4     zero
//! 8       64    bits            of the filter: see `ties/lost.rs`
//!
//! SITE, an entry of the section *sites*; ascending
//! 0       1     length          of the site ID
//! 1       n     site ID         UTF-8
//!
//! PIECE, an entry of the section *stream*: the state of a node beside its table, in `src/cluster/saved.rs`. The
//!        section is empty if the server is alone.
//! 0       n     bytes           all pieces joined are the encoded state
//!
//! TRAILER, the last bytes of the file
//! 0       8     magic           FF 50 4C 58 43 45 4E 44 ("\xFFPLXCEND")
//! 8       4     length          of the trailer: 168, and 32 for each run
//! 12      4     crc             CRC-32C of bytes 0..12 and 16..length
//! 16      8     entries         number of entries in all runs
//! 24      4     runs            number of runs
//! 28      4     header crc      crc of the header
//! 32      32 n  runs            each: offset (8), bytes (8), entries (8), checksum (4), zero (4)
//!         128   sections        ties, lost, sites and stream, in the form of runs
//!         8     trailer offset  offset of the trailer in the file
//! ```
//!
//! The *checksum* of a run or section starts at 0. For each block, the next checksum is the CRC-32C of the previous
//! checksum and the block's crc, 4 bytes each. So the crc of the trailer covers every byte of the file.
//!
//! **Runs.** The table is copied in no particular order and is too large to be in memory twice. So the
//! writer sorts as many entries as fit its memory and writes them as a run, and a reader merges the runs.
//! The merged entries are in the order of their last put. A table filled with them in that order evicts in
//! the same order as the original.
//!
//! **Ties** are the entries of ownership: see `ties/mod.rs`. A checkpoint merges the entries since the checkpoint
//! before into the entries of that file. An entry is dropped when it decides no owner any more.
//!
//! # Validity
//!
//! **Checks on reading**, in this order:
//!
//! 1. Header: length, magic and crc, then format version.
//! 2. Last 8 bytes: inside the file, and a trailer length within its limit.
//! 3. Trailer: magic, length, crc, the header's crc, and the number of entries in the header.
//! 4. Runs and sections: end to end from the header to the trailer.
//! 5. Each block: inside its run or section, length within limits, magic, crc, count.
//! 6. Each entry: inside its block, class, zero, length.
//! 7. Orders ascend strictly over all runs, and so do ties, lines and sites.
//! 8. Each run and each section has the number of entries and the checksum of the trailer.
//!
//! A file that fails any check is not used at all. Neither is a file with the log ID of another log.
//!
//! **Writing**: create `.checkpoint`. Write header, blocks and trailer, and sync after each run, so that
//! syncs of the log never wait for the whole file. Sync the file, rename it, and sync the directory. Then
//! delete all but the newest two checkpoints. After a failed call the file is abandoned, and a new attempt
//! begins later.
//!
//! **After a crash** there may be a `.checkpoint`, and more than two checkpoints.
//!
//! **A format change** increments the format version. A reader rejects a version that it does not support.
//! The server then does not start, because it would run without visitors whose records may be deleted.
//!
//! **Version 2** has profiles without the context of the last event. Other rules of the fold made them. So a start uses such a
//! file only if the log no longer has all records. Otherwise it folds the whole log.
//! **Version 3** has profiles and aliases without enrolments. A start treats it as a file of version 2.
//!
//! **The smallest file in hex** is the golden file `tests/golden/smallest.checkpoint.hex`: one user with one
//! linked anon ID.

use crate::checksum::crc32c;
use crate::data_files::CHECKPOINT_MAGIC as MAGIC;
use crate::limits::{CHECKPOINT_BLOCK_BYTES, CHECKPOINT_RUNS_MAX, PROFILE_BYTES_MAX};
use crate::little_endian::{u16_at, u32_at, u64_at};
use crate::log::LogId;
use crate::log::format::header_version;
use crate::visitors::store::table::{EvictionClass, Key};
use crate::visitors::ties::TIE_BYTES;
use crate::visitors::ties::lost::LINE_BYTES;

const BLOCK_MAGIC: [u8; 8] = *b"\xFFPLXBLCK";
const TRAILER_MAGIC: [u8; 8] = *b"\xFFPLXCEND";
/// Format version that this release writes.
pub(crate) const FORMAT_VERSION: u32 = 4;
/// The earliest format version that this release reads.
const FORMAT_VERSION_MIN: u32 = 2;
/// Bytes before the first block.
pub const HEADER_BYTES: usize = 96;
/// Offset of the header's crc.
const HEADER_CRC_OFFSET: usize = HEADER_BYTES - 4;
/// Bytes before the first entry of a block.
pub const BLOCK_HEADER_BYTES: usize = 24;
/// Bytes before the value of an entry.
pub(crate) const ENTRY_HEADER_BYTES: usize = 28;
/// Bytes of the trailer's offset, at the end of the file.
pub(crate) const TRAILER_OFFSET_BYTES: usize = 8;
/// Number of entries in each block of ties but the last one, so that the offset of each entry is known.
pub(crate) const TIES_PER_BLOCK: usize = 1_000;
/// Bytes of an entry of the section *lost*.
pub(crate) const LINE_ENTRY_BYTES: usize = 8 + LINE_BYTES;
const RUN_BYTES: usize = 32;
const SECTIONS: usize = 4;
/// Bytes of a trailer without runs.
pub(crate) const TRAILER_BYTES: usize = 40 + SECTIONS * RUN_BYTES;
/// Maximum bytes of a trailer. A longer one is damage.
pub(crate) const TRAILER_BYTES_MAX: usize = TRAILER_BYTES + CHECKPOINT_RUNS_MAX * RUN_BYTES;

const _: () = assert!(BLOCK_HEADER_BYTES + TIES_PER_BLOCK * TIE_BYTES <= CHECKPOINT_BLOCK_BYTES);
// The length of an entry's value fits in two bytes, and the largest entry fits in a block.
const _: () = assert!(PROFILE_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(BLOCK_HEADER_BYTES + ENTRY_HEADER_BYTES + PROFILE_BYTES_MAX <= CHECKPOINT_BLOCK_BYTES);

/// The header of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Exactly the records up to this seq are folded.
    pub seq: u64,
    /// Creation time, in milliseconds.
    pub created_ms: i64,
    /// Secret with which the keys are hashed.
    pub secret: [u8; 16],
    /// Memory limit of the table, as a cost in bytes.
    pub cost_max: u64,
    /// Number of entries in the file.
    pub entries: u64,
    /// The ID of the log whose records are folded.
    pub log_id: LogId,
    /// Visitors evicted since the first record of the log.
    pub evicted: u64,
    /// The check of the key of the entries of ownership, or 0.
    pub key_check: u32,
}

/// The reason why a header cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderError {
    /// The header is too short, or has another magic or a wrong checksum.
    Damaged,
    /// The header is intact, but this release does not support its format version.
    Version(u32),
}

impl Header {
    /// Encodes the first bytes of the file.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.seq.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.created_ms.to_le_bytes());
        bytes[32..48].copy_from_slice(&self.secret);
        bytes[48..56].copy_from_slice(&self.cost_max.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.entries.to_le_bytes());
        bytes[64..80].copy_from_slice(&self.log_id.0);
        bytes[80..88].copy_from_slice(&self.evicted.to_le_bytes());
        bytes[88..92].copy_from_slice(&self.key_check.to_le_bytes());
        let crc = crc32c(&[&bytes[..HEADER_CRC_OFFSET]]);
        bytes[HEADER_CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// The bytes are not a header, or are from another release.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, HeaderError> {
        let version = header_version(bytes, MAGIC).ok_or(HeaderError::Damaged)?;
        if !(FORMAT_VERSION_MIN..=FORMAT_VERSION).contains(&version) {
            return Err(HeaderError::Version(version));
        }
        if u32_at(bytes, 12) as usize != HEADER_BYTES {
            return Err(HeaderError::Damaged);
        }
        let [mut secret, mut log_id] = [[0; 16]; 2];
        secret.copy_from_slice(&bytes[32..48]);
        log_id.copy_from_slice(&bytes[64..80]);
        Ok(Self {
            seq: u64_at(bytes, 16),
            created_ms: u64_at(bytes, 24) as i64,
            secret,
            cost_max: u64_at(bytes, 48),
            entries: u64_at(bytes, 56),
            log_id: LogId(log_id),
            evicted: u64_at(bytes, 80),
            key_check: u32_at(bytes, 88),
        })
    }
}

/// An entry of the table, decoded in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointEntry<'a> {
    /// Key of the entry.
    pub key: Key,
    /// Put order: a number that grows with each put.
    pub order: u64,
    /// Eviction class.
    pub class: EvictionClass,
    /// Encoded profile or alias.
    pub value: &'a [u8],
}

impl<'a> CheckpointEntry<'a> {
    /// Appends the encoded entry.
    pub fn encode(&self, out: &mut Vec<u8>) {
        // A value is an alias or a profile, and the limit of a profile fits in two bytes.
        let length = u16::try_from(self.value.len()).unwrap_or(u16::MAX);
        let mut head = [0; ENTRY_HEADER_BYTES];
        head[0..8].copy_from_slice(&self.key.0[0].to_le_bytes());
        head[8..16].copy_from_slice(&self.key.0[1].to_le_bytes());
        head[16..24].copy_from_slice(&self.order.to_le_bytes());
        head[24] = self.class as u8;
        head[26..28].copy_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&head);
        out.extend_from_slice(&self.value[..usize::from(length)]);
    }

    /// Decodes the entry at the beginning of `bytes`. `None` if a check fails.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(ENTRY_HEADER_BYTES)?;
        let length = usize::from(u16_at(head, 26));
        let rank = *[EvictionClass::Pinned, EvictionClass::SingleVisit, EvictionClass::Returning]
            .get(usize::from(head[24]))?;
        let is_valid = head[25] == 0 && length <= PROFILE_BYTES_MAX;
        is_valid.then_some(Self {
            key: Key([u64_at(head, 0), u64_at(head, 8)]),
            order: u64_at(head, 16),
            class: rank,
            value: rest.get(..length)?,
        })
    }

    /// Returns the encoded length in bytes.
    pub fn encoded_len(&self) -> usize {
        ENTRY_HEADER_BYTES + self.value.len()
    }
}

/// Clears `out` and begins a block in it. The caller appends the entries and then calls
/// [`end_block`].
pub fn begin_block(out: &mut Vec<u8>) {
    out.clear();
    out.resize(BLOCK_HEADER_BYTES, 0);
}

/// Writes the header of a block and returns its crc.
pub fn end_block(block: &mut [u8], entry_count: u32) -> u32 {
    let length = block.len() as u32;
    block[0..8].copy_from_slice(&BLOCK_MAGIC);
    block[8..12].copy_from_slice(&length.to_le_bytes());
    block[16..20].copy_from_slice(&entry_count.to_le_bytes());
    put_crc(block)
}

/// Returns the block length in the block header at the beginning of `bytes`. `None` if it is not a
/// valid block header.
pub fn block_length(bytes: &[u8]) -> Option<usize> {
    if bytes.len() < BLOCK_HEADER_BYTES || bytes[..8] != BLOCK_MAGIC {
        return None;
    }
    let length = u32_at(bytes, 8) as usize;
    (BLOCK_HEADER_BYTES + 1..=CHECKPOINT_BLOCK_BYTES).contains(&length).then_some(length)
}

/// Checks a complete block, but not its entries. Returns its count and crc, or `None` if a check
/// fails.
pub(crate) fn check_block(bytes: &[u8]) -> Option<(u32, u32)> {
    let crc = (block_length(bytes)? == bytes.len()).then(|| crc_of(bytes))?;
    let count = u32_at(bytes, 16);
    (crc == u32_at(bytes, 12) && count > 0 && u32_at(bytes, 20) == 0).then_some((count, crc))
}

/// Returns the checksum of a run or section after one more block, which has this crc.
pub fn extend_checksum(checksum: u32, crc: u32) -> u32 {
    crc32c(&[&checksum.to_le_bytes(), &crc.to_le_bytes()])
}

/// A run or a section, as described in the trailer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Run {
    /// Offset of its first block.
    pub offset: u64,
    /// Bytes of all its blocks.
    pub bytes: u64,
    /// Number of entries in all its blocks.
    pub entries: u64,
    /// Checksum over the crcs of its blocks.
    pub checksum: u32,
}

/// The parts of a file, as described in the trailer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// The runs of the table's entries.
    pub runs: Vec<Run>,
    /// The entries of ownership.
    pub ties: Run,
    /// The filter of the IDs that lost their alias.
    pub lost: Run,
    /// The known sites.
    pub sites: Run,
    /// The state of a node of a cluster. Empty if the server is alone.
    pub stream: Run,
}

impl Parts {
    /// Iterates over all parts in the order of the file.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().chain([&self.ties, &self.lost, &self.sites, &self.stream])
    }
}

/// Encodes the trailer of a file with this header. `offset` is the offset of the trailer.
pub fn trailer_to_bytes(parts: &Parts, header_bytes: &[u8; HEADER_BYTES], offset: u64) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    let entries: u64 = parts.runs.iter().map(|run| run.entries).sum();
    bytes[0..8].copy_from_slice(&TRAILER_MAGIC);
    bytes[8..12].copy_from_slice(&((TRAILER_BYTES + parts.runs.len() * RUN_BYTES) as u32).to_le_bytes());
    bytes[16..24].copy_from_slice(&entries.to_le_bytes());
    bytes[24..28].copy_from_slice(&(parts.runs.len() as u32).to_le_bytes());
    bytes[28..32].copy_from_slice(&header_bytes[HEADER_CRC_OFFSET..]);
    for run in parts.iter() {
        [run.offset, run.bytes, run.entries].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend(run.checksum.to_le_bytes());
        bytes.extend([0; 4]);
    }
    bytes.extend(offset.to_le_bytes());
    put_crc(&mut bytes);
    bytes
}

/// Decodes the parts from the trailer at offset `offset` of a file with this header. `None` if a check
/// fails.
pub fn trailer_from_bytes(bytes: &[u8], header_bytes: &[u8; HEADER_BYTES], offset: u64) -> Option<Parts> {
    if bytes.len() < TRAILER_BYTES || bytes[..8] != TRAILER_MAGIC || crc_of(bytes) != u32_at(bytes, 12) {
        return None;
    }
    let count = u32_at(bytes, 24) as usize;
    let fits = count <= CHECKPOINT_RUNS_MAX
        && bytes.len() == TRAILER_BYTES + count * RUN_BYTES
        && u32_at(bytes, 8) as usize == bytes.len()
        && bytes[28..32] == header_bytes[HEADER_CRC_OFFSET..]
        && bytes[16..24] == header_bytes[56..64];
    if !fits {
        return None;
    }
    let run = |bytes: &[u8]| Run {
        offset: u64_at(bytes, 0),
        bytes: u64_at(bytes, 8),
        entries: u64_at(bytes, 16),
        checksum: u32_at(bytes, 24),
    };
    let described = bytes[32..32 + (count + SECTIONS) * RUN_BYTES].chunks_exact(RUN_BYTES);
    let mut runs: Vec<Run> = described.map(run).collect();
    let [stream, sites, lost, ties] = [runs.pop()?, runs.pop()?, runs.pop()?, runs.pop()?];
    let parts = Parts { runs, ties, lost, sites, stream };
    let end = parts.iter().try_fold(HEADER_BYTES as u64, |end, run| {
        if run.offset == end { end.checked_add(run.bytes) } else { None }
    });
    let entries = parts.runs.iter().try_fold(0u64, |sum, run| sum.checked_add(run.entries));
    (end == Some(offset) && entries == Some(u64_at(bytes, 16))).then_some(parts)
}

fn crc_of(bytes: &[u8]) -> u32 {
    crc32c(&[&bytes[..12], &bytes[16..]])
}

fn put_crc(bytes: &mut [u8]) -> u32 {
    let crc = crc_of(bytes);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    crc
}
