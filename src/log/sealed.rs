//! Sealed segments that are written as a whole, by a command that makes a log from other records. No server uses the directory.
//!
//! A segment appears under its name when it is complete and synced. So an interrupted command leaves whole segments and a
//! temporary file.

use std::io;

use super::LogId;
use super::directory::LogDirectory;
use super::footer::FooterBuilder;
use super::format::{Batch, HEADER_BYTES, Header, begin_batch, end_batch};
use super::log_clock;
use crate::limits::{REWRITE_CHUNK_BYTES, SEGMENT_RECORDS_MAX, TOMBSTONES_PER_BATCH_MAX};
use crate::record::RecordKind;
use crate::storage::disk::{DiskFile, append_all};

/// The records of a batch at most. A reader decodes a whole batch to find one record.
const BATCH_RECORDS: u32 = 4_096;

/// The records of a log that is being written, in order.
pub(crate) trait RecordSource {
    /// Returns the next encoded record. `None` at the end.
    fn peek(&self) -> Option<&[u8]>;

    /// Goes to the next record.
    ///
    /// # Errors
    /// The records cannot be read.
    fn advance(&mut self) -> io::Result<()>;
}

/// The place of a sealed segment in its log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SealedSegment {
    pub(crate) log_id: LogId,
    /// The seq of its first record. All lower seqs are durable.
    pub(crate) first_seq: u64,
    /// The log clock at its beginning, in milliseconds.
    pub(crate) created_ms: i64,
    /// The size at which it ends.
    pub(crate) bytes_max: u64,
}

/// Writes the next records of `source` as a sealed segment, until it is full. Tombstones are the first records of their segment,
/// so a later one ends it. Returns the number of records.
///
/// # Errors
/// The disk fails, or the records cannot be read. There is no such segment then.
pub(crate) fn write_sealed(
    directory: &LogDirectory,
    segment: &SealedSegment,
    source: &mut dyn RecordSource,
) -> io::Result<u64> {
    let SealedSegment { log_id, first_seq, created_ms, .. } = *segment;
    let mut records = 0;
    directory.install(&super::segment_name(first_seq), &mut |file| {
        append_all(file, &Header { first_seq, created_ms, log_id }.to_bytes())?;
        let footer = FooterBuilder::new(first_seq);
        let mut writer =
            SealedWriter { file, segment, footer, offset: HEADER_BYTES as u64, has_event: false };
        while writer.append_batch(source)? {}
        records = writer.footer.records();
        let end = writer.footer.finish(writer.offset);
        append_all(writer.file, &end)
    })?;
    Ok(records)
}

/// Saves the log clock of a new log durably, at `now_ms`.
///
/// # Errors
/// The disk fails.
pub(crate) fn save_clock(directory: &LogDirectory, now_ms: i64) -> io::Result<()> {
    log_clock::save(directory, now_ms)
}

struct SealedWriter<'a> {
    file: &'a mut dyn DiskFile,
    segment: &'a SealedSegment,
    footer: FooterBuilder,
    /// The end of the file.
    offset: u64,
    /// True if a record is no tombstone.
    has_event: bool,
}

impl SealedWriter<'_> {
    /// Appends a batch of the next records. Returns false if the segment ends before them.
    fn append_batch(&mut self, source: &mut dyn RecordSource) -> io::Result<bool> {
        let records = self.footer.records();
        if self.offset >= self.segment.bytes_max || records >= SEGMENT_RECORDS_MAX {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        begin_batch(&mut bytes);
        let mut count = 0;
        let mut tombstones = 0;
        while let Some(record) = source.peek() {
            let is_tombstone = record[4] == RecordKind::Tombstone as u8;
            let is_full = bytes.len() >= REWRITE_CHUNK_BYTES
                || count == BATCH_RECORDS
                || self.offset + bytes.len() as u64 >= self.segment.bytes_max
                || records + u64::from(count) >= SEGMENT_RECORDS_MAX;
            let ends_batch = is_tombstone && (self.has_event || tombstones == TOMBSTONES_PER_BATCH_MAX);
            if count > 0 && is_full || ends_batch {
                break;
            }
            tombstones += usize::from(is_tombstone);
            self.has_event |= !is_tombstone;
            bytes.extend_from_slice(record);
            count += 1;
            source.advance()?;
        }
        if count == 0 {
            return Ok(false);
        }
        let first_seq = self.segment.first_seq + records;
        end_batch(&mut bytes, 0, first_seq, count, self.segment.first_seq - 1);
        append_all(self.file, &bytes)?;
        self.footer.add_batch(self.offset, &Batch::from_trusted(&bytes));
        self.offset += bytes.len() as u64;
        Ok(true)
    }
}
