//! Export of a record as one line of NDJSON.

use super::time;
use crate::json;
use crate::url::host;
use crate::visitors::identity;
use crate::visitors::log::fold_input::FoldParts;
use crate::visitors::log::{Code, Record};

/// The texts of a page event's touch that an export has.
#[derive(Default)]
pub(super) struct TouchColumns<'a> {
    pub referrer_host: Option<&'a str>,
    pub source: Option<&'a str>,
    pub medium: Option<&'a str>,
    pub campaign: Option<&'a str>,
    pub term: Option<&'a str>,
    pub content: Option<&'a str>,
}

impl<'a> TouchColumns<'a> {
    /// Reads the touch of a record. `content` is a buffer.
    pub(super) fn read(record: &Record<'_>, content: &'a mut Vec<u8>) -> Self {
        record.fold_input.unpack(content);
        let Some(touch) = FoldParts::parse(content).touch else { return Self::default() };
        let [source, medium, campaign, term, content, referrer] = touch.texts();
        Self { referrer_host: referrer.and_then(host), source, medium, campaign, term, content }
    }
}

/// The members of a line, in their order. The last one is JSON, the others are texts, booleans or null.
pub(crate) const COLUMNS: [&str; 29] = [
    "seq",
    "receivedAt",
    "timestamp",
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
    write_text(out, b",\"site\":", record.site);
    write_text(out, b",\"type\":", Some(record.kind.name()));
    write_text(out, b",\"messageId\":", record.message_id);
    write_text(out, b",\"anonId\":", record.anon_id);
    write_text(out, b",\"userId\":", record.user_id);
    let mut content = Vec::new();
    let tie = identity::named_tie(record, record.previous_id(&mut content));
    write_text(out, b",\"tied\":", tie.map(|(anonymous, _)| anonymous));
    write_text(out, b",\"event\":", record.event);
    write_text(out, b",\"name\":", record.name);
    write_text(out, b",\"path\":", record.path);
    write_bool(out, b",\"bot\":", record.bot);
    write_bool(out, b",\"gpc\":", record.gpc);
    write_text(out, b",\"variants\":", record.variants);
    write_text(out, b",\"experiments\":", record.experiments);
    let touch = TouchColumns::read(record, &mut content);
    write_text(out, b",\"referrerHost\":", touch.referrer_host);
    write_text(out, b",\"source\":", touch.source);
    write_text(out, b",\"medium\":", touch.medium);
    write_text(out, b",\"campaign\":", touch.campaign);
    write_text(out, b",\"term\":", touch.term);
    write_text(out, b",\"content\":", touch.content);
    write_text(out, b",\"device\":", record.device.name());
    write_text(out, b",\"os\":", record.os.name());
    write_text(out, b",\"browser\":", record.browser.name());
    write_text(out, b",\"country\":", record.country.as_ref().map(Code::as_str));
    write_text(out, b",\"language\":", record.language.as_ref().map(Code::as_str));
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

fn write_bool(out: &mut Vec<u8>, name: &[u8], value: bool) {
    out.extend_from_slice(name);
    out.extend_from_slice(if value { b"true" } else { b"false" });
}
