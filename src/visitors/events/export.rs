//! Export of a record as one line of NDJSON.

use super::time;
use crate::json;
use crate::visitors::log::Record;

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
    write_text(out, b",\"event\":", record.event);
    write_text(out, b",\"name\":", record.name);
    write_text(out, b",\"path\":", record.path);
    write_bool(out, b",\"bot\":", record.bot);
    write_bool(out, b",\"gpc\":", record.gpc);
    write_text(out, b",\"variants\":", record.variants);
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
