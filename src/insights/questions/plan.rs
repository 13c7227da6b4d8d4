//! The plan of a scan: the rows that a question needs.

use std::ops::Range;

use super::part::Part;
use super::question::{Filters, Group};
use super::site::SiteFacts;

/// The value of each row of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowValue {
    Nothing,
    Of(Group),
    /// For a page event its variants, and for any other event its name.
    Shown,
}

/// The rows that a question needs.
#[derive(Debug)]
pub(crate) struct Plan<'q> {
    pub site: &'q SiteFacts,
    /// Rows with a time in this window are read. Times are in milliseconds.
    pub window: Range<i64>,
    /// The range of the question, in milliseconds. Rows with `(other)` are counted in it.
    pub range: Range<i64>,
    /// True if records of crawlers count.
    pub bots: bool,
    pub filters: &'q Filters,
    pub value: RowValue,
    /// The part of the values that the question counts.
    pub value_part: Part,
    /// True if the question counts personalized visitors.
    pub needs_variants: bool,
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
        }
    }
}
