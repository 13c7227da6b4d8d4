//! The data directory at startup: who has access to it.

use std::io::ErrorKind;
use std::path::Path;

use crate::storage::access::{AccessReport, restrict_directory};

/// Gives the data directory and its files their access. Warns if others had access, or have it because the system refuses the
/// change.
pub(super) fn restrict_access(directory: &Path) {
    let AccessReport { open_to_others, failure } = match restrict_directory(directory) {
        Ok(report) => report,
        // It is created later.
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        Err(error) => AccessReport { open_to_others: 0, failure: Some((directory.to_owned(), error)) },
    };
    if open_to_others > 0 {
        tracing::warn!(
            directory = %directory.display(),
            files = open_to_others,
            "other users of this machine had access to the data directory; they have none any more"
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
