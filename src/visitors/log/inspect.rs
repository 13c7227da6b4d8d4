//! What one segment holds, summed up for people.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::LogError;
use super::check::survey_file;
use super::footer::Footer;
use super::format::{Batch, Header};
use super::record::Kind;
use super::scan;
use super::verify::{Finding, Passage, Walk};
use crate::storage::disk::Disk;

/// One segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspected {
    /// Of the file.
    pub bytes: u64,
    /// Of these, zeros behind the batches, for the next ones to go over.
    pub reserved_bytes: u64,
    /// `None` where it is damaged.
    pub header: Option<Header>,
    /// `None` where it was not sealed, or the footer is damaged.
    pub footer: Option<Footer>,
    /// Batches with records.
    pub batches: u64,
    /// Batches without, which only name the durable seq.
    pub marks: u64,
    /// All of them.
    pub records: u64,
    /// Records by the name of their kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Records by their site.
    pub sites: BTreeMap<String, u64>,
    /// The first seq and the last.
    pub seqs: Option<(u64, u64)>,
    /// The earliest and the latest, in milliseconds.
    pub received_ms: Option<(i64, i64)>,
    /// The same, of those that are not void.
    pub timestamp_ms: Option<(i64, i64)>,
    /// What is wrong, torn and void tails too.
    pub findings: Vec<Finding>,
}

/// Looks through the segment at `path`, by itself.
///
/// # Errors
/// As of [`super::check_file`].
pub fn inspect(disk: Arc<dyn Disk>, path: &Path) -> Result<Inspected, LogError> {
    let failed = |error| LogError::io(path, error);
    let (directory, survey) = survey_file(disk, path)?;
    let mut inspected = Inspected { findings: survey.findings, ..Inspected::default() };
    for place in &survey.places {
        let file = directory.open(&place.name()).map_err(failed)?;
        inspected.bytes = file.length().map_err(failed)?;
        inspected.header = scan::header(&*file).map_err(failed)?.ok();
        let mut walk = Walk::new(&directory, place, survey.proven).map_err(failed)?;
        inspected.footer = walk.footer().cloned();
        while let Some(passage) = walk.next().map_err(failed)? {
            match passage {
                Passage::Batch { batch, .. } => inspected.add(&batch),
                Passage::Flaw(finding) => inspected.findings.push(finding),
            }
        }
        inspected.reserved_bytes = walk.reserved_bytes();
    }
    Ok(inspected)
}

impl Inspected {
    fn add(&mut self, batch: &Batch<'_>) {
        if batch.records.count == 0 {
            self.marks += 1;
            return;
        }
        self.batches += 1;
        for (seq, record) in batch.records.iter() {
            self.records += 1;
            *self.kinds.entry(record.kind.name()).or_default() += 1;
            if let Some(site) = record.site {
                match self.sites.get_mut(site) {
                    Some(count) => *count += 1,
                    None => drop(self.sites.insert(site.to_owned(), 1)),
                }
            }
            widen(&mut self.seqs, seq);
            widen(&mut self.received_ms, record.received_ms);
            if record.kind != Kind::Void {
                widen(&mut self.timestamp_ms, record.timestamp_ms);
            }
        }
    }
}

fn widen<T: Ord + Copy>(range: &mut Option<(T, T)>, value: T) {
    let (least, most) = range.unwrap_or((value, value));
    *range = Some((least.min(value), most.max(value)));
}
