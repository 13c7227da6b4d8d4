//! The source, the channel, the country and the device of the visitors of a page.

use std::collections::HashMap;

use super::latest::activity_of;
use super::question::VisitorsQuestion;
use crate::insights::columns::reader::Columns;
use crate::insights::questions::channels::Channel;
use crate::insights::questions::limits::{Limits, ScanError};
use crate::insights::questions::plan::{Plan, RowValue};
use crate::insights::questions::question::Group;
use crate::insights::questions::row::Row;
use crate::insights::questions::row_reader::DIRECT;
use crate::insights::questions::scan::{ScanSummary, VisitorsAgain, scan_visitors};
use crate::insights::questions::sealed::{CountResult, CutVisitors, IsCut};
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::values::{NO_VALUE, Values};
use crate::insights::questions::visit_scan::count_since_visit_starts;

/// The values of the event by which a visitor is sorted, in the order of [`GROUPS`].
pub(super) type VisitorValues = [Option<String>; GROUPS.len()];

/// The groups of the values.
pub(super) const GROUPS: [Group; 4] = [Group::Source, Group::Channel, Group::Country, Group::Device];

/// Returns the values of the visitors with these hashes, which are sorted. A scan has selected these visitors.
///
/// # Errors
/// Returns an error if a file is damaged, or if the question takes too much time or memory.
pub(super) fn values_of(
    files: &[&Columns],
    question: &VisitorsQuestion,
    site: &SiteFacts,
    end_row: Option<u64>,
    limits: &Limits<'_>,
    hashes: &[u64],
) -> Result<HashMap<u64, VisitorValues>, ScanError> {
    let mut visitors: HashMap<u64, VisitorValues> =
        hashes.iter().map(|hash| (*hash, VisitorValues::default())).collect();
    for (index, group) in GROUPS.into_iter().enumerate() {
        let plan = Plan { value: RowValue::Of(group), ..question.plan(site, end_row) };
        let mut values = Values::default();
        let direct_value = match group {
            Group::Source => values.number(DIRECT),
            _ => values.number(Channel::Direct.name()),
        };
        let add = |numbers: &mut Vec<(u64, u32)>, hash, rows: &[Row], _: &ScanSummary| {
            let activity = activity_of(rows, question, question.credit_rule(site), direct_value);
            let latest = activity.map(|activity| activity.latest);
            let value = latest.map_or(NO_VALUE, |latest| match group.is_of_visit() {
                true => latest.visit_value,
                false => latest.own_value,
            });
            numbers.push((hash, value));
        };
        let read = |plan: &Plan<'_>, is_cut: IsCut<'_>| {
            let mut numbers = Vec::with_capacity(hashes.len());
            let mut cut = CutVisitors::default();
            let mut summary = ScanSummary { values: values.clone(), ..ScanSummary::default() };
            let visitors = VisitorReader { files, plan, limits };
            visitors.read(hashes, &mut summary, &mut |hash, rows, summary| match is_cut(rows) {
                true => cut.add(hash),
                false => add(&mut numbers, hash, rows, summary),
            })?;
            Ok(CountResult { summary, counts: numbers, cut })
        };
        let (summary, numbers) = count_since_visit_starts(files, plan, true, limits, read, &mut &add)?;
        for (hash, number) in numbers {
            let text = summary.values.texts.get(number as usize).map(ToString::to_string);
            visitors.entry(hash).or_default()[index] = text;
        }
    }
    Ok(visitors)
}

/// A reader of the rows of some visitors.
pub(super) struct VisitorReader<'r> {
    pub files: &'r [&'r Columns],
    pub plan: &'r Plan<'r>,
    pub limits: &'r Limits<'r>,
}

impl VisitorReader<'_> {
    /// Passes the rows of the visitors to `take_visitor`. If they do not fit in the memory, reads half of the visitors, and then the
    /// others. The rows of one visitor always fit.
    ///
    /// # Errors
    /// Returns the errors of [`scan_visitors`], and an error if one visitor does not fit in the memory.
    pub(super) fn read(
        &self,
        hashes: &[u64],
        summary: &mut ScanSummary,
        take_visitor: &mut dyn FnMut(u64, &[Row], &ScanSummary),
    ) -> Result<(), ScanError> {
        let Self { files, plan, limits } = *self;
        let rows_max = match hashes.len() {
            0 | 1 => usize::MAX,
            _ => limits.for_rows().memory_bytes as usize / size_of::<Row>(),
        };
        let again = VisitorsAgain { hashes, rows_max, are_files_checked: false };
        if scan_visitors(files, plan, limits, &again, summary, take_visitor)? {
            return Ok(());
        }
        if hashes.len() == 1 {
            return Err(ScanError::TooLarge);
        }
        let (first, others) = hashes.split_at(hashes.len() / 2);
        self.read(first, summary, take_visitor)?;
        self.read(others, summary, take_visitor)
    }
}
