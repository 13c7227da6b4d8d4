//! The watcher thread of `snapshots/`. inotify triggers scans, and a slow periodic scan finds anything that
//! it misses.
//!
//! Requests never wait for this thread. It prepares a complete catalog and swaps one pointer.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use notify::{RecursiveMode, Watcher};

use super::catalog::CurrentCatalog;
use super::directory::{SnapshotDirectory, StateFiles};
use crate::clock;
use crate::site::inotify;
use crate::threads;

/// Pause between an event and the scan, so that a burst of events causes one scan.
const SETTLE_DELAY: Duration = Duration::from_millis(20);
/// Longest pause between the first event of a burst and the scan.
const SETTLE_MAX: Duration = Duration::from_millis(200);
/// Pause before an incomplete file is read again.
const INCOMPLETE_RETRY: Duration = Duration::from_millis(250);
/// Pause after a scan, as a multiple of the scan's time, so that a directory of 100,000 files costs a tenth
/// of a core.
const REST_FACTOR: u32 = 9;
/// Longest time between two scans if inotify is unavailable, so that publishing takes effect within a second.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A message that ends the watcher's pause.
enum Message {
    /// An event from inotify.
    Event(notify::Result<notify::Event>),
    /// The administrator asks for a scan (SIGHUP).
    Rescan,
}

/// The files that the next scan reads again even if their stamps are the same.
#[derive(Default)]
struct ScanRequest {
    /// File names from events.
    touched: HashSet<OsString>,
    /// True if the scan reads all files again.
    rescan_all: bool,
}

/// A handle to send requests to the watcher, and to wake the threads that it wakes.
pub(crate) struct WatcherHandle {
    messages: Sender<Message>,
    current: CurrentCatalog,
}

impl WatcherHandle {
    /// Starts a scan now that reads every file again.
    pub(crate) fn rescan_all(&self) {
        // Sending fails only if the watcher panicked, which was logged then.
        let _ = self.messages.send(Message::Rescan);
    }

    /// Wakes the workers, as after a publication.
    pub(crate) fn wake_workers(&self) {
        self.current.wake_all();
    }
}

/// Starts the watcher of a directory, which runs until the process ends. The caller has made the first scan. The
/// watcher saves the served versions and the phases of experiments in `state_files`, after it has published them.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn spawn(
    dir: PathBuf,
    mut snapshots: SnapshotDirectory,
    current_catalog: CurrentCatalog,
    rescan_interval: Duration,
    mut state_files: StateFiles,
) -> std::io::Result<WatcherHandle> {
    let (sender, calls) = channel();
    let handle = WatcherHandle { messages: sender.clone(), current: current_catalog.clone() };
    let events = sender;
    let send = move |event| {
        // Sending fails if the thread could not be started.
        let _ = events.send(Message::Event(event));
    };
    let watcher = inotify::watcher(send, notify::Config::default());
    threads::spawn("watcher", move || {
        let mut watcher = watcher
            .inspect_err(|error| {
                tracing::warn!(
                    directory = %dir.display(),
                    %error,
                    "inotify is unavailable; polling the snapshots directory"
                );
            })
            .ok();
        let mut trouble = None;
        let mut buffered = ScanRequest::default();
        loop {
            // Register the watch again on each iteration, in case the directory itself was replaced. Do it
            // before the scan, so that changes that the scan misses still raise an event.
            let watched =
                watcher.as_mut().is_some_and(|w| w.watch(&dir, RecursiveMode::NonRecursive).is_ok());
            let begun = clock::instant();
            if buffered.rescan_all {
                snapshots.invalidate_stamps();
            }
            let scanned = snapshots.scan(&dir, &buffered.touched, &current_catalog);
            log_scan_error(&dir, scanned.err().map(|error| error.to_string()), &mut trouble);
            let pause = match watched {
                _ if snapshots.has_incomplete_files() => INCOMPLETE_RETRY,
                true => rescan_interval,
                false => POLL_INTERVAL.min(rescan_interval),
            }
            .max((clock::instant() - begun) * REST_FACTOR);
            snapshots.save_state(&mut state_files);
            buffered = wait_for_changes(&calls, pause);
        }
    })?;
    Ok(handle)
}

/// Logs the error that prevents reading the directory, once for as long as it lasts.
fn log_scan_error(dir: &Path, current_error: Option<String>, last_error: &mut Option<String>) {
    match &current_error {
        Some(error) if current_error != *last_error => {
            tracing::error!(
                directory = %dir.display(),
                error,
                "cannot read the snapshots directory; keeping the served sites"
            );
        }
        None if last_error.is_some() => {
            tracing::info!(directory = %dir.display(), "the snapshots directory is readable again");
        }
        _ => {}
    }
    *last_error = current_error;
}

/// Waits for a message for at most `pause`, and then until no more messages follow within the settle delay.
fn wait_for_changes(messages: &Receiver<Message>, pause: Duration) -> ScanRequest {
    let mut buffered = ScanRequest::default();
    let begun = clock::instant();
    let mut until = begun + pause;
    let mut latest = None;
    loop {
        match messages.recv_timeout(until.saturating_duration_since(clock::instant())) {
            Ok(Message::Rescan) => buffered.rescan_all = true,
            Ok(Message::Event(Ok(event))) if event.kind.is_access() && !is_close_after_write(&event) => {
                continue;
            }
            Ok(Message::Event(Ok(event))) => {
                buffered.touched.extend(event.paths.iter().filter_map(|p| Some(p.file_name()?.to_owned())));
            }
            Ok(Message::Event(Err(_))) => {}
            Err(RecvTimeoutError::Timeout) => return buffered,
            Err(RecvTimeoutError::Disconnected) => {
                thread::park_timeout(pause);
                return buffered;
            }
        }
        let now = clock::instant();
        until = (now + SETTLE_DELAY).min(*latest.get_or_insert(now + SETTLE_MAX));
    }
}

fn is_close_after_write(event: &notify::Event) -> bool {
    use notify::event::{AccessKind, AccessMode};
    matches!(event.kind, notify::EventKind::Access(AccessKind::Close(AccessMode::Write)))
}
