//! The plan of a scan. It describes the rows that a question needs.

use std::ops::Range;

use super::pairs::PairedValue;
use super::part::Part;
use super::question::{Filters, Group};
use super::site::SiteFacts;
use super::steps::Step;

/// The kind of value that each row of a question gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowValue<'q> {
    Nothing,
    Of(Group),
    /// The variants of a page event, and the name of any other event.
    Shown,
    /// The path of a page event, and the name of any other event.
    Visited,
    /// A value in one of the lists of pairs that page and track events have. Other events have no value.
    Paired(PairedValue<'q>),
}

/// The rows that a question needs.
#[derive(Debug)]
pub(crate) struct Plan<'q> {
    pub site: &'q SiteFacts,
    /// The window of times, in milliseconds. A row outside the window is not needed.
    pub window: Range<i64>,
    /// The range of the question, in milliseconds. A text `(other)` is counted only in this range.
    pub range: Range<i64>,
    /// True if the records of crawlers are included.
    pub bots: bool,
    pub filters: &'q Filters,
    pub value: RowValue<'q>,
    /// The part of the values that this scan counts.
    pub value_part: Part,
    /// True if the question counts personalized visitors.
    pub needs_variants: bool,
    /// The numbers of the goals of the site that the question counts.
    pub goals: &'q [usize],
    /// The steps of the question. `order` of a row is the mask of the steps that accept the event. If there are no steps,
    /// the scan does not set `order`.
    pub steps: &'q [Step],
    /// True if each row gets its location: the number of its file as its value, and its position as its order.
    pub locates: bool,
    /// The number in the log of the first row that does not count any more. `None` if all rows count.
    pub end_row: Option<u64>,
}

impl<'q> Plan<'q> {
    /// Creates the plan that reads the rows of a range, without their values.
    pub(crate) fn new(
        site: &'q SiteFacts,
        range: &Range<i64>,
        includes_bots: bool,
        filters: &'q Filters,
    ) -> Self {
        Self {
            site,
            window: range.clone(),
            range: range.clone(),
            bots: includes_bots,
            filters,
            value: RowValue::Nothing,
            value_part: Part::WHOLE,
            needs_variants: false,
            goals: &[],
            steps: &[],
            locates: false,
            end_row: None,
        }
    }

    /// Returns whether the question needs the goals of the rows.
    pub(crate) fn needs_goals(&self) -> bool {
        !self.goals.is_empty() || self.steps.iter().any(|step| step.goal_number().is_some())
    }
}
