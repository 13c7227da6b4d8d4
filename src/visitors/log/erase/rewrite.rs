//! One file of the log, written anew without a visitor: as [`super::super::format`] says under Erasing.
//!
//! In come a sealed segment or a kept tail, and whom to take out; the file has its name back, whole and durable, or is as it
//! was. Each record keeps seq, length and place; nothing of other visitors changes.

use std::collections::{HashMap, HashSet};
use std::io;

use super::super::bloom::{Whose, may_contain};
use super::super::directory::Directory;
use super::super::footer::{Contents, Footer};
use super::super::format::{BATCH_HEADER_BYTES, Batch, HEADER_BYTES, Header, end_batch};
use super::super::record::{Record, make_void, record_length};
use super::super::scan::{self, Item, Scan};
use super::super::verify::Place;
use super::Visitor;
use super::secret::{Name, Secret};
use crate::limits::REWRITE_BYTES;
use crate::storage::disk::{DiskFile, append_whole};

/// Whose records become void.
pub(super) enum Whom<'a> {
    /// Those of one visitor.
    Visitor { visitor: &'a Visitor, anon_ids: HashSet<&'a str>, user_ids: HashSet<&'a str> },
    /// Those that a tombstone behind them names; the greatest seq of a tombstone for each name.
    Named { secret: &'a Secret, tombstones: HashMap<Name, u64> },
}

impl<'a> Whom<'a> {
    pub(super) fn visitor(visitor: &'a Visitor) -> Self {
        let ids = |whose: Whose| {
            let own = visitor.ids.iter().filter(move |(of, _)| *of == whose);
            own.map(|(_, id)| id.as_str()).collect()
        };
        Self::Visitor { visitor, anon_ids: ids(Whose::Anon), user_ids: ids(Whose::User) }
    }

    fn may_be_in(&self, footer: &Footer) -> bool {
        match self {
            Self::Visitor { visitor, .. } => {
                let mut ids = visitor.ids.iter();
                ids.any(|(whose, id)| may_contain(&footer.filter, &visitor.site, *whose, id))
            }
            // A name does not tell the id by which the filter goes.
            Self::Named { .. } => true,
        }
    }

    fn has(&self, seq: u64, record: &Record<'_>) -> bool {
        let Some(site) = record.site else { return false };
        match self {
            Self::Visitor { visitor, anon_ids, user_ids } => {
                site == visitor.site
                    && (record.anon_id.is_some_and(|id| anon_ids.contains(id))
                        || record.user_id.is_some_and(|id| user_ids.contains(id)))
            }
            Self::Named { secret, tombstones } => {
                let mut ids = [(Whose::Anon, record.anon_id), (Whose::User, record.user_id)].into_iter();
                let is_named = |(whose, id): (Whose, Option<&str>)| {
                    id.and_then(|id| tombstones.get(&secret.name(site, whose, id)))
                        .is_some_and(|at| seq < *at)
                };
                ids.any(is_named)
            }
        }
    }
}

/// Writes a segment that is not written to any more anew, if it has to be; how many records became void then.
pub(super) fn segment(directory: &Directory, place: &Place, whom: &Whom<'_>) -> io::Result<Option<u64>> {
    let file = match directory.open(&place.name()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let footer = scan::footer(&*file)?;
    if footer.as_ref().is_some_and(|footer| !whom.may_be_in(footer)) {
        return Ok(None);
    }
    let header = scan::header(&*file)?;
    let end = footer.as_ref().map_or(file.length()?, |footer| footer.at);
    let mut scan = Scan::new(file, end);
    if header.is_ok() && !has_to_change(&mut scan, place.limit, whom)? {
        return Ok(None);
    }
    let header = header.unwrap_or(Header { first_seq: place.first_seq, created_ms: 0 });
    let mut records = 0;
    directory.rewrite(&place.name(), &mut |file| {
        scan.seek(HEADER_BYTES as u64);
        append_whole(file, &header.to_bytes())?;
        let mut rewriting = Rewriting::new(file, HEADER_BYTES as u64, place.first_seq);
        rewriting.copy(&mut scan, place.limit, whom)?;
        records = rewriting.records;
        let next_seq = footer.as_ref().map_or(0, |footer| footer.last_seq + 1);
        rewriting.seal(next_seq.min(place.limit))
    })?;
    Ok(Some(records))
}

/// Writes what recovery cut from a segment anew, if it has to be; deletes it where no batch of it is whole.
pub(super) fn kept_aside(directory: &Directory, name: &str, whom: &Whom<'_>) -> io::Result<()> {
    let file = directory.open(name)?;
    let end = file.length()?;
    let mut scan = Scan::new(file, end);
    scan.seek(0);
    if !has_batch(&mut scan)? {
        return directory.delete(name);
    }
    scan.seek(0);
    if !has_to_change(&mut scan, u64::MAX, whom)? {
        return Ok(());
    }
    directory.rewrite(name, &mut |file| {
        scan.seek(0);
        Rewriting::new(file, 0, 0).copy(&mut scan, u64::MAX, whom)
    })
}

fn has_batch(scan: &mut Scan) -> io::Result<bool> {
    while let Some(item) = scan.next()? {
        if matches!(item, Item::Batch { .. }) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a file holds a record of the visitor's, or what cannot be read and so may be one.
fn has_to_change(scan: &mut Scan, limit: u64, whom: &Whom<'_>) -> io::Result<bool> {
    while let Some(item) = scan.next()? {
        let Item::Batch { batch, .. } = item else { return Ok(true) };
        if is_voided(&batch, limit) || batch.records.iter().any(|(seq, record)| whom.has(seq, &record)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the segment that begins with `limit` voids the batch, and all behind it.
fn is_voided(batch: &Batch<'_>, limit: u64) -> bool {
    batch.records.count > 0 && batch.records.first_seq >= limit
}

/// A file being written anew.
struct Rewriting<'a> {
    file: &'a mut dyn DiskFile,
    /// What is to be written next, and its offset.
    pending: Vec<u8>,
    at: u64,
    contents: Contents,
    records: u64,
}

impl<'a> Rewriting<'a> {
    fn new(file: &'a mut dyn DiskFile, at: u64, first_seq: u64) -> Self {
        let pending = Vec::with_capacity(REWRITE_BYTES);
        Self { file, pending, at, contents: Contents::new(first_seq), records: 0 }
    }

    /// Copies the whole batches, at the offsets where they stood.
    fn copy(&mut self, scan: &mut Scan, limit: u64, whom: &Whom<'_>) -> io::Result<()> {
        // What is damaged at the end is left out.
        let mut damaged = 0;
        while let Some(item) = scan.next()? {
            match item {
                Item::Damage { bytes, .. } => damaged += bytes,
                Item::Batch { batch, .. } if is_voided(&batch, limit) => break,
                Item::Batch { batch, .. } => {
                    self.zeros(std::mem::take(&mut damaged))?;
                    self.batch(&batch, whom);
                    self.flush_from(REWRITE_BYTES)?;
                }
            }
        }
        self.flush_from(0)
    }

    fn zeros(&mut self, mut bytes: u64) -> io::Result<()> {
        while bytes > 0 {
            let some = bytes.min(REWRITE_BYTES as u64);
            self.pending.resize(self.pending.len() + some as usize, 0);
            self.flush_from(REWRITE_BYTES)?;
            bytes -= some;
        }
        Ok(())
    }

    fn batch(&mut self, batch: &Batch<'_>, whom: &Whom<'_>) {
        let start = self.pending.len();
        self.pending.extend_from_slice(batch.bytes);
        let mut at = start + BATCH_HEADER_BYTES;
        let before = self.records;
        for (seq, record) in batch.records.iter() {
            let bytes = &mut self.pending[at..];
            let length = record_length(bytes).unwrap_or(0);
            at += length;
            if whom.has(seq, &record) {
                make_void(&mut bytes[..length]);
                self.records += 1;
            }
        }
        if self.records > before {
            let (first_seq, count) = (batch.records.first_seq, batch.records.count);
            end_batch(&mut self.pending, start, first_seq, count, batch.durable);
        }
        self.contents.add(self.at + start as u64, &Batch::trusted(&self.pending[start..]));
    }

    /// Writes what is pending if it is so much.
    fn flush_from(&mut self, bytes: usize) -> io::Result<()> {
        if self.pending.len() < bytes.max(1) {
            return Ok(());
        }
        append_whole(self.file, &self.pending)?;
        self.at += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    fn seal(mut self, next_seq: u64) -> io::Result<()> {
        self.contents.reach(next_seq);
        append_whole(self.file, &self.contents.into_bytes(self.at))
    }
}
