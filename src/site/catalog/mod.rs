//! The served catalog: watches `snapshots/`, selects one snapshot per site, and publishes the selection to
//! all workers.

pub mod accepted;
pub mod catalog;
pub mod directory;
pub mod files;
pub mod phases;
pub mod phases_file;
mod snapshot_file;
pub(crate) mod state_file;
pub mod versions;
pub mod versions_file;
pub(crate) mod watcher;
