//! Rewrites one file of the log without a visitor. The section Erasing of [`super::super::format`] specifies
//! the result.
//!
//! The file is a closed segment or a quarantined tail. It is replaced atomically and durably, or stays as it
//! was. Each record keeps its seq, length and offset. The records of other visitors do not change.

use std::collections::{HashMap, HashSet};
use std::io;

use super::super::bloom::{IdKind, may_contain};
use super::super::directory::LogDirectory;
use super::super::footer::{Footer, FooterBuilder};
use super::super::format::{BATCH_HEADER_BYTES, Batch, HEADER_BYTES, Header, end_batch};
use super::super::record::{Record, make_void, record_length};
use super::super::scan::{self, BatchScanner, ScanItem};
use super::super::verify::SegmentEntry;
use super::VisitorIds;
use super::secret::{IdDigest, TombstoneKey};
use crate::limits::REWRITE_CHUNK_BYTES;
use crate::storage::disk::{DiskFile, append_all};

/// The selection of the records that become void.
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

    fn matches(&self, seq: u64, record: &Record<'_>) -> bool {
        let Some(site) = record.site else { return false };
        match self {
            Self::Visitor { visitor, anon_ids, user_ids } => {
                site == visitor.site
                    && (record.anon_id.is_some_and(|id| anon_ids.contains(id))
                        || record.user_id.is_some_and(|id| user_ids.contains(id)))
            }
            Self::Tombstones { secret, tombstones } => {
                let mut ids = [(IdKind::Anon, record.anon_id), (IdKind::User, record.user_id)].into_iter();
                let is_named = |(id_kind, id): (IdKind, Option<&str>)| {
                    id.and_then(|id| tombstones.get(&secret.digest(site, id_kind, id)))
                        .is_some_and(|at| seq < *at)
                };
                ids.any(is_named)
            }
        }
    }
}

/// Rewrites a closed segment if necessary. Returns the number of records that became void, or `None` if the
/// segment was not rewritten.
pub(super) fn rewrite_segment(
    directory: &LogDirectory,
    place: &SegmentEntry,
    target: &EraseTarget<'_>,
) -> io::Result<Option<u64>> {
    let file = match directory.open_file(&place.file_name()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let footer = scan::read_footer(&*file)?;
    if footer.as_ref().is_some_and(|footer| !target.may_match(footer)) {
        return Ok(None);
    }
    let header = scan::read_header(&*file)?;
    let end = footer.as_ref().map_or(file.length()?, |footer| footer.offset);
    let mut scan = BatchScanner::new(file, end);
    if header.is_ok() && !needs_rewrite(&mut scan, place.void_from_seq, target)? {
        return Ok(None);
    }
    let header = header.unwrap_or(Header { first_seq: place.first_seq, created_ms: 0 });
    let mut records = 0;
    directory.install_rewritten(&place.file_name(), &mut |file| {
        scan.seek(HEADER_BYTES as u64);
        append_all(file, &header.to_bytes())?;
        let mut rewriting = SegmentRewriter::new(file, HEADER_BYTES as u64, place.first_seq);
        rewriting.copy_batches(&mut scan, place.void_from_seq, target)?;
        records = rewriting.voided_records;
        let next_seq = footer.as_ref().map_or(0, |footer| footer.last_seq + 1);
        rewriting.seal(next_seq.min(place.void_from_seq))
    })?;
    Ok(Some(records))
}

/// Rewrites a quarantined tail if necessary. Deletes it if it holds no whole batch.
pub(super) fn rewrite_quarantined(
    directory: &LogDirectory,
    name: &str,
    target: &EraseTarget<'_>,
) -> io::Result<()> {
    let file = directory.open_file(name)?;
    let end = file.length()?;
    let mut scan = BatchScanner::new(file, end);
    scan.seek(0);
    if !has_batch(&mut scan)? {
        return directory.delete(name);
    }
    scan.seek(0);
    if !needs_rewrite(&mut scan, u64::MAX, target)? {
        return Ok(());
    }
    directory.install_rewritten(name, &mut |file| {
        scan.seek(0);
        SegmentRewriter::new(file, 0, 0).copy_batches(&mut scan, u64::MAX, target)
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

/// Returns whether a file holds a record of the visitor, damage that may be one, or a voided batch.
fn needs_rewrite(scan: &mut BatchScanner, limit: u64, target: &EraseTarget<'_>) -> io::Result<bool> {
    while let Some(item) = scan.next()? {
        let ScanItem::Batch { batch, .. } = item else { return Ok(true) };
        if is_voided(&batch, limit) || batch.records.iter().any(|(seq, record)| target.matches(seq, &record))
        {
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
    voided_records: u64,
}

impl<'a> SegmentRewriter<'a> {
    fn new(file: &'a mut dyn DiskFile, offset: u64, first_seq: u64) -> Self {
        let pending = Vec::with_capacity(REWRITE_CHUNK_BYTES);
        Self { file, pending, offset, footer: FooterBuilder::new(first_seq), voided_records: 0 }
    }

    /// Copies the whole batches to their old offsets.
    fn copy_batches(
        &mut self,
        scan: &mut BatchScanner,
        limit: u64,
        target: &EraseTarget<'_>,
    ) -> io::Result<()> {
        // Damage becomes zeros when a batch follows it. Damage at the end is left out.
        let mut damaged = 0;
        while let Some(item) = scan.next()? {
            match item {
                ScanItem::Damage { bytes, .. } => damaged += bytes,
                ScanItem::Batch { batch, .. } if is_voided(&batch, limit) => break,
                ScanItem::Batch { batch, .. } => {
                    self.append_zeros(std::mem::take(&mut damaged))?;
                    self.append_batch(&batch, target);
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

    fn append_batch(&mut self, batch: &Batch<'_>, target: &EraseTarget<'_>) {
        let start = self.pending.len();
        self.pending.extend_from_slice(batch.bytes);
        let mut at = start + BATCH_HEADER_BYTES;
        let before = self.voided_records;
        for (seq, record) in batch.records.iter() {
            let bytes = &mut self.pending[at..];
            let length = record_length(bytes).unwrap_or(0);
            at += length;
            if target.matches(seq, &record) {
                make_void(&mut bytes[..length]);
                self.voided_records += 1;
            }
        }
        if self.voided_records > before {
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
