//! The format of the log's files. This module doc is the only specification.
//!
//! **Purpose.** One writer appends records in batches to the *active* segment. It seals the segment at a size
//! limit and begins the next one. Recovery, `export` and `check` read segments. Recovery truncates tails,
//! retention deletes the oldest segments, and an erasure makes records void. Segments are data: every release
//! can read all released format versions.
//!
//! **Bounds.** All numbers are little-endian on every machine. The bounds are in `limits/mod.rs`:
//! `TEXT_BYTES_MAX`, `PAYLOAD_BYTES_MAX`, `FOLD_INPUT_BYTES_MAX`, `BATCH_BYTES_MAX`, `BATCH_RECORDS_MAX`,
//! `FOOTER_BYTES_MAX`, `TOMBSTONE_IDS_MAX`. Times are Unix milliseconds within ±2^47 (the year 6429).
//!
//! # Directory
//!
//! ```text
//! NAME                            CONTENT
//! 00000000000000000001.segment    a segment; its name is its first seq, so that lexical order is seq order
//! 00000000000000000001.torn-1     a tail that recovery quarantined; only erasures read it
//! oldest                          the first seq that retention has kept; earlier segments are expired
//! secret                          the key of the digests in tombstones; made with the directory; mode 0600
//! clock                           the log clock: see `log_clock.rs`
//! erasing                         the marker of an erasure that may not be finished: the seq of its first tombstone (8
//!                                 bytes), and the time of the request (8; not in files of earlier releases)
//! .new                            a file being written, not yet renamed; deleted at the next start
//! .rewritten                      the same for an erasure, which runs at the same time as the writer
//! ```
//!
//! The scrub reads sealed segments and `secret` past the page cache. It keeps its progress in the file `scrub`.
//!
//! A server locks the directory itself (flock), so that no file can be deleted to admit a second server. An erasure locks the file
//! `secret` exclusively until it ends, and `parallax backup` locks it shared, so that no backup has a part of an erasure.
//!
//! Other modules own all other names. A consumer may keep files here that replace records. It then reports
//! the seq up to which they do (`LogConsumer::checkpointed_seq`).
//!
//! Every file is written under the name `.new` or `.rewritten` with its complete initial
//! content. Then the file is synced and renamed, and the directory is synced. So no header is ever torn, and
//! replacing a segment of the same name is atomic.
//!
//! # Segment
//!
//! ```text
//! +--------+-------+-------+-- - - --+--------+---------+
//! | header | batch | batch |         | footer | trailer |     each batch begins at a multiple of 8;
//! | (56)   |       |       |         |        | (24)    |     footer and trailer after sealing,
//! +--------+-------+-------+-- - - --+--------+---------+     reserved zeros until then
//!
//! HEADER
//! OFFSET  SIZE  FIELD           MEANING
//! 0       8     magic           FF 50 4C 58 53 45 47 4D ("\xFFPLXSEGM")
//! 8       4     format version  3; version 2 is read too
//! 12      4     header length   56; the first batch begins here
//! 16      8     first seq       of the segment; all lower seqs were durable when it was created
//! 24      8     created         log clock, milliseconds
//! 32      16    log ID          random, made with the directory; equal in all segments and checkpoints
//! 48      4     zero
//! 52      4     crc             CRC-32C of bytes 0..52
//!
//! BATCH
//! 0       8     magic           FF 50 4C 58 42 41 54 43 ("\xFFPLXBATC")
//! 8       4     length          of the batch, header included; a multiple of 8
//! 12      4     crc             CRC-32C of bytes 0..12 and 16..length
//! 16      8     first seq       of its first record; the others follow without gaps
//! 24      4     count           of records; 0 for a *mark*, which only states the durable seq
//! 28      4     zero
//! 32      8     durable         all seqs up to this one were durable when the batch was written
//! 40      n     records
//!
//! RECORD
//! 0       4     length          of the record; a multiple of 8
//! 4       1     kind            1 page, 2 track, 3 identify, 4 profile, 5 screen, 6 group, 7 alias;
//!                               0 void and 32 tombstone: see Erasing
//! 5       1     flags           bit 0 bot, bit 1 gpc, bit 2 folded although a bot, bit 3 redacted; the others 0
//! 6       2     zero
//! 8       8     received        milliseconds
//! 16      8     timestamp       milliseconds
//! 24      24    key             three times 8 bytes: 0 and bytes 0..7 of the dedup key; 0 and bytes 7..14;
//!                               0, bytes 14..16, 0, and the payload's length (4). Key 0: never a duplicate
//! 48      20    lengths         2 each: site, message ID, anon ID, user ID, event, name, path, variants, ip,
//!                               experiments; FFFF: absent
//! 68      4     fold length     bytes of content of the fold input
//! 72      1     device          0 unknown, 1 desktop, 2 mobile, 3 tablet, 4 bot
//! 73      1     os              0 unknown, 1 Android, 2 ChromeOS, 3 iOS, 4 Linux, 5 macOS, 6 Windows
//! 74      1     browser         0 unknown, 1 Chrome, 2 Edge, 3 Firefox, 4 Internet Explorer, 5 Opera,
//!                               6 Safari, 7 Samsung Internet, 8 Silk, 9 Vivaldi, 10 Yandex
//! 75      2     country         two ASCII letters or digits, upper case; 0: unknown
//! 77      3     language        two or three ASCII letters, lower case, then 0; all 0: unknown
//! 80      n     texts           the present columns, in that order, UTF-8
//!         n     payload         JSON, UTF-8
//!         0-7   zero            padding to a multiple of 8
//!         8 n   fold input      words: a zero byte, then 7 bytes of content; the last word is padded with zeros
//!         8 n   zero            only in a redacted record
//!
//! FOLD INPUT: parts to the end of the content. A number is a varint (LEB128); sized: a number n, then n bytes
//! 1  touch        of a page: a byte with a bit for each present text, from bit 0 on: source, medium, campaign,
//!                 term, content, referrer (only if external); then these texts, sized, UTF-8
//! 2  previous ID  of an alias: sized, UTF-8
//! 4  client times a byte: bit 0 if the event states its time, bit 1 if it or its batch has `sentAt`; then for each bit
//!                 that is set the received time minus that time, in milliseconds, zigzag. Only if `sentAt` is there,
//!                 or the stated time differs from `timestamp`. A record of version 2 has no such part
//! 5  enrolments   of a page or a track event: a byte with their number, 1 to 32; then the phase hashes, 4 bytes each. They
//!                 enrol the anon ID, or the user ID of a record without one. A record of version 3 has no such part
//! 3  changes      of an identify or profile event, to the end: the number of traits left out (2), then
//!                 operations
//! operation       0 set, 1 setOnce, 2 unset, 3 increment, 4 append, 5 union, 6 remove (1); count of traits (2);
//!                 for each its name (sized, UTF-8) and, except for unset, a value
//! value           type in the upper 3 bits of a byte, n in the lower 5 (31: the number n follows):
//!                 0 null (n 0), false (1), true (2); 1 number: n bytes of decimal text; 2 string: n bytes,
//!                 UTF-8; 3 array: n values; 4 object: n times a name (sized) and a value
//!
//! FOOTER
//! 0       8     magic           FF 50 4C 58 46 4F 4F 54 ("\xFFPLXFOOT")
//! 8       8     first seq       as in the header
//! 16      8     last seq        of the segment, durable; the first seq minus one if there are no records
//! 24      8     oldest          received time of its records, milliseconds
//! 32      8     newest          the same
//! 40      4     entries         of the index
//! 44      4     keys            one per record, in order
//! 48      4     filter bytes    a power of two, at least 8
//! 52      4     zero
//! 56      16 n  index           first seq of a batch (8), offset of the batch (8); one per 64 KiB, roughly
//!         24 n  keys            as in the record, but the payload's length is replaced by the received time
//!                               minus the oldest (FFFFFFFF: that or more)
//!         n     filter          a bit array: see `bloom.rs`
//!
//! TRAILER, the file's last bytes
//! 0       8     footer at       offset of the footer, a multiple of 8
//! 8       4     zero
//! 12      4     crc             CRC-32C of the footer, and of the trailer's bytes 0..12 and 16..24
//! 16      8     magic           FF 50 4C 58 54 41 49 4C ("\xFFPLXTAIL")
//!
//! OLDEST, a separate file
//! 0       8     magic           FF 50 4C 58 4F 4C 44 53 ("\xFFPLXOLDS")
//! 8       8     seq             the first that retention has kept
//! 16      4     zero
//! 20      4     crc             CRC-32C of bytes 0..20
//!
//! SECRET, a separate file
//! 0       8     magic           FF 50 4C 58 53 45 43 52 ("\xFFPLXSECR")
//! 8       32    key             random
//! 40      4     zero
//! 44      4     crc             CRC-32C of bytes 0..44
//! ```
//!
//! **A payload cannot forge a batch.** A magic is at a multiple of 8 and begins with FF, a byte that never
//! occurs in UTF-8. The bytes of keys at multiples of 8 are 0. The bytes of lengths, seqs and times there may
//! be FF, but their bounds keep the next three bytes from being 50 4C 58. In fold inputs, which are not UTF-8, the
//! bytes there are 0.
//!
//! **The fold** reads columns and the fold input, never the payload. Without its client times, which take at most 16
//! bytes, and its enrolments, which take at most 130, a fold input is no longer than the payload. The fold uses the column
//! `timestamp`. The client times are kept so that another rule for wrong clocks can be applied to recorded events.
//! Left out are traits with a value over `TRAIT_BYTES_MAX`, with a name over `TRAIT_NAME_BYTES_MAX`, and with a
//! number that does not fit a float. Malformed content ends the reading of a fold input and is no damage.
//!
//! **The log ID** tells a checkpoint of another log from one of this log, and a backup from its original. The log
//! has the ID of its last segment. A segment with another ID is damage.
//!
//! # Validity
//!
//! **Void tails.** The first seq of a segment voids all records of earlier segments at or above that seq,
//! intact or not. Such records exist because a sync failed and its pages reached the disk anyway, or because
//! a process ended before it synced them.
//!
//! **A seq above `SEQ_MAX`** is damage in every field.
//!
//! **The watermark** is the greatest of: every header's first seq minus one, every batch's `durable`, every
//! footer's last seq, every checkpoint's seq. The seqs in these fields were durable before the fields were
//! written. So the fields are proof even if they were not synced themselves. Damage above the watermark is a
//! torn tail. Damage at or below it is a loss, which is reported as an error.
//!
//! **Checks when reading a segment**, in this order:
//!
//! 1. Header: length, magic and crc; then the format version; then the first seq against the file name. If
//!    the two differ, recovery renames the file, unless another file has that name. If the header is damaged,
//!    the file name replaces it.
//! 2. Trailer: magic, bounds, crc. A segment without a valid trailer was not sealed and is scanned to its
//!    end.
//! 3. Batches: from the header to the footer, to the end of the file, or to the place after which there are
//!    at most `RESERVED_BYTES_MAX` zeros. Each batch: magic, length (a multiple of 8, in bounds, inside the
//!    file), crc, count, `durable` below the first seq, every record (length, kind, flags, zeros, context
//!    members, texts and fold input inside the record, UTF-8), and as many records as the count says. After an invalid batch, reading
//!    continues at the next multiple of 8 where a batch passes all checks.
//! 4. Seqs: each batch begins with the seq after the last one of the previous batch.
//!
//! **Writing a batch** is one append, over reserved zeros if there are any. With `--ack disk` one fdatasync
//! follows before anything is acknowledged. If a batch exceeds the reserved zeros, the writer reserves more
//! after the batch, before the sync. Data that overwrites zeros needs neither a new file length nor new
//! blocks, so its sync writes less.
//!
//! **Sealing**: sync, append the footer, truncate the zeros after it, sync, append the trailer, sync. So no
//! crash leaves a trailer after an incomplete footer: that is damage. After a failed append or sync, or after another
//! program has truncated the file, the writer never touches it again. A new segment begins at the last durable seq plus
//! one. It contains all records of the old segment that must be kept before its name becomes visible.
//!
//! **A crash can leave** the following: a last batch (with `--ack written`: the batches of the last 100 ms)
//! that is truncated, has holes or is partly written; zeros; a part of a footer; a tail that a later segment
//! voids; `.new`; a segment that `oldest` has expired. Recovery copies the whole batches above the watermark
//! into the segment that it begins, quarantines torn and void tails, and truncates the old file.
//!
//! # Erasing
//!
//! **A void record** is a record whose content was erased. Its seq, its length and its received time remain, and
//! its dedup key if the key was in the dedup window at the time of the erasure, so that a retry of the event is a
//! duplicate. Kind, flags, timestamp, fold length and context members are 0, all texts are absent, and the payload
//! consists of zeros that fill the length. Readers skip it.
//!
//! **A redacted record** belongs to a visitor that was not erased, and named an erased ID. That ID is absent, in the
//! columns and as `previousId` in the fold input. The enrolments of a removed anon ID are absent too. The payload is `{}`,
//! because the payload repeats the ID. All other fields remain. The record keeps its length, so zeros follow its fold input.
//!
//! No erasure changes the seq, the length or the received time of a record. The positions of exports rely on this: see
//! `position.rs`.
//!
//! **The end of a tie** is a redacted record too. An erased identify event whose anonymous ID had belonged to another user, who
//! was not erased, does not become void: otherwise the ID would return to that user. It keeps its kind, its received time, which
//! is its timestamp too, its site, its anon ID, its length, and its dedup key like a void record. It belongs to the user whose
//! tie it ends.
//!
//! **A tombstone** states which IDs of a visitor were erased. Every earlier record of the visitor is void or must
//! become void. A later event with the same ID belongs to a new visitor. The tombstone's site is a text column, and
//! the other columns are absent. Its payload is `{"owner":"...","erased":["...",...]}` with the digest of the
//! visitor's user ID, or of the anonymous ID of a visitor without a user, and one digest per named ID, at most
//! `TOMBSTONE_IDS_MAX`, in ascending order. Named are the owner and each anonymous ID that the visitor has at that
//! time. A digest is the first 16 bytes of an HMAC-SHA-256 in 32 lower-case hex digits. Its key is in the file
//! `secret`. Its message is the site, the byte FF, `a` (anonymous ID) or `u` (user ID), and the ID. More IDs take
//! several tombstones, at most `TOMBSTONES_PER_BATCH_MAX` in a batch. The tombstones of an erasure are the first
//! records of their segment.
//!
//! To check IDs against the tombstones, a copy of the log needs a copy of `secret`. If the file is missing or
//! damaged, nothing can tell which IDs the tombstones name. A start replaces a missing `secret` and reports an error.
//!
//! **The order of an erasure**:
//!
//! 1. The writer seals the active segment and begins another. Then it creates `erasing`, unless the file names an
//!    erasure that has begun.
//! 2. The writer makes the tombstones durable, from the seq in `erasing` on. Now the erasure has begun.
//! 3. The consumer deletes the profiles that the tombstones name. It makes everything durable that it knows from
//!    records which become void.
//! 4. The erasing thread examines each earlier segment whose filter may contain one of the visitor's IDs, or that
//!    has no footer. If a rule of the caller changes one of its records, or if it holds anything unreadable, the
//!    thread deletes its column file and then rewrites it. Then it does the same with each quarantined tail. The
//!    writer continues meanwhile.
//! 5. The consumer replaces all its files that have something of the visitor. The erasing thread deletes `erasing`.
//!
//! While an erasure runs, retention deletes nothing. Otherwise the rename of a rewritten segment could
//! restore a deleted one.
//!
//! **A rewritten segment** has its whole batches at their old offsets, with the visitor's records void. Zeros
//! replace damage, because nothing can tell which visitor it belongs to. Records that the next segment voids
//! and a torn tail are left out. A new footer has the same index and times, the keys of the records, and a
//! filter of the remaining IDs. A quarantined tail without a whole batch is deleted.
//!
//! **A crash can leave** `erasing`, and a copy of the directory can have it. Only a tombstone proves that the erasure
//! has begun. If the log has a tombstone from the seq in `erasing` on, the erasing thread of the next start repeats
//! steps 3 to 5 for all of these tombstones. If the crash was between two batches of tombstones, the writer
//! appends tombstones for all IDs of the visitor again. The next erasure does the same for one that failed.
//! Repeating it changes nothing. If the log has no such tombstone, the erasure was not begun, and every record of the
//! visitor is there. The file does not name the visitor. So the next start reports the seq and the time, then deletes
//! the file, and the operator erases the visitor again. `check` and `restore` report the same.
//!
//! **A copy beside a running erasure** can have the tombstone and the segments of before, without `erasing`, because each
//! file is copied at another time. And a copy that is older than an erasure lacks its tombstones. `restore` appends them in a
//! segment at the end, creates `erasing` with the seq of the first one, or of the first tombstone with an earlier record that
//! names one of its IDs, and finishes the erasure as the next start would. Such a copy can lack ties of the visitor. So an ID that a
//! tombstone names belongs to its visitor, unless a tie gives it to another user.
//!
//! **A version change** may add kinds, columns and fields. Header length and format version tell the reader.
//! A reader rejects a format version that it does not know. Version 1 is rejected. A record
//! of version 2 or 3 means the same in version 4, so a rewritten segment has version 4.
//!
//! **The filter** of a footer has the anon ID and the user ID of each record, and a `previousId` as both kinds of ID.
//!
//! **The smallest file in hex** is `tests/golden/smallest.segment.hex`, a golden test: one record, sealed.

pub use super::batch::batch_length;
pub(crate) use super::batch::{Batch, begin_batch, end_batch};
pub use super::records::Records;
use crate::checksum::crc32c;
pub(crate) use crate::data_files::SEGMENT_MAGIC;
use crate::ids;
use crate::limits::SEQ_MAX;
use crate::little_endian::{u32_at, u64_at};

/// First bytes of a batch.
pub const BATCH_MAGIC: [u8; 8] = *b"\xFFPLXBATC";
/// First bytes of a footer.
pub(crate) const FOOTER_MAGIC: [u8; 8] = *b"\xFFPLXFOOT";
/// Last bytes of a sealed segment.
pub const TRAILER_MAGIC: [u8; 8] = *b"\xFFPLXTAIL";
/// First bytes of the file `oldest`.
pub(crate) const OLDEST_MAGIC: [u8; 8] = *b"\xFFPLXOLDS";
/// First bytes of the file `secret`.
pub(crate) const SECRET_MAGIC: [u8; 8] = *b"\xFFPLXSECR";
/// The format version that this release writes.
pub(crate) const FORMAT_VERSION: u32 = 4;
/// The earliest format version that this release reads.
pub(crate) const FORMAT_VERSION_MIN: u32 = 2;
/// Length of a segment's header. The first batch begins here.
pub const HEADER_BYTES: usize = 56;
/// Length of a batch's header. Its first record begins here.
pub const BATCH_HEADER_BYTES: usize = 40;
/// Length of a file that has one number, such as `oldest`.
pub(crate) const NUMBER_FILE_BYTES: usize = 24;
/// Length of the file `secret`.
pub(crate) const SECRET_BYTES: usize = 48;

/// The ID of a log: random bits, made with its data directory. The files of another log have another ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogId(pub [u8; 16]);

impl LogId {
    /// Returns a new ID.
    pub(crate) fn random() -> Self {
        let mut id = [0; 16];
        id.as_chunks_mut().0.iter_mut().for_each(|word| *word = ids::random_u64().to_le_bytes());
        Self(id)
    }

    /// Parses the 32 hex digits of an ID.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_id = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = u128::from_str_radix(text, 16).ok().filter(|_| is_id)?;
        Some(Self(id.to_be_bytes()))
    }
}

impl std::fmt::Display for LogId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// A segment's header without magic and format version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// First seq of the segment. All lower seqs were durable when the segment was created.
    pub first_seq: u64,
    /// Creation time in milliseconds.
    pub created_ms: i64,
    /// The ID of the log.
    pub log_id: LogId,
}

/// An error while decoding a segment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderError {
    /// The header is too short, or its magic, checksum, length or first seq is wrong.
    Damaged,
    /// The header is intact, but this release does not know its format version.
    UnsupportedVersion(u32),
}

impl Header {
    /// Encodes the header.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_seq.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.created_ms.to_le_bytes());
        bytes[32..48].copy_from_slice(&self.log_id.0);
        let crc = crc32c(&[&bytes[..HEADER_BYTES - 4]]);
        bytes[HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes the header at the start of `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, HeaderError> {
        let version = header_version(bytes, SEGMENT_MAGIC).ok_or(HeaderError::Damaged)?;
        if !(FORMAT_VERSION_MIN..=FORMAT_VERSION).contains(&version) {
            return Err(HeaderError::UnsupportedVersion(version));
        }
        let first_seq = u64_at(bytes, 16);
        if u32_at(bytes, 12) as usize != HEADER_BYTES || !(1..=SEQ_MAX).contains(&first_seq) {
            return Err(HeaderError::Damaged);
        }
        let mut log_id = [0; 16];
        log_id.copy_from_slice(&bytes[32..48]);
        Ok(Self { first_seq, created_ms: u64_at(bytes, 24) as i64, log_id: LogId(log_id) })
    }
}

/// Returns the format version of an intact header. Headers of all versions have magic, version and length in
/// the same places, and end with their checksum.
pub(crate) fn header_version(bytes: &[u8], magic: [u8; 8]) -> Option<u32> {
    if bytes.len() < 16 || bytes[..8] != magic {
        return None;
    }
    let header = bytes.get(..u32_at(bytes, 12) as usize).filter(|header| header.len() >= 20)?;
    let (content, crc) = header.split_at(header.len() - 4);
    (crc32c(&[content]) == u32_at(crc, 0)).then(|| u32_at(bytes, 8))
}

/// Encodes the content of a file that has one number, such as `oldest`.
pub(super) fn number_to_bytes(magic: [u8; 8], number: u64) -> [u8; NUMBER_FILE_BYTES] {
    let mut bytes = [0; NUMBER_FILE_BYTES];
    bytes[0..8].copy_from_slice(&magic);
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    let crc = crc32c(&[&bytes[..20]]);
    bytes[20..24].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Decodes the number in the content of such a file. Returns `None` if it is damaged.
pub(super) fn number_from_bytes(magic: [u8; 8], bytes: &[u8]) -> Option<u64> {
    let is_whole = bytes.len() == NUMBER_FILE_BYTES && bytes[..8] == magic;
    (is_whole && crc32c(&[&bytes[..20]]) == u32_at(bytes, 20)).then(|| u64_at(bytes, 8))
}

/// Encodes the content of the file `oldest`.
pub fn oldest_to_bytes(seq: u64) -> [u8; NUMBER_FILE_BYTES] {
    number_to_bytes(OLDEST_MAGIC, seq)
}

/// Decodes the content of the file `oldest`. Returns `None` if it is damaged.
pub fn oldest_from_bytes(bytes: &[u8]) -> Option<u64> {
    number_from_bytes(OLDEST_MAGIC, bytes).filter(|seq| *seq <= SEQ_MAX)
}

/// Encodes the content of the file `secret`.
pub fn secret_to_bytes(key: &[u8; 32]) -> [u8; SECRET_BYTES] {
    let mut bytes = [0; SECRET_BYTES];
    bytes[0..8].copy_from_slice(&SECRET_MAGIC);
    bytes[8..40].copy_from_slice(key);
    let crc = crc32c(&[&bytes[..44]]);
    bytes[44..48].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Decodes the key in the content of the file `secret`. Returns `None` if it is damaged.
pub fn secret_from_bytes(bytes: &[u8]) -> Option<[u8; 32]> {
    let is_whole = bytes.len() == SECRET_BYTES && bytes[..8] == SECRET_MAGIC;
    let is_sound = is_whole && crc32c(&[&bytes[..44]]) == u32_at(bytes, 44);
    is_sound.then(|| bytes[8..40].try_into().ok()).flatten()
}
