//! `parallax restore`: verifies a backup of a data directory and copies it. Erases the visitors that were erased later.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::check::check_directory;
use super::site_directory::counted;
use super::{CliError, log_read_error, print_line};
use crate::events::time;
use crate::log::{self, LogError};
use crate::storage::disk::{Disk, RealDisk};
use crate::visitors::backup::{self, BackupError, RestoreSummary};
use crate::visitors::erasure_list::{ErasureList, ListError};

pub(super) const EXAMPLES: &str = "\
Restore a backup, which `cp -r` made, also beside a running server, and serve it:
  parallax restore backup/ data/ --erasures /backup/erasures
  parallax serve --data data/

The restored log has an ID of its own, so an export that continues with a position of the old one fails.
Visitors who were erased after the backup was made are in it. With --erasures they are erased again. Without it, the
command says since which day erased visitors may be back.

Exit codes: 0 success; 1 the backup or the list of erasures is damaged or of another log, or DIR is not empty; 3 a file cannot be
read or written.";

#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    /// A copy of a data directory.
    backup: PathBuf,
    /// The directory to create, the --data of a server. It is empty or does not exist.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The list of the erasures of the log, which `parallax erasures` wrote. Those that the backup lacks are carried out. A
    /// list of another log is an error.
    #[arg(long, value_name = "FILE")]
    erasures: Option<PathBuf>,
}

/// A list of erasures, and its file.
type ListFile<'f> = (&'f Path, ErasureList);

pub(super) fn restore(args: &RestoreArgs) -> Result<(), CliError> {
    let RestoreArgs { backup, directory, erasures } = args;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let failed = |source| log_read_error(LogError::Io { path: backup.clone(), source });
    let list = erasures.as_deref().map(read_list).transpose()?;
    if !log::contains_log(&*disk, backup).map_err(failed)? {
        return Err(CliError::Input(format!("{} contains no segment of a log", backup.display())));
    }
    check_directory(backup)?;
    let of_list = list.as_ref().map(|(_, list)| list);
    let restored = backup::restore(&disk, backup, directory, of_list)
        .map_err(|error| to_cli_error(error, erasures.as_deref()))?;
    print_erasures(directory, &restored, list.as_ref())?;
    let RestoreSummary { log_id, files, bytes, .. } = restored;
    print_line(&format!(
        "{}: restored {files} files, {bytes} bytes; the new log has the ID {log_id}",
        directory.display()
    ))
}

fn read_list(path: &Path) -> Result<ListFile<'_>, CliError> {
    let name = path.display();
    let bytes = fs::read(path)
        .map_err(|error| CliError::System(format!("cannot read the list of erasures {name}: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| ListError::Damaged("it is not UTF-8".to_owned()));
    let list = text.and_then(|text| ErasureList::from_text(&text));
    let list = list.map_err(|error| CliError::Input(format!("cannot use --erasures {name}: {error}")))?;
    Ok((path, list))
}

fn to_cli_error(error: BackupError, erasures_path: Option<&Path>) -> CliError {
    let text = error.to_string();
    let file = erasures_path.map(Path::display);
    match error {
        BackupError::OtherLog { .. } | BackupError::OtherSecret => CliError::Input(format!(
            "cannot use --erasures {}: {text}; give the list that was made of the log of this backup",
            file.map_or(String::new(), |file| file.to_string())
        )),
        BackupError::NotEmpty { .. } | BackupError::OfNode { .. } => CliError::Input(text),
        BackupError::Log(error) => log_read_error(error),
        BackupError::Unfinished { .. } | BackupError::Io { .. } => CliError::System(text),
    }
}

/// Prints the erasures that were carried out, and since when erased visitors may be back.
fn print_erasures(
    directory: &Path,
    summary: &RestoreSummary,
    list_file: Option<&ListFile<'_>>,
) -> Result<(), CliError> {
    let name = directory.display();
    if let Some(erased) = summary.erased {
        let records = counted(erased.records as usize, "record");
        let missing = counted(summary.missing_tombstones, "tombstone");
        print_line(&format!(
            "{name}: appended {missing} that the backup lacked; erased {records}, and IDs in {} of other visitors",
            erased.redacted
        ))?;
    }
    let day = |ms: i64| time::to_text(ms).chars().take(DAY_CHARS).collect::<String>();
    let since = summary.last_received_ms.map_or("at any time".to_owned(), |ms| {
        format!("since {} (UTC), the day of the last record in the backup,", day(ms))
    });
    if summary.is_of_node {
        return print_line(&format!(
            "{name}: visitors who were erased {since} are in it until the node starts, which carries out the erasures of its \
             cluster of the last 90 days"
        ));
    }
    let Some((path, list)) = list_file else {
        return print_line(&format!(
            "{name}: visitors who were erased {since} may be back; restore the backup again with --erasures FILE, a list that \
             `parallax erasures` wrote later, or erase them again"
        ));
    };
    let path = path.display();
    if list.first_seq > summary.last_seq + 1 {
        print_line(&format!(
            "{name}: visitors who were erased {since} may be back if their erasure has a seq before {}: retention had deleted these \
             tombstones before {path} was made; erase them again",
            list.first_seq
        ))?;
    }
    let known_ms = summary.last_received_ms.map_or(list.made_ms, |ms| ms.max(list.made_ms));
    print_line(&format!(
        "{name}: visitors who were erased after {}, which {path} does not have, may be back; erase them again",
        time::to_text(known_ms)
    ))
}

/// Characters of a date in a time of RFC 3339.
const DAY_CHARS: usize = 10;
