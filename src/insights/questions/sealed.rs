//! The cache of counts over the sealed segments. The next answer to the same question uses these counts again.
//!
//! Every number is a sum over visitors. So new events change only the counts of the visitors in the tail, which is the
//! columns of the active segment. The cache keeps the rows that these visitors have in the sealed segments. The next
//! answer counts the kept rows again, together with the rows in the tail. So the count of a visit is exact even if the
//! visit begins in a sealed segment and ends in the tail. Late events are counted too. If a new visitor appears in the
//! tail later, the rows of this visitor in the sealed segments are read and kept. The counts of these rows are
//! subtracted from the cached counts.

use std::any::Any;
use std::collections::VecDeque;

use super::credits::ScannedFiles;
use super::limits::{Limits, ScanError};
use super::plan::Plan;
use super::row::Row;
use super::scan::{ScanSummary, VisitorsAgain, scan, scan_into, scan_visitors};
use super::values::Values;
use super::visitor_tables::{VisitorTable, Visitors};
use crate::checksum::hash128;
use crate::insights::columns::format::TextColumn;
use crate::insights::columns::reader::Columns;

/// The memory for the cached counts is the memory of Insights divided by this number. If the counts need more, the
/// least recently used counts are dropped.
const CACHE_SHARE: u64 = 8;
/// If the tail has at most this many new visitors, only the rows of these visitors are read. If it has more, all rows
/// are read again.
const NEW_VISITORS_MAX: usize = 4_096;
/// The memory of one kept visitor. The memory of the rows is counted separately.
const KEPT_VISITOR_BYTES: u64 = 64;

/// Counts that support addition and subtraction.
pub(crate) trait Count: Send + 'static {
    /// Counts the events of a visitor.
    fn add_visitor(&mut self, rows: &[Row]);

    /// Combines each count with the corresponding count of `other`.
    fn combine(&mut self, other: &Self, operation: fn(u64, u64) -> u64);

    /// Adds the counts of other visitors.
    fn add(&mut self, other: &Self) {
        self.combine(other, u64::wrapping_add);
    }

    /// Subtracts the counts of visitors that are included in these counts.
    fn subtract(&mut self, other: &Self) {
        self.combine(other, u64::wrapping_sub);
    }

    /// Returns the memory of the counts, in bytes.
    fn bytes(&self) -> u64;
}

/// The columns of a log.
#[derive(Clone, Copy)]
pub struct LogColumns<'f> {
    /// The columns of the sealed segments, in the order of their seqs. If the caller uses no cache, the last of these
    /// can be the columns of the active segment.
    pub sealed: &'f [&'f Columns],
    /// The columns of the active segment. `None` if they are not in memory or are in `sealed`.
    pub tail: Option<&'f Columns>,
}

impl<'f> LogColumns<'f> {
    /// Returns the columns of all segments, in the order of their seqs.
    pub(crate) fn all(self) -> Vec<&'f Columns> {
        self.sealed.iter().copied().chain(self.tail).collect()
    }

    /// Returns a text that identifies the set of sealed segments.
    pub(crate) fn sealed_name(self) -> String {
        let seqs = self.sealed.iter().flat_map(|file| [file.header().first_seq, file.header().last_seq]);
        let bytes: Vec<u8> = seqs.flat_map(u64::to_le_bytes).collect();
        format!("{:032x}", hash128(&bytes))
    }
}

/// The rows of some visitors.
#[derive(Default)]
struct KeptRows {
    rows: Vec<Row>,
    /// For each visitor, the range of its rows.
    ranges: VisitorTable<(u32, u32)>,
}

impl KeptRows {
    /// Adds a visitor, and its rows.
    fn insert(&mut self, visitor_hash: u64, rows: &[Row]) {
        let start = self.rows.len() as u32;
        self.rows.extend_from_slice(rows);
        self.ranges.insert(visitor_hash, (start, self.rows.len() as u32));
    }

    /// Adds those of the visitors that have no rows.
    fn insert_others<'v>(&mut self, visitors: impl IntoIterator<Item = &'v u64>) {
        visitors.into_iter().for_each(|visitor| {
            self.ranges.entry(*visitor).or_default();
        });
        self.rows.shrink_to_fit();
    }

    /// Returns the rows of a visitor. `None` if it was not added.
    fn get(&self, visitor_hash: u64) -> Option<&[Row]> {
        self.ranges.get(&visitor_hash).map(|(start, end)| &self.rows[*start as usize..*end as usize])
    }

    /// Iterates over the visitors with rows, and their rows.
    fn iter(&self) -> impl Iterator<Item = (u64, &[Row])> {
        let ranges = self.ranges.iter().filter(|(_, (start, end))| start < end);
        ranges.map(|(visitor, (start, end))| (*visitor, &self.rows[*start as usize..*end as usize]))
    }

    /// Returns the memory of this number of rows, in bytes.
    fn bytes_of(row_count: usize) -> u64 {
        row_count as u64 * ROW_BYTES
    }

    fn bytes(&self) -> u64 {
        self.ranges.len() as u64 * KEPT_VISITOR_BYTES + Self::bytes_of(self.rows.len())
    }
}

/// The counts of a question over the sealed segments.
struct SealedCount<C> {
    /// The counts of all visitors that are not in `kept`, together.
    counts: C,
    /// For each visitor of the tail, the rows of this visitor in the sealed segments.
    kept: KeptRows,
    values: Values,
    rows: u64,
    other: [u64; TextColumn::COUNT],
    /// The visitors with a cut visit in the sealed segments. They are in neither `counts` nor `kept`.
    cut: CutVisitors,
}

/// The counts over the sealed segments, one entry for each recent question.
#[derive(Default)]
pub struct AnswerCache {
    /// The first entry is the least recently used.
    entries: VecDeque<CacheEntry>,
    hits: u64,
}

struct CacheEntry {
    key: String,
    bytes: u64,
    /// A [`SealedCount`].
    count: Box<dyn Any + Send>,
}

impl AnswerCache {
    /// Drops all counts. They can contain erased records after an erasure. They can be wrong if a panic has interrupted
    /// an update.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Returns the number of times that counts were found in the cache. One answer can find counts several times.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    fn take<C: Count>(&mut self, key: &str) -> Option<SealedCount<C>> {
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        let count = self.entries.remove(index)?.count.downcast().ok()?;
        self.hits += 1;
        Some(*count)
    }

    fn put<C: Count>(&mut self, key: String, count: SealedCount<C>, bytes_max: u64) {
        let bytes = count.bytes() + key.len() as u64;
        self.entries.push_back(CacheEntry { key, bytes, count: Box::new(count) });
        let mut all: u64 = self.entries.iter().map(|entry| entry.bytes).sum();
        while all > bytes_max
            && let Some(dropped) = self.entries.pop_front()
        {
            all -= dropped.bytes;
        }
    }
}

/// A function that takes the rows of a visitor. It returns whether a visit in these rows is cut: it may begin before the rows
/// that were read.
pub(crate) type IsCut<'c> = &'c dyn Fn(&[Row]) -> bool;

/// Maximum number of visitors with a cut visit whose rows are read again. If there are more, all rows are read again.
const CUT_VISITORS_MAX: usize = 4_096;

/// The visitors with a cut visit. A scan does not count them.
#[derive(Debug, Default, Clone)]
pub(crate) struct CutVisitors {
    /// The hashes of the visitors. Beyond [`CUT_VISITORS_MAX`], further visitors are missing.
    hashes: Vec<u64>,
    are_too_many: bool,
}

impl CutVisitors {
    pub(crate) fn add(&mut self, visitor_hash: u64) {
        self.are_too_many |= self.hashes.len() >= CUT_VISITORS_MAX;
        if !self.are_too_many {
            self.hashes.push(visitor_hash);
        }
    }

    /// Removes a visitor.
    fn remove(&mut self, visitor_hash: u64) {
        self.hashes.retain(|other| *other != visitor_hash);
    }

    /// Returns the visitors in the order of their hashes. `None` if they are too many.
    pub(crate) fn into_sorted(mut self) -> Option<Vec<u64>> {
        self.hashes.sort_unstable();
        (!self.are_too_many).then_some(self.hashes)
    }
}

/// The result of a count.
pub(crate) struct CountResult<C> {
    pub summary: ScanSummary,
    pub counts: C,
    /// The visitors that are not in `counts`, because their first visit may have begun before the window of the scan.
    pub cut: CutVisitors,
}

/// Counts the rows of all files.
///
/// # Errors
/// The same errors as [`scan`].
pub(crate) fn count_all<C: Count>(
    columns: &[&Columns],
    plan: &Plan<'_>,
    limits: &Limits<'_>,
    mut counts: C,
    is_cut: IsCut<'_>,
) -> Result<CountResult<C>, ScanError> {
    let mut cut = CutVisitors::default();
    let summary = scan(columns, plan, limits, &mut |visitor, rows| match is_cut(rows) {
        true => cut.add(visitor),
        false => counts.add_visitor(rows),
    })?;
    Ok(CountResult { summary, counts, cut })
}

/// Counts the rows of all files. If `cache` has counts over the sealed segments for `key`, uses them. Keeps the new
/// counts there. `key` names the question and the sealed segments.
///
/// # Errors
/// The same errors as [`scan`].
pub(crate) fn count_cached<C: Count>(
    columns: LogColumns<'_>,
    plan: &Plan<'_>,
    limits: &Limits<'_>,
    make_counts: &dyn Fn() -> C,
    cache: &mut AnswerCache,
    key: String,
    is_cut: IsCut<'_>,
) -> Result<CountResult<C>, ScanError> {
    let tail = ScannedFiles { earlier: columns.sealed, files: columns.tail.as_slice() };
    let Some(tail_visitors) = tail.visitors(plan, limits)? else {
        return count_all(&columns.all(), plan, limits, make_counts(), is_cut);
    };
    let tail_visitors = tail_visitors.into_iter().collect();
    let bytes_max = limits.memory_bytes / CACHE_SHARE;
    let scan = SealedScan { files: columns.sealed, plan, limits };
    let mut kept = cache.take::<C>(&key);
    if let Some(count) = &mut kept
        && !count.keep_visitors(&tail_visitors, &scan, make_counts, is_cut)?
    {
        kept = None;
    }
    let count = match kept {
        Some(count) => Some(count),
        None => SealedCount::read(&tail_visitors, &scan, make_counts(), is_cut, bytes_max)?,
    };
    let Some(mut count) = count else {
        return count_all(&columns.all(), plan, limits, make_counts(), is_cut);
    };
    let result = count.count_with(tail, plan, limits, make_counts(), is_cut)?;
    cache.put(key, count, bytes_max);
    Ok(result)
}

/// A scan of the sealed segments.
struct SealedScan<'s> {
    files: &'s [&'s Columns],
    plan: &'s Plan<'s>,
    limits: &'s Limits<'s>,
}

impl<C: Count> SealedCount<C> {
    /// Counts the sealed segments. Returns `None` if the kept rows would take too much memory.
    fn read(
        tail_hashes: &Visitors,
        sealed_scan: &SealedScan<'_>,
        mut counts: C,
        is_cut: IsCut<'_>,
        bytes_max: u64,
    ) -> Result<Option<Self>, ScanError> {
        if tail_hashes.len() as u64 * KEPT_VISITOR_BYTES > bytes_max {
            return Ok(None);
        }
        let mut kept = KeptRows::default();
        let mut are_too_many = false;
        let mut cut = CutVisitors::default();
        let summary = scan(sealed_scan.files, sealed_scan.plan, sealed_scan.limits, &mut |visitor, rows| {
            if !tail_hashes.contains(&visitor) {
                return if is_cut(rows) { cut.add(visitor) } else { counts.add_visitor(rows) };
            }
            are_too_many |= KeptRows::bytes_of(kept.rows.len() + rows.len()) > bytes_max;
            if !are_too_many {
                kept.insert(visitor, rows);
            }
        })?;
        if are_too_many {
            return Ok(None);
        }
        kept.insert_others(tail_hashes);
        let ScanSummary { values, rows, other, .. } = summary;
        Ok(Some(Self { counts, kept, values, rows, other, cut }))
    }

    /// Keeps the rows of the new visitors of the tail. Returns false if there are too many such visitors or rows.
    fn keep_visitors(
        &mut self,
        tail_hashes: &Visitors,
        sealed_scan: &SealedScan<'_>,
        make_counts: &dyn Fn() -> C,
        is_cut: IsCut<'_>,
    ) -> Result<bool, ScanError> {
        let new = tail_hashes.iter().copied().filter(|visitor| self.kept.get(*visitor).is_none());
        let mut new: Vec<u64> = new.collect();
        if new.len() > NEW_VISITORS_MAX {
            return Ok(false);
        }
        new.sort_unstable();
        let Self { counts, kept, values, cut, .. } = self;
        let SealedScan { files, plan, limits } = sealed_scan;
        let mut new_counts = make_counts();
        let rows_max = (limits.memory_bytes / CACHE_SHARE / ROW_BYTES) as usize;
        let again = VisitorsAgain { hashes: &new, rows_max, are_files_checked: true };
        let mut summary = ScanSummary { values: std::mem::take(values), ..ScanSummary::default() };
        let mut keep = |visitor: u64, rows: &[Row]| {
            match is_cut(rows) {
                true => cut.remove(visitor),
                false => new_counts.add_visitor(rows),
            }
            kept.insert(visitor, rows);
        };
        let are_read = scan_visitors(files, plan, limits, &again, &mut summary, &mut |visitor, rows, _| {
            keep(visitor, rows);
        });
        *values = summary.values;
        let are_read = are_read?;
        if !are_read {
            return Ok(false);
        }
        counts.subtract(&new_counts);
        kept.insert_others(&new);
        Ok(true)
    }

    /// Counts the rows of the tail together with the kept rows, and adds the cached counts of the other visitors.
    fn count_with(
        &mut self,
        tail: ScannedFiles<'_>,
        plan: &Plan<'_>,
        limits: &Limits<'_>,
        mut counts: C,
        is_cut: IsCut<'_>,
    ) -> Result<CountResult<C>, ScanError> {
        counts.add(&self.counts);
        let mut cut = self.cut.clone();
        let values = std::mem::take(&mut self.values);
        let mut summary =
            ScanSummary { values, rows: self.rows, other: self.other, ..ScanSummary::default() };
        let mut counted = Visitors::default();
        let mut all_rows = Vec::new();
        let kept = &self.kept;
        scan_into(tail, plan, limits, &mut summary, &mut |visitor, rows| {
            counted.insert(visitor);
            let kept_rows = kept.get(visitor).unwrap_or_default();
            let rows = if kept_rows.is_empty() {
                rows
            } else {
                all_rows.clear();
                all_rows.extend_from_slice(kept_rows);
                all_rows.extend_from_slice(rows);
                // The sort is stable, and the rows of the tail have later seqs. So rows with equal times stay in the
                // order of their seqs.
                all_rows.sort_by_key(|row| row.time_ms());
                &all_rows
            };
            match is_cut(rows) {
                true => cut.add(visitor),
                false => counts.add_visitor(rows),
            }
        })?;
        let others = kept.iter().filter(|(visitor, _)| !counted.contains(visitor));
        others.for_each(|(visitor, rows)| match is_cut(rows) {
            true => cut.add(visitor),
            false => counts.add_visitor(rows),
        });
        // The rows of cut visitors are read again, and need the numbers of the texts.
        let values = if cut.hashes.is_empty() { summary.values.copy_texts() } else { summary.values.clone() };
        self.values = std::mem::replace(&mut summary.values, values);
        Ok(CountResult { summary, counts, cut })
    }

    fn bytes(&self) -> u64 {
        let kept = self.kept.bytes();
        self.counts.bytes() + kept + self.values.bytes() + size_of_val(&*self.cut.hashes) as u64
    }
}

/// Memory of a kept row, in bytes.
const ROW_BYTES: u64 = size_of::<Row>() as u64;
