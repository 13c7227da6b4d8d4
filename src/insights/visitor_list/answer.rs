//! Writes a list of visitors as JSON, CSV and a table.

use std::time::Instant;

use serde_json::{Map, Value as Json, json};

use super::bounds::PageBounds;
use super::count::{ListedVisitor, PageCounts, count};
use super::cursor::Cursor;
use super::found::count_found;
use super::latest::Activity;
use super::question::VisitorsQuestion;
use super::records::{RecordAddress, RecordedRow, RowAddresses, SegmentFiles, read_page_records};
use super::search::FoundVisitors;
use super::sql;
use super::values::GROUPS;
use crate::clock;
use crate::insights::columns::format::{ColumnFileError, TextColumn};
use crate::insights::columns::key::VisitorKey;
use crate::insights::columns::reader::Columns;
use crate::insights::questions::answer::{
    Answer, AnsweredLog, Cell, CountedLog, begin_document, end_document, time_json,
};
use crate::insights::questions::calendar::Zone;
use crate::insights::questions::credits::RowLocation;
use crate::insights::questions::limits::{Limits, ScanError};
use crate::insights::questions::sealed::LogColumns;
use crate::insights::questions::site::SiteFacts;
use crate::insights::questions::unknown::{add_unknown, filter_values};
use crate::site::goals::SiteGoal;

/// The columns of CSV and of tables.
const HEADER: [&str; 10] = [
    "lastActivity",
    "firstActivity",
    "anonId",
    "userId",
    "views",
    "events",
    "source",
    "channel",
    "country",
    "device",
];
/// The further columns of a list with a goal.
const GOAL_HEADER: [&str; 4] = ["lastConversion", "conversions", "amount", "currency"];

/// The log whose visitors are listed.
#[derive(Clone, Copy)]
pub struct ListSource<'l> {
    pub columns: LogColumns<'l>,
    /// The last seq of the columns.
    pub log: CountedLog,
    /// The segments of the columns.
    pub segments: SegmentFiles<'l>,
}

/// A page of a list of visitors, without the facts that only the records of the log have.
#[derive(Debug)]
pub struct VisitorPage {
    /// The document, without its rows.
    answer: Answer,
    visitors: Vec<ListedVisitor>,
    has_next: bool,
    addresses: Vec<RowAddresses>,
    goal: Option<SiteGoal>,
    zone: Zone,
}

/// Lists the visitors of a page. `log` has the last seq of the columns. Without `segments`, each record of the log must have a row.
///
/// # Errors
/// Returns an error if a column file is damaged, or if the question takes too much time or memory.
pub fn list_visitors(
    columns: LogColumns<'_>,
    log: CountedLog,
    segments: Option<SegmentFiles<'_>>,
    question: &VisitorsQuestion,
    site: &SiteFacts,
    limits: &Limits<'_>,
) -> Result<VisitorPage, ScanError> {
    let started_at = clock::instant();
    let files = columns.all();
    let bounds = PageBounds::of(&files, question, segments).map_err(ColumnFileError::from)?;
    let counts = count(&files, question, site, bounds, limits)?;
    let seq = question.last_seq().unwrap_or(log.last_seq).min(log.last_seq);
    let answered_log = answered_log(&files, CountedLog { last_seq: seq, ..log }, started_at)?;
    let mut document = begin(question, site, answered_log);
    document.insert("total".to_owned(), json!(counts.total));
    document.insert("rows".to_owned(), json!([]));
    document.insert("next".to_owned(), Json::Null);
    end_document(&mut document, &counts.other, counts.rows, answered_log, sql::query(question, site));
    let goal = goal_of(question, site).cloned();
    let mut answer = answer(document, goal.as_ref(), seq);
    add_unknown(&mut answer, &files, filter_values(&question.selection.filters), limits)?;
    let addresses = counts.visitors.iter().map(|visitor| addresses_of(visitor, &files)).collect();
    let PageCounts { visitors, has_next, .. } = counts;
    Ok(VisitorPage { answer, visitors, has_next, addresses, goal, zone: site.zone.clone() })
}

/// Answers a question for a list of visitors.
///
/// # Errors
/// Returns the errors of [`list_visitors`], and an error if a segment cannot be read.
pub fn answer_visitors(
    source: ListSource<'_>,
    question: &VisitorsQuestion,
    site: &SiteFacts,
    limits: &Limits<'_>,
) -> Result<Answer, ScanError> {
    let page = list_visitors(source.columns, source.log, Some(source.segments), question, site, limits)?;
    let last_seq = page.answer.seq;
    let records = read_page_records(&page.addresses, last_seq, page.goal.as_ref(), source.segments);
    Ok(page.into_answer(&records.map_err(ColumnFileError::from)?))
}
/// Answers a search. `found_visitors` are those that have the trait, and `key` is that of the column files.
///
/// # Errors
/// Returns the same errors as [`answer_visitors`].
pub fn answer_found(
    source: ListSource<'_>,
    question: &VisitorsQuestion,
    found_visitors: &FoundVisitors,
    key: VisitorKey,
    site: &SiteFacts,
    limits: &Limits<'_>,
) -> Result<Answer, ScanError> {
    let started_at = clock::instant();
    let files = source.columns.all();
    let mut question = question.clone();
    let with_rows = files.iter().map(|file| file.header()).filter(|header| header.rows > 0);
    let oldest_ms = with_rows.clone().map(|header| header.oldest_ms).min().unwrap_or_default();
    let newest_ms = with_rows.map(|header| header.newest_ms).max().unwrap_or_default();
    question.selection.range = oldest_ms..newest_ms + 1;
    let rows = count_found(&files, &question, found_visitors, key, site, limits)?;
    let addresses = rows.iter().filter_map(|row| row.listed.as_ref());
    let addresses: Vec<RowAddresses> = addresses.map(|visitor| addresses_of(visitor, &files)).collect();
    let records = read_page_records(&addresses, source.log.last_seq, None, source.segments);
    let records = records.map_err(ColumnFileError::from)?;
    let seqs = records.iter().map(|record| record.seq).chain(std::iter::repeat(None));
    let records = rows.iter().zip(seqs).map(|(row, seq)| RecordedRow { seq, ..row.ids.clone() });
    let rows: Vec<_> = rows.iter().map(|row| row.listed.as_ref()).zip(records).collect();
    let answered_log = answered_log(&files, source.log, started_at)?;
    let mut document = begin(&question, site, answered_log);
    document.insert("total".to_owned(), json!(rows.len()));
    let rows_json = rows.iter().map(|(visitor, record)| row_json(*visitor, record, None));
    document.insert("rows".to_owned(), rows_json.collect());
    document.insert("more".to_owned(), json!(found_visitors.has_more));
    document.insert("next".to_owned(), Json::Null);
    let sql = sql::found_query(&question, found_visitors, site);
    end_document(&mut document, &[0; TextColumn::COUNT], 0, answered_log, sql);
    let mut answer = answer(document, None, answered_log.seq);
    let lines = rows.iter().map(|(visitor, record)| line(*visitor, record, None, &site.zone));
    answer.lines = lines.collect();
    Ok(answer)
}

fn goal_of<'s>(question: &VisitorsQuestion, site: &'s SiteFacts) -> Option<&'s SiteGoal> {
    question.goal_number().map(|number| &site.goals.all()[number])
}

fn answered_log(
    files: &[&Columns],
    log: CountedLog,
    started_at: Instant,
) -> Result<AnsweredLog, ColumnFileError> {
    let mut since_ms = None;
    for file in files {
        since_ms = since_ms.map_or_else(|| file.oldest_receipt_ms(), |since_ms| Ok(Some(since_ms)))?;
    }
    let took_ms = clock::instant().duration_since(started_at).as_millis() as u64;
    Ok(AnsweredLog { seq: log.last_seq, mark: log.mark, since_ms, took_ms })
}

fn addresses_of(visitor: &ListedVisitor, files: &[&Columns]) -> RowAddresses {
    let address = |location: RowLocation| {
        let file = files[location.file as usize];
        let first_seq = file.header().first_seq;
        RecordAddress { first_seq, position: location.position, has_all_rows: file.has_all_rows() }
    };
    RowAddresses {
        latest: address(visitor.location),
        tie: visitor.tie.location.map(address),
        is_tied: visitor.tie.is_valid,
    }
}

/// Begins the document.
fn begin(question: &VisitorsQuestion, site: &SiteFacts, answered_log: AnsweredLog) -> Map<String, Json> {
    let mut document = begin_document(&question.selection.range, site, answered_log);
    let goal = goal_of(question, site);
    let sorted_by = if goal.is_some() { "lastConversion" } else { "lastActivity" };
    document.insert("sortedBy".to_owned(), json!(sorted_by));
    if let Some(goal) = goal {
        let path = |path: &Option<_>| path.as_ref().map(ToString::to_string);
        let written = json!({
            "goal": goal.key, "name": goal.name, "value": path(&goal.value), "currency": path(&goal.currency),
        });
        document.insert("goal".to_owned(), written);
        let model = if site.attribution.is_first { "first" } else { "last" };
        let attribution = json!({ "model": model, "windowMs": site.attribution.window_ms });
        document.insert("attribution".to_owned(), attribution);
    }
    document
}

/// Returns the answer without its lines.
fn answer(document: Map<String, Json>, goal: Option<&SiteGoal>, seq: u64) -> Answer {
    let mut header = HEADER.to_vec();
    if goal.is_some() {
        header.extend(GOAL_HEADER);
    }
    Answer { document: Json::Object(document), header, lines: Vec::new(), notes: Vec::new(), seq }
}

impl VisitorPage {
    /// Returns the answer without the facts that only records have, such as the IDs.
    pub fn without_records(self) -> Answer {
        self.into_answer(&[])
    }

    /// Returns the answer with the facts of these records, one for each row.
    fn into_answer(self, records: &[RecordedRow]) -> Answer {
        let Self { mut answer, visitors, has_next, goal, zone, .. } = self;
        let goal = goal.as_ref();
        let none = RecordedRow::default();
        if let Some(last) = visitors.last().filter(|_| has_next) {
            let recorded_seq = records.get(visitors.len() - 1).and_then(|record| record.seq);
            let time_ms = last.activity.latest.row.time_ms();
            let seq = recorded_seq.unwrap_or(last.row_number);
            answer.document["next"] = json!(Cursor { time_ms, seq, last_seq: answer.seq }.to_text());
        }
        let rows = visitors.iter().enumerate();
        let rows = rows.map(|(index, visitor)| (Some(visitor), records.get(index).unwrap_or(&none)));
        answer.document["rows"] =
            rows.clone().map(|(visitor, record)| row_json(visitor, record, goal)).collect();
        answer.lines = rows.map(|(visitor, record)| line(visitor, record, goal, &zone)).collect();
        answer
    }
}

/// Returns a row. `visitor` is `None` if the log has no event of the visitor.
fn row_json(visitor: Option<&ListedVisitor>, record: &RecordedRow, goal: Option<&SiteGoal>) -> Json {
    let activity = visitor.map(|visitor| &visitor.activity);
    let time =
        |time_ms: fn(&Activity) -> i64| activity.map_or(Json::Null, |activity| time_json(time_ms(activity)));
    let mut row = Map::new();
    row.insert("seq".to_owned(), json!(record.seq.map(|seq| seq.to_string())));
    row.insert("anonId".to_owned(), json!(record.anon_id));
    row.insert("userId".to_owned(), json!(record.user_id));
    row.insert("firstActivity".to_owned(), time(|activity| activity.first_ms));
    row.insert("lastActivity".to_owned(), time(|activity| activity.last_ms));
    row.insert("views".to_owned(), json!(activity.map_or(0, |activity| activity.views)));
    row.insert("events".to_owned(), json!(activity.map_or(0, |activity| activity.events)));
    for (index, group) in GROUPS.iter().enumerate() {
        row.insert(group.name().to_owned(), json!(visitor.map(|visitor| &visitor.values[index])));
    }
    if goal.is_some() {
        row.insert("lastConversion".to_owned(), time(|activity| activity.latest.row.time_ms()));
        row.insert("conversions".to_owned(), json!(activity.map_or(0, |activity| activity.conversions)));
        row.insert("amount".to_owned(), json!(record.amount));
        row.insert("currency".to_owned(), json!(record.currency));
    }
    Json::Object(row)
}

/// Returns a line of CSV or of a table.
fn line(
    visitor: Option<&ListedVisitor>,
    record: &RecordedRow,
    goal: Option<&SiteGoal>,
    zone: &Zone,
) -> Vec<Cell> {
    let activity = visitor.map(|visitor| &visitor.activity);
    let time = |time_ms: fn(&Activity) -> i64| {
        Cell::Text(activity.map(|activity| zone.local_time(time_ms(activity).div_euclid(1_000))))
    };
    let mut cells = vec![
        time(|activity| activity.last_ms),
        time(|activity| activity.first_ms),
        Cell::Text(record.anon_id.clone()),
        Cell::Text(record.user_id.clone()),
        Cell::Number(activity.map_or(0, |activity| activity.views as i64)),
        Cell::Number(activity.map_or(0, |activity| activity.events as i64)),
    ];
    let value = |index: usize| visitor.and_then(|visitor| visitor.values[index].clone());
    cells.extend((0..GROUPS.len()).map(|index| Cell::Text(value(index))));
    if goal.is_some() {
        cells.extend([
            time(|activity| activity.latest.row.time_ms()),
            Cell::Number(activity.map_or(0, |activity| activity.conversions as i64)),
            record.amount.map_or(Cell::Text(None), Cell::Decimal),
            Cell::Text(record.currency.clone()),
        ]);
    }
    cells
}
