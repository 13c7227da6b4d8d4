//! Export of a record as one line of NDJSON.

use super::time;
use crate::events::identity;
use crate::json;
use crate::record::Record;
use crate::record::fold_input::{ClientTimes, FoldParts};
use crate::url::normal_host;

/// Columns with a time, after `seq`.
const TIMES: usize = 4;
/// Columns with a text, the payload included.
const TEXTS: usize = 24;
/// Texts before the columns `bot` and `gpc`.
const TEXTS_BEFORE_FLAGS: usize = 9;

/// Calls `write` with the times and the texts of a record, both in the order of [`COLUMNS`]. The last text is the payload.
pub(super) fn with_columns(
    record: &Record<'_>,
    write: impl FnOnce([Option<i64>; TIMES], [Option<&str>; TEXTS]),
) {
    let mut content = Vec::new();
    let mut alias = Vec::new();
    record.fold_input.unpack(&mut content);
    let parts = FoldParts::parse(&content);
    let ClientTimes { timestamp_ms, sent_ms } = parts.client_times.times(record.received_ms);
    let touch = parts.touch.map(|touch| touch.texts()).unwrap_or_default();
    let [source, medium, campaign, term, content, referrer] = touch;
    let referrer_host = referrer.and_then(normal_host);
    let tie = identity::named_tie(record, record.previous_id(&mut alias));
    let [device, os, browser, country, language] = record.context.texts();
    let texts = [
        record.site,
        Some(record.kind.name()),
        record.message_id,
        record.anon_id,
        record.user_id,
        tie.map(|(anonymous, _)| anonymous),
        record.event,
        record.name,
        record.path,
        record.variants,
        record.experiments,
        referrer_host.as_deref(),
        source,
        medium,
        campaign,
        term,
        content,
        device,
        os,
        browser,
        country,
        language,
        record.ip,
        Some(record.payload),
    ];
    write([Some(record.received_ms), Some(record.timestamp_ms), timestamp_ms, sent_ms], texts);
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
    with_columns(record, |times, texts| {
        let mut names = COLUMNS[1..].iter();
        let (before_flags, after_flags) = texts[..TEXTS - 1].split_at(TEXTS_BEFORE_FLAGS);
        out.extend_from_slice(b"{\"seq\":\"");
        json::write_number(out, seq);
        out.push(b'"');
        times.iter().zip(&mut names).for_each(|(time_ms, name)| write_time(out, name, *time_ms));
        before_flags.iter().zip(&mut names).for_each(|(text, name)| write_text(out, name, *text));
        [record.bot, record.gpc].iter().zip(&mut names).for_each(|(flag, name)| write_bool(out, name, *flag));
        after_flags.iter().zip(&mut names).for_each(|(text, name)| write_text(out, name, *text));
        out.extend_from_slice(b",\"payload\":");
        out.extend_from_slice(record.payload.as_bytes());
        out.extend_from_slice(b"}\n");
    });
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    [",\"", name, "\":"].iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
}

fn write_text(out: &mut Vec<u8>, name: &str, text: Option<&str>) {
    write_name(out, name);
    match text {
        Some(text) => json::write_string(out, text),
        None => out.extend_from_slice(b"null"),
    }
}

fn write_time(out: &mut Vec<u8>, name: &str, time_ms: Option<i64>) {
    write_name(out, name);
    let Some(time_ms) = time_ms else { return out.extend_from_slice(b"null") };
    out.push(b'"');
    time::write(out, time_ms);
    out.push(b'"');
}

fn write_bool(out: &mut Vec<u8>, name: &str, value: bool) {
    write_name(out, name);
    out.extend_from_slice(if value { b"true" } else { b"false" });
}
