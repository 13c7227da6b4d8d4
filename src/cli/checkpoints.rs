//! Checkpoints in `check` and `inspect`. The output contains no visitor data and no hash key.

use std::fmt::Write;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::{CliError, log_read_error, print_line};
use crate::events::time;
use crate::storage::disk::{Disk, RealDisk};
use crate::visitors::checkpoint::reader::{CheckpointError, CheckpointReader};
use crate::visitors::store::table::EvictionClass;
use crate::visitors::verify;

fn disk() -> Arc<dyn Disk> {
    Arc::new(RealDisk)
}

fn to_cli_error(path: &Path, error: CheckpointError) -> CliError {
    let text = format!("{}: {error}", path.display());
    match error {
        CheckpointError::Version(_) | CheckpointError::Thread(_) => CliError::System(text),
        CheckpointError::Io(error) if error.kind() != io::ErrorKind::NotFound => CliError::System(text),
        _ => CliError::Input(text),
    }
}

/// Checks the checkpoints of a directory. Returns the number of bad ones; `None` if there is no checkpoint.
pub(super) fn check_directory(directory: &Path) -> Result<Option<usize>, CliError> {
    let checked = verify::check_directory(&disk(), directory).map_err(log_read_error)?;
    for line in &checked.lines {
        print_line(&directory.join(line).display().to_string())?;
    }
    Ok((!checked.lines.is_empty()).then_some(checked.failures))
}

/// Returns the greatest seq of the checkpoints of a directory, or 0.
pub(super) fn newest_seq(directory: &Path) -> Result<u64, CliError> {
    verify::newest_checkpoint_seq(&disk(), directory).map_err(log_read_error)
}

/// Checks one checkpoint. Returns the number of bad ones, 0 or 1.
pub(super) fn check_file(path: &Path) -> Result<usize, CliError> {
    match verify::check_file(&disk(), path) {
        Ok(header) => {
            let shown = path.display();
            print_line(&format!("{shown}: sound, seq {}, {} entries", header.seq, header.entries))?;
            Ok(0)
        }
        Err(error @ (CheckpointError::Damaged { .. } | CheckpointError::Version(_))) => {
            print_line(&format!("{}: {error}", path.display()))?;
            Ok(1)
        }
        Err(error) => Err(to_cli_error(path, error)),
    }
}

/// Describes the content of a checkpoint, as text or as JSON.
pub(super) fn inspect(path: &Path, wants_json: bool) -> Result<String, CliError> {
    let reader = CheckpointReader::open(&*disk(), path).map_err(|error| to_cli_error(path, error))?;
    let header = *reader.header();
    let format_version = reader.format_version();
    let bytes = reader.bytes();
    let runs = reader.parts().runs.len();
    let (counts, value_bytes) = count_entries(reader).map_err(|error| to_cli_error(path, error))?;
    let [aliases, once, known] = counts;
    let made = time::to_text(header.created_ms);
    if wants_json {
        let document = json!({
            "kind": "checkpoint", "bytes": bytes, "formatVersion": format_version, "seq": header.seq.to_string(),
            "createdAt": made, "profilesMemory": header.cost_max, "entries": header.entries, "runs": runs,
            "aliases": aliases, "once": once, "known": known, "valueBytes": value_bytes,
        });
        return Ok(format!("{document:#}"));
    }
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "checkpoint   {}, {bytes} bytes", path.display());
    let _ = writeln!(
        out,
        "header       format {format_version}, created {made}, --profiles-memory {}",
        header.cost_max
    );
    let _ = writeln!(out, "seq          {}, the last record included", header.seq);
    let _ = writeln!(out, "entries      {}, {value_bytes} bytes of values, in {runs} runs", header.entries);
    let _ = write!(out, "visitors     {known} returning, {once} seen once; {aliases} IDs linked to users");
    Ok(out)
}

/// Counts the entries by eviction class, and the bytes of all values.
fn count_entries(reader: CheckpointReader) -> Result<([u64; 3], u64), CheckpointError> {
    let mut entries = reader.entries()?;
    let mut counts = [0; 3];
    let mut bytes = 0;
    while let Some(entry) = entries.read_next()? {
        let class = match entry.class {
            EvictionClass::Pinned => 0,
            EvictionClass::SingleVisit => 1,
            EvictionClass::Returning => 2,
        };
        counts[class] += 1;
        bytes += entry.value.len() as u64;
    }
    Ok((counts, bytes))
}
