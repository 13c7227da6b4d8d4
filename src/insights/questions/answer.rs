//! Writes answers as JSON, as CSV and as tables.

use std::ops::Range;

use serde_json::{Map, Value as Json, json};

use super::ask::{CountedAnswer, LivePage, Numbers, Series, TopRow, TopTotals};
use super::calendar::Zone;
pub use super::cell::Cell;
use super::conversion_answer::{self, ConversionWriter};
use super::conversions::ConversionSums;
use super::count::{GroupTotals, Totals};
use super::question::Question;
use super::site::SiteFacts;
use super::sql;
use crate::events::time;
use crate::insights::columns::format::TextColumn;
use crate::log::StreamMark;

/// The answer to a question.
#[derive(Debug)]
pub struct Answer {
    /// The JSON document.
    pub document: Json,
    /// The column names, for CSV and tables.
    pub header: Vec<&'static str>,
    pub lines: Vec<Vec<Cell>>,
    /// Sentences about the answer. A table has these sentences before its header.
    pub notes: Vec<String>,
    /// The last seq of the log that the answer includes.
    pub seq: u64,
}

/// The log whose events an answer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedLog {
    /// The last seq of the columns.
    pub last_seq: u64,
    /// The place of that seq in the stream of a cluster.
    pub mark: Option<StreamMark>,
}

impl CountedLog {
    /// Returns the log of a server that is no node of a cluster.
    pub fn alone(last_seq: u64) -> Self {
        Self { last_seq, mark: None }
    }
}

/// The facts about the log in an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnsweredLog {
    /// The last seq of the log that the answer includes.
    pub seq: u64,
    /// The place of that seq in the stream of a cluster.
    pub mark: Option<StreamMark>,
    /// The receipt time of the oldest record in the log, in milliseconds.
    pub since_ms: Option<i64>,
    /// The time that the computation of the answer took, in milliseconds.
    pub took_ms: u64,
}

/// Writes the answer to a question about page views.
pub(crate) fn write(
    question: &Question,
    site: &SiteFacts,
    counted_answer: &CountedAnswer,
    answered_log: AnsweredLog,
) -> Answer {
    let mut document = begin_document(&question.range, site, answered_log);
    let currencies = &counted_answer.currencies;
    let conversions = ConversionWriter { question, site, currencies };
    let (header, lines) = add_numbers(&mut document, &counted_answer.numbers, &site.zone, conversions);
    let sql = sql::query(question, site);
    end_document(&mut document, &counted_answer.other, counted_answer.rows, answered_log, sql);
    Answer { document: Json::Object(document), header, lines, notes: Vec::new(), seq: answered_log.seq }
}

/// Begins the document of an answer. Adds the first members, which are the same for all questions.
pub(crate) fn begin_document(
    range: &Range<i64>,
    site: &SiteFacts,
    answered_log: AnsweredLog,
) -> Map<String, Json> {
    let mut document = Map::new();
    document.insert("seq".to_owned(), json!(answered_log.seq.to_string()));
    document.insert("from".to_owned(), time_json(range.start));
    document.insert("to".to_owned(), time_json(range.end));
    document.insert("timeZone".to_owned(), json!(site.zone.name));
    document.insert("since".to_owned(), answered_log.since_ms.map_or(Json::Null, time_json));
    add_mark(&mut document, answered_log.mark);
    document
}

/// Adds the place in the stream of a cluster. A server that is alone has none.
fn add_mark(document: &mut Map<String, Json>, mark: Option<StreamMark>) {
    let members = mark.map(StreamMark::members).into_iter().flatten();
    document.extend(members.map(|(name, text)| (name.to_owned(), Json::String(text))));
}

/// Ends the document of an answer. Adds the last members, which are the same for all questions. `other_row_counts` has for each
/// text column the number of rows whose text is `(other)`.
pub(crate) fn end_document(
    document: &mut Map<String, Json>,
    other_row_counts: &[u64; TextColumn::COUNT],
    row_count: u64,
    answered_log: AnsweredLog,
    sql: String,
) {
    let columns = TextColumn::all().zip(other_row_counts).filter(|(_, count)| **count > 0);
    let columns: Map<_, _> =
        columns.map(|(column, count)| (column.name().to_owned(), json!(count))).collect();
    if !columns.is_empty() {
        document.insert("other".to_owned(), Json::Object(columns));
    }
    document.insert("took".to_owned(), json!({ "ms": answered_log.took_ms, "rows": row_count }));
    document.insert("sql".to_owned(), json!(sql));
}

/// A header and the lines under it.
type Lines = (Vec<&'static str>, Vec<Vec<Cell>>);

fn add_numbers(
    document: &mut Map<String, Json>,
    numbers: &Numbers,
    zone: &Zone,
    conversion_writer: ConversionWriter<'_>,
) -> Lines {
    match numbers {
        Numbers::Overview { totals, series, conversions } => {
            let mut members = totals_json(totals);
            let sums = conversions.as_deref();
            sums.into_iter().for_each(|sums| conversion_writer.add(&mut members, &sums.totals));
            document.insert("totals".to_owned(), Json::Object(members));
            let lines = add_series(document, series, zone, &[VISITORS, VISITS, VIEWS, EVENTS]);
            match sums {
                Some(sums) => add_conversion_series(document, lines, &sums.series, conversion_writer),
                None => lines,
            }
        }
        Numbers::Top { rows, total, more } => add_top(document, rows, total, *more, conversion_writer),
        Numbers::Live { visitors, series, pages, more } => {
            document.insert("visitors".to_owned(), json!(visitors));
            let lines = add_series(document, series, zone, &[VISITORS, VIEWS, EVENTS]);
            let page = |page: &LivePage| json!({ "value": page.path, "visitors": page.visitors });
            document.insert("pages".to_owned(), pages.iter().map(page).collect());
            document.insert("more".to_owned(), json!(more));
            lines
        }
    }
}

/// Adds the goals to a series. The lines get one line for each bucket and goal.
fn add_conversion_series(
    document: &mut Map<String, Json>,
    lines: Lines,
    series: &[ConversionSums],
    conversion_writer: ConversionWriter<'_>,
) -> Lines {
    let (mut header, lines) = lines;
    header.extend(conversion_answer::HEADER);
    add_goals(document, conversion_writer);
    let credited: Vec<u64> = series.iter().map(|sums| sums.credited).collect();
    document["series"]["credited"] = json!(credited);
    document["series"]["goals"] = conversion_writer.series_json(series);
    let lines = lines.iter().zip(series).flat_map(|(line, sums)| conversion_writer.lines(line, sums));
    (header, lines.collect())
}

/// Adds the goals of the question, and the rule that credits their conversions.
fn add_goals(document: &mut Map<String, Json>, conversion_writer: ConversionWriter<'_>) {
    document.insert("goals".to_owned(), conversion_writer.goals_json());
    document.insert("attribution".to_owned(), conversion_writer.attribution_json());
}

fn add_top(
    document: &mut Map<String, Json>,
    rows: &[TopRow],
    total: &TopTotals,
    more: usize,
    conversion_writer: ConversionWriter<'_>,
) -> Lines {
    let has_goals = !conversion_writer.question.goals.is_empty();
    let members = |group: &GroupTotals, conversions: &ConversionSums| {
        let mut members = group_json(group);
        if has_goals {
            conversion_writer.add(&mut members, conversions);
        }
        members
    };
    let row = |row: &TopRow| {
        let mut members = members(&row.totals, &row.conversions);
        members.shift_insert(0, "value".to_owned(), json!(row.value));
        Json::Object(members)
    };
    document.insert("rows".to_owned(), rows.iter().map(row).collect());
    document.insert("total".to_owned(), Json::Object(members(&total.group, &total.conversions)));
    document.insert("more".to_owned(), json!(more));
    let mut header = vec!["value", "views", "events", "visitors", "visits"];
    if has_goals {
        header.extend(conversion_answer::HEADER);
        add_goals(document, conversion_writer);
    }
    let lines = rows.iter().flat_map(|row| {
        let GroupTotals { views, events, visitors, visits, .. } = row.totals;
        let numbers = [views, events, visitors, visits].map(|number| Cell::Number(number as i64));
        let line: Vec<Cell> = [Cell::Text(row.value.clone())].into_iter().chain(numbers).collect();
        if has_goals { conversion_writer.lines(&line, &row.conversions) } else { vec![line] }
    });
    (header, lines.collect())
}

/// A member of a series. It has a name, and a function that returns the number of the member from the totals of a
/// bucket.
type SeriesMember = (&'static str, fn(&Totals) -> u64);

const VISITORS: SeriesMember = ("visitors", |totals| totals.visitors);
const VISITS: SeriesMember = ("visits", |totals| totals.visits);
const VIEWS: SeriesMember = ("views", |totals| totals.views);
const EVENTS: SeriesMember = ("events", |totals| totals.events);

fn add_series(
    document: &mut Map<String, Json>,
    series: &Series,
    zone: &Zone,
    members: &[SeriesMember],
) -> Lines {
    let seconds: Vec<i64> = series.buckets.iter().map(|start_ms| start_ms.div_euclid(1_000)).collect();
    let mut columns = Map::new();
    columns.insert("t".to_owned(), json!(seconds));
    for (name, number) in members {
        columns.insert((*name).to_owned(), series.totals.iter().map(number).collect());
    }
    document.insert("series".to_owned(), Json::Object(columns));
    let line = |(second, totals): (&i64, &Totals)| {
        let numbers = members.iter().map(|(_, number)| Cell::Number(number(totals) as i64));
        let time = Cell::Text(Some(zone.local_time(*second)));
        [Cell::Number(*second), time].into_iter().chain(numbers).collect()
    };
    let header = ["t", "time"].into_iter().chain(members.iter().map(|(name, _)| *name)).collect();
    (header, seconds.iter().zip(&series.totals).map(line).collect())
}

fn totals_json(totals: &Totals) -> Map<String, Json> {
    let numbers = [
        ("visitors", totals.visitors),
        ("visits", totals.visits),
        ("views", totals.views),
        ("events", totals.events),
        ("personalized", totals.personalized),
    ];
    numbers.into_iter().map(|(name, number)| (name.to_owned(), json!(number))).collect()
}

fn group_json(group: &GroupTotals) -> Map<String, Json> {
    let numbers = [
        ("views", group.views),
        ("events", group.events),
        ("visitors", group.visitors),
        ("visits", group.visits),
    ];
    numbers.into_iter().map(|(name, number)| (name.to_owned(), json!(number))).collect()
}

pub(crate) fn time_json(time_ms: i64) -> Json {
    Json::String(time::to_text(time_ms))
}

impl Answer {
    /// Returns the lines as CSV (RFC 4180).
    pub fn to_csv(&self) -> String {
        write_csv(&self.header, &self.lines)
    }

    /// Returns the notes, and then the lines as a table for terminals. All columns except the first are aligned to the
    /// right.
    pub fn to_table(&self) -> String {
        let texts: Vec<Vec<String>> =
            self.lines.iter().map(|line| line.iter().map(table_cell).collect()).collect();
        let width = |column: usize| {
            let cells = texts.iter().map(|line| line[column].chars().count());
            cells.chain([self.header[column].len()]).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        let mut out = String::new();
        for note in &self.notes {
            out.push_str(&table_cell(&Cell::Text(Some(note.clone()))));
            out.push('\n');
        }
        let header = self.header.iter().map(|name| (*name).to_owned()).collect();
        for line in [header].iter().chain(&texts) {
            let cells = line.iter().zip(&widths).enumerate().map(|(column, (text, width))| {
                // The first column has values or times. The other columns have numbers.
                if column > 0 { format!("{text:>width$}") } else { format!("{text:<width$}") }
            });
            out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            out.push('\n');
        }
        out
    }
}

/// Returns a header and lines as CSV (RFC 4180).
pub(crate) fn write_csv(header: &[&str], lines: &[Vec<Cell>]) -> String {
    let header = header.iter().map(|name| Cell::Text(Some((*name).to_owned()))).collect();
    write_csv_lines(&[&[header], lines].concat())
}

/// Returns lines as CSV (RFC 4180). The first one is the header.
pub(crate) fn write_csv_lines(lines: &[Vec<Cell>]) -> String {
    let mut out = String::new();
    for line in lines {
        out.push_str(&line.iter().map(csv_cell).collect::<Vec<_>>().join(","));
        out.push_str("\r\n");
    }
    out
}

/// The characters that can begin a formula. A spreadsheet reads a full-width character in the same way as the ASCII
/// character.
const FORMULA_STARTS: [char; 8] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// Returns true if a spreadsheet can read a text as a formula. A spreadsheet ignores blanks before a formula.
fn is_formula(text: &str) -> bool {
    let is_blank = |c: char| c.is_whitespace() || c.is_control() || INVISIBLE.contains(&c);
    text.starts_with(['\t', '\r']) || text.trim_start_matches(is_blank).starts_with(FORMULA_STARTS)
}

/// Invisible characters that are no white space in Unicode. An example is the byte order mark.
const INVISIBLE: [char; 5] = ['\u{feff}', '\u{200b}', '\u{200c}', '\u{200d}', '\u{2060}'];

/// Returns a cell of CSV. If a spreadsheet can read the text as a formula, the cell begins with an apostrophe.
fn csv_cell(cell: &Cell) -> String {
    match cell {
        Cell::Number(number) => number.to_string(),
        Cell::Decimal(number) => number.to_string(),
        Cell::Text(None) => String::new(),
        Cell::Text(Some(text)) => {
            let text = if is_formula(text) { format!("'{text}") } else { text.clone() };
            match text.contains([',', '"', '\r', '\n']) {
                true => format!("\"{}\"", text.replace('"', "\"\"")),
                false => text,
            }
        }
    }
}

/// Returns a cell of a table. Escapes control characters, because a control character can change the state of the
/// terminal.
fn table_cell(cell: &Cell) -> String {
    match cell {
        Cell::Number(number) => number.to_string(),
        Cell::Decimal(number) => number.to_string(),
        Cell::Text(None) => "-".to_owned(),
        Cell::Text(Some(text)) => text
            .chars()
            .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
            .collect(),
    }
}
