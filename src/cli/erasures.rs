//! `parallax erasures`: writes the list of the erasures of a log, for the restore of an older backup.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::site_directory::counted;
use super::{CliError, check_has_log, log_read_error, output_error, print_line};
use crate::clock::{Clock, SystemClock};
use crate::log::LogError;
use crate::storage::AtomicFile;
use crate::storage::disk::{Disk, RealDisk};
use crate::visitors::backup::{BackupError, is_of_node};
use crate::visitors::erasure_list::{ErasureList, UnlistedError};

pub(super) const EXAMPLES: &str = "\
Keep the list beside the backups, but not in the data directory. Write it again after each erasure, or every hour:
  parallax erasures data/ -o /backup/erasures

A backup has the visitors that were erased after it. Restore it with the list, and they are erased again:
  parallax restore /backup/monday/ data/ --erasures /backup/erasures

The list has the ID of the log, and of each erasure the seq, the time, the site and digests of the erased IDs, but no ID. The
digests are of use only with the file `secret` of the data directory. Only the owner can read the list. Protect it as the data.

Exit codes: 0 success; 1 no log in the directory, or damage that may hide erasures; 3 a file cannot be read or written.";

#[derive(Debug, Args)]
pub(super) struct ErasuresArgs {
    /// The directory of the log (serve --data). A server may be using it.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The file to write. It replaces the list of before when it is complete. Only its owner can read it.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

pub(super) fn write_list(args: &ErasuresArgs) -> Result<(), CliError> {
    let ErasuresArgs { directory, output } = args;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let failed = |source| log_read_error(LogError::Io { path: directory.clone(), source });
    check_has_log(directory)?;
    if is_of_node(&*disk, directory).map_err(failed)? {
        return Err(CliError::Input(BackupError::OfNode { dir: directory.clone() }.to_string()));
    }
    let listed = ErasureList::of_log(&disk, directory, SystemClock::new().now_ms());
    let (list, damage) = listed.map_err(|error| match error {
        UnlistedError::Log(error) => log_read_error(error),
        reason => CliError::Input(format!("{}: {reason}", directory.display())),
    })?;
    let written = AtomicFile::create_private(output).and_then(|mut file| {
        file.write_all(list.to_text().as_bytes())?;
        file.commit()
    });
    written.map_err(|error| output_error(output, &error))?;
    let shown = output.display();
    let tombstones = counted(list.tombstones.len(), "tombstone");
    print_line(&format!("{shown}: {tombstones} of the log {}, up to seq {}", list.log_id, list.last_seq))?;
    for finding in &damage {
        print_line(&directory.join(finding.to_string()).display().to_string())?;
    }
    match damage.len() {
        0 => Ok(()),
        n => Err(CliError::Input(format!(
            "the log is damaged in {n} places, which may hide erasures; the list has the other ones"
        ))),
    }
}
