//! The thread that looks after `snapshots/`: inotify says when, a slow scan beside it misses nothing.
//!
//! Serving never waits for it: it prepares a whole catalog and swaps one pointer.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use notify::{RecursiveMode, Watcher};

use super::catalog::Current;
use super::directory::Shelf;
use crate::clock;

/// After an event the folder is left alone for so long, so that a burst of events is one scan.
const SETTLE: Duration = Duration::from_millis(20);
/// A burst that does not end is cut here.
const SETTLE_AT_MOST: Duration = Duration::from_millis(200);
/// A file that was not whole is looked at again after this.
const GROWING: Duration = Duration::from_millis(250);
/// After a look it rests this many times as long, so that a folder of 100,000 files costs a tenth of a core.
const REST: u32 = 9;
/// Without inotify the folder is looked at this often, so that publishing takes effect within a second.
const POLL: Duration = Duration::from_millis(500);

/// What ends a wait.
enum Call {
    /// inotify has something to tell.
    Event(notify::Result<notify::Event>),
    /// The operator asks for a look.
    Told,
}

/// What a wait came to: what is read again whatever its stamp says.
#[derive(Default)]
struct Waited {
    /// Names that events were about.
    touched: HashSet<OsString>,
    /// Whether the operator asked for all names.
    all: bool,
}

/// The watcher, to be told something.
#[derive(Debug)]
pub struct Watched(Sender<Call>);

impl Watched {
    /// Has the folder looked at now, and every name in it read again.
    pub fn look_again(&self) {
        // A watcher that is gone has panicked, and said so.
        let _ = self.0.send(Call::Told);
    }
}

/// Watches `folder` for the rest of the process's life. The first scan was made by the caller.
///
/// # Errors
/// The thread cannot be started.
pub fn spawn(
    folder: PathBuf,
    mut shelf: Shelf,
    current: Current,
    rescan: Duration,
) -> std::io::Result<Watched> {
    let (sender, calls) = channel();
    let events = sender.clone();
    let watcher = notify::recommended_watcher(move |event| {
        // Nobody listens any more where the thread could not be started.
        let _ = events.send(Call::Event(event));
    });
    thread::Builder::new().name("watcher".into()).spawn(move || {
        let mut watcher = watcher
            .inspect_err(|error| tracing::warn!("inotify is not there, {folder:?} is polled: {error}"))
            .ok();
        let mut trouble = None;
        let mut waited = Waited::default();
        loop {
            // Again at every turn, for the folder may have been replaced by another of its name; and before
            // the scan, so that whatever the scan is too early for is an event.
            let watched =
                watcher.as_mut().is_some_and(|w| w.watch(&folder, RecursiveMode::NonRecursive).is_ok());
            let begun = clock::instant();
            if waited.all {
                shelf.forget_stamps();
            }
            let scanned = shelf.scan(&folder, &waited.touched, &current);
            tell(&folder, scanned.err().map(|error| error.to_string()), &mut trouble);
            let pause = match watched {
                _ if shelf.is_waiting() => GROWING,
                true => rescan,
                false => POLL.min(rescan),
            }
            .max((clock::instant() - begun) * REST);
            waited = wait(&calls, pause);
        }
    })?;
    Ok(Watched(sender))
}

/// Says what keeps the folder from being read, once for as long as it lasts.
fn tell(folder: &Path, trouble: Option<String>, before: &mut Option<String>) {
    match &trouble {
        Some(error) if trouble != *before => {
            tracing::error!("{}: cannot be read, what is served stays: {error}", folder.display());
        }
        None if before.is_some() => tracing::info!("{}: can be read again", folder.display()),
        _ => {}
    }
    *before = trouble;
}

/// Waits for a call, at most `pause`, and then until they settle.
fn wait(calls: &Receiver<Call>, pause: Duration) -> Waited {
    let mut waited = Waited::default();
    let begun = clock::instant();
    let mut until = begun + pause;
    let mut latest = None;
    loop {
        match calls.recv_timeout(until.saturating_duration_since(clock::instant())) {
            Ok(Call::Told) => waited.all = true,
            Ok(Call::Event(Ok(event))) if event.kind.is_access() && !is_close_after_write(&event) => continue,
            Ok(Call::Event(Ok(event))) => {
                waited.touched.extend(event.paths.iter().filter_map(|p| Some(p.file_name()?.to_owned())));
            }
            Ok(Call::Event(Err(_))) => {}
            Err(RecvTimeoutError::Timeout) => return waited,
            Err(RecvTimeoutError::Disconnected) => {
                thread::park_timeout(pause);
                return waited;
            }
        }
        let now = clock::instant();
        until = (now + SETTLE).min(*latest.get_or_insert(now + SETTLE_AT_MOST));
    }
}

fn is_close_after_write(event: &notify::Event) -> bool {
    use notify::event::{AccessKind, AccessMode};
    matches!(event.kind, notify::EventKind::Access(AccessKind::Close(AccessMode::Write)))
}
