//! The segment that is being written.
//!
//! Once an append or a sync has failed, its owner drops it: nothing is appended to it and it is not
//! synced again.
//!
//! Where each batch is synced, zeros are laid ahead: a sync of what goes over them has no length and no new blocks to
//! write, and takes three fifths of the time (ext4), for which the disk takes every byte twice.

use std::io;

use super::directory::{Directory, segment_name};
use super::footer::Contents;
use super::format::{Batch, HEADER_BYTES, Header};
use crate::limits::RESERVED_BYTES_MAX;
use crate::storage::disk::{DiskFile, append_whole};

/// An open segment.
pub struct Active {
    file: Box<dyn DiskFile>,
    first_seq: u64,
    bytes: u64,
    /// Where what is reserved ends, if that is behind `bytes`.
    reserved_end: u64,
    /// Nothing is reserved behind this.
    reserve_until: u64,
    contents: Contents,
    proven: u64,
}

impl Active {
    /// Begins the segment of `first_seq`, durable, with the batches `carried` in it. It replaces one of
    /// the same first seq. Up to `reserve_until` it lays zeros ahead, as far as the disk takes them.
    ///
    /// # Errors
    /// What failed. The segment may be there then, or after a crash.
    pub fn begin(
        directory: &Directory,
        first_seq: u64,
        created_ms: i64,
        carried: &[u8],
        reserve_until: u64,
    ) -> io::Result<Self> {
        let header = Header { first_seq, created_ms }.to_bytes();
        let file = directory.install(&segment_name(first_seq), &mut |file| {
            append_whole(file, &header)?;
            if carried.is_empty() { Ok(()) } else { append_whole(file, carried) }
        })?;
        let bytes = HEADER_BYTES as u64;
        let contents = Contents::new(first_seq);
        let (reserved_end, proven) = (0, first_seq - 1);
        let mut active = Self { file, first_seq, bytes, reserved_end, reserve_until, contents, proven };
        active.add(carried);
        Ok(active)
    }

    /// Appends whole batches.
    pub fn append(&mut self, batches: &[u8]) -> io::Result<()> {
        append_whole(&mut *self.file, batches)?;
        self.add(batches);
        // No other of this size would fit behind one that is longer.
        if self.bytes > self.reserved_end && batches.len() as u64 <= RESERVED_BYTES_MAX / 2 {
            self.reserve();
        }
        Ok(())
    }

    fn reserve(&mut self) {
        let until = self.reserve_until.min(self.bytes + RESERVED_BYTES_MAX);
        self.reserved_end = self.bytes;
        while self.reserved_end < until {
            match self.file.reserve(self.reserved_end..until) {
                Ok(bytes) if bytes > 0 => self.reserved_end += bytes,
                // A disk that has no room for them may still have some for batches.
                _ => break,
            }
        }
    }

    /// Makes what was appended durable.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Ends the segment, all of which is durable: nobody needs to scan it again. The bytes of its file are the answer.
    pub fn seal(mut self) -> io::Result<u64> {
        let footer = self.contents.into_bytes(self.bytes);
        append_whole(&mut *self.file, &footer)?;
        self.file.trim()?;
        self.file.sync_data()?;
        Ok(self.bytes + footer.len() as u64)
    }

    /// The first seq that it may hold.
    pub fn first_seq(&self) -> u64 {
        self.first_seq
    }

    /// Without a footer, and what is reserved.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Of its file.
    pub fn file_bytes(&self) -> u64 {
        self.bytes.max(self.reserved_end)
    }

    /// How many it holds.
    pub fn records(&self) -> u64 {
        self.contents.records()
    }

    /// The newest received time of its records, milliseconds.
    pub fn newest_ms(&self) -> Option<i64> {
        self.contents.newest_ms()
    }

    /// The greatest durable seq that is named in it.
    pub fn proven(&self) -> u64 {
        self.proven
    }

    fn add(&mut self, batches: &[u8]) {
        for batch in Batch::all(batches) {
            self.contents.add(self.bytes, &batch);
            self.bytes += batch.bytes.len() as u64;
            self.proven = self.proven.max(batch.durable);
        }
    }
}
