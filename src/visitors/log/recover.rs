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

use super::active_segment::ActiveSegment;
use super::dedup::DedupWindow;
use super::directory::{LogDirectory, segment_name};
use super::erase::secret::TombstoneKey;
use super::format::{Batch, Header};
use super::record::key_and_time;
use super::verify::{Damage, DamageKind, LogScan, SegmentEntry, SegmentItem, SegmentReader, damage_in};
use super::{LogConsumer, LogError, LogId, Options, SeqRange};
use crate::clock::Clock;
use crate::limits::SEQ_MAX;

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
    /// True if an erasure is not finished. The caller resumes it with [`super::Queue::resume_erasure`].
    pub has_unfinished_erasure: bool,
}

impl RecoveryReport {
    /// Returns whether there is damage that crashes alone cannot cause.
    pub fn has_unexpected_damage(&self) -> bool {
        self.unexpected_damage > 0
    }

    fn add_damage(&mut self, finding: Damage) {
        self.unexpected_damage += u64::from(finding.kind.is_unexpected());
        if self.damage.len() < DAMAGES_REPORTED_MAX {
            self.damage.push(finding);
        } else {
            self.damage_left_out += 1;
        }
    }
}

/// A segment to which nothing is written any more.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClosedSegment {
    pub(super) first_seq: u64,
    /// The length of its file.
    pub(super) bytes: u64,
    /// The newest received time of its records, in milliseconds. `None` without records.
    pub(super) newest_ms: Option<i64>,
}

/// The state with which the writer continues.
pub(super) struct RecoveredState {
    pub(super) active: ActiveSegment,
    pub(super) closed: VecDeque<ClosedSegment>,
    pub(super) dedup: DedupWindow,
    pub(super) log_id: LogId,
    pub(super) report: RecoveryReport,
}

/// Reads the directory, passes its records to the consumer, and begins a segment.
pub(super) fn recover(
    directory: &LogDirectory,
    options: &Options,
    clock: &dyn Clock,
    consumer: &mut dyn LogConsumer,
) -> Result<RecoveredState, LogError> {
    let failed = |error| LogError::io(&directory.path(""), error);
    directory.delete_temporary_files().map_err(failed)?;
    let mut survey = LogScan::of_directory(directory)?;
    // The records of a checkpoint were durable, too.
    survey.durable_watermark = survey.durable_watermark.max(options.checkpointed_seq);
    if survey.durable_watermark >= SEQ_MAX {
        return Err(LogError::SeqExhausted { dir: directory.path(""), seq: survey.durable_watermark });
    }
    for place in survey.expired.iter_mut().chain(&mut survey.segments) {
        rename_to_first_seq(directory, place)?;
    }
    for place in &survey.expired {
        directory.delete_segment(place.named_seq).map_err(failed)?;
    }
    let log_id = survey.log_id.or(options.log_id).unwrap_or_else(LogId::random);
    let mut recovery = Recovery::new(directory, options, survey.durable_watermark, log_id);
    survey.damage.into_iter().for_each(|finding| recovery.report.add_damage(finding));
    recovery.check_erasure().map_err(failed)?;
    recovery.ensure_secret(survey.segments.is_empty()).map_err(failed)?;
    for (done, place) in survey.segments.iter().enumerate() {
        consumer.on_recovery_progress(done, survey.segments.len());
        let failed = |error| LogError::io(&directory.path(&place.file_name()), error);
        let walk = SegmentReader::new(directory, place, survey.durable_watermark).map_err(failed)?;
        recovery.recover_segment(place, walk, consumer).map_err(failed)?;
    }
    recovery.report.segments = survey.segments.len();
    consumer.on_recovery_progress(survey.segments.len(), survey.segments.len());
    recovery.finish(clock).map_err(failed)
}

/// Renames a segment to its first seq, because later steps delete and replace segments by that name.
fn rename_to_first_seq(directory: &LogDirectory, place: &mut SegmentEntry) -> Result<(), LogError> {
    if place.named_seq == place.first_seq {
        return Ok(());
    }
    let failed = |error| LogError::io(&directory.path(&place.file_name()), error);
    if directory.segments().map_err(failed)?.contains(&place.first_seq) {
        let file = directory.path(&place.file_name());
        return Err(LogError::Misnamed { file, first_seq: place.first_seq });
    }
    directory.rename(&place.file_name(), &segment_name(place.first_seq)).map_err(failed)?;
    place.named_seq = place.first_seq;
    Ok(())
}

/// Returns the range of seqs in the directory. Above the watermark, only consecutive whole batches count.
pub(super) fn seq_range(directory: &LogDirectory) -> Result<SeqRange, LogError> {
    let survey = LogScan::of_directory(directory)?;
    let mut last = survey.durable_watermark;
    if let Some(place) = survey.segments.last() {
        let failed = |error| LogError::io(&directory.path(&place.file_name()), error);
        let mut walk = SegmentReader::new(directory, place, survey.durable_watermark).map_err(failed)?;
        // A sealed segment has no records above the watermark.
        while walk.footer().is_none()
            && let Some(passage) = walk.next().map_err(failed)?
        {
            if let SegmentItem::Batch { batch, .. } = passage {
                last = last.max(batch.records.seqs().end - 1);
            }
        }
    }
    let first = survey.segments.first().map_or(last + 1, |place| place.first_seq);
    Ok(SeqRange { first, last, log_id: survey.log_id })
}

struct Recovery<'a> {
    directory: &'a LogDirectory,
    durable_watermark: u64,
    log_id: LogId,
    checkpointed_seq: u64,
    /// The size up to which the new segment reserves zeros.
    reserve_until: u64,
    dedup: DedupWindow,
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
    fn new(directory: &'a LogDirectory, options: &Options, durable_watermark: u64, log_id: LogId) -> Self {
        Self {
            directory,
            durable_watermark,
            log_id,
            checkpointed_seq: options.checkpointed_seq,
            reserve_until: options.reserve_until(),
            dedup: DedupWindow::new(options.dedup_ids_max, options.hash_seed),
            closed: VecDeque::new(),
            tail: Vec::new(),
            cuts: Vec::new(),
            report: RecoveryReport::default(),
        }
    }

    /// Notes an unfinished erasure. Without the key, nobody can tell which IDs its tombstones name.
    fn check_erasure(&mut self) -> std::io::Result<()> {
        self.report.has_unfinished_erasure = self.directory.is_erasing()?;
        match TombstoneKey::load(self.directory) {
            Err(error) if error.kind() != ErrorKind::InvalidData => return Err(error),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) if self.report.has_unfinished_erasure => {
                self.report.add_damage(damage_in("secret", 0, 0, DamageKind::Secret, 0..0));
            }
            Ok(None) | Err(_) => {}
        }
        Ok(())
    }

    /// Creates the file `secret` with the data directory, or if it is missing. A damaged file stays: a new key
    /// would make the damage permanent.
    fn ensure_secret(&mut self, is_new: bool) -> std::io::Result<()> {
        match TombstoneKey::load(self.directory) {
            Ok(None) => {
                self.report.has_replaced_secret = !is_new;
                TombstoneKey::load_or_create(self.directory).map(drop)
            }
            Err(error) if error.kind() != ErrorKind::InvalidData => Err(error),
            _ => Ok(()),
        }
    }

    fn recover_segment(
        &mut self,
        place: &SegmentEntry,
        mut walk: SegmentReader,
        consumer: &mut dyn LogConsumer,
    ) -> std::io::Result<()> {
        let mut closed =
            ClosedSegment { first_seq: place.first_seq, bytes: walk.file_bytes(), newest_ms: None };
        let is_sealed = walk.footer().is_some();
        if let Some(footer) = walk.footer().filter(|footer| footer.last_seq <= self.checkpointed_seq) {
            for &(key, received_ms) in &footer.keys {
                self.dedup.check_and_insert(key, received_ms);
            }
            closed.newest_ms = Some(footer.newest_ms);
            self.closed.push_back(closed);
            return Ok(());
        }
        let (mut moved_at, mut rest) = (None, None);
        let footer_end = is_sealed.then(|| walk.file_bytes());
        while let Some(passage) = walk.next()? {
            match passage {
                SegmentItem::Batch { at, batch } => {
                    let Range { start, end } = batch.records.seqs();
                    if start <= self.durable_watermark {
                        // A batch is synced as a unit: if its first record is durable, its last one is.
                        self.durable_watermark = self.durable_watermark.max(end.saturating_sub(1));
                    } else if batch.records.count > 0 {
                        moved_at.get_or_insert(at);
                        self.tail.extend_from_slice(batch.bytes);
                        self.report.moved_records += u64::from(batch.records.count);
                    }
                    closed.newest_ms = closed.newest_ms.max(self.deliver_batch(&batch, consumer));
                }
                SegmentItem::Damage(finding) => {
                    // Quarantine the footer together with the tail.
                    let end = footer_end.unwrap_or(finding.offset + finding.bytes);
                    rest = (!finding.kind.is_unexpected()).then_some(finding.offset..end);
                    self.report.add_damage(finding);
                }
            }
        }
        // Truncate a sealed segment only if the new segment will replace it.
        let stays = is_sealed && place.named_seq != self.durable_watermark + 1;
        let rest_at = rest.as_ref().map(|rest| rest.start);
        let reserved_at = (walk.reserved_bytes() > 0).then(|| walk.batches_end());
        if let (Some(at), false) = (moved_at.or(rest_at).or(reserved_at), stays) {
            closed.bytes = at;
            self.cuts.push(TailCut { named_seq: place.named_seq, offset: at, quarantine: rest });
        }
        self.closed.push_back(closed);
        Ok(())
    }

    /// Passes a batch to the dedup window and the consumer. Returns the newest received time.
    fn deliver_batch(&mut self, batch: &Batch<'_>, consumer: &mut dyn LogConsumer) -> Option<i64> {
        let mut newest_ms = None;
        for (key, received_ms) in batch.records.iter_encoded().map(key_and_time) {
            self.dedup.check_and_insert(key, received_ms);
            newest_ms = newest_ms.max(Some(received_ms));
        }
        let records = batch.records.from_seq(self.checkpointed_seq + 1);
        if records.count > 0 {
            self.report.records += u64::from(records.count);
            consumer.consume(records);
        }
        newest_ms
    }

    fn finish(mut self, clock: &dyn Clock) -> std::io::Result<RecoveredState> {
        for cut in &self.cuts {
            if let Some(rest) = &cut.quarantine {
                self.report.quarantined.push(self.directory.quarantine(cut.named_seq, rest.clone())?);
            }
        }
        let first_seq = self.durable_watermark + 1;
        let header = Header { first_seq, created_ms: clock.now_ms(), log_id: self.log_id };
        let active = ActiveSegment::create(self.directory, header, &self.tail, self.reserve_until)?;
        // The new segment has already replaced a segment of the same name.
        for cut in self.cuts.iter().filter(|cut| cut.named_seq != first_seq) {
            self.directory.truncate_segment(cut.named_seq, cut.offset)?;
        }
        self.closed.retain(|closed| closed.first_seq != first_seq);
        self.dedup.commit();
        self.report.next_seq = first_seq + active.records();
        let Self { closed, dedup, log_id, report, .. } = self;
        Ok(RecoveredState { active, closed, dedup, log_id, report })
    }
}
