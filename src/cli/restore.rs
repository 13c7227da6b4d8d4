//! `parallax restore`: verifies a backup of a data directory and copies it.

use std::path::PathBuf;

use clap::Args;

use super::check::check_directory;
use super::{CliError, log_read_error, print_line};
use crate::storage::disk::RealDisk;
use crate::visitors::backup::{self, BackupError, RestoreSummary};
use crate::visitors::log::{self, LogError};

pub(super) const EXAMPLES: &str = "\
Restore a backup, which `cp -r` made, also beside a running server, and serve it:
  parallax restore backup/ data/
  parallax serve --data data/

The restored log has an ID of its own, so an export that continues with the ID of the old one fails.
Visitors who were erased after the backup was made are in it. Erase them again.

Exit codes: 0 success; 1 the backup is damaged or has no log, or DIR is not empty; 3 a file cannot be read or written.";

#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    /// A copy of a data directory.
    backup: PathBuf,
    /// The directory to create, the --data of a server. It is empty or does not exist.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(super) fn restore(args: &RestoreArgs) -> Result<(), CliError> {
    let RestoreArgs { backup, directory } = args;
    let failed = |source| log_read_error(LogError::Io { path: backup.clone(), source });
    if !log::contains_log(&RealDisk, backup).map_err(failed)? {
        return Err(CliError::Input(format!("{} contains no segment of a log", backup.display())));
    }
    check_directory(backup)?;
    let restored = backup::restore(&RealDisk, backup, directory).map_err(|error| match error {
        BackupError::NotEmpty { .. } => CliError::Input(error.to_string()),
        BackupError::Io { .. } => CliError::System(error.to_string()),
    })?;
    let RestoreSummary { log_id, files, bytes } = restored;
    print_line(&format!(
        "{}: restored {files} files, {bytes} bytes; the new log has the ID {log_id}",
        directory.display()
    ))
}
