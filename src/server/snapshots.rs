//! The snapshots directory at startup: its first scan, and its watcher.

use std::collections::HashSet;

use super::{BootError, MemoryPlan};
use crate::config::Config;
use crate::site::catalog::catalog::CurrentCatalog;
use crate::site::catalog::directory::{SnapshotDirectory, StateFiles};
use crate::site::catalog::watcher::{self, WatcherHandle};
use crate::site::catalog::{phases_file, versions_file};

/// Scans the snapshots directory for the first time, after reading the versions and phases that earlier
/// processes served.
pub(super) fn scan(
    config: &Config,
    plan: &MemoryPlan,
    current_catalog: &CurrentCatalog,
    mut snapshots: SnapshotDirectory,
) -> Result<SnapshotDirectory, BootError> {
    let directory = config.snapshots_directory();
    let files = StateFiles::new(&config.data);
    let versions_bytes_max = plan.params().versions_bytes as usize;
    snapshots = snapshots.with_versions(versions_file::load(&files.versions), versions_bytes_max);
    snapshots = snapshots.with_phases(phases_file::load(&files.phases));
    let unreadable = |cause| BootError::Snapshots { directory: directory.to_owned(), cause };
    snapshots.scan(directory, &HashSet::new(), current_catalog).map_err(unreadable)?;
    if current_catalog.load().sites().is_empty() {
        tracing::warn!(
            directory = %directory.display(),
            "no valid snapshot found; every site gets 404 until one is published"
        );
    }
    Ok(snapshots)
}

/// Starts the watcher of the snapshots directory.
pub(super) fn start_watcher(
    config: &Config,
    current_catalog: &CurrentCatalog,
    snapshots: SnapshotDirectory,
) -> Result<WatcherHandle, BootError> {
    let directory = config.snapshots_directory().to_owned();
    let state_files = StateFiles::new(&config.data);
    let watcher =
        watcher::spawn(directory, snapshots, current_catalog.clone(), config.rescan_interval, state_files);
    watcher.map_err(BootError::Thread)
}
