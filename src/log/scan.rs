//! A scanner of one segment file. It finds whole batches and the damage between them.
//!
//! [`super::verify`] decides whether the damage is a loss.

use std::io;

use super::footer::{FIXED_BYTES, Footer, TRAILER_BYTES, footer_length, footer_offset};
use super::format::{
    BATCH_HEADER_BYTES, BATCH_MAGIC, Batch, FOOTER_MAGIC, HEADER_BYTES, Header, HeaderError, SEGMENT_MAGIC,
    batch_length, header_version,
};
use crate::limits::{READ_CHUNK_BYTES, RESERVED_BYTES_MAX};
use crate::storage::disk::{DiskFile, read_full};

/// Bytes that are read to find the format version of a segment. A header of another version may be longer
/// than ours.
const HEADER_BYTES_READ: usize = 256;

/// Reads a segment's header.
///
/// # Errors
/// The outer result is an I/O error. The inner result says whether the header is valid.
pub(super) fn read_header(file: &dyn DiskFile) -> io::Result<Result<Header, HeaderError>> {
    Ok(Header::from_bytes(&read_at(file, 0, HEADER_BYTES_READ)?))
}

/// Reads the format version of a segment. Returns `None` if the header is damaged.
///
/// # Errors
/// An I/O error.
pub(super) fn read_format_version(file: &dyn DiskFile) -> io::Result<Option<u32>> {
    Ok(header_version(&read_at(file, 0, HEADER_BYTES_READ)?, SEGMENT_MAGIC))
}

/// Reads a sealed segment's footer. Returns `None` if the segment is not sealed or the footer is damaged.
///
/// # Errors
/// An I/O error.
pub(super) fn read_footer(file: &dyn DiskFile) -> io::Result<Option<Footer>> {
    let length = file.length()?;
    let trailer = read_at(file, length.saturating_sub(TRAILER_BYTES as u64), TRAILER_BYTES)?;
    let Some(offset) = footer_offset(&trailer, length) else { return Ok(None) };
    let bytes = read_at(file, offset, (length - offset) as usize)?;
    Ok(Footer::from_bytes(&bytes, offset))
}

fn read_at(file: &dyn DiskFile, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let length = read_full(file, &mut bytes, offset)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// An item of a segment file.
#[derive(Debug)]
pub(super) enum ScanItem<'a> {
    /// A batch that passed all checks.
    Batch {
        /// Its offset.
        offset: u64,
        /// Its content.
        batch: Batch<'a>,
    },
    /// Bytes that are no valid batch, up to the next batch or the end.
    Damage {
        /// The offset of the damage.
        offset: u64,
        /// The length of the damage.
        bytes: u64,
    },
}

/// A scanner of the batches of a file.
pub(super) struct BatchScanner {
    file: Box<dyn DiskFile>,
    offset: u64,
    /// The end of the batches: the footer, the end of the file when the scan began, or the start of the
    /// reserved zeros.
    end: u64,
    window: Vec<u8>,
    window_offset: u64,
}

impl BatchScanner {
    /// Creates a scanner from the first batch to `end_offset`.
    pub(super) fn new(file: Box<dyn DiskFile>, end_offset: u64) -> Self {
        Self { file, offset: HEADER_BYTES as u64, end: end_offset, window: Vec::new(), window_offset: 0 }
    }

    /// Returns the offset where the batches end.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Continues at `offset`, which must be the start of an item.
    pub(super) fn seek(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// Reads the next item. Returns `None` at the end.
    ///
    /// # Errors
    /// An I/O error.
    pub(super) fn next(&mut self) -> io::Result<Option<ScanItem<'_>>> {
        let offset = self.offset;
        if offset >= self.end {
            return Ok(None);
        }
        if let Some(length) = self.batch_at(offset)? {
            self.offset += length as u64;
            let batch = Batch::from_trusted(self.read_window(offset, length)?);
            return Ok(Some(ScanItem::Batch { offset, batch }));
        }
        self.offset = self.next_batch_after(offset)?;
        if self.offset == self.end {
            self.end = self.data_end(offset)?;
            self.offset = self.end;
        }
        Ok((self.offset > offset).then(|| ScanItem::Damage { offset, bytes: self.offset - offset }))
    }

    /// Returns the batch at `offset` with this length, which [`next`](Self::next) returned last.
    ///
    /// # Errors
    /// An I/O error.
    pub(super) fn last_batch(&mut self, offset: u64, length: usize) -> io::Result<Batch<'_>> {
        Ok(Batch::from_trusted(self.read_window(offset, length)?))
    }

    /// Returns the length of the batch at `offset`, if it passes all checks.
    fn batch_at(&mut self, offset: u64) -> io::Result<Option<usize>> {
        let Some(length) = batch_length(self.read_window(offset, BATCH_HEADER_BYTES)?) else {
            return Ok(None);
        };
        let batch = self.read_window(offset, length)?;
        Ok((batch.len() == length && Batch::parse(batch).is_some()).then_some(length))
    }

    /// Returns the offset of the next valid batch after `offset`, or the end. After a footer there is no batch.
    fn next_batch_after(&mut self, offset: u64) -> io::Result<u64> {
        if self.read_window(offset, FOOTER_MAGIC.len())? == FOOTER_MAGIC {
            return Ok(self.end);
        }
        let mut offset = offset + 8;
        while offset < self.end {
            if self.read_window(offset, BATCH_MAGIC.len())? == BATCH_MAGIC && self.batch_at(offset)?.is_some()
            {
                return Ok(offset);
            }
            offset += 8;
        }
        Ok(self.end)
    }

    /// Returns the end of the data that begins at `offset`, without reserved zeros. At most `RESERVED_BYTES_MAX`
    /// zeros before the end of the scan count as reserved. The result is `offset` plus a multiple of 8, or the
    /// end of the scan.
    ///
    /// # Errors
    /// An I/O error.
    pub(super) fn data_end(&mut self, offset: u64) -> io::Result<u64> {
        let mut chunk_offset = offset;
        let mut written_end = offset;
        while chunk_offset < self.end {
            let bytes = self.read_window(chunk_offset, READ_CHUNK_BYTES)?;
            if bytes.is_empty() {
                break;
            }
            if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
                written_end = offset + (chunk_offset - offset + last as u64 + 1).next_multiple_of(8);
            }
            chunk_offset += bytes.len() as u64;
        }
        let is_reserved = self.end.saturating_sub(written_end) <= RESERVED_BYTES_MAX;
        Ok(if is_reserved { written_end.min(self.end) } else { self.end })
    }

    /// Returns whether the bytes from `offset` on were the footer and the trailer of a sealed segment. A crash
    /// leaves no such bytes without a valid checksum, because the trailer is written when the footer is
    /// durable.
    ///
    /// # Errors
    /// An I/O error.
    pub(super) fn was_sealed(&self, offset: u64) -> io::Result<bool> {
        let length = self.file.length()?;
        let last = read_at(&*self.file, length.saturating_sub(TRAILER_BYTES as u64), TRAILER_BYTES)?;
        if footer_offset(&last, length).is_some_and(|footer_at| footer_at >= offset) {
            return Ok(true);
        }
        let Some(bytes) = footer_length(&read_at(&*self.file, offset, FIXED_BYTES)?) else {
            return Ok(false);
        };
        let trailer = read_at(&*self.file, offset + bytes, TRAILER_BYTES)?;
        // A crash can leave a part of the trailer, with zeros before or after it.
        let is_complete = trailer.len() == TRAILER_BYTES && trailer[TRAILER_BYTES - 1] != 0;
        Ok(is_complete && trailer[..8] != [0; 8])
    }

    /// Returns whether a writer has written since the file had `length` bytes: the length differs, or there
    /// is now a batch at `offset`.
    ///
    /// # Errors
    /// An I/O error.
    pub(super) fn has_grown(&mut self, offset: u64, length: u64) -> io::Result<bool> {
        if self.file.length()? != length {
            return Ok(true);
        }
        self.window.clear();
        let end = std::mem::replace(&mut self.end, length);
        let batch = self.batch_at(offset);
        self.end = end;
        Ok(batch?.is_some())
    }

    /// Returns `length` bytes from `offset` on, or fewer at the end.
    fn read_window(&mut self, offset: u64, length: usize) -> io::Result<&[u8]> {
        let length = (length as u64).min(self.end.saturating_sub(offset)) as usize;
        let window_end = self.window_offset + self.window.len() as u64;
        if offset < self.window_offset || offset + length as u64 > window_end {
            let ahead = length.max(READ_CHUNK_BYTES) as u64;
            self.window.resize(ahead.min(self.end.saturating_sub(offset)) as usize, 0);
            let window_bytes = read_full(&*self.file, &mut self.window, offset)?;
            self.window.truncate(window_bytes);
            self.window_offset = offset;
        }
        let from = (offset - self.window_offset) as usize;
        let to = (from + length).min(self.window.len());
        Ok(&self.window[from..to])
    }
}
