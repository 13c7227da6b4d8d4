//! Rewrites one file of the log without a visitor. The section Erasing of [`super::super::format`] specifies
//! the result.
//!
//! The file is a closed segment or a quarantined tail. It is replaced atomically and durably, or stays as it
//! was. Each record keeps its seq, length and offset. The records of other visitors do not change.

use std::collections::{HashMap, HashSet};
use std::io;

use super::super::bloom::{IdKind, may_contain};
use super::super::directory::LogDirectory;
use super::super::fold_input::FoldParts;
use super::super::footer::{Footer, FooterBuilder};
use super::super::format::{BATCH_HEADER_BYTES, Batch, HEADER_BYTES, Header, LogId, end_batch};
use super::super::record::{Record, record_length};
use super::super::scan::{self, BatchScanner, ScanItem};
use super::super::verify::SegmentEntry;
use super::VisitorIds;
use super::redact::{RedactedIds, make_void, redact};
use super::secret::{IdDigest, TombstoneKey};
use crate::limits::REWRITE_CHUNK_BYTES;
use crate::storage::disk::{DiskFile, append_all};

/// The change of a record by an erasure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    Keep,
    /// The record belongs to the erased visitor.
    Void,
    /// The record belongs to another visitor and names erased IDs.
    Redact(RedactedIds),
}

/// An erasure, as far as it decides the treatment of each record.
pub(super) struct Eraser<'a> {
    pub(super) target: EraseTarget<'a>,
    /// Void records that were received after this time keep their dedup keys, in milliseconds.
    pub(super) keep_keys_after_ms: i64,
    /// The ID of the log, for a segment whose header is damaged.
    pub(super) log_id: LogId,
}

impl Eraser<'_> {
    fn apply(&self, treatment: Treatment, record: &Record<'_>, bytes: &mut [u8], counts: &mut RewriteCounts) {
        match treatment {
            Treatment::Keep => {}
            Treatment::Void => {
                make_void(bytes, record.received_ms > self.keep_keys_after_ms);
                counts.voided += 1;
            }
            Treatment::Redact(ids) => {
                redact(bytes, ids);
                counts.redacted += 1;
            }
        }
    }
}

/// The numbers of records that a rewriting changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RewriteCounts {
    pub(super) voided: u64,
    pub(super) redacted: u64,
}

/// The selection of the records that become void or redacted.
pub(super) enum EraseTarget<'a> {
    /// The records of one visitor.
    Visitor { visitor: &'a VisitorIds, anon_ids: HashSet<&'a str>, user_ids: HashSet<&'a str> },
    /// The records that a later tombstone names. The map has the greatest seq of a tombstone for each digest.
    Tombstones { secret: &'a TombstoneKey, tombstones: HashMap<IdDigest, u64> },
}

impl<'a> EraseTarget<'a> {
    pub(super) fn of_visitor(visitor: &'a VisitorIds) -> Self {
        let ids = |id_kind: IdKind| {
            let own = visitor.ids.iter().filter(move |(of, _)| *of == id_kind);
            own.map(|(_, id)| id.as_str()).collect()
        };
        Self::Visitor { visitor, anon_ids: ids(IdKind::Anon), user_ids: ids(IdKind::User) }
    }

    fn may_match(&self, footer: &Footer) -> bool {
        match self {
            Self::Visitor { visitor, .. } => {
                let mut ids = visitor.ids.iter();
                ids.any(|(id_kind, id)| may_contain(&footer.filter, &visitor.site, *id_kind, id))
            }
            // The filter needs IDs, and a digest does not reveal its ID.
            Self::Tombstones { .. } => true,
        }
    }

    /// Returns the treatment of a record. A record that names an erased ID as `previousId` only belongs to
    /// another visitor.
    fn treatment(&self, seq: u64, record: &Record<'_>) -> Treatment {
        let names = |id_kind, id: Option<&str>| id.is_some_and(|id| self.names(seq, record, id_kind, id));
        if names(IdKind::Anon, record.anon_id) || names(IdKind::User, record.user_id) {
            return Treatment::Void;
        }
        let mut content = Vec::new();
        record.fold_input.unpack(&mut content);
        let previous_id = FoldParts::parse(&content).previous_id;
        match names(IdKind::Anon, previous_id) || names(IdKind::User, previous_id) {
            true => Treatment::Redact(RedactedIds { previous_id: true, ..RedactedIds::default() }),
            false => Treatment::Keep,
        }
    }

    /// Returns whether an ID in the record with this seq is erased.
    fn names(&self, seq: u64, record: &Record<'_>, id_kind: IdKind, id: &str) -> bool {
        let Some(site) = record.site else { return false };
        match self {
            Self::Visitor { visitor, anon_ids, user_ids } => {
                let ids = if id_kind == IdKind::Anon { anon_ids } else { user_ids };
                site == visitor.site && ids.contains(id)
            }
            Self::Tombstones { secret, tombstones } => {
                tombstones.get(&secret.digest(site, id_kind, id)).is_some_and(|at| seq < *at)
            }
        }
    }
}

/// Rewrites a closed segment if necessary. Returns the numbers of changed records, or `None` if the segment was
/// not rewritten.
pub(super) fn rewrite_segment(
    directory: &LogDirectory,
    place: &SegmentEntry,
    eraser: &Eraser<'_>,
) -> io::Result<Option<RewriteCounts>> {
    let file = match directory.open_file(&place.file_name()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let footer = scan::read_footer(&*file)?;
    if footer.as_ref().is_some_and(|footer| !eraser.target.may_match(footer)) {
        return Ok(None);
    }
    let header = scan::read_header(&*file)?;
    let end = footer.as_ref().map_or(file.length()?, |footer| footer.offset);
    let mut scan = BatchScanner::new(file, end);
    if header.is_ok() && !needs_rewrite(&mut scan, place.void_from_seq, &eraser.target)? {
        return Ok(None);
    }
    let (first_seq, log_id) = (place.first_seq, eraser.log_id);
    let header = header.unwrap_or(Header { first_seq, created_ms: 0, log_id });
    let mut counts = RewriteCounts::default();
    directory.install_rewritten(&place.file_name(), &mut |file| {
        scan.seek(HEADER_BYTES as u64);
        append_all(file, &header.to_bytes())?;
        let mut rewriting = SegmentRewriter::new(file, HEADER_BYTES as u64, place.first_seq);
        rewriting.copy_batches(&mut scan, place.void_from_seq, eraser)?;
        counts = rewriting.counts;
        let next_seq = footer.as_ref().map_or(0, |footer| footer.last_seq + 1);
        rewriting.seal(next_seq.min(place.void_from_seq))
    })?;
    Ok(Some(counts))
}

/// Rewrites a quarantined tail if necessary. Deletes it if it holds no whole batch.
pub(super) fn rewrite_quarantined(
    directory: &LogDirectory,
    name: &str,
    eraser: &Eraser<'_>,
) -> io::Result<()> {
    let file = directory.open_file(name)?;
    let end = file.length()?;
    let mut scan = BatchScanner::new(file, end);
    scan.seek(0);
    if !has_batch(&mut scan)? {
        return directory.delete(name);
    }
    scan.seek(0);
    if !needs_rewrite(&mut scan, u64::MAX, &eraser.target)? {
        return Ok(());
    }
    directory.install_rewritten(name, &mut |file| {
        scan.seek(0);
        SegmentRewriter::new(file, 0, 0).copy_batches(&mut scan, u64::MAX, eraser)
    })
}

fn has_batch(scan: &mut BatchScanner) -> io::Result<bool> {
    while let Some(item) = scan.next()? {
        if matches!(item, ScanItem::Batch { .. }) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a file holds a record to change, damage that may be one, or a voided batch.
fn needs_rewrite(scan: &mut BatchScanner, limit: u64, target: &EraseTarget<'_>) -> io::Result<bool> {
    while let Some(item) = scan.next()? {
        let ScanItem::Batch { batch, .. } = item else { return Ok(true) };
        let is_changed = |(seq, record): (u64, Record<'_>)| target.treatment(seq, &record) != Treatment::Keep;
        if is_voided(&batch, limit) || batch.records.iter().any(is_changed) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether the segment that begins with seq `limit` voids the batch. It then voids all later batches,
/// too.
fn is_voided(batch: &Batch<'_>, limit: u64) -> bool {
    batch.records.count > 0 && batch.records.first_seq >= limit
}

/// A writer of the new version of a file.
struct SegmentRewriter<'a> {
    file: &'a mut dyn DiskFile,
    /// The bytes to write next, and their offset in the file.
    pending: Vec<u8>,
    offset: u64,
    footer: FooterBuilder,
    counts: RewriteCounts,
}

impl<'a> SegmentRewriter<'a> {
    fn new(file: &'a mut dyn DiskFile, offset: u64, first_seq: u64) -> Self {
        let pending = Vec::with_capacity(REWRITE_CHUNK_BYTES);
        let (footer, counts) = (FooterBuilder::new(first_seq), RewriteCounts::default());
        Self { file, pending, offset, footer, counts }
    }

    /// Copies the whole batches to their old offsets.
    fn copy_batches(&mut self, scan: &mut BatchScanner, limit: u64, eraser: &Eraser<'_>) -> io::Result<()> {
        // Damage becomes zeros when a batch follows it. Damage at the end is left out.
        let mut damaged = 0;
        while let Some(item) = scan.next()? {
            match item {
                ScanItem::Damage { bytes, .. } => damaged += bytes,
                ScanItem::Batch { batch, .. } if is_voided(&batch, limit) => break,
                ScanItem::Batch { batch, .. } => {
                    self.append_zeros(std::mem::take(&mut damaged))?;
                    self.append_batch(&batch, eraser);
                    self.flush_from(REWRITE_CHUNK_BYTES)?;
                }
            }
        }
        self.flush_from(0)
    }

    fn append_zeros(&mut self, mut bytes: u64) -> io::Result<()> {
        while bytes > 0 {
            let some = bytes.min(REWRITE_CHUNK_BYTES as u64);
            self.pending.resize(self.pending.len() + some as usize, 0);
            self.flush_from(REWRITE_CHUNK_BYTES)?;
            bytes -= some;
        }
        Ok(())
    }

    fn append_batch(&mut self, batch: &Batch<'_>, eraser: &Eraser<'_>) {
        let start = self.pending.len();
        self.pending.extend_from_slice(batch.bytes);
        let mut at = start + BATCH_HEADER_BYTES;
        let before = self.counts;
        for (seq, record) in batch.records.iter() {
            let bytes = &mut self.pending[at..];
            let length = record_length(bytes).unwrap_or(0);
            at += length;
            let treatment = eraser.target.treatment(seq, &record);
            eraser.apply(treatment, &record, &mut bytes[..length], &mut self.counts);
        }
        if self.counts != before {
            let (first_seq, count) = (batch.records.first_seq, batch.records.count);
            end_batch(&mut self.pending, start, first_seq, count, batch.durable_seq);
        }
        self.footer.add_batch(self.offset + start as u64, &Batch::from_trusted(&self.pending[start..]));
    }

    /// Writes the pending bytes if there are at least `bytes` of them, and at least 1.
    fn flush_from(&mut self, bytes: usize) -> io::Result<()> {
        if self.pending.len() < bytes.max(1) {
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
