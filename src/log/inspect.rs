//! A summary of one segment, for people.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::LogError;
use super::check::scan_segment_file;
use super::footer::Footer;
use super::format::{Batch, Header};
use super::scan;
use super::verify::{Damage, SegmentItem, SegmentReader};
use crate::record::RecordKind;
use crate::storage::disk::Disk;

/// A summary of one segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SegmentSummary {
    /// The length of the file.
    pub bytes: u64,
    /// The reserved zeros after the batches, included in `bytes`.
    pub reserved_bytes: u64,
    /// The header. `None` if it is damaged.
    pub header: Option<Header>,
    /// The format version that the header states.
    pub format_version: Option<u32>,
    /// The footer. `None` if the segment is not sealed or the footer is damaged.
    pub footer: Option<Footer>,
    /// Batches with records.
    pub batches: u64,
    /// Batches without records, which only state the durable seq.
    pub marks: u64,
    /// All records.
    pub records: u64,
    /// The number of records per kind, by the kind's name.
    pub kinds: BTreeMap<&'static str, u64>,
    /// The number of records per site.
    pub sites: BTreeMap<String, u64>,
    /// The first and the last seq.
    pub seqs: Option<(u64, u64)>,
    /// The earliest and the latest received time, in milliseconds.
    pub received_ms: Option<(i64, i64)>,
    /// The earliest and the latest timestamp of the records that are not void, in milliseconds.
    pub timestamp_ms: Option<(i64, i64)>,
    /// All damage, including torn and void tails.
    pub damage: Vec<Damage>,
}

/// Summarizes the segment at `path` alone.
///
/// # Errors
/// As for [`super::check_file`].
pub fn inspect(disk: Arc<dyn Disk>, path: &Path) -> Result<SegmentSummary, LogError> {
    let failed = |error| LogError::io(path, error);
    let (directory, log_scan) = scan_segment_file(disk, path)?;
    let mut summary = SegmentSummary { damage: log_scan.damage, ..SegmentSummary::default() };
    for segment in &log_scan.segments {
        let file = directory.open_file(&segment.file_name()).map_err(failed)?;
        summary.bytes = file.length().map_err(failed)?;
        summary.header = scan::read_header(&*file).map_err(failed)?.ok();
        summary.format_version = scan::read_format_version(&*file).map_err(failed)?;
        let mut reader =
            SegmentReader::new(&directory, segment, log_scan.durable_watermark).map_err(failed)?;
        summary.footer = reader.footer().cloned();
        while let Some(item) = reader.next().map_err(failed)? {
            match item {
                SegmentItem::Batch { batch, .. } => summary.add(&batch),
                SegmentItem::Damage(damage) => summary.damage.push(damage),
            }
        }
        summary.reserved_bytes = reader.reserved_bytes();
    }
    Ok(summary)
}

impl SegmentSummary {
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
            if record.kind != RecordKind::Void {
                widen(&mut self.timestamp_ms, record.timestamp_ms);
            }
        }
    }
}

fn widen<T: Ord + Copy>(range: &mut Option<(T, T)>, value: T) {
    let (least, most) = range.unwrap_or((value, value));
    *range = Some((least.min(value), most.max(value)));
}
