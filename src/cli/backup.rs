//! `parallax backup`: makes a verified backup of a data directory, also beside a running server.

use std::fs;
use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Args;

use super::check::check_all;
use super::output_file::Interruption;
use super::site_directory::counted;
use super::{CliError, check_has_log, log_read_error, print_line};
use crate::backups::{
    Backup, BackupState, Copier, CopySummary, Forgotten, MakeBackupError, Target, forget_erased,
};
use crate::clock;
use crate::log::{LogError, log_id};
use crate::storage::disk::{Disk, RealDisk};
use crate::storage::write_atomic;
use crate::threads;

pub(super) const EXAMPLES: &str = "\
Make a backup each day and keep two weeks:
  parallax backup data/ /backup/parallax --keep 14
Restore the newest one to a new directory:
  parallax restore /backup/parallax/20261128T030000Z restored/

TARGET then has directories that are named after the UTC time, such as 20261128T030000Z. A directory with the ending .damaged is a
copy of a data directory with damage: the command lists the damage and exits with 1, and no backup is deleted. The ending
.incomplete is a backup from which --forget-erased has deleted files. A directory that begins with a dot was interrupted, and the
next run deletes it.

The backup has each event that was acknowledged before the command began (with --ack written: 100 ms before). An erasure waits
while the newest files are copied, which takes seconds. Put TARGET on another disk, and copy it to another machine with a program that
keeps links, such as `rsync -aH`.

Exit codes: 0 success; 1 a file may not be read, the data directory or TARGET is the wrong one, or the log is damaged; 3 a file
cannot be read or written, the disk is full, or another backup in TARGET is in progress. A signal ends the command, and the unfinished
backup is deleted.";

#[derive(Debug, Args)]
pub(super) struct BackupArgs {
    /// The data directory (serve --data). A server may be using it.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The directory of the backups. It is created if it is missing. Only the owner can read the backups.
    target: PathBuf,
    /// Delete older backups of the same log, so that N complete ones remain. Without it, none is deleted.
    #[arg(long, value_name = "N")]
    keep: Option<NonZeroUsize>,
    /// Delete from the earlier backups the segments that an erasure has rewritten since, and their checkpoints. These backups
    /// are then incomplete: `parallax restore` refuses them, and `parallax export` reads the rest.
    #[arg(long)]
    forget_erased: bool,
    /// Write the time of the complete backup to this file, in the text format of Prometheus. Its name ends with .prom, and its
    /// directory is that of the textfile collector of the node exporter. A run that fails leaves the file as it is.
    #[arg(long, value_name = "FILE")]
    textfile: Option<PathBuf>,
}

/// Interval of the looks whether a signal was received while the backup is verified.
const SIGNAL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Makes a backup. A received signal ends the process after the unfinished backup is deleted.
pub(super) fn back_up(args: &BackupArgs) -> Result<(), CliError> {
    let interruption = Interruption::default();
    let registered = interruption.register();
    registered.map_err(|error| CliError::System(format!("cannot register signal handlers: {error}")))?;
    let result = run(args, &interruption);
    interruption.end_process_if_received();
    result
}

fn run(args: &BackupArgs, interruption: &Interruption) -> Result<(), CliError> {
    let BackupArgs { directory, target, .. } = args;
    match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(to_cli_error(MakeBackupError::reading(directory, error)));
        }
        _ => check_has_log(directory)?,
    }
    let target = Target::open(target, directory).map_err(to_cli_error)?;
    let deleted = target.delete_partial().map_err(to_cli_error)?;
    if deleted > 0 {
        print_line(&format!(
            "{}: deleted {} that an interrupted run had left",
            target.path().display(),
            counted(deleted, "unfinished backup")
        ))?;
    }
    let made = make(args, &target, interruption);
    if made.is_err() {
        // The first error is reported, not this one. The next run tries again.
        let _ = target.delete_partial();
    }
    let backup = made?;
    let others = delete_older(args, &target, &backup)?;
    if backup.state == BackupState::Damaged {
        return Err(CliError::Input(format!(
            "{}: the copy is damaged, as the lines above say; run `parallax check {}` to see whether the data directory is damaged, too",
            backup.path.display(),
            directory.display()
        )));
    }
    if let Some(path) = args.textfile.as_deref() {
        write_textfile(path, &backup.path)?;
    }
    if args.forget_erased {
        let mut others = others;
        let forgotten = forget_erased(&target, &backup.path, &mut others).map_err(to_cli_error)?;
        print_forgotten(&target, forgotten)?;
    }
    Ok(())
}

/// Copies the data directory, verifies the copy and gives it its name.
fn make(args: &BackupArgs, target: &Target, interruption: &Interruption) -> Result<Backup, CliError> {
    let directory = &args.directory;
    let earlier = target.backups().map_err(to_cli_error)?;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let log_id = log_id(&disk, directory).map_err(|error| to_cli_error(error.into()))?;
    let is_previous = |backup: &&Backup| backup.state == BackupState::Complete && backup.is_of(log_id);
    let previous = earlier.iter().rfind(is_previous).map(|backup| backup.path.clone());
    let (time, partial) = target.begin(clock::now_ms()).map_err(to_cli_error)?;
    let is_stopped = || interruption.is_received();
    let mut copier = Copier::new(directory, partial.clone(), previous, &is_stopped);
    let mut summary = copier.copy(target).map_err(to_cli_error)?;
    let mut checked = verify(&partial, interruption)?;
    if checked.is_err() && copier.replace_damaged_links().map_err(to_cli_error)? > 0 {
        print_line(&format!(
            "{}: copied segments again that are damaged in the previous backup",
            partial.display()
        ))?;
        checked = verify(&partial, interruption)?;
        summary = copier.summary().map_err(to_cli_error)?;
    }
    let state = match checked {
        Ok(()) => BackupState::Complete,
        Err(CliError::Input(_)) => BackupState::Damaged,
        Err(error) => return Err(error),
    };
    let path = target.finish(&time, &partial, state).map_err(to_cli_error)?;
    print_summary(&path, state, summary)?;
    Ok(Backup { time, path, state, log_id })
}

/// Verifies a copy. The inner result is that of `parallax check`.
fn verify(path: &Path, interruption: &Interruption) -> Result<Result<(), CliError>, CliError> {
    thread::scope(|scope| {
        let checking = threads::spawn_scoped(scope, "check", || check_all(path, None));
        let checking =
            checking.map_err(|error| CliError::System(format!("cannot start a thread: {error}")))?;
        while !checking.is_finished() {
            if interruption.is_received() {
                // A file that remains is deleted by the next run.
                let _ = fs::remove_dir_all(path);
                interruption.end_process_if_received();
            }
            thread::sleep(SIGNAL_POLL_INTERVAL);
        }
        checking
            .join()
            .map_err(|_| CliError::System("the verification of the backup has panicked".to_owned()))
    })
}

/// Deletes the older backups that `--keep` does not keep, and damaged ones, which the present one replaces. Returns the earlier
/// backups of the same log that remain.
fn delete_older(args: &BackupArgs, target: &Target, made: &Backup) -> Result<Vec<Backup>, CliError> {
    let mut backups = target.backups().map_err(to_cli_error)?;
    backups.retain(|backup| backup.is_of(made.log_id) && backup.time < made.time);
    let is_complete = |backup: &&Backup| backup.state == BackupState::Complete;
    // A damaged copy replaces no sound one.
    let keep = args.keep.filter(|_| made.state == BackupState::Complete);
    let oldest = keep.and_then(|keep| match keep.get() - 1 {
        0 => Some(made.time.clone()),
        more => backups.iter().rev().filter(is_complete).nth(more - 1).map(|backup| backup.time.clone()),
    });
    let is_unneeded = |backup: &Backup| {
        backup.state == BackupState::Damaged || oldest.as_ref().is_some_and(|oldest| backup.time < *oldest)
    };
    for backup in backups.iter().filter(|backup| is_unneeded(backup)) {
        target.delete(backup).map_err(to_cli_error)?;
        print_line(&format!("{}: deleted", backup.path.display()))?;
    }
    backups.retain(|backup| !is_unneeded(backup));
    Ok(backups)
}

fn print_summary(path: &Path, state: BackupState, summary: CopySummary) -> Result<(), CliError> {
    let CopySummary { files, copied_bytes, linked_files } = summary;
    let state = if state == BackupState::Complete { "complete" } else { "damaged" };
    print_line(&format!(
        "{}: {state}, {}, copied {copied_bytes} bytes, linked {}",
        path.display(),
        counted(files, "file"),
        counted(linked_files, "unchanged segment")
    ))
}

fn print_forgotten(target: &Target, forgotten: Forgotten) -> Result<(), CliError> {
    if forgotten.files == 0 {
        return Ok(());
    }
    print_line(&format!(
        "{}: deleted {} with erased visitors; {} incomplete now",
        target.path().display(),
        counted(forgotten.files, "file"),
        match forgotten.backups {
            1 => "1 earlier backup is".to_owned(),
            n => format!("{n} earlier backups are"),
        }
    ))
}

/// Writes the time of the backup for the node exporter.
fn write_textfile(path: &Path, backup_path: &Path) -> Result<(), CliError> {
    let now = clock::now_s();
    let text = format!(
        "# HELP {METRIC} Time of the end of the last complete backup, in seconds since 1970.\n# TYPE {METRIC} gauge\n{METRIC} {now}\n"
    );
    write_atomic(path, text.as_bytes()).map_err(|error| {
        CliError::System(format!(
            "{}: the backup is complete, but --textfile {} cannot be written: {error}",
            backup_path.display(),
            path.display()
        ))
    })
}

const METRIC: &str = "parallax_backup_completed_timestamp_seconds";

fn to_cli_error(error: MakeBackupError) -> CliError {
    let text = error.to_string();
    match error {
        MakeBackupError::Nested { .. }
        | MakeBackupError::Unreadable { .. }
        | MakeBackupError::NoSecret { .. } => CliError::Input(text),
        MakeBackupError::Log(LogError::Io { path, source })
            if source.kind() == ErrorKind::PermissionDenied =>
        {
            CliError::Input(MakeBackupError::reading(&path, source).to_string())
        }
        MakeBackupError::Log(error) => log_read_error(error),
        MakeBackupError::Locked { .. }
        | MakeBackupError::Erasing { .. }
        | MakeBackupError::NoSpace { .. }
        | MakeBackupError::TooSlow { .. }
        | MakeBackupError::Interrupted
        | MakeBackupError::Copy { .. }
        | MakeBackupError::Io { .. } => CliError::System(text),
    }
}
