//! The counts of a question over the sealed segments, kept for the next answer.
//!
//! Every number is a sum over visitors. So the counts of the visitors without an event in the tail stay as they are.
//! The rows of the other visitors are kept one by one, and are counted again together with their rows in the tail. So
//! visits that begin in a sealed segment and end in the tail are exact, and so are late events. A visitor that appears
//! in the tail later is read from the column files, and its counts are subtracted.

use std::any::Any;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use super::credits::ScannedFiles;
use super::rows::{Plan, Row};
use super::scan::{Limits, ScanError, ScanSummary, scan, scan_into, scan_visitors};
use super::values::Values;
use crate::checksum::hash128;
use crate::insights::columns::format::TextColumn;
use crate::insights::columns::reader::Columns;

/// The part of the memory of Insights that holds counts over sealed segments: one of this many. Beyond it those that
/// were not used for the longest time are dropped.
const CACHE_SHARE: u64 = 8;
/// New visitors of the tail that are read one by one. With more of them all rows are read again.
const NEW_VISITORS_MAX: usize = 4_096;
/// Memory of a visitor whose rows are kept, beside the rows.
const KEPT_VISITOR_BYTES: u64 = 64;

/// Counts that can be added and subtracted.
pub(crate) trait Count: Send + 'static {
    /// Counts the events of a visitor.
    fn add_visitor(&mut self, rows: &[Row]);

    /// Adds the counts of other visitors.
    fn add(&mut self, other: &Self);

    /// Subtracts the counts of visitors that were added.
    fn subtract(&mut self, other: &Self);

    /// Returns the memory that the counts take.
    fn bytes(&self) -> u64;
}

/// The column files of sealed segments in the order of their seqs, and the columns of the active segment.
#[derive(Clone, Copy)]
pub(crate) struct Files<'f> {
    pub sealed: &'f [&'f Columns],
    pub tail: Option<&'f Columns>,
}

impl<'f> Files<'f> {
    /// Returns all files in the order of their seqs.
    pub(crate) fn all(self) -> Vec<&'f Columns> {
        self.sealed.iter().copied().chain(self.tail).collect()
    }

    /// Returns a text that differs for different sets of sealed files.
    pub(crate) fn sealed_name(self) -> String {
        let seqs = self.sealed.iter().flat_map(|file| [file.header().first_seq, file.header().last_seq]);
        let bytes: Vec<u8> = seqs.flat_map(u64::to_le_bytes).collect();
        format!("{:032x}", hash128(&bytes))
    }
}

/// A hasher of hashes. The visitors of a part have the same upper bits, which the table would take for a tag.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0.rotate_left(32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

type HashSetOfHashes = HashSet<u64, BuildHasherDefault<IdentityHasher>>;
type RowsByVisitor = HashMap<u64, Vec<Row>, BuildHasherDefault<IdentityHasher>>;

/// The counts of a question over the sealed segments.
struct SealedCount<C> {
    /// The counts of the visitors that are not in `kept`.
    counts: C,
    /// The rows of the visitors of the tail.
    kept: RowsByVisitor,
    kept_rows: u64,
    values: Values,
    rows: u64,
    other: [u64; TextColumn::COUNT],
    /// True if a visit in the sealed segments is cut.
    is_cut: bool,
}

/// The counts of the last questions over the sealed segments.
#[derive(Default)]
pub struct AnswerCache {
    /// The last one was used last.
    entries: VecDeque<CacheEntry>,
    hits: u64,
}

struct CacheEntry {
    key: String,
    bytes: u64,
    state: Box<dyn Any + Send>,
}

impl AnswerCache {
    /// Drops all counts, because records were erased.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Returns how often counts were used again.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    fn take<C: Count>(&mut self, key: &str) -> Option<SealedCount<C>> {
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        let state = self.entries.remove(at)?.state.downcast().ok()?;
        self.hits += 1;
        Some(*state)
    }

    fn put<C: Count>(&mut self, key: String, state: SealedCount<C>, bytes_max: u64) {
        let bytes = state.bytes() + key.len() as u64;
        self.entries.push_back(CacheEntry { key, bytes, state: Box::new(state) });
        let mut all: u64 = self.entries.iter().map(|entry| entry.bytes).sum();
        while all > bytes_max
            && let Some(dropped) = self.entries.pop_front()
        {
            all -= dropped.bytes;
        }
    }
}

/// Returns whether the begin of a visit may be before the rows that were read.
pub(crate) type IsCut<'c> = &'c dyn Fn(&[Row]) -> bool;

/// The counts of a question.
pub(crate) struct Counted<C> {
    pub summary: ScanSummary,
    pub counts: C,
    /// True if a visit is cut.
    pub is_cut: bool,
}

/// Counts the rows of all files.
///
/// # Errors
/// As for [`scan`].
pub(crate) fn count_all<C: Count>(
    files: &[&Columns],
    plan: &Plan<'_>,
    limits: &Limits<'_>,
    mut counts: C,
    is_cut: IsCut<'_>,
) -> Result<Counted<C>, ScanError> {
    let mut found_cut = false;
    let summary = scan(files, plan, limits, &mut |_, rows| {
        found_cut = found_cut || is_cut(rows);
        counts.add_visitor(rows);
    })?;
    Ok(Counted { summary, counts, is_cut: found_cut })
}

/// Counts the rows of all files. Uses and keeps the counts over the sealed segments under `key`, which names the
/// question and the sealed files.
///
/// # Errors
/// As for [`scan`].
pub(crate) fn count_cached<C: Count>(
    files: Files<'_>,
    plan: &Plan<'_>,
    limits: &Limits<'_>,
    make: &dyn Fn() -> C,
    (cache, key): (&mut AnswerCache, String),
    is_cut: IsCut<'_>,
) -> Result<Counted<C>, ScanError> {
    let tail = ScannedFiles { earlier: files.sealed, files: files.tail.as_slice() };
    let Some(tail_visitors) = tail.visitors(plan, limits)? else {
        return count_all(&files.all(), plan, limits, make(), is_cut);
    };
    let tail_visitors = tail_visitors.into_iter().collect();
    let bytes_max = limits.memory_bytes / CACHE_SHARE;
    let mut kept = cache.take::<C>(&key);
    if let Some(state) = &mut kept
        && !state.keep_visitors(&tail_visitors, (files.sealed, plan, limits), make)?
    {
        kept = None;
    }
    let state = match kept {
        Some(state) => Some(state),
        None => SealedCount::read(&tail_visitors, (files.sealed, plan, limits), make(), is_cut, bytes_max)?,
    };
    let Some(mut state) = state else {
        return count_all(&files.all(), plan, limits, make(), is_cut);
    };
    let counted = state.count_with(tail, (plan, limits), make(), is_cut)?;
    cache.put(key, state, bytes_max);
    Ok(counted)
}

type Sealed<'s, 'q> = (&'s [&'s Columns], &'s Plan<'q>, &'s Limits<'s>);

impl<C: Count> SealedCount<C> {
    /// Counts the sealed files. Returns `None` if the rows of the visitors of the tail take too much memory.
    fn read(
        tail_visitors: &HashSetOfHashes,
        (sealed, plan, limits): Sealed<'_, '_>,
        mut counts: C,
        is_cut: IsCut<'_>,
        bytes_max: u64,
    ) -> Result<Option<Self>, ScanError> {
        if tail_visitors.len() as u64 * KEPT_VISITOR_BYTES > bytes_max {
            return Ok(None);
        }
        let mut kept = RowsByVisitor::default();
        let (mut kept_rows, mut found_cut) = (0, false);
        let summary = scan(sealed, plan, limits, &mut |visitor, rows| {
            found_cut = found_cut || is_cut(rows);
            if !tail_visitors.contains(&visitor) {
                return counts.add_visitor(rows);
            }
            kept_rows += rows.len() as u64;
            if kept_rows * ROW_BYTES <= bytes_max {
                kept.insert(visitor, rows.to_vec());
            }
        })?;
        if kept_rows * ROW_BYTES > bytes_max {
            return Ok(None);
        }
        for visitor in tail_visitors {
            kept.entry(*visitor).or_default();
        }
        let ScanSummary { values, rows, other } = summary;
        Ok(Some(Self { counts, kept, kept_rows, values, rows, other, is_cut: found_cut }))
    }

    /// Keeps the rows of the new visitors of the tail. Returns false if they are too many.
    fn keep_visitors(
        &mut self,
        tail_visitors: &HashSetOfHashes,
        (sealed, plan, limits): Sealed<'_, '_>,
        make: &dyn Fn() -> C,
    ) -> Result<bool, ScanError> {
        let new = tail_visitors.iter().copied().filter(|visitor| !self.kept.contains_key(visitor));
        let mut new: Vec<u64> = new.collect();
        if new.len() > NEW_VISITORS_MAX {
            return Ok(false);
        }
        new.sort_unstable();
        let Self { counts, kept, kept_rows, values, .. } = self;
        let mut of_new = make();
        let rows_max = (limits.memory_bytes / CACHE_SHARE / ROW_BYTES) as usize;
        let are_read =
            scan_visitors(sealed, plan, limits, (&new, rows_max), values, &mut |visitor, rows| {
                of_new.add_visitor(rows);
                *kept_rows += rows.len() as u64;
                kept.insert(visitor, rows.to_vec());
            })?;
        if !are_read {
            return Ok(false);
        }
        counts.subtract(&of_new);
        for visitor in new {
            kept.entry(visitor).or_default();
        }
        Ok(true)
    }

    /// Counts the rows of the tail together with the rows before it of the same visitors.
    fn count_with(
        &mut self,
        tail: ScannedFiles<'_>,
        (plan, limits): (&Plan<'_>, &Limits<'_>),
        mut counts: C,
        is_cut: IsCut<'_>,
    ) -> Result<Counted<C>, ScanError> {
        counts.add(&self.counts);
        let mut found_cut = self.is_cut;
        let values = std::mem::take(&mut self.values);
        let mut summary = ScanSummary { values, rows: self.rows, other: self.other };
        let (mut seen, mut all) = (HashSetOfHashes::default(), Vec::new());
        let kept = &self.kept;
        scan_into(tail, plan, limits, &mut summary, &mut |visitor, rows| {
            seen.insert(visitor);
            all.clear();
            all.extend_from_slice(kept.get(&visitor).map_or(&[], Vec::as_slice));
            all.extend_from_slice(rows);
            // Events of the tail have later seqs, so equal times keep their order.
            all.sort_by_key(|row| row.time_ms());
            found_cut = found_cut || is_cut(&all);
            counts.add_visitor(&all);
        })?;
        let without_tail = kept.iter().filter(|(visitor, rows)| !rows.is_empty() && !seen.contains(visitor));
        without_tail.for_each(|(_, rows)| counts.add_visitor(rows));
        let texts = summary.values.copy_texts();
        self.values = std::mem::replace(&mut summary.values, texts);
        Ok(Counted { summary, counts, is_cut: found_cut })
    }

    fn bytes(&self) -> u64 {
        let kept = self.kept.len() as u64 * KEPT_VISITOR_BYTES + self.kept_rows * ROW_BYTES;
        self.counts.bytes() + kept + self.values.bytes()
    }
}

/// Memory of a row that is kept.
const ROW_BYTES: u64 = size_of::<Row>() as u64;
