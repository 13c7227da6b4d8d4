//! The served catalog: watches `snapshots/`, selects one snapshot per site, and publishes the selection to
//! all workers.

#[cfg(feature = "server")]
pub mod accepted;
pub mod catalog;
#[cfg(feature = "server")]
pub mod directory;
#[cfg(feature = "server")]
pub mod files;
pub mod phases;
#[cfg(feature = "server")]
pub mod phases_file;
#[cfg(feature = "server")]
mod snapshot_file;
pub(crate) mod snapshot_names;
#[cfg(feature = "server")]
pub(crate) mod state_file;
pub mod versions;
#[cfg(feature = "server")]
pub mod versions_file;
#[cfg(feature = "server")]
pub(crate) mod watcher;
