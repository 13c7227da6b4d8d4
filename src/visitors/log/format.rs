//! The files of the log: what visitors did, in order. THE SPEC; it stands nowhere else.
//!
//! **Purpose.** One writer appends records in batches to the *active* segment, seals it at a size and
//! begins the next. Recovery, `export` and `check` read; recovery cuts tails; retention deletes from the
//! front; an erasure makes records void. Segments are data: every released format version is read for ever.
//!
//! **Bounds.** All numbers are little-endian, on every machine. The bounds stand in `limits.rs`:
//! `TEXT_BYTES_MAX`, `PAYLOAD_BYTES_MAX`, `BATCH_BYTES_MAX`, `BATCH_RECORDS_MAX`, `FOOTER_BYTES_MAX`.
//! Times are Unix milliseconds within ±2^47 (the year 6429).
//!
//! # The folder
//!
//! ```text
//! NAME                            WHAT
//! lock                            empty; locked while a server has the folder
//! 00000000000000000001.segment    its name is its first seq: lexical order is seq order
//! 00000000000000000001.torn-1     what recovery cut from that segment; only erasures read it
//! oldest                          what retention let go: segments that end below this seq are to be deleted
//! secret                          by which tombstones name ids; made by the first erasure; mode 0600
//! erasing                         empty; there while an erasure is under way
//! .new                            a file being written, not yet there; deleted at the next start
//! .rewritten                      the same, of an erasure: it works beside the writer
//! ```
//!
//! Other names are others': a follower may keep files here that stand for records, and says how far (`Follower::covered`).
//!
//! Every file but `lock` is written as `.new` or `.rewritten`, with all that it must hold at once, synced, renamed into
//! its place, and the folder synced. So no header is ever torn, and a segment of the same name is replaced at once.
//!
//! # A segment
//!
//! ```text
//! +--------+-------+-------+-- - - --+--------+---------+
//! | header | batch | batch |         | footer | trailer |     a batch begins at a multiple of 8;
//! | (40)   |       |       |         |        | (24)    |     footer and trailer once it is sealed,
//! +--------+-------+-------+-- - - --+--------+---------+     zeros until then
//!
//! HEADER
//! OFFSET  SIZE  FIELD           MEANING
//! 0       8     magic           FF 50 4C 58 53 45 47 4D ("\xFFPLXSEGM")
//! 8       4     format version  1
//! 12      4     header length   40; the first batch begins here
//! 16      8     first seq       of the segment; all below it were durable when the segment was made
//! 24      8     created         milliseconds
//! 32      4     zero
//! 36      4     crc             CRC-32C of bytes 0..36
//!
//! BATCH
//! 0       8     magic           FF 50 4C 58 42 41 54 43 ("\xFFPLXBATC")
//! 8       4     length          of the batch, header included; a multiple of 8
//! 12      4     crc             CRC-32C of bytes 0..12 and 16..length
//! 16      8     first seq       of its first record; the others follow without a gap
//! 24      4     count           of records; 0 is a *mark*, which only names the durable seq
//! 28      4     zero
//! 32      8     durable         all seqs up to this one were durable when the batch was written
//! 40      n     records
//!
//! RECORD
//! 0       4     length          of the record; a multiple of 8
//! 4       1     kind            0 void, see Erasing; 1 page, 2 track, 3 identify, 4 profile, 5 screen, 6 group,
//!                               7 alias, 32 tombstone, see Erasing
//! 5       1     flags           bit 0 bot, bit 1 gpc; the others 0
//! 6       2     zero
//! 8       8     received        milliseconds
//! 16      8     timestamp       milliseconds
//! 24      24    key             three times 8 bytes: 0 and bytes 0..7 of the duplicate key; 0 and bytes 7..14;
//!                               0, bytes 14..16, 0, and the payload's length (4). Key 0: never a duplicate
//! 48      18    lengths         2 each, of site, message id, anon id, user id, event, name, path, variants, ip;
//!                               FFFF: absent
//! 66      6     zero
//! 72      n     texts           the columns that are not absent, in that order, UTF-8
//!         n     payload         JSON, UTF-8
//!         0-7   zero            up to a multiple of 8
//!
//! FOOTER
//! 0       8     magic           FF 50 4C 58 46 4F 4F 54 ("\xFFPLXFOOT")
//! 8       8     first seq       as in the header
//! 16      8     last seq        of the segment, durable; one less than the first in a segment without records
//! 24      8     oldest          received time of its records, milliseconds
//! 32      8     newest          the same
//! 40      4     entries         of the index
//! 44      4     keys            one a record, in order
//! 48      4     filter bytes    a power of two, at least 8
//! 52      4     zero
//! 56      16 n  index           seq (8), offset of the batch that begins with it (8); one every 64 KB or so
//!         24 n  keys            as in the record, but in place of the payload's length the received time less
//!                               the oldest (FFFFFFFF: that or more)
//!         n     filter          a bit array: see `filter.rs`
//!
//! TRAILER, the file's last bytes
//! 0       8     footer at       offset of the footer, a multiple of 8
//! 8       4     zero
//! 12      4     crc             CRC-32C of the footer, and of the trailer's bytes 0..12 and 16..24
//! 16      8     magic           FF 50 4C 58 54 41 49 4C ("\xFFPLXTAIL")
//!
//! OLDEST, a file of its own
//! 0       8     magic           FF 50 4C 58 4F 4C 44 53 ("\xFFPLXOLDS")
//! 8       8     seq             the first that is kept
//! 16      4     zero
//! 20      4     crc             CRC-32C of bytes 0..20
//!
//! SECRET, a file of its own
//! 0       8     magic           FF 50 4C 58 53 45 43 52 ("\xFFPLXSECR")
//! 8       32    key             random
//! 40      4     zero
//! 44      4     crc             CRC-32C of bytes 0..44
//! ```
//!
//! **No payload forges a batch.** A magic begins with FF, which no UTF-8 has, and stands at a multiple of 8. Of
//! the other bytes at multiples of 8, those of a key are 0; those of lengths, seqs and times may be FF, but bounds keep
//! what follows from being 50 4C 58.
//!
//! # What is valid
//!
//! **A segment's first seq voids**: whatever an earlier segment holds at or above it is void, intact or not. It is
//! there because a sync failed and its pages reached the disk all the same, or because a process ended before it
//! was synced.
//!
//! **A seq above `SEQ_MAX`** is damage, wherever it stands.
//!
//! **The watermark** is the greatest of: every header's first seq less one, every batch's `durable`, every footer's
//! last seq. What these fields name was durable before they were written, so they prove it however they came to be read.
//! Damage above the watermark is a torn tail; damage at or below it is a loss, and loud.
//!
//! **Checks on reading a segment**, in this order: header (length, magic, crc; then format version; then the
//! first seq against the name's, by which recovery names the file again unless another has that name; where the header is
//! damaged the name stands in); trailer (magic, bounds, crc), without which the segment is one that was not sealed, and
//! scanned to its end; batches from the header to the footer, to the end, or to where no more than
//! `RESERVED_BYTES_MAX` zeros are left: magic, length (a multiple of 8, in bounds, inside the file), crc, count, durable
//! below the first seq, every record (length, kind, flags, zeros, texts inside it, UTF-8), as many records as the count says. After a
//! batch that fails, reading goes on at the next multiple of 8 where a batch passes all of this. Then the seqs:
//! each batch begins where the one before ended.
//!
//! **Writing** a batch: one append, over zeros where there are some; with `--ack disk` one fdatasync before anything
//! is acknowledged. A batch for which the zeros were not enough has more of them laid behind it before its sync: what goes over
//! zeros needs no new length and no new blocks, so its sync writes less. Sealing: sync, append footer and trailer, cut the zeros
//! behind them, sync. After a failed append or sync the file is left alone for ever, and a new segment begins at the last
//! durable seq plus one; it holds whatever of the old one is to be kept before its name is seen.
//!
//! **A crash can leave**: a last batch, or with `--ack written` the last 100 ms of them, cut, with holes, or in
//! part; zeros; a part of a footer; a tail that a later segment voids; `.new`; a segment that `oldest` lets go.
//! Recovery writes the whole batches above the watermark anew into the segment that it begins, keeps what is torn
//! or void aside, and cuts the old file.
//!
//! # Erasing
//!
//! **A void record** is one whose content was erased: of what stood there its seq, its length and its received time stay.
//! Kind, flags, timestamp and key are 0, all texts absent, and the payload is zeros, as many as fill the length. Readers
//! pass it over.
//!
//! **A tombstone** says which ids were erased: whatever a record before it holds of them is void or to be made so, and an
//! event of the same id behind it is of a new visitor. Its site is a text column, the others are absent; its payload is
//! `{"erased":["...",...]}`, a name for each id, ascending: HMAC-SHA-256 by the key of `secret`, in 64 lower-case hex digits,
//! of the site, FF, `a` or `u` (an anonymous id, a user's), and the id. It is the first record of its segment.
//! A copy of the log that is to know its tombstones needs a copy of `secret`. Without it, or where that is damaged, nobody
//! can tell whom the tombstones name; a new one is made where there is none.
//!
//! **The order**: `erasing`; the active segment is sealed and another begun; the tombstone, durable; then, beside the writer,
//! each segment before it whose filter may contain one of the ids, or that has no footer, is written anew if it holds one of
//! their records or anything that cannot be read; each kept tail likewise; then `erasing` goes. While it is there nothing is
//! deleted by retention, so that no rename brings back what was let go. Written anew means: whole batches, at the offsets
//! where they stood, with the visitor's records void; zeros in place of damage, for whose it was cannot be told; without what
//! the next segment voids and what is torn at the end; and a footer: index and times as before, the keys of void records 0,
//! a filter of what is left. A tail of which no batch is left is deleted.
//!
//! **A crash can leave** `erasing`. A start that finds it finishes before it reads on: in every segment but the last (a
//! tombstone's own is never before it) each record that a later tombstone names becomes void. An erasure that finds it, left
//! by one that failed, does the same. Doing it again changes nothing.
//!
//! **A version change** may add kinds, columns, fields; the header's length and format version say so, and a reader
//! refuses a format version that it does not know.
//!
//! **The smallest file in hex** is `tests/golden/smallest.segment.hex`, a golden test: one record, sealed.

use std::ops::Range;

use super::record::{Record, encoded};
use crate::checksum::castagnoli;
use crate::limits::{BATCH_BYTES_MAX, BATCH_RECORDS_MAX, SEQ_MAX};

/// A segment's first bytes.
pub const SEGMENT_MAGIC: [u8; 8] = *b"\xFFPLXSEGM";
/// A batch's first bytes.
pub const BATCH_MAGIC: [u8; 8] = *b"\xFFPLXBATC";
/// A footer's first bytes.
pub const FOOTER_MAGIC: [u8; 8] = *b"\xFFPLXFOOT";
/// A sealed segment's last bytes.
pub const TRAILER_MAGIC: [u8; 8] = *b"\xFFPLXTAIL";
/// The first bytes of `oldest`.
pub const OLDEST_MAGIC: [u8; 8] = *b"\xFFPLXOLDS";
/// The first bytes of `secret`.
pub const SECRET_MAGIC: [u8; 8] = *b"\xFFPLXSECR";
/// The format that this release writes.
pub const FORMAT_VERSION: u32 = 1;
/// Bytes before the first batch.
pub const HEADER_BYTES: usize = 40;
/// Bytes before a batch's first record.
pub const BATCH_HEADER_BYTES: usize = 40;
/// Bytes of `oldest`.
pub const OLDEST_BYTES: usize = 24;
/// Bytes of `secret`.
pub const SECRET_BYTES: usize = 48;

/// A segment's header, but for magic and format version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// All below it were durable when the segment was made.
    pub first_seq: u64,
    /// Milliseconds.
    pub created_ms: i64,
}

/// Why a file cannot be read as what its name says.
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
        bytes[0..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_seq.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.created_ms.to_le_bytes());
        let crc = castagnoli(&[&bytes[..36]]);
        bytes[36..40].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header at the beginning of `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, HeaderFault> {
        let whole = bytes.len() >= HEADER_BYTES && bytes[..8] == SEGMENT_MAGIC;
        if !whole || castagnoli(&[&bytes[..36]]) != u32_at(bytes, 36) {
            return Err(HeaderFault::Damaged);
        }
        let first_seq = u64_at(bytes, 16);
        match (u32_at(bytes, 8), u32_at(bytes, 12)) {
            (FORMAT_VERSION, 40) if (1..=SEQ_MAX).contains(&first_seq) => {
                Ok(Self { first_seq, created_ms: u64_at(bytes, 24) as i64 })
            }
            (FORMAT_VERSION, _) => Err(HeaderFault::Damaged),
            (version, _) => Err(HeaderFault::Version(version)),
        }
    }
}

/// Begins a batch at the end of `out`; its records are to be appended, then [`end_batch`] called with the answer.
pub fn begin_batch(out: &mut Vec<u8>) -> usize {
    out.resize(out.len() + BATCH_HEADER_BYTES, 0);
    out.len() - BATCH_HEADER_BYTES
}

/// Writes the header of the batch that begins at `start` of `out` and goes to its end.
pub fn end_batch(out: &mut [u8], start: usize, first_seq: u64, count: u32, durable: u64) {
    let batch = &mut out[start..];
    let length = batch.len() as u32;
    batch[0..8].copy_from_slice(&BATCH_MAGIC);
    batch[8..12].copy_from_slice(&length.to_le_bytes());
    batch[16..24].copy_from_slice(&first_seq.to_le_bytes());
    batch[24..28].copy_from_slice(&count.to_le_bytes());
    batch[32..40].copy_from_slice(&durable.to_le_bytes());
    let crc = castagnoli(&[&batch[..12], &batch[16..]]);
    batch[12..16].copy_from_slice(&crc.to_le_bytes());
}

/// The length that the batch header at the beginning of `bytes` names, if it may be one.
pub fn batch_length(bytes: &[u8]) -> Option<usize> {
    if bytes.len() < BATCH_HEADER_BYTES || bytes[..8] != BATCH_MAGIC {
        return None;
    }
    let length = u32_at(bytes, 8) as usize;
    let fits = (BATCH_HEADER_BYTES..=BATCH_BYTES_MAX).contains(&length) && length.is_multiple_of(8);
    fits.then_some(length)
}

/// A batch whose checks have passed.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// All of it, header included.
    pub bytes: &'a [u8],
    /// All up to this one were durable when it was written.
    pub durable: u64,
    /// What it holds.
    pub records: Records<'a>,
}

impl<'a> Batch<'a> {
    /// The batch that `bytes` are, if all checks pass.
    pub fn checked(bytes: &'a [u8]) -> Option<Self> {
        if batch_length(bytes) != Some(bytes.len())
            || castagnoli(&[&bytes[..12], &bytes[16..]]) != u32_at(bytes, 12)
        {
            return None;
        }
        let batch = Self::trusted(bytes);
        let Records { first_seq, count, .. } = batch.records;
        let in_bounds = count as usize <= BATCH_RECORDS_MAX && u32_at(bytes, 28) == 0;
        let in_order =
            batch.durable < first_seq && first_seq <= SEQ_MAX && batch.records.seqs().end <= SEQ_MAX + 1;
        (in_bounds && in_order && batch.records.are_whole()).then_some(batch)
    }

    /// The batches end to end in `bytes`, which this process has written or checked.
    pub fn all(mut bytes: &'a [u8]) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let (batch, rest) = bytes.split_at_checked(batch_length(bytes)?)?;
            bytes = rest;
            Some(Self::trusted(batch))
        })
    }

    /// The batch that `bytes` are known to be.
    pub(super) fn trusted(bytes: &'a [u8]) -> Self {
        let (first_seq, count) = (u64_at(bytes, 16), u32_at(bytes, 24));
        let records = Records { first_seq, count, bytes: &bytes[BATCH_HEADER_BYTES..] };
        Self { bytes, durable: u64_at(bytes, 32), records }
    }
}

/// Records with seqs that follow each other.
#[derive(Debug, Clone, Copy)]
pub struct Records<'a> {
    /// Of the first.
    pub first_seq: u64,
    /// How many.
    pub count: u32,
    bytes: &'a [u8],
}

impl<'a> Records<'a> {
    /// The seqs.
    pub fn seqs(&self) -> Range<u64> {
        self.first_seq..self.first_seq + u64::from(self.count)
    }

    /// Bytes of all.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Each with its seq.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Record<'a>)> + use<'a> {
        let mut rest = self.bytes;
        self.seqs().map_while(move |seq| {
            let (record, length) = Record::decode(rest)?;
            rest = &rest[length..];
            Some((seq, record))
        })
    }

    /// Each as it stands; what its columns hold is not looked at.
    pub(super) fn encoded(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        encoded(self.bytes).take(self.count as usize)
    }

    /// Those from `seq` on.
    #[must_use]
    pub fn from(mut self, seq: u64) -> Self {
        while self.count > 0 && self.first_seq < seq {
            let Some((_, length)) = Record::decode(self.bytes) else { break };
            self.bytes = &self.bytes[length..];
            self.first_seq += 1;
            self.count -= 1;
        }
        self
    }

    /// Those below `seq`.
    #[must_use]
    pub fn until(mut self, seq: u64) -> Self {
        let room = u32::try_from(seq.saturating_sub(self.first_seq)).unwrap_or(u32::MAX);
        self.count = self.count.min(room);
        self
    }

    /// The seq of the record that byte `at` of all these records' bytes is of.
    pub fn seq_at(&self, at: usize) -> Option<u64> {
        let mut end = 0;
        self.seqs().find(|_| {
            end += self.bytes.get(end..).and_then(Record::decode).map_or(0, |(_, length)| length);
            at < end
        })
    }

    fn are_whole(&self) -> bool {
        let mut rest = self.bytes;
        for _ in 0..self.count {
            let Some((_, length)) = Record::decode(rest) else { return false };
            rest = &rest[length..];
        }
        rest.is_empty()
    }
}

/// The content of `oldest`.
pub fn oldest_to_bytes(seq: u64) -> [u8; OLDEST_BYTES] {
    let mut bytes = [0; OLDEST_BYTES];
    bytes[0..8].copy_from_slice(&OLDEST_MAGIC);
    bytes[8..16].copy_from_slice(&seq.to_le_bytes());
    let crc = castagnoli(&[&bytes[..20]]);
    bytes[20..24].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The seq that `oldest` names; `None` where it is damaged.
pub fn oldest_from_bytes(bytes: &[u8]) -> Option<u64> {
    let whole = bytes.len() == OLDEST_BYTES && bytes[..8] == OLDEST_MAGIC;
    let seq = (whole && castagnoli(&[&bytes[..20]]) == u32_at(bytes, 20)).then(|| u64_at(bytes, 8))?;
    (seq <= SEQ_MAX).then_some(seq)
}

/// The content of `secret`.
pub fn secret_to_bytes(key: &[u8; 32]) -> [u8; SECRET_BYTES] {
    let mut bytes = [0; SECRET_BYTES];
    bytes[0..8].copy_from_slice(&SECRET_MAGIC);
    bytes[8..40].copy_from_slice(key);
    let crc = castagnoli(&[&bytes[..44]]);
    bytes[44..48].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The key that `secret` holds; `None` where it is damaged.
pub fn secret_from_bytes(bytes: &[u8]) -> Option<[u8; 32]> {
    let whole = bytes.len() == SECRET_BYTES && bytes[..8] == SECRET_MAGIC;
    let is_sound = whole && castagnoli(&[&bytes[..44]]) == u32_at(bytes, 44);
    is_sound.then(|| bytes[8..40].try_into().ok()).flatten()
}

/// Two bytes at `at`, which must be there.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Four bytes at `at`, which must be there.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

/// Eight bytes at `at`, which must be there.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}
