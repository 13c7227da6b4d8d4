//! Export of a record as one line of NDJSON.

use std::borrow::Cow;

use super::time;
use crate::events::identity;
use crate::json;
use crate::record::Record;
use crate::record::fold_input::{ClientTimes, FoldParts};
use crate::url::normal_host;

/// The columns of an export that are in the fold input of a record.
#[derive(Default)]
pub(super) struct FoldColumns<'a> {
    pub client_times: ClientTimes,
    pub referrer_host: Option<Cow<'a, str>>,
    pub source: Option<&'a str>,
    pub medium: Option<&'a str>,
    pub campaign: Option<&'a str>,
    pub term: Option<&'a str>,
    pub content: Option<&'a str>,
}

impl<'a> FoldColumns<'a> {
    /// Reads the columns of a record. `content` is a buffer.
    pub(super) fn read(record: &Record<'_>, content: &'a mut Vec<u8>) -> Self {
        record.fold_input.unpack(content);
        let parts = FoldParts::parse(content);
        let client_times = parts.client_times.times(record.received_ms);
        let Some(touch) = parts.touch else { return Self { client_times, ..Self::default() } };
        let [source, medium, campaign, term, content, referrer] = touch.texts();
        Self {
            client_times,
            referrer_host: referrer.and_then(normal_host),
            source,
            medium,
            campaign,
            term,
            content,
        }
    }
}

/// The members of a line, in their order. The last one is JSON, the others are texts, booleans or null.
pub(crate) const COLUMNS: [&str; 31] = [
    "seq",
    "receivedAt",
    "timestamp",
    "clientTimestamp",
    "sentAt",
    "site",
    "type",
    "messageId",
    "anonId",
    "userId",
    "tied",
    "event",
    "name",
    "path",
    "bot",
    "gpc",
    "variants",
    "experiments",
    "referrerHost",
    "source",
    "medium",
    "campaign",
    "term",
    "content",
    "device",
    "os",
    "browser",
    "country",
    "language",
    "ip",
    "payload",
];

/// Appends a record and its sequence number as one line.
pub fn write_line(out: &mut Vec<u8>, seq: u64, record: &Record<'_>) {
    out.extend_from_slice(b"{\"seq\":\"");
    json::write_number(out, seq);
    out.extend_from_slice(b"\",\"receivedAt\":\"");
    time::write(out, record.received_ms);
    out.extend_from_slice(b"\",\"timestamp\":\"");
    time::write(out, record.timestamp_ms);
    out.push(b'"');
    let mut content = Vec::new();
    let fold = FoldColumns::read(record, &mut content);
    write_time(out, b",\"clientTimestamp\":", fold.client_times.timestamp_ms);
    write_time(out, b",\"sentAt\":", fold.client_times.sent_ms);
    write_text(out, b",\"site\":", record.site);
    write_text(out, b",\"type\":", Some(record.kind.name()));
    write_text(out, b",\"messageId\":", record.message_id);
    write_text(out, b",\"anonId\":", record.anon_id);
    write_text(out, b",\"userId\":", record.user_id);
    let mut alias = Vec::new();
    let tie = identity::named_tie(record, record.previous_id(&mut alias));
    write_text(out, b",\"tied\":", tie.map(|(anonymous, _)| anonymous));
    write_text(out, b",\"event\":", record.event);
    write_text(out, b",\"name\":", record.name);
    write_text(out, b",\"path\":", record.path);
    write_bool(out, b",\"bot\":", record.bot);
    write_bool(out, b",\"gpc\":", record.gpc);
    write_text(out, b",\"variants\":", record.variants);
    write_text(out, b",\"experiments\":", record.experiments);
    write_text(out, b",\"referrerHost\":", fold.referrer_host.as_deref());
    write_text(out, b",\"source\":", fold.source);
    write_text(out, b",\"medium\":", fold.medium);
    write_text(out, b",\"campaign\":", fold.campaign);
    write_text(out, b",\"term\":", fold.term);
    write_text(out, b",\"content\":", fold.content);
    let [device, os, browser, country, language] = record.context.texts();
    write_text(out, b",\"device\":", device);
    write_text(out, b",\"os\":", os);
    write_text(out, b",\"browser\":", browser);
    write_text(out, b",\"country\":", country);
    write_text(out, b",\"language\":", language);
    write_text(out, b",\"ip\":", record.ip);
    out.extend_from_slice(b",\"payload\":");
    out.extend_from_slice(record.payload.as_bytes());
    out.extend_from_slice(b"}\n");
}

fn write_text(out: &mut Vec<u8>, name: &[u8], value: Option<&str>) {
    out.extend_from_slice(name);
    match value {
        Some(value) => json::write_string(out, value),
        None => out.extend_from_slice(b"null"),
    }
}

fn write_time(out: &mut Vec<u8>, name: &[u8], time_ms: Option<i64>) {
    out.extend_from_slice(name);
    let Some(time_ms) = time_ms else { return out.extend_from_slice(b"null") };
    out.push(b'"');
    time::write(out, time_ms);
    out.push(b'"');
}

fn write_bool(out: &mut Vec<u8>, name: &[u8], value: bool) {
    out.extend_from_slice(name);
    out.extend_from_slice(if value { b"true" } else { b"false" });
}
