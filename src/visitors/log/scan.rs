//! One segment file as what stands in it: whole batches, and damage between them.
//!
//! Says nothing about what that means: see [`super::verify`].

use std::io;

use super::footer::{Footer, TRAILER_BYTES, footer_at};
use super::format::{
    BATCH_HEADER_BYTES, BATCH_MAGIC, Batch, FOOTER_MAGIC, HEADER_BYTES, Header, HeaderFault, batch_length,
};
use crate::limits::{READ_BYTES, RESERVED_BYTES_MAX};
use crate::storage::disk::{DiskFile, read_full};

/// A segment's header.
///
/// # Errors
/// What the system says; the inner result tells of the header.
pub fn header(file: &dyn DiskFile) -> io::Result<Result<Header, HeaderFault>> {
    let mut bytes = [0; HEADER_BYTES];
    let length = read_full(file, &mut bytes, 0)?;
    Ok(Header::from_bytes(&bytes[..length]))
}

/// A sealed segment's footer; `None` where it was not sealed, or the footer is damaged.
///
/// # Errors
/// What the system says.
pub fn footer(file: &dyn DiskFile) -> io::Result<Option<Footer>> {
    let length = file.length()?;
    let trailer = read_at(file, length.saturating_sub(TRAILER_BYTES as u64), TRAILER_BYTES)?;
    let Some(at) = footer_at(&trailer, length) else { return Ok(None) };
    let bytes = read_at(file, at, (length - at) as usize)?;
    Ok(Footer::from_bytes(&bytes, at))
}

fn read_at(file: &dyn DiskFile, at: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let read = read_full(file, &mut bytes, at)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// What stands somewhere in a segment.
#[derive(Debug)]
pub enum Item<'a> {
    /// A batch whose checks pass.
    Batch {
        /// Its offset.
        at: u64,
        /// What it is.
        batch: Batch<'a>,
    },
    /// No batch, up to the next one or the end.
    Damage {
        /// Where it begins.
        at: u64,
        /// How long it is.
        bytes: u64,
    },
}

/// Goes through the batches of a file.
pub struct Scan {
    file: Box<dyn DiskFile>,
    at: u64,
    /// Where the batches end: the footer, or the file's end as of the beginning, or where what is reserved begins.
    end: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl Scan {
    /// From the first batch to `end`.
    pub fn new(file: Box<dyn DiskFile>, end: u64) -> Self {
        Self { file, at: HEADER_BYTES as u64, end, window: Vec::new(), window_at: 0 }
    }

    /// Where the batches end.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Goes on at `at`, which is an item's beginning.
    pub fn seek(&mut self, at: u64) {
        self.at = at;
    }

    /// What comes next; `None` at the end.
    ///
    /// # Errors
    /// What the system says.
    pub fn next(&mut self) -> io::Result<Option<Item<'_>>> {
        let at = self.at;
        if at >= self.end {
            return Ok(None);
        }
        if let Some(length) = self.batch_at(at)? {
            self.at += length as u64;
            let batch = Batch::trusted(self.bytes(at, length)?);
            return Ok(Some(Item::Batch { at, batch }));
        }
        self.at = self.batch_behind(at)?;
        if self.at == self.end {
            self.end = self.written_end(at)?;
            self.at = self.end;
        }
        Ok((self.at > at).then(|| Item::Damage { at, bytes: self.at - at }))
    }

    /// The length of the whole batch at `at`.
    fn batch_at(&mut self, at: u64) -> io::Result<Option<usize>> {
        let Some(length) = batch_length(self.bytes(at, BATCH_HEADER_BYTES)?) else { return Ok(None) };
        let batch = self.bytes(at, length)?;
        Ok((batch.len() == length && Batch::checked(batch).is_some()).then_some(length))
    }

    /// The next whole batch behind `at`, where none begins, or the end. A footer has none behind it.
    fn batch_behind(&mut self, at: u64) -> io::Result<u64> {
        if self.bytes(at, FOOTER_MAGIC.len())? == FOOTER_MAGIC {
            return Ok(self.end);
        }
        let mut at = at + 8;
        while at < self.end {
            if self.bytes(at, BATCH_MAGIC.len())? == BATCH_MAGIC && self.batch_at(at)?.is_some() {
                return Ok(at);
            }
            at += 8;
        }
        Ok(self.end)
    }

    /// Where what stands at `at` and behind it ends but for what is reserved, which is that many zeros or fewer: a multiple of 8
    /// behind `at`, or the end of what is scanned.
    ///
    /// # Errors
    /// What the system says.
    pub fn written_end(&mut self, at: u64) -> io::Result<u64> {
        let (mut place, mut written_end) = (at, at);
        while place < self.end {
            let bytes = self.bytes(place, READ_BYTES)?;
            if bytes.is_empty() {
                break;
            }
            if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
                written_end = at + (place - at + last as u64 + 1).next_multiple_of(8);
            }
            place += bytes.len() as u64;
        }
        let is_reserved = self.end.saturating_sub(written_end) <= RESERVED_BYTES_MAX;
        Ok(if is_reserved { written_end.min(self.end) } else { self.end })
    }

    /// Whether a writer has gone on since the file had `length` bytes: it has others now, or a batch is at `at`, where none was.
    ///
    /// # Errors
    /// What the system says.
    pub fn has_gone_on(&mut self, at: u64, length: u64) -> io::Result<bool> {
        if self.file.length()? != length {
            return Ok(true);
        }
        self.window.clear();
        let end = std::mem::replace(&mut self.end, length);
        let batch = self.batch_at(at);
        self.end = end;
        Ok(batch?.is_some())
    }

    /// At most `length` bytes from `at` on: fewer at the end only.
    fn bytes(&mut self, at: u64, length: usize) -> io::Result<&[u8]> {
        let wanted = (length as u64).min(self.end.saturating_sub(at)) as usize;
        let window_end = self.window_at + self.window.len() as u64;
        if at < self.window_at || at + wanted as u64 > window_end {
            let ahead = wanted.max(READ_BYTES) as u64;
            self.window.resize(ahead.min(self.end.saturating_sub(at)) as usize, 0);
            let read = read_full(&*self.file, &mut self.window, at)?;
            self.window.truncate(read);
            self.window_at = at;
        }
        let from = (at - self.window_at) as usize;
        let to = (from + wanted).min(self.window.len());
        Ok(&self.window[from..to])
    }
}
