//! Reads the records of the rows of a page from the segments of the log: their seqs, their IDs and the amounts of their goal.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::events::identity;
use crate::insights::columns::amounts::{Amount, UNITS_PER_ONE, parse_amount};
use crate::insights::columns::build::has_row;
use crate::log::{SegmentRecords, SegmentSpan, segment_spans};
use crate::record::Record;
use crate::site::goals::{Properties, SiteGoal};
use crate::storage::damage::KnownDamage;
use crate::storage::disk::Disk;

/// The address of a record in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordAddress {
    /// The first seq of its segment.
    pub first_seq: u64,
    /// The number of rows before it in the segment.
    pub position: u32,
    /// True if each record of the segment has a row, so that the position gives the seq.
    pub has_all_rows: bool,
}

impl RecordAddress {
    /// Returns the number of the row in the log.
    fn row_number(&self) -> u64 {
        self.first_seq + u64::from(self.position)
    }
}

/// The addresses of the records of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowAddresses {
    /// The event by which the visitor is sorted.
    pub latest: RecordAddress,
    /// The record that names the last tie of the visitor.
    pub tie: Option<RecordAddress>,
    /// True if this tie has not ended.
    pub is_tied: bool,
}

/// The facts that only the records of a row have.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RecordedRow {
    /// The seq of the event by which the visitor is sorted. `None` if the record was deleted meanwhile.
    pub seq: Option<u64>,
    pub anon_id: Option<String>,
    pub user_id: Option<String>,
    /// The amount of the goal. `None` if the event has none.
    pub amount: Option<f64>,
    pub currency: Option<String>,
}

impl RecordedRow {
    pub(super) fn ids(&self) -> (Option<&str>, Option<&str>) {
        (self.user_id.as_deref(), self.anon_id.as_deref())
    }
}

/// The facts of one record.
#[derive(Debug, Clone, Default)]
struct ReadRecord {
    seq: u64,
    anon_id: Option<String>,
    user_id: Option<String>,
    /// The anonymous ID and the user of the tie that the record names.
    tie: Option<(String, Option<String>)>,
    amount: Option<f64>,
    currency: Option<String>,
}

impl ReadRecord {
    fn of(seq: u64, record: &Record<'_>, goal: Option<&SiteGoal>) -> Self {
        let mut buffer = Vec::new();
        let tie = identity::named_tie(record, record.previous_id(&mut buffer));
        let properties = goal.map(|_| Properties::new(record.payload));
        let of_goal = goal.zip(properties.as_ref());
        let value = of_goal.and_then(|(goal, properties)| properties.json(goal.value.as_ref()?));
        let amount = value.and_then(|json| match parse_amount(json) {
            Amount::Units(units) => Some(units as f64 / UNITS_PER_ONE),
            Amount::Ignored => None,
        });
        let currency = of_goal.and_then(|(goal, properties)| properties.currency(goal.currency.as_ref()?));
        Self {
            seq,
            anon_id: record.anon_id.map(str::to_owned),
            user_id: record.user_id.map(str::to_owned),
            tie: tie.map(|(anonymous, user)| (anonymous.to_owned(), user.map(str::to_owned))),
            amount,
            currency: currency.filter(|_| amount.is_some()).map(|currency| currency.into_owned()),
        }
    }
}

/// The segments of the log.
#[derive(Clone, Copy)]
pub struct SegmentFiles<'f> {
    pub disk: &'f Arc<dyn Disk>,
    pub directory: &'f Path,
    /// The list to which damage is reported.
    pub damage: &'f KnownDamage,
}

impl SegmentFiles<'_> {
    /// Returns the number of rows before a seq in the segment with this first seq.
    ///
    /// # Errors
    /// An I/O error.
    pub(super) fn rows_before(&self, first_seq: u64, end_seq: u64) -> io::Result<u64> {
        let Self { disk, directory, damage } = self;
        let spans = segment_spans(disk, directory)?;
        let Some(span) = spans.iter().find(|span| span.first_seq == first_seq) else { return Ok(0) };
        let mut records = SegmentRecords::open(disk, directory, *span, end_seq.saturating_sub(1), damage)?;
        let mut rows = 0;
        records.read(&mut |batch| {
            let of_rows = batch.iter().filter(|(seq, record)| *seq < end_seq && has_row(record.kind));
            rows += of_rows.count() as u64;
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }
}

/// Reads the records at the addresses of rows. `last_seq` is the last one that the rows count.
///
/// # Errors
/// An I/O error.
pub(super) fn read_page_records(
    addresses: &[RowAddresses],
    last_seq: u64,
    goal: Option<&SiteGoal>,
    files: SegmentFiles<'_>,
) -> io::Result<Vec<RecordedRow>> {
    let mut found: BTreeMap<RecordAddress, Option<ReadRecord>> = addresses
        .iter()
        .flat_map(|row| [row.latest].into_iter().chain(row.tie))
        .map(|at| (at, None))
        .collect();
    for span in segment_spans(files.disk, files.directory)? {
        let mut of_segment: Vec<_> =
            found.iter_mut().filter(|(address, _)| address.first_seq == span.first_seq).collect();
        if !of_segment.is_empty() {
            read_segment(&mut of_segment, span, last_seq, goal, files)?;
        }
    }
    let record = |address: RecordAddress| found.get(&address).cloned().flatten();
    Ok(addresses.iter().map(|row| recorded_row(row, &record)).collect())
}

fn recorded_row(row: &RowAddresses, record: &dyn Fn(RecordAddress) -> Option<ReadRecord>) -> RecordedRow {
    let Some(latest) = record(row.latest) else { return RecordedRow::default() };
    let tie = row.tie.and_then(record).and_then(|tie| tie.tie);
    let (tied_id, user) = tie.map_or((None, None), |(anonymous, user)| (Some(anonymous), user));
    let ReadRecord { seq, anon_id, user_id, amount, currency, .. } = latest;
    // A visitor without a tie and without an anonymous ID is a user.
    let is_user = row.tie.is_none() && anon_id.is_none();
    let user_id = if is_user { user_id } else { user.filter(|_| row.is_tied) };
    RecordedRow { seq: Some(seq), anon_id: tied_id.or(anon_id), user_id, amount, currency }
}

/// Reads the records at some addresses of a segment, which are sorted. `last_seq` is the last one that the page counts.
fn read_segment(
    addresses: &mut [(&RecordAddress, &mut Option<ReadRecord>)],
    span: SegmentSpan,
    last_seq: u64,
    goal: Option<&SiteGoal>,
    files: SegmentFiles<'_>,
) -> io::Result<()> {
    let last_seq = span.next_seq.map_or(last_seq, |next| next - 1);
    let SegmentFiles { disk, directory, damage } = files;
    let mut records = match SegmentRecords::open(disk, directory, span, last_seq, damage) {
        // Retention has deleted the segment meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    let mut next = 0;
    let mut position = 0;
    while let Some((address, _)) = addresses.get(next) {
        let has_all_rows = address.has_all_rows;
        if has_all_rows {
            records.skip_to(address.row_number());
        }
        let found_before = next;
        records.read(&mut |batch| {
            let of_rows = batch.iter().filter(|(_, record)| has_row(record.kind));
            for (seq, record) in of_rows {
                let row_number = if has_all_rows { seq } else { span.first_seq + position };
                position += 1;
                while addresses.get(next).is_some_and(|(address, _)| address.row_number() < row_number) {
                    next += 1;
                }
                if let Some((address, found)) = addresses.get_mut(next)
                    && address.row_number() == row_number
                {
                    **found = Some(ReadRecord::of(seq, &record, goal));
                    next += 1;
                }
            }
            // The index of a sealed segment leads to the next record.
            let is_found = next == addresses.len() || has_all_rows && next > found_before;
            if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if next == found_before {
            break;
        }
    }
    Ok(())
}
