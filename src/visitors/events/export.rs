//! A record as one line of NDJSON.

use super::time;
use crate::json;
use crate::visitors::log::Record;

/// Appends a record, with its number in the log, as one line.
pub fn line(out: &mut Vec<u8>, seq: u64, record: &Record<'_>) {
    out.extend_from_slice(b"{\"seq\":\"");
    json::number(out, seq);
    out.extend_from_slice(b"\",\"receivedAt\":\"");
    time::write(out, record.received_ms);
    out.extend_from_slice(b"\",\"timestamp\":\"");
    time::write(out, record.timestamp_ms);
    out.push(b'"');
    text(out, b",\"site\":", record.site);
    text(out, b",\"type\":", Some(record.kind.name()));
    text(out, b",\"messageId\":", record.message_id);
    text(out, b",\"anonId\":", record.anon_id);
    text(out, b",\"userId\":", record.user_id);
    text(out, b",\"event\":", record.event);
    text(out, b",\"name\":", record.name);
    text(out, b",\"path\":", record.path);
    truth(out, b",\"bot\":", record.bot);
    truth(out, b",\"gpc\":", record.gpc);
    text(out, b",\"variants\":", record.variants);
    text(out, b",\"ip\":", record.ip);
    out.extend_from_slice(b",\"payload\":");
    out.extend_from_slice(record.payload.as_bytes());
    out.extend_from_slice(b"}\n");
}

fn text(out: &mut Vec<u8>, name: &[u8], value: Option<&str>) {
    out.extend_from_slice(name);
    match value {
        Some(value) => json::string(out, value),
        None => out.extend_from_slice(b"null"),
    }
}

fn truth(out: &mut Vec<u8>, name: &[u8], value: bool) {
    out.extend_from_slice(name);
    out.extend_from_slice(if value { b"true" } else { b"false" });
}
