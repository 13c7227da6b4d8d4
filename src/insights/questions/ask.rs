//! Answers a question about page views. Chooses the window of times, scans the rows in the window, and returns the
//! numbers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::calendar::Unit;
use super::conversions::{ConversionCount, ConversionSums};
use super::count::{GroupTotals, LastPages, RangeCount, TopCount, Totals};
use super::goals::Currencies;
use super::limits::{Limits, ScanError};
use super::part::Part;
use super::plan::{Plan, RowValue};
use super::question::{Group, Question, Subject, fold_case};
use super::row::Row;
use super::scan::ScanSummary;
use super::sealed::{Count, LogColumns};
use super::site::SiteFacts;
use super::visit_scan::{ScannedConversions, Source, scan_conversions, scan_visits};
use super::visits::Selection;
use crate::insights::columns::format::TextColumn;
use crate::limits::VISIT_TIMEOUT_MS;

/// A live answer lists the last page of each visitor who has an event in the last minutes of the range. This is their
/// length.
pub(crate) const RECENT_MS: i64 = 5 * 60_000;

/// The numbers that answer a question.
#[derive(Debug)]
pub(crate) enum Numbers {
    Overview { totals: Totals, series: Series, conversions: Option<Box<OverviewConversions>> },
    Top { rows: Vec<TopRow>, total: TopTotals, more: usize },
    Live { visitors: u64, series: Series, pages: Vec<LivePage>, more: usize },
}

/// A row of a list.
#[derive(Debug)]
pub(crate) struct TopRow {
    pub value: Option<String>,
    pub totals: GroupTotals,
    pub conversions: ConversionSums,
}

/// The numbers of all rows of a list.
#[derive(Debug)]
pub(crate) struct TopTotals {
    pub group: GroupTotals,
    pub conversions: ConversionSums,
}

/// The conversions of an overview.
#[derive(Debug)]
pub(crate) struct OverviewConversions {
    pub totals: ConversionSums,
    pub series: Vec<ConversionSums>,
}

/// A page of a live answer.
#[derive(Debug)]
pub(crate) struct LivePage {
    pub path: String,
    pub visitors: u64,
}

/// The numbers of each bucket.
#[derive(Debug)]
pub(crate) struct Series {
    /// The first instants of the buckets, in milliseconds.
    pub buckets: Vec<i64>,
    pub totals: Vec<Totals>,
}

/// The numbers of an answer, and the numbers of the scan.
#[derive(Debug)]
pub(crate) struct CountedAnswer {
    pub numbers: Numbers,
    /// The number of rows in all files that can have rows in the window.
    pub rows: u64,
    /// For each text column that the question needs, the number of rows in the range whose text is `(other)`.
    pub other: [u64; TextColumn::COUNT],
    pub currencies: Currencies,
}

/// Counts the numbers that answer a question.
///
/// # Errors
/// A file is damaged, or the question takes too much time or memory.
pub(crate) fn ask(
    question: &Question,
    site: &SiteFacts,
    source: &mut Source<'_>,
    limits: &Limits<'_>,
) -> Result<CountedAnswer, ScanError> {
    let (numbers, summary) = match question.subject {
        Subject::Overview => overview(question, site, source, limits)?,
        Subject::Top => top(question, site, source, limits)?,
        Subject::Live => live(question, site, source.files, limits)?,
    };
    let ScanSummary { rows, other, currencies, .. } = summary;
    Ok(CountedAnswer { numbers, rows, other, currencies })
}

fn plan<'q>(question: &'q Question, site: &'q SiteFacts) -> Plan<'q> {
    let window = question.range.start - VISIT_TIMEOUT_MS..question.range.end;
    Plan { window, ..Plan::new(site, &question.range, question.bots, &question.filters) }
}

fn overview(
    question: &Question,
    site: &SiteFacts,
    source: &mut Source<'_>,
    limits: &Limits<'_>,
) -> Result<(Numbers, ScanSummary), ScanError> {
    let plan = Plan { needs_variants: true, ..plan(question, site) };
    let selection = Selection::new(&question.filters);
    let buckets = site.zone.buckets(&question.range, question.by).unwrap_or_default();
    let make = || RangeCount::new(question.range.clone(), selection, buckets.clone());
    let key = format!("{question:?} {site:?}");
    let (mut summary, counted) = scan_visits(source, &key, plan, limits, &make)?;
    let conversions = match question.goals.is_empty() {
        true => None,
        false => {
            let (scanned, conversions) = overview_conversions(question, site, source, &buckets, limits)?;
            summary.currencies = scanned.currencies;
            Some(Box::new(conversions))
        }
    };
    let series = Series { buckets: counted.buckets, totals: counted.series };
    Ok((Numbers::Overview { totals: counted.totals, series, conversions }, summary))
}

/// Counts the conversions of an overview.
fn overview_conversions(
    question: &Question,
    site: &SiteFacts,
    source: &Source<'_>,
    bucket_starts_ms: &[i64],
    limits: &Limits<'_>,
) -> Result<(ScanSummary, OverviewConversions), ScanError> {
    let make =
        || ConversionCount::new(&question.range, question, site.attribution, None, bucket_starts_ms.to_vec());
    let add = |count: &mut ConversionCount<'_>, rows: &[Row], scanned: &ScannedConversions<'_>| {
        count.add_visitor(rows, scanned);
    };
    let plan = plan(question, site);
    let (summary, counted) = scan_conversions(question, source, plan, site, limits, &make, &add)?;
    Ok((summary, OverviewConversions { totals: counted.total, series: counted.series }))
}

/// The first rows of a list, counted in one part of the values.
struct ListPart<R, C> {
    rows: Vec<R>,
    /// The number of values that are not in `rows`.
    more: usize,
    /// The count over all values. Every part has the same.
    counted: C,
    summary: ScanSummary,
}

fn top(
    question: &Question,
    site: &SiteFacts,
    source: &mut Source<'_>,
    limits: &Limits<'_>,
) -> Result<(Numbers, ScanSummary), ScanError> {
    let count = |part| top_part(question, site, source, limits, part);
    let mut list = count_list(count, |rows| keep_first(rows, question))?;
    if let Some(listed) = &question.listed {
        list.rows = in_order_of(listed, list.rows);
    }
    Ok((Numbers::Top { rows: list.rows, total: list.counted, more: list.more }, list.summary))
}

fn top_part(
    question: &Question,
    site: &SiteFacts,
    source: &mut Source<'_>,
    limits: &Limits<'_>,
    value_part: Part,
) -> Result<ListPart<TopRow, TopTotals>, ScanError> {
    let plan = Plan { value: RowValue::Of(question.of), value_part, ..plan(question, site) };
    let selection = Selection::new(&question.filters);
    let make = || TopCount::new(question.range.clone(), selection, question.of);
    // If the values are divided into parts, the counts are not kept.
    let cache = source.cache.as_deref_mut().filter(|_| value_part.count == 1);
    let mut source = Source { files: source.files, cache };
    // These three members select rows after the count. So two questions that differ only in them share the cached counts.
    let whole = Question { contains: None, listed: None, list_bytes_max: 0, ..question.clone() };
    let key = format!("{whole:?} {site:?}");
    let (mut summary, counted) = match question.goals.is_empty() {
        true => {
            let (summary, top) = scan_visits(&mut source, &key, plan, limits, &make)?;
            (summary, TopWithConversions { top, conversions: None })
        }
        false => top_with_conversions(question, site, &source, plan, limits, &make)?,
    };
    let TopWithConversions { top, conversions } = counted;
    let conversions = conversions.as_ref();
    let texts = std::mem::take(&mut summary.values).texts;
    let row = |(number, text): (usize, &Arc<str>)| TopRow {
        value: Some(text.to_string()),
        totals: top.groups.get(number).copied().unwrap_or_default(),
        conversions: conversions.and_then(|counted| counted.groups.get(number)).cloned().unwrap_or_default(),
    };
    let total_conversions = conversions.map(|counted| counted.total.clone()).unwrap_or_default();
    let absent_conversions = conversions.map(|counted| counted.absent.clone()).unwrap_or_default();
    // The first part has the row without a value.
    let absent = TopRow { value: None, totals: top.absent, conversions: absent_conversions };
    let absent = value_part.is_first().then_some(absent);
    let mut rows: Vec<TopRow> =
        texts.iter().enumerate().map(row).chain(absent).filter(TopRow::has_numbers).collect();
    if let Some(text) = &question.contains {
        rows.retain(|row| row.value.as_ref().is_some_and(|value| fold_case(value).contains(text)));
    }
    let mut more = 0;
    if let Some(listed) = &question.listed {
        let listed: HashSet<_> = listed.iter().collect();
        let row_count = rows.len();
        rows.retain(|row| listed.contains(&row.value));
        more = row_count - rows.len();
    }
    more += keep_first(&mut rows, question);
    let counted = TopTotals { group: top.total, conversions: total_conversions };
    Ok(ListPart { rows, more, counted, summary })
}

/// The count of a list. `conversions` is `None` if the question names no goal.
struct TopWithConversions<'q> {
    top: TopCount,
    conversions: Option<ConversionCount<'q>>,
}

fn top_with_conversions<'q>(
    question: &'q Question,
    site: &'q SiteFacts,
    source: &Source<'_>,
    plan: Plan<'q>,
    limits: &Limits<'_>,
    make_top: &dyn Fn() -> TopCount,
) -> Result<(ScanSummary, TopWithConversions<'q>), ScanError> {
    let conversions =
        || ConversionCount::new(&question.range, question, site.attribution, Some(question.of), Vec::new());
    let make = || TopWithConversions { top: make_top(), conversions: Some(conversions()) };
    let add = |counts: &mut TopWithConversions<'q>, rows: &[Row], scanned: &ScannedConversions<'_>| {
        counts.top.add_visitor(rows);
        counts.conversions.iter_mut().for_each(|conversions| conversions.add_visitor(rows, scanned));
    };
    scan_conversions(question, source, plan, site, limits, &make, &add)
}

impl TopRow {
    fn has_numbers(&self) -> bool {
        let GroupTotals { views, events, visitors, visits, .. } = self.totals;
        views + events + visitors + visits > 0 || !self.conversions.is_empty()
    }

    /// Returns the number by which the rows of a list are sorted: the visitors who reach the first goal, or else the rank of the
    /// group.
    fn rank(&self, question: &Question) -> (u64, u64) {
        let converted = self.conversions.goals.first().map_or(0, |goal| goal.converted);
        (converted, self.totals.rank(question.of))
    }
}

/// Sorts the rows of a list by their rank, and drops the rows beyond the limit. Returns the number of dropped rows.
fn keep_first(rows: &mut Vec<TopRow>, question: &Question) -> usize {
    // Rows with equal numbers are in the order of their values. Among equal rows, the row without a value is the last
    // one.
    rows.sort_by(|a, b| {
        let by_rank = b.rank(question).cmp(&a.rank(question));
        by_rank.then_with(|| (a.value.is_none(), &a.value).cmp(&(b.value.is_none(), &b.value)))
    });
    truncate(rows, question, |row| row.value.as_ref().map_or(0, String::len))
}

/// Returns a row for each of the values, in their order. A value without a row gets one without numbers.
fn in_order_of(row_values: &[Option<String>], rows: Vec<TopRow>) -> Vec<TopRow> {
    let mut rows: HashMap<_, _> = rows.into_iter().map(|row| (row.value.clone(), row)).collect();
    let row = |value: &Option<String>| {
        let empty = || TopRow {
            value: value.clone(),
            totals: GroupTotals::default(),
            conversions: ConversionSums::default(),
        };
        rows.remove(value).unwrap_or_else(empty)
    };
    row_values.iter().map(row).collect()
}

/// Drops the rows of a sorted list beyond the limit. Drops more rows if the values of the list would exceed
/// [`Question::list_bytes_max`]. Returns the number of dropped rows.
fn truncate<T>(rows: &mut Vec<T>, question: &Question, bytes_of: impl Fn(&T) -> usize) -> usize {
    let mut bytes = 0;
    let fits = |row: &&T| {
        bytes += bytes_of(row);
        bytes <= question.list_bytes_max
    };
    let kept = rows.iter().take(question.limit).take_while(fits).count();
    let more = rows.len() - kept;
    rows.truncate(kept);
    more
}

/// Counts a list in each part of the values, and joins the parts. `keep_first` sorts the joined rows, drops the rows beyond
/// the limit, and returns their number.
fn count_list<R, C>(
    count_part: impl FnMut(Part) -> Result<ListPart<R, C>, ScanError>,
    keep_first: impl FnOnce(&mut Vec<R>) -> usize,
) -> Result<ListPart<R, C>, ScanError> {
    let mut parts = each_value_part(count_part)?.into_iter();
    let mut list = parts.next().ok_or(ScanError::TooManyValues)?;
    for part in parts {
        list.rows.extend(part.rows);
        list.more += part.more;
    }
    list.more += keep_first(&mut list.rows);
    Ok(list)
}

/// Counts each part of the values. Doubles the number of parts if a part takes too much memory.
pub(crate) fn each_value_part<T>(
    mut count_part: impl FnMut(Part) -> Result<T, ScanError>,
) -> Result<Vec<T>, ScanError> {
    let mut part_count = 1;
    loop {
        match Part::all(part_count).map(&mut count_part).collect() {
            Err(ScanError::TooManyValues) => part_count *= 2,
            counts => return counts,
        }
    }
}

fn live(
    question: &Question,
    site: &SiteFacts,
    columns: LogColumns<'_>,
    limits: &Limits<'_>,
) -> Result<(Numbers, ScanSummary), ScanError> {
    let count = |part| live_part(question, site, columns, limits, part);
    let ListPart { rows, more, counted, summary } =
        count_list(count, |pages| keep_first_pages(pages, question))?;
    let series = Series { buckets: counted.buckets, totals: counted.series };
    Ok((Numbers::Live { visitors: counted.totals.visitors, series, pages: rows, more }, summary))
}

/// The counts of a live answer.
struct LiveCount {
    counted: RangeCount,
    last: LastPages,
}

impl Count for LiveCount {
    fn add_visitor(&mut self, rows: &[Row]) {
        self.counted.add_visitor(rows);
        self.last.add_visitor(rows);
    }

    fn combine(&mut self, other: &Self, operation: fn(u64, u64) -> u64) {
        self.counted.combine(&other.counted, operation);
        self.last.combine(&other.last, operation);
    }

    fn bytes(&self) -> u64 {
        self.counted.bytes() + self.last.bytes()
    }
}

fn live_part(
    question: &Question,
    site: &SiteFacts,
    columns: LogColumns<'_>,
    limits: &Limits<'_>,
    value_part: Part,
) -> Result<ListPart<LivePage, RangeCount>, ScanError> {
    let plan = Plan { value: RowValue::Of(Group::Page), value_part, ..plan(question, site) };
    let selection = Selection::new(&question.filters);
    let buckets = site.zone.buckets(&question.range, Unit::Minute).unwrap_or_default();
    let make = || LiveCount {
        counted: RangeCount::new(question.range.clone(), selection, buckets.clone()),
        last: LastPages::new(question.range.clone(), selection, question.range.end - RECENT_MS),
    };
    // Few files have rows in the last minutes, so the counts are not kept.
    let mut source = Source { files: columns, cache: None };
    let (mut summary, LiveCount { counted, last }) = scan_visits(&mut source, "", plan, limits, &make)?;
    let texts = std::mem::take(&mut summary.values).texts;
    let pages = texts.iter().zip(&last.visitors).filter(|(_, visitors)| **visitors > 0);
    let pages = pages.map(|(path, visitors)| LivePage { path: path.to_string(), visitors: *visitors });
    let mut rows: Vec<LivePage> = pages.collect();
    let more = keep_first_pages(&mut rows, question);
    Ok(ListPart { rows, more, counted, summary })
}

/// Sorts the pages of a live answer, and drops the pages beyond the limit. Returns the number of dropped pages.
fn keep_first_pages(pages: &mut Vec<LivePage>, question: &Question) -> usize {
    pages.sort_by(|a, b| b.visitors.cmp(&a.visitors).then_with(|| a.path.cmp(&b.path)));
    truncate(pages, question, |page| page.path.len())
}
