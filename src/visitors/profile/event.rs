//! Reads from a record the data that changes a profile.
//!
//! Payloads are parsed only for pages that may be a touch, identifies, profile events and aliases. For other
//! kinds the columns of the record are enough. A payload is parsed with the rules that applied when it was
//! received, so every accepted payload is readable here.

use memchr::{memchr_iter, memchr2};

use super::touch::{EncodedTouch, Touch, truncate};
use crate::url::{PageUrl, host, host_of_authority};
use crate::visitors::events::document::Value;
use crate::visitors::log::{Record, RecordKind};

/// The part of a record that matters to a profile.
pub(crate) struct Event<'e> {
    pub kind: RecordKind,
    pub at_ms: i64,
    pub name: Option<&'e str>,
    pub page: Option<&'e str>,
    pub touch: Option<EncodedTouch<'e>>,
    pub payload: Option<Value<'e>>,
}

/// Returns whether the payload of a record may change a profile.
pub(crate) fn needs_payload(record: &Record<'_>) -> bool {
    match record.kind {
        RecordKind::Page => may_be_touch(record.payload),
        RecordKind::Identify | RecordKind::Profile | RecordKind::Alias => true,
        _ => false,
    }
}

/// Returns whether a page event with this payload may be a touch. Parsing the payload takes longer
/// than all other work on a page event, so this scans the text for a campaign, for a campaign
/// parameter in a URL, and for URLs of two hosts. A page that follows another page of its site has
/// none of these. Names and values appear literally in the text unless it contains an escape, so any
/// escape counts as "may be".
fn may_be_touch(payload: &str) -> bool {
    memchr2(b'%', b'\\', payload.as_bytes()).is_some()
        || payload.contains("utm_")
        || payload.contains("\"campaign\"")
        || names_two_hosts(payload)
}

/// Returns whether the URLs in a JSON text without escapes have more than one host.
fn names_two_hosts(payload: &str) -> bool {
    let bytes = payload.as_bytes();
    let begins_authority = |at: &usize| bytes[..*at].ends_with(b":") && bytes[at + 1..].starts_with(b"/");
    let mut hosts = memchr_iter(b'/', bytes).filter(begins_authority).map(|at| {
        let rest = &payload[at + 2..];
        // Ends at the next slash, so that no byte is scanned twice even in a text full of slashes.
        let end = memchr2(b'/', b'"', rest.as_bytes()).unwrap_or(rest.len());
        host_of_authority(&rest[..end]).unwrap_or_default()
    });
    hosts.next().is_some_and(|one| hosts.any(|other| !other.eq_ignore_ascii_case(one)))
}

impl<'e> Event<'e> {
    /// Reads a record. `payload` is the root of its parsed payload, if [`needs_payload`] says so. `url`
    /// and `texts` are reusable buffers for the URL of the page and the texts of a touch.
    pub(crate) fn from_record(
        record: &Record<'e>,
        payload: Option<Value<'e>>,
        url: &mut PageUrl,
        texts: &'e mut Vec<u8>,
    ) -> Self {
        let page_payload = payload.filter(|_| record.kind == RecordKind::Page);
        let touch = page_payload.and_then(|payload| touch(record, payload, url));
        Self {
            kind: record.kind,
            at_ms: record.timestamp_ms,
            name: record.event,
            page: record.path,
            touch: touch.map(|touch| EncodedTouch::new(&touch, texts)),
            payload,
        }
    }
}

/// Returns the touch of a page event. A page event is a touch if it has a campaign, in its context or
/// else in its URL, or a referrer on another host than its URL. Without a URL, a referrer cannot be
/// recognized as external.
fn touch<'e>(record: &Record<'e>, payload: Value<'e>, url: &'e mut PageUrl) -> Option<Touch<'e>> {
    let context = payload.get_present("context");
    let (properties, page) =
        (payload.get_present("properties"), context.and_then(|context| context.get_present("page")));
    let member = |name: &str| string_member(properties, name).or_else(|| string_member(page, name));
    let own = member("url");
    let referrer = member("referrer").filter(|referrer| is_external(referrer, own)).map(truncate);
    let landing = record.path.map(truncate);
    let none = Touch {
        source: None,
        medium: None,
        campaign: None,
        term: None,
        content: None,
        referrer,
        landing,
        at_ms: record.timestamp_ms,
    };
    let campaign = context.and_then(|context| context.get_present("campaign"));
    let touch = with_campaign(none, |name| string_member(campaign, name), "name");
    let touch = touch.or_else(|| {
        url.parse(own.filter(|url| url.contains('?')).map(str::as_bytes));
        let url: &'e PageUrl = url;
        let param = |name: &str| url.param(utm_param(name)).filter(|value| !value.is_empty());
        with_campaign(none, param, "campaign")
    });
    touch.or_else(|| referrer.map(|_| none))
}

/// Returns `touch` with a campaign, or `None` if the campaign has none of its five parts. `name` is
/// the name under which `part` finds the name of the campaign.
fn with_campaign<'e>(
    touch: Touch<'e>,
    part: impl Fn(&str) -> Option<&'e str>,
    name: &str,
) -> Option<Touch<'e>> {
    let part = |of: &str| part(of).map(truncate);
    let touch = Touch {
        source: part("source"),
        medium: part("medium"),
        campaign: part(name),
        term: part("term"),
        content: part("content"),
        ..touch
    };
    let parts = [touch.source, touch.medium, touch.campaign, touch.term, touch.content];
    parts.iter().any(Option::is_some).then_some(touch)
}

fn utm_param(part: &str) -> &'static str {
    match part {
        "source" => "utm_source",
        "medium" => "utm_medium",
        "campaign" => "utm_campaign",
        "term" => "utm_term",
        _ => "utm_content",
    }
}

fn string_member<'e>(object: Option<Value<'e>>, name: &str) -> Option<&'e str> {
    object?.get_present(name)?.as_str()
}

fn is_external(referrer: &str, own: Option<&str>) -> bool {
    let hosts = host(referrer).zip(own.and_then(host));
    hosts.is_some_and(|(other, own)| !other.eq_ignore_ascii_case(own))
}
