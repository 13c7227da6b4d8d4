//! Visits of invented visitors: the events before a page, the request for it, and the decision with its reasons.
//!
//! ```text
//! visit --check--> requests: events, page --> server in memory --> the response for the page
//! ```
//!
//! The server in memory consists of the parts of `parallax serve`, so this module evaluates no rule and writes no response. It
//! records nothing.

mod offset;
mod question;
mod refusals;
mod requests;
mod server;
mod visit;

use std::collections::BTreeMap;

use serde_json::Value as Json;

pub use self::question::EVENTS_WITH_ARMS_MAX;
pub(crate) use self::question::{Question, QuestionError};
pub(crate) use self::server::VisitedSite;
pub(crate) use self::visit::{NOW_DEFAULT_MS, Visit, anon_id_of, parse_now_ms};

use self::visit::numbered_id;
use crate::site::source::diagnostics::Diagnostics;
use crate::site::source::types::ARM_IDS_MAX;

/// Returns the body of the response for the page of a visit, with the explanation. Adds a diagnostic for each part of the visit that
/// the server refuses, and if no visitor has its arms.
pub(crate) fn respond(site: &VisitedSite, visit: &Visit<'_>, diagnostics: &mut Diagnostics) -> Json {
    match visit.visitor.arms.is_empty() {
        true => respond_to_one(site, visit, diagnostics),
        false => respond_in_arms(site, visit, diagnostics),
    }
}

/// Sends the events of a visit to a new server, and returns the body of its response for the page.
fn respond_to_one(site: &VisitedSite, visit: &Visit<'_>, diagnostics: &mut Diagnostics) -> Json {
    let mut server = site.start_server(visit.now_ms);
    for event in requests::event_requests(site, visit) {
        refusals::add_of_event(visit, &event.pointer, &server.answer(&event.bytes), diagnostics);
    }
    let response = server.answer(&requests::page_request(site, visit));
    refusals::add_of_page(visit, &response, diagnostics);
    response.body
}

/// Returns the body of the response to the first visitor who has the arms of the visit.
fn respond_in_arms(site: &VisitedSite, visit: &Visit<'_>, diagnostics: &mut Diagnostics) -> Json {
    let arms = &visit.visitor.arms;
    let count_before = diagnostics.len();
    let mut body = Json::Null;
    for number in 1..=ARM_IDS_MAX {
        body = respond_to_one(site, &visit.with_visitor(number), diagnostics);
        let actual_arms = arms_of(&body);
        let has_arms = arms.iter().all(|(key, arm)| actual_arms.get(&**key) == Some(&&**arm));
        if diagnostics.len() > count_before || has_arms {
            return body;
        }
    }
    let pairs: Vec<String> = arms.iter().map(|(key, arm)| format!("{key}:{arm}")).collect();
    let last = numbered_id(ARM_IDS_MAX);
    let title = format!("no visitor from `{}` to `{last}` has these arms on this page", numbered_id(1));
    let expected = "arms of experiments that decide a zone for this visitor";
    let actual = format!("`{}`", pairs.join(","));
    diagnostics.add_titled(visit.file, format!("{}/visitor/arms", visit.pointer), title, expected, actual);
    body
}

/// Returns the arm of each experiment that decided a zone of a response.
pub(crate) fn arms_of(body: &Json) -> BTreeMap<&str, &str> {
    let text = body["experiments"].as_str().unwrap_or_default();
    text.split(',').filter_map(|pair| pair.split_once(':')).collect()
}
