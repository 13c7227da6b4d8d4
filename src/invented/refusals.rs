//! The parts of a visit that the server refuses, as diagnostics with their places in the file.

use serde_json::Value as Json;

use super::requests::OFFSET;
use super::server::Response;
use super::visit::Visit;
use crate::site::source::diagnostics::Diagnostics;

/// The beginning of each JSON pointer into the event of a request.
const EVENT_POINTER: &str = "/batch/0";

/// Adds a diagnostic for each value of an event that the server refuses or ignores. `event_pointer` is that of the event in the
/// visit.
pub(super) fn add_of_event(
    visit: &Visit<'_>,
    event_pointer: &str,
    response: &Response,
    diagnostics: &mut Diagnostics,
) {
    let Response { status, body } = response;
    let lists = ["errors", "results", "warnings"].map(|name| body[name].as_array());
    let listed = lists.into_iter().flatten().flatten().filter(|entry| entry["code"].is_string());
    let mut entries: Vec<&Json> = listed.collect();
    if *status != 200 && entries.is_empty() {
        entries.push(body);
    }
    for entry in entries {
        let pointer = place_in_visit(visit, event_pointer, entry["pointer"].as_str().unwrap_or_default());
        add(visit, &pointer, entry, diagnostics);
    }
}

/// Adds a diagnostic if the server refuses the request for the page.
pub(super) fn add_of_page(visit: &Visit<'_>, response: &Response, diagnostics: &mut Diagnostics) {
    let Response { status, body } = response;
    if *status != 200 {
        let pointer = match body["param"].as_str() {
            Some(name @ ("anonId" | "userId" | "userAgent" | "locale" | "country")) => {
                format!("/visitor/{name}")
            }
            Some(name @ ("url" | "referrer" | "override" | "now")) => format!("/{name}"),
            Some("route") => "/path".to_owned(),
            _ => String::new(),
        };
        add(visit, &pointer, body, diagnostics);
    }
}

/// Returns the place in the visit of a place in the body of an event's request. A member that is missing in the event is at the
/// place of the event.
fn place_in_visit(visit: &Visit<'_>, event_pointer: &str, body_pointer: &str) -> String {
    let Some(inside) = body_pointer.strip_prefix(EVENT_POINTER) else { return event_pointer.to_owned() };
    let index = event_pointer.strip_prefix("/visitor/events/").and_then(|index| index.parse::<usize>().ok());
    let Some(event) = index.and_then(|index| visit.visitor.events.get(index)) else {
        // The traits are the operation `set` of a profile event.
        return format!("{event_pointer}{}", inside.strip_prefix("/set").unwrap_or_default());
    };
    let name = inside.split('/').nth(1).unwrap_or_default();
    match name {
        "timestamp" if event.contains_key(OFFSET) => format!("{event_pointer}/{OFFSET}"),
        name if event.contains_key(name) => format!("{event_pointer}{inside}"),
        _ => event_pointer.to_owned(),
    }
}

/// Adds a diagnostic for a problem, or for an entry of a receipt, with the texts of the server.
fn add(visit: &Visit<'_>, pointer: &str, entry: &Json, diagnostics: &mut Diagnostics) {
    let [detail, code] = ["detail", "code"].map(|name| entry[name].as_str().unwrap_or_default());
    let title = format!("the server refuses this: {}", detail.trim_end_matches('.'));
    let expected = "a value that the server takes";
    let actual = format!("the problem `{code}`");
    diagnostics.add_titled(visit.file, format!("{}{pointer}", visit.pointer), title, expected, actual);
}
