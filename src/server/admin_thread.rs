//! The thread of the admin address. It listens before snapshots and log are read, reports how far they are
//! read, and gets its other parts when all is read.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use super::event_log::{EventLog, wakeup_pair};
use super::{BootError, bind, start_thread};
use crate::admin::startup::{DeferredParts, Startup, StartupProgress};
use crate::admin::{AdminService, ServerMetrics};
use crate::api::Handler;
use crate::config::{Config, ConnectionLimits};
use crate::http::request::Surface;
use crate::metrics::Totals;
use crate::worker::{Driver, ENDPOINT_COUNTERS, Lifecycle, WorkerConfig};

/// Length of an admin token, in characters, below which the server warns at the start. 16 random letters and digits take
/// longer to guess than a server runs, at one guess a second for each wrong token.
const ADMIN_TOKEN_CHARS_MIN: usize = 16;

/// Returns the token of the admin address, or `None` if none is set. Warns if it is short.
pub(super) fn admin_token(config: &Config) -> Option<String> {
    let token = config.admin_token.clone().filter(|token| !token.is_empty())?;
    if token.len() < ADMIN_TOKEN_CHARS_MIN {
        tracing::warn!(
            "--admin-token has fewer than {ADMIN_TOKEN_CHARS_MIN} characters; \
             choose a longer one, such as the output of `openssl rand -hex 32`"
        );
    }
    Some(token)
}

/// A handle of the admin thread while the server starts.
pub(super) struct AdminThread {
    /// The progress that the admin thread reports.
    pub(super) progress: StartupProgress,
    parts_tx: SyncSender<DeferredParts>,
    /// Wakes the admin thread when a job is done.
    wakeup_tx: UnixStream,
}

impl AdminThread {
    /// Starts the thread: it listens on `address` and answers with the service that `make_service` creates.
    pub(super) fn start(
        driver: Driver,
        connection_limits: ConnectionLimits,
        address: SocketAddr,
        make_service: impl FnOnce() -> AdminService + Send + 'static,
    ) -> Result<Self, BootError> {
        let (wakeup_tx, wakeup_rx) = wakeup_pair()?;
        let (parts_tx, parts) = sync_channel(1);
        let progress = StartupProgress::default();
        let startup = Startup { progress: progress.clone(), parts };
        start_thread(WorkerConfig {
            name: "admin".to_owned(),
            cpu: None,
            driver,
            busy_poll: Duration::ZERO,
            connections: connection_limits,
            // Its own totals and lifecycle: admin responses do not count as public ones, and shutdown does
            // not wait for admin connections.
            totals: Totals::new(ENDPOINT_COUNTERS),
            lifecycle: Lifecycle::default(),
            listeners: vec![(bind(address, "--admin")?, Surface::Admin)],
            wakeup_rx: Some(wakeup_rx),
            make_service: move || make_service().with_startup(startup),
        })?;
        let url = format!("http://{address}");
        tracing::info!(%url, "listening on the admin address");
        Ok(Self { progress, parts_tx, wakeup_tx })
    }

    /// Sends the parts that exist only after snapshots and log are read.
    pub(super) fn finish_startup(
        self,
        config: &Config,
        event_log: &EventLog,
        make_handler: impl FnOnce() -> Handler + Send + 'static,
        metrics: ServerMetrics,
    ) -> Result<(), BootError> {
        let make_data = event_log.data_handlers(config, self.wakeup_tx, metrics.jobs.clone())?;
        let make = Box::new(move || (make_handler(), make_data()));
        // The channel has room for this one message. If the thread is gone, it panicked and logged that.
        let _ = self.parts_tx.try_send(DeferredParts { make, metrics });
        Ok(())
    }
}
