//! Checkpoints of visitors, as `check` and `inspect` show them. Nothing of a visitor is shown, and nothing that keys are hashed with.

use std::fmt::Write;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::inspect::iso;
use super::{Failure, say, unreadable};
use crate::storage::disk::{Disk, RealDisk};
use crate::visitors::checkpoint::format::FORMAT_VERSION;
use crate::visitors::checkpoint::reader::{Fault, Opened};
use crate::visitors::store::table::Rank;
use crate::visitors::verify;

fn disk() -> Arc<dyn Disk> {
    Arc::new(RealDisk)
}

fn failure(path: &Path, fault: Fault) -> Failure {
    let text = format!("{}: {fault}", path.display());
    match fault {
        Fault::Io(error) if error.kind() != io::ErrorKind::NotFound => Failure::Machine(text),
        _ => Failure::Input(text),
    }
}

/// How many of a folder's checkpoints are not sound; `None` where there is none.
pub(super) fn check_folder(folder: &Path) -> Result<Option<usize>, Failure> {
    let checked = verify::check_folder(&disk(), folder).map_err(unreadable)?;
    for said in &checked.said {
        say(&folder.join(said).display().to_string())?;
    }
    Ok((!checked.said.is_empty()).then_some(checked.wrong))
}

/// Whether one is not sound, as a count.
pub(super) fn check_file(path: &Path) -> Result<usize, Failure> {
    match verify::check_file(&disk(), path) {
        Ok(header) => {
            say(&format!("{}: sound, seq {}, {} entries", path.display(), header.seq, header.entries))?;
            Ok(0)
        }
        Err(fault @ (Fault::Damaged { .. } | Fault::Version(_))) => {
            say(&format!("{}: {fault}", path.display()))?;
            Ok(1)
        }
        Err(fault) => Err(failure(path, fault)),
    }
}

/// What one holds.
pub(super) fn inspected(path: &Path, as_json: bool) -> Result<String, Failure> {
    let opened = Opened::open(&*disk(), path).map_err(|fault| failure(path, fault))?;
    let (header, bytes, runs) = (*opened.header(), opened.bytes(), opened.runs().len());
    let (ranks, value_bytes) = counted(opened).map_err(|fault| failure(path, fault))?;
    let [aliases, once, known] = ranks;
    let made = iso(header.made_ms);
    if as_json {
        let shown = json!({
            "kind": "checkpoint", "bytes": bytes, "formatVersion": FORMAT_VERSION, "seq": header.seq.to_string(),
            "createdAt": made, "profilesMemory": header.cost_max, "entries": header.entries, "runs": runs,
            "aliases": aliases, "once": once, "known": known, "valueBytes": value_bytes,
        });
        return Ok(format!("{shown:#}"));
    }
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "checkpoint   {}, {bytes} bytes", path.display());
    let _ = writeln!(
        out,
        "header       format {FORMAT_VERSION}, made {made}, --profiles-memory {}",
        header.cost_max
    );
    let _ = writeln!(out, "seq          {}: the records up to it are folded", header.seq);
    let _ = writeln!(out, "entries      {}, {value_bytes} bytes of values, in {runs} runs", header.entries);
    let _ = write!(
        out,
        "visitors     {known} known, {once} that came once; {aliases} ids that are tied to users"
    );
    Ok(out)
}

/// Entries by rank, and the bytes of all values.
fn counted(opened: Opened) -> Result<([u64; 3], u64), Fault> {
    let (mut entries, mut ranks, mut bytes) = (opened.entries()?, [0; 3], 0);
    while let Some(kept) = entries.read_next()? {
        let rank = match kept.rank {
            Rank::Alias => 0,
            Rank::Once => 1,
            Rank::Known => 2,
        };
        ranks[rank] += 1;
        bytes += kept.value.len() as u64;
    }
    Ok((ranks, bytes))
}
