//! Compares the answer to a question with the answers to the same question about other ranges. All questions with a range share this
//! code.
//!
//! The parameters of the question are parsed again for each further range, so its numbers are those of asking for that range alone.

use std::ops::Range;

use serde_json::Value as Json;

use super::experiment::KnownSite;
use super::query::{Query, Topic};
use super::questions::answer::{Answer, Cell};
use super::questions::calendar::Zone;
use super::questions::question::{
    LIST_BYTES_MAX, Question, QuestionError, Subject, parse_time, single_value,
};
use crate::events::time::{TIME_MS_MIN, to_text};

/// The parameter that names the range with which the answer is compared.
pub(crate) const COMPARE_PARAM: &str = "compare";
/// Maximum number of ranges of one answer: the range of the question, its elapsed part, and the compared range.
const RANGES_MAX: usize = 3;
/// Maximum value of `limit` of the question `top` if the answer is compared. A larger one gets 400. The lists of all ranges together have
/// at most 9,000 rows and [`LIST_BYTES_MAX`] bytes of values, so they fit in the memory for unsent responses like the longest list.
pub const COMPARED_LIMIT_MAX: usize = 3_000;

const PREVIOUS: &str = "previous";
const NONE: &str = "none";
/// The text between the two times of a range.
const TO: &str = "..";

/// The members of an answer that all its ranges share.
const SHARED_MEMBERS: [&str; 6] = ["seq", "timeZone", "since", "chain", "erasedTo", "unknown"];

/// A further range of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Period {
    /// The part of the range of the question before the last full hour. Only a range that is not over has it.
    Elapsed,
    /// The range with which the answer is compared.
    Compared,
}

impl Period {
    /// Returns the name of its member in an answer, and its text in the column `period`.
    fn name(self) -> &'static str {
        match self {
            Self::Elapsed => "elapsed",
            Self::Compared => "compared",
        }
    }
}

/// A question, and the same question about the ranges with which its answer is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedQuery {
    pub query: Query,
    periods: Vec<(Period, Query)>,
    /// True if the answer is compared. It can be without periods, if no full hour of the range is over.
    is_compared: bool,
    /// True if the question names the comparison. Otherwise the comparison is the default of the question.
    is_named: bool,
}

impl AskedQuery {
    /// Creates a question whose answer is not compared.
    pub(crate) fn alone(query: Query) -> Self {
        Self { query, periods: Vec::new(), is_compared: false, is_named: false }
    }

    /// Parses the parameters of a question.
    ///
    /// # Errors
    /// Returns the error of the first wrong parameter.
    pub(crate) fn parse<'p>(
        topic: Topic,
        pairs: impl Iterator<Item = (&'p str, &'p str)>,
        zone: &Zone,
        now_ms: i64,
        site: KnownSite<'_>,
    ) -> Result<Self, QuestionError> {
        let pairs: Vec<_> = pairs.collect();
        let named = single_value(&pairs, COMPARE_PARAM)?.filter(|text| !text.is_empty());
        if let Some(named) = named
            && named != NONE
            && let Some(expected) = topic.comparison_refusal()
        {
            return Err(QuestionError::invalid(COMPARE_PARAM, expected, named));
        }
        let is_overview = topic == Topic::Views(Subject::Overview);
        let default = if is_overview { PREVIOUS } else { NONE };
        let parse = |pairs: &[(&str, &str)]| Query::parse(topic, pairs.iter().copied(), zone, now_ms, site);
        Self::parse_with(&pairs, default, zone, now_ms, parse)
    }

    /// Parses the parameters of a question with a function that parses those without `compare`. `default_text` is the value of a
    /// missing `compare`.
    ///
    /// # Errors
    /// Returns the error of the first wrong parameter.
    pub fn parse_with(
        pairs: &[(&str, &str)],
        default_text: &str,
        zone: &Zone,
        now_ms: i64,
        parse: impl Fn(&[(&str, &str)]) -> Result<Query, QuestionError>,
    ) -> Result<Self, QuestionError> {
        let named = single_value(pairs, COMPARE_PARAM)?.filter(|text| !text.is_empty());
        let others = pairs.iter().copied().filter(|(name, _)| *name != COMPARE_PARAM);
        let others: Vec<_> = others.collect();
        let mut query = parse(&others)?;
        let text = named.unwrap_or(default_text);
        let ranges = parse_ranges(text, query.range(), zone, now_ms)?;
        let is_compared = text != NONE;
        if is_compared {
            query.share_list_bytes()?;
        }
        let of_range = |(period, range): (Period, Range<i64>)| {
            let from = to_text(range.start);
            let to = to_text(range.end);
            let is_time = |name: &str| ["from", "to"].contains(&name);
            let others = others.iter().copied().filter(|(name, _)| !is_time(name));
            let query = parse(&others.chain([("from", &*from), ("to", &*to)]).collect::<Vec<_>>())?;
            Ok((period, query))
        };
        let periods = ranges.into_iter().map(of_range).collect::<Result<_, _>>()?;
        Ok(Self { query, periods, is_compared, is_named: named.is_some() })
    }

    /// Returns a text with everything that the answer depends on.
    pub(crate) fn key(&self) -> String {
        let Self { query, periods, is_compared, is_named: _ } = self;
        format!("{query:?} {periods:?} {is_compared}")
    }

    /// Drops the comparison if the question does not name it. A table then has the lines of the range alone.
    #[must_use]
    pub(crate) fn for_table(mut self) -> Self {
        if !self.is_named {
            self.is_compared = false;
            self.periods.clear();
        }
        self
    }

    /// Answers the question about each of its ranges, one after the other, and joins the answers.
    ///
    /// # Errors
    /// Returns the first error of `answer`.
    pub fn answer<E>(&self, mut answer: impl FnMut(&Query) -> Result<Answer, E>) -> Result<Answer, E> {
        let mut joined = answer(&self.query)?;
        if !self.is_compared {
            return Ok(joined);
        }
        joined.header.push("period");
        add_cell(&mut joined.lines, "range");
        let row_values = find_row_values(&joined.document);
        joined.document[Period::Compared.name()] = Json::Null;
        for (period, query) in &self.periods {
            add_period(&mut joined, *period, answer(&query.listing(row_values.as_deref()))?);
        }
        Ok(joined)
    }
}

impl Topic {
    /// Returns the values of `compare` that a question of this topic allows, if it has no comparison.
    fn comparison_refusal(self) -> Option<&'static str> {
        match self {
            Self::Experiment | Self::Holdout => {
                Some("'none', because an experiment compares its arms, and not two ranges")
            }
            Self::Experiments => Some("'none', because each experiment has its own range"),
            Self::Visitors => Some("'none', because a list of visitors has no numbers to compare"),
            Self::Views(Subject::Live) => {
                Some("'none', because a live answer is always about the last 30 minutes")
            }
            Self::Views(_) | Self::Zones | Self::Journey(_) => None,
        }
    }
}

impl Query {
    /// Leaves a share of the bytes of a list to each range of the answer.
    fn share_list_bytes(&mut self) -> Result<(), QuestionError> {
        let Self::Views(question) = self else { return Ok(()) };
        if question.subject == Subject::Top && question.limit > COMPARED_LIMIT_MAX {
            let expected = format!("a number from 1 to {COMPARED_LIMIT_MAX} beside 'compare'");
            return Err(QuestionError::invalid("limit", &expected, &question.limit.to_string()));
        }
        question.list_bytes_max = LIST_BYTES_MAX / RANGES_MAX;
        Ok(())
    }

    /// Returns the query with these values as its list, if it has one.
    fn listing(&self, row_values: Option<&[Option<String>]>) -> Self {
        match self {
            Self::Views(question) if question.subject == Subject::Top => {
                Self::Views(Question { listed: row_values.map(<[_]>::to_vec), ..question.clone() })
            }
            query => query.clone(),
        }
    }
}

/// Returns the further ranges of an answer.
fn parse_ranges(
    text: &str,
    range: &Range<i64>,
    zone: &Zone,
    now_ms: i64,
) -> Result<Vec<(Period, Range<i64>)>, QuestionError> {
    match text {
        NONE => Ok(Vec::new()),
        PREVIOUS => Ok(previous_ranges(range, zone, now_ms)),
        _ => {
            let (from, to) = text.split_once(TO).ok_or_else(|| {
                let expected =
                    "'none', 'previous', or two times with '..' between them, such as '2026-01-05..2026-01-12'";
                QuestionError::invalid(COMPARE_PARAM, expected, text)
            })?;
            let compared = parse_time(COMPARE_PARAM, from, zone)?..parse_time(COMPARE_PARAM, to, zone)?;
            if compared.is_empty() {
                let expected = "a range whose first time is before the second one";
                return Err(QuestionError::invalid(COMPARE_PARAM, expected, text));
            }
            Ok(vec![(Period::Compared, compared)])
        }
    }
}

/// Returns the period before a range, and the elapsed part of the range if it is not over. Returns none of them if one of them is empty.
fn previous_ranges(range: &Range<i64>, zone: &Zone, now_ms: i64) -> Vec<(Period, Range<i64>)> {
    let comparison = zone.comparison(range, now_ms);
    // No text has an earlier time, and no event either.
    let before = comparison.before.start.max(TIME_MS_MIN)..comparison.before.end;
    if comparison.range.is_empty() || before.is_empty() {
        return Vec::new();
    }
    let cut = (comparison.range != *range).then_some((Period::Elapsed, comparison.range));
    cut.into_iter().chain([(Period::Compared, before)]).collect()
}

/// Returns the values of the rows of a list. `None` if the answer has no list.
fn find_row_values(document: &Json) -> Option<Vec<Option<String>>> {
    let value = |row: &Json| row["value"].as_str().map(str::to_owned);
    document["rows"].as_array().map(|rows| rows.iter().map(value).collect())
}

fn add_period(joined: &mut Answer, period: Period, answer: Answer) {
    let Answer { mut document, mut lines, .. } = answer;
    if let Some(members) = document.as_object_mut() {
        members.retain(|name, _| !SHARED_MEMBERS.contains(&name.as_str()));
    }
    joined.document[period.name()] = document;
    add_cell(&mut lines, period.name());
    joined.lines.append(&mut lines);
}

fn add_cell(lines: &mut [Vec<Cell>], text: &str) {
    lines.iter_mut().for_each(|line| line.push(Cell::Text(Some(text.to_owned()))));
}
