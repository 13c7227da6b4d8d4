//! A visit, and the checks of the values that the server would ignore.

use std::collections::BTreeMap;

use super::offset::{self, parse_offset_ms};
use super::requests::{OFFSET, text_of};
use crate::country::country_code;
use crate::events::time::parse_instant;
use crate::events::visitor::{is_anon_id, is_placeholder};
use crate::limits::{CLOCK_FROM_S, CLOCK_UNTIL_S};
use crate::site::source::diagnostics::{Diagnostic, Diagnostics};
use crate::site::source::types::CaseVisitor;

/// The present time of a visit without one: 2026-01-01T12:00:00Z, a Thursday. It is fixed, so that no result changes with the
/// time.
pub(crate) const NOW_DEFAULT_MS: i64 = 1_767_268_800_000;

/// A visitor and a page.
#[derive(Clone)]
pub(crate) struct Visit<'v> {
    /// The file that describes the visit, for diagnostics.
    pub(crate) file: &'v str,
    /// The JSON pointer of the visit in its file.
    pub(crate) pointer: String,
    pub(crate) path: &'v str,
    pub(crate) url: Option<&'v str>,
    pub(crate) referrer: Option<&'v str>,
    /// The variants that are forced, by zone.
    pub(crate) forced: &'v BTreeMap<String, String>,
    pub(crate) visitor: &'v CaseVisitor,
    pub(crate) now_ms: i64,
    /// The anon ID of the visitor. `None` if only its user ID is known.
    pub(crate) anon_id: Option<String>,
}

impl Visit<'_> {
    /// Returns the visit with another visitor: the one with this number, counted from 1.
    pub(super) fn with_visitor(&self, number: usize) -> Self {
        Self { anon_id: Some(numbered_id(number)), ..self.clone() }
    }

    /// Adds a diagnostic for each value of the visitor and of its events that the server would ignore.
    pub(crate) fn check(&self, diagnostics: &mut Diagnostics) {
        self.check_visitor(diagnostics);
        self.check_events(diagnostics);
    }

    fn check_visitor(&self, diagnostics: &mut Diagnostics) {
        let Self { file, pointer, .. } = self;
        let CaseVisitor { anon_id, user_id, country, arms, .. } = self.visitor;
        if !arms.is_empty() && (anon_id.is_some() || user_id.is_some()) {
            let title = "the visitor has both `arms` and an ID";
            let pointer = format!("{pointer}/visitor/arms");
            diagnostics.add_titled(file, pointer, title, "one of them", "both");
        }
        let invalid_anon_id = anon_id.as_deref().filter(|id| !is_anon_id(id) || is_placeholder(id));
        let invalid_user_id = user_id.as_deref().filter(|id| id.is_empty() || is_placeholder(id));
        let invalid_country = country.as_deref().filter(|code| country_code(code.as_bytes()).is_none());
        let anon_ids = "1 to 128 bytes of visible ASCII, and no placeholder such as `null`";
        let user_ids = "1 to 256 bytes of text, and no placeholder such as `null`";
        for (name, invalid, expected) in [
            ("anonId", invalid_anon_id, anon_ids),
            ("userId", invalid_user_id, user_ids),
            ("country", invalid_country, "the code of a country, such as `NO`"),
        ] {
            if let Some(value) = invalid {
                let pointer = format!("{pointer}/visitor/{name}");
                diagnostics.add(Diagnostic::at_value(file, pointer, expected, format!("{value:?}")));
            }
        }
    }

    fn check_events(&self, diagnostics: &mut Diagnostics) {
        let Self { file, pointer, visitor, .. } = self;
        for (index, event) in visitor.events.iter().enumerate() {
            let Some(value) = event.get(OFFSET) else { continue };
            let pointer = format!("{pointer}/visitor/events/{index}/{OFFSET}");
            if event.contains_key("timestamp") {
                let title = "the event has both `at` and `timestamp`";
                diagnostics.add_titled(file, pointer, title, "one time", "two times");
            } else if text_of(value).and_then(|text| parse_offset_ms(&text)).is_none() {
                diagnostics.add(Diagnostic::at_value(file, pointer, offset::EXPECTED, value));
            }
        }
    }
}

/// Returns the anon ID of a visitor whose visit names none. `None` if it names a user ID.
pub(crate) fn anon_id_of(visitor: &CaseVisitor) -> Option<String> {
    let CaseVisitor { anon_id, user_id, .. } = visitor;
    anon_id.clone().or_else(|| user_id.is_none().then(|| numbered_id(1)))
}

/// Returns the anon ID of an invented visitor.
pub(super) fn numbered_id(number: usize) -> String {
    format!("visitor-{number}")
}

/// Returns the milliseconds of a present time. `None` if there is none, or an invalid one. Adds a diagnostic for an invalid one.
pub(crate) fn parse_now_ms(
    file: &str,
    pointer: &str,
    text: Option<&str>,
    diagnostics: &mut Diagnostics,
) -> Option<i64> {
    let text = text?;
    let years = 1_000 * CLOCK_FROM_S..1_000 * CLOCK_UNTIL_S;
    let now_ms = parse_instant(text).filter(|now_ms| years.contains(now_ms));
    if now_ms.is_none() {
        let expected =
            "a time with an offset, such as `2026-12-24T18:00:00+01:00`, of the years 2020 to 2099";
        diagnostics.add_titled(file, pointer, "invalid `now`", expected, format!("{text:?}"));
    }
    now_ms
}
