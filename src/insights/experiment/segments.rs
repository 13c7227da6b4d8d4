//! Divides the visitors of an experiment into segments, by their values of a dimension at their first exposure.
//!
//! The visitors are counted twice. The first count finds the values with the most visitors. The second one adds up the
//! metrics of these values, and of all others together. So the sums take memory for the listed values only, and the choice of
//! the values does not depend on the metrics.

use std::collections::HashMap;
use std::sync::Arc;

use super::arm_count::ArmCount;
use super::read::{EXPOSURE, VISIT};
use super::segment_reader::{PartSegments, SEGMENTED};
use super::sums::MetricSums;
use crate::insights::questions::row::Row;
use crate::insights::questions::values::NO_VALUE;
use crate::insights::questions::visits::visit_of;
use crate::site::experiment_metrics::Dimension;

/// Maximum number of values of a dimension in an answer, those with the most visitors. The visitors of all other values are one
/// segment. More values would make it harder to tell the arms apart in each of them.
pub(super) const SEGMENT_VALUES_MAX: usize = 20;

/// The values of a dimension that an answer lists. A visitor without a value is in the segment `None`.
type ListedValues = Vec<Option<Arc<str>>>;

/// The visitors of a segment.
#[derive(Debug, Default, Clone)]
pub(crate) struct SegmentCount {
    /// The arms, in the order of [`ExperimentCount::arms`](super::count::ExperimentCount::arms).
    pub arms: Vec<ArmCount>,
}

impl SegmentCount {
    /// Returns the number of visitors of all arms.
    pub(crate) fn exposed(&self) -> u64 {
        self.arms.iter().map(|arm| arm.exposed).sum()
    }
}

/// The segments of one dimension.
#[derive(Debug, Clone)]
pub(crate) struct DimensionCount {
    pub dimension: Dimension,
    pub values: ListedValues,
    /// The number of values that are not listed.
    pub more: usize,
    /// One segment for each listed value, and the segment of all other values.
    pub segments: Vec<SegmentCount>,
}

/// The visitors of each value, in the first count.
#[derive(Debug, Default)]
pub(super) struct ValueCounts(Vec<HashMap<u32, u64>>);

impl ValueCounts {
    pub(super) fn new(dimension_count: usize) -> Self {
        Self(vec![HashMap::new(); dimension_count])
    }

    /// Adds a visitor with its value of each dimension.
    pub(super) fn add(&mut self, values: &[u32]) {
        for (counts, value) in self.0.iter_mut().zip(values) {
            *counts.entry(*value).or_default() += 1;
        }
    }

    /// Returns the dimensions with the values that have the most visitors. Of values with equally many visitors, the first ones in
    /// the order of their texts are listed.
    pub(super) fn listed(self, dimensions: &[Dimension], part: &PartSegments) -> Vec<DimensionCount> {
        let counts = dimensions.iter().zip(self.0).enumerate();
        let listed = counts.map(|(index, (dimension, counts))| {
            let mut values: Vec<(u64, Option<Arc<str>>)> =
                counts.into_iter().map(|(value, count)| (count, part.text(index, value))).collect();
            values.sort_by(|a, b| {
                b.0.cmp(&a.0).then_with(|| (a.1.is_none(), &a.1).cmp(&(b.1.is_none(), &b.1)))
            });
            let more = values.len().saturating_sub(SEGMENT_VALUES_MAX);
            values.truncate(SEGMENT_VALUES_MAX);
            let values: ListedValues = values.into_iter().map(|(_, text)| text).collect();
            let segments = vec![SegmentCount::default(); values.len() + 1];
            DimensionCount { dimension: *dimension, values, more, segments }
        });
        listed.collect()
    }
}

impl DimensionCount {
    /// Returns the arm with this number in the segment of a value.
    pub(super) fn arm_mut(
        &mut self,
        value: Option<&str>,
        arm_number: usize,
        metric_count: usize,
    ) -> &mut ArmCount {
        let listed = self.values.iter().position(|listed| listed.as_deref() == value);
        let arms = &mut self.segments[listed.unwrap_or(self.values.len())].arms;
        arms.resize_with(arms.len().max(arm_number + 1), ArmCount::default);
        let arm = &mut arms[arm_number];
        arm.sums.resize(metric_count, MetricSums::default());
        arm
    }
}

/// Returns the number of the visitor's value of each dimension. `first` is the first exposure of the visitor.
pub(super) fn values_of_visitor(
    dimensions: &[Dimension],
    rows: &[Row],
    first: Row,
    part: &PartSegments,
) -> Vec<u32> {
    let value = |(index, dimension): (usize, &Dimension)| match dimension {
        Dimension::New => part.new_value(index, is_new(rows, first)),
        Dimension::Source => source_of_visit(rows, first, index, part),
        Dimension::Device | Dimension::Country | Dimension::Language => {
            exposure_value(rows, first, index, part)
        }
    };
    dimensions.iter().enumerate().map(value).collect()
}

/// Returns whether no event is before the first exposure, by its time and in the order of the log. An event that arrives after the
/// exposure does not count, because it can depend on the arm.
fn is_new(rows: &[Row], first: Row) -> bool {
    !rows.iter().any(|row| row.time_ms() < first.time_ms() && row.order < first.order)
}

/// Returns the value that an exposure has itself.
fn exposure_value(rows: &[Row], exposure: Row, index: usize, part: &PartSegments) -> u32 {
    let values = rows.iter().find(|row| row.has(SEGMENTED) && row.order == exposure.order);
    values.map_or(NO_VALUE, |row| part.values_at(*row)[index])
}

/// Returns the source of the visit of the first exposure. It is that of the first page of the visit.
fn source_of_visit(rows: &[Row], first: Row, index: usize, part: &PartSegments) -> u32 {
    let with_source = |row: &Row| {
        let mut row = *row;
        if row.has(EXPOSURE) {
            row.value = exposure_value(rows, row, index, part);
        }
        row
    };
    let events: Vec<Row> = rows.iter().filter(|row| row.has(VISIT)).map(with_source).collect();
    let first = events.iter().position(|row| row.has(EXPOSURE) && row.order == first.order);
    first.map_or(NO_VALUE, |first| visit_of(&events, first).first_page_value())
}
