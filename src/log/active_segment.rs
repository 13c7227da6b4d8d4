//! The segment that is being written.
//!
//! After a failed append or sync the owner drops it. It is never appended to and never synced again.
//!
//! If each batch is synced, the segment reserves zeros ahead of the batches. A sync of data that overwrites
//! zeros writes neither a new file length nor new blocks, and takes three fifths of the time (ext4). In
//! return the disk writes every byte twice.

use std::io;
use std::path::PathBuf;

use super::directory::{LogDirectory, segment_name};
use super::footer::{FooterBuilder, TRAILER_BYTES};
use super::format::{BATCH_HEADER_BYTES, BATCH_MAGIC, Batch, HEADER_BYTES, Header};
use crate::limits::RESERVED_BYTES_MAX;
use crate::storage::disk::{DiskFile, append_all, read_full};

/// Bytes at the end of the batches that the writer compares with the file: as many as every batch has.
const TAIL_BYTES: usize = BATCH_HEADER_BYTES;

/// The last bytes of a segment.
type Tail = [u8; TAIL_BYTES];

/// A change of the open segment by another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum SegmentLoss {
    /// The name leads to no file, or to another one.
    #[error("the active segment was deleted, moved or replaced")]
    Gone,
    /// The file was truncated. Later batches are after a hole.
    #[error("another program has truncated the active segment")]
    Truncated,
}

/// A segment to which nothing is written any more.
#[derive(Debug, Clone, Copy)]
pub struct ClosedSegment {
    /// The first seq that the segment may hold.
    pub first_seq: u64,
    /// The length of its file.
    pub bytes: u64,
    /// The log clock when the next segment began, in milliseconds. No record of this segment is younger.
    pub closed_ms: i64,
}

/// An open segment.
pub(super) struct ActiveSegment {
    file: Box<dyn DiskFile>,
    /// Kept, so that the look at it each second allocates nothing.
    path: PathBuf,
    first_seq: u64,
    bytes: u64,
    /// The end of the reserved zeros, if greater than `bytes`.
    reserved_end: u64,
    /// The offset beyond which no zeros are reserved.
    reserve_until: u64,
    footer: FooterBuilder,
    durable_watermark: u64,
    /// The last bytes of header and batches.
    tail: Tail,
    /// The end of header and batches at the last check, and their last bytes then.
    checked_end: u64,
    checked_tail: Tail,
}

impl ActiveSegment {
    /// Creates the segment of this header durably, with `encoded_batches` in it. It replaces a segment
    /// with the same first seq. Later appends reserve zeros up to `reserve_until_offset`, as far as the disk has
    /// room.
    ///
    /// # Errors
    /// The first I/O error. The segment may then exist, now or after a crash.
    pub(super) fn create(
        directory: &LogDirectory,
        header: Header,
        encoded_batches: &[u8],
        reserve_until_offset: u64,
    ) -> io::Result<Self> {
        let first_seq = header.first_seq;
        let header = header.to_bytes();
        let name = segment_name(first_seq);
        let file = directory.install(&name, &mut |file| {
            append_all(file, &header)?;
            if encoded_batches.is_empty() { Ok(()) } else { append_all(file, encoded_batches) }
        })?;
        let bytes = HEADER_BYTES as u64;
        let tail = last_bytes(&header);
        let mut active = Self {
            file,
            path: directory.path(&name),
            first_seq,
            bytes,
            reserved_end: 0,
            reserve_until: reserve_until_offset,
            footer: FooterBuilder::new(first_seq),
            durable_watermark: first_seq - 1,
            tail,
            checked_end: bytes,
            checked_tail: tail,
        };
        active.index_batches(encoded_batches);
        Ok(active)
    }

    /// Appends whole batches.
    pub(super) fn append(&mut self, encoded_batches: &[u8]) -> io::Result<()> {
        append_all(&mut *self.file, encoded_batches)?;
        self.index_batches(encoded_batches);
        // Do not reserve after a longer batch: the reserved zeros would not hold a second one of that size.
        if self.bytes > self.reserved_end && encoded_batches.len() as u64 <= RESERVED_BYTES_MAX / 2 {
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
                // Ignore the error: a disk without room for zeros may still have room for batches.
                _ => break,
            }
        }
    }

    /// Makes all appended batches durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Seals the segment, all of which is durable, so that readers need not scan it. Returns the length of
    /// the file.
    pub(super) fn seal(mut self) -> io::Result<u64> {
        let end = self.footer.finish(self.bytes);
        let (footer, trailer) = end.split_at(end.len() - TRAILER_BYTES);
        append_all(&mut *self.file, footer)?;
        self.file.trim()?;
        self.file.sync_data()?;
        // The footer is durable now. So a trailer proves that a footer without a valid checksum was damaged
        // later, and is not the footer of a crash.
        append_all(&mut *self.file, trailer)?;
        self.file.sync_data()?;
        Ok(self.bytes + end.len() as u64)
    }

    /// Checks that the segment's name still leads to its file, and that nothing of the file is cut off.
    ///
    /// # Errors
    /// An I/O error.
    pub(super) fn find_loss(&mut self, directory: &LogDirectory) -> io::Result<Option<SegmentLoss>> {
        let identity = directory.find_identity(&self.path)?;
        if identity != Some(self.file.identity()?) {
            return Ok(Some(SegmentLoss::Gone));
        }
        if self.file.length()? < self.file_bytes() || !self.has_checked_end()? {
            return Ok(Some(SegmentLoss::Truncated));
        }
        self.checked_end = self.bytes;
        self.checked_tail = self.tail;
        Ok(None)
    }

    /// Returns whether the file still has the end of the last check, and a batch after it if there are any. A batch
    /// that is appended to a truncated file gives it the old length again, with zeros between. A cut inside the
    /// batches since the last check is not found here, but by readers.
    fn has_checked_end(&self) -> io::Result<bool> {
        let mut bytes = [0; TAIL_BYTES + BATCH_MAGIC.len()];
        let length = read_full(&*self.file, &mut bytes, self.checked_end - TAIL_BYTES as u64)?;
        let (file_tail, next) = bytes[..length].split_at(length.min(TAIL_BYTES));
        Ok(file_tail == self.checked_tail && (self.bytes == self.checked_end || next == BATCH_MAGIC))
    }

    /// Returns the first seq that the segment may hold.
    pub(super) fn first_seq(&self) -> u64 {
        self.first_seq
    }

    /// Returns the length of header and batches, without footer and reserved zeros.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the length of the file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.bytes.max(self.reserved_end)
    }

    /// Returns the number of records.
    pub(super) fn records(&self) -> u64 {
        self.footer.records()
    }

    /// Returns the greatest durable seq that the segment's header and batches state.
    pub(super) fn durable_watermark(&self) -> u64 {
        self.durable_watermark
    }

    fn index_batches(&mut self, encoded_batches: &[u8]) {
        for batch in Batch::iter_trusted(encoded_batches) {
            self.footer.add_batch(self.bytes, &batch);
            self.bytes += batch.bytes.len() as u64;
            self.durable_watermark = self.durable_watermark.max(batch.durable_seq);
        }
        if !encoded_batches.is_empty() {
            self.tail = last_bytes(encoded_batches);
        }
    }
}

/// Returns the last bytes of a header or of batches, which are longer.
fn last_bytes(bytes: &[u8]) -> Tail {
    bytes.last_chunk().copied().unwrap_or([0; TAIL_BYTES])
}
