//! A reader of the durable records after a given seq, in order.
//!
//! It works on the directory of a running server and takes no lock. It reads the segments that exist when it
//! is opened, up to the watermark that their own headers, batches and footers state. So it never returns a
//! record that a power cut could still destroy. An idle writer states the durable seq within 100 ms.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::directory::LogDirectory;
use super::footer::Footer;
use super::format::{Batch, HEADER_BYTES, Records};
use super::scan::{self, BatchScanner, ScanItem};
use super::verify::{Damage, LogScan, SegmentEntry, SegmentItem, SegmentReader};
use super::{LogError, SeqRange};
use crate::clock;
use crate::limits::WATERMARK_AFTER_MS;
use crate::storage::damage::KnownDamage;
use crate::storage::disk::Disk;

/// Reads the footer of the segment at `path`, which describes its content. Returns `None` if the segment is
/// not sealed or its footer is damaged.
///
/// # Errors
/// An I/O error.
pub fn read_footer(disk: &dyn Disk, path: &Path) -> std::io::Result<Option<Footer>> {
    scan::read_footer(&*disk.open(path)?)
}

/// Returns the offset after the last whole batch of the segment at `path`, or its length if it is sealed. A server never changes the
/// bytes before it.
///
/// # Errors
/// An I/O error.
pub(crate) fn batches_end(disk: &dyn Disk, path: &Path) -> std::io::Result<u64> {
    let file = disk.open(path)?;
    let length = file.length()?;
    if scan::read_footer(&*file)?.is_some() {
        return Ok(length);
    }
    let mut scanner = BatchScanner::new(file, length);
    let mut end = length.min(HEADER_BYTES as u64);
    while let Some(item) = scanner.next()? {
        if let ScanItem::Batch { offset, batch } = item {
            end = offset + batch.bytes.len() as u64;
        }
    }
    Ok(end)
}

/// Returns the range of seqs in the directory. Above the watermark, only consecutive whole batches count.
pub(super) fn seq_range(directory: &LogDirectory) -> Result<SeqRange, LogError> {
    let scan = LogScan::of_directory(directory)?;
    let mut last = scan.durable_watermark;
    if let Some(segment) = scan.segments.last() {
        let failed = |error| LogError::io(&directory.path(&segment.file_name()), error);
        let mut reader = SegmentReader::new(directory, segment, scan.durable_watermark).map_err(failed)?;
        // A sealed segment has no records above the watermark.
        while reader.footer().is_none()
            && let Some(item) = reader.next().map_err(failed)?
        {
            if let SegmentItem::Batch { batch, .. } = item {
                last = last.max(batch.records.seqs().end - 1);
            }
        }
    }
    let first = scan.segments.first().map_or(last + 1, |segment| segment.first_seq);
    Ok(SeqRange { first, last, log_id: scan.log_id })
}

/// Interval of the looks whether a running server has stated that its last records are durable. It is a sleep of a
/// command: the server is another process, and its files are the only signal.
const WATERMARK_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Time for these looks: 50 times as long as an idle server needs, for a slow disk. A server whose disk has
/// failed never states it.
const WATERMARK_WAIT: Duration = Duration::from_millis(50 * WATERMARK_AFTER_MS);

/// A function that says whether a sealed segment with a filter is read.
type SegmentFilter = Box<dyn Fn(&[u8]) -> bool + Send>;

/// A reader of the records of a log directory.
pub struct LogReader {
    directory: LogDirectory,
    durable_watermark: u64,
    /// The watermark that the files state. Damage above it can be an append that failed and is repeated.
    stated_watermark: u64,
    after_seq: u64,
    damage: std::vec::IntoIter<Damage>,
    segments: std::vec::IntoIter<SegmentEntry>,
    segment: Option<(String, SegmentReader)>,
    may_match: SegmentFilter,
    batch: Vec<u8>,
    known_damage: KnownDamage,
}

/// The next item of the log.
#[derive(Debug)]
pub enum LogItem<'a> {
    /// One or more records.
    Records(Records<'a>),
    /// Damage. The readable records after it follow. Torn and void tails are skipped without an item.
    Damage(Damage),
}

impl LogReader {
    /// Opens the log for reading the records after `after_seq`. 0 reads all records.
    ///
    /// # Errors
    /// An I/O error, or a format version that this release does not know.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, after_seq: u64) -> Result<Self, LogError> {
        let directory = LogDirectory::open_read_only(disk, dir);
        let LogScan { mut segments, durable_watermark, damage, .. } = LogScan::of_directory(&directory)?;
        segments.retain(|segment| segment.void_from_seq > after_seq.saturating_add(1));
        Ok(Self {
            directory,
            durable_watermark,
            stated_watermark: durable_watermark,
            after_seq,
            damage: damage.into_iter(),
            segments: segments.into_iter(),
            segment: None,
            may_match: Box::new(|_| true),
            batch: Vec::new(),
            known_damage: KnownDamage::default(),
        })
    }

    /// Reports the damage that it meets.
    #[must_use]
    pub fn with_known_damage(self, known_damage: KnownDamage) -> Self {
        Self { known_damage, ..self }
    }

    /// Opens the log as [`open`](Self::open), with the last records up to `last_seq` that no file states to be durable
    /// yet. Waits until a running server states it, for [`WATERMARK_WAIT`] at most. Without a server, it makes them
    /// durable.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_to_end(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        after_seq: u64,
        last_seq: u64,
    ) -> Result<Self, LogError> {
        let directory = LogDirectory::open_read_only(Arc::clone(disk), dir);
        let end = clock::instant() + WATERMARK_WAIT;
        loop {
            let reader = Self::open(Arc::clone(disk), dir, after_seq)?;
            if reader.last_seq() >= last_seq || clock::instant() >= end {
                return Ok(reader);
            }
            if let Ok(_lock) = disk.lock(dir) {
                directory.sync_last_segment().map_err(|error| LogError::io(dir, error))?;
                return Ok(reader.with_durable_seq(last_seq));
            }
            thread::sleep(WATERMARK_POLL_INTERVAL);
        }
    }

    /// Raises the watermark to `durable_seq`. For the writing process, which knows more than its files state so
    /// far.
    #[must_use]
    pub fn with_durable_seq(mut self, durable_seq: u64) -> Self {
        self.durable_watermark = self.durable_watermark.max(durable_seq);
        self
    }

    /// Skips the sealed segments whose filter does not match. Their damage is not reported.
    #[must_use]
    pub(crate) fn with_filter(self, may_match: impl Fn(&[u8]) -> bool + Send + 'static) -> Self {
        Self { may_match: Box::new(may_match), ..self }
    }

    /// Returns the last seq that will be read, if nothing is damaged.
    pub fn last_seq(&self) -> u64 {
        self.durable_watermark
    }

    /// Returns the first seqs of the segments that are not read yet, in order.
    pub(crate) fn segment_starts(&self) -> Vec<u64> {
        self.segments.as_slice().iter().map(|segment| segment.first_seq).collect()
    }

    /// Reads the next item. Returns `None` at the end.
    ///
    /// # Errors
    /// An I/O error.
    pub fn read_next(&mut self) -> Result<Option<LogItem<'_>>, LogError> {
        if let Some(damage) = self.damage.next() {
            damage.report_to(&self.known_damage);
            return Ok(Some(LogItem::Damage(damage)));
        }
        loop {
            let Some((name, reader)) = &mut self.segment else {
                let Some(segment) = self.segments.next() else { return Ok(None) };
                self.open_segment(&segment)?;
                continue;
            };
            match reader.next().map_err(|error| LogError::io(&self.directory.path(name), error))? {
                None => self.segment = None,
                Some(SegmentItem::Damage(damage)) if damage.kind.is_unexpected() => {
                    if damage.lost_seqs.is_empty() || damage.lost_seqs.start <= self.stated_watermark {
                        damage.report_to(&self.known_damage);
                    }
                    return Ok(Some(LogItem::Damage(damage)));
                }
                Some(SegmentItem::Damage(_)) => {}
                Some(SegmentItem::Batch { batch, .. }) => {
                    let seqs = batch.records.seqs();
                    if !seqs.is_empty()
                        && seqs.end > self.after_seq + 1
                        && seqs.start <= self.durable_watermark
                    {
                        self.batch.clear();
                        self.batch.extend_from_slice(batch.bytes);
                        let records = Batch::from_trusted(&self.batch).records.before_seq(seqs.end);
                        return Ok(Some(LogItem::Records(records.from_seq(self.after_seq + 1))));
                    }
                }
            }
        }
    }

    fn open_segment(&mut self, segment: &SegmentEntry) -> Result<(), LogError> {
        let name = segment.file_name();
        match SegmentReader::new(&self.directory, segment, self.durable_watermark) {
            Ok(reader) if self.is_skipped(&reader) => Ok(()),
            Ok(mut reader) => {
                reader.seek_to_seq(self.after_seq + 1);
                self.segment = Some((name, reader));
                Ok(())
            }
            // Retention has deleted the segment meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(LogError::io(&self.directory.path(&name), error)),
        }
    }

    /// Returns whether a segment has no record that matches the filter. Records that are missing at its end may.
    fn is_skipped(&self, segment: &SegmentReader) -> bool {
        segment.footer().is_some_and(|footer| !(self.may_match)(&footer.filter))
            && segment.gap_after_footer().is_none()
    }
}
