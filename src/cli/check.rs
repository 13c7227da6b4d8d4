//! `parallax check`: whether snapshots and the log are sound.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::contains::contains;
use super::inspect::Kind;
use super::{Failure, checkpoints, say, unreadable};
use crate::cli::inspect_snapshot;
use crate::storage::disk::{Disk, RealDisk};
use crate::visitors::log::{self, Checked, Flaw, LogError};

pub(super) const EXAMPLES: &str = "\
Every checksum of what is published, and of what was recorded (beside a running server too); that the newest checkpoint of
visitors is what the log makes of the one before:
  parallax check snapshots/
  parallax check data/

Prove that a visitor was erased: every byte of every file in the folder is searched, torn tails and voided ones too, for
the text as it is and however JSON may escape it. Nothing else is decoded: a percent-encoded form is a search of its own.
  parallax check data/ --contains ana@example.com && echo nothing is left of her

Exit codes: 0 all is sound, or the text is nowhere; 1 something is damaged, or the text was found; 3 a file cannot be read,
so nothing is proven. What a crash leaves at a log's end (a torn tail) is said and is no damage.";

#[derive(Debug, Args)]
pub(super) struct Check {
    /// A snapshot, a segment, a checkpoint, or a folder of snapshots or of the log.
    path: PathBuf,
    /// Verify nothing, but search every byte for TEXT: exit code 0 where it is nowhere, 1 where it was found.
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    contains: Option<String>,
}

pub(super) fn check(typed: &Check) -> Result<(), Failure> {
    let path = &typed.path;
    if let Some(text) = &typed.contains {
        return contains(path, text);
    }
    let unseen = |error| Failure::Input(format!("{}: {error}", path.display()));
    if path.metadata().map_err(unseen)?.is_dir() {
        return check_folder(path);
    }
    match Kind::of(path)? {
        Kind::Snapshot => verdict(check_snapshots(path)?, None, 0),
        Kind::Segment => verdict((0, 0), Some(check_log(path, log::check_file)?), 0),
        Kind::Checkpoint => verdict((0, 0), None, checkpoints::check_file(path)?),
    }
}

fn check_folder(folder: &Path) -> Result<(), Failure> {
    let failed = |source| unreadable(LogError::Io { path: folder.to_owned(), source });
    let snapshots = check_snapshots(folder)?;
    let log = if log::holds_log(&RealDisk, folder).map_err(failed)? {
        Some(check_log(folder, log::check_folder)?)
    } else {
        None
    };
    let checkpoints = checkpoints::check_folder(folder)?;
    if snapshots.1 == 0 && log.is_none() && checkpoints.is_none() {
        return say("no snapshots to check, and no log");
    }
    verdict(snapshots, log, checkpoints.unwrap_or_default())
}

/// How many of how many snapshots are not sound.
fn check_snapshots(path: &Path) -> Result<(usize, usize), Failure> {
    let checked = inspect_snapshot::check(path)
        .map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
    for (file, result) in &checked {
        let (Ok(said) | Err(said)) = result;
        say(&format!("{}: {said}", file.display()))?;
    }
    let wrong = checked.iter().filter(|(_, result)| result.is_err()).count();
    Ok((wrong, checked.len()))
}

/// How many places of a log, or of a segment, are damaged.
fn check_log(
    path: &Path,
    check: impl Fn(Arc<dyn Disk>, &Path) -> Result<Checked, LogError>,
) -> Result<usize, Failure> {
    let Checked { segments, batches, records, void, findings } =
        check(Arc::new(RealDisk), path).map_err(unreadable)?;
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    for finding in &findings {
        say(&folder.join(finding.to_string()).display().to_string())?;
    }
    let wrong = findings.iter().filter(|finding| Flaw::is_loud(finding.flaw)).count();
    let verdict = if wrong == 0 { "sound" } else { "damaged" };
    let void = if void == 0 { String::new() } else { format!(", {void} of them void (erased)") };
    say(&format!(
        "{}: {verdict}, {segments} segments, {batches} batches, {records} records{void}",
        path.display()
    ))?;
    Ok(wrong)
}

fn verdict(
    (wrong, snapshots): (usize, usize),
    log: Option<usize>,
    checkpoints: usize,
) -> Result<(), Failure> {
    let of_snapshots = (wrong > 0).then(|| format!("{wrong} of {snapshots} files are not sound"));
    let of_log = log.filter(|places| *places > 0).map(|n| format!("the log is damaged in {n} places"));
    let of_checkpoints = (checkpoints > 0).then(|| format!("{checkpoints} checkpoints are not sound"));
    let complaints: Vec<String> = of_snapshots.into_iter().chain(of_log).chain(of_checkpoints).collect();
    if complaints.is_empty() { Ok(()) } else { Err(Failure::Input(complaints.join("; "))) }
}
