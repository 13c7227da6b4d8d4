//! The tombstones of a log: read for a list of its erasures, and appended to a copy of the log that is older than they are.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::super::active_segment::ActiveSegment;
use super::super::directory::LogDirectory;
use super::super::format::{Header, begin_batch, end_batch};
use super::super::reader::{self, LogItem, LogReader};
use super::super::tombstones::InterruptedErasure;
use super::super::verify::{Damage, DamageKind, LogScan, SegmentEntry, SegmentItem, SegmentReader};
use super::super::{LogError, LogId, SeqRange, log_clock};
use crate::clock::Clock;
use crate::limits::TOMBSTONES_PER_BATCH_MAX;
use crate::record::{IdTag, Record, RecordKind, tombstone_owner, tombstone_payload, tombstone_tags};
use crate::storage::disk::Disk;

/// A tombstone of a log, with all that a copy of the log needs to carry out the erasure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedTombstone {
    pub seq: u64,
    /// The time of the erasure, in milliseconds.
    pub erased_ms: i64,
    pub site: String,
    /// The digest of the erased visitor.
    pub owner: IdTag,
    /// The digests of the named IDs, in ascending order.
    pub named: Vec<IdTag>,
}

impl ListedTombstone {
    /// Returns the content of a tombstone. `None` if it names no owner.
    fn of(seq: u64, record: &Record<'_>) -> Option<Self> {
        Some(Self {
            seq,
            erased_ms: record.received_ms,
            site: record.site?.to_owned(),
            owner: tombstone_owner(record)?,
            named: tombstone_tags(record).collect(),
        })
    }
}

/// The tombstones of a log at one moment.
#[derive(Debug)]
pub(crate) struct TombstoneScan {
    /// The seqs of the log. Retention has deleted earlier tombstones.
    pub range: SeqRange,
    /// In the order of their seqs.
    pub tombstones: Vec<ListedTombstone>,
    /// Damage that may hide tombstones.
    pub damage: Vec<Damage>,
}

/// Reads the tombstones of the log in `dir`. A server may be writing to it.
///
/// # Errors
/// A file is of a later release, or an I/O error occurs.
pub(crate) fn scan_tombstones(disk: &Arc<dyn Disk>, dir: &Path) -> Result<TombstoneScan, LogError> {
    let directory = LogDirectory::open_read_only(Arc::clone(disk), dir);
    let range = reader::seq_range(&directory)?;
    let LogScan { segments, damage, durable_watermark, .. } = LogScan::of_directory(&directory)?;
    let mut scan = TombstoneScan { range, tombstones: Vec::new(), damage };
    scan.damage.retain(|damage| matches!(damage.kind, DamageKind::Missing | DamageKind::Foreign));
    for segment in &segments {
        match scan.read_segment(&directory, segment, durable_watermark) {
            // Retention has deleted the segment meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result.map_err(|error| LogError::io(&directory.path(&segment.file_name()), error))?,
        }
    }
    Ok(scan)
}

impl TombstoneScan {
    /// Reads the tombstones of one segment, which are its first records.
    fn read_segment(
        &mut self,
        directory: &LogDirectory,
        segment: &SegmentEntry,
        durable_watermark: u64,
    ) -> io::Result<()> {
        let mut reader = SegmentReader::new(directory, segment, durable_watermark)?;
        while let Some(item) = reader.next()? {
            match item {
                SegmentItem::Damage(damage) if damage.kind.is_unexpected() => self.damage.push(damage),
                SegmentItem::Damage(_) => {}
                SegmentItem::Batch { batch, .. } => {
                    for (seq, record) in batch.records.iter() {
                        if record.kind != RecordKind::Tombstone {
                            return Ok(());
                        }
                        self.tombstones.extend(ListedTombstone::of(seq, &record));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns the received time of the last record of the log in `dir`, in milliseconds. `None` if it has no record.
///
/// # Errors
/// A file is of a later release, or an I/O error occurs.
pub(crate) fn last_received_ms(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    range: &SeqRange,
) -> Result<Option<i64>, LogError> {
    let reader = LogReader::open(Arc::clone(disk), dir, range.last.saturating_sub(1))?;
    let mut reader = reader.with_durable_seq(range.last);
    let mut last_ms = None;
    while let Some(item) = reader.read_next()? {
        if let LogItem::Records(records) = item {
            last_ms = records.iter().last().map(|(_, record)| record.received_ms).or(last_ms);
        }
    }
    Ok(last_ms)
}

/// Appends tombstones to a copy of a log that no server uses, as the first records of a segment. Marks them, and the erasures
/// from `unfinished_seq` on, as an erasure that has begun, as a crash leaves it. So the next start finishes all of them. The
/// tombstones get the seqs after those of the copy.
///
/// # Errors
/// The directory is locked, or the disk fails.
pub(crate) fn append_to_copy(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    tombstones: &[ListedTombstone],
    unfinished_seq: Option<u64>,
    clock: &dyn Clock,
) -> Result<(), LogError> {
    let directory = LogDirectory::lock(Arc::clone(disk), dir)?;
    let failed = |error| LogError::io(dir, error);
    let last_seq = reader::seq_range(&directory)?.last;
    let LogScan { segments, log_id, .. } = LogScan::of_directory(&directory)?;
    let erasure = InterruptedErasure::find(&directory).map_err(failed)?.filter(|erasure| erasure.is_begun);
    let tombstone_seq = (!tombstones.is_empty()).then_some(last_seq + 1);
    let seqs = [erasure.map(|erasure| erasure.seq), tombstone_seq, unfinished_seq];
    if let Some(seq) = seqs.into_iter().flatten().min() {
        directory.set_erasing(seq, clock.now_ms()).map_err(failed)?;
    }
    if !tombstones.is_empty() {
        let batches = encode(tombstones, last_seq).map_err(failed)?;
        let (log_clock, _) = log_clock::restore(&directory, &segments, clock).map_err(failed)?;
        let created_ms = log_clock.now_ms();
        let log_id = log_id.unwrap_or_else(LogId::random);
        let header = Header { first_seq: last_seq + 1, created_ms, log_id };
        ActiveSegment::create(&directory, header, &batches, 0).map_err(failed)?;
    }
    Ok(())
}

/// Encodes tombstones in batches after the record `last_seq`, which is durable.
fn encode(tombstones: &[ListedTombstone], last_seq: u64) -> io::Result<Vec<u8>> {
    let mut batches = Vec::new();
    let mut first_seq = last_seq + 1;
    for chunk in tombstones.chunks(TOMBSTONES_PER_BATCH_MAX) {
        let start = begin_batch(&mut batches);
        for ListedTombstone { erased_ms, site, owner, named, .. } in chunk {
            let payload = tombstone_payload(*owner, named);
            let record = Record::tombstone(site, &payload, *erased_ms);
            record.encode(&mut batches).map_err(io::Error::other)?;
        }
        end_batch(&mut batches, start, first_seq, chunk.len() as u32, last_seq);
        first_seq += chunk.len() as u64;
    }
    Ok(batches)
}
