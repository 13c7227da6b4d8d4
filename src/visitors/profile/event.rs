//! What a record says to a profile: what is read of its payload, and no more.
//!
//! The payload of a page that may be a touch, an identify, a profile event and an alias is read; of others the columns say all. A
//! payload is read as when it was sent, so that whatever was accepted is understood here.

use memchr::{memchr_iter, memchr2};

use super::touch::{Kept, Touch, cut};
use crate::url::{PageUrl, host, host_of_authority};
use crate::visitors::events::document::Value;
use crate::visitors::log::{Kind, Record};

/// A record, for a profile.
pub(crate) struct Event<'e> {
    pub kind: Kind,
    pub at_ms: i64,
    pub name: Option<&'e str>,
    pub page: Option<&'e str>,
    pub touch: Option<Kept<'e>>,
    pub payload: Option<Value<'e>>,
}

/// Whether the payload of a record may say something to a profile.
pub(crate) fn needs_payload(record: &Record<'_>) -> bool {
    match record.kind {
        Kind::Page => may_be_touch(record.payload),
        Kind::Identify | Kind::Profile | Kind::Alias => true,
        _ => false,
    }
}

/// Whether a page with this payload may be a touch. Parsing it takes longer than all else that is done with a page; that it has no
/// campaign, none in a URL, and only one host, as a page that follows another of its site, is seen in the text, where names
/// and values stand as they are unless something is escaped.
fn may_be_touch(payload: &str) -> bool {
    memchr2(b'%', b'\\', payload.as_bytes()).is_some()
        || payload.contains("utm_")
        || payload.contains("\"campaign\"")
        || names_two_hosts(payload)
}

/// Whether the URLs in a JSON text without escapes are of more than one host.
fn names_two_hosts(payload: &str) -> bool {
    let bytes = payload.as_bytes();
    let begins_authority = |at: &usize| bytes[..*at].ends_with(b":") && bytes[at + 1..].starts_with(b"/");
    let mut hosts = memchr_iter(b'/', bytes).filter(begins_authority).map(|at| {
        let rest = &payload[at + 2..];
        // No further than the slash that ends it: of a text that is full of them none is gone through twice.
        let end = memchr2(b'/', b'"', rest.as_bytes()).unwrap_or(rest.len());
        host_of_authority(&rest[..end]).unwrap_or_default()
    });
    hosts.next().is_some_and(|one| hosts.any(|other| !other.eq_ignore_ascii_case(one)))
}

impl<'e> Event<'e> {
    /// `payload` is the root of the record's, where it is needed; `url` is room for the page's, `texts` for a touch's.
    pub(crate) fn read(
        record: &Record<'e>,
        payload: Option<Value<'e>>,
        url: &mut PageUrl,
        texts: &'e mut Vec<u8>,
    ) -> Self {
        let page_payload = payload.filter(|_| record.kind == Kind::Page);
        let touch = page_payload.and_then(|payload| touch(record, payload, url));
        Self {
            kind: record.kind,
            at_ms: record.timestamp_ms,
            name: record.event,
            page: record.path,
            touch: touch.map(|touch| Kept::of(&touch, texts)),
            payload,
        }
    }
}

/// The touch that a page event is, if it is one: a campaign, which the context names or else its URL, or a referrer on another host
/// than its URL's. Without a URL nothing tells that a referrer is another's.
fn touch<'e>(record: &Record<'e>, payload: Value<'e>, url: &'e mut PageUrl) -> Option<Touch<'e>> {
    let context = payload.find("context");
    let (properties, page) = (payload.find("properties"), context.and_then(|context| context.find("page")));
    let said = |name: &str| text_in(properties, name).or_else(|| text_in(page, name));
    let own = said("url");
    let referrer = said("referrer").filter(|referrer| is_elsewhere(referrer, own)).map(cut);
    let landing = record.path.map(cut);
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
    let campaign = context.and_then(|context| context.find("campaign"));
    let touch = with_campaign(none, |name| text_in(campaign, name), "name");
    let touch = touch.or_else(|| {
        url.read(own.filter(|url| url.contains('?')).map(str::as_bytes));
        let url: &'e PageUrl = url;
        let param = |name: &str| url.param(utm(name)).filter(|value| !value.is_empty());
        with_campaign(none, param, "campaign")
    });
    touch.or_else(|| referrer.map(|_| none))
}

/// The touch with a campaign that has any of its five parts; `name` is what its own name goes by.
fn with_campaign<'e>(
    touch: Touch<'e>,
    part: impl Fn(&str) -> Option<&'e str>,
    name: &str,
) -> Option<Touch<'e>> {
    let part = |of: &str| part(of).map(cut);
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

fn utm(part: &str) -> &'static str {
    match part {
        "source" => "utm_source",
        "medium" => "utm_medium",
        "campaign" => "utm_campaign",
        "term" => "utm_term",
        _ => "utm_content",
    }
}

fn text_in<'e>(object: Option<Value<'e>>, name: &str) -> Option<&'e str> {
    object?.find(name)?.string()
}

fn is_elsewhere(referrer: &str, own: Option<&str>) -> bool {
    let hosts = host(referrer).zip(own.and_then(host));
    hosts.is_some_and(|(other, own)| !other.eq_ignore_ascii_case(own))
}
