//! A question about an invented visitor: which version of a page it gets, and why.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value as Json;

use super::visit::{Visit, anon_id_of, parse_now_ms};
use super::{VisitedSite, respond};
use crate::problem::{self, ProblemKind};
use crate::site::source::diagnostics::Diagnostics;
use crate::site::source::types::{CASE_EVENTS_MAX, CaseVisitor};

/// Events of a visitor with `arms`. Each of up to 1,000 anon IDs gets the events, and a server of its own. If no ID has the arms, that took
/// 4.6 s with so many events and 3.0 s with none, while other questions wait. A question with one more event is refused.
pub const EVENTS_WITH_ARMS_MAX: usize = 100;

/// A visitor and a page, as a case of `parallax test` has them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    path: String,
    url: Option<String>,
    referrer: Option<String>,
    /// The present time. Default: that of the clock.
    now: Option<String>,
    #[serde(default)]
    r#override: BTreeMap<String, String>,
    #[serde(default)]
    visitor: CaseVisitor,
}

/// The error of a question: its JSON, or the first part that the server refuses.
#[derive(Debug)]
pub(crate) struct QuestionError {
    pub(crate) kind: &'static ProblemKind,
    pub(crate) detail: String,
}

impl Question {
    /// Reads a question.
    ///
    /// # Errors
    /// The text is no JSON, or no question.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, QuestionError> {
        let question: Self = serde_json::from_slice(json).map_err(|error| {
            let detail = format!("Expected a JSON object with 'path', and 'visitor' as in a test: {error}.");
            let kind = if error.is_data() { problem::INVALID_PARAM } else { problem::MALFORMED_JSON };
            QuestionError { kind, detail }
        })?;
        let CaseVisitor { events, arms, .. } = &question.visitor;
        let (events_max, place) = match arms.is_empty() {
            true => (CASE_EVENTS_MAX, ""),
            false => (EVENTS_WITH_ARMS_MAX, " beside `arms`"),
        };
        if events.len() > events_max {
            let count = events.len();
            let detail =
                format!("/visitor/events: expected at most {events_max} events{place}, found {count}.");
            return Err(QuestionError { kind: problem::INVALID_PARAM, detail });
        }
        Ok(question)
    }

    /// Returns the response for the page, with the explanation. `now_ms` is the present time of a question without one.
    ///
    /// # Errors
    /// The first part of the question that the server refuses.
    pub(crate) fn answer(&self, site: &VisitedSite, now_ms: i64) -> Result<Json, QuestionError> {
        let mut diagnostics = Diagnostics::default();
        let own_now_ms = parse_now_ms("", "/now", self.now.as_deref(), &mut diagnostics);
        let visit = Visit {
            file: "",
            pointer: String::new(),
            path: &self.path,
            url: self.url.as_deref(),
            referrer: self.referrer.as_deref(),
            forced: &self.r#override,
            visitor: &self.visitor,
            now_ms: own_now_ms.unwrap_or(now_ms),
            anon_id: anon_id_of(&self.visitor),
        };
        visit.check(&mut diagnostics);
        if diagnostics.is_empty() {
            let body = respond(site, &visit, &mut diagnostics);
            if diagnostics.is_empty() {
                return Ok(body);
            }
        }
        let first = diagnostics.first();
        let detail =
            first.map(|first| format!("{}: {}.", first.pointer, first.summary())).unwrap_or_default();
        Err(QuestionError { kind: problem::INVALID_PARAM, detail })
    }
}
