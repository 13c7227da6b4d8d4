//! Reads a checkpoint: merges the entries of its runs in ascending order, and checks everything before
//! returning it.
//!
//! It holds one block of each run in memory, so some megabytes are enough for a table of any size.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::path::Path;

use super::format::{
    BLOCK_HEADER_BYTES, CheckpointEntry, FORMAT_VERSION, HEADER_BYTES, Header, HeaderError, Parts, Run,
    TRAILER_BYTES, TRAILER_BYTES_MAX, TRAILER_OFFSET_BYTES, block_length, check_block, extend_checksum,
    trailer_from_bytes,
};
use crate::limits::CHECKPOINT_BLOCK_BYTES;
use crate::little_endian::u32_at;
use crate::log::{LogId, unsupported_version};
use crate::storage::disk::{Disk, DiskFile, read_full};

/// The reason why a checkpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A check fails.
    #[error("damaged at offset {at}: {what}")]
    Damaged {
        /// Offset in the file.
        at: u64,
        /// The check that fails.
        what: &'static str,
    },
    /// Another release wrote the file.
    #[error("{}", unsupported_version(*.0))]
    Version(u32),
    /// An earlier release made the file, and its fold may give other profiles.
    #[error("an earlier release made it, with another fold")]
    EarlierFold,
    /// The file is of a node of a cluster.
    #[error("it is the checkpoint of a node of a cluster")]
    OfCluster,
    /// The file is a checkpoint of another log.
    #[error("it is a checkpoint of another log, with ID {0}")]
    Foreign(LogId),
    /// The system starts no thread to read the file.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
}

pub(super) fn damaged(offset: u64, fault: &'static str) -> CheckpointError {
    CheckpointError::Damaged { at: offset, what: fault }
}

/// An open checkpoint with a valid header and trailer.
pub struct CheckpointReader {
    file: Box<dyn DiskFile>,
    header: Header,
    format_version: u32,
    parts: Parts,
    bytes: u64,
}

/// Reads the header of a checkpoint. The rest of the file may be damaged.
///
/// # Errors
/// A check of the header fails, or the file cannot be read.
pub(crate) fn read_header(disk: &dyn Disk, path: &Path) -> Result<Header, CheckpointError> {
    header_of(&*disk.open(path)?).map(|(header, _)| header)
}

fn header_of(file: &dyn DiskFile) -> Result<(Header, [u8; HEADER_BYTES]), CheckpointError> {
    let mut head = [0; HEADER_BYTES];
    let read = read_full(file, &mut head, 0)?;
    let header = Header::from_bytes(&head[..read]).map_err(|fault| match fault {
        HeaderError::Damaged => damaged(0, "invalid header"),
        HeaderError::Version(version) => CheckpointError::Version(version),
    })?;
    Ok((header, head))
}

impl CheckpointReader {
    /// Opens a checkpoint and reads its header and trailer.
    ///
    /// # Errors
    /// A check of header or trailer fails, or the file cannot be read.
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<Self, CheckpointError> {
        let file = disk.open(path)?;
        let bytes = file.length()?;
        let (header, head) = header_of(&*file)?;
        let parts = read_trailer(&*file, bytes, &head)?;
        Ok(Self { file, header, format_version: u32_at(&head, 8), parts, bytes })
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the format version of the file.
    pub(crate) fn format_version(&self) -> u32 {
        self.format_version
    }

    /// Returns whether an earlier release made the checkpoint. The fold of this release can give other profiles.
    pub(crate) fn is_of_earlier_fold(&self) -> bool {
        self.format_version < FORMAT_VERSION
    }

    /// Returns whether a node of a cluster made the checkpoint. Its table has the events of all nodes, and
    /// its seq is a position in the stream.
    pub(crate) fn is_of_node(&self) -> bool {
        self.parts.stream.entries > 0
    }

    /// Returns the size of the file, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the runs and the sections.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    pub(super) fn file(&self) -> &dyn DiskFile {
        &*self.file
    }

    /// Returns a reader of the entries.
    ///
    /// # Errors
    /// A check of the first block of a run fails, or the file cannot be read.
    pub fn entries(self) -> Result<EntryReader, CheckpointError> {
        let cursors = self.parts.runs.iter().map(RunCursor::new).collect();
        let mut entries =
            EntryReader { file: self.file, cursors, heads: BinaryHeap::new(), last_run: None, order_min: 0 };
        for run in 0..entries.cursors.len() {
            entries.peek(run)?;
        }
        Ok(entries)
    }
}

fn read_trailer(
    file: &dyn DiskFile,
    file_bytes: u64,
    header_bytes: &[u8; HEADER_BYTES],
) -> Result<Parts, CheckpointError> {
    let lacks = || damaged(file_bytes, "the trailer is missing");
    let mut last = [0; TRAILER_OFFSET_BYTES];
    let last_at = file_bytes.checked_sub(TRAILER_OFFSET_BYTES as u64).ok_or_else(lacks)?;
    if read_full(file, &mut last, last_at)? < last.len() {
        return Err(lacks());
    }
    let at = u64::from_le_bytes(last);
    let length = file_bytes.checked_sub(at).and_then(|length| usize::try_from(length).ok());
    let length = length.filter(|length| (TRAILER_BYTES..=TRAILER_BYTES_MAX).contains(length));
    let mut trailer = vec![0; length.ok_or_else(lacks)?];
    let read = read_full(file, &mut trailer, at)?;
    trailer_from_bytes(&trailer[..read], header_bytes, at).ok_or_else(|| damaged(at, "invalid trailer"))
}

/// A reader of the entries of all runs, merged in ascending order.
pub struct EntryReader {
    file: Box<dyn DiskFile>,
    cursors: Vec<RunCursor>,
    /// The order of the next entry of each run that is not at its end.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    /// The run of the entry that was returned last.
    last_run: Option<usize>,
    /// The smallest valid order of the next entry.
    order_min: u64,
}

impl EntryReader {
    /// Returns the next entry. At the end, when all checks have passed, returns `None`.
    ///
    /// # Errors
    /// A check fails, or the file cannot be read.
    pub fn read_next(&mut self) -> Result<Option<CheckpointEntry<'_>>, CheckpointError> {
        if let Some(run) = self.last_run.take() {
            self.cursors[run].advance();
            self.peek(run)?;
        }
        let Some(Reverse((order, run))) = self.heads.pop() else { return Ok(None) };
        let cursor = &self.cursors[run];
        if order < self.order_min {
            return Err(damaged(cursor.block_offset, "the order of an entry is not above the one before"));
        }
        self.order_min = order
            .checked_add(1)
            .ok_or_else(|| damaged(cursor.block_offset, "the order of an entry is too large"))?;
        self.last_run = Some(run);
        cursor.entry().map(Some)
    }

    /// Adds the next entry of a run to the heap.
    fn peek(&mut self, run_index: usize) -> Result<(), CheckpointError> {
        let cursor = &mut self.cursors[run_index];
        if cursor.ensure_entry(&*self.file)? {
            let order = cursor.entry()?.order;
            self.heads.push(Reverse((order, run_index)));
        }
        Ok(())
    }
}

/// A reader of the blocks of a run or a section, in order.
pub(super) struct BlockReader {
    /// The run or section according to the trailer.
    part: Run,
    next_offset: u64,
    entries_read: u64,
    checksum: u32,
}

impl BlockReader {
    pub(super) fn new(run: &Run) -> Self {
        Self { part: *run, next_offset: run.offset, entries_read: 0, checksum: 0 }
    }

    /// Reads the next block. Returns its offset and its number of entries. At the end it returns `None`, after
    /// checking the number of all entries and the checksum.
    pub(super) fn read_next(
        &mut self,
        file: &dyn DiskFile,
        block: &mut Vec<u8>,
    ) -> Result<Option<(u64, u32)>, CheckpointError> {
        let at = self.next_offset;
        let end = self.part.offset + self.part.bytes;
        if at == end {
            let is_as_described =
                (self.entries_read, self.checksum) == (self.part.entries, self.part.checksum);
            let differs = || damaged(self.part.offset, "a run differs from its description in the trailer");
            return if is_as_described { Ok(None) } else { Err(differs()) };
        }
        let wanted = (end - at).min(CHECKPOINT_BLOCK_BYTES as u64) as usize;
        block.resize(wanted, 0);
        let read = read_full(file, block, at)?;
        block.truncate(read);
        let length = block_length(block).filter(|length| *length <= read);
        block.truncate(length.unwrap_or_default());
        let (count, crc) = check_block(block).ok_or_else(|| damaged(at, "invalid block"))?;
        self.next_offset = at + block.len() as u64;
        self.entries_read += u64::from(count);
        self.checksum = extend_checksum(self.checksum, crc);
        Ok(Some((at, count)))
    }
}

/// The read position in a run.
struct RunCursor {
    blocks: BlockReader,
    block: Vec<u8>,
    /// Offset of the block in the file, and of the next entry in the block.
    block_offset: u64,
    entry_offset: usize,
    /// Number of entries of the block that were not returned yet.
    entries_left: u32,
}

impl RunCursor {
    fn new(run: &Run) -> Self {
        Self {
            blocks: BlockReader::new(run),
            block: Vec::new(),
            block_offset: run.offset,
            entry_offset: 0,
            entries_left: 0,
        }
    }

    /// Reads the next block if the present one has no entry left. Returns false at the end of the run,
    /// after checking its number of entries and its checksum.
    fn ensure_entry(&mut self, file: &dyn DiskFile) -> Result<bool, CheckpointError> {
        if self.entries_left > 0 {
            return Ok(true);
        }
        if self.entry_offset != self.block.len() {
            return Err(damaged(self.block_offset, "a block has bytes after its last entry"));
        }
        let Some((at, count)) = self.blocks.read_next(file, &mut self.block)? else { return Ok(false) };
        (self.block_offset, self.entry_offset, self.entries_left) = (at, BLOCK_HEADER_BYTES, count);
        Ok(true)
    }

    fn entry(&self) -> Result<CheckpointEntry<'_>, CheckpointError> {
        let entry = CheckpointEntry::decode(&self.block[self.entry_offset..]);
        entry.ok_or_else(|| damaged(self.block_offset + self.entry_offset as u64, "invalid entry"))
    }

    /// Moves past the present entry.
    fn advance(&mut self) {
        let length = self.entry().map_or(0, |entry| entry.encoded_len());
        self.entry_offset += length;
        self.entries_left -= 1;
    }
}
