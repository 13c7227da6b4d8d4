//! The file `replaced` of a data directory: another process has taken the name of its node over.
//!
//! The node writes it before it stops, as one line of JSON: `{"node":"node-a","position":"4711"}`, with the position of
//! the stream that it had read. A start refuses a directory with this file, unless `--take-over` is set. So a service
//! manager that starts the process again does not make two machines take the name from each other in turn.

use std::io;
use std::path::Path;

use serde_json::json;

use crate::storage;

/// Name of the file.
const REPLACED_FILE: &str = "replaced";

/// The content of the file.
pub(crate) struct ReplacedFile {
    pub(crate) name: String,
    pub(crate) position: u64,
}

impl ReplacedFile {
    /// Writes the file.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn write(&self, directory: &Path) -> io::Result<()> {
        let content = json!({ "node": self.name, "position": self.position.to_string() });
        storage::write_data_file(&directory.join(REPLACED_FILE), format!("{content}\n").as_bytes())
    }
}

/// Refuses a directory with the file, or removes the file if this process takes the name over again.
///
/// # Errors
/// The file, the cause and the remedy; or the disk fails.
pub(crate) fn check(directory: &Path, takes_over: bool) -> Result<(), String> {
    let path = directory.join(REPLACED_FILE);
    if !path.exists() {
        return Ok(());
    }
    if !takes_over {
        return Err(format!(
            "{} says that another process has taken the name of this node over; give this node another --node, or stop the other \
             one and start this one with --take-over",
            path.display()
        ));
    }
    std::fs::remove_file(&path).map_err(|error| format!("cannot remove {}: {error}", path.display()))
}

/// Stops this process as SIGTERM does.
pub(crate) fn stop_process() {
    if let Err(error) = signal_hook::low_level::raise(signal_hook::consts::SIGTERM) {
        tracing::error!(%error, "cannot stop; this node answers no visitor and acknowledges no event until it is stopped");
    }
}
