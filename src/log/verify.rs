//! Verification of the log directory. Classifies its contents: valid, lost, torn tail, or void.
//!
//! Recovery, readers and `check` all use this module, so that they cannot disagree.

use std::io;
use std::ops::Range;

use super::directory::{LogDirectory, OLDEST_FILE, OldestSeq, segment_name};
use super::footer::Footer;
use super::format::{Batch, HEADER_BYTES, HeaderError};
use super::scan::{self, BatchScanner, ScanItem};
use super::{LogError, LogId};
use crate::storage::damage::KnownDamage;

/// A damaged place in a file of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file's name in the directory.
    pub file: String,
    /// The offset of the damage.
    pub offset: u64,
    /// The length of the damage.
    pub bytes: u64,
    /// The kind of the damage.
    pub kind: DamageKind,
    /// The seqs that no readable batch holds any more.
    pub lost_seqs: Range<u64>,
}

/// The kind of a damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DamageKind {
    /// A segment's header is damaged. Its name replaces the header.
    Header,
    /// A segment's header and its name have different first seqs.
    Name,
    /// A batch below the watermark is damaged, or repeats seqs.
    Batch,
    /// Records below the watermark are missing, with no damaged bytes in their place.
    Missing,
    /// The footer or the trailer of a sealed segment is damaged, or bytes follow them. No record is lost.
    Footer,
    /// The file `oldest` is damaged.
    Oldest,
    /// The file `clock` is damaged.
    Clock,
    /// A segment is of another log.
    Foreign,
    /// The file `secret` is damaged or missing.
    Secret,
    /// A tail above the watermark is damaged, as a crash leaves it. No record in it was acknowledged as
    /// durable.
    Torn,
    /// A later segment voids a tail, as a failed sync leaves it.
    Void,
}

impl DamageKind {
    /// Returns whether crashes and failed syncs alone cannot cause this kind of damage.
    pub fn is_unexpected(self) -> bool {
        !matches!(self, Self::Torn | Self::Void)
    }
}

impl std::fmt::Display for DamageKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Header => "damaged header, replaced by the file name",
            Self::Name => "the first seq in the header differs from the file name",
            Self::Batch => "damaged batch",
            Self::Missing => "records are missing",
            Self::Footer => "damaged end of a sealed segment; its records are read without the footer",
            Self::Oldest => "damaged file; nothing is deleted because of it",
            Self::Clock => "damaged file; retention and the 24 hours of message IDs go on from the time of the newest segment",
            Self::Foreign => "a segment of another log; restore the right file from a copy",
            Self::Secret => "damaged or missing, so nothing can tell which visitors were erased; restore the file from a copy",
            Self::Torn => "torn tail, as a crash leaves it",
            Self::Void => "void tail, which a later segment replaces",
        })
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at offset {}, {} bytes: {}", self.file, self.offset, self.bytes, self.kind)?;
        if self.lost_seqs.is_empty() {
            Ok(())
        } else {
            write!(f, "; lost seqs {}..={}", self.lost_seqs.start, self.lost_seqs.end - 1)
        }
    }
}

impl Damage {
    /// Adds the place to the known ones, unless a crash alone can leave it.
    pub(crate) fn report_to(&self, known_damage: &KnownDamage) {
        if self.kind.is_unexpected() {
            known_damage.report(&self.file, self.offset, self);
        }
    }
}

/// An entry for one segment of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SegmentEntry {
    /// The first seq in the file name.
    pub named_seq: u64,
    /// The first seq in the header. If the header is damaged, the one in the file name.
    pub first_seq: u64,
    /// The log clock at its creation, in milliseconds. `None` if the header is damaged.
    pub created_ms: Option<i64>,
    /// The first seq of the next segment, which voids all records at or above it in this segment.
    pub void_from_seq: u64,
    /// The ID of the log in the header. `None` if the header is damaged.
    pub log_id: Option<LogId>,
}

impl SegmentEntry {
    /// Returns the name of the segment's file.
    pub(super) fn file_name(&self) -> String {
        segment_name(self.named_seq)
    }
}

/// The segments and the watermark of the directory at one moment.
#[derive(Debug)]
pub(super) struct LogScan {
    /// The segments that retention has kept, in order.
    pub segments: Vec<SegmentEntry>,
    /// The segments that retention has expired but not deleted because of a crash.
    pub expired: Vec<SegmentEntry>,
    /// The first seq that retention has kept.
    pub oldest_seq: u64,
    /// The watermark: all seqs up to this one were durable.
    pub durable_watermark: u64,
    /// The damage in headers and in the directory.
    pub damage: Vec<Damage>,
    /// The ID of the log, from the last intact header.
    pub log_id: Option<LogId>,
}

impl LogScan {
    /// Reads every header, and the footer or all batches of the last segment.
    ///
    /// # Errors
    /// An I/O error, or a format version that this release does not know.
    pub(super) fn of_directory(directory: &LogDirectory) -> Result<Self, LogError> {
        let mut damages = Vec::new();
        let mut segments = Vec::new();
        for named_seq in directory.segments().map_err(|error| LogError::io(&directory.path(""), error))? {
            segments.extend(read_segment_entry(directory, named_seq, &mut damages)?);
        }
        // Read `oldest` after the segments: otherwise a segment that retention deletes meanwhile would look
        // lost.
        let oldest = read_oldest(directory, &mut damages)?;
        segments.sort_by_key(|segment| segment.first_seq);
        for index in 1..segments.len() {
            segments[index - 1].void_from_seq = segments[index].first_seq;
        }
        let oldest_seq = oldest.unwrap_or_else(|| segments.first().map_or(1, |first| first.first_seq.max(1)));
        let retained =
            segments.split_off(segments.partition_point(|segment| segment.void_from_seq <= oldest_seq));
        if let Some(first) = retained.first().filter(|first| first.first_seq > oldest_seq) {
            damages.push(damage_in(
                &first.file_name(),
                0,
                0,
                DamageKind::Missing,
                oldest_seq..first.first_seq,
            ));
        }
        let durable_watermark =
            retained.last().map_or(Ok(0), |last| segment_watermark(directory, last))?.max(oldest_seq - 1);
        let log_id = log_id(&retained, &mut damages);
        Ok(Self {
            segments: retained,
            expired: segments,
            oldest_seq,
            durable_watermark,
            damage: damages,
            log_id,
        })
    }

    /// Raises the watermark to `seq`, which a checkpoint proves to be durable. Reports all seqs as lost if the
    /// directory has no segment.
    pub(super) fn raise_watermark(&mut self, seq: u64) {
        self.durable_watermark = self.durable_watermark.max(seq);
        if self.segments.is_empty() && self.durable_watermark > 0 {
            let lost = self.oldest_seq..self.durable_watermark + 1;
            let file = segment_name(self.oldest_seq);
            self.damage.push(damage_in(&file, 0, 0, DamageKind::Missing, lost));
        }
    }

    /// Reads one segment as if it were alone in the directory.
    ///
    /// # Errors
    /// As for [`LogScan::of_directory`].
    pub(super) fn of_segment(directory: &LogDirectory, named_seq: u64) -> Result<Self, LogError> {
        let mut damages = Vec::new();
        let segments: Vec<SegmentEntry> =
            read_segment_entry(directory, named_seq, &mut damages)?.into_iter().collect();
        let durable_watermark = segments.last().map_or(Ok(0), |last| segment_watermark(directory, last))?;
        let log_id = log_id(&segments, &mut damages);
        Ok(Self {
            segments,
            expired: Vec::new(),
            oldest_seq: named_seq,
            durable_watermark,
            damage: damages,
            log_id,
        })
    }
}

/// Returns the ID of the log, which is that of its last segment. A segment with another ID is damage.
fn log_id(segments: &[SegmentEntry], damages: &mut Vec<Damage>) -> Option<LogId> {
    let log_id = segments.iter().rev().find_map(|segment| segment.log_id)?;
    let foreign = segments.iter().filter(|segment| segment.log_id.is_some_and(|other| other != log_id));
    damages.extend(foreign.map(|segment| damage_in(&segment.file_name(), 32, 16, DamageKind::Foreign, 0..0)));
    Some(log_id)
}

/// Returns the first seq that retention has kept. `None` if the file `oldest` is damaged.
fn read_oldest(directory: &LogDirectory, damages: &mut Vec<Damage>) -> Result<Option<u64>, LogError> {
    match directory.oldest().map_err(|error| LogError::io(&directory.path("oldest"), error))? {
        OldestSeq::Absent => Ok(Some(1)),
        OldestSeq::Seq(seq) => Ok(Some(seq.max(1))),
        OldestSeq::Damaged => {
            damages.push(damage_in(OLDEST_FILE, 0, 0, DamageKind::Oldest, 0..0));
            Ok(None)
        }
    }
}

/// Reads a segment's header. Returns `None` if retention has deleted the file meanwhile.
pub(super) fn read_segment_entry(
    directory: &LogDirectory,
    named_seq: u64,
    damages: &mut Vec<Damage>,
) -> Result<Option<SegmentEntry>, LogError> {
    let name = segment_name(named_seq);
    let failed = |error| LogError::io(&directory.path(&name), error);
    let Some(file) = directory.find_file(&name).map_err(failed)? else { return Ok(None) };
    let (first_seq, created_ms, log_id) = match scan::read_header(&*file).map_err(failed)? {
        // An erasure writes the time 0 if it replaces a damaged header.
        Ok(header) => (header.first_seq, Some(header.created_ms).filter(|ms| *ms > 0), Some(header.log_id)),
        Err(HeaderError::UnsupportedVersion(version)) => {
            return Err(LogError::UnsupportedVersion { file: directory.path(&name), version });
        }
        Err(HeaderError::Damaged) => {
            damages.push(damage_in(&name, 0, HEADER_BYTES as u64, DamageKind::Header, 0..0));
            (named_seq, None, None)
        }
    };
    if first_seq != named_seq {
        damages.push(damage_in(&name, 16, 8, DamageKind::Name, 0..0));
    }
    Ok(Some(SegmentEntry { named_seq, first_seq, created_ms, void_from_seq: u64::MAX, log_id }))
}

/// Returns the greatest durable seq that a segment states: in its footer, or else in its header and its
/// batches.
fn segment_watermark(directory: &LogDirectory, segment: &SegmentEntry) -> Result<u64, LogError> {
    let failed = |error| LogError::io(&directory.path(&segment.file_name()), error);
    let file = directory.open_file(&segment.file_name()).map_err(failed)?;
    if let Some(footer) = scan::read_footer(&*file).map_err(failed)? {
        return Ok(footer.last_seq);
    }
    let end = file.length().map_err(failed)?;
    let mut scan = BatchScanner::new(file, end);
    let mut watermark = segment.first_seq.saturating_sub(1);
    while let Some(item) = scan.next().map_err(failed)? {
        if let ScanItem::Batch { batch, .. } = item {
            watermark = watermark.max(batch.durable_seq);
        }
    }
    Ok(watermark)
}

pub(super) fn damage_in(
    file_name: &str,
    offset: u64,
    bytes: u64,
    kind: DamageKind,
    lost_seqs: Range<u64>,
) -> Damage {
    Damage { file: file_name.to_owned(), offset, bytes, kind, lost_seqs }
}

/// The next item of a segment.
#[derive(Debug)]
pub(super) enum SegmentItem<'a> {
    /// A valid batch, without the records that the next segment voids.
    Batch {
        /// Its offset.
        offset: u64,
        /// Its content.
        batch: Batch<'a>,
    },
    /// Damage. A torn or void tail is the last item. Otherwise reading continues after the damage.
    Damage(Damage),
}

/// A reader of the batches and the damage of one segment.
pub(super) struct SegmentReader {
    scan: BatchScanner,
    footer: Option<Footer>,
    file_bytes: u64,
    file_name: String,
    expected_seq: u64,
    void_from_seq: u64,
    durable_watermark: u64,
    /// Offset and length of damage whose lost seqs are known when the next batch is found.
    pending_damage: Option<(u64, u64)>,
    is_ended: bool,
}

impl SegmentReader {
    /// Opens a segment. `durable_watermark` is the watermark of its directory.
    ///
    /// # Errors
    /// An I/O error.
    pub(super) fn new(
        directory: &LogDirectory,
        segment: &SegmentEntry,
        durable_watermark: u64,
    ) -> io::Result<Self> {
        let file = directory.open_file(&segment.file_name())?;
        let footer = scan::read_footer(&*file)?;
        let file_bytes = file.length()?;
        let end = footer.as_ref().map_or(file_bytes, |footer| footer.offset);
        Ok(Self {
            scan: BatchScanner::new(file, end),
            footer,
            file_bytes,
            file_name: segment.file_name(),
            expected_seq: segment.first_seq,
            void_from_seq: segment.void_from_seq,
            durable_watermark,
            pending_damage: None,
            is_ended: false,
        })
    }

    /// Returns the footer, if the segment is sealed.
    pub(super) fn footer(&self) -> Option<&Footer> {
        self.footer.as_ref()
    }

    /// Returns the damage after the last record of a sealed segment: the next segment begins later than it
    /// should.
    pub(super) fn gap_after_footer(&self) -> Option<Damage> {
        let footer = self.footer.as_ref()?;
        let lost = footer.last_seq + 1..self.durable_end();
        (!lost.is_empty()).then(|| damage_in(&self.file_name, footer.offset, 0, DamageKind::Missing, lost))
    }

    /// Returns the length of the file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Returns the offset where the batches end. Exact only after the last item.
    pub(super) fn batches_end(&self) -> u64 {
        self.scan.end()
    }

    /// Returns the number of reserved zeros after the batches. Exact only after the last item.
    pub(super) fn reserved_bytes(&self) -> u64 {
        if self.footer.is_some() { 0 } else { self.file_bytes - self.batches_end() }
    }

    /// Seeks to the last batch that the index has at or before `seq`.
    pub(super) fn seek_to_seq(&mut self, seq: u64) {
        let Some(footer) = &self.footer else { return };
        let behind = footer.index.partition_point(|&(first, _)| first <= seq);
        if let Some(&(first, offset)) = behind.checked_sub(1).and_then(|entry| footer.index.get(entry)) {
            self.scan.seek(offset);
            self.expected_seq = first;
        }
    }

    /// Continues at the batch at `offset`, which begins with `seq`.
    pub(super) fn resume(&mut self, offset: u64, seq: u64) {
        self.scan.seek(offset);
        self.expected_seq = seq;
    }

    /// Returns the seq of the next record, if nothing is damaged.
    pub(super) fn next_seq(&self) -> u64 {
        self.expected_seq
    }

    /// Reads the next item. Returns `None` at the end.
    ///
    /// # Errors
    /// An I/O error.
    pub(super) fn next(&mut self) -> io::Result<Option<SegmentItem<'_>>> {
        while !self.is_ended {
            let (offset, length, seqs) = match self.scan.next()? {
                None => return Ok(self.end_of_segment().map(SegmentItem::Damage)),
                Some(ScanItem::Damage { offset, bytes }) => {
                    if self.has_read_all_durable() {
                        return Ok(self.torn_tail(offset)?.map(SegmentItem::Damage));
                    }
                    let (first_at, _) = *self.pending_damage.get_or_insert((offset, 0));
                    self.pending_damage = Some((first_at, offset + bytes - first_at));
                    continue;
                }
                Some(ScanItem::Batch { offset, batch }) => (offset, batch.bytes.len(), batch.records.seqs()),
            };
            if seqs.start >= self.void_from_seq && !seqs.is_empty() {
                if self.pending_damage.is_some() || !self.has_read_all_durable() {
                    self.scan.seek(offset);
                    return Ok(Some(SegmentItem::Damage(self.take_gap(offset, self.durable_end()))));
                }
                return Ok(Some(SegmentItem::Damage(self.tail_damage(offset, DamageKind::Void)?)));
            }
            if seqs.start != self.expected_seq && self.has_read_all_durable() {
                return Ok(Some(SegmentItem::Damage(self.tail_damage(offset, DamageKind::Torn)?)));
            }
            if seqs.start > self.expected_seq || self.pending_damage.is_some() {
                self.scan.seek(offset);
                return Ok(Some(SegmentItem::Damage(self.take_gap(offset, seqs.start))));
            }
            return self.take_batch(offset, length, seqs).map(Some);
        }
        Ok(None)
    }

    /// Takes the batch at `offset`, which the scanner returned last. A batch that repeats seqs is damage.
    fn take_batch(&mut self, offset: u64, length: usize, seqs: Range<u64>) -> io::Result<SegmentItem<'_>> {
        if seqs.start < self.expected_seq {
            let repeated = damage_in(&self.file_name, offset, length as u64, DamageKind::Batch, 0..0);
            return Ok(SegmentItem::Damage(repeated));
        }
        self.expected_seq = seqs.end.min(self.void_from_seq);
        let mut batch = self.scan.last_batch(offset, length)?;
        batch.records = batch.records.before_seq(self.expected_seq);
        Ok(SegmentItem::Batch { offset, batch })
    }

    /// Returns whether the reader has passed all seqs of this segment that are known to have been durable.
    fn has_read_all_durable(&self) -> bool {
        self.expected_seq > self.durable_watermark || self.expected_seq >= self.void_from_seq
    }

    fn durable_end(&self) -> u64 {
        self.void_from_seq.min(self.durable_watermark + 1)
    }

    /// Returns the torn tail at `offset`. Returns `None` if a running writer has written there meanwhile.
    fn torn_tail(&mut self, offset: u64) -> io::Result<Option<Damage>> {
        if self.footer.is_none() && self.scan.has_grown(offset, self.file_bytes)? {
            self.is_ended = true;
            return Ok(None);
        }
        let kind = if self.scan.was_sealed(offset)? { DamageKind::Footer } else { DamageKind::Torn };
        self.tail_damage(offset, kind).map(Some)
    }

    fn tail_damage(&mut self, offset: u64, kind: DamageKind) -> io::Result<Damage> {
        self.is_ended = true;
        let bytes = self.scan.data_end(offset)? - offset;
        Ok(damage_in(&self.file_name, offset, bytes, kind, 0..0))
    }

    fn take_gap(&mut self, offset: u64, end_seq: u64) -> Damage {
        let lost = self.expected_seq..end_seq.max(self.expected_seq);
        self.expected_seq = lost.end;
        match self.pending_damage.take() {
            Some((damage_at, bytes)) => damage_in(&self.file_name, damage_at, bytes, DamageKind::Batch, lost),
            None => damage_in(&self.file_name, offset, 0, DamageKind::Missing, lost),
        }
    }

    fn end_of_segment(&mut self) -> Option<Damage> {
        self.is_ended = true;
        let durable_end = self.durable_end();
        (self.expected_seq < durable_end || self.pending_damage.is_some())
            .then(|| self.take_gap(self.scan.end(), durable_end))
    }
}
