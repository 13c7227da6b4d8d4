//! Segments and checkpoints in `inspect`, which the core cannot read.

use std::path::Path;

use super::CliError;

/// Returns the error of a file of a data directory.
pub(super) fn inspect(path: &Path, _is_json: bool) -> Result<String, CliError> {
    let path = path.display();
    Err(CliError::Input(format!("{path} is a file of a data directory; show it with the program parallax")))
}
