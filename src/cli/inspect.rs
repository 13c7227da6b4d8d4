//! `parallax inspect`: what lies in a snapshot, in a segment of the log, or in a checkpoint of visitors.

use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};

use super::{Failure, checkpoints, say, unreadable};
use crate::cli::inspect_snapshot;
use crate::site::snapshot::format::MAGIC as SNAPSHOT_MAGIC;
use crate::storage;
use crate::storage::disk::RealDisk;
use crate::visitors::checkpoint::directory::seq_of;
use crate::visitors::checkpoint::format::MAGIC as CHECKPOINT_MAGIC;
use crate::visitors::events::time;
use crate::visitors::log::format::{FORMAT_VERSION, SEGMENT_MAGIC};
use crate::visitors::log::{self, Finding, Inspected};

pub(super) const EXAMPLES: &str = "\
  parallax inspect snapshots/shop.snapshot
  parallax inspect data/00000000000000000001.segment --json
  parallax inspect data/00000000000000000100.checkpoint

A damaged snapshot is not shown; of a damaged segment all that can be read is, with what is wrong beside it.";

#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// A snapshot, a segment or a checkpoint; its first bytes tell which.
    file: PathBuf,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn inspect_file(typed: &Inspect) -> Result<(), Failure> {
    let path = &typed.file;
    let shown = match Kind::of(path)? {
        Kind::Snapshot => {
            let shown = inspect_snapshot::inspect(path)
                .map_err(|refusal| Failure::Input(format!("{}: {refusal}", path.display())))?;
            if typed.json { inspect_snapshot::json(&shown) } else { inspect_snapshot::text(&shown) }
        }
        Kind::Segment => {
            let shown = log::inspect(Arc::new(RealDisk), path).map_err(unreadable)?;
            if typed.json { format!("{:#}", as_json(&shown)) } else { as_text(path, &shown) }
        }
        Kind::Checkpoint => checkpoints::inspected(path, typed.json)?,
    };
    say(&shown)
}

/// What a file is.
pub(super) enum Kind {
    Snapshot,
    Segment,
    Checkpoint,
}

impl Kind {
    /// By its first bytes; where these are damaged, by its name.
    pub(super) fn of(path: &Path) -> Result<Self, Failure> {
        let mut magic = Vec::new();
        let read = storage::open_regular(path).and_then(|(file, _)| file.take(8).read_to_end(&mut magic));
        read.map_err(|error| Failure::Input(format!("{}: it cannot be read: {error}", path.display())))?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if magic == SEGMENT_MAGIC {
            Ok(Self::Segment)
        } else if magic == CHECKPOINT_MAGIC || seq_of(name).is_some() {
            Ok(Self::Checkpoint)
        } else if magic == SNAPSHOT_MAGIC || name.ends_with(".snapshot") {
            Ok(Self::Snapshot)
        } else if log::seq_of(name).is_some() {
            Ok(Self::Segment)
        } else {
            Err(Failure::Input(format!(
                "{}: it begins with \"{}\", expected a snapshot (\"{}\"), a segment of the log (\"{}\") or a checkpoint (\"{}\")",
                path.display(),
                magic.escape_ascii(),
                SNAPSHOT_MAGIC.escape_ascii(),
                SEGMENT_MAGIC.escape_ascii(),
                CHECKPOINT_MAGIC.escape_ascii(),
            )))
        }
    }
}

pub(super) fn iso(ms: i64) -> String {
    let mut text = Vec::new();
    time::write(&mut text, ms);
    String::from_utf8_lossy(&text).into_owned()
}

/// Lines for a terminal.
fn as_text(path: &Path, shown: &Inspected) -> String {
    let Inspected { bytes, batches, marks, records, .. } = shown;
    let state = if shown.footer.is_some() { "sealed" } else { "not sealed" };
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "segment      {}, {bytes} bytes, {state}", path.display());
    let _ = match &shown.header {
        Some(header) => {
            let created = iso(header.created_ms);
            writeln!(
                out,
                "header       format {FORMAT_VERSION}, first seq {}, made {created}",
                header.first_seq
            )
        }
        None => writeln!(out, "header       damaged"),
    };
    let _ = writeln!(out, "batches      {batches}, and {marks} that only name the durable seq");
    let _ = match shown.seqs {
        Some((first, last)) => writeln!(out, "records      {records}, seq {first} to {last}"),
        None => writeln!(out, "records      none"),
    };
    for (what, times) in [("received", shown.received_ms), ("happened", shown.timestamp_ms)] {
        if let Some((first, last)) = times {
            let _ = writeln!(out, "{what:<12} {} to {}", iso(first), iso(last));
        }
    }
    for (kind, count) in &shown.kinds {
        let _ = writeln!(out, "kind         {kind}: {count}");
    }
    for (site, count) in &shown.sites {
        let _ = writeln!(out, "site         {site}: {count}");
    }
    if let Some(footer) = &shown.footer {
        let (entries, keys, filter) = (footer.index.len(), footer.keys.len(), footer.filter.len());
        let _ = writeln!(
            out,
            "footer       at {}: {entries} places, {keys} keys, a filter of {filter} bytes",
            footer.at
        );
    }
    if shown.reserved_bytes > 0 {
        let _ = writeln!(out, "reserved     {} bytes of zeros for the next batches", shown.reserved_bytes);
    }
    for finding in &shown.findings {
        let _ = writeln!(out, "found        {finding}");
    }
    out.truncate(out.trim_end().len());
    out
}

/// One JSON object; seqs are strings, for they may pass 2^53.
fn as_json(shown: &Inspected) -> Value {
    let seqs = |(first, last): (u64, u64)| json!({ "first": first.to_string(), "last": last.to_string() });
    let times = |(first, last): (i64, i64)| json!({ "first": iso(first), "last": iso(last) });
    json!({
        "kind": "segment",
        "bytes": shown.bytes,
        "reservedBytes": shown.reserved_bytes,
        "header": shown.header.as_ref().map(|header| json!({
            "formatVersion": FORMAT_VERSION, "firstSeq": header.first_seq.to_string(), "createdAt": iso(header.created_ms),
        })),
        "batches": shown.batches,
        "marks": shown.marks,
        "records": shown.records,
        "seqs": shown.seqs.map(seqs),
        "receivedAt": shown.received_ms.map(times),
        "timestamp": shown.timestamp_ms.map(times),
        "kinds": shown.kinds,
        "sites": shown.sites,
        "footer": shown.footer.as_ref().map(|footer| json!({
            "at": footer.at, "indexEntries": footer.index.len(), "keys": footer.keys.len(), "filterBytes": footer.filter.len(),
        })),
        "findings": shown.findings.iter().map(finding_json).collect::<Vec<_>>(),
    })
}

fn finding_json(finding: &Finding) -> Value {
    let lost = (!finding.lost.is_empty()).then(
        || json!({ "first": finding.lost.start.to_string(), "last": (finding.lost.end - 1).to_string() }),
    );
    json!({ "at": finding.at, "bytes": finding.bytes, "what": finding.flaw.to_string(),
        "isDamage": finding.flaw.is_loud(), "lost": lost })
}
