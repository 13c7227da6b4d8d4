//! A source of snapshots: the state that it reports, and the operations that the puller needs.

use std::collections::BTreeSet;
use std::time::Duration;

use super::list::SourceFile;
use super::mirror::Download;

/// The files that are gone from a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Removed {
    /// All that the list lacks.
    Unlisted,
    /// These, for which the source has delete markers.
    Marked(BTreeSet<String>),
}

/// The content of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceState {
    pub(super) files: Vec<SourceFile>,
    pub(super) removed: Removed,
}

/// A place that has the published snapshots.
pub(super) trait Source {
    /// Returns the next state. `None` if the state is the same after `wait`.
    ///
    /// # Errors
    /// The source does not answer, or its answer is not valid.
    async fn next(&mut self, wait: Duration) -> Result<Option<SourceState>, String>;

    /// Writes the content of a file into `download`.
    ///
    /// # Errors
    /// The source does not deliver it, or the disk refuses it.
    async fn fetch(&mut self, download: Download) -> Result<Download, String>;
}

/// Runs an operation on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    operation: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(operation)
        .await
        .unwrap_or_else(|error| Err(format!("an operation of the puller ended: {error}")))
}
