//! The served catalog: watches `snapshots/`, selects one snapshot per site, and publishes the selection to all workers.

pub mod catalog;
pub mod directory;
pub mod versions;
pub mod watcher;
