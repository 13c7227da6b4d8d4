//! The sections of a checkpoint after its runs: the entries of ownership, the filter of lost aliases, and the
//! known sites. [`super::format`] specifies them.

use std::collections::BTreeSet;
use std::io;

use super::format::{
    BLOCK_HEADER_BYTES, LINE_ENTRY_BYTES, Run, TIES_PER_BLOCK, begin_block, end_block, extend_checksum,
};
use super::reader::{BlockReader, CheckpointError, CheckpointReader, damaged};
use crate::limits::CHECKPOINT_BLOCK_BYTES;
use crate::record::IdTag;
use crate::storage::disk::{DiskFile, append_all};
use crate::visitors::ties::lost::LostAliases;
use crate::visitors::ties::{TIE_BYTES, TieEntry};

impl CheckpointReader {
    /// Returns a reader of the entries of ownership.
    pub fn ties(&self) -> TieIter<'_> {
        TieIter {
            file: self.file(),
            blocks: BlockReader::new(&self.parts().ties),
            block: Vec::new(),
            entry_offset: 0,
            last: None,
        }
    }

    /// Reads the filter of lost aliases.
    ///
    /// # Errors
    /// A check fails, or the file cannot be read.
    pub fn lost_aliases(&self) -> Result<LostAliases, CheckpointError> {
        let mut lost = LostAliases::default();
        let mut next = 0;
        self.each_block(&self.parts().lost, &mut |bytes| {
            let (lines, rest) = bytes.as_chunks::<LINE_ENTRY_BYTES>();
            rest.is_empty()
                && lines.iter().all(|line| {
                    let (number, bits) = line.split_at(8);
                    let number = u64::from_le_bytes(number.try_into().unwrap_or_default());
                    let is_next = number >= next;
                    next = number + 1;
                    let number = u32::try_from(number).ok();
                    is_next
                        && number.zip(bits.try_into().ok()).is_some_and(|(n, bits)| lost.set_line(n, bits))
                })
        })?;
        Ok(lost)
    }

    /// Reads the known sites.
    ///
    /// # Errors
    /// A check fails, or the file cannot be read.
    pub fn sites(&self) -> Result<BTreeSet<Box<str>>, CheckpointError> {
        let mut sites = BTreeSet::<Box<str>>::new();
        self.each_block(&self.parts().sites, &mut |mut bytes| {
            while let Some((length, rest)) = bytes.split_first() {
                let Some((id, rest)) = rest.split_at_checked(usize::from(*length)) else { return false };
                let Ok(id) = std::str::from_utf8(id) else { return false };
                if sites.last().is_some_and(|last| **last >= *id) {
                    return false;
                }
                sites.insert(id.into());
                bytes = rest;
            }
            true
        })?;
        Ok(sites)
    }

    /// Reads the state of a node of a cluster. Empty if a server that is alone wrote the file.
    ///
    /// # Errors
    /// A check fails, or the file cannot be read.
    pub(crate) fn stream(&self) -> Result<Vec<u8>, CheckpointError> {
        let mut state = Vec::new();
        self.each_block(&self.parts().stream, &mut |bytes| {
            state.extend_from_slice(bytes);
            true
        })?;
        Ok(state)
    }

    /// Passes the entries of each block of a section to `visit`, which returns whether they are valid.
    fn each_block(&self, run: &Run, visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), CheckpointError> {
        let mut blocks = BlockReader::new(run);
        let mut block = Vec::new();
        while let Some((at, _)) = blocks.read_next(self.file(), &mut block)? {
            if !visit(&block[BLOCK_HEADER_BYTES..]) {
                return Err(damaged(at, "invalid entry of a section"));
            }
        }
        Ok(())
    }
}

/// A reader of the entries of ownership, in ascending order.
pub struct TieIter<'a> {
    file: &'a dyn DiskFile,
    blocks: BlockReader,
    block: Vec<u8>,
    /// Offset of the next entry in the block.
    entry_offset: usize,
    last: Option<TieEntry>,
}

impl TieIter<'_> {
    fn read_next(&mut self) -> Result<Option<TieEntry>, CheckpointError> {
        if self.entry_offset == self.block.len() {
            let Some((at, count)) = self.blocks.read_next(self.file, &mut self.block)? else {
                return Ok(None);
            };
            if self.block.len() != BLOCK_HEADER_BYTES + count as usize * TIE_BYTES {
                return Err(damaged(at, "a block of ties has a wrong length"));
            }
            self.entry_offset = BLOCK_HEADER_BYTES;
        }
        let bytes = self.block[self.entry_offset..].first_chunk::<TIE_BYTES>();
        let entry =
            bytes.map(TieEntry::from_bytes).filter(|entry| self.last.is_none_or(|last| last < *entry));
        self.entry_offset += TIE_BYTES;
        self.last = entry;
        entry.map(Some).ok_or_else(|| damaged(0, "the ties are not in ascending order"))
    }
}

impl Iterator for TieIter<'_> {
    type Item = Result<TieEntry, CheckpointError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read_next().transpose()
    }
}

/// An index of the entries of ownership of a checkpoint: finds the entries of one anonymous ID.
pub(crate) struct TieIndex {
    reader: CheckpointReader,
    /// The anonymous ID of the first entry of each block.
    firsts: Vec<IdTag>,
}

impl TieIndex {
    /// Reads and checks all entries, and keeps the first one of each block.
    ///
    /// # Errors
    /// A check fails, or the file cannot be read.
    pub(crate) fn new(reader: CheckpointReader) -> Result<Self, CheckpointError> {
        let mut firsts = Vec::new();
        for (at, entry) in reader.ties().enumerate() {
            let entry = entry?;
            if at.is_multiple_of(TIES_PER_BLOCK) {
                firsts.push(entry.anon);
            }
        }
        Ok(Self { reader, firsts })
    }

    /// Returns a reader of all entries.
    pub(crate) fn entries(&self) -> TieIter<'_> {
        self.reader.ties()
    }

    /// Returns the entries of an anonymous ID, in seq order.
    ///
    /// # Errors
    /// A check fails, or the file cannot be read.
    pub(crate) fn entries_of(&self, anon_tag: IdTag) -> Result<Vec<TieEntry>, CheckpointError> {
        let block = self.firsts.partition_point(|first| *first < anon_tag).saturating_sub(1);
        let skipped = block as u64 * (BLOCK_HEADER_BYTES + TIES_PER_BLOCK * TIE_BYTES) as u64;
        let ties = &self.reader.parts().ties;
        let mut at = ties.offset + skipped;
        let end = ties.offset + ties.bytes;
        let mut found = Vec::new();
        let mut bytes = Vec::new();
        while at < end {
            let rest = Run { offset: at, bytes: end - at, ..Run::default() };
            let Some((_, _)) = BlockReader::new(&rest).read_next(self.reader.file(), &mut bytes)? else {
                break;
            };
            at += bytes.len() as u64;
            let entries = bytes[BLOCK_HEADER_BYTES..].as_chunks::<TIE_BYTES>().0.iter();
            found.extend(entries.map(TieEntry::from_bytes).filter(|entry| entry.anon == anon_tag));
            let last = bytes.last_chunk::<TIE_BYTES>().map(TieEntry::from_bytes);
            if last.is_none_or(|last| last.anon > anon_tag) {
                break;
            }
        }
        Ok(found)
    }
}

/// A writer of one run or section.
pub(super) struct SectionWriter<'a> {
    file: &'a mut dyn DiskFile,
    block: &'a mut Vec<u8>,
    end: &'a mut u64,
    part: Run,
    count: u32,
    count_max: u32,
}

impl<'a> SectionWriter<'a> {
    /// Begins a section at `end`, the end of the file. A block has at most `count_max` entries. `block` is a
    /// reusable buffer.
    pub(super) fn new(
        file: &'a mut dyn DiskFile,
        block: &'a mut Vec<u8>,
        end: &'a mut u64,
        count_max: usize,
    ) -> Self {
        begin_block(block);
        let part = Run { offset: *end, ..Run::default() };
        Self { file, block, end, part, count: 0, count_max: u32::try_from(count_max).unwrap_or(u32::MAX) }
    }

    /// Adds an entry.
    pub(super) fn push(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if self.count == self.count_max || self.block.len() + length > CHECKPOINT_BLOCK_BYTES {
            self.end_block()?;
        }
        parts.iter().for_each(|part| self.block.extend_from_slice(part));
        self.count += 1;
        Ok(())
    }

    fn end_block(&mut self) -> io::Result<()> {
        self.part.checksum = extend_checksum(self.part.checksum, end_block(self.block, self.count));
        append_all(self.file, self.block)?;
        self.part.bytes += self.block.len() as u64;
        self.part.entries += u64::from(self.count);
        self.count = 0;
        begin_block(self.block);
        Ok(())
    }

    /// Writes the last block, advances the end of the file, and returns the description of the section.
    pub(super) fn finish(mut self) -> io::Result<Run> {
        if self.count > 0 {
            self.end_block()?;
        }
        *self.end += self.part.bytes;
        Ok(self.part)
    }
}
