//! The syntax of the metrics of an experiment: goals, value properties, caps, margins, windows and planned numbers.
//!
//! `compile`, the verification of a snapshot, and questions that choose other metrics share it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::condition;
use crate::limits::{EVENT_NAME_CHARS_MAX, ROUTE_BYTES_MAX};
use crate::nfc;

/// The properties of events whose amounts can be compared. A column file has their indices, so a change of
/// the order is one of its format.
pub(crate) const VALUE_PROPERTIES: [&str; 4] = ["revenue", "value", "total", "quantity"];

/// Lowest planned number of visitors: one in each of two arms.
const PLANNED_MIN: u64 = 2;
/// Highest planned number of visitors: the highest integer that a JSON number represents exactly.
const PLANNED_MAX: u64 = 1 << 53;

/// Units of the amount 1. Amounts have four digits after the point.
pub(crate) const UNITS_PER_ONE: f64 = 10_000.0;
/// The absolute value of each amount is below this many units: 10^11.
pub(crate) const AMOUNT_UNITS_END: i64 = 1_000_000_000_000_000;
/// Lowest quantile of a cap, in thousandths. A lower one would limit most of the values. The highest is `p99.9`, because
/// three digits have no more.
const QUANTILE_THOUSANDTHS_MIN: u16 = 500;

/// The limit of the value of one visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cap {
    /// There is no limit.
    None,
    /// The limit is an amount, in units of 10^-4.
    Units(i64),
    /// The limit is this quantile of the values, in thousandths.
    Quantile(u16),
}

/// Maximum number of dimensions of one experiment. More comparisons make it harder to tell the arms apart in each of them.
pub(crate) const SEGMENTS_MAX: usize = 4;

/// A property of visitors by which a result is divided into segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dimension {
    Device,
    Country,
    /// The source of the visit.
    Source,
    Language,
    /// Tells visitors without an earlier event from the others.
    New,
}

impl Dimension {
    /// All dimensions.
    pub(crate) const ALL: [Self; 5] = [Self::Device, Self::Country, Self::Source, Self::Language, Self::New];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Country => "country",
            Self::Source => "source",
            Self::Language => "language",
            Self::New => "new",
        }
    }

    /// Returns the dimension with this name. `None` if there is none.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dimension| dimension.name() == name)
    }
}

/// Returns whether these are the segments of an experiment: not too many, and each once.
pub(crate) fn are_segments(dimensions: &[Dimension]) -> bool {
    let is_first = |(index, dimension): (usize, &Dimension)| !dimensions[..index].contains(dimension);
    dimensions.len() <= SEGMENTS_MAX && dimensions.iter().enumerate().all(is_first)
}

/// An event or a page that a visitor should reach. `T` is its text. A `*` at the end of the text matches any rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Goal<T> {
    /// The name of a track or screen event.
    Event(T),
    /// The path of a page event.
    Page(T),
}

impl<'t> Goal<&'t str> {
    /// Parses an event name, `event:` and an event name, or `page:` and a path. `None` if the text is none of them.
    pub fn parse(text: &'t str) -> Option<Self> {
        if let Some(path) = text.strip_prefix("page:") {
            let is_path =
                path.starts_with('/') && path.len() <= ROUTE_BYTES_MAX && !path.contains(['?', '#']);
            return is_path.then_some(Self::Page(path));
        }
        let name = text.strip_prefix("event:").unwrap_or(text);
        (!name.is_empty() && name.chars().count() <= EVENT_NAME_CHARS_MAX).then_some(Self::Event(name))
    }

    /// Returns the goal with a text of its own. A path is in the form of page events.
    pub(crate) fn to_owned(self) -> Goal<String> {
        match self {
            Self::Event(name) => Goal::Event(name.to_owned()),
            Self::Page(path) => Goal::Page(nfc::normalize(path).into_owned()),
        }
    }
}

impl Cap {
    /// The limit without another choice. It takes at most the top hundredth of the values for outliers, so that orders of
    /// real customers are rarely limited.
    pub const DEFAULT: Self = Self::Quantile(990);

    /// Parses `none`, an amount above 0, or `p` and a percentage with at most one decimal. `None` if the text is none of
    /// them.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self::None);
        }
        match text.strip_prefix('p') {
            Some(percent) => parse_thousandths(percent).map(Self::Quantile),
            None => parse_units(text).map(Self::Units),
        }
    }
}

impl fmt::Display for Cap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => out.write_str("none"),
            Self::Units(units) => write!(out, "{}", *units as f64 / UNITS_PER_ONE),
            Self::Quantile(thousandths) => write!(out, "p{}", f64::from(*thousandths) / 10.0),
        }
    }
}

fn parse_units(text: &str) -> Option<i64> {
    let units = (text.parse::<f64>().ok()? * UNITS_PER_ONE).round();
    (units >= 1.0 && units < AMOUNT_UNITS_END as f64).then_some(units as i64)
}

/// Parses a percentage such as `99` or `99.9` to thousandths.
fn parse_thousandths(percent: &str) -> Option<u16> {
    let (whole, tenth) = percent.split_once('.').unwrap_or((percent, "0"));
    let is_digits =
        |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    let digits = (is_digits(whole, 2) && is_digits(tenth, 1)).then(|| format!("{whole}{tenth}"))?;
    digits.parse().ok().filter(|thousandths| *thousandths >= QUANTILE_THOUSANDTHS_MIN)
}

/// Returns whether a margin is a positive fraction.
pub(crate) fn is_margin(margin: f64) -> bool {
    margin > 0.0 && margin <= 1.0
}

/// Returns whether a number of visitors can be planned.
pub(crate) fn is_planned(visitor_count: u64) -> bool {
    (PLANNED_MIN..=PLANNED_MAX).contains(&visitor_count)
}

/// Parses a window such as `14d`, of at least one second, to milliseconds.
pub(crate) fn parse_window_ms(text: &str) -> Option<i64> {
    condition::parse_duration_ms(text)
}
