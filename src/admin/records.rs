//! `GET /visitors/records`: the records of `/visitors/export`, newest first, page by page.
//!
//! The thread `insights` reads them, so a page does not wait for an export or an erasure. It reads the segments from
//! the newest on. The filter in the footer excludes a segment without a record of the visitor. The others are scanned:
//! column files name only IDs whose text is known, and ownership is a matter of digests.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::{Map, Value as Json};

use super::query::{RequestError, check_is_read, parse_pairs};
use super::representation::Representation;
use super::visitor_query::VisitorQuery;
use crate::clock;
use crate::events::export;
use crate::http::params::{Param, Params};
use crate::http::request::Request;
use crate::insights::engine::{AnswerError, Output, TaskResult};
use crate::insights::{Cell, QuestionError, write_csv};
use crate::log::{
    LogEnd, ReadableLog, SegmentRecords, SegmentSpan, StreamMark, read_footer, segment_name, segment_spans,
};
use crate::problem::{self, Problem};
use crate::record::{IdKind, Record, VisitorId};
use crate::resolve::private_traits::HiddenTraits;
use crate::visitors::ownership::{OwnershipError, OwnershipRule, OwnershipSource};

pub(super) const PATH: &str = "/visitors/records";

/// Records of a page without `limit`.
const LIMIT_DEFAULT: usize = 50;
/// Most records of a page. More are for `/visitors/export`.
const LIMIT_MAX: usize = 500;
/// Size of a page, so that it fits the output of a connection. A page has at least one record.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Time of a page, because questions wait meanwhile. It ends after the segment that is read then.
const PAGE_TIME_MAX: Duration = Duration::from_secs(1);
/// Attempts to read a page while erasures change the log.
const ATTEMPTS_MAX: u32 = 8;

/// A request for a page.
pub(super) struct RecordsRequest {
    pub site: String,
    id_kind: IdKind,
    id: String,
    limit: usize,
    /// The page has only records below this seq.
    before: u64,
    representation: Representation,
    pub hidden_traits: HiddenTraits,
}

impl RecordsRequest {
    /// Reads the parameters. `param_buffer` is a buffer.
    pub(super) fn parse<'a>(
        request: &Request<'a>,
        param_buffer: &'a mut Vec<u8>,
    ) -> Result<Self, RequestError<'a>> {
        check_is_read(request)?;
        let params = Params::parse(request.query, param_buffer)?;
        if params.get(Param::Since).is_some() {
            let sentence = "The parameter 'since' is one of /visitors/export; use 'before'.";
            return Err(Problem::new(problem::INVALID_PARAM, sentence).at(Param::Since.name()).into());
        }
        let visitor = VisitorQuery::from_params(&params)?;
        let limit = params.get(Param::Limit).map_or(Ok(LIMIT_DEFAULT), |text| {
            let limit = text.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
            let expected = "a whole number from 1 to 500";
            let wrong = Problem::invalid_value(problem::INVALID_LIMIT, expected, text);
            limit.ok_or(wrong.at(Param::Limit.name()))
        })?;
        Ok(Self {
            site: visitor.site.to_owned(),
            id_kind: visitor.id_kind,
            id: visitor.id.to_owned(),
            limit,
            before: parse_before(request.query)?,
            representation: Representation::of(request),
            hidden_traits: HiddenTraits::All,
        })
    }

    /// Returns the ID of the visitor.
    pub(super) fn visitor_id(&self) -> VisitorId<'_> {
        VisitorId { site: &self.site, id_kind: self.id_kind, id: &self.id }
    }

    /// Returns the reader of the page.
    pub(super) fn reader(self, source: OwnershipSource, log: ReadableLog) -> PageReader {
        PageReader { request: self, source, log }
    }
}

/// Reads the parameter `before`. Only this endpoint has it.
fn parse_before<'a>(query: &str) -> Result<u64, RequestError<'a>> {
    let pairs = parse_pairs(query)?;
    let mut texts = pairs.iter().filter(|(name, text)| name == "before" && !text.is_empty());
    let Some((name, text)) = texts.next() else { return Ok(u64::MAX) };
    if texts.next().is_some() {
        return Err(RequestError::Question(QuestionError::repeated(name)));
    }
    let seq = text.parse().ok().filter(|seq| *seq > 0);
    seq.ok_or_else(|| RequestError::Question(QuestionError::invalid(name, "the seq of a record", text)))
}

/// A reader of one page.
pub(super) struct PageReader {
    request: RecordsRequest,
    source: OwnershipSource,
    log: ReadableLog,
}

impl PageReader {
    /// Reads the page, again if an erasure changes the log meanwhile.
    pub(super) fn read(&self) -> TaskResult {
        let mut attempts = 1;
        loop {
            let generation = self.log.queue().metrics().generation().now();
            let end = self.log.end();
            let page = self.read_page(end.seq);
            if attempts == ATTEMPTS_MAX || self.log.queue().metrics().generation().now() == generation {
                let mut page = page.map_err(|error| AnswerError::Unreadable(error.to_string()))?;
                page.hide(&self.request.hidden_traits);
                return Ok(Output::UnstoredText(page.write(self.request.representation, end)));
            }
            attempts += 1;
        }
    }

    fn read_page(&self, last_seq: u64) -> Result<Page, PageError> {
        let began = clock::instant();
        let end_seq = self.request.before.min(last_seq + 1);
        let source = &self.source;
        let RecordsRequest { site, id_kind, id, .. } = &self.request;
        let ownership = source.open()?;
        let visitor = ownership.visitor(VisitorId { site, id_kind: *id_kind, id })?;
        let may_match = visitor.segment_filter();
        let mut rule = OwnershipRule::new(&ownership, vec![visitor]);
        let mut page = Page::new(self.request.limit);
        let spans = segment_spans(&source.disk, &source.directory)?;
        let mut older = spans.iter().rev().filter(|span| span.first_seq < end_seq).peekable();
        while let Some(span) = older.next() {
            let may_have_records = self.may_have_records(*span, &may_match)?;
            if may_have_records && page.is_full() {
                page.end();
            } else if may_have_records {
                self.read_segment(*span, end_seq - 1, &mut rule, &mut page)?;
            }
            if page.next.is_none() && older.peek().is_some() && clock::instant() - began > PAGE_TIME_MAX {
                page.next = Some(span.first_seq);
            }
            if page.next.is_some() {
                break;
            }
        }
        Ok(page)
    }

    /// Returns whether a segment may have records of the visitor. One without a footer may.
    fn may_have_records(&self, span: SegmentSpan, may_match: &dyn Fn(&[u8]) -> bool) -> io::Result<bool> {
        let path = self.source.directory.join(segment_name(span.first_seq));
        match read_footer(&*self.source.disk, &path) {
            Ok(footer) => Ok(footer.is_none_or(|footer| may_match(&footer.filter))),
            // Retention has deleted the segment meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Adds the records of a segment up to a seq to the page.
    fn read_segment(
        &self,
        span: SegmentSpan,
        last_seq: u64,
        rule: &mut OwnershipRule<'_>,
        page: &mut Page,
    ) -> Result<(), PageError> {
        let OwnershipSource { disk, directory, damage, .. } = &self.source;
        let mut records = match SegmentRecords::open(disk, directory, span, last_seq, damage) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let mut newest_records = NewestRecords::new(page);
        let mut failure = None;
        records.read(&mut |batch| {
            for (seq, record) in batch.iter().take_while(|(seq, _)| *seq <= last_seq) {
                match rule.exports(seq, &record) {
                    Ok(true) => newest_records.push(seq, &record),
                    Ok(false) => {}
                    Err(error) => {
                        failure = Some(error);
                        return ControlFlow::Break(());
                    }
                }
            }
            ControlFlow::Continue(())
        })?;
        page.add(newest_records);
        failure.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// The reason why a page cannot be read.
#[derive(Debug, thiserror::Error)]
enum PageError {
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A page: records as lines of an export, newest first.
struct Page {
    limit: usize,
    lines: Vec<(u64, String)>,
    bytes: usize,
    /// The value of `before` for the next page. `None` if there is none.
    next: Option<u64>,
}

impl Page {
    fn new(limit: usize) -> Self {
        Self { limit, lines: Vec::new(), bytes: 0, next: None }
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= self.limit || self.bytes >= PAGE_BYTES_MAX
    }

    /// Ends the page at its oldest record: there may be older ones.
    fn end(&mut self) {
        self.next = self.lines.last().map(|(seq, _)| *seq);
    }

    /// Adds the records of the next older segment.
    fn add(&mut self, newest_records: NewestRecords) {
        self.bytes += newest_records.bytes;
        self.lines.extend(newest_records.lines.into_iter().rev());
        if newest_records.is_cut {
            self.end();
        }
    }

    /// Removes traits that the client must not see from the payloads.
    fn hide(&mut self, hidden_traits: &HiddenTraits) {
        if *hidden_traits == HiddenTraits::NONE {
            return;
        }
        for (_, line) in &mut self.lines {
            // A line that cannot be read has nothing to show.
            let mut record: Json = serde_json::from_str(line).unwrap_or_default();
            hidden_traits.remove_from(&mut record);
            *line = record.to_string();
        }
    }

    fn write(&self, representation: Representation, log_end: LogEnd) -> String {
        match representation {
            Representation::Csv => {
                let lines: Vec<_> = self.lines.iter().map(|(_, line)| csv_line(line)).collect();
                write_csv(&export::COLUMNS, &lines)
            }
            Representation::Json => {
                let records: Vec<&str> = self.lines.iter().map(|(_, line)| line.trim_end()).collect();
                let next = self.next.map_or("null".to_owned(), |seq| format!("\"{seq}\""));
                let mark = log_end.mark.map(StreamMark::members).into_iter().flatten();
                let mark: String = mark.map(|(name, text)| format!(",\"{name}\":\"{text}\"")).collect();
                format!("{{\"records\":[{}],\"next\":{next}{mark}}}", records.join(","))
            }
        }
    }
}

/// The newest records of a segment that fit a page, oldest first.
struct NewestRecords {
    /// The room in the page.
    limit: usize,
    bytes_max: usize,
    /// Records that are kept even if they are too large.
    kept: usize,
    lines: VecDeque<(u64, String)>,
    bytes: usize,
    /// True if older records were left out.
    is_cut: bool,
}

impl NewestRecords {
    fn new(page: &Page) -> Self {
        Self {
            limit: page.limit - page.lines.len(),
            bytes_max: PAGE_BYTES_MAX - page.bytes,
            kept: usize::from(page.lines.is_empty()),
            lines: VecDeque::new(),
            bytes: 0,
            is_cut: false,
        }
    }

    fn push(&mut self, seq: u64, record: &Record<'_>) {
        let mut line = Vec::new();
        export::write_line(&mut line, seq, record);
        self.bytes += line.len();
        self.lines.push_back((seq, String::from_utf8(line).unwrap_or_default()));
        while self.lines.len() > self.limit || self.bytes > self.bytes_max && self.lines.len() > self.kept {
            let oldest = self.lines.pop_front();
            self.bytes -= oldest.map_or(0, |(_, line)| line.len());
            self.is_cut = true;
        }
    }
}

/// Returns a line of an export as cells. The payload keeps its text.
fn csv_line(line: &str) -> Vec<Cell> {
    let (texts, payload) = line.trim_end().split_once(",\"payload\":").unwrap_or((line, "}"));
    let texts: Map<String, Json> = serde_json::from_str(&format!("{texts}}}")).unwrap_or_default();
    let cell = |value: &Json| match value {
        Json::Null => Cell::Text(None),
        Json::String(text) => Cell::Text(Some(text.clone())),
        other => Cell::Text(Some(other.to_string())),
    };
    let payload = payload.strip_suffix('}').unwrap_or_default().to_owned();
    texts.values().map(cell).chain([Cell::Text(Some(payload))]).collect()
}
