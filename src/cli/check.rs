//! `parallax check`: verifies snapshots, the log and checkpoints.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::contains::search_path;
use super::inspect::FileKind;
use super::site_directory::counted;
use super::{CliError, audit, checkpoints, log_read_error, print_line};
use crate::audit::Head;
use crate::cli::inspect_snapshot;
use crate::events::time;
use crate::insights::{ColumnFileError, Columns, parse_column_file_name};
use crate::log::{self, CheckReport, DamageKind, InterruptedErasure, LogError};
use crate::site::catalog::phases_file::{self, PHASES_FILE};
use crate::site::catalog::versions_file::{self, VERSIONS_FILE};
use crate::storage::disk::{Disk, RealDisk};

pub(super) const EXAMPLES: &str = "\
Verify every checksum of all snapshots, or of a log, its checkpoints, its column files, the served versions, the
phases of experiments, and the audit log (also beside a running server). Of the two newest checkpoints, the newer must be equal to the older plus the records
between them:
  parallax check snapshots/
  parallax check data/

Prove that a visitor was erased: search every byte of every file in the directory, including torn tails and void records.
The search finds the text in its plain form, in every form that JSON allows, and in the packed
form of the log. It decodes nothing else: search for a percent-encoded form separately.
  parallax check data/ --contains ana@example.com && echo erased

Prove that nothing was removed from the audit log, or changed in it, up to a head that you have kept elsewhere. Without a head,
lines at its end, and whole files at its begin, can be missing:
  parallax check data/ --audit-head 4711:HASH

Exit codes: 0 no damage, or text not found; 1 damage, or text found; 3 a file cannot be read, so nothing is proven.
The torn tail that a crash leaves at the end of a log is reported, but is not damage.
An erasure that a crash cut off is reported too.";

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// A snapshot, a segment, a checkpoint, or a directory of snapshots or of the log.
    path: PathBuf,
    /// Verify nothing, but search every byte for TEXT. Exit code 0: not found; 1: found.
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    contains: Option<String>,
    /// Prove that the audit log still has the record with this number and hash, which `parallax audit DIR --head` printed before,
    /// and all records before it. Exit code 1 if not.
    #[arg(long, value_name = "NUMBER:HASH", value_parser = audit::parse_head, conflicts_with = "contains")]
    audit_head: Option<Head>,
}

pub(super) fn check(args: &CheckArgs) -> Result<(), CliError> {
    let path = &args.path;
    if let Some(text) = &args.contains {
        return search_path(path, text);
    }
    let unseen = |error| CliError::Input(format!("{}: {error}", path.display()));
    if path.metadata().map_err(unseen)?.is_dir() {
        return check_all(path, args.audit_head);
    }
    if args.audit_head.is_some() {
        let text = format!("{} is a file; --audit-head needs the data directory", path.display());
        return Err(CliError::Usage(text));
    }
    match FileKind::detect(path)? {
        FileKind::Snapshot => summarize(check_snapshots(path)?, None, 0),
        FileKind::Segment => {
            summarize(CheckedSnapshots::default(), Some(check_log(path, log::check_file)?), 0)
        }
        FileKind::Checkpoint => summarize(CheckedSnapshots::default(), None, checkpoints::check_file(path)?),
    }
}

/// Checks all files of a directory, and prints a line for each kind and for each damaged place.
pub(super) fn check_all(directory: &Path, audit_head: Option<Head>) -> Result<(), CliError> {
    let damaged = check_state_files(directory)?;
    let audit_log = audit::check(directory, audit_head)?;
    let columns = check_column_files(directory)?;
    let refuse = |count: usize, files: &str| match count {
        0 => Ok(()),
        n => Err(CliError::Input(format!("{n} {files} are not sound"))),
    };
    let state_files = refuse(damaged, "of the files versions and phases");
    check_directory(directory).and(state_files).and(refuse(columns, "column files")).and(audit_log)
}

/// Checks the snapshots, the log and the checkpoints of a directory, and prints a line for each.
pub(super) fn check_directory(directory: &Path) -> Result<(), CliError> {
    let failed = |source| log_read_error(LogError::Io { path: directory.to_owned(), source });
    let snapshots = check_snapshots(directory)?;
    // Read the checkpoints before the log: a running server writes the log first.
    let durable_seq = checkpoints::newest_seq(directory)?;
    let log = if durable_seq > 0 || log::contains_log(&RealDisk, directory).map_err(failed)? {
        Some(check_log(directory, |disk, path| log::check_directory(disk, path, durable_seq))?)
    } else {
        None
    };
    let checkpoints = checkpoints::check_directory(directory)?;
    if snapshots.count == 0 && log.is_none() && checkpoints.is_none() {
        let shown = directory.display();
        let text = format!("nothing to check: {shown} has no snapshots, no log and no checkpoints");
        return Err(CliError::Input(text));
    }
    summarize(snapshots, log, checkpoints.unwrap_or_default())
}

/// Checks the files with the served versions and the phases of experiments of a data directory, and prints a line for
/// each that exists. Returns the number of damaged ones.
fn check_state_files(directory: &Path) -> Result<usize, CliError> {
    let path = directory.join(VERSIONS_FILE.name);
    let describe =
        |(sites, versions)| format!("{} of {}", counted(versions, "version"), counted(sites, "site"));
    let versions = versions_file::check(&path).map(|found| found.map(describe));
    let is_damaged = report(&path, versions, "`since` knows no version that was served before")?;
    let path = directory.join(PHASES_FILE.name);
    let phases = phases_file::check(&path).map(|found| found.map(|phases| counted(phases, "phase")));
    let are_damaged = report(&path, phases, "the phases of all experiments begin with the next start")?;
    Ok(usize::from(is_damaged) + usize::from(are_damaged))
}

/// Checks the column files of Insights in a data directory, and prints a line for each damaged one. Returns their
/// number.
fn check_column_files(directory: &Path) -> Result<usize, CliError> {
    let unread = |path: &Path, error: io::Error| CliError::System(format!("{}: {error}", path.display()));
    let mut names = RealDisk.list(directory).map_err(|error| unread(directory, error))?;
    names.retain(|name| parse_column_file_name(name).is_some());
    names.sort_unstable();
    let mut damaged = 0;
    for path in names.iter().map(|name| directory.join(name)) {
        match Columns::check_file(&RealDisk, &path) {
            Err(ColumnFileError::Io(error)) if error.kind() != io::ErrorKind::NotFound => {
                return Err(unread(&path, error));
            }
            Err(error @ ColumnFileError::Damaged(_)) => {
                damaged += 1;
                print_line(&format!("{}: {error}", path.display()))?;
            }
            // A running server has replaced or deleted it, or builds it again.
            Ok(()) | Err(_) => {}
        }
    }
    Ok(damaged)
}

/// Prints the result for a file: its content, its damage with the consequence of deleting it, or nothing if it is
/// missing. Returns whether it is damaged.
fn report(path: &Path, result: io::Result<Option<String>>, consequence: &str) -> Result<bool, CliError> {
    let path = path.display();
    match result {
        Ok(None) => Ok(false),
        Ok(Some(content)) => print_line(&format!("{path}: sound, {content}")).map(|()| false),
        Err(error) => print_line(&format!("{path}: {error}; delete it, and {consequence}")).map(|()| true),
    }
}

/// The snapshots of a directory.
#[derive(Default)]
struct CheckedSnapshots {
    count: usize,
    /// The number of those that are not sound.
    wrong: usize,
}

/// Checks the snapshots at `path` and prints a line for each.
fn check_snapshots(path: &Path) -> Result<CheckedSnapshots, CliError> {
    let checked = inspect_snapshot::check(path)
        .map_err(|error| CliError::Input(format!("{}: {error}", path.display())))?;
    for (file, result) in &checked {
        let (Ok(line) | Err(line)) = result;
        print_line(&format!("{}: {line}", file.display()))?;
    }
    let wrong = checked.iter().filter(|(_, result)| result.is_err()).count();
    Ok(CheckedSnapshots { count: checked.len(), wrong })
}

/// Checks a log or a segment and prints its damage. Returns the number of damaged places.
fn check_log(
    path: &Path,
    check: impl Fn(Arc<dyn Disk>, &Path) -> Result<CheckReport, LogError>,
) -> Result<usize, CliError> {
    let CheckReport {
        segments,
        batches,
        records,
        void_records: void,
        damage: damages,
        interrupted_erasure: interrupted,
    } = check(Arc::new(RealDisk), path).map_err(log_read_error)?;
    let directory = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    for finding in &damages {
        print_line(&directory.join(finding.to_string()).display().to_string())?;
    }
    if let Some(erasure) = interrupted {
        print_line(&format!("{}: {}", path.display(), describe_erasure(&erasure)))?;
    }
    let wrong = damages.iter().filter(|finding| DamageKind::is_unexpected(finding.kind)).count();
    let verdict = if wrong == 0 { "sound" } else { "damaged" };
    let void = if void == 0 { String::new() } else { format!(", {void} of them void (erased)") };
    let shown = path.display();
    print_line(&format!(
        "{shown}: {verdict}, {segments} segments, {batches} batches, {records} records{void}"
    ))?;
    Ok(wrong)
}

/// Describes an erasure that a killed server has left.
fn describe_erasure(erasure: &InterruptedErasure) -> String {
    let InterruptedErasure { seq, requested_ms, is_begun } = *erasure;
    let requested = requested_ms.map_or(String::new(), |ms| format!(", requested at {},", time::to_text(ms)));
    match is_begun {
        true => format!("an erasure with seq {seq}{requested} is not finished; the next start finishes it"),
        false => format!(
            "an erasure with seq {seq}{requested} was interrupted: the erasure was not begun; erase again"
        ),
    }
}

fn summarize(
    snapshots: CheckedSnapshots,
    damaged_place_count: Option<usize>,
    damaged_checkpoint_count: usize,
) -> Result<(), CliError> {
    let CheckedSnapshots { count: snapshots, wrong } = snapshots;
    let of_snapshots = (wrong > 0).then(|| format!("{wrong} of {snapshots} files are not sound"));
    let of_log =
        damaged_place_count.filter(|places| *places > 0).map(|n| format!("the log is damaged in {n} places"));
    let of_checkpoints = (damaged_checkpoint_count > 0)
        .then(|| format!("{damaged_checkpoint_count} checkpoints are not sound"));
    let rejections: Vec<String> = of_snapshots.into_iter().chain(of_log).chain(of_checkpoints).collect();
    if rejections.is_empty() { Ok(()) } else { Err(CliError::Input(rejections.join("; "))) }
}
