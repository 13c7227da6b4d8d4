//! The syntax of the metrics of an experiment: goals, value properties, margins, windows and planned numbers.
//!
//! `compile`, the verification of a snapshot, and questions that choose other metrics share it.

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

/// An event or a page that a visitor should reach. `T` is its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// Returns whether a margin is a positive fraction.
pub(crate) fn is_margin(margin: f64) -> bool {
    margin > 0.0 && margin <= 1.0
}

/// Returns whether a number of visitors can be planned.
pub(crate) fn is_planned(visitors: u64) -> bool {
    (PLANNED_MIN..=PLANNED_MAX).contains(&visitors)
}

/// Parses a window such as `14d`, of at least one second, to milliseconds.
pub(crate) fn parse_window_ms(text: &str) -> Option<i64> {
    condition::parse_duration_ms(text)
}
