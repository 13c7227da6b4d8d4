//! Segments of the log in `inspect`.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{CliError, log_read_error};
use crate::events::time;
use crate::log::{self, Damage, SegmentSummary};
use crate::storage::disk::RealDisk;

/// Describes the content of a segment, as text or as JSON.
pub(super) fn inspect(path: &Path, is_json: bool) -> Result<String, CliError> {
    let summary = log::inspect(Arc::new(RealDisk), path).map_err(log_read_error)?;
    Ok(if is_json { format!("{:#}", render_json(&summary)) } else { render_text(path, &summary) })
}

/// Renders a segment as lines for a terminal.
fn render_text(path: &Path, summary: &SegmentSummary) -> String {
    let SegmentSummary { bytes, batches, marks, records, .. } = summary;
    let state = if summary.footer.is_some() { "sealed" } else { "not sealed" };
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "segment      {}, {bytes} bytes, {state}", path.display());
    if let Some(header) = &summary.header
        && let Some(version) = summary.format_version
    {
        let created = time::to_text(header.created_ms);
        let first_seq = header.first_seq;
        let _ = writeln!(out, "header       format {version}, first seq {first_seq}, created {created}");
        let _ = writeln!(out, "log          {}", header.log_id);
    } else {
        let _ = writeln!(out, "header       damaged");
    }
    let _ = writeln!(out, "batches      {batches}, and {marks} watermarks");
    let _ = match summary.seqs {
        Some((first, last)) => writeln!(out, "records      {records}, seq {first} to {last}"),
        None => writeln!(out, "records      none"),
    };
    for (what, times) in [("received", summary.received_ms), ("happened", summary.timestamp_ms)] {
        if let Some((first, last)) = times {
            let _ = writeln!(out, "{what:<12} {} to {}", time::to_text(first), time::to_text(last));
        }
    }
    for (kind, count) in &summary.kinds {
        let _ = writeln!(out, "kind         {kind}: {count}");
    }
    for (site, count) in &summary.sites {
        let _ = writeln!(out, "site         {site}: {count}");
    }
    if let Some(footer) = &summary.footer {
        let entries = footer.index.len();
        let keys = footer.keys.len();
        let filter = footer.filter.len();
        let _ = writeln!(
            out,
            "footer       at {}: {entries} index entries, {keys} keys, a filter of {filter} bytes",
            footer.offset
        );
    }
    if summary.reserved_bytes > 0 {
        let _ = writeln!(out, "reserved     {} bytes of zeros for the next batches", summary.reserved_bytes);
    }
    for finding in &summary.damage {
        let _ = writeln!(out, "found        {finding}");
    }
    out.truncate(out.trim_end().len());
    out
}

/// Renders a segment as one JSON object. Seqs are strings, because they can exceed 2^53.
fn render_json(summary: &SegmentSummary) -> Value {
    let seqs = |(first, last): (u64, u64)| json!({ "first": first.to_string(), "last": last.to_string() });
    let times =
        |(first, last): (i64, i64)| json!({ "first": time::to_text(first), "last": time::to_text(last) });
    json!({
        "kind": "segment",
        "bytes": summary.bytes,
        "reservedBytes": summary.reserved_bytes,
        "header": summary.header.as_ref().map(|header| json!({
            "formatVersion": summary.format_version, "firstSeq": header.first_seq.to_string(), "createdAt": time::to_text(header.created_ms),
            "logId": header.log_id.to_string(),
        })),
        "batches": summary.batches,
        "marks": summary.marks,
        "records": summary.records,
        "seqs": summary.seqs.map(seqs),
        "receivedAt": summary.received_ms.map(times),
        "timestamp": summary.timestamp_ms.map(times),
        "kinds": summary.kinds,
        "sites": summary.sites,
        "footer": summary.footer.as_ref().map(|footer| json!({
            "at": footer.offset, "indexEntries": footer.index.len(), "keys": footer.keys.len(), "filterBytes": footer.filter.len(),
        })),
        "findings": summary.damage.iter().map(damage_json).collect::<Vec<_>>(),
    })
}

fn damage_json(damage: &Damage) -> Value {
    let lost = (!damage.lost_seqs.is_empty()).then(
        || json!({ "first": damage.lost_seqs.start.to_string(), "last": (damage.lost_seqs.end - 1).to_string() }),
    );
    json!({ "at": damage.offset, "bytes": damage.bytes, "what": damage.kind.to_string(),
        "isDamage": damage.kind.is_unexpected(), "lost": lost })
}
