//! The requests of a visit: its events, one by one, and the page.

use std::collections::BTreeMap;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value as Json, json};

use super::offset::parse_offset_ms;
use super::server::VisitedSite;
use super::visit::Visit;
use crate::events::time;
use crate::percent;
use crate::site::source::types::CaseVisitor;

/// The member with the time of an event before `now`, which the client's `timestamp` replaces.
pub(super) const OFFSET: &str = "at";

/// The request of an event, and the JSON pointer of the event in the visit.
pub(super) struct EventRequest {
    pub(super) pointer: String,
    pub(super) bytes: Vec<u8>,
}

/// Returns the requests that record the events of a visit, in order, and then its traits.
pub(super) fn event_requests(site: &VisitedSite, visit: &Visit<'_>) -> Vec<EventRequest> {
    let visitor = visit.visitor;
    let of_event = |(index, event): (usize, &BTreeMap<String, Box<RawValue>>)| EventRequest {
        pointer: format!("/visitor/events/{index}"),
        bytes: event_request(site, visit, with_timestamp(event, visit.now_ms)),
    };
    let mut requests: Vec<EventRequest> = visitor.events.iter().enumerate().map(of_event).collect();
    if let Some(traits) = &visitor.traits {
        let event = [("type", raw("profile")), ("set", traits.clone())];
        let bytes = event_request(site, visit, BTreeMap::from(event));
        requests.push(EventRequest { pointer: "/visitor/traits".to_owned(), bytes });
    }
    requests
}

/// Returns the members of an event as the client sends them.
fn with_timestamp(event: &BTreeMap<String, Box<RawValue>>, now_ms: i64) -> BTreeMap<&str, Box<RawValue>> {
    let mut members: BTreeMap<&str, _> =
        event.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let offset = members.remove(OFFSET).and_then(|offset| parse_offset_ms(&text_of(&offset)?));
    if let Some(offset_ms) = offset {
        members.insert("timestamp", raw(&time::to_text(now_ms - offset_ms)));
    }
    members
}

fn event_request(
    site: &VisitedSite,
    visit: &Visit<'_>,
    mut members: BTreeMap<&str, Box<RawValue>>,
) -> Vec<u8> {
    let visitor = visit.visitor;
    let anon_id = visit.anon_id.as_deref();
    if anon_id.is_none()
        && let Some(user_id) = &visitor.user_id
    {
        members.entry("userId").or_insert_with(|| raw(user_id));
    }
    let mut target = String::from("/v1/batch?");
    write_param(&mut target, "site", &site.site().site);
    anon_id.into_iter().for_each(|id| write_param(&mut target, "anonId", id));
    let user_id = members.get("userId").and_then(|id| text_of(id));
    let event = serde_json::to_string(&members).expect("a map of texts");
    let body = format!(r#"{{"context":{},"batch":[{event}]}}"#, event_context(visitor));
    let length = body.len();
    let mut request = head("POST", &target, site, visitor, user_id.as_deref());
    request.push_str(&format!("Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"));
    request.into_bytes()
}

/// Returns the context that the events of the visitor share.
fn event_context(visitor: &CaseVisitor) -> Json {
    let mut context = json!({});
    for (name, value) in [("userAgent", &visitor.user_agent), ("locale", &visitor.locale)] {
        value.iter().for_each(|value| context[name] = json!(value));
    }
    if !visitor.consent.measure {
        context["consent"] = json!({ "measure": false });
    }
    context
}

/// Returns the request for the page, with the explanation.
pub(super) fn page_request(site: &VisitedSite, visit: &Visit<'_>) -> Vec<u8> {
    let Visit { path, url, referrer, forced, visitor, .. } = visit;
    let forced: Vec<String> = forced.iter().map(|(zone, key)| format!("{zone}:{key}")).collect();
    let user_id = visitor.user_id.as_deref();
    let now = time::to_text(visit.now_ms);
    let params = [
        ("site", Some(&*site.site().site)),
        ("route", Some(*path)),
        ("url", Some(url.unwrap_or(path))),
        ("referrer", *referrer),
        ("anonId", visit.anon_id.as_deref()),
        ("userId", user_id),
        ("userAgent", visitor.user_agent.as_deref()),
        ("locale", visitor.locale.as_deref()),
        ("country", visitor.country.as_deref()),
        ("personalize", Some("0").filter(|_| !visitor.consent.personalize)),
        ("override", Some(forced.join(",")).as_deref().filter(|pairs| !pairs.is_empty())),
        ("now", Some(now.as_str())),
        ("explain", Some("1")),
    ]
    .map(|(name, value)| (name, value.map(str::to_owned)));
    let mut target = String::from("/v1/resolve?");
    for (name, value) in params {
        value.iter().for_each(|value| write_param(&mut target, name, value));
    }
    let mut request = head("GET", &target, site, visitor, user_id);
    request.push_str("\r\n");
    request.into_bytes()
}

/// Returns the head of a request, without the empty line at its end. `user_id` is that of the request or of its event.
fn head(
    method: &str,
    target: &str,
    site: &VisitedSite,
    visitor: &CaseVisitor,
    user_id: Option<&str>,
) -> String {
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n");
    if visitor.gpc {
        head.push_str("Sec-GPC: 1\r\n");
    }
    if let Some(hash) = user_id.and_then(|id| site.user_hash(id)) {
        head.push_str(&format!("X-User-Hash: {hash}\r\n"));
    }
    head
}

fn write_param(target: &mut String, name: &str, value: &str) {
    let separator = if target.ends_with('?') { "" } else { "&" };
    let mut escaped = Vec::new();
    percent::encode(&mut escaped, value);
    target.push_str(&format!("{separator}{name}={}", String::from_utf8_lossy(&escaped)));
}

/// Returns a text as JSON.
fn raw(text: &str) -> Box<RawValue> {
    to_raw_value(text).expect("a text")
}

/// Returns the text of a JSON string, or the digits of a number, which counts as an ID too.
pub(super) fn text_of(value: &RawValue) -> Option<String> {
    match serde_json::from_str(value.get()).ok()? {
        Json::String(text) => Some(text),
        Json::Number(_) => Some(value.get().to_owned()),
        _ => None,
    }
}
