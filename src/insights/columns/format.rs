//! The format of column files. This module doc is the only specification.
//!
//! **Purpose.** A column file has the facts that Insights counts. They are the facts about the records of one sealed
//! segment, column by column. A column file is *derived*: the server builds a missing or damaged file again from the
//! segment. Recovery never needs a column file. The threads `columns` and `insights` of a server write column files,
//! and `parallax insights` reads them. Retention deletes the column file of a segment together with the segment. An
//! erasure first deletes the column file of a segment, and then rewrites the segment. A start with `--insights-memory
//! 0` deletes all column files.
//!
//! **Bounds.** All numbers are little-endian on every machine. A file has at most `SEGMENT_RECORDS_MAX` rows. A text
//! column has at most `COLUMN_TEXTS_MAX` texts. The columns 5..18 together have at most `COLUMN_TEXT_BYTES_MAX` bytes of
//! text, and each property column has at most `PROPERTY_TEXT_BYTES_MAX`. Any further text becomes `(other)`.
//!
//! # Directory
//!
//! ```text
//! NAME                            CONTENT
//! 00000000000000000001.columns    the columns of the segment with this name
//! columns-key                     the key of the visitor hashes: 16 random bytes; mode 0600
//! .columns                        an unfinished file of the thread `columns`, or the unfinished key; deleted at the next start
//! .columns-asked                  an unfinished file of the thread `insights`; deleted at the next start
//! ```
//!
//! # File
//!
//! ```text
//! +--------+---------+---------+-- - - --+---------+
//! | header | section | section |         | section |    61 sections without gaps, in the order of their numbers
//! | (552)  |         |         |         |         |
//! +--------+---------+---------+-- - - --+---------+
//!
//! HEADER
//! OFFSET  SIZE  FIELD            MEANING
//! 0       8     magic            FF 50 4C 58 43 4F 4C 53 ("\xFFPLXCOLS")
//! 8       4     format version   6
//! 12      4     header length    552; the first section begins here
//! 16      8     first seq        of the segment
//! 24      8     last seq         the seq before the next segment; a file with another last seq is built again
//! 32      4     rows
//! 36      4     visitors
//! 40      8     oldest time      smallest timestamp of a row, Unix milliseconds; 0 if there are no rows
//! 48      8     newest time      largest timestamp of a row, Unix milliseconds; 0 if there are no rows
//! 56      4     key ID           first 4 bytes of XXH3-128 of the key of the visitor hashes
//! 60      488   sections         for each of the 61 sections: its length (4), CRC-32C of its bytes (4)
//! 548     4     crc              CRC-32C of bytes 0..548
//!
//! SECTIONS
//! NUMBER  CONTENT
//! 0       visitors: their 64-bit hashes, sorted, 8 bytes each
//! 1       packed column: timestamp, Unix milliseconds
//! 2       packed column: visitor, as an index into section 0 plus 1; 0 for a record without an ID
//! 3       packed column: kind of the record, plus 32 if the record begins or extends a visit, plus 64 if a crawler sent the
//!         record, plus 128 if the request had `Sec-GPC: 1`
//! 4       packed column: device + 5 * (operating system + 7 * browser), with the numbers of the segment
//! 5..18   packed columns of codes: site, event, path, variants, experiments, referrer host, source, medium,
//!         campaign, term, content, country, language
//! 18..28  property columns: packed columns of codes, one for each property of the site of the row
//! 28..51  the texts of columns 5..28: for each text its length (2) and its bytes in UTF-8
//! 51      amounts: row (4), column (1; 0 revenue, 1 value, 2 total, 3 quantity), amount (8) in units of 10^-4
//!         or the smallest i64 if the value of the property is no amount
//! 52      ties, in the order of their seqs: position of the record (4); anonymous ID and user as indices into section 0
//!         (4 each); 1 for an alias, 2 for the end of a tie, or else 0 (1). The end of a tie has the anonymous ID twice
//! 53      oldest receipt: the smallest receipt time of a row (8), Unix milliseconds; empty if there are no rows
//! 54      packed column: the position of the row in the order of the seqs, from 0
//! 55      users alone: the visitors of page, track and screen events without an anonymous ID, as indices into section 0
//!         (4 each), ascending
//! 56      goal IDs: for each site with goals, the ID of its goals (16)
//! 57      packed column: code of the set of goals of the row; 0 for a row without a goal
//! 58      goal sets: for each code from 1 on, the set (16): bit n is set if the row reaches goal n of its site
//! 59      goal amounts, by row and goal: row (4), goal (1), code of the currency (4), amount (8) as in section 51
//! 60      the texts of the currencies, as in a text column
//!
//! PACKED COLUMN, in blocks of 1,024 rows, the last block with the rest
//! SIZE    FIELD            MEANING
//! 9 each  block headers    smallest number of the block, the base (8); bits of a packed number, at most 56 (1)
//! n each  blocks           number - base in that many bits each, the lowest bit first, without gaps; filled to a byte
//! ```
//!
//! * A *row* is a record of the segment that is neither void nor a tombstone. Rows are sorted by visitor, then by time,
//!   then by seq. So the rows of consecutive visitors are in few blocks. A question that counts the visitors in several
//!   passes reads each block about once in total.
//! * A *visitor hash* is the lower half of an XXH3-128 hash. The input of the hash is the key, the site, a byte 00, the
//!   letter `a` and the anonymous ID. If the record has no anonymous ID, the letter `u` and the user ID replace the
//!   last two. Without the key, nobody can construct a collision.
//! * A *code* is 0 for an absent text, and 1 for `(other)`. The code of any other text is 2 plus the index of the text.
//!   Texts are numbered in the order of their first rows. A screen record has the text `screen` in the column `event`.
//!
//! * A *property column* has the values of the property with its number among the properties of the site of the row, as
//!   the snapshot lists them. `Properties::breakdown` gives the text of a value.
//! * A *goal ID* is an XXH3-128 hash of the site ID, a byte 00, the goals of the site in the form of a snapshot, and for each
//!   property a byte 00 and its path. The goals have the order of the snapshot. If the published goals or properties of a
//!   site have another ID, the server builds the file again.
//!
//! **Order of checks on reading.** Format version, if the magic and the checksum of the header are right. Length of the header, magic,
//! checksum of the header, header length, length of the file, first and last seq against the segment, key ID. The reader checks each section before its first
//! use: first the checksum, then the range of the numbers. If a check fails, the server builds the file again.
//!
//! **Order of writing.** All content under a temporary name, sync, rename, sync of the directory. The rename happens
//! under the lock of `log::ErasureGeneration`, and only if no erasure has begun since the segment was read. So no
//! column file has records that an erasure has removed. The file does not contain the erasure generation. An erasure
//! deletes the column file of each segment before it rewrites the segment. A start that finds an unfinished erasure
//! deletes all column files.
//!
//! **Crashes.** A crash can leave a temporary file, or a column file whose segment is deleted. The next start deletes
//! such files.
//!
//! **Changes.** A new version can change every part of the format, because the server builds each file of an older
//! version again. Version 2 had neither `term` nor `content`. `tests/golden/columns-2/` is a log with such a file.
//! Version 3 had no aliases, no flag for visits and no users alone. `tests/golden/log-2/` has a file of version 3.
//! Version 4 had no goals. `tests/golden/columns-4/` is a log with such a file.
//! Version 5 had no properties. `tests/golden/columns-5/` is a log with such a file.
//!
//! # The smallest file
//!
//! `tests/golden/smallest.columns.hex` is the file of a segment with one page event.

use crate::checksum::crc32c;
use crate::limits::{PROPERTIES_MAX, SEGMENT_RECORDS_MAX};
use crate::little_endian::{u32_at, u64_at};
use crate::log::format::header_version;
use crate::log::{COLUMNS_SUFFIX, column_file_name};

pub(crate) const MAGIC: [u8; 8] = *b"\xFFPLXCOLS";
const FORMAT_VERSION: u32 = 6;
/// Length of the header, in bytes.
pub(crate) const HEADER_BYTES: usize = 552;
const SECTIONS_OFFSET: usize = 60;
const CRC_OFFSET: usize = HEADER_BYTES - 4;
/// Number of sections.
pub(crate) const SECTIONS: usize = 61;

/// Maximum number of texts in one column of a file. Any further text becomes `(other)`. So the memory of a question has
/// a bound.
pub const COLUMN_TEXTS_MAX: usize = 65_536;
/// Maximum number of bytes of the texts in all columns of a file together, without those of properties. Any further text becomes
/// `(other)`.
pub const COLUMN_TEXT_BYTES_MAX: usize = 4 << 20;
/// Maximum number of bytes of the texts of one property in a file. Any further text becomes `(other)`. The limit is that of one
/// property, so that no property displaces the texts of another one.
pub const PROPERTY_TEXT_BYTES_MAX: usize = 1 << 20;

/// The code of an absent text.
pub(crate) const CODE_ABSENT: u32 = 0;
/// The code of each text beyond [`COLUMN_TEXTS_MAX`] or [`COLUMN_TEXT_BYTES_MAX`].
pub(crate) const CODE_OTHER: u32 = 1;
/// The code of the first text.
pub(crate) const CODE_FIRST: u32 = 2;
/// The text of [`CODE_OTHER`] in answers.
pub(crate) const OTHER: &str = "(other)";

/// The name of a screen event in columns and answers.
pub(crate) const SCREEN: &str = "screen";

pub(crate) const VISITORS: usize = 0;
pub(crate) const TIMES: usize = 1;
pub(crate) const ROW_VISITORS: usize = 2;
pub(crate) const KINDS: usize = 3;
pub(crate) const AGENTS: usize = 4;
const CODES: usize = 5;
pub(crate) const AMOUNTS: usize = CODES + 2 * TextColumn::COUNT;
pub(crate) const TIES: usize = AMOUNTS + 1;
pub(crate) const OLDEST_RECEIPT: usize = AMOUNTS + 2;
pub(crate) const POSITIONS: usize = AMOUNTS + 3;
pub(crate) const USERS_ALONE: usize = AMOUNTS + 4;
pub(crate) const GOAL_IDS: usize = AMOUNTS + 5;
pub(crate) const GOAL_CODES: usize = AMOUNTS + 6;
pub(crate) const GOAL_SETS: usize = AMOUNTS + 7;
pub(crate) const GOAL_AMOUNTS: usize = AMOUNTS + 8;
pub(crate) const CURRENCIES: usize = AMOUNTS + 9;

/// The bit in the kind of a row that is set if the event begins or extends a visit.
pub(crate) const KIND_VISIT: i64 = 32;
/// The bit in the kind of a row that is set if a crawler sent the record.
pub(crate) const KIND_BOT: i64 = 64;
/// The bit in the kind of a row that is set if the request had `Sec-GPC: 1`.
pub(crate) const KIND_GPC: i64 = 128;
/// Length of an entry in the section of amounts, in bytes.
pub(crate) const AMOUNT_BYTES: usize = 13;
/// Length of an entry in the section of goal IDs, in bytes.
pub(crate) const GOAL_ID_BYTES: usize = 16;
/// Length of an entry in the section of goal sets, in bytes.
pub(crate) const GOAL_SET_BYTES: usize = 16;
/// Length of an entry in the section of goal amounts, in bytes.
pub(crate) const GOAL_AMOUNT_BYTES: usize = 17;
/// Length of an entry in the section of ties, in bytes.
pub(crate) const TIE_BYTES: usize = 13;
/// The last byte of an entry of ties, if the record is an alias.
pub(crate) const TIE_ALIAS: u8 = 1;
/// The last byte of an entry of ties, if the record ends the tie.
pub(crate) const TIE_END: u8 = 2;

/// A text column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TextColumn {
    Site,
    Event,
    Path,
    Variants,
    Experiments,
    ReferrerHost,
    Source,
    Medium,
    Campaign,
    Term,
    Content,
    Country,
    Language,
    /// The property with this number among the properties of the site.
    Property(u8),
}

impl TextColumn {
    /// Number of the columns that every event has. Their texts have one limit together.
    pub(crate) const SHARED_COUNT: usize = 13;
    pub(crate) const COUNT: usize = Self::SHARED_COUNT + PROPERTIES_MAX;
    /// The columns that every event has, in the order of their sections.
    pub(crate) const SHARED: [Self; Self::SHARED_COUNT] = [
        Self::Site,
        Self::Event,
        Self::Path,
        Self::Variants,
        Self::Experiments,
        Self::ReferrerHost,
        Self::Source,
        Self::Medium,
        Self::Campaign,
        Self::Term,
        Self::Content,
        Self::Country,
        Self::Language,
    ];

    /// The names of the shared columns in the export, in the order of their sections.
    #[rustfmt::skip]
    const NAMES: [&'static str; Self::SHARED_COUNT] = [
        "site", "event", "path", "variants", "experiments", "referrerHost", "source", "medium", "campaign", "term", "content",
        "country", "language",
    ];

    /// Iterates over all columns, in the order of their sections.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let properties = (0..PROPERTIES_MAX as u8).map(Self::Property);
        Self::SHARED.into_iter().chain(properties)
    }

    /// Returns the index of the column in [`all`](Self::all).
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Property(number) => Self::SHARED_COUNT + usize::from(number),
            Self::Site => 0,
            Self::Event => 1,
            Self::Path => 2,
            Self::Variants => 3,
            Self::Experiments => 4,
            Self::ReferrerHost => 5,
            Self::Source => 6,
            Self::Medium => 7,
            Self::Campaign => 8,
            Self::Term => 9,
            Self::Content => 10,
            Self::Country => 11,
            Self::Language => 12,
        }
    }

    /// Returns the name of the column in the export. A property has the name `property`.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.get(self.index()).copied().unwrap_or("property")
    }

    pub(crate) fn codes_section(self) -> usize {
        CODES + self.index()
    }

    pub(crate) fn texts_section(self) -> usize {
        CODES + Self::COUNT + self.index()
    }
}

/// The header of a column file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The first seq of the segment.
    pub first_seq: u64,
    /// The last seq of the segment.
    pub last_seq: u64,
    pub rows: u32,
    pub visitors: u32,
    /// The smallest timestamp of a row, in milliseconds.
    pub oldest_ms: i64,
    /// The largest timestamp of a row, in milliseconds.
    pub newest_ms: i64,
    /// The ID of the key of the visitor hashes.
    pub key_id: u32,
    pub(super) sections: [Section; SECTIONS],
}

/// The entry of a section in the header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Section {
    /// The length in bytes.
    pub length: u32,
    /// The CRC-32C of the bytes.
    pub crc: u32,
}

impl Header {
    /// Encodes the header.
    pub(crate) fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_seq.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.last_seq.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.rows.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.visitors.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.oldest_ms.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.newest_ms.to_le_bytes());
        bytes[56..60].copy_from_slice(&self.key_id.to_le_bytes());
        let entries = bytes[SECTIONS_OFFSET..CRC_OFFSET].chunks_exact_mut(8);
        for (entry, section) in entries.zip(self.sections) {
            entry[..4].copy_from_slice(&section.length.to_le_bytes());
            entry[4..].copy_from_slice(&section.crc.to_le_bytes());
        }
        let crc = crc32c(&[&bytes[..CRC_OFFSET]]);
        bytes[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes the header at the start of a file.
    ///
    /// # Errors
    /// Returns the error of the first check that fails.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, ColumnFileError> {
        // The header of another version has another length.
        let version = header_version(bytes, MAGIC);
        if let Some(version) = version.filter(|version| *version != FORMAT_VERSION) {
            return Err(ColumnFileError::UnsupportedVersion(version));
        }
        let bytes = bytes
            .get(..HEADER_BYTES)
            .ok_or(ColumnFileError::Damaged("the file is shorter than its header"))?;
        if bytes[..8] != MAGIC {
            return Err(ColumnFileError::Damaged("the magic number is wrong"));
        }
        if version.is_none() {
            return Err(ColumnFileError::Damaged("the checksum of the header is wrong"));
        }
        if u32_at(bytes, 12) as usize != HEADER_BYTES {
            return Err(ColumnFileError::Damaged("the header has another length"));
        }
        let entry = |section: usize| {
            let offset = SECTIONS_OFFSET + 8 * section;
            Section { length: u32_at(bytes, offset), crc: u32_at(bytes, offset + 4) }
        };
        let header = Self {
            first_seq: u64_at(bytes, 16),
            last_seq: u64_at(bytes, 24),
            rows: u32_at(bytes, 32),
            visitors: u32_at(bytes, 36),
            oldest_ms: u64_at(bytes, 40) as i64,
            newest_ms: u64_at(bytes, 48) as i64,
            key_id: u32_at(bytes, 56),
            sections: std::array::from_fn(entry),
        };
        let are_bounded = u64::from(header.rows) <= SEGMENT_RECORDS_MAX
            && u64::from(header.visitors) <= 2 * u64::from(header.rows)
            && header.sections[VISITORS].length as usize == 8 * header.visitors as usize;
        are_bounded
            .then_some(header)
            .ok_or(ColumnFileError::Damaged("a number in the header is out of range"))
    }

    /// Returns the offset of a section in the file.
    pub(crate) fn section_offset(&self, section_index: usize) -> u64 {
        let before = self.sections[..section_index].iter();
        HEADER_BYTES as u64 + before.map(|section| u64::from(section.length)).sum::<u64>()
    }

    /// Returns the length of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.section_offset(SECTIONS)
    }
}

/// The reason why a column file is not used. The server builds such a file again from its segment.
#[derive(Debug, thiserror::Error)]
pub enum ColumnFileError {
    #[error("damaged: {0}; the server builds it again")]
    Damaged(&'static str),
    #[error("not used: {0}; the server builds it again")]
    Foreign(&'static str),
    #[error("format version {0} is not supported; the server builds it again")]
    UnsupportedVersion(u32),
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
}

impl ColumnFileError {
    pub(super) const OUT_OF_RANGE: Self = Self::Damaged("a number in a section is out of range");

    /// Returns true if the content of the file is wrong. Returns false if the file could not be read.
    pub(crate) fn is_damage(&self) -> bool {
        !matches!(self, Self::Io(_))
    }
}

/// Parses the first seq in the name of a column file. Returns `None` for other names.
pub(crate) fn parse_column_file_name(name: &str) -> Option<u64> {
    let first_seq = name.strip_suffix(COLUMNS_SUFFIX)?.parse().ok()?;
    (column_file_name(first_seq) == name).then_some(first_seq)
}
