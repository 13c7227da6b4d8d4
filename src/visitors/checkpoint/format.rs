//! A checkpoint: the table of visitors exactly as of one seq. THE SPEC; it stands nowhere else.
//!
//! **Purpose.** Recovery loads the newest and folds only what the log holds behind its seq; once retention has let segments go, it
//! is the truth of them. The checkpointer's thread writes; recovery, `check` and `inspect` read; the checkpointer deletes what is
//! older than two generations. Checkpoints are data: every released format version is read for ever.
//!
//! **Bounds.** All numbers are little-endian, on every machine. The bounds stand in `limits.rs`: `CHECKPOINT_BLOCK_BYTES`,
//! `CHECKPOINT_RUNS_MAX`, `PROFILE_BYTES_MAX` of a value.
//!
//! # The folder
//!
//! ```text
//! NAME                                      WHAT
//! 00000000000000000100.checkpoint           the table as of seq 100; two of them are kept
//! .checkpoint                               one being written, not yet there; deleted at the next start
//! 00000000000000000100.checkpoint.refused   one whose seq is beyond the log that it was found beside; nobody reads it
//! ```
//!
//! It is the log's folder, and who has the log's lock writes here too.
//!
//! # A checkpoint
//!
//! ```text
//! +--------+-------+-------+-- - --+-------+-- - --+---------+
//! | header | block | block |       | block |       | trailer |     blocks end to end, in runs;
//! | (72)   |      first run        |  second run   |         |     within a run orders ascend
//! +--------+-------+-------+-- - --+-------+-- - --+---------+
//!
//! HEADER
//! OFFSET  SIZE  FIELD           MEANING
//! 0       8     magic           FF 50 4C 58 43 48 4B 50 ("\xFFPLXCHKP")
//! 8       4     format version  1
//! 12      4     header length   72; the first block begins here
//! 16      8     seq             the records up to this one are folded, and no other
//! 24      8     made            milliseconds
//! 32      16    secret          that keys of visitors are hashed with, for as long as the folder is
//! 48      8     bound           that the table went by (--profiles-memory)
//! 56      8     entries         of the table
//! 64      4     zero
//! 68      4     crc             CRC-32C of bytes 0..68
//!
//! BLOCK
//! 0       8     magic           FF 50 4C 58 42 4C 43 4B ("\xFFPLXBLCK")
//! 8       4     length          of the block, header included
//! 12      4     crc             CRC-32C of bytes 0..12 and 16..length
//! 16      4     count           of entries, at least 1
//! 20      4     zero
//! 24      n     entries
//!
//! ENTRY
//! 0       16    key             of the visitor, or of an id that is tied to one
//! 16      8     order           when it was put last: evictions go by it, and it is no other entry's
//! 24      1     rank            0 never goes by itself, 1 came once, 2 known
//! 25      1     zero
//! 26      2     length          of the value
//! 28      n     value           a profile or an alias: see `profile.rs`
//!
//! TRAILER, the file's last bytes
//! 0       8     magic           FF 50 4C 58 43 45 4E 44 ("\xFFPLXCEND")
//! 8       4     length          of the trailer: 40 and 32 for each run
//! 12      4     crc             CRC-32C of bytes 0..12 and 16..length
//! 16      8     entries         in all blocks
//! 24      4     runs
//! 28      4     header          the header's crc
//! 32      32 n  runs            each: offset (8), bytes (8), entries (8), sum (4), zero (4)
//!         8     trailer at      offset of the trailer
//! ```
//!
//! A run's *sum* is 0, and with each of its blocks the CRC-32C of the sum before and the block's crc, 4 bytes each. So the trailer's
//! crc stands for every byte of the file.
//!
//! **Runs.** The table is copied in no order and holds more than is to be held twice. So what fits the writer's memory is sorted and
//! written as a run, and a reader merges the runs: entries come in ascending order, which is that of their last put, and a table
//! that they are put into evicts as the one that was copied.
//!
//! # What is valid
//!
//! **Checks on reading**, in this order: header (length, magic, crc; then format version); the last 8 bytes (inside the file, a
//! trailer within its bound); trailer (magic, length, crc, the header's crc, entries as in the header); runs (end to end from the
//! header to the trailer); each block (inside its run, length in bounds, magic, crc, count); each entry (inside its block, rank,
//! zero, length); orders ascend strictly over all runs; each run has as many entries and the sum that the trailer says. Nothing is
//! used of a file that fails any of them.
//!
//! **Writing**: `.checkpoint` is made; header, blocks, trailer, with a sync after each run so that the log's own syncs do not wait
//! for all of it; synced; renamed to its name; the folder synced; then what is older than two generations is deleted. After a failed
//! call the file is given up, and another is begun later.
//!
//! **A crash can leave** a `.checkpoint`, and more generations than two.
//!
//! **A version change** says so in the format version; a reader refuses one that it does not know, and the server does not start on
//! it, for it would begin without visitors whose records may be gone.
//!
//! **The smallest file in hex** is `tests/golden/smallest.checkpoint.hex`, a golden test: one visitor, tied to a user by one id.

use crate::checksum::castagnoli;
use crate::limits::{CHECKPOINT_BLOCK_BYTES, CHECKPOINT_RUNS_MAX, PROFILE_BYTES_MAX};
use crate::visitors::log::format::{u16_at, u32_at, u64_at};
use crate::visitors::store::table::{Key, Rank};

/// A checkpoint's first bytes.
pub const MAGIC: [u8; 8] = *b"\xFFPLXCHKP";
const BLOCK_MAGIC: [u8; 8] = *b"\xFFPLXBLCK";
const TRAILER_MAGIC: [u8; 8] = *b"\xFFPLXCEND";
/// The format that this release writes.
pub const FORMAT_VERSION: u32 = 1;
/// Bytes before the first block.
pub const HEADER_BYTES: usize = 72;
/// Bytes before a block's first entry.
pub const BLOCK_HEADER_BYTES: usize = 24;
/// Bytes before an entry's value.
pub const ENTRY_HEADER_BYTES: usize = 28;
/// The last bytes of a file: where its trailer is.
pub const TRAILER_AT_BYTES: usize = 8;
/// A trailer without runs.
pub const TRAILER_BYTES: usize = 40;
const RUN_BYTES: usize = 32;
/// The longest trailer.
pub const TRAILER_BYTES_MAX: usize = TRAILER_BYTES + CHECKPOINT_RUNS_MAX * RUN_BYTES;

// An entry's length has two bytes, and the largest fits a block.
const _: () = assert!(PROFILE_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(BLOCK_HEADER_BYTES + ENTRY_HEADER_BYTES + PROFILE_BYTES_MAX <= CHECKPOINT_BLOCK_BYTES);

/// What a checkpoint is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The records up to this one are folded.
    pub seq: u64,
    /// When it was made, in milliseconds.
    pub made_ms: i64,
    /// What keys are hashed with.
    pub secret: [u8; 16],
    /// The bound that the table went by.
    pub cost_max: u64,
    /// How many entries follow.
    pub entries: u64,
}

/// Why a header cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderFault {
    /// Too short, another magic, a wrong checksum.
    Damaged,
    /// Whole, of a format version that this release does not know.
    Version(u32),
}

impl Header {
    /// The first bytes of the file.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.seq.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.made_ms.to_le_bytes());
        bytes[32..48].copy_from_slice(&self.secret);
        bytes[48..56].copy_from_slice(&self.cost_max.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.entries.to_le_bytes());
        let crc = castagnoli(&[&bytes[..68]]);
        bytes[68..72].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header that `bytes` are.
    ///
    /// # Errors
    /// They are none, or of a later release.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, HeaderFault> {
        let whole = bytes.len() == HEADER_BYTES && bytes[..8] == MAGIC;
        if !whole || castagnoli(&[&bytes[..68]]) != u32_at(bytes, 68) {
            return Err(HeaderFault::Damaged);
        }
        match (u32_at(bytes, 8), u32_at(bytes, 12) as usize) {
            (FORMAT_VERSION, HEADER_BYTES) => {}
            (FORMAT_VERSION, _) => return Err(HeaderFault::Damaged),
            (version, _) => return Err(HeaderFault::Version(version)),
        }
        let mut secret = [0; 16];
        secret.copy_from_slice(&bytes[32..48]);
        Ok(Self {
            seq: u64_at(bytes, 16),
            made_ms: u64_at(bytes, 24) as i64,
            secret,
            cost_max: u64_at(bytes, 48),
            entries: u64_at(bytes, 56),
        })
    }
}

/// An entry of the table, where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept<'a> {
    /// Its key.
    pub key: Key,
    /// When it was put last.
    pub order: u64,
    /// When it goes.
    pub rank: Rank,
    /// A profile or an alias.
    pub value: &'a [u8],
}

impl<'a> Kept<'a> {
    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        // A value is a profile, whose bound fits two bytes, or an alias.
        let length = u16::try_from(self.value.len()).unwrap_or(u16::MAX);
        let mut head = [0; ENTRY_HEADER_BYTES];
        head[0..8].copy_from_slice(&self.key.0[0].to_le_bytes());
        head[8..16].copy_from_slice(&self.key.0[1].to_le_bytes());
        head[16..24].copy_from_slice(&self.order.to_le_bytes());
        head[24] = self.rank as u8;
        head[26..28].copy_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&head);
        out.extend_from_slice(&self.value[..usize::from(length)]);
    }

    /// The entry at the beginning of `bytes`, if all checks pass.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(ENTRY_HEADER_BYTES)?;
        let length = usize::from(u16_at(head, 26));
        let rank = *[Rank::Alias, Rank::Once, Rank::Known].get(usize::from(head[24]))?;
        let is_valid = head[25] == 0 && length <= PROFILE_BYTES_MAX;
        is_valid.then_some(Self {
            key: Key([u64_at(head, 0), u64_at(head, 8)]),
            order: u64_at(head, 16),
            rank,
            value: rest.get(..length)?,
        })
    }

    /// Bytes that it takes.
    pub fn encoded_len(&self) -> usize {
        ENTRY_HEADER_BYTES + self.value.len()
    }
}

/// Begins a block in `out`, which is emptied; its entries are to be appended, then [`end_block`] called.
pub fn begin_block(out: &mut Vec<u8>) {
    out.clear();
    out.resize(BLOCK_HEADER_BYTES, 0);
}

/// Writes the header of the block that `block` is; its crc is the answer.
pub fn end_block(block: &mut [u8], count: u32) -> u32 {
    let length = block.len() as u32;
    block[0..8].copy_from_slice(&BLOCK_MAGIC);
    block[8..12].copy_from_slice(&length.to_le_bytes());
    block[16..20].copy_from_slice(&count.to_le_bytes());
    put_crc(block)
}

/// The length that the block header at the beginning of `bytes` names, if it may be one.
pub fn block_length(bytes: &[u8]) -> Option<usize> {
    if bytes.len() < BLOCK_HEADER_BYTES || bytes[..8] != BLOCK_MAGIC {
        return None;
    }
    let length = u32_at(bytes, 8) as usize;
    (BLOCK_HEADER_BYTES + ENTRY_HEADER_BYTES..=CHECKPOINT_BLOCK_BYTES).contains(&length).then_some(length)
}

/// Count and crc of the whole block that `bytes` are, if its checks pass but for those of its entries.
pub fn block_checked(bytes: &[u8]) -> Option<(u32, u32)> {
    let crc = (block_length(bytes)? == bytes.len()).then(|| crc_of(bytes))?;
    let count = u32_at(bytes, 16);
    (crc == u32_at(bytes, 12) && count > 0 && u32_at(bytes, 20) == 0).then_some((count, crc))
}

/// The sum of a run that goes on with a block of this crc.
pub fn sum_on(sum: u32, crc: u32) -> u32 {
    castagnoli(&[&sum.to_le_bytes(), &crc.to_le_bytes()])
}

/// A run, as the trailer tells of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Run {
    /// Offset of its first block.
    pub at: u64,
    /// Of all its blocks.
    pub bytes: u64,
    /// In all its blocks.
    pub entries: u64,
    /// Of its blocks' crcs.
    pub sum: u32,
}

/// The trailer that stands at `at`, of a file with this header.
pub fn trailer_to_bytes(runs: &[Run], header: &[u8; HEADER_BYTES], at: u64) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    let entries: u64 = runs.iter().map(|run| run.entries).sum();
    bytes[0..8].copy_from_slice(&TRAILER_MAGIC);
    bytes[8..12].copy_from_slice(&((TRAILER_BYTES + runs.len() * RUN_BYTES) as u32).to_le_bytes());
    bytes[16..24].copy_from_slice(&entries.to_le_bytes());
    bytes[24..28].copy_from_slice(&(runs.len() as u32).to_le_bytes());
    bytes[28..32].copy_from_slice(&header[68..72]);
    for run in runs {
        [run.at, run.bytes, run.entries].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend(run.sum.to_le_bytes());
        bytes.extend([0; 4]);
    }
    bytes.extend(at.to_le_bytes());
    put_crc(&mut bytes);
    bytes
}

/// The runs that the trailer at `at` tells of, if its checks pass, for a file with this header.
pub fn trailer_from_bytes(bytes: &[u8], header: &[u8; HEADER_BYTES], at: u64) -> Option<Vec<Run>> {
    if bytes.len() < TRAILER_BYTES || bytes[..8] != TRAILER_MAGIC || crc_of(bytes) != u32_at(bytes, 12) {
        return None;
    }
    let count = u32_at(bytes, 24) as usize;
    let fits = count <= CHECKPOINT_RUNS_MAX
        && bytes.len() == TRAILER_BYTES + count * RUN_BYTES
        && u32_at(bytes, 8) as usize == bytes.len()
        && bytes[28..32] == header[68..72]
        && bytes[16..24] == header[56..64];
    if !fits {
        return None;
    }
    let run = |bytes: &[u8]| Run {
        at: u64_at(bytes, 0),
        bytes: u64_at(bytes, 8),
        entries: u64_at(bytes, 16),
        sum: u32_at(bytes, 24),
    };
    let runs: Vec<Run> = bytes[32..32 + count * RUN_BYTES].chunks_exact(RUN_BYTES).map(run).collect();
    let behind = runs.iter().try_fold(HEADER_BYTES as u64, |end, run| {
        if run.at == end { end.checked_add(run.bytes) } else { None }
    });
    let entries = runs.iter().try_fold(0u64, |sum, run| sum.checked_add(run.entries));
    (behind == Some(at) && entries == Some(u64_at(bytes, 16))).then_some(runs)
}

fn crc_of(bytes: &[u8]) -> u32 {
    castagnoli(&[&bytes[..12], &bytes[16..]])
}

fn put_crc(bytes: &mut [u8]) -> u32 {
    let crc = crc_of(bytes);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    crc
}
