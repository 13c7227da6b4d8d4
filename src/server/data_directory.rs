//! The data directory at startup: the access to it, and the log that it must have.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::log::LogId;
use crate::storage::access::{AccessReport, restrict_directory};
use crate::storage::{open_regular, write_data_file};

/// Bytes that are read of a note. An ID and a line end take 33.
const NOTE_BYTES_MAX: u64 = 64;

/// Gives the data directory and its files their access. Warns if others had access, or have it because the system refuses the
/// change.
pub(super) fn restrict_access(directory: &Path) {
    let AccessReport { open_to_others, closed_to_group, failure } = match restrict_directory(directory) {
        Ok(report) => report,
        // It is created later.
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        Err(error) => {
            AccessReport { failure: Some((directory.to_owned(), error)), ..AccessReport::default() }
        }
    };
    if open_to_others > 0 {
        tracing::warn!(
            directory = %directory.display(),
            files = open_to_others,
            "other users of this machine had access to the data directory; they have none any more"
        );
    }
    if closed_to_group > 0 {
        tracing::info!(
            directory = %directory.display(),
            files = closed_to_group,
            "a group had access to the data directory; it has none any more, unless --data-group names it"
        );
    }
    if let Some((path, error)) = failure {
        tracing::warn!(
            path = %path.display(),
            %error,
            "cannot restrict the access to the data directory; give it to the server's user, and let other users have no access"
        );
    }
}

/// Warns if the directory has no log, or another one than at the last start: a disk that is not mounted looks like an empty
/// directory. `log_id` is the ID of the log in it.
pub(super) fn check_expected_log(directory: &Path, log_id: Option<LogId>) {
    let Some(note) = note_path(directory) else { return };
    let Some(expected) = read_note(&note) else { return };
    let directory = directory.display();
    let note = note.display();
    match log_id {
        Some(found) if found == expected => {}
        Some(found) => tracing::warn!(
            %directory, %found, %expected, %note,
            "the data directory has another log than at the last start; check --data and the mounted disks"
        ),
        None => tracing::warn!(
            %directory, %expected, %note,
            "the data directory has no log, but had one at the last start; check --data and the mounted disks"
        ),
    }
}

/// Notes the ID of the log beside its directory, for the next start.
pub(super) fn note_log(directory: &Path, log_id: LogId) {
    let Some(note) = note_path(directory).filter(|note| read_note(note) != Some(log_id)) else { return };
    if let Err(error) = write_data_file(&note, format!("{log_id}\n").as_bytes()) {
        tracing::info!(note = %note.display(), %error, "cannot note the ID of the log; a start cannot tell a lost disk from an empty one");
    }
}

/// Returns the path of the note about a directory. It is beside the directory, so it stays when the disk is not mounted.
/// Without a name, as `/` is, a directory has none.
fn note_path(directory: &Path) -> Option<PathBuf> {
    let name = directory.file_name()?.to_str()?;
    Some(directory.with_file_name(format!(".{name}.log-id")))
}

/// Reads the ID in a note. A missing or damaged note expects nothing.
fn read_note(path: &Path) -> Option<LogId> {
    let (file, _) = open_regular(path).ok()?;
    let mut text = String::new();
    file.take(NOTE_BYTES_MAX).read_to_string(&mut text).ok()?;
    LogId::parse(text.trim())
}
