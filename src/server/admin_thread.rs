//! The thread of the admin address. It listens before snapshots and log are read, reports how far they are
//! read, and gets its other parts when all is read.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use super::event_log::{EventLog, wakeup_pair};
use super::listeners::Listeners;
use super::{BootError, SHUTDOWN_POLL_INTERVAL, start_thread};
use crate::admin::startup::{DeferredParts, Startup, StartupProgress};
use crate::admin::{
    AccessSettings, AdminService, CurrentAccess, CurrentLinks, PersonHeaders, ServerMetrics, SnapshotRules,
};
use crate::api::Handler;
use crate::clock;
use crate::config::access::AccessConfig;
use crate::config::{Config, ConnectionLimits};
use crate::metrics::Totals;
use crate::site::catalog::catalog::CurrentCatalog;
use crate::worker::{Driver, ENDPOINT_COUNTERS, Lifecycle, WorkerConfig};

/// Length of an admin token, in characters, below which the server warns at the start. 16 random letters and digits take
/// longer to guess than a server runs, at one guess a second for each wrong token.
const ADMIN_TOKEN_CHARS_MIN: usize = 16;

/// Reads who may use the admin address.
pub(super) fn admin_access(config: &Config) -> Result<AccessSettings, BootError> {
    let AccessConfig { access, trusted_user_header, trusted_groups_header } = &config.access;
    let field_name =
        |header: &Option<String>| header.as_ref().map(|name| format!("{name}:").into_bytes().into());
    Ok(AccessSettings {
        token: admin_token(config),
        file: Arc::new(CurrentAccess::read(access.clone()).map_err(BootError::Keys)?),
        headers: PersonHeaders {
            name: field_name(trusted_user_header),
            groups: field_name(trusted_groups_header),
        },
        trusted_proxies: config.trusted_proxy.as_slice().into(),
        links: Arc::new(CurrentLinks::read(&config.data)),
    })
}

/// Returns the token of the admin address, or `None` if none is set. Warns if it is short.
fn admin_token(config: &Config) -> Option<String> {
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
    lifecycle: Lifecycle,
}

impl AdminThread {
    /// Starts the thread: it listens on the admin address and answers with the service that `make_service` creates.
    pub(super) fn start(
        driver: Driver,
        connection_limits: ConnectionLimits,
        listeners: &Listeners,
        make_service: impl FnOnce() -> AdminService + Send + 'static,
    ) -> Result<Self, BootError> {
        let (wakeup_tx, wakeup_rx) = wakeup_pair()?;
        let (parts_tx, parts) = sync_channel(1);
        let progress = StartupProgress::default();
        let startup = Startup { progress: progress.clone(), parts };
        let lifecycle = Lifecycle::default();
        lifecycle.start_accepting();
        start_thread(WorkerConfig {
            name: "admin".to_owned(),
            cpu: None,
            driver,
            busy_poll: Duration::ZERO,
            connections: connection_limits,
            // Its own totals and lifecycle: admin responses do not count as public ones, and shutdown does
            // not wait for admin connections.
            totals: Totals::new(ENDPOINT_COUNTERS),
            lifecycle: lifecycle.clone(),
            listeners: listeners.of_admin()?,
            wakeup_rx: Some(wakeup_rx),
            make_service: move || make_service().with_startup(startup),
        })?;
        let url = format!("http://{}", listeners.addresses.admin);
        tracing::info!(%url, "listening on the admin address");
        Ok(Self { progress, parts_tx, wakeup_tx, lifecycle })
    }

    /// Returns a handle that stops the thread, if the socket of the admin address was passed. A connection that the
    /// thread accepts must get its response then. Otherwise it could wait for the next process.
    pub(super) fn shutdown(&self, listeners: &Listeners) -> Result<Option<AdminShutdown>, BootError> {
        if !listeners.has_passed_admin() {
            return Ok(None);
        }
        let cause = |cause| BootError::System { what: "cannot duplicate a socket (check ulimit -n)", cause };
        let wakeup_tx = self.wakeup_tx.try_clone().map_err(cause)?;
        Ok(Some(AdminShutdown { lifecycle: self.lifecycle.clone(), wakeup_tx }))
    }

    /// Sends the parts that exist only after snapshots and log are read.
    pub(super) fn finish_startup(
        self,
        event_log: &EventLog,
        catalog: CurrentCatalog,
        make_handler: impl FnOnce() -> Handler + Send + 'static,
        metrics: ServerMetrics,
        rules: SnapshotRules,
    ) -> Result<(), BootError> {
        let make_data = event_log.data_handlers(catalog, self.wakeup_tx, metrics.jobs.clone(), rules)?;
        let make = Box::new(move || (make_handler(), make_data()));
        // The channel has room for this one message. If the thread is gone, it panicked and logged that.
        let _ = self.parts_tx.try_send(DeferredParts { make, metrics });
        Ok(())
    }
}

/// Time limit for answering the received requests of the admin address on shutdown. A longer request is an export or a
/// question, whose client repeats it.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// A handle that stops the admin thread.
pub(super) struct AdminShutdown {
    lifecycle: Lifecycle,
    wakeup_tx: UnixStream,
}

impl AdminShutdown {
    /// Stops accepting, and waits until the received requests are answered, at most `SHUTDOWN_TIMEOUT`.
    pub(super) fn run(&self) {
        self.lifecycle.start_draining();
        // If the socket is full, the write fails. The thread wakes anyway: it has unread bytes.
        let _ = (&self.wakeup_tx).write(&[1]);
        let started = clock::instant();
        while self.lifecycle.has_connections() && clock::instant() - started < SHUTDOWN_TIMEOUT {
            std::thread::sleep(SHUTDOWN_POLL_INTERVAL);
        }
    }
}
