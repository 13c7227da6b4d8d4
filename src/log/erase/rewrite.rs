//! Rewrites one file of the log without a visitor. The section Erasing of [`super::super::format`] specifies
//! the result.
//!
//! The file is a closed segment or a quarantined tail. It is replaced atomically and durably, or stays as it
//! was. Each record keeps its seq, length and offset. The records of other visitors do not change.

use std::io;

use super::super::dedup::{SegmentTimes, seen_time};
use super::super::directory::LogDirectory;
use super::super::footer::FooterBuilder;
use super::super::format::{BATCH_HEADER_BYTES, Batch, HEADER_BYTES, Header, LogId, Records, end_batch};
use super::super::scan::{self, BatchScanner, ScanItem};
use super::super::verify::SegmentEntry;
use super::redact::{RedactedIds, keep_end_of_tie, make_void, redact};
use crate::limits::REWRITE_CHUNK_BYTES;
use crate::record::{IdHasher, Record, key_and_time};
use crate::storage::disk::{DiskFile, append_all};

/// The change of a record by an erasure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// The record does not change.
    Keep,
    /// The record belongs to an erased visitor.
    Void,
    /// The record belongs to an erased visitor, and ended the tie of its anonymous ID to a user who was not erased.
    KeepEndOfTie,
    /// The record belongs to another visitor and names erased IDs.
    Redact(RedactedIds),
}

/// A rule that decides the treatment of each record.
pub trait EraseRule {
    /// Returns whether a segment with this filter may hold a record that the rule changes.
    fn may_match(&self, filter: &[u8]) -> bool;

    /// Returns whether the rule may change a record that has an ID with this hash. It changes no other record.
    fn may_name(&self, hash: u64) -> bool;

    /// Returns the treatment of a record.
    fn treatment(&mut self, seq: u64, record: &Record<'_>) -> Treatment;

    /// Returns whether a record of a quarantined tail names an erased visitor. Its seq and its owner mean
    /// nothing, because the log has given its seq again.
    fn names_visitor(&mut self, record: &Record<'_>) -> bool;
}

/// A rule that decodes only the records that it may change.
struct Treatments<'a> {
    rule: &'a mut dyn EraseRule,
    hasher: IdHasher,
    /// True for a quarantined tail. Nothing reads it, so each record that names the visitor becomes void.
    is_quarantined: bool,
}

impl<'a> Treatments<'a> {
    fn new(rule: &'a mut dyn EraseRule, is_quarantined: bool) -> Self {
        Self { rule, hasher: IdHasher::default(), is_quarantined }
    }

    /// Returns the treatment of an encoded record.
    fn of(&mut self, seq: u64, encoded_record: &[u8]) -> Treatment {
        let mut may_change = false;
        self.hasher.each(encoded_record, |hash| may_change |= self.rule.may_name(hash));
        if !may_change {
            return Treatment::Keep;
        }
        match Record::decode(encoded_record) {
            Some((record, _)) if !self.is_quarantined => self.rule.treatment(seq, &record),
            Some((record, _)) if self.rule.names_visitor(&record) => Treatment::Void,
            _ => Treatment::Keep,
        }
    }
}

/// The parts of an erasure that do not depend on the record.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct RewriteOptions {
    /// Void records that the dedup window saw after this time keep their dedup keys, in milliseconds.
    pub(in super::super) keep_keys_after_ms: i64,
    /// The ID of the log, for a segment whose header is damaged.
    pub(in super::super) log_id: LogId,
}

/// The changes of a rewriting, in records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RewriteCounts {
    pub(super) voided: u64,
    pub(super) redacted: u64,
    /// True if zeros have replaced bytes that no batch had, or such bytes were left out at the end.
    pub(super) has_damage: bool,
}

/// Rewrites a closed segment if necessary. `closed_ms` is the log clock when the segment was closed. Returns the
/// numbers of changed records, or `None` if the segment was not rewritten.
pub(super) fn rewrite_segment(
    directory: &LogDirectory,
    segment: &SegmentEntry,
    closed_ms: i64,
    rule: &mut dyn EraseRule,
    options: RewriteOptions,
) -> io::Result<Option<RewriteCounts>> {
    let Some(file) = directory.find_file(&segment.file_name())? else { return Ok(None) };
    let footer = scan::read_footer(&*file)?;
    if footer.as_ref().is_some_and(|footer| !rule.may_match(&footer.filter)) {
        return Ok(None);
    }
    let header = scan::read_header(&*file)?;
    let end = footer.as_ref().map_or(file.length()?, |footer| footer.offset);
    let mut scan = BatchScanner::new(file, end);
    let mut treatments = Treatments::new(rule, false);
    if header.is_ok() && !needs_rewrite(&mut scan, segment.void_from_seq, &mut treatments)? {
        return Ok(None);
    }
    let header =
        header.unwrap_or(Header { first_seq: segment.first_seq, created_ms: 0, log_id: options.log_id });
    let mut counts = RewriteCounts::default();
    // The column file shows the records as they were.
    directory.delete_column_file(segment.named_seq)?;
    directory.install_rewritten(&segment.file_name(), &mut |file| {
        scan.seek(HEADER_BYTES as u64);
        append_all(file, &header.to_bytes())?;
        let mut rewriter = SegmentRewriter::new(file, HEADER_BYTES as u64, segment.first_seq, options);
        rewriter.times = SegmentTimes { created_ms: header.created_ms, closed_ms };
        rewriter.copy_batches(&mut scan, segment.void_from_seq, &mut treatments)?;
        counts = rewriter.counts;
        let next_seq = footer.as_ref().map_or(0, |footer| footer.last_seq + 1);
        rewriter.seal(next_seq.min(segment.void_from_seq))
    })?;
    Ok(Some(counts))
}

/// Rewrites a quarantined tail if necessary. Deletes it if it holds no whole batch.
pub(super) fn rewrite_quarantined(
    directory: &LogDirectory,
    name: &str,
    rule: &mut dyn EraseRule,
    options: RewriteOptions,
) -> io::Result<()> {
    let mut treatments = Treatments::new(rule, true);
    let file = directory.open_file(name)?;
    let end = file.length()?;
    let mut scan = BatchScanner::new(file, end);
    scan.seek(0);
    if !has_batch(&mut scan)? {
        return directory.delete(name);
    }
    scan.seek(0);
    if !needs_rewrite(&mut scan, u64::MAX, &mut treatments)? {
        return Ok(());
    }
    directory.install_rewritten(name, &mut |file| {
        scan.seek(0);
        SegmentRewriter::new(file, 0, 0, options).copy_batches(&mut scan, u64::MAX, &mut treatments)
    })
}

fn has_batch(scanner: &mut BatchScanner) -> io::Result<bool> {
    while let Some(item) = scanner.next()? {
        if matches!(item, ScanItem::Batch { .. }) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a file holds a record to change, damage that may be one, or a voided batch.
fn needs_rewrite(
    scanner: &mut BatchScanner,
    void_from_seq: u64,
    treatments: &mut Treatments<'_>,
) -> io::Result<bool> {
    while let Some(item) = scanner.next()? {
        let ScanItem::Batch { batch, .. } = item else { return Ok(true) };
        let mut records = batch.records.seqs().zip(batch.records.iter_encoded());
        let mut is_changed = |(seq, record): (u64, &[u8])| treatments.of(seq, record) != Treatment::Keep;
        if is_voided(&batch, void_from_seq) || records.any(&mut is_changed) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether the segment that begins with `void_from_seq` voids the batch. It then voids all later batches,
/// too.
fn is_voided(batch: &Batch<'_>, void_from_seq: u64) -> bool {
    batch.records.count > 0 && batch.records.first_seq >= void_from_seq
}

/// A writer of the new version of a file.
struct SegmentRewriter<'a> {
    file: &'a mut dyn DiskFile,
    /// The bytes to write next, and their offset in the file.
    pending: Vec<u8>,
    offset: u64,
    footer: FooterBuilder,
    counts: RewriteCounts,
    options: RewriteOptions,
    times: SegmentTimes,
    /// The newest received time so far, in milliseconds.
    received_ms: i64,
}

impl<'a> SegmentRewriter<'a> {
    fn new(file: &'a mut dyn DiskFile, offset: u64, first_seq: u64, options: RewriteOptions) -> Self {
        Self {
            file,
            pending: Vec::with_capacity(REWRITE_CHUNK_BYTES),
            offset,
            footer: FooterBuilder::new(first_seq),
            counts: RewriteCounts::default(),
            options,
            times: SegmentTimes { created_ms: i64::MIN, closed_ms: i64::MAX },
            received_ms: i64::MIN,
        }
    }

    /// Copies the whole batches to their old offsets.
    fn copy_batches(
        &mut self,
        scanner: &mut BatchScanner,
        void_from_seq: u64,
        treatments: &mut Treatments<'_>,
    ) -> io::Result<()> {
        // Damage becomes zeros when a batch follows it. Damage at the end is left out.
        let mut damaged_bytes = 0;
        while let Some(item) = scanner.next()? {
            match item {
                ScanItem::Damage { bytes, .. } => {
                    damaged_bytes += bytes;
                    self.counts.has_damage = true;
                }
                ScanItem::Batch { batch, .. } if is_voided(&batch, void_from_seq) => break,
                ScanItem::Batch { batch, .. } => {
                    self.append_zeros(std::mem::take(&mut damaged_bytes))?;
                    self.append_batch(&batch, treatments);
                    self.flush_from(REWRITE_CHUNK_BYTES)?;
                }
            }
        }
        self.flush_from(0)
    }

    fn append_zeros(&mut self, mut bytes: u64) -> io::Result<()> {
        while bytes > 0 {
            let chunk_bytes = bytes.min(REWRITE_CHUNK_BYTES as u64);
            self.pending.resize(self.pending.len() + chunk_bytes as usize, 0);
            self.flush_from(REWRITE_CHUNK_BYTES)?;
            bytes -= chunk_bytes;
        }
        Ok(())
    }

    fn append_batch(&mut self, batch: &Batch<'_>, treatments: &mut Treatments<'_>) {
        let start = self.pending.len();
        self.pending.extend_from_slice(batch.bytes);
        let mut record_start = start + BATCH_HEADER_BYTES;
        let before = self.counts;
        for (seq, record) in batch.records.seqs().zip(batch.records.iter_encoded()) {
            let bytes = &mut self.pending[record_start..record_start + record.len()];
            record_start += record.len();
            let (_, received_ms) = key_and_time(record);
            let seen_ms = seen_time(&mut self.received_ms, received_ms, self.times);
            let treatment = treatments.of(seq, record);
            match treatment {
                Treatment::Keep => {}
                Treatment::Void | Treatment::KeepEndOfTie => {
                    let keeps_key = seen_ms > self.options.keep_keys_after_ms;
                    if treatment == Treatment::KeepEndOfTie {
                        keep_end_of_tie(bytes, keeps_key);
                    } else {
                        make_void(bytes, keeps_key);
                    }
                    self.counts.voided += 1;
                }
                Treatment::Redact(ids) => {
                    redact(bytes, ids);
                    self.counts.redacted += 1;
                }
            }
        }
        if self.counts != before {
            let Records { first_seq, count, .. } = batch.records;
            end_batch(&mut self.pending, start, first_seq, count, batch.durable_seq);
        }
        self.footer.add_batch(self.offset + start as u64, &Batch::from_trusted(&self.pending[start..]));
    }

    /// Writes the pending bytes if there are at least `bytes_min` of them, and at least 1.
    fn flush_from(&mut self, bytes_min: usize) -> io::Result<()> {
        if self.pending.len() < bytes_min.max(1) {
            return Ok(());
        }
        append_all(self.file, &self.pending)?;
        self.offset += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    fn seal(mut self, next_seq: u64) -> io::Result<()> {
        self.footer.extend_to(next_seq);
        append_all(self.file, &self.footer.finish(self.offset))
    }
}
