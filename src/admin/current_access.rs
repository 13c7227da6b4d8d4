//! The access of a running server, which reads its file again.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::access::AccessFile;
use crate::config::access::read_access_file;
use crate::storage::{FileStamp, read_stamp};

/// Entries whose changes have a line in the audit log after one reading. A larger change has the number of all in its first line.
const CHANGES_LISTED_MAX: usize = 50;

/// A new reading of the file.
pub(crate) struct AccessChange {
    /// False if the file is at fault.
    pub(crate) is_used: bool,
    /// The texts of the lines in the audit log.
    pub(crate) details: Vec<String>,
}

/// The access in use, and its file.
#[derive(Debug, Default)]
pub(crate) struct CurrentAccess {
    /// `None` without `--access`.
    path: Option<PathBuf>,
    current: ArcSwap<AccessFile>,
    /// The file that was read last, also if it was at fault. `None` if there was no file.
    stamp: Mutex<Option<FileStamp>>,
}

impl CurrentAccess {
    /// Reads the file of `--access`, if there is one.
    ///
    /// # Errors
    /// The file cannot be used.
    pub(crate) fn read(path: Option<PathBuf>) -> Result<Self, String> {
        let Some(path) = path else { return Ok(Self::default()) };
        let stamp = Mutex::new(read_stamp(&path).ok());
        let file = read_access_file(&path)?;
        let [tokens, users, groups] = file.counts();
        tracing::info!(path = %path.display(), tokens, users, groups, "read the access file");
        let current = ArcSwap::from_pointee(file);
        Ok(Self { path: Some(path), current, stamp })
    }

    /// Returns whether the server has such a file.
    pub(crate) fn is_configured(&self) -> bool {
        self.path.is_some()
    }

    /// Returns the access in use.
    pub(crate) fn load(&self) -> Arc<AccessFile> {
        self.current.load_full()
    }

    /// Reads the file again if it has changed since. Returns the change.
    pub(crate) fn reload_if_changed(&self) -> Option<AccessChange> {
        let path = self.path.as_ref()?;
        let stamp = read_stamp(path).ok();
        let mut last = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
        let has_changed = std::mem::replace(&mut *last, stamp) != stamp;
        has_changed.then(|| self.reload()).flatten()
    }

    /// Reads the file again. After a fault the access in use stays. Returns the change, or `None` without `--access`.
    pub(crate) fn reload(&self) -> Option<AccessChange> {
        let path = self.path.as_ref()?;
        match read_access_file(path) {
            Ok(file) => {
                let [tokens, users, groups] = file.counts();
                tracing::info!(tokens, users, groups, "read the access file again");
                let changes = file.changes_since(&self.load());
                let digest = file.digest();
                let summary = format!(
                    "access file: digest={digest} tokens={tokens} users={users} groups={groups} changes={}",
                    changes.len()
                );
                let details =
                    [summary].into_iter().chain(changes.into_iter().take(CHANGES_LISTED_MAX)).collect();
                self.current.store(Arc::new(file));
                Some(AccessChange { is_used: true, details })
            }
            Err(error) => {
                tracing::warn!("{error}; the access in use stays");
                let details = vec!["access file: refused, the access in use stays".to_owned()];
                Some(AccessChange { is_used: false, details })
            }
        }
    }
}
