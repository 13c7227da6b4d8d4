//! Questions: the parameters of a request or of the command line, checked and resolved.

use std::ops::Range;

use super::calendar::{Unit, Zone};
use crate::insights::columns::format::TextColumn;
use crate::insights::experiment::{ExperimentQuestion, ExperimentsQuestion, KnownSite};
use crate::insights::zones::ZonesQuestion;
use crate::nfc;
use crate::problem::{self, Problem, ProblemKind};
use crate::visitors::events::variants::is_key;

/// Rows of a list without `limit`.
pub(crate) const LIMIT_DEFAULT: usize = 10;
/// Most rows of a list: all pages of most sites, in a table that a spreadsheet opens at once. With values of 60 bytes
/// they take 1.2 MB as JSON and 0.7 MB as CSV. A larger `limit` gets 400. A longer list is for `parallax export`.
pub const LIMIT_MAX: usize = 10_000;
/// Bytes of the values of a list. With 10,000 rows, its JSON takes 2.7 MB, and the admin address has 4 MiB for unsent
/// responses: a larger one would stop all other answers while it is sent. Further rows are counted in `more`.
pub const LIST_BYTES_MAX: usize = 2 << 20;
/// Days of a range without `from` and `to`.
const DAYS_DEFAULT: i64 = 30;
/// Minutes of a live answer.
const LIVE_MINUTES: i64 = 30;
const MINUTE_MS: i64 = 60_000;

/// All parameters of the questions, beside `site`.
pub const PARAM_NAMES: [&str; 15] = [
    "from", "to", "by", "bots", "of", "limit", "contains", "page", "source", "campaign", "country", "device",
    "language", "event", "variant",
];
/// A question about a site.
#[derive(Debug, Clone, PartialEq)]
pub enum Query {
    Views(Question),
    Experiment(Box<ExperimentQuestion>),
    Zones(ZonesQuestion),
    Experiments(ExperimentsQuestion),
}

/// The endpoint of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    Views(Subject),
    /// One experiment.
    Experiment,
    /// The list of experiments.
    Experiments,
    /// The zones of a page.
    Zones,
}

impl Query {
    /// Returns the range in milliseconds, half open.
    pub(crate) fn range(&self) -> &Range<i64> {
        match self {
            Self::Views(question) => &question.range,
            Self::Experiment(question) => &question.range,
            Self::Experiments(question) => &question.range,
            Self::Zones(question) => &question.range,
        }
    }

    /// Reads the parameters of a question.
    ///
    /// # Errors
    /// The first parameter that is refused.
    pub(crate) fn parse<'p>(
        topic: Topic,
        pairs: impl Iterator<Item = (&'p str, &'p str)>,
        zone: &Zone,
        now_ms: i64,
        site: KnownSite<'_>,
    ) -> Result<Self, QuestionError> {
        match topic {
            Topic::Views(subject) => Question::parse(subject, pairs, zone, now_ms).map(Self::Views),
            Topic::Experiment => ExperimentQuestion::parse(pairs, zone, now_ms, |key| site.experiment(key))
                .map(|question| Self::Experiment(Box::new(question))),
            Topic::Zones => {
                let zones = |page: &str| site.zones(page);
                ZonesQuestion::parse(pairs, zones, zone, now_ms).map(Self::Zones)
            }
            Topic::Experiments => {
                ExperimentsQuestion::parse(pairs, zone, now_ms, site.experiments()).map(Self::Experiments)
            }
        }
    }
}

/// The subject of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Overview,
    Top,
    Live,
}

/// The values by which `top` groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    Page,
    Entry,
    Exit,
    Referrer,
    Source,
    Medium,
    Campaign,
    Term,
    Content,
    Country,
    Language,
    Device,
    Os,
    Browser,
    Event,
}

impl Group {
    const NAMES: [(&'static str, Self); 15] = [
        ("page", Self::Page),
        ("entry", Self::Entry),
        ("exit", Self::Exit),
        ("referrer", Self::Referrer),
        ("source", Self::Source),
        ("medium", Self::Medium),
        ("campaign", Self::Campaign),
        ("term", Self::Term),
        ("content", Self::Content),
        ("country", Self::Country),
        ("language", Self::Language),
        ("device", Self::Device),
        ("os", Self::Os),
        ("browser", Self::Browser),
        ("event", Self::Event),
    ];

    /// Returns whether the value is one of the visit and not of the event.
    pub(crate) fn is_of_visit(self) -> bool {
        matches!(
            self,
            Self::Entry
                | Self::Exit
                | Self::Source
                | Self::Medium
                | Self::Campaign
                | Self::Term
                | Self::Content
        )
    }
}

/// Filters. Values of one filter mean "or", different filters mean "and". An empty filter accepts everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filters {
    pub page: Vec<String>,
    pub source: Vec<String>,
    pub campaign: Vec<String>,
    pub country: Vec<String>,
    pub device: Vec<String>,
    pub language: Vec<String>,
    pub event: Vec<String>,
    /// `zone:key` of a shown variant.
    pub variant: Vec<String>,
}

impl Filters {
    /// Adds a value to a filter. The path of a page gets the form of page events. Returns false if no filter has this name.
    ///
    /// # Errors
    /// The value is refused.
    pub(crate) fn add(&mut self, name: &str, value: &str) -> Result<bool, QuestionError> {
        let Some(filter) = self.by_name(name) else { return Ok(false) };
        check_filter(name, value)?;
        filter.push(if name == "page" { nfc::normalize(value).into_owned() } else { value.to_owned() });
        Ok(true)
    }

    pub(crate) fn by_name(&mut self, name: &str) -> Option<&mut Vec<String>> {
        Some(match name {
            "page" => &mut self.page,
            "source" => &mut self.source,
            "campaign" => &mut self.campaign,
            "country" => &mut self.country,
            "device" => &mut self.device,
            "language" => &mut self.language,
            "event" => &mut self.event,
            "variant" => &mut self.variant,
            _ => return None,
        })
    }

    /// Returns the filters that select events by a text, with their columns.
    pub(crate) fn event_filters(&self) -> [(TextColumn, &[String]); 3] {
        [
            (TextColumn::Path, &self.page),
            (TextColumn::Country, &self.country),
            (TextColumn::Language, &self.language),
        ]
    }

    /// Returns whether a filter needs the first page event of each visit.
    pub(crate) fn select_visits(&self) -> bool {
        !self.source.is_empty() || !self.campaign.is_empty()
    }
}

/// A question with all its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub subject: Subject,
    /// The range in milliseconds, half open.
    pub range: Range<i64>,
    pub by: Unit,
    pub of: Group,
    pub limit: usize,
    /// Rows of `top` whose value contains this text in any case. Without it, all.
    pub contains: Option<String>,
    /// True if records of crawlers count too.
    pub bots: bool,
    pub filters: Filters,
}

/// The reason why the parameters of a question are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionError {
    pub kind: &'static ProblemKind,
    /// The parameter at fault.
    pub param: String,
    /// A noun phrase for the expected value. A sentence if there is no actual value.
    pub expected: String,
    pub actual: Option<String>,
}

impl QuestionError {
    /// Creates the error of a parameter with a wrong value.
    pub(crate) fn invalid(param: &str, expected: &str, actual: &str) -> Self {
        let kind = if param == "limit" { problem::INVALID_LIMIT } else { problem::INVALID_PARAM };
        let (param, expected) = (param.to_owned(), expected.to_owned());
        Self { kind, param, expected, actual: Some(actual.to_owned()) }
    }

    /// Creates the error of a parameter that is given twice.
    pub(crate) fn repeated(param: &str) -> Self {
        let expected = "The parameter is given twice; give it once.".to_owned();
        Self { kind: problem::REPEATED_PARAM, param: param.to_owned(), expected, actual: None }
    }

    /// Returns the error as a problem of a request.
    pub(crate) fn problem(&self) -> Problem<'_> {
        let problem = match &self.actual {
            Some(actual) => Problem::invalid_value(self.kind, &self.expected, actual),
            None => Problem::new(self.kind, &self.expected),
        };
        problem.at(&self.param)
    }
}

impl std::fmt::Display for QuestionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.actual {
            Some(actual) => write!(f, "{}: expected {}, got {actual:?}", self.param, self.expected),
            None => write!(f, "{}: {}", self.param, self.expected),
        }
    }
}

impl Question {
    /// Reads the parameters of a question. Unknown parameters are ignored, and so are empty ones.
    ///
    /// # Errors
    /// The first parameter that is refused.
    pub fn parse<'p>(
        subject: Subject,
        pairs: impl Iterator<Item = (&'p str, &'p str)>,
        zone: &Zone,
        now_ms: i64,
    ) -> Result<Self, QuestionError> {
        let mut filters = Filters::default();
        let mut single: Vec<(&str, &str)> = Vec::new();
        for (name, value) in pairs.filter(|(_, value)| !value.is_empty()) {
            if !filters.add(name, value)? && PARAM_NAMES.contains(&name) {
                if single.iter().any(|(other, _)| *other == name) {
                    return Err(QuestionError::repeated(name));
                }
                single.push((name, value));
            }
        }
        let value = |name: &str| single.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
        let question = Self {
            subject,
            range: 0..0,
            by: value("by").map_or(Ok(Unit::Day), parse_unit)?,
            of: parse_group(subject, value("of"))?,
            limit: value("limit").map_or(Ok(LIMIT_DEFAULT), |text| parse_limit(text, LIMIT_MAX))?,
            contains: value("contains").map(|text| fold_case(&nfc::normalize(text))),
            bots: value("bots").map_or(Ok(false), parse_bots)?,
            filters,
        };
        question.with_range(value("from"), value("to"), zone, now_ms)
    }

    fn with_range(
        mut self,
        from: Option<&str>,
        to: Option<&str>,
        zone: &Zone,
        now_ms: i64,
    ) -> Result<Self, QuestionError> {
        if self.subject == Subject::Live {
            let minute = now_ms.div_euclid(MINUTE_MS) * MINUTE_MS;
            self.range = minute - (LIVE_MINUTES - 1) * MINUTE_MS..minute + MINUTE_MS;
            self.by = Unit::Minute;
            return Ok(self);
        }
        let time = |name: &str, text: Option<&str>| text.map(|text| parse_time(name, text, zone)).transpose();
        let end = time("to", to)?.unwrap_or_else(|| zone.last_days(now_ms, 1).end);
        let start = time("from", from)?.unwrap_or_else(|| match to {
            Some(_) => zone.midnight(zone.day_of(end) - DAYS_DEFAULT),
            None => zone.last_days(now_ms, DAYS_DEFAULT).start,
        });
        if start >= end {
            return Err(QuestionError::invalid(
                "from",
                "a time before 'to'",
                from.unwrap_or("30 days before now"),
            ));
        }
        self.range = start..end;
        if self.subject == Subject::Overview && zone.buckets(&self.range, self.by).is_none() {
            return Err(QuestionError::invalid(
                "by",
                "a longer unit, since a series has at most 10000 buckets",
                "by",
            ));
        }
        Ok(self)
    }
}

/// Returns the value of a parameter. A repeated one is refused.
pub(crate) fn single_value<'p>(
    pairs: &[(&'p str, &'p str)],
    name: &str,
) -> Result<Option<&'p str>, QuestionError> {
    let mut values = pairs.iter().filter(|(other, _)| *other == name).map(|(_, value)| *value);
    let first = values.next();
    if values.next().is_some() { Err(QuestionError::repeated(name)) } else { Ok(first) }
}

pub(crate) fn parse_time(name: &str, text: &str, zone: &Zone) -> Result<i64, QuestionError> {
    let expected = "a date or a time, such as '2026-01-05' or '2026-01-05T10:00'";
    zone.parse(text).ok_or_else(|| QuestionError::invalid(name, expected, text))
}

pub(crate) fn parse_unit(text: &str) -> Result<Unit, QuestionError> {
    match text {
        "hour" => Ok(Unit::Hour),
        "day" => Ok(Unit::Day),
        "week" => Ok(Unit::Week),
        "month" => Ok(Unit::Month),
        _ => Err(QuestionError::invalid("by", "'hour', 'day', 'week' or 'month'", text)),
    }
}

fn parse_group(subject: Subject, text: Option<&str>) -> Result<Group, QuestionError> {
    if subject != Subject::Top {
        return Ok(Group::Page);
    }
    let found = Group::NAMES.into_iter().find(|(name, _)| Some(*name) == text);
    found.map(|(_, group)| group).ok_or_else(|| {
        let names = Group::NAMES.map(|(name, _)| name).join(", ");
        QuestionError::invalid("of", &format!("one of {names}"), text.unwrap_or_default())
    })
}

/// Returns a text in lower case, one character for one as in `lower` of DuckDB, so that the shown SQL selects the same rows.
pub(crate) fn fold_case(text: &str) -> String {
    text.chars().filter_map(|c| c.to_lowercase().next()).collect()
}

pub(crate) fn parse_limit(text: &str, max: usize) -> Result<usize, QuestionError> {
    let limit = text.parse().ok().filter(|limit| (1..=max).contains(limit));
    limit.ok_or_else(|| QuestionError::invalid("limit", &format!("a number from 1 to {max}"), text))
}

pub(crate) fn parse_bots(text: &str) -> Result<bool, QuestionError> {
    (text == "include").then_some(true).ok_or_else(|| QuestionError::invalid("bots", "'include'", text))
}

fn check_filter(name: &str, value: &str) -> Result<(), QuestionError> {
    let is_variant = |text: &str| {
        text.split_once(':').is_some_and(|(zone, key)| is_key(zone) && is_key(key) && key != "default")
    };
    match name {
        "variant" if !is_variant(value) => {
            Err(QuestionError::invalid(name, "'zone:key' with a key other than 'default'", value))
        }
        "device" if !["desktop", "mobile", "tablet", "bot"].contains(&value) => {
            Err(QuestionError::invalid(name, "'desktop', 'mobile', 'tablet' or 'bot'", value))
        }
        _ => Ok(()),
    }
}
