//! A checkpoint, read from its file: its entries in ascending order, each check made before anything is told.
//!
//! What is held is a block of each run, so that a table of any size is read in some megabytes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::path::Path;

use super::format::{
    BLOCK_HEADER_BYTES, HEADER_BYTES, Header, HeaderFault, Kept, Run, TRAILER_AT_BYTES, TRAILER_BYTES,
    TRAILER_BYTES_MAX, block_checked, block_length, sum_on, trailer_from_bytes,
};
use crate::limits::CHECKPOINT_BLOCK_BYTES;
use crate::storage::disk::{Disk, DiskFile, read_full};

/// Why a checkpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A check fails.
    #[error("damaged at {at}: {what}")]
    Damaged {
        /// Offset.
        at: u64,
        /// Which.
        what: &'static str,
    },
    /// A later release wrote it.
    #[error("it has format version {0}, which this release does not know")]
    Version(u32),
    /// The system says no.
    #[error("{0}")]
    Io(#[from] io::Error),
}

fn damaged(at: u64, what: &'static str) -> Fault {
    Fault::Damaged { at, what }
}

/// A checkpoint whose ends are sound.
pub struct Opened {
    file: Box<dyn DiskFile>,
    header: Header,
    runs: Vec<Run>,
    bytes: u64,
}

impl Opened {
    /// Reads header and trailer.
    ///
    /// # Errors
    /// One of them fails; the system says no.
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<Self, Fault> {
        let file = disk.open(path)?;
        let bytes = file.length()?;
        let mut head = [0; HEADER_BYTES];
        let read = read_full(&*file, &mut head, 0)?;
        let header = Header::from_bytes(&head[..read]).map_err(|fault| match fault {
            HeaderFault::Damaged => damaged(0, "the header"),
            HeaderFault::Version(version) => Fault::Version(version),
        })?;
        let runs = trailer(&*file, bytes, &head)?;
        Ok(Self { file, header, runs, bytes })
    }

    /// What it is of.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How its entries lie.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Its entries.
    ///
    /// # Errors
    /// The first block of a run fails; the system says no.
    pub fn entries(self) -> Result<Entries, Fault> {
        let cursors = self.runs.iter().map(Cursor::new).collect();
        let mut entries =
            Entries { file: self.file, cursors, ahead: BinaryHeap::new(), handed_out: None, least: 0 };
        for run in 0..entries.cursors.len() {
            entries.look(run)?;
        }
        Ok(entries)
    }
}

fn trailer(file: &dyn DiskFile, bytes: u64, head: &[u8; HEADER_BYTES]) -> Result<Vec<Run>, Fault> {
    let lacks = || damaged(bytes, "the end is missing");
    let mut last = [0; TRAILER_AT_BYTES];
    let last_at = bytes.checked_sub(TRAILER_AT_BYTES as u64).ok_or_else(lacks)?;
    if read_full(file, &mut last, last_at)? < last.len() {
        return Err(lacks());
    }
    let at = u64::from_le_bytes(last);
    let length = bytes.checked_sub(at).and_then(|length| usize::try_from(length).ok());
    let length = length.filter(|length| (TRAILER_BYTES..=TRAILER_BYTES_MAX).contains(length));
    let mut trailer = vec![0; length.ok_or_else(lacks)?];
    let read = read_full(file, &mut trailer, at)?;
    trailer_from_bytes(&trailer[..read], head, at).ok_or_else(|| damaged(at, "the trailer"))
}

/// Goes through the entries of all runs.
pub struct Entries {
    file: Box<dyn DiskFile>,
    cursors: Vec<Cursor>,
    /// The next order of each run that has one.
    ahead: BinaryHeap<Reverse<(u64, usize)>>,
    /// The run of the entry that was told last.
    handed_out: Option<usize>,
    /// The least order that may come.
    least: u64,
}

impl Entries {
    /// The next one; `None` at the end, when everything has been checked.
    ///
    /// # Errors
    /// A check fails; the system says no.
    pub fn read_next(&mut self) -> Result<Option<Kept<'_>>, Fault> {
        if let Some(run) = self.handed_out.take() {
            self.cursors[run].pass();
            self.look(run)?;
        }
        let Some(Reverse((order, run))) = self.ahead.pop() else { return Ok(None) };
        let cursor = &self.cursors[run];
        if order < self.least {
            return Err(damaged(cursor.block_at, "orders do not ascend"));
        }
        self.least = order.checked_add(1).ok_or_else(|| damaged(cursor.block_at, "no order is so large"))?;
        self.handed_out = Some(run);
        cursor.entry().map(Some)
    }

    /// Sees what a run has next.
    fn look(&mut self, run: usize) -> Result<(), Fault> {
        let cursor = &mut self.cursors[run];
        if cursor.fill(&*self.file)? {
            let order = cursor.entry()?.order;
            self.ahead.push(Reverse((order, run)));
        }
        Ok(())
    }
}

/// How far a run has been read.
struct Cursor {
    /// What it must come to.
    run: Run,
    block: Vec<u8>,
    /// Where the block is in the file, and the next entry in the block.
    block_at: u64,
    entry_at: usize,
    /// Entries of the block that are not passed.
    left: u32,
    next_at: u64,
    entries: u64,
    sum: u32,
}

impl Cursor {
    fn new(run: &Run) -> Self {
        let at = run.at;
        Self {
            run: *run,
            block: Vec::new(),
            block_at: at,
            entry_at: 0,
            left: 0,
            next_at: at,
            entries: 0,
            sum: 0,
        }
    }

    /// Has an entry at hand; false says that the run has ended, and is what it was said to be.
    fn fill(&mut self, file: &dyn DiskFile) -> Result<bool, Fault> {
        if self.left > 0 {
            return Ok(true);
        }
        if self.entry_at != self.block.len() {
            return Err(damaged(self.block_at, "there is more in a block than its entries"));
        }
        let behind = self.run.at + self.run.bytes;
        if self.next_at == behind {
            let as_said = (self.entries, self.sum) == (self.run.entries, self.run.sum);
            return if as_said { Ok(false) } else { Err(damaged(self.run.at, "a run is another")) };
        }
        self.read(file, behind)?;
        Ok(true)
    }

    fn read(&mut self, file: &dyn DiskFile, behind: u64) -> Result<(), Fault> {
        let at = self.next_at;
        let wanted = (behind - at).min(CHECKPOINT_BLOCK_BYTES as u64) as usize;
        self.block.resize(wanted, 0);
        let read = read_full(file, &mut self.block, at)?;
        self.block.truncate(read);
        let length = block_length(&self.block).filter(|length| *length <= read);
        self.block.truncate(length.unwrap_or_default());
        let (count, crc) = block_checked(&self.block).ok_or_else(|| damaged(at, "a block"))?;
        (self.block_at, self.entry_at, self.left) = (at, BLOCK_HEADER_BYTES, count);
        self.next_at = at + self.block.len() as u64;
        self.entries += u64::from(count);
        self.sum = sum_on(self.sum, crc);
        Ok(())
    }

    fn entry(&self) -> Result<Kept<'_>, Fault> {
        let entry = Kept::decode(&self.block[self.entry_at..]);
        entry.ok_or_else(|| damaged(self.block_at + self.entry_at as u64, "an entry"))
    }

    /// The entry at hand was told.
    fn pass(&mut self) {
        let length = self.entry().map_or(0, |entry| entry.encoded_len());
        self.entry_at += length;
        self.left -= 1;
    }
}
