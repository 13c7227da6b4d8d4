//! The served catalog: watches `snapshots/`, selects one snapshot per site, and publishes the selection to
//! all workers.

pub(crate) mod catalog;
pub(crate) mod directory;
pub(crate) mod files;
pub(crate) mod phases;
pub(crate) mod phases_file;
mod snapshot_file;
pub(crate) mod state_file;
pub(crate) mod versions;
pub(crate) mod versions_file;
pub(crate) mod watcher;
