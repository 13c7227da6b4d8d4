//! A file in `snapshots/`. A damaged content does not replace a valid one.

use std::path::Path;
use std::sync::Arc;

use super::super::snapshot::open::{Snapshot, SnapshotBudget, SnapshotError};
use super::accepted::AcceptedTrackingIds;
use crate::storage::{self, FileStamp};

/// A file in `snapshots/`, and the last valid snapshot of its name.
#[derive(Default)]
pub(super) struct SnapshotFile {
    /// Stamp of the content that was read last. `None` makes the next scan read the file again.
    pub stamp: Option<FileStamp>,
    /// The length at the last scan; `None` if the file could not be read.
    pub bytes: Option<u64>,
    pub last_valid: Option<Arc<Snapshot>>,
    pub rejection: Option<String>,
    /// Stamp of a file that was incomplete at the last scan. It may still be being copied.
    pub incomplete: Option<FileStamp>,
}

impl SnapshotFile {
    /// Reads the file again if it has changed.
    pub(super) fn refresh(&mut self, path: &Path, budget: &SnapshotBudget, accepted: &AcceptedTrackingIds) {
        let stamp = match storage::read_stamp(path) {
            Ok(stamp) => stamp,
            // A dangling link, or a file that was removed after the listing.
            Err(error) => {
                self.stamp = None;
                self.bytes = None;
                return self.reject(SnapshotError::Unreadable(error).to_string());
            }
        };
        self.bytes = Some(stamp.length);
        if self.stamp == Some(stamp) {
            return;
        }
        let opened = storage::open_regular(path)
            .map_err(SnapshotError::from)
            .and_then(|(mut file, opened)| Snapshot::open_file(&mut file, opened.length, budget))
            .and_then(|snapshot| accepted.check(snapshot));
        let grows = self.incomplete.take() != Some(stamp);
        self.stamp = Some(stamp);
        match opened {
            Ok(snapshot) => {
                self.rejection = None;
                let is_known = self.last_valid.as_ref().is_some_and(|kept| kept.hash() == snapshot.hash());
                if !is_known {
                    self.last_valid = Some(Arc::new(snapshot));
                }
            }
            Err(SnapshotError::Incomplete { .. }) if grows => {
                self.incomplete = Some(stamp);
                self.stamp = None;
            }
            // The same content is already in memory, and there is no memory for a second copy. It needs none.
            Err(SnapshotError::BudgetExceeded { .. })
                if self.last_valid.as_ref().is_some_and(|kept| kept.matches_header_at(path)) =>
            {
                self.rejection = None;
            }
            Err(refusal) => {
                if matches!(refusal, SnapshotError::BudgetExceeded { .. } | SnapshotError::Unreadable(_)) {
                    // The content is not at fault, so every scan tries again.
                    self.stamp = None;
                }
                self.reject(refusal.to_string());
            }
        }
    }

    /// Returns the reason why the present content is not served.
    pub(super) fn refusal(&self) -> Option<&str> {
        let incomplete = self.incomplete.map(|_| "the file is incomplete; it may still be being copied");
        self.rejection.as_deref().or(incomplete)
    }

    fn reject(&mut self, rejection: String) {
        self.rejection = Some(rejection);
    }
}
