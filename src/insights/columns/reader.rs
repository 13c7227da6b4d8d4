//! Reads column files. Checks each section of a file before the first use of the section.

use std::ops::{Deref, Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::format::{
    AGENTS, AMOUNT_BYTES, AMOUNTS, CODE_FIRST, CODE_OTHER, COLUMN_TEXT_BYTES_MAX, COLUMN_TEXTS_MAX,
    ColumnFileError, HEADER_BYTES, Header, KINDS, OLDEST_RECEIPT, OTHER, POSITIONS, ROW_VISITORS, Section,
    TIE_ALIAS, TIE_BYTES, TIE_END, TIES, TIMES, TextColumn, USERS_ALONE, VISITORS,
};
use super::goals::SitesGoals;
use super::key::VisitorKey;
use super::packing::{BlockHeaders, PackedColumn};
use super::unstored::UnstoredColumns;
use crate::checksum::crc32c;
use crate::little_endian::{u32_at, u64_at};
use crate::log::SegmentSpan;
use crate::storage::disk::{Disk, DiskFile, read_full};

/// The number of different agent numbers. An agent number means a device, an operating system and a browser.
pub(crate) const AGENT_NUMBERS: usize = 5 * 7 * 11;

/// The columns of a segment, in a column file or in memory. A column file is open only while it is read. So a log with
/// many segments needs few file descriptors.
pub struct Columns {
    header: Header,
    content: Content,
}

/// The blocks of a file that a reader must read.
#[derive(Debug)]
pub(crate) struct FilePart {
    /// The numbers of the blocks, in ascending order. `None` if the reader needs all blocks.
    blocks: Option<Vec<usize>>,
    /// True if the reader has already checked the checksums of all sections.
    is_checked: bool,
}

impl FilePart {
    /// The whole file. The reader has not checked its sections yet.
    pub(crate) const WHOLE: Self = Self { blocks: None, is_checked: false };

    /// Returns the numbers of the blocks that a reader reads. `None` if it reads all blocks.
    pub(crate) fn block_numbers(&self) -> Option<&[usize]> {
        self.blocks.as_deref()
    }
}

enum Content {
    File {
        disk: Arc<dyn Disk>,
        path: PathBuf,
    },
    OpenFile(Box<dyn DiskFile>),
    Memory(Vec<u8>),
    /// The columns of a sealed segment that has no column file.
    Unstored(Arc<UnstoredColumns>, SegmentSpan, Arc<SitesGoals>),
}

/// Columns that can be read without opening a file.
pub(crate) enum OpenColumns<'c> {
    File(Box<Columns>),
    /// Columns in memory, or columns whose file is already open.
    Other(&'c Columns),
}

impl Deref for OpenColumns<'_> {
    type Target = Columns;

    fn deref(&self) -> &Columns {
        match self {
            Self::File(columns) => columns,
            Self::Other(columns) => columns,
        }
    }
}

/// A record that names a tie. `anonymous` and `user` are indices into the visitors of the file.
#[derive(Clone, Copy)]
pub(crate) struct TieRow {
    /// The position of the record in the order of the seqs.
    pub position: u32,
    pub anonymous: u32,
    /// `None` if the record ends the tie of the anonymous ID.
    pub user: Option<u32>,
    /// True if the record is an alias. An alias makes the tie only if the anonymous ID has no tie yet.
    pub is_alias: bool,
}

/// An amount in a column file.
pub(crate) struct AmountEntry {
    pub row: u32,
    /// The index of the property in `VALUE_PROPERTIES`.
    pub column: u8,
    /// The amount in units of 10^-4. `None` if the value of the property is no amount.
    pub units: Option<i64>,
}

impl Columns {
    /// Opens the column file at `path`. The file must belong to the segment with these seqs, and its visitor hashes
    /// must use this key.
    ///
    /// # Errors
    /// The error of the first check that fails.
    pub fn open(
        disk: &Arc<dyn Disk>,
        path: &Path,
        first_seq: u64,
        last_seq: u64,
        key: VisitorKey,
    ) -> Result<Self, ColumnFileError> {
        let Self { header, content: _ } = Self::open_any(&**disk, path)?;
        if header.first_seq != first_seq || header.last_seq != last_seq {
            return Err(ColumnFileError::Foreign("the file is of another segment"));
        }
        if header.key_id != key.id() {
            return Err(ColumnFileError::Foreign("the file has another key"));
        }
        let content = Content::File { disk: Arc::clone(disk), path: path.to_owned() };
        Ok(Self { header, content })
    }

    /// Opens a column file of any segment and any key. Checks the header and the length of the file.
    fn open_any(disk: &dyn Disk, path: &Path) -> Result<Self, ColumnFileError> {
        let file = disk.open(path)?;
        let mut bytes = [0; HEADER_BYTES];
        let length = read_full(&*file, &mut bytes, 0)?;
        let header = Header::from_bytes(&bytes[..length])?;
        if file.length()? != header.file_bytes() {
            return Err(ColumnFileError::Damaged("the file has another length than its header says"));
        }
        Ok(Self { header, content: Content::OpenFile(file) })
    }

    /// Checks every byte of the column file at `path`.
    ///
    /// # Errors
    /// The error of the first check that fails.
    pub fn check_file(disk: &dyn Disk, path: &Path) -> Result<(), ColumnFileError> {
        Self::open_any(disk, path)?.check()
    }

    /// Creates columns from the bytes of a column file.
    ///
    /// # Errors
    /// The error of the first check that fails.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, ColumnFileError> {
        let header = Header::from_bytes(&bytes)?;
        if bytes.len() as u64 != header.file_bytes() {
            return Err(ColumnFileError::Damaged("the file has another length than its header says"));
        }
        Ok(Self { header, content: Content::Memory(bytes) })
    }

    /// Creates the columns of a sealed segment that has no column file. `bytes` has the format of a column file, and was built with
    /// these goals.
    pub(crate) fn unstored(
        unstored_columns: Arc<UnstoredColumns>,
        bytes: Vec<u8>,
        span: SegmentSpan,
        goals: Arc<SitesGoals>,
    ) -> Result<Self, ColumnFileError> {
        let header = Header::from_bytes(&bytes)?;
        unstored_columns.keep(span.first_seq, Arc::clone(&goals), Arc::new(bytes));
        Ok(Self { header, content: Content::Unstored(unstored_columns, span, goals) })
    }

    /// If the columns are in a file, opens it, so that the next reads need not open it.
    pub(crate) fn opened(&self) -> Result<OpenColumns<'_>, ColumnFileError> {
        let Content::File { disk, path } = &self.content else { return Ok(OpenColumns::Other(self)) };
        let content = Content::OpenFile(disk.open(path)?);
        Ok(OpenColumns::File(Box::new(Self { header: self.header.clone(), content })))
    }

    /// Returns true if the columns are in a column file that is opened for each read.
    pub(crate) fn is_stored(&self) -> bool {
        matches!(self.content, Content::File { .. })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns true if a row has this site.
    pub(crate) fn has_site(&self, site: &str) -> Result<bool, ColumnFileError> {
        Ok(self.texts(TextColumn::Site)?.iter().skip(CODE_FIRST as usize).any(|other| other == site))
    }

    /// Returns whether a row may have this text in a shared column. The text of a row with `(other)` is unknown.
    pub(crate) fn may_have(&self, column: TextColumn, text: &str) -> Result<bool, ColumnFileError> {
        let texts = self.texts(column)?;
        Ok(self.may_have_other(texts.len())
            || texts.iter().skip(CODE_FIRST as usize).any(|other| other == text))
    }

    /// Returns whether a row may have `(other)` in a shared column with this many codes. If the file still has space for one
    /// more text of any length, no row has `(other)`.
    fn may_have_other(&self, code_count: usize) -> bool {
        let bytes = |column: TextColumn| self.header.sections[column.texts_section()].length as usize;
        let text_bytes: usize = TextColumn::SHARED.into_iter().map(bytes).sum();
        code_count >= CODE_FIRST as usize + COLUMN_TEXTS_MAX
            || text_bytes + usize::from(u16::MAX) > COLUMN_TEXT_BYTES_MAX
    }

    /// Returns the number of rows in a range whose site is `(other)`. The true site of such a row is unknown.
    pub(crate) fn rows_of_other_sites(&self, range_ms: &Range<i64>) -> Result<u64, ColumnFileError> {
        let sites = self.texts(TextColumn::Site)?.len();
        if !self.may_have_other(sites) {
            return Ok(0);
        }
        let mut codes = self.codes(TextColumn::Site, sites, &FilePart::WHOLE)?;
        let other = i64::from(CODE_OTHER);
        let blocks = codes.headers().blocks_within(other, other);
        if blocks.is_empty() {
            return Ok(0);
        }
        let part = FilePart { blocks: Some(blocks.clone()), is_checked: false };
        codes.limit_to(blocks);
        let codes = codes.into_numbers()?;
        let times = self.times(&part)?.into_numbers()?;
        let is_counted = |(code, time): &(i64, i64)| *code == other && range_ms.contains(time);
        Ok(codes.into_iter().zip(times).filter(is_counted).count() as u64)
    }

    /// Returns whether the file can have rows in a window of time. The window is in milliseconds.
    pub(crate) fn may_have_rows_in(&self, window: &Range<i64>) -> bool {
        let Header { rows, oldest_ms, newest_ms, .. } = self.header;
        rows > 0 && oldest_ms < window.end && newest_ms >= window.start
    }

    /// Returns the number in the log of the row at a position. Rows have the order of their numbers. The number is the seq, unless
    /// records of the segment are void, erasures or lost.
    pub(crate) fn row_number(&self, position: u32) -> u64 {
        self.header.first_seq + u64::from(position)
    }

    /// Returns true if each record of the segment has a row. Then the number of a row is its seq.
    pub(crate) fn has_all_rows(&self) -> bool {
        self.header.first_seq + u64::from(self.header.rows) == self.header.last_seq + 1
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.header.rows as usize
    }

    /// Reads the bytes of a section and checks its checksum.
    pub(super) fn section(&self, section_index: usize) -> Result<Vec<u8>, ColumnFileError> {
        let Section { length, crc } = self.header.sections[section_index];
        let bytes = self.read(self.header.section_offset(section_index), length as usize)?;
        match crc32c(&[&bytes]) == crc {
            true => Ok(bytes),
            false => Err(ColumnFileError::Damaged("the checksum of a section is wrong")),
        }
    }

    /// Reads a part of a section whose checksum was checked before.
    fn part_of_section(&self, section_index: usize, bytes: Range<usize>) -> Result<Vec<u8>, ColumnFileError> {
        if bytes.end > self.header.sections[section_index].length as usize {
            return Err(ColumnFileError::OUT_OF_RANGE);
        }
        self.read(self.header.section_offset(section_index) + bytes.start as u64, bytes.len())
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, ColumnFileError> {
        match &self.content {
            Content::File { disk, path } => read_from(&*disk.open(path)?, offset, length),
            Content::OpenFile(file) => read_from(&**file, offset, length),
            Content::Memory(bytes) => Ok(bytes[offset as usize..][..length].to_vec()),
            Content::Unstored(unstored, span, goals) => {
                let bytes = unstored.find_or_build(*span, self.header.last_seq, goals)?;
                let part = bytes.get(offset as usize..).and_then(|rest| rest.get(..length));
                Ok(part.ok_or(ColumnFileError::Damaged("the segment has changed"))?.to_vec())
            }
        }
    }

    /// Reads a packed column of numbers within `bounds`.
    fn packed(
        &self,
        section_index: usize,
        bounds: RangeInclusive<i64>,
        part: &FilePart,
    ) -> Result<PackedColumn, ColumnFileError> {
        let rows = self.rows();
        if !part.is_checked {
            let mut column = PackedColumn::new(self.section(section_index)?, rows, bounds)?;
            if let Some(blocks) = &part.blocks {
                column.limit_to(blocks.clone());
            }
            return Ok(column);
        }
        let headers = self.headers(section_index)?;
        let blocks = part.blocks.clone().unwrap_or_else(|| headers.all());
        let packed = self.part_of_section(section_index, headers.range_of(&blocks))?;
        Ok(PackedColumn::of_blocks(headers, packed, blocks, bounds))
    }

    fn headers(&self, section_index: usize) -> Result<BlockHeaders, ColumnFileError> {
        let bytes = self.part_of_section(section_index, 0..BlockHeaders::bytes(self.rows()))?;
        BlockHeaders::parse(&bytes, self.rows())
    }

    /// Reads a packed column of numbers below `end_number`.
    pub(super) fn numbers(
        &self,
        section_index: usize,
        end_number: usize,
        part: &FilePart,
    ) -> Result<PackedColumn, ColumnFileError> {
        self.packed(section_index, 0..=end_number as i64 - 1, part)
    }

    /// Returns the hashes of the visitors.
    pub(crate) fn visitors(&self) -> Result<Vec<u64>, ColumnFileError> {
        Ok(self.section(VISITORS)?.chunks_exact(8).map(|hash| u64_at(hash, 0)).collect())
    }

    /// Returns the hashes of consecutive visitors. The caller has called [`visitors`](Self::visitors) before, which
    /// checks the section.
    pub(crate) fn some_visitors(&self, visitor_range: &Range<usize>) -> Result<Vec<u64>, ColumnFileError> {
        let bytes = self.part_of_section(VISITORS, 8 * visitor_range.start..8 * visitor_range.end)?;
        Ok(bytes.chunks_exact(8).map(|hash| u64_at(hash, 0)).collect())
    }

    /// Returns the part of the file that has the rows of these consecutive visitors. `is_checked` is true if the caller
    /// has already checked all sections.
    pub(crate) fn part_of_visitors(
        &self,
        visitor_range: &Range<usize>,
        is_checked: bool,
    ) -> Result<FilePart, ColumnFileError> {
        let first = visitor_range.start as i64 + 1;
        let last = visitor_range.end as i64;
        let blocks = match is_checked {
            true => self.headers(ROW_VISITORS)?.blocks_within(first, last),
            false => self.row_visitors(&FilePart::WHOLE)?.headers().blocks_within(first, last),
        };
        Ok(FilePart { blocks: Some(blocks), is_checked })
    }

    /// Returns the part of the file with the rows of these visitors. `visitor_indexes` is sorted. `is_checked` is true if the caller
    /// has already checked all sections.
    pub(crate) fn part_of_some(
        &self,
        visitor_indexes: &[usize],
        is_checked: bool,
    ) -> Result<FilePart, ColumnFileError> {
        let numbers: Vec<i64> = visitor_indexes.iter().map(|visitor| *visitor as i64 + 1).collect();
        let blocks = match is_checked {
            true => self.headers(ROW_VISITORS)?.blocks_with(&numbers),
            false => self.row_visitors(&FilePart::WHOLE)?.headers().blocks_with(&numbers),
        };
        Ok(FilePart { blocks: Some(blocks), is_checked })
    }

    /// Returns the timestamps.
    pub(crate) fn times(&self, part: &FilePart) -> Result<PackedColumn, ColumnFileError> {
        self.packed(TIMES, self.header.oldest_ms..=self.header.newest_ms, part)
    }

    /// Returns for each row the index of its visitor plus 1. The number is 0 if the record has no ID.
    pub(crate) fn row_visitors(&self, part: &FilePart) -> Result<PackedColumn, ColumnFileError> {
        self.numbers(ROW_VISITORS, self.header.visitors as usize + 1, part)
    }

    /// Returns the kind of each row, and its flags.
    pub(crate) fn kinds(&self, part: &FilePart) -> Result<PackedColumn, ColumnFileError> {
        self.numbers(KINDS, 256, part)
    }

    /// Returns the agent number of each row.
    pub(crate) fn agents(&self, part: &FilePart) -> Result<PackedColumn, ColumnFileError> {
        self.numbers(AGENTS, AGENT_NUMBERS, part)
    }

    /// Returns the position of each row in the order of the seqs.
    pub(crate) fn positions(&self, part: &FilePart) -> Result<PackedColumn, ColumnFileError> {
        self.numbers(POSITIONS, self.rows(), part)
    }

    /// Returns the text of each code of a column. Code 0 has the empty text, and code 1 has `(other)`.
    pub(crate) fn texts(&self, column: TextColumn) -> Result<Vec<String>, ColumnFileError> {
        self.texts_in(column.texts_section())
    }

    pub(super) fn texts_in(&self, section_index: usize) -> Result<Vec<String>, ColumnFileError> {
        let bytes = self.section(section_index)?;
        let mut texts = vec![String::new(), OTHER.to_owned()];
        let mut rest = &bytes[..];
        debug_assert_eq!((texts.len() as u32, CODE_OTHER), (CODE_FIRST, 1));
        while !rest.is_empty() {
            let (length, after) = rest.split_at_checked(2).ok_or(ColumnFileError::OUT_OF_RANGE)?;
            let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
            let (text, after) = after.split_at_checked(length).ok_or(ColumnFileError::OUT_OF_RANGE)?;
            texts.push(std::str::from_utf8(text).map_err(|_| ColumnFileError::OUT_OF_RANGE)?.to_owned());
            rest = after;
        }
        Ok(texts)
    }

    /// Returns the code of each row in a text column. `code_count` is the number of codes of the column.
    pub(crate) fn codes(
        &self,
        column: TextColumn,
        code_count: usize,
        part: &FilePart,
    ) -> Result<PackedColumn, ColumnFileError> {
        self.numbers(column.codes_section(), code_count, part)
    }

    /// Returns the amounts of all rows.
    pub(crate) fn amounts(&self) -> Result<Vec<AmountEntry>, ColumnFileError> {
        let bytes = self.section(AMOUNTS)?;
        let entry = |bytes: &[u8]| {
            let units = u64_at(bytes, 5) as i64;
            let units = (units != i64::MIN).then_some(units);
            let entry = AmountEntry { row: u32_at(bytes, 0), column: bytes[4], units };
            (entry.row < self.header.rows && entry.column < 4).then_some(entry)
        };
        parse_entries(&bytes, AMOUNT_BYTES, entry)
    }

    /// Returns the records that name a tie, in the order of their seqs.
    pub(crate) fn ties(&self) -> Result<Vec<TieRow>, ColumnFileError> {
        let bytes = self.section(TIES)?;
        let entry = |bytes: &[u8]| {
            let [position, anonymous, user] = [0, 4, 8].map(|offset| u32_at(bytes, offset));
            let is_valid = position < self.header.rows
                && anonymous.max(user) < self.header.visitors
                && [0, TIE_ALIAS, TIE_END].contains(&bytes[12]);
            let user = (bytes[12] != TIE_END).then_some(user);
            let is_alias = bytes[12] == TIE_ALIAS;
            is_valid.then_some(TieRow { position, anonymous, user, is_alias })
        };
        parse_entries(&bytes, TIE_BYTES, entry)
    }

    /// Some page, track and screen events have no anonymous ID. Returns the indices of the visitors with such an event.
    pub(crate) fn users_alone(&self) -> Result<Vec<u32>, ColumnFileError> {
        let bytes = self.section(USERS_ALONE)?;
        let entry = |bytes: &[u8]| Some(u32_at(bytes, 0)).filter(|index| *index < self.header.visitors);
        parse_entries(&bytes, 4, entry)
    }

    /// Returns the earliest receipt time of all rows, in milliseconds. `None` if there are no rows.
    pub(crate) fn oldest_receipt_ms(&self) -> Result<Option<i64>, ColumnFileError> {
        let bytes = self.section(OLDEST_RECEIPT)?;
        match bytes.len() {
            0 => Ok(None),
            8 => Ok(Some(u64_at(&bytes, 0) as i64)),
            _ => Err(ColumnFileError::OUT_OF_RANGE),
        }
    }
}

/// Parses a sequence of entries. Each entry has `entry_bytes` bytes. `parse` returns `None` if a number of the entry is
/// out of range.
pub(super) fn parse_entries<T>(
    bytes: &[u8],
    entry_bytes: usize,
    parse: impl Fn(&[u8]) -> Option<T>,
) -> Result<Vec<T>, ColumnFileError> {
    let entries: Option<_> = bytes.chunks_exact(entry_bytes).map(parse).collect();
    entries.filter(|_| bytes.len().is_multiple_of(entry_bytes)).ok_or(ColumnFileError::OUT_OF_RANGE)
}

fn read_from(file: &dyn DiskFile, offset: u64, length: usize) -> Result<Vec<u8>, ColumnFileError> {
    let mut bytes = vec![0; length];
    match read_full(file, &mut bytes, offset)? < length {
        true => Err(ColumnFileError::Damaged("the file is shorter than its header says")),
        false => Ok(bytes),
    }
}
