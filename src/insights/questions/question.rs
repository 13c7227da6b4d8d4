//! Questions about page views. Parses and checks the parameters of a request or of the command line.

use std::ops::Range;

use super::calendar::{Unit, Zone};
use crate::insights::columns::format::TextColumn;
use crate::limits::GOALS_ASKED_MAX;
use crate::nfc;
use crate::problem::{self, Problem, ProblemKind};
use crate::site::goals::{PropertyPath, SiteGoals};
use crate::site::segments::expected_value;

/// Maximum number of rows in a list if the question has no `limit`.
pub(crate) const LIMIT_DEFAULT: usize = 10;
/// Maximum value of `limit`, and so the maximum number of rows in a list. A question with a larger `limit` is refused
/// with the status 400. Few sites have so many pages. If each value has 60 bytes, the longest list takes 1.2 MB as JSON
/// and 0.7 MB as CSV. Use `parallax export` for longer lists.
pub const LIMIT_MAX: usize = 10_000;
/// Maximum size of the values of a list together, in bytes. If the values reach this size, further rows are left out,
/// and `more` counts them. A list of 10,000 rows at this limit takes 2.7 MB as JSON. The admin address has 4 MiB for
/// unsent responses. A response that takes all of this memory would delay all other responses.
pub const LIST_BYTES_MAX: usize = 2 << 20;
/// Number of days in the range if the question has no `from`.
const DAYS_DEFAULT: i64 = 30;
/// Number of minutes in the range of a live answer.
const LIVE_MINUTES: i64 = 30;
const MINUTE_MS: i64 = 60_000;

/// Number of keys that the error of an unknown key names. More would be hard to read.
const KEYS_NAMED_MAX: usize = 8;

/// All parameters of the questions except `site`.
pub(crate) const PARAM_NAMES: [&str; 16] = [
    "from", "to", "by", "bots", "of", "limit", "contains", "page", "source", "campaign", "country", "device",
    "language", "event", "variant", "goal",
];

/// The subject of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Overview,
    Top,
    Live,
}

/// The kind of value by which the question `top` groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    Page,
    Entry,
    Exit,
    Referrer,
    Source,
    Channel,
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
    /// The property with this number among the properties of the site.
    Property(u8),
}

/// The prefix of the name of a property in `of`.
const PROPERTY_PREFIX: &str = "property:";

impl Group {
    /// The names of all groups but properties.
    const NAMES: [(&'static str, Self); 16] = [
        ("page", Self::Page),
        ("entry", Self::Entry),
        ("exit", Self::Exit),
        ("referrer", Self::Referrer),
        ("source", Self::Source),
        ("channel", Self::Channel),
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

    /// Returns the name of the group in a question, and of the column that SQL has for it. That of a property is `property`.
    pub(crate) fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(_, group)| *group == self);
        named.map_or("property", |(name, _)| name)
    }

    /// Returns the number of the property.
    pub(crate) fn property(self) -> Option<u8> {
        match self {
            Self::Property(number) => Some(number),
            _ => None,
        }
    }

    /// Returns true if the values belong to visits. Returns false if the values belong to events.
    pub(crate) fn is_of_visit(self) -> bool {
        matches!(
            self,
            Self::Entry
                | Self::Exit
                | Self::Source
                | Self::Channel
                | Self::Medium
                | Self::Campaign
                | Self::Term
                | Self::Content
        )
    }
}

/// The filters of a question. A filter accepts each of its values. An empty filter accepts every value. If the question
/// has several filters, all of them must accept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filters {
    pub page: Vec<String>,
    pub source: Vec<String>,
    pub campaign: Vec<String>,
    pub country: Vec<String>,
    pub device: Vec<String>,
    pub language: Vec<String>,
    pub event: Vec<String>,
    /// Variants in the form `zone:key`.
    pub variant: Vec<String>,
}

impl Filters {
    /// No filter.
    pub(crate) const NONE: Self = Self {
        page: Vec::new(),
        source: Vec::new(),
        campaign: Vec::new(),
        country: Vec::new(),
        device: Vec::new(),
        language: Vec::new(),
        event: Vec::new(),
        variant: Vec::new(),
    };

    /// Adds a value to the filter with this name. Returns false if no filter has this name. Normalizes the path of a
    /// page in the same way as the server normalizes the paths of page events.
    ///
    /// # Errors
    /// Returns an error if the filter does not allow the value.
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

    /// Returns each filter that selects events by the text of one column.
    pub(crate) fn event_filters(&self) -> [(TextColumn, &[String]); 3] {
        [
            (TextColumn::Path, &self.page),
            (TextColumn::Country, &self.country),
            (TextColumn::Language, &self.language),
        ]
    }

    /// Returns true if a filter needs the first page event of each visit.
    pub(crate) fn select_visits(&self) -> bool {
        !self.source.is_empty() || !self.campaign.is_empty()
    }
}

/// A value of a parameter of a question.
pub(crate) struct NamedValue<'q> {
    pub param: &'static str,
    /// The value, as the parameter has it.
    pub value: &'q str,
    /// The text of the value in events.
    pub text: &'q str,
    /// The columns that can have the text.
    pub columns: &'static [TextColumn],
}

impl NamedValue<'_> {
    /// Returns whether a text of a column has the value.
    pub(crate) fn is_in(&self, column: TextColumn, text: &str) -> bool {
        match column {
            TextColumn::Variants => text.split(',').any(|pair| pair == self.text),
            _ => text == self.text,
        }
    }
}

/// A question about page views, with all its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub subject: Subject,
    /// The range in milliseconds. The end is exclusive.
    pub range: Range<i64>,
    pub by: Unit,
    pub of: Group,
    pub limit: usize,
    /// Maximum size of the values of a list together, in bytes. At most [`LIST_BYTES_MAX`].
    pub list_bytes_max: usize,
    /// The question `top` lists exactly these values, in their order. `None` if it lists the values with the highest numbers.
    pub listed: Option<Vec<Option<String>>>,
    /// The question `top` lists only values that contain this text. The text is a result of [`fold_case`]. `None` if
    /// the question lists all values.
    pub contains: Option<String>,
    /// True if the records of crawlers are included.
    pub bots: bool,
    pub filters: Filters,
    /// The numbers of the goals of the site that the question counts, in their order in the question.
    pub goals: Vec<usize>,
}

/// The error of a refused parameter of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionError {
    pub kind: &'static ProblemKind,
    /// The name of the wrong parameter.
    pub param: String,
    /// The expected value, as a noun phrase. If `actual` is `None`, this is a sentence.
    pub expected: String,
    pub actual: Option<String>,
}

impl QuestionError {
    /// Creates the error of a parameter with a wrong value.
    pub(crate) fn invalid(param_name: &str, expected: &str, actual: &str) -> Self {
        let kind = if param_name == "limit" { problem::INVALID_LIMIT } else { problem::INVALID_PARAM };
        let actual = Some(actual.to_owned());
        Self { kind, param: param_name.to_owned(), expected: expected.to_owned(), actual }
    }

    /// Creates the error of a parameter that is given twice.
    pub(crate) fn repeated(param_name: &str) -> Self {
        let expected = "The parameter is given twice; give it once.".to_owned();
        Self { kind: problem::REPEATED_PARAM, param: param_name.to_owned(), expected, actual: None }
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
    /// Parses the parameters of a question. Ignores unknown parameters and empty parameters.
    ///
    /// # Errors
    /// Returns the error of the first wrong parameter.
    pub fn parse<'p>(
        subject: Subject,
        pairs: impl Iterator<Item = (&'p str, &'p str)>,
        zone: &Zone,
        now_ms: i64,
    ) -> Result<Self, QuestionError> {
        Self::parse_with_goals(subject, pairs, zone, now_ms, &SiteGoals::default())
    }

    /// Parses the parameters of a question about a site with these goals.
    ///
    /// # Errors
    /// Returns the error of the first wrong parameter.
    pub fn parse_with_goals<'p>(
        subject: Subject,
        pairs: impl Iterator<Item = (&'p str, &'p str)>,
        zone: &Zone,
        now_ms: i64,
        site_goals: &SiteGoals,
    ) -> Result<Self, QuestionError> {
        let mut goals = Vec::new();
        let mut filters = Filters::default();
        let mut single: Vec<(&str, &str)> = Vec::new();
        for (name, value) in pairs.filter(|(_, value)| !value.is_empty()) {
            if name == "goal" {
                goals.push(parse_goal(value, site_goals)?);
                continue;
            }
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
            of: parse_group(subject, value("of"), site_goals)?,
            limit: value("limit").map_or(Ok(LIMIT_DEFAULT), |text| parse_limit(text, LIMIT_MAX))?,
            list_bytes_max: LIST_BYTES_MAX,
            listed: None,
            contains: value("contains").map(|text| fold_case(&nfc::normalize(text))),
            bots: value("bots").map_or(Ok(false), parse_bots)?,
            filters,
            goals,
        };
        question.check_goals()?;
        question.with_range(value("from"), value("to"), zone, now_ms)
    }

    /// Checks that the question can count its goals.
    fn check_goals(&self) -> Result<(), QuestionError> {
        let refused = |expected: &str, actual: &str| Err(QuestionError::invalid("goal", expected, actual));
        let mut numbers = self.goals.clone();
        numbers.sort_unstable();
        numbers.dedup();
        if self.goals.len() > GOALS_ASKED_MAX {
            refused(&format!("at most {GOALS_ASKED_MAX} goals"), &self.goals.len().to_string())
        } else if numbers.len() < self.goals.len() {
            refused("each goal once", "a goal twice")
        } else if !self.goals.is_empty() && self.subject == Subject::Live {
            refused("no goal, because a live answer has none", "a goal")
        } else if !self.goals.is_empty() && self.of == Group::Event {
            refused("no goal together with 'of=event'", "a goal")
        } else {
            Ok(())
        }
    }

    fn with_range(
        mut self,
        from_text: Option<&str>,
        to_text: Option<&str>,
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
        let end = time("to", to_text)?.unwrap_or_else(|| zone.last_days(now_ms, 1).end);
        let start = time("from", from_text)?.unwrap_or_else(|| match to_text {
            Some(_) => zone.midnight(zone.day_of(end) - DAYS_DEFAULT),
            None => zone.last_days(now_ms, DAYS_DEFAULT).start,
        });
        if start >= end {
            let actual = from_text.unwrap_or("30 days before now");
            return Err(QuestionError::invalid("from", "a time before 'to'", actual));
        }
        self.range = start..end;
        if self.subject == Subject::Overview {
            check_series(&self.range, self.by, zone)?;
        }
        Ok(self)
    }
}

/// Returns the value of a parameter. Returns `None` if the parameter is not given.
///
/// # Errors
/// Returns an error if the parameter is given twice.
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

/// Checks that a series over the range has not too many buckets.
pub(crate) fn check_series(range: &Range<i64>, unit: Unit, zone: &Zone) -> Result<(), QuestionError> {
    let expected = "a longer unit, since a series has at most 10000 buckets";
    let has_series = zone.buckets(range, unit).is_some();
    has_series.then_some(()).ok_or_else(|| QuestionError::invalid("by", expected, "by"))
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

/// Returns the number of the goal with a key.
fn parse_goal(key: &str, goals: &SiteGoals) -> Result<usize, QuestionError> {
    let number = goals.by_key(key).map(|(number, _)| number);
    number.ok_or_else(|| {
        let keys = goals.all().iter().map(|goal| goal.key.as_str()).filter(|key| !key.is_empty());
        unknown_key("goal", keys, key)
    })
}

/// Returns the error of an unknown key. `param_name` is the kind of its object in `site.json`, such as `goal`. `keys` are those
/// of the site.
pub(crate) fn unknown_key<'k>(
    param_name: &str,
    keys: impl Iterator<Item = &'k str>,
    actual: &str,
) -> QuestionError {
    let keys: Vec<&str> = keys.take(KEYS_NAMED_MAX).collect();
    let expected = match keys.is_empty() {
        true => format!("the key of a {param_name}, but site.json has no {param_name}s"),
        false => format!("the key of a {param_name} in site.json, such as {}", keys.join(", ")),
    };
    QuestionError::invalid(param_name, &expected, actual)
}

fn parse_group(subject: Subject, text: Option<&str>, site_goals: &SiteGoals) -> Result<Group, QuestionError> {
    if subject != Subject::Top {
        return Ok(Group::Page);
    }
    if let Some(name) = text.and_then(|text| text.strip_prefix(PROPERTY_PREFIX)) {
        let properties = site_goals.properties();
        let number = properties.iter().position(|path| path.name() == name);
        let unknown = || {
            let names: Vec<&str> = properties.iter().map(PropertyPath::name).collect();
            let expected = match names.is_empty() {
                true => "'property:' and a property, but site.json has no properties".to_owned(),
                false => format!("'property:' and a property in site.json: {}", names.join(", ")),
            };
            QuestionError::invalid("of", &expected, name)
        };
        return number.map(|number| Group::Property(number as u8)).ok_or_else(unknown);
    }
    let named = Group::NAMES.into_iter().find(|(name, _)| Some(*name) == text);
    named.map(|(_, group)| group).ok_or_else(|| {
        let names = Group::NAMES.map(|(name, _)| name).join(", ");
        QuestionError::invalid("of", &format!("one of {names}, property:NAME"), text.unwrap_or_default())
    })
}

/// Returns a text in lower case. Each character becomes exactly one character. The function `lower` of DuckDB does the
/// same, so the SQL in an answer selects the same rows.
pub(crate) fn fold_case(text: &str) -> String {
    text.chars().filter_map(|c| c.to_lowercase().next()).collect()
}

pub(crate) fn parse_limit(text: &str, limit_max: usize) -> Result<usize, QuestionError> {
    let limit = text.parse().ok().filter(|limit| (1..=limit_max).contains(limit));
    limit.ok_or_else(|| QuestionError::invalid("limit", &format!("a number from 1 to {limit_max}"), text))
}

pub(crate) fn parse_bots(text: &str) -> Result<bool, QuestionError> {
    (text == "include").then_some(true).ok_or_else(|| QuestionError::invalid("bots", "'include'", text))
}

fn check_filter(name: &str, value: &str) -> Result<(), QuestionError> {
    let refused = |expected| Err(QuestionError::invalid(name, expected, value));
    expected_value(name, value).map_or(Ok(()), refused)
}
