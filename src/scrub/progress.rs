//! The file `scrub`: the progress of the scrub and the damage that the server knows, so that a restart neither begins
//! again nor hides the damage.
//!
//! It is JSON, and is replaced as a whole. It decides nothing else: without it the pass begins again.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::limits::scrub::SCRUB_PROGRESS_BYTES_MAX;
use crate::log::SCRUB_FILE;
use crate::storage::disk::{Disk, append_all, read_full};

/// Temporary name of the file. Other writers of the directory have names of their own.
const TEMPORARY_FILE: &str = ".scrub";

/// The progress of the scrub. Times are Unix milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Progress {
    /// The start of the last pass. `None` before the first one.
    pub started_ms: Option<i64>,
    /// The end of the last complete pass.
    pub completed_ms: Option<i64>,
    /// The name of the last file that the pass has read. `None` if no pass is under way.
    pub read_up_to: Option<String>,
    /// The known damage: the name of a file and an offset in it.
    pub damage: Vec<(String, u64)>,
}

/// Reads the progress. `None` if there is no file.
///
/// # Errors
/// The file is damaged, or cannot be read.
pub(super) fn load(disk: &dyn Disk, dir: &Path) -> io::Result<Option<Progress>> {
    let file = match disk.open(&dir.join(SCRUB_FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let length = file.length()?;
    if length > SCRUB_PROGRESS_BYTES_MAX {
        let text = format!("expected at most {SCRUB_PROGRESS_BYTES_MAX} bytes, got {length}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let mut bytes = vec![0; length as usize];
    let read = read_full(&*file, &mut bytes, 0)?;
    Ok(Some(serde_json::from_slice(&bytes[..read])?))
}

/// Replaces the file.
///
/// # Errors
/// The first I/O error.
pub(super) fn save(disk: &dyn Disk, dir: &Path, progress: &Progress) -> io::Result<()> {
    let temporary = dir.join(TEMPORARY_FILE);
    let path = dir.join(SCRUB_FILE);
    match disk.unlink(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = disk.create(&temporary)?;
    append_all(&mut *file, &serde_json::to_vec(progress)?)?;
    file.sync_data()?;
    disk.rename(&temporary, &path)?;
    disk.sync_directory(dir)
}
