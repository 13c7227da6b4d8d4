//! Answers a question: chooses the times that are read, scans, and collects the numbers.

use super::calendar::{Comparison, Unit};
use super::columns::Columns;
use super::count::{GroupTotals, LastPages, RangeCount, TopCount, Totals};
use super::format::TextColumn;
use super::question::{Group, Question, Subject};
use super::rows::{Plan, Row};
use super::scan::{Limits, ScanError, ScanSummary, scan};
use super::site::SiteFacts;
use super::visits::{Selection, may_begin_earlier};
use crate::limits::VISIT_TIMEOUT_MS;

/// Time before a range that is read first to find the begin of a visit. It is doubled until it is enough.
const LOOK_BACK_MS: i64 = 24 * 60 * 60 * 1000;
/// The pages of a live answer are those of the visitors with an event in its last minutes, this long.
pub(crate) const RECENT_MS: i64 = 5 * 60_000;

/// The numbers that answer a question.
#[derive(Debug)]
pub(crate) enum Numbers {
    Overview { totals: Totals, series: Series, comparison: Comparison, compared: [Totals; 2] },
    Top { rows: Vec<(Option<String>, GroupTotals)>, total: GroupTotals, more: usize },
    Live { visitors: u64, series: Series, pages: Vec<(String, u64)>, more: usize },
}

/// The numbers of each bucket.
#[derive(Debug)]
pub(crate) struct Series {
    /// The first instants of the buckets, in milliseconds.
    pub buckets: Vec<i64>,
    pub totals: Vec<Totals>,
}

/// The numbers, and the facts about the scan that produced them.
#[derive(Debug)]
pub(crate) struct Counted {
    pub numbers: Numbers,
    /// Rows that were read.
    pub rows: u64,
    /// Rows of the range by text columns whose text is `(other)`.
    pub other: [u64; TextColumn::COUNT],
}

/// Counts the answer to a question over all rows of `files`, which are in the order of their seqs.
///
/// # Errors
/// A file is damaged, or the time is over.
pub(crate) fn ask(
    question: &Question,
    site: &SiteFacts,
    files: &[&Columns],
    now_ms: i64,
    limits: &Limits<'_>,
) -> Result<Counted, ScanError> {
    let (numbers, summary) = match question.subject {
        Subject::Overview => overview(question, site, files, now_ms, limits)?,
        Subject::Top => top(question, site, files, limits)?,
        Subject::Live => live(question, site, files, limits)?,
    };
    Ok(Counted { numbers, rows: summary.rows, other: summary.other })
}

fn plan<'q>(question: &'q Question, site: &'q SiteFacts) -> Plan<'q> {
    Plan {
        site,
        window: question.range.start - VISIT_TIMEOUT_MS..question.range.end,
        range: question.range.clone(),
        bots: question.bots,
        filters: &question.filters,
        group: None,
        needs_variants: false,
    }
}

fn overview(
    question: &Question,
    site: &SiteFacts,
    files: &[&Columns],
    now_ms: i64,
    limits: &Limits<'_>,
) -> Result<(Numbers, ScanSummary), ScanError> {
    let comparison = site.zone.comparison(&question.range, now_ms);
    let mut plan = Plan { needs_variants: true, ..plan(question, site) };
    plan.window.start = plan.window.start.min(comparison.before.start - VISIT_TIMEOUT_MS);
    let selection = Selection::new(&question.filters);
    let buckets = site.zone.buckets(&question.range, question.by).unwrap_or_default();
    let make = || {
        [
            (question.range.clone(), buckets.clone()),
            (comparison.range.clone(), Vec::new()),
            (comparison.before.clone(), Vec::new()),
        ]
        .map(|(range, buckets)| RangeCount::new(range, selection, buckets))
    };
    let is_cut = comparison.range != question.range;
    let (summary, [counted, cut, before]) = scan_visits(files, plan, limits, make, |counts, rows| {
        let [counted, cut, before] = counts;
        counted.add_visitor(rows);
        before.add_visitor(rows);
        if is_cut {
            cut.add_visitor(rows);
        }
    })?;
    let compared = [if is_cut { cut.totals } else { counted.totals }, before.totals];
    let series = Series { buckets: counted.buckets, totals: counted.series };
    Ok((Numbers::Overview { totals: counted.totals, series, comparison, compared }, summary))
}

fn top(
    question: &Question,
    site: &SiteFacts,
    files: &[&Columns],
    limits: &Limits<'_>,
) -> Result<(Numbers, ScanSummary), ScanError> {
    let plan = Plan { group: Some(question.of), ..plan(question, site) };
    let selection = Selection::new(&question.filters);
    let make = || TopCount::new(question.range.clone(), selection, question.of);
    let (summary, counted) = scan_visits(files, plan, limits, make, TopCount::add_visitor)?;
    let is_met = |group: &GroupTotals| group.views + group.events + group.visitors + group.visits > 0;
    let groups = counted.groups.iter().copied().zip(&summary.values.texts);
    let mut rows: Vec<(Option<String>, GroupTotals)> = groups
        .map(|(group, text)| (Some(text.clone()), group))
        .chain([(None, counted.absent)])
        .filter(|(_, group)| is_met(group))
        .collect();
    // Ties are in the order of their values. The group without one is the last of them.
    rows.sort_by(|(a, a_totals), (b, b_totals)| {
        let by_rank = counted.rank(b_totals).cmp(&counted.rank(a_totals));
        by_rank.then_with(|| (a.is_none(), a).cmp(&(b.is_none(), b)))
    });
    let more = rows.len().saturating_sub(question.limit);
    rows.truncate(question.limit);
    Ok((Numbers::Top { rows, total: counted.total, more }, summary))
}

fn live(
    question: &Question,
    site: &SiteFacts,
    files: &[&Columns],
    limits: &Limits<'_>,
) -> Result<(Numbers, ScanSummary), ScanError> {
    let plan = Plan { group: Some(Group::Page), ..plan(question, site) };
    let selection = Selection::new(&question.filters);
    let buckets = site.zone.buckets(&question.range, Unit::Minute).unwrap_or_default();
    let make = || {
        let counted = RangeCount::new(question.range.clone(), selection, buckets.clone());
        (counted, LastPages::new(question.range.clone(), selection, question.range.end - RECENT_MS))
    };
    let (summary, (counted, last)) = scan_visits(files, plan, limits, make, |(counted, last), rows| {
        counted.add_visitor(rows);
        last.add_visitor(rows);
    })?;
    let pages =
        last.visitors.iter().copied().zip(&summary.values.texts).filter(|(visitors, _)| *visitors > 0);
    let mut pages: Vec<(String, u64)> = pages.map(|(visitors, page)| (page.clone(), visitors)).collect();
    pages.sort_by(|(a, a_visitors), (b, b_visitors)| b_visitors.cmp(a_visitors).then_with(|| a.cmp(b)));
    let more = pages.len().saturating_sub(question.limit);
    pages.truncate(question.limit);
    let series = Series { buckets: counted.buckets, totals: counted.series };
    Ok((Numbers::Live { visitors: counted.totals.visitors, series, pages, more }, summary))
}

/// Scans, and reads more of the time before if the begin of a visit is needed and not found.
fn scan_visits<C>(
    files: &[&Columns],
    mut plan: Plan<'_>,
    limits: &Limits<'_>,
    make: impl Fn() -> C,
    mut add: impl FnMut(&mut C, &[Row]),
) -> Result<(ScanSummary, C), ScanError> {
    let needs_begin = plan.filters.select_visits() || plan.group.is_some_and(|group| group.is_of_visit());
    let oldest_ms =
        files.iter().filter(|file| file.header().rows > 0).map(|file| file.header().oldest_ms).min();
    let earliest_ms = plan.window.start;
    let mut look_back_ms = LOOK_BACK_MS;
    loop {
        if needs_begin {
            plan.window.start = earliest_ms.saturating_sub(look_back_ms);
        }
        let (mut counts, mut is_cut) = (make(), false);
        let range = earliest_ms + VISIT_TIMEOUT_MS..plan.window.end;
        let window_ms = plan.window.start;
        let summary = scan(files, &plan, limits, &mut |rows| {
            is_cut = is_cut || needs_begin && may_begin_earlier(rows, &range, window_ms);
            add(&mut counts, rows);
        })?;
        if !is_cut || oldest_ms.is_none_or(|oldest_ms| window_ms <= oldest_ms) {
            return Ok((summary, counts));
        }
        look_back_ms *= 2;
    }
}
