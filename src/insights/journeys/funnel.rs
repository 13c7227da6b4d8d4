//! The question about the steps of a funnel.

use std::collections::HashMap;

use super::chain::ChainFinder;
use super::funnel_group::{FunnelGroup, rows_of_exposed};
use super::params::parse_step;
use super::selection::EventSelection;
use crate::insights::columns::format::TextColumn;
use crate::insights::columns::reader::Columns;
use crate::insights::questions::ask::each_value_part;
use crate::insights::questions::calendar::Zone;
use crate::insights::questions::limits::{Limits, ScanError, VALUES_SHARE};
use crate::insights::questions::part::{PARTS_MAX, Part};
use crate::insights::questions::plan::{Plan, RowValue};
use crate::insights::questions::question::{Group, LIMIT_DEFAULT, QuestionError, parse_limit, single_value};
use crate::insights::questions::row::{PAGE, Row};
use crate::insights::questions::scan::{ScanSummary, scan};
use crate::insights::questions::sealed::{CountResult, CutVisitors, IsCut};
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::steps::{PLAN_STEPS_MAX, Step};
use crate::insights::questions::values::{ELSEWHERE, NO_VALUE};
use crate::insights::questions::visit_scan::count_since_visit_starts;
use crate::insights::questions::visits::{Selection, Visit, each_visit, visit_of};
use crate::site::experiment_metrics::parse_window_ms;
use crate::site::goals::SiteGoals;

/// All parameters of the question except `site`.
pub(super) const PARAM_NAMES: [&str; 16] = [
    "step", "window", "per", "by", "limit", "from", "to", "bots", "page", "source", "campaign", "country",
    "device", "language", "event", "variant",
];
/// Minimum number of steps. One step has no step before it, so it is no funnel.
pub const FUNNEL_STEPS_MIN: usize = 2;
/// Maximum number of steps. A question with more steps is refused. Longer funnels are hard to read.
pub const FUNNEL_STEPS_MAX: usize = 8;
const _: () = assert!(FUNNEL_STEPS_MAX <= PLAN_STEPS_MAX);
/// Maximum value of `limit`, and so the maximum number of rows in each list. A larger `limit` gets 400. Each step has a list,
/// so this maximum is smaller than that of `top`: with paths of 2 KB, the lists take at most 1.4 MB.
pub const FUNNEL_LIMIT_MAX: usize = 100;
/// Memory of one time between two steps, in bytes. The factor 2 is for the free places of a vector that has grown.
const TIME_BYTES: u64 = 2 * size_of::<i64>() as u64;
/// Memory of the counts of one value, in bytes, without the times between its steps. The factor 2 is for the free places of the
/// table.
const GROUP_BYTES: u64 = 2 * size_of::<StepCounts>() as u64;
/// Memory of a next page and its count, in bytes. The factor 2 is for the free places of the table.
const NEXT_BYTES: u64 = 2 * size_of::<(u32, u64)>() as u64;
/// Minimum memory for the times between steps, and minimum memory for the tables of a funnel, in bytes. They can always take
/// this memory, even if the memory of Insights is small.
const COUNTS_BYTES_MIN: u64 = 64 << 10;

/// A question about the steps of a funnel.
#[derive(Debug, Clone, PartialEq)]
pub struct FunnelQuestion {
    pub selection: EventSelection,
    pub steps: Vec<Step>,
    /// The maximum time between the first and the last step, in milliseconds.
    pub window_ms: Option<i64>,
    /// True if all steps must be in one visit, and visits are counted. Otherwise visitors are counted.
    pub per_visit: bool,
    /// The kind of value by which the answer groups.
    pub by: Option<FunnelGroup>,
    /// Maximum number of rows in each list.
    pub limit: usize,
}

impl FunnelQuestion {
    /// Parses the parameters. Ignores unknown parameters. No value is empty.
    ///
    /// # Errors
    /// Returns the error of the first wrong parameter.
    pub fn parse(
        pairs: &[(&str, &str)],
        zone: &Zone,
        now_ms: i64,
        goals: &SiteGoals,
    ) -> Result<Self, QuestionError> {
        let texts = pairs.iter().filter(|(name, _)| *name == "step").map(|(_, text)| *text);
        let steps = texts.map(|text| parse_step("step", text, goals)).collect::<Result<Vec<_>, _>>()?;
        if !(FUNNEL_STEPS_MIN..=FUNNEL_STEPS_MAX).contains(&steps.len()) {
            let expected = format!("{FUNNEL_STEPS_MIN} to {FUNNEL_STEPS_MAX} steps");
            return Err(QuestionError::invalid("step", &expected, &steps.len().to_string()));
        }
        let window_ms = single_value(pairs, "window")?.map(|text| {
            let expected = "a time of at least one second, such as '14d'";
            parse_window_ms(text).ok_or_else(|| QuestionError::invalid("window", expected, text))
        });
        let limit = single_value(pairs, "limit")?;
        Ok(Self {
            selection: EventSelection::parse(pairs, true, zone, now_ms)?,
            steps,
            window_ms: window_ms.transpose()?,
            per_visit: single_value(pairs, "per")?.map_or(Ok(false), parse_per)?,
            by: single_value(pairs, "by")?.map(FunnelGroup::parse).transpose()?,
            limit: limit.map_or(Ok(LIMIT_DEFAULT), |text| parse_limit(text, FUNNEL_LIMIT_MAX))?,
        })
    }

    /// Returns whether the scan must find the beginnings of visits.
    fn needs_visit_starts(&self, by: Option<&FunnelGroup>) -> bool {
        if by.is_some_and(FunnelGroup::reads_all_rows) {
            return false;
        }
        self.per_visit || self.selection.filters.select_visits() || by.is_some_and(FunnelGroup::is_of_visit)
    }
}

fn parse_per(text: &str) -> Result<bool, QuestionError> {
    match text {
        "visitor" => Ok(false),
        "visit" => Ok(true),
        _ => Err(QuestionError::invalid("per", "'visitor' or 'visit'", text)),
    }
}

/// The counts of the steps.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct StepCounts {
    /// For each step, the number of visitors or visits that reached it.
    pub reached: [u64; FUNNEL_STEPS_MAX],
    /// For each step, the times since the step before, in milliseconds.
    times_ms: [Vec<i64>; FUNNEL_STEPS_MAX],
}

impl StepCounts {
    /// Adds a chain. Returns the number of added times.
    fn add(&mut self, rows: &[Row], chain: &[usize]) -> u64 {
        for (step, index) in chain.iter().enumerate() {
            self.reached[step] += 1;
            if step > 0 {
                self.times_ms[step].push(rows[*index].time_ms() - rows[chain[step - 1]].time_ms());
            }
        }
        chain.len() as u64 - 1
    }
}

/// Returns the value in the middle of the times. If their number is even, returns the mean of the two in the middle.
fn median(times_ms: &mut [i64]) -> Option<f64> {
    let middle = times_ms.len() / 2;
    let is_even = times_ms.len().is_multiple_of(2);
    let (lower, upper, _) = (!times_ms.is_empty()).then(|| times_ms.select_nth_unstable(middle))?;
    let other = if is_even { lower.iter().copied().max()? } else { *upper };
    Some((other as f64 + *upper as f64) / 2.0)
}

/// The numbers of the steps of a funnel.
#[derive(Debug, Default)]
pub(super) struct StepNumbers {
    pub reached: [u64; FUNNEL_STEPS_MAX],
    /// For each step, the median time since the step before, in milliseconds.
    pub medians_ms: [Option<f64>; FUNNEL_STEPS_MAX],
}

impl From<StepCounts> for StepNumbers {
    fn from(counts: StepCounts) -> Self {
        let StepCounts { reached, times_ms } = counts;
        Self { reached, medians_ms: times_ms.map(|mut times_ms| median(&mut times_ms)) }
    }
}

/// The visitors or visits that left the funnel after a step.
#[derive(Debug, Default)]
pub(super) struct Leavers {
    pub count: u64,
    /// The number of those without a later page.
    pub exits: u64,
    /// The next pages, and their numbers. A page without a path is `None`.
    pub next: Vec<(Option<String>, u64)>,
    /// The number of pages that are not in `next`.
    pub more: usize,
}

/// The counts of a funnel.
#[derive(Debug, Default)]
pub(super) struct FunnelCounts {
    pub total: StepNumbers,
    /// For each step except the last one, the visitors or visits that left.
    pub left: Vec<Leavers>,
    /// The numbers of each value of `by`.
    pub groups: Vec<(Option<String>, StepNumbers)>,
    /// The number of values that are not in `groups`.
    pub more: usize,
    /// The number of rows in all files that can have rows in the window.
    pub rows: u64,
    /// For each text column that the question needs, the number of rows in the range whose text is `(other)`.
    pub other: [u64; TextColumn::COUNT],
}

/// Counts the steps.
///
/// # Errors
/// Returns an error if a file is damaged, or if the question takes too much time or memory.
pub(super) fn count(
    question: &FunnelQuestion,
    site: &SiteFacts,
    columns: &[&Columns],
    limits: &Limits<'_>,
) -> Result<FunnelCounts, ScanError> {
    if let Some(by) = &question.by {
        by.check(columns, &site.site, limits)?;
    }
    let parts = each_value_part(|part| {
        let (counts, summary) = count_part(question, None, site, columns, limits, part)?;
        Ok(FunnelCounts::of_steps(counts, &summary, question, part))
    })?;
    let mut counts = FunnelCounts::joined(parts);
    for left in &mut counts.left {
        left.more += keep_first(&mut left.next, question.limit, |visitors| *visitors);
    }
    if let Some(by) = &question.by {
        let groups = each_value_part(|part| {
            let (counts, summary) = count_part(question, Some(by), site, columns, limits, part)?;
            Ok(FunnelCounts::of_groups(counts, &summary, question))
        })?;
        let FunnelCounts { groups, more, rows, other, .. } = FunnelCounts::joined(groups);
        counts.groups = groups;
        counts.more = more + keep_first(&mut counts.groups, question.limit, reached_first);
        counts.rows = counts.rows.max(rows);
        by.join_other(&mut counts.other, &other);
    }
    Ok(counts)
}

/// Returns the number of visitors or visits that reached the first step.
fn reached_first(numbers: &StepNumbers) -> u64 {
    numbers.reached[0]
}

/// Sorts rows by their numbers and values, and drops the rows beyond the limit. Returns the number of dropped rows.
fn keep_first<T>(rows: &mut Vec<(Option<String>, T)>, limit: usize, number: impl Fn(&T) -> u64) -> usize {
    rows.sort_by(|a, b| {
        number(&b.1).cmp(&number(&a.1)).then_with(|| (a.0.is_none(), &a.0).cmp(&(b.0.is_none(), &b.0)))
    });
    let more = rows.len().saturating_sub(limit);
    rows.truncate(limit);
    more
}

fn count_part(
    question: &FunnelQuestion,
    by: Option<&FunnelGroup>,
    site: &SiteFacts,
    columns: &[&Columns],
    limits: &Limits<'_>,
    value_part: Part,
) -> Result<(PartCount, ScanSummary), ScanError> {
    if value_part.count > PARTS_MAX {
        return Err(ScanError::TooLarge);
    }
    let plan = Plan { value_part, steps: &question.steps, ..question.selection.plan(site) };
    let plan = match by {
        Some(by) => by.plan(plan),
        None => Plan { value: RowValue::Of(Group::Page), ..plan },
    };
    let needs_start = question.needs_visit_starts(by);
    let count = |plan: &Plan<'_>, is_cut: IsCut<'_>| {
        let mut counter = FunnelCounter::new(question, by, value_part, limits);
        let mut cut = CutVisitors::default();
        let summary = scan(columns, plan, limits, &mut |visitor, rows| match is_cut(rows) {
            true => cut.add(visitor),
            false => counter.add_visitor(rows),
        })?;
        Ok(CountResult { summary, counts: counter, cut })
    };
    let mut add =
        |counter: &mut FunnelCounter<'_>, _, rows: &[Row], _: &ScanSummary| counter.add_visitor(rows);
    let (summary, counter) = count_since_visit_starts(columns, plan, needs_start, limits, count, &mut add)?;
    let part = counter.count;
    let bytes_max = counts_bytes_max(limits);
    if !part.is_full(bytes_max) {
        Ok((part, summary))
    } else if part.times_bytes > bytes_max && part.groups.len() == 1 {
        // Parts of the values do not divide the times of one group.
        Err(ScanError::TooLarge)
    } else {
        Err(ScanError::TooManyValues)
    }
}

/// Returns the memory for the times of a part, and that for its tables, in bytes. A part that takes more is incomplete.
fn counts_bytes_max(limits: &Limits<'_>) -> u64 {
    (limits.memory_bytes / VALUES_SHARE).max(COUNTS_BYTES_MIN)
}

/// The counts of one part of the values.
#[derive(Debug, Default)]
struct PartCount {
    /// The counts of each group, by the number of its value. Without `by`, [`NO_VALUE`] has the counts of all.
    groups: HashMap<u32, StepCounts>,
    /// For each step, the number of those that left the funnel after it, by the number of the next page. The number of a page
    /// without a path is [`NO_VALUE`].
    next: [HashMap<u32, u64>; FUNNEL_STEPS_MAX],
    /// For each step, the number of those that left the funnel after it and have no later page.
    exits: [u64; FUNNEL_STEPS_MAX],
    /// Memory of the times between steps, in bytes.
    times_bytes: u64,
    /// Memory of the groups and of the next pages, in bytes.
    table_bytes: u64,
}

/// A counter of the chains of visitors or visits.
struct FunnelCounter<'q> {
    question: &'q FunnelQuestion,
    by: Option<&'q FunnelGroup>,
    value_part: Part,
    finder: ChainFinder,
    bytes_max: u64,
    count: PartCount,
}

impl<'q> FunnelCounter<'q> {
    fn new(
        question: &'q FunnelQuestion,
        by: Option<&'q FunnelGroup>,
        value_part: Part,
        limits: &Limits<'_>,
    ) -> Self {
        Self {
            question,
            by,
            value_part,
            finder: ChainFinder::new(question.steps.len(), question.window_ms),
            bytes_max: counts_bytes_max(limits),
            count: PartCount::default(),
        }
    }

    fn add_visitor(&mut self, rows: &[Row]) {
        let start_ms = self.question.selection.range.start;
        if let Some(FunnelGroup::Experiment { .. }) = self.by {
            let exposed = rows_of_exposed(rows, start_ms);
            exposed.into_iter().for_each(|rows| self.add_rows(&rows));
        } else {
            self.add_rows(rows);
        }
    }

    /// Adds the chains of a visitor.
    fn add_rows(&mut self, rows: &[Row]) {
        let question = self.question;
        let Some(range) = question.selection.rows_in_range(rows) else { return };
        if question.per_visit {
            let selection = Selection::new(&question.selection.filters);
            each_visit(rows, &question.selection.range, selection, &mut |visit| {
                if visit.is_visit() {
                    self.add_events(visit.rows_in_range(), |_| visit_of(visit.rows(), 0));
                }
            });
        } else {
            let rows = &rows[..range.end];
            self.add_events(&rows[range.start..], |index| visit_of(rows, range.start + index));
        }
    }

    /// Adds the chain of a visitor or of a visit. `visit_of_event` returns the visit of the event at an index.
    fn add_events<'r>(&mut self, rows: &'r [Row], visit_of_event: impl Fn(usize) -> Visit<'r>) {
        let Self { question, by, value_part, finder, bytes_max, count } = self;
        if count.is_full(*bytes_max) {
            return;
        }
        let chain = finder.find(rows);
        let Some(first) = chain.first() else { return };
        let visit = visit_of_event(*first);
        if !question.selection.selects(rows[*first], &visit) {
            return;
        }
        let value = match by {
            None => NO_VALUE,
            Some(by) if by.is_of_visit() => visit.first_page_value(),
            Some(_) => rows[*first].value,
        };
        // The first part counts the journeys without a value.
        if value == ELSEWHERE || value == NO_VALUE && by.is_some() && !value_part.is_first() {
            return;
        }
        count.add_chain(value, rows, chain);
        if by.is_none() && chain.len() < question.steps.len() {
            count.add_left(rows, chain);
        }
    }
}

impl PartCount {
    fn is_full(&self, bytes_max: u64) -> bool {
        self.times_bytes > bytes_max || self.table_bytes > bytes_max
    }

    fn add_chain(&mut self, value: u32, rows: &[Row], chain: &[usize]) {
        let counts = self.groups.entry(value).or_insert_with(|| {
            self.table_bytes += GROUP_BYTES;
            StepCounts::default()
        });
        self.times_bytes += TIME_BYTES * counts.add(rows, chain);
    }

    fn add_left(&mut self, rows: &[Row], chain: &[usize]) {
        let step = chain.len() - 1;
        match rows[chain[step] + 1..].iter().find(|row| row.has(PAGE)).map(|page| page.value) {
            None => self.exits[step] += 1,
            Some(ELSEWHERE) => {}
            Some(page) => {
                *self.next[step].entry(page).or_insert_with(|| {
                    self.table_bytes += NEXT_BYTES;
                    0
                }) += 1;
            }
        }
    }
}

impl FunnelCounts {
    /// Returns the counts of all visitors. The next pages are those of one part of the values.
    fn of_steps(
        mut part: PartCount,
        summary: &ScanSummary,
        question: &FunnelQuestion,
        value_part: Part,
    ) -> Self {
        let total = part.groups.remove(&NO_VALUE).unwrap_or_default();
        let left = |(step, next): (usize, &HashMap<u32, u64>)| {
            // The first part has the pages without a path.
            let next = next.iter().filter(|(page, _)| **page != NO_VALUE || value_part.is_first());
            let mut next: Vec<_> = next.map(|(page, count)| (text_of(*page, summary), *count)).collect();
            let more = keep_first(&mut next, question.limit, |count| *count);
            let count = total.reached[step] - total.reached[step + 1];
            Leavers { count, exits: part.exits[step], next, more }
        };
        let left = part.next.iter().enumerate().take(question.steps.len() - 1).map(left).collect();
        Self { total: total.into(), left, rows: summary.rows, other: summary.other, ..Self::default() }
    }

    /// Returns the counts of the groups in one part of the values.
    fn of_groups(part: PartCount, summary: &ScanSummary, question: &FunnelQuestion) -> Self {
        let groups = part.groups.into_iter();
        let mut groups = groups.map(|(value, counts)| (text_of(value, summary), counts.into())).collect();
        let more = keep_first(&mut groups, question.limit, reached_first);
        Self { groups, more, rows: summary.rows, other: summary.other, ..Self::default() }
    }

    /// Joins the counts of all parts of the values. Each part has the same counts of all visitors.
    fn joined(parts: Vec<Self>) -> Self {
        let mut parts = parts.into_iter();
        let mut counts = parts.next().unwrap_or_default();
        for part in parts {
            counts.groups.extend(part.groups);
            counts.more += part.more;
            for (left, other) in counts.left.iter_mut().zip(part.left) {
                left.next.extend(other.next);
                left.more += other.more;
            }
        }
        counts
    }
}

fn text_of(value_number: u32, summary: &ScanSummary) -> Option<String> {
    summary.values.texts.get(value_number as usize).map(|text| text.to_string())
}
