//! Recovery: turns a directory, as a crash may have left it, into one that the writer can use.
//!
//! Recovery never appends to a segment of an earlier process. Whole batches above the watermark may have been
//! acknowledged, but nothing proves that they are durable. Syncing their file would prove nothing: an earlier
//! failed sync may have marked their pages clean. So recovery copies them into the segment that it begins,
//! which voids the originals.
//!
//! Then it quarantines torn and void tails and truncates the old files, so that the next start does not
//! report the same damage again.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::ops::Range;

use super::active_segment::{ActiveSegment, ClosedSegment};
use super::dedup::{DedupWindow, SegmentTimes, seen_time};
use super::delivery::{self, Delivery};
use super::directory::{LogDirectory, SECRET_FILE, segment_name};
use super::format::{Batch, Header};
use super::log_clock;
use super::tombstones::InterruptedErasure;
use super::verify::{Damage, DamageKind, LogScan, SegmentEntry, SegmentItem, SegmentReader, damage_in};
use super::{LogConsumer, LogError, LogId, Options};
use crate::clock::{Clock, LogClock};
use crate::limits::SEQ_MAX;
use crate::record::{TombstoneKey, key_and_time};

/// Number of damages that one report lists. The others are a count.
const DAMAGES_REPORTED_MAX: usize = 1_000;

/// The results of recovery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Segments that retention has kept.
    pub segments: usize,
    /// Records that were passed to the consumer.
    pub records: u64,
    /// Records above the watermark, which were copied into the new segment.
    pub moved_records: u64,
    /// The seq of the next record.
    pub next_seq: u64,
    /// The damage that was found, at most [`DAMAGES_REPORTED_MAX`] places.
    pub damage: Vec<Damage>,
    /// The number of further damaged places.
    pub damage_left_out: u64,
    /// The number of all damaged places that crashes alone cannot cause.
    pub unexpected_damage: u64,
    /// The names of the files with the quarantined tails.
    pub quarantined: Vec<String>,
    /// True if the log had lost its file `secret` and has got a new one. Earlier tombstones cannot be read.
    pub has_replaced_secret: bool,
    /// The erasure that a killed process has left. The caller finishes it, or removes its marker, with
    /// [`super::Queue::resume_erasure`].
    pub interrupted_erasure: Option<InterruptedErasure>,
}

impl RecoveryReport {
    /// Returns whether there is damage that crashes alone cannot cause.
    pub fn has_unexpected_damage(&self) -> bool {
        self.unexpected_damage > 0
    }

    fn add_damage(&mut self, damage: Damage) {
        self.unexpected_damage += u64::from(damage.kind.is_unexpected());
        if self.damage.len() < DAMAGES_REPORTED_MAX {
            self.damage.push(damage);
        } else {
            self.damage_left_out += 1;
        }
    }
}

/// The state with which the writer continues.
pub(super) struct RecoveredState {
    pub(super) active: ActiveSegment,
    pub(super) closed: VecDeque<ClosedSegment>,
    pub(super) dedup: DedupWindow,
    pub(super) log_id: LogId,
    pub(super) log_clock: LogClock,
    pub(super) report: RecoveryReport,
}

/// An error of a recovery.
pub(super) enum RecoverError {
    /// The log cannot be read.
    Fatal(LogError),
    /// The log was read to its end, and the consumer has all records. The directory cannot be written.
    NotWritable {
        /// The error of the first operation that failed.
        cause: LogError,
        /// The damage that was found.
        report: Box<RecoveryReport>,
    },
}

impl RecoverError {
    /// Returns the error itself.
    pub(super) fn into_cause(self) -> LogError {
        match self {
            Self::Fatal(cause) | Self::NotWritable { cause, .. } => cause,
        }
    }
}

impl From<LogError> for RecoverError {
    fn from(error: LogError) -> Self {
        Self::Fatal(error)
    }
}

/// Reads the directory, passes its records after `delivered_seq` to the consumer, and begins a segment. Raises
/// `delivered_seq` to the last record that the consumer got. If the directory cannot be written, the consumer
/// gets all records nevertheless.
pub(super) fn recover(
    directory: &LogDirectory,
    options: &Options,
    delivered_seq: &mut u64,
    clock: &dyn Clock,
    consumer: &mut dyn LogConsumer,
) -> Result<RecoveredState, RecoverError> {
    let failed = |error| LogError::io(&directory.path(""), error);
    let mut scan = LogScan::of_directory(directory)?;
    scan.raise_watermark(options.checkpointed_seq.max(options.durable_seq));
    if scan.durable_watermark >= SEQ_MAX {
        return Err(LogError::SeqExhausted { dir: directory.path(""), seq: scan.durable_watermark }.into());
    }
    let log_id = scan.log_id.or(options.log_id).unwrap_or_else(LogId::random);
    let prepared = prepare(directory, &mut scan);
    let (log_clock, clock_damage) = log_clock::restore(directory, &scan.segments, clock).map_err(failed)?;
    let mut recovery = Recovery::new(directory, options, scan.durable_watermark, log_id, log_clock);
    recovery.delivered_seq = options.checkpointed_seq.max(*delivered_seq);
    scan.damage.into_iter().chain(clock_damage).for_each(|damage| recovery.report.add_damage(damage));
    recovery.check_erasure().map_err(failed)?;
    let prepared = prepared.and_then(|()| {
        recovery.ensure_secret(scan.segments.is_empty(), options.tombstone_key.as_ref()).map_err(failed)
    });
    let recovered = delivery::run_with_consumer(consumer, |delivery| {
        recovery.recover_segments(&scan.segments, scan.durable_watermark, delivery)
    });
    let recovered = recovered.map_err(LogError::Thread)?;
    // The consumer has these records also after an error.
    *delivered_seq = recovery.delivered_seq;
    recovered?;
    let report = Box::new(recovery.report.clone());
    let finished = prepared.and_then(|()| recovery.finish().map_err(failed));
    finished.map_err(|cause| match cause {
        LogError::Io { .. } => RecoverError::NotWritable { cause, report },
        cause => RecoverError::Fatal(cause),
    })
}

/// Deletes the files that a crash left, and gives each segment its proper name.
fn prepare(directory: &LogDirectory, scan: &mut LogScan) -> Result<(), LogError> {
    let failed = |error| LogError::io(&directory.path(""), error);
    directory.delete_temporary_files().map_err(failed)?;
    for segment in scan.expired.iter_mut().chain(&mut scan.segments) {
        rename_to_first_seq(directory, segment)?;
    }
    scan.expired.iter().try_for_each(|segment| directory.delete_segment(segment.named_seq)).map_err(failed)
}

/// Renames a segment to its first seq, because later steps delete and replace segments by that name.
fn rename_to_first_seq(directory: &LogDirectory, segment: &mut SegmentEntry) -> Result<(), LogError> {
    if segment.named_seq == segment.first_seq {
        return Ok(());
    }
    let failed = |error| LogError::io(&directory.path(&segment.file_name()), error);
    if directory.segments().map_err(failed)?.contains(&segment.first_seq) {
        let file = directory.path(&segment.file_name());
        return Err(LogError::Misnamed { file, first_seq: segment.first_seq });
    }
    directory.rename(&segment.file_name(), &segment_name(segment.first_seq)).map_err(failed)?;
    segment.named_seq = segment.first_seq;
    Ok(())
}

/// Returns the log clock at the end of each segment: the creation time of the next one. No value is later than
/// `now_ms`, or than the one of the next segment.
fn closed_times(segments: &[SegmentEntry], now_ms: i64) -> Vec<i64> {
    let mut times = Vec::with_capacity(segments.len());
    let mut end_ms = now_ms;
    for segment in segments.iter().rev() {
        times.push(end_ms);
        end_ms = segment.created_ms.map_or(end_ms, |ms| ms.min(end_ms));
    }
    times.reverse();
    times
}

struct Recovery<'a> {
    directory: &'a LogDirectory,
    durable_watermark: u64,
    log_id: LogId,
    checkpointed_seq: u64,
    /// The last seq that the consumer has.
    delivered_seq: u64,
    /// The size up to which the new segment reserves zeros.
    reserve_until: u64,
    dedup: DedupWindow,
    log_clock: LogClock,
    /// The newest received time so far, in milliseconds.
    received_ms: i64,
    closed: VecDeque<ClosedSegment>,
    /// The whole batches above the watermark.
    tail: Vec<u8>,
    cuts: Vec<TailCut>,
    report: RecoveryReport,
}

/// A truncation of one segment.
struct TailCut {
    named_seq: u64,
    /// The new length of the file.
    offset: u64,
    /// The range to quarantine: the part of the tail that was not copied into the new segment.
    quarantine: Option<Range<u64>>,
}

impl<'a> Recovery<'a> {
    fn new(
        directory: &'a LogDirectory,
        options: &Options,
        durable_watermark: u64,
        log_id: LogId,
        log_clock: LogClock,
    ) -> Self {
        Self {
            directory,
            durable_watermark,
            log_id,
            checkpointed_seq: options.checkpointed_seq,
            delivered_seq: options.checkpointed_seq,
            reserve_until: options.reserve_until(),
            dedup: DedupWindow::new(options.dedup_ids_max, options.hash_seed),
            log_clock,
            received_ms: i64::MIN,
            closed: VecDeque::new(),
            tail: Vec::new(),
            cuts: Vec::new(),
            report: RecoveryReport::default(),
        }
    }

    /// Notes an interrupted erasure. Without the key, nobody can tell which IDs its tombstones name.
    fn check_erasure(&mut self) -> std::io::Result<()> {
        self.report.interrupted_erasure = InterruptedErasure::find(self.directory)?;
        match TombstoneKey::load(self.directory) {
            Err(error) if error.kind() != ErrorKind::InvalidData => return Err(error),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) if self.report.interrupted_erasure.is_some() => {
                self.report.add_damage(damage_in(SECRET_FILE, 0, 0, DamageKind::Secret, 0..0));
            }
            Ok(None) | Err(_) => {}
        }
        Ok(())
    }

    /// Creates the file `secret` with the data directory, or if it is missing. A damaged file stays: a new key
    /// would make the damage permanent.
    fn ensure_secret(&mut self, is_new_directory: bool, key: Option<&TombstoneKey>) -> std::io::Result<()> {
        match TombstoneKey::load(self.directory) {
            Ok(None) => {
                self.report.has_replaced_secret = !is_new_directory;
                key.cloned().unwrap_or_else(TombstoneKey::random).save(self.directory)
            }
            Err(error) if error.kind() != ErrorKind::InvalidData => Err(error),
            _ => Ok(()),
        }
    }

    fn recover_segments(
        &mut self,
        segments: &[SegmentEntry],
        durable_watermark: u64,
        delivery: &mut Delivery,
    ) -> Result<(), LogError> {
        let closed_ms = closed_times(segments, self.log_clock.now_ms());
        for (done, (segment, closed_ms)) in segments.iter().zip(closed_ms).enumerate() {
            delivery.send_progress(done, segments.len());
            let failed = |error| LogError::io(&self.directory.path(&segment.file_name()), error);
            let reader = SegmentReader::new(self.directory, segment, durable_watermark).map_err(failed)?;
            self.recover_segment(segment, closed_ms, reader, delivery).map_err(failed)?;
        }
        self.report.segments = segments.len();
        delivery.send_progress(segments.len(), segments.len());
        Ok(())
    }

    fn recover_segment(
        &mut self,
        segment: &SegmentEntry,
        closed_ms: i64,
        mut reader: SegmentReader,
        delivery: &mut Delivery,
    ) -> std::io::Result<()> {
        let mut closed =
            ClosedSegment { first_seq: segment.first_seq, bytes: reader.file_bytes(), closed_ms };
        let times = SegmentTimes { created_ms: segment.created_ms.unwrap_or(i64::MIN), closed_ms };
        let is_sealed = reader.footer().is_some();
        if let Some(footer) = reader.footer().filter(|footer| footer.last_seq <= self.checkpointed_seq) {
            for &(key, received_ms) in &footer.keys {
                let seen_ms = seen_time(&mut self.received_ms, received_ms, times);
                self.dedup.check_and_insert(key, seen_ms);
            }
            self.closed.push_back(closed);
            reader.gap_after_footer().into_iter().for_each(|gap| self.report.add_damage(gap));
            return Ok(());
        }
        let mut moved_offset = None;
        let mut rest: Option<Range<u64>> = None;
        let footer_end = is_sealed.then(|| reader.file_bytes());
        while let Some(item) = reader.next()? {
            match item {
                SegmentItem::Batch { offset, batch } => {
                    let Range { start, end } = batch.records.seqs();
                    if start <= self.durable_watermark {
                        // A batch is synced as a unit: if its first record is durable, its last one is.
                        self.durable_watermark = self.durable_watermark.max(end.saturating_sub(1));
                    } else if batch.records.count > 0 {
                        moved_offset.get_or_insert(offset);
                        self.tail.extend_from_slice(batch.bytes);
                        self.report.moved_records += u64::from(batch.records.count);
                    }
                    self.deliver_batch(&batch, times, delivery);
                }
                SegmentItem::Damage(damage) => {
                    // Quarantine the footer together with the tail.
                    let end = footer_end.unwrap_or(damage.offset + damage.bytes);
                    rest = (!damage.kind.is_unexpected()).then_some(damage.offset..end);
                    self.report.add_damage(damage);
                }
            }
        }
        // Truncate a sealed segment only if the new segment will replace it.
        let is_kept = is_sealed && segment.named_seq != self.durable_watermark + 1;
        let rest_offset = rest.as_ref().map(|rest| rest.start);
        let reserved_offset = (reader.reserved_bytes() > 0).then(|| reader.batches_end());
        if let Some(offset) = moved_offset.or(rest_offset).or(reserved_offset).filter(|_| !is_kept) {
            closed.bytes = offset;
            self.cuts.push(TailCut { named_seq: segment.named_seq, offset, quarantine: rest });
        }
        self.closed.push_back(closed);
        Ok(())
    }

    /// Passes a batch to the dedup window and the consumer. `times` are those of its segment.
    fn deliver_batch(&mut self, batch: &Batch<'_>, times: SegmentTimes, delivery: &mut Delivery) {
        for (key, received_ms) in batch.records.iter_encoded().map(key_and_time) {
            let seen_ms = seen_time(&mut self.received_ms, received_ms, times);
            self.dedup.check_and_insert(key, seen_ms);
        }
        let records = batch.records.from_seq(self.delivered_seq + 1);
        if records.count > 0 {
            self.report.records += u64::from(records.count);
            self.delivered_seq = records.seqs().end - 1;
            delivery.send(records);
        }
    }

    fn finish(mut self) -> std::io::Result<RecoveredState> {
        for cut in &self.cuts {
            if let Some(rest) = &cut.quarantine {
                self.report.quarantined.push(self.directory.quarantine(cut.named_seq, rest.clone())?);
            }
        }
        let first_seq = self.durable_watermark + 1;
        let header = Header { first_seq, created_ms: self.log_clock.now_ms(), log_id: self.log_id };
        let active = ActiveSegment::create(self.directory, header, &self.tail, self.reserve_until)?;
        // The new segment has already replaced a segment of the same name.
        for cut in self.cuts.iter().filter(|cut| cut.named_seq != first_seq) {
            self.directory.truncate_segment(cut.named_seq, cut.offset)?;
        }
        self.closed.retain(|closed| closed.first_seq != first_seq);
        self.dedup.commit();
        self.report.next_seq = first_seq + active.records();
        let Self { closed, dedup, log_id, log_clock, report, .. } = self;
        Ok(RecoveredState { active, closed, dedup, log_id, log_clock, report })
    }
}
