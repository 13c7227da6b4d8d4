//! Waits for changes in a site directory, for `parallax dev`.
//!
//! inotify reports files that are written in place, renamed into their place or created in a new directory.
//! The caller reads the directory again after each wait and compares. So an event without a change costs one
//! reading, and a wait that ends without an event finds the changes that inotify cannot report: those of a
//! link's target, and those of another machine on a network file system.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use notify::{Config, RecommendedWatcher, RecursiveMode, Watcher};

use crate::clock;
use crate::site::inotify;

/// Pause after an event until the wait ends, so that an editor that saves in several steps causes one reading.
const SETTLE_DELAY: Duration = Duration::from_millis(50);
/// Longest pause after the first event of a burst.
const SETTLE_MAX: Duration = Duration::from_millis(500);

/// A watcher of a site directory and of the directories in it.
pub(crate) struct SourceWatcher {
    directory: PathBuf,
    /// `None` if inotify is unavailable. Then each wait takes its full time.
    watcher: Option<RecommendedWatcher>,
    events: Receiver<notify::Result<notify::Event>>,
}

impl SourceWatcher {
    pub(crate) fn new(directory: PathBuf) -> Self {
        let (sender, events) = channel();
        let send = move |event| {
            // Sending fails only while the watcher is dropped.
            let _ = sender.send(event);
        };
        // A link can lead to a directory of any size. The reading of the files notices changes there.
        let watcher = inotify::watcher(send, Config::default().with_follow_symlinks(false));
        Self { directory, watcher: watcher.ok(), events }
    }

    /// Watches the directory from now on. Called before each reading, so that a change during the reading ends
    /// the next wait, and so that a directory that was replaced is watched again.
    pub(crate) fn watch(&mut self) {
        if let Some(watcher) = &mut self.watcher {
            // A directory that does not exist yet is watched after the next wait.
            let _ = watcher.watch(&self.directory, RecursiveMode::Recursive);
        }
    }

    /// Waits for a change for at most `timeout`, and then until no more changes follow within the settle delay.
    pub(crate) fn wait(&self, timeout: Duration) {
        let mut until = clock::instant() + timeout;
        let mut latest = None;
        while let Ok(event) = self.events.recv_timeout(until.saturating_duration_since(clock::instant())) {
            if is_change(&event) {
                let now = clock::instant();
                until = (now + SETTLE_DELAY).min(*latest.get_or_insert(now + SETTLE_MAX));
            }
        }
        // Without inotify the channel is closed, so that only the time can end this wait. Otherwise no time is left.
        std::thread::sleep(until.saturating_duration_since(clock::instant()));
    }
}

/// Returns whether an event can mean another content. Reading the files causes access events.
fn is_change(event: &notify::Result<notify::Event>) -> bool {
    use notify::event::{AccessKind, AccessMode, EventKind};
    match event {
        Ok(event) => match event.kind {
            EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
            _ => true,
        },
        Err(_) => true,
    }
}
