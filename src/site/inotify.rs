//! Creates the watchers of directories.

use notify::{Config, EventHandler, RecommendedWatcher, Watcher};

/// Creates a watcher, whose thread passes each event to `handler`.
///
/// # Errors
/// inotify is unavailable, or the system does not start the thread.
pub(super) fn watcher(handler: impl EventHandler, config: Config) -> notify::Result<RecommendedWatcher> {
    let mut watcher = RecommendedWatcher::new(handler, config)?;
    // `notify` ignores that its thread was not started. Then each later call panics, and so does its `drop`.
    if let Err(error) = watcher.configure(config) {
        std::mem::forget(watcher);
        return Err(error);
    }
    Ok(watcher)
}
