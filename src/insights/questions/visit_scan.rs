//! Scans that need the beginning of visits, and the time before a range in which conversions can have their credit.

use super::channels::Channel;
use super::credits::ScannedFiles;
use super::goals::ConversionHits;
use super::limits::{Limits, ScanError};
use super::plan::{Plan, RowValue};
use super::question::{Group, Question};
use super::row::Row;
use super::row_reader::DIRECT;
use super::scan::{ScanSummary, scan_with_summary};
use super::sealed::{AnswerCache, Count, CountResult, IsCut, LogColumns, count_all, count_cached};
use super::site::SiteFacts;
use super::values::{NO_VALUE, Values};
use super::visits::may_begin_earlier;
use crate::insights::columns::reader::Columns;
use crate::limits::VISIT_TIMEOUT_MS;

/// How long before the range the first scan begins, so that it finds the beginning of each visit. If a visit begins
/// earlier, the scan is repeated with a longer time.
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
    count_since_visit_starts(&files, plan, true, &mut |plan: &Plan<'_>, is_cut: IsCut<'_>| {
        let mut counts = make_count();
        let mut has_cut = false;
        let mut summary = ScanSummary { values: Values::of_part(plan.value_part), ..ScanSummary::default() };
        let direct_value = match plan.value {
            RowValue::Of(Group::Source) => summary.values.number(DIRECT),
            RowValue::Of(Group::Channel) => summary.values.number(Channel::Direct.name()),
            _ => NO_VALUE,
        };
        scan_with_summary(ScannedFiles::all(&files), plan, limits, &mut summary, &mut |_, rows, summary| {
            has_cut = has_cut || is_cut(rows);
            add_visitor(&mut counts, rows, &ScannedConversions { hits: &summary.hits, direct_value });
        })?;
        Ok(CountResult { summary, counts, is_cut: has_cut })
    })
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
            let key = format!("{key} {:?} {}", plan.window, source.files.sealed_name());
            count_cached(source.files, plan, limits, make_count, cache, key, is_cut)
        }
        None => count_all(&files, plan, limits, make_count(), is_cut),
    };
    count_since_visit_starts(&files, plan, needs_start, count)
}

/// Calls `count` with the window of a plan. If the question needs the beginning of a visit and the window starts later, calls
/// `count` again with a longer window.
///
/// # Errors
/// Returns the errors of `count`.
pub(crate) fn count_since_visit_starts<C>(
    files: &[&Columns],
    mut plan: Plan<'_>,
    needs_start: bool,
    mut count: impl FnMut(&Plan<'_>, IsCut<'_>) -> Result<CountResult<C>, ScanError>,
) -> Result<(ScanSummary, C), ScanError> {
    let oldest_ms = oldest_ms(files);
    let earliest_ms = plan.window.start;
    let mut look_back_ms = LOOK_BACK_MS;
    loop {
        if needs_start {
            plan.window.start = earliest_ms.saturating_sub(look_back_ms);
        }
        let range = earliest_ms + VISIT_TIMEOUT_MS..plan.window.end;
        let window_ms = plan.window.start;
        let is_cut = |rows: &[Row]| needs_start && may_begin_earlier(rows, &range, window_ms);
        let CountResult { summary, counts, is_cut } = count(&plan, &is_cut)?;
        if !is_cut || oldest_ms.is_none_or(|oldest_ms| window_ms <= oldest_ms) {
            return Ok((summary, counts));
        }
        look_back_ms *= LOOK_BACK_GROWTH;
    }
}

/// Returns the time of the oldest event, in milliseconds.
pub(crate) fn oldest_ms(files: &[&Columns]) -> Option<i64> {
    files.iter().filter(|file| file.header().rows > 0).map(|file| file.header().oldest_ms).min()
}
