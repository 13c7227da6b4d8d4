//! Counts the rows that a scan passes to a question.

use std::ops::Range;

use super::question::Group;
use super::row::{ACTION, PAGE, PERSONALIZED, Row};
use super::sealed::Count;
use super::values::{ELSEWHERE, NO_VALUE};
use super::visits::{Selection, each_visit};

/// The numbers of a range or of a bucket: visitors, visits, page views and other events.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals {
    pub visitors: u64,
    pub visits: u64,
    pub views: u64,
    pub events: u64,
    /// The number of visitors that have seen a variant other than `default`.
    pub personalized: u64,
}

impl Totals {
    fn combine(&mut self, other: &Self, operation: fn(u64, u64) -> u64) {
        let Self { visitors, visits, views, events, personalized } = self;
        *visitors = operation(*visitors, other.visitors);
        *visits = operation(*visits, other.visits);
        *views = operation(*views, other.views);
        *events = operation(*events, other.events);
        *personalized = operation(*personalized, other.personalized);
    }
}

/// The numbers of a range, and the numbers of each bucket of the range.
#[derive(Debug)]
pub(crate) struct RangeCount {
    range: Range<i64>,
    selection: Selection,
    /// The first instant of each bucket, in milliseconds.
    pub buckets: Vec<i64>,
    pub totals: Totals,
    pub series: Vec<Totals>,
}

impl RangeCount {
    pub(crate) fn new(range: Range<i64>, selection: Selection, bucket_starts_ms: Vec<i64>) -> Self {
        let series = vec![Totals::default(); bucket_starts_ms.len()];
        Self { range, selection, buckets: bucket_starts_ms, totals: Totals::default(), series }
    }
}

impl Count for RangeCount {
    fn add_visitor(&mut self, rows: &[Row]) {
        let Self { range, selection, buckets, totals, series } = self;
        let mut has_page = false;
        let mut is_personalized = false;
        let mut page_bucket = None;
        let mut bucket_of = BucketFinder::new(buckets);
        each_visit(rows, range, *selection, &mut |visit| {
            if let Some(began_ms) = visit.began_in_range_ms() {
                totals.visits += 1;
                bucket_of.find(began_ms).into_iter().for_each(|bucket| series[bucket].visits += 1);
            }
            for row in visit.events() {
                let bucket = bucket_of.find(row.time_ms());
                if row.has(PAGE) {
                    has_page = true;
                    is_personalized |= row.has(PERSONALIZED);
                    totals.views += 1;
                    if let Some(bucket) = bucket {
                        series[bucket].views += 1;
                        // Rows are in the order of their times. So a visitor is counted once in each bucket.
                        series[bucket].visitors += u64::from(page_bucket != Some(bucket));
                        page_bucket = Some(bucket);
                    }
                } else if row.has(ACTION) {
                    totals.events += 1;
                    bucket.into_iter().for_each(|bucket| series[bucket].events += 1);
                }
            }
        });
        totals.visitors += u64::from(has_page);
        totals.personalized += u64::from(is_personalized);
    }

    fn combine(&mut self, other: &Self, operation: fn(u64, u64) -> u64) {
        self.totals.combine(&other.totals, operation);
        for (totals, other) in self.series.iter_mut().zip(&other.series) {
            totals.combine(other, operation);
        }
    }

    fn bytes(&self) -> u64 {
        (size_of_val(&*self.series) + size_of_val(&*self.buckets)) as u64
    }
}

/// Returns the index of the bucket that contains a time.
pub(crate) fn bucket_of(bucket_starts_ms: &[i64], time_ms: i64) -> Option<usize> {
    bucket_starts_ms.partition_point(|start| *start <= time_ms).checked_sub(1)
}

/// A search for the bucket that contains a time. The search is fast if the next time is in the same bucket as the last
/// time.
struct BucketFinder<'b> {
    buckets: &'b [i64],
    /// The result of the last search.
    bucket: Option<usize>,
    /// The range of times that have `bucket` as result.
    times: Range<i64>,
}

impl<'b> BucketFinder<'b> {
    fn new(bucket_starts_ms: &'b [i64]) -> Self {
        Self { buckets: bucket_starts_ms, bucket: None, times: 0..0 }
    }

    fn find(&mut self, time_ms: i64) -> Option<usize> {
        if !self.times.contains(&time_ms) {
            let next = self.buckets.partition_point(|start| *start <= time_ms);
            self.bucket = next.checked_sub(1);
            let start = self.bucket.map_or(i64::MIN, |bucket| self.buckets[bucket]);
            self.times = start..self.buckets.get(next).copied().unwrap_or(i64::MAX);
        }
        self.bucket
    }
}

/// The numbers of one value of a group.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupTotals {
    pub views: u64,
    pub events: u64,
    pub visitors: u64,
    pub visits: u64,
    /// The number of the visitor that was counted last for this value. Visitors are numbered from 1.
    last_visitor: u64,
    /// The number of the visit that was counted last for this value. Visits are numbered from 1.
    last_visit: u64,
}

impl GroupTotals {
    /// Adds a row. Counts the visitor, unless the visitor is `None` or was counted last. Counts the visit in the same
    /// way.
    fn add(&mut self, row: Row, visitor_number: Option<u64>, visit_number: Option<u64>) {
        self.views += u64::from(row.has(PAGE));
        self.events += u64::from(row.has(ACTION));
        if let Some(number) = visitor_number.filter(|number| self.last_visitor != *number) {
            self.visitors += 1;
            self.last_visitor = number;
        }
        if let Some(number) = visit_number.filter(|number| self.last_visit != *number) {
            self.visits += 1;
            self.last_visit = number;
        }
    }

    fn combine(&mut self, other: &Self, operation: fn(u64, u64) -> u64) {
        self.views = operation(self.views, other.views);
        self.events = operation(self.events, other.events);
        self.visitors = operation(self.visitors, other.visitors);
        self.visits = operation(self.visits, other.visits);
    }

    /// Returns the number by which the values of a group are sorted. Depending on the group, this is the number of
    /// events, visitors, visits or page views.
    pub(crate) fn rank(&self, group: Group) -> u64 {
        match group {
            Group::Event => self.events,
            Group::Property(_) => self.visitors,
            group if group.is_of_visit() => self.visits,
            _ => self.views,
        }
    }
}

/// The numbers of each value of a group.
#[derive(Debug)]
pub(crate) struct TopCount {
    range: Range<i64>,
    selection: Selection,
    group: Group,
    pub total: GroupTotals,
    /// The numbers of each value, by the index of the value in [`Values`](super::values::Values).
    pub groups: Vec<GroupTotals>,
    /// The numbers of all rows that have no value.
    pub absent: GroupTotals,
    /// The number of the last visitor.
    visitor: u64,
    /// The number of the last visit.
    visit: u64,
}

impl TopCount {
    pub(crate) fn new(range: Range<i64>, selection: Selection, group: Group) -> Self {
        Self {
            range,
            selection,
            group,
            total: GroupTotals::default(),
            groups: Vec::new(),
            absent: GroupTotals::default(),
            visitor: 0,
            visit: 0,
        }
    }
}

impl Count for TopCount {
    fn add_visitor(&mut self, rows: &[Row]) {
        let group = self.group;
        let Self { range, selection, total, groups, absent, visitor, visit: visit_number, .. } = self;
        *visitor += 1;
        each_visit(rows, range, *selection, &mut |visit| {
            *visit_number += 1;
            let visit_value = match group {
                Group::Exit => Some(visit.last_page_value()),
                group if group.is_of_visit() => Some(visit.first_page_value()),
                _ => None,
            };
            let visit_id = visit.began_in_range_ms().map(|_| *visit_number);
            for row in visit.events() {
                let is_action = group == Group::Event;
                if is_action && !row.has(ACTION) {
                    continue;
                }
                let is_of_visitor = row.has(PAGE) || matches!(group, Group::Event | Group::Property(_));
                let visitor = is_of_visitor.then_some(*visitor);
                total.add(row, visitor, visit_id);
                let group = match visit_value.unwrap_or(row.value) {
                    NO_VALUE => &mut *absent,
                    ELSEWHERE => continue,
                    value => entry(groups, value),
                };
                group.add(row, visitor, visit_id);
            }
        });
    }

    fn combine(&mut self, other: &Self, operation: fn(u64, u64) -> u64) {
        self.total.combine(&other.total, operation);
        self.absent.combine(&other.absent, operation);
        self.groups.resize(self.groups.len().max(other.groups.len()), GroupTotals::default());
        for (group, other) in self.groups.iter_mut().zip(&other.groups) {
            group.combine(other, operation);
        }
    }

    fn bytes(&self) -> u64 {
        size_of_val(&*self.groups) as u64
    }
}

fn entry(groups: &mut Vec<GroupTotals>, value_number: u32) -> &mut GroupTotals {
    let index = value_number as usize;
    if groups.len() <= index {
        groups.resize(index + 1, GroupTotals::default());
    }
    &mut groups[index]
}

/// The number of recent visitors, by the last page of each visitor.
#[derive(Debug)]
pub(crate) struct LastPages {
    range: Range<i64>,
    selection: Selection,
    /// A visitor is recent if it has an event at this time or later. The time is in milliseconds.
    since_ms: i64,
    /// The number of visitors for each page, by the index of the page in [`Values`](super::values::Values).
    pub visitors: Vec<u64>,
}

impl LastPages {
    pub(crate) fn new(range: Range<i64>, selection: Selection, since_ms: i64) -> Self {
        Self { range, selection, since_ms, visitors: Vec::new() }
    }
}

impl Count for LastPages {
    fn add_visitor(&mut self, rows: &[Row]) {
        let mut last_page = NO_VALUE;
        let mut is_recent = false;
        let since_ms = self.since_ms;
        each_visit(rows, &self.range, self.selection, &mut |visit| {
            for row in visit.events() {
                is_recent |= row.time_ms() >= since_ms;
                if row.has(PAGE) {
                    last_page = row.value;
                }
            }
        });
        if is_recent && ![NO_VALUE, ELSEWHERE].contains(&last_page) {
            let index = last_page as usize;
            self.visitors.resize(self.visitors.len().max(index + 1), 0);
            self.visitors[index] += 1;
        }
    }

    fn combine(&mut self, other: &Self, operation: fn(u64, u64) -> u64) {
        self.visitors.resize(self.visitors.len().max(other.visitors.len()), 0);
        for (visitors, other) in self.visitors.iter_mut().zip(&other.visitors) {
            *visitors = operation(*visitors, *other);
        }
    }

    fn bytes(&self) -> u64 {
        size_of_val(&*self.visitors) as u64
    }
}
