//! Scans that need the beginning of visits, and the time before a range in which conversions can have their credit.

use std::ops::Range;

use super::channels::Channel;
use super::credits::ScannedFiles;
use super::goals::ConversionHits;
use super::limits::{Limits, ScanError};
use super::plan::{Plan, RowValue};
use super::question::{Group, Question};
use super::row::Row;
use super::row_reader::DIRECT;
use super::scan::{ScanSummary, VisitorsAgain, scan_visitors, scan_with_summary};
use super::sealed::{
    AnswerCache, Count, CountResult, CutVisitors, IsCut, LogColumns, count_all, count_cached,
};
use super::site::SiteFacts;
use super::values::{NO_VALUE, Values};
use super::visitor_rows::ROW_BYTES;
use super::visits::may_begin_earlier;
use crate::insights::columns::reader::Columns;
use crate::limits::VISIT_TIMEOUT_MS;

/// How long before the range the first scan begins, so that it finds the beginning of each visit. If a visit begins
/// earlier, the rows of its visitor are read again with a longer time.
const LOOK_BACK_MS: i64 = 24 * 60 * 60 * 1000;
/// If a visit begins before the scanned window, the time before the range is multiplied by this number. With a smaller
/// number, a long log would be scanned more often.
const LOOK_BACK_GROWTH: i64 = 8;

/// The source of the rows of a question.
pub(crate) struct Source<'s> {
    pub files: LogColumns<'s>,
    /// The cache of counts over sealed segments. If it is `None`, no counts are cached.
    pub cache: Option<&'s mut AnswerCache>,
}

/// Adds the rows of a visitor, and their conversions, to a count.
type AddConversions<'a, C> = &'a dyn Fn(&mut C, &[Row], &ScannedConversions<'_>);

/// The conversions of the rows of a visitor.
#[derive(Clone, Copy)]
pub(crate) struct ScannedConversions<'h> {
    pub hits: &'h ConversionHits,
    /// The value of a visit without a page event, whose source is `(direct)`.
    pub direct_value: u32,
}

/// Scans the window of a plan, and the time before it in which conversions can have their credit.
pub(crate) fn scan_conversions<'q, C>(
    question: &'q Question,
    source: &Source<'_>,
    mut plan: Plan<'q>,
    site: &SiteFacts,
    limits: &Limits<'_>,
    make_count: &dyn Fn() -> C,
    add_visitor: AddConversions<'_, C>,
) -> Result<(ScanSummary, C), ScanError> {
    plan.goals = &question.goals;
    plan.window.start = plan.window.start.saturating_sub(site.attribution.window_ms);
    let files = source.files.all();
    let count = |plan: &Plan<'_>, is_cut: IsCut<'_>| {
        let mut counts = make_count();
        let mut cut = CutVisitors::default();
        let mut summary = ScanSummary { values: Values::of_part(plan.value_part), ..ScanSummary::default() };
        let direct_value = match plan.value {
            RowValue::Of(Group::Source) => summary.values.number(DIRECT),
            RowValue::Of(Group::Channel) => summary.values.number(Channel::Direct.name()),
            _ => NO_VALUE,
        };
        let scanned_files = ScannedFiles::all(&files);
        scan_with_summary(scanned_files, plan, limits, &mut summary, &mut |visitor, rows, summary| {
            match is_cut(rows) {
                true => cut.add(visitor),
                false => {
                    add_visitor(&mut counts, rows, &ScannedConversions { hits: &summary.hits, direct_value });
                }
            }
        })?;
        Ok(CountResult { summary, counts: (counts, direct_value), cut })
    };
    let mut add = |(counts, direct_value): &mut (C, u32), _, rows: &[Row], summary: &ScanSummary| {
        let direct_value = *direct_value;
        add_visitor(counts, rows, &ScannedConversions { hits: &summary.hits, direct_value });
    };
    let (summary, (counts, _)) = count_since_visit_starts(&files, plan, true, limits, count, &mut add)?;
    Ok((summary, counts))
}

/// Counts the window of a plan, and takes counts over sealed segments from the cache. `key` names the question in the cache.
pub(crate) fn scan_visits<C: Count>(
    source: &mut Source<'_>,
    key: &str,
    plan: Plan<'_>,
    limits: &Limits<'_>,
    make_count: &dyn Fn() -> C,
) -> Result<(ScanSummary, C), ScanError> {
    let needs_start =
        plan.filters.select_visits() || matches!(plan.value, RowValue::Of(group) if group.is_of_visit());
    let files = source.files.all();
    let count = |plan: &Plan<'_>, is_cut: IsCut<'_>| match source.cache.as_deref_mut() {
        Some(cache) => {
            // A late event before the window can cut visits that no window has cut before.
            let is_whole = has_all_rows(&plan.window, oldest_ms(&files));
            let key = format!("{key} {:?} {is_whole} {}", plan.window, source.files.sealed_name());
            count_cached(source.files, plan, limits, make_count, cache, key, is_cut)
        }
        None => count_all(&files, plan, limits, make_count(), is_cut),
    };
    let mut add = |counts: &mut C, _, rows: &[Row], _: &ScanSummary| counts.add_visitor(rows);
    count_since_visit_starts(&files, plan, needs_start, limits, count, &mut add)
}

/// Adds the hash and the rows of a visitor to a count, with the results of the scan so far.
type AddVisitor<'a, C> = &'a mut dyn FnMut(&mut C, u64, &[Row], &ScanSummary);

/// Calls `count` with the window of a plan. If the question needs the beginnings of visits, reads the rows of visitors whose first
/// visit may have begun earlier again with a longer window, and passes them to `add_visitor`. If they are too many, calls
/// `count` again with a longer window.
///
/// # Errors
/// Returns the errors of `count`, and those of a scan.
pub(crate) fn count_since_visit_starts<C>(
    files: &[&Columns],
    mut plan: Plan<'_>,
    needs_start: bool,
    limits: &Limits<'_>,
    mut count: impl FnMut(&Plan<'_>, IsCut<'_>) -> Result<CountResult<C>, ScanError>,
    add_visitor: AddVisitor<'_, C>,
) -> Result<(ScanSummary, C), ScanError> {
    let oldest_ms = oldest_ms(files);
    let earliest_ms = plan.window.start;
    let range = earliest_ms + VISIT_TIMEOUT_MS..plan.window.end;
    let is_cut_in = |window: &Range<i64>, rows: &[Row]| {
        let is_whole = !needs_start || has_all_rows(window, oldest_ms);
        !is_whole && may_begin_earlier(rows, &range, window.start)
    };
    let mut look_back_ms = LOOK_BACK_MS;
    loop {
        if needs_start {
            plan.window.start = earliest_ms.saturating_sub(look_back_ms);
        }
        let window = plan.window.clone();
        let CountResult { mut summary, mut counts, mut cut } =
            count(&plan, &|rows: &[Row]| is_cut_in(&window, rows))?;
        while let Some(hashes) = cut.into_sorted() {
            if hashes.is_empty() {
                return Ok((summary, counts));
            }
            look_back_ms = look_back_ms.saturating_mul(LOOK_BACK_GROWTH);
            plan.window.start = earliest_ms.saturating_sub(look_back_ms);
            let rows_max = (limits.for_rows().memory_bytes / ROW_BYTES) as usize;
            // The longer window can have more files, and the credits of all files can need more sections.
            let again = VisitorsAgain { hashes: &hashes, rows_max, are_files_checked: false };
            let mut still_cut = CutVisitors::default();
            let mut add =
                |visitor: u64, rows: &[Row], summary: &ScanSummary| match is_cut_in(&plan.window, rows) {
                    true => still_cut.add(visitor),
                    false => add_visitor(&mut counts, visitor, rows, summary),
                };
            if !scan_visitors(files, &plan, limits, &again, &mut summary, &mut add)? {
                break;
            }
            cut = still_cut;
        }
        look_back_ms = look_back_ms.saturating_mul(LOOK_BACK_GROWTH);
    }
}

/// Returns true if no event is older than the window.
fn has_all_rows(window: &Range<i64>, oldest_ms: Option<i64>) -> bool {
    oldest_ms.is_none_or(|oldest_ms| window.start <= oldest_ms)
}

/// Returns the time of the oldest event, in milliseconds.
pub(crate) fn oldest_ms(files: &[&Columns]) -> Option<i64> {
    files.iter().filter(|file| file.header().rows > 0).map(|file| file.header().oldest_ms).min()
}
