//! The thread `cluster`: one OS thread with an event loop of tokio, for everything of this process that talks
//! to other nodes.
//!
//! The thread exists only with `--snapshots-from` or `--cluster`. It ends with the process.

use std::future::Future;
use std::io;
use std::pin::Pin;

use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::LocalSet;

use crate::threads;

/// Threads for operations that block: a request of the puller, and the sync of a file.
const BLOCKING_THREADS_MAX: usize = 2;

/// A task of the thread. It runs until the process ends.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A sender of requests to the tasks of the thread: they read credentials and certificates again, and connect
/// with them.
#[derive(Default)]
pub(crate) struct Renewal(watch::Sender<()>);

impl Renewal {
    /// Requests new connections from all tasks. SIGHUP calls this.
    pub(crate) fn request(&self) {
        self.0.send_replace(());
    }

    /// Returns the requests for one task.
    pub(crate) fn requests(&self) -> RenewalRequests {
        RenewalRequests(self.0.subscribe())
    }
}

/// The requests to connect again, as one task sees them. Several requests count as one.
pub(crate) struct RenewalRequests(watch::Receiver<()>);

impl RenewalRequests {
    /// Waits for the next request.
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // The process is stopping.
            std::future::pending().await
        }
    }

    /// Returns whether there was a request, and forgets it.
    pub(crate) fn take(&mut self) -> bool {
        let is_requested = self.0.has_changed().unwrap_or(false);
        self.0.mark_unchanged();
        is_requested
    }
}

/// Starts the thread with the tasks that `make_tasks` creates on it.
///
/// # Errors
/// The thread or its event loop cannot be started.
pub(crate) fn start(make_tasks: impl FnOnce() -> Vec<Task> + Send + 'static) -> io::Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_name("cluster-io")
        .build()?;
    threads::spawn("cluster", move || {
        LocalSet::new().block_on(&runtime, async {
            let running: Vec<_> = make_tasks().into_iter().map(tokio::task::spawn_local).collect();
            for task in running {
                // A task that panicked has logged that.
                let _ = task.await;
            }
        });
    })?;
    Ok(())
}
