//! Startup and shutdown: the order of the steps, and the threads that they start.
//!
//! Startup:
//! 1. Claim the addresses, so that a port in use is an error before any other work is done. Sockets that the service
//!    manager passed are claimed already.
//! 2. Start the admin thread. It reports the progress of steps 3 and 4.
//! 3. Read the served versions of earlier processes, and scan the snapshots.
//! 4. Restore the visitor profiles, replay the log, and start the log writer and the checkpointer. Then start the audit log, the
//!    watcher of the snapshots, which both write to the locked data directory, and the puller.
//! 5. Give the admin thread the parts that need snapshots and log.
//! 6. Start the workers. When [`start`] returns, every listener accepts.
//! 7. Start the webhook, whose receiver may send requests to this server, and the scrub, which can wait.
//!
//! Shutdown, at SIGTERM or SIGINT, in at most 10 s:
//! 1. Stop accepting on the public addresses.
//! 2. Answer the received requests. Each response is the last of its connection.
//! 3. Write the last line of the audit log. Stop the log writer: it syncs and seals the log, and writes a last checkpoint if time is left.
//! 4. Stop accepting on the admin address, if its socket was passed, and answer its requests.
//!
//! A second signal during step 2 ends the process at once. The next start recovers the log.

mod admin_thread;
mod audit;
mod boot_error;
mod data_directory;
mod event_log;
mod listeners;
mod memory;
mod memory_plan;
#[cfg(feature = "cluster")]
mod puller;
mod reload;
mod snapshots;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXFSZ,
};
use signal_hook::iterator::Signals;

use self::admin_thread::{AdminShutdown, AdminThread, admin_access};
pub(crate) use self::boot_error::BootError;
use self::event_log::EventLog;
use self::listeners::Listeners;
pub use self::memory_plan::{Machine, MemoryPlan};
use self::reload::{Reload, TokenKeys, UserKeys};
use crate::admin::{AdminService, Metrics, ServerMetrics, SnapshotRules};
use crate::api::token_bucket::RateLimiter;
use crate::api::{Handler, Service, Settings};
use crate::config::{Config, ConnectionLimits, DriverChoice};
use crate::limits::{
    ADMIN_CONNECTIONS_MIN, BODIES_MEMORY_BYTES_MIN, CONNECTIONS_MEMORY_BYTES_MIN, LINGERING_REJECTIONS_MAX,
};
use crate::metrics::{JobCounters, Totals, WebhookCounters};
#[cfg(feature = "cluster")]
use crate::nats::thread::Renewal;
use crate::resolve::user_agent::UserAgentParser;
use crate::site::catalog::accepted::AcceptedTrackingIds;
use crate::site::catalog::catalog::CurrentCatalog;
use crate::site::catalog::directory::SnapshotDirectory;
use crate::site::snapshot::open::SnapshotBudget;
use crate::worker::{self, Driver, ENDPOINT_COUNTERS, Lifecycle, PassedSocket, WorkerConfig};
use crate::{clock, ids, storage, webhook};

/// File descriptors for everything else that is not yet open when serving begins: a snapshot and its copy,
/// directories, a new segment, the files that `/metrics` and the scrub read, and the connection of the webhook.
const DESCRIPTORS_RESERVED: usize = 12;

/// File descriptors of the puller: its event loop and its wakers, connections to the source, a snapshot and its list.
const DESCRIPTORS_OF_PULLER: usize = 12;

/// File descriptors of a serving thread: its listener, its io_uring, its waker, two ends of a wakeup channel, and
/// one in reserve.
const DESCRIPTORS_PER_THREAD: usize = 6;

/// Divisor of the descriptor limit: the admin address uses at most one of as many descriptors.
const ADMIN_DESCRIPTORS_DIVISOR: usize = 8;

/// Number of connections below which the server logs a warning at startup that file descriptors are scarce.
const CONNECTIONS_WARN_BELOW: usize = 1_000;

/// The addresses of a server, with their actual ports.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// The public address.
    pub listen: SocketAddr,
    /// The address of the event endpoints, if they have their own.
    pub events_listen: Option<SocketAddr>,
    /// The admin address.
    pub admin: SocketAddr,
}

/// A running server.
pub struct RunningServer {
    /// Its addresses.
    pub addresses: Addresses,
    /// Number of worker threads.
    pub workers: usize,
    /// The I/O interface of the workers.
    pub driver: Driver,
    /// Registered before any address listens, so that no signal is lost.
    signals: Signals,
    reload: Reload,
    lifecycle: Lifecycle,
    event_log: EventLog,
    /// Stops the admin thread. `None` if it may end with the process, because its socket ends then too.
    admin_shutdown: Option<AdminShutdown>,
}

/// The disk failed until the end of the process, so acknowledged records may be lost. Only `--ack written`
/// allows this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the disk failed until shutdown; the records with seq {first_seq} to {last_seq} were acknowledged as written and may be lost. Repair the disk, then start the server again"
)]
pub struct UnsyncedRecords {
    first_seq: u64,
    last_seq: u64,
}

/// The reason for which a server that was running ends with an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    #[error(transparent)]
    Unsynced(#[from] UnsyncedRecords),
    /// The stream has all its records, and the next start needs another setting.
    #[error(
        "another process has taken the name of this node over; give this node another --node, or stop the other one and start this one with --take-over"
    )]
    Replaced,
}

/// Starts a server that listens on `passed_sockets`, and binds the addresses that have none.
///
/// # Errors
/// Returns the cause, with the setting or system limit to change.
pub fn start(config: Config, passed_sockets: Vec<PassedSocket>) -> Result<RunningServer, BootError> {
    memory::fix_mapped_buffer_size();
    let signals = register_signals()?;
    // 1. Claim the addresses. The reservations end when this function returns.
    let listeners = Listeners::claim(&config, passed_sockets)?;
    let addresses = listeners.addresses;
    let driver = choose_driver(config.driver)?;

    // 2. Start the admin thread.
    let cpus = worker::available_cpus();
    let workers = config.workers.unwrap_or(cpus.len()).max(1);
    let memory = plan_memory(&config, workers);
    let current = CurrentCatalog::default();
    let budget = SnapshotBudget::new(memory.params().snapshots_bytes);
    let accepted = AcceptedTrackingIds::new(&config.tracking_id);
    let rules = SnapshotRules { budget: budget.clone(), accepted: accepted.clone() };
    let snapshots = SnapshotDirectory::new(budget.clone()).with_accepted(accepted);
    let lifecycle = Lifecycle::default();
    let totals = Totals::new(ENDPOINT_COUNTERS);
    let users = UserKeys::read(&config, &current)?;
    let tokens = TokenKeys::read(&config)?;
    let agents = Arc::new(UserAgentParser::new());
    let settings = handler_settings(&config, &users, &tokens);
    let admin_settings = Settings { rate_limit_per_ip: None, rate_limit_per_site: None, ..settings.clone() };
    let webhook_counters = WebhookCounters::default();
    let metrics = Metrics::at_startup(&totals, snapshots.metrics(), &webhook_counters, budget);
    #[cfg(feature = "cluster")]
    let renewal = Renewal::default();
    #[cfg(feature = "cluster")]
    let (metrics, puller) = puller::prepare(&config, snapshots.files(), metrics, &renewal)?;
    let [make_handler, make_invented] =
        [(), ()].map(|()| handler_factory(&admin_settings, &current, &agents));
    let access = admin_access(&config)?;
    let access_file = Arc::clone(&access.file);
    let admin_lifecycle = lifecycle.clone();
    let files = snapshots.files();
    let make_service = || {
        AdminService::new([make_handler(), make_invented()], access, admin_lifecycle, metrics)
            .with_files(files)
    };
    let limits = admin_connection_limits(&config, &memory);
    let admin = AdminThread::start(driver, limits, &listeners, make_service)?;

    // 3. Scan the snapshots.
    let snapshots = snapshots::scan(&config, &memory, &current, snapshots)?;
    admin.progress.set_scanned();

    // 4. Restore the visitor profiles and replay the log.
    let mut event_log = EventLog::start(&config, &memory, &admin.progress)?;
    event_log.audit = audit::start(&config, &event_log, &current, &access_file)?;
    let watcher = snapshots::start_watcher(&config, &current, snapshots)?;
    #[cfg(feature = "cluster")]
    puller::start(puller, &mut event_log, &renewal)?;
    let reload = Reload {
        watcher,
        #[cfg(feature = "cluster")]
        renewal,
        users,
        tokens,
        access: access_file,
    };

    // 5. Complete the admin thread.
    let connections_max = connections_max(&config, &memory, workers)?;
    let metrics = server_metrics(&config.data, &memory, lifecycle.clone(), connections_max, &event_log);
    let readiness_check = metrics.readiness_check();
    let make_handler = profiled_handler_factory(&admin_settings, &current, &agents, &event_log);
    let admin_shutdown = admin.shutdown(&listeners)?;
    admin.finish_startup(&event_log, current.clone(), make_handler, metrics, rules)?;

    // 6. Start the workers.
    let connections = connection_limits(&config, &memory, connections_max);
    for i in 0..workers {
        let (make_sink, wakeup_rx) = event_log.event_sink(&current)?;
        let make_handler = profiled_handler_factory(&settings, &current, &agents, &event_log);
        let readiness_check = Arc::clone(&readiness_check);
        start_thread(WorkerConfig {
            name: format!("worker-{i}"),
            cpu: cpus.get(i % cpus.len().max(1)).copied(),
            driver,
            busy_poll: config.busy_poll,
            connections,
            totals: totals.clone(),
            lifecycle: lifecycle.clone(),
            listeners: listeners.of_worker(i, workers)?,
            wakeup_rx: Some(wakeup_rx),
            make_service: move || {
                let handler = make_handler().with_event_sink(make_sink()).with_waiting_clients();
                handler.with_readiness_check(readiness_check)
            },
        })?;
    }
    lifecycle.start_accepting();
    // 7. Start the webhook and the scrub.
    webhook::start(&config, &current, webhook_counters).map_err(BootError::Thread)?;
    event_log.start_scrub(&config)?;
    Ok(RunningServer { addresses, workers, driver, signals, reload, lifecycle, event_log, admin_shutdown })
}

/// Returns a constructor of a handler, to be called on the thread that uses the handler.
fn handler_factory(
    settings: &Settings,
    current_catalog: &CurrentCatalog,
    user_agent_parser: &Arc<UserAgentParser>,
) -> impl FnOnce() -> Handler + Send + use<> {
    let settings = settings.clone();
    let current_catalog = current_catalog.clone();
    let user_agent_parser = Arc::clone(user_agent_parser);
    move || Handler::new(settings, &current_catalog, user_agent_parser)
}

/// Returns a constructor of a handler that knows the visitors.
fn profiled_handler_factory(
    settings: &Settings,
    current_catalog: &CurrentCatalog,
    user_agent_parser: &Arc<UserAgentParser>,
    event_log: &EventLog,
) -> impl FnOnce() -> Handler + Send + use<> {
    let make_handler = handler_factory(settings, current_catalog, user_agent_parser);
    let profiles = event_log.profiles.clone();
    let gate = event_log.node_gate();
    move || make_handler().with_profiles(profiles.reader()).with_node_gate(gate)
}

/// Collects the sources of the metrics that exist only after the log is read.
fn server_metrics(
    data_directory: &Path,
    plan: &MemoryPlan,
    lifecycle: Lifecycle,
    connections_max: usize,
    event_log: &EventLog,
) -> ServerMetrics {
    let terms = plan.terms(connections_max);
    plan.log(&terms);
    ServerMetrics {
        memory: terms,
        lifecycle,
        connections_max,
        data_directory: data_directory.to_owned(),
        log: event_log.queue.clone(),
        sync_latency: event_log.sync_latency.clone(),
        event_counters: event_log.event_counters.clone(),
        checkpoints: Arc::clone(&event_log.checkpoint_metrics),
        profiles: event_log.profiles.clone(),
        jobs: JobCounters::default(),
        insights: event_log.insights_metrics(),
        scrub: event_log.scrub_metrics(),
        audit: event_log.audit.metrics().clone(),
        #[cfg(feature = "cluster")]
        cluster: event_log.cluster_metrics(),
    }
}

/// Signals that mean nothing to the server, and would end it otherwise. With SIGXFSZ a write beyond the limit of file sizes
/// is an error of the disk. SIGPWR, SIGSTKFLT and the real-time signals have no constants in `signal_hook`.
fn unused_signals() -> impl Iterator<Item = i32> {
    let named =
        [SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGXFSZ, libc::SIGPWR, libc::SIGSTKFLT];
    named.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

fn is_stop(signal: i32) -> bool {
    matches!(signal, SIGTERM | SIGINT)
}

fn register_signals() -> Result<Signals, BootError> {
    let failed = |cause| BootError::System { what: "cannot register signal handlers", cause };
    Signals::new([SIGTERM, SIGINT, SIGHUP].into_iter().chain(unused_signals())).map_err(failed)
}

fn choose_driver(choice: DriverChoice) -> Result<Driver, BootError> {
    let (driver, warning) = Driver::choose(choice).map_err(BootError::Driver)?;
    warning.iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok(driver)
}

/// Returns the settings that all handlers share.
fn handler_settings(config: &Config, user_keys: &UserKeys, token_keys: &TokenKeys) -> Settings {
    warn_about_ineffective_rate_limit(config);
    let limiter = |limit: u32| Arc::new(RateLimiter::new(limit, clock::instant(), ids::random_u64()));
    Settings {
        explain: config.explain,
        events_at_ms: None,
        is_dev: config.is_dev,
        country_header: config.country_header.as_deref().map(Box::from),
        trusted_proxies: config.trusted_proxy.as_slice().into(),
        rate_limit_per_ip: config.rate_limit_per_ip.map(limiter),
        rate_limit_per_site: config.rate_limit_per_site.map(limiter),
        prepared_lists: Arc::default(),
        user_verifier: Arc::clone(&user_keys.verifier),
        token_sealer: Arc::clone(&token_keys.sealer),
    }
}

/// Plans the memory limits for this machine.
fn plan_memory(config: &Config, worker_count: usize) -> MemoryPlan {
    let machine = Machine {
        memory_bytes: storage::machine::memory_bytes(Path::new("/")),
        workers: worker_count,
        descriptors: usize::try_from(storage::raise_descriptor_limit()).unwrap_or(usize::MAX),
        admin_connections: admin_connections_max(config),
    };
    MemoryPlan::new(config, machine)
}

/// Returns the connection limits of one worker on the public address.
fn connection_limits(config: &Config, plan: &MemoryPlan, connections_max: usize) -> ConnectionLimits {
    ConnectionLimits {
        timeouts: config.timeouts,
        max: connections_max,
        closes_waiting: false,
        memory_bytes_max: plan.responses_bytes_per_worker,
        body_memory_bytes_max: plan.bodies_bytes_per_worker,
        output_pool_bytes_max: plan.params().output_pool_bytes as usize,
        access_log: config.access_log,
    }
}

/// Returns the connection limits of the admin address.
fn admin_connection_limits(config: &Config, plan: &MemoryPlan) -> ConnectionLimits {
    ConnectionLimits {
        timeouts: config.timeouts,
        max: admin_connections_max(config),
        closes_waiting: true,
        memory_bytes_max: CONNECTIONS_MEMORY_BYTES_MIN,
        body_memory_bytes_max: BODIES_MEMORY_BYTES_MIN,
        output_pool_bytes_max: plan.params().output_pool_bytes as usize,
        access_log: false,
    }
}

/// Returns the limit of open connections of the admin address: the setting, but at most a part of the
/// descriptors.
fn admin_connections_max(config: &Config) -> usize {
    let limit = usize::try_from(storage::raise_descriptor_limit()).unwrap_or(usize::MAX);
    config.admin_connections.min((limit / ADMIN_DESCRIPTORS_DIVISOR).max(ADMIN_CONNECTIONS_MIN))
}

/// Returns the limit of open public connections: the setting or the plan, reduced to the free descriptors.
fn connections_max(config: &Config, plan: &MemoryPlan, worker_count: usize) -> Result<usize, BootError> {
    let limit = storage::raise_descriptor_limit();
    let open = storage::process_usage().map_or(0, |usage| usage.descriptors);
    // The descriptors of the admin thread are open already.
    let threads = worker_count * DESCRIPTORS_PER_THREAD + (worker_count + 1) * LINGERING_REJECTIONS_MAX;
    let events = config.events_listen.map_or(0, |_| worker_count);
    let puller = usize::from(config.pulls_snapshots()) * DESCRIPTORS_OF_PULLER;
    let taken =
        (open + events + threads + puller + admin_connections_max(config) + DESCRIPTORS_RESERVED) as u64;
    let room = limit.saturating_sub(taken).min(usize::MAX as u64) as usize;
    if room == 0 {
        return Err(BootError::Descriptors { limit });
    }
    if room < config.connections.unwrap_or(CONNECTIONS_WARN_BELOW) {
        tracing::warn!(
            connections_max = room,
            descriptor_limit = limit,
            "the descriptor limit allows only few connections; raise it (ulimit -n, LimitNOFILE)"
        );
    }
    Ok(plan.params().connections_max.min(room))
}

/// Warns if a rate limit can never apply, because every client is loopback and no proxy is trusted. Nothing
/// else would show this mistake.
fn warn_about_ineffective_rate_limit(config: &Config) {
    let is_limited = config.rate_limit_per_ip.is_some() || config.rate_limit_per_site.is_some();
    if is_limited && config.trusted_proxy.is_empty() && config.listen.ip().is_loopback() {
        tracing::warn!(
            listen = %config.listen,
            "the rate limit never applies, because all clients are loopback; set --trusted-proxy to your proxy"
        );
    }
}

/// Time limit for answering the received requests on shutdown. After it, open connections are dropped.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// Poll interval during shutdown. This thread waits for both signals and connections, and request handling
/// must not spend time on waking it.
const SHUTDOWN_POLL_INTERVAL: Duration = Duration::from_millis(10);

impl RunningServer {
    /// Serves until SIGTERM or SIGINT, then shuts down.
    ///
    /// Shutdown stops accepting and answers the received requests, each response the last of its connection.
    /// It returns after 10 s or at a second signal in any case. SIGHUP reads all snapshots, the keys and the
    /// files of the connections to NATS again. Other signals do nothing, unless they report a fault of the program.
    ///
    /// # Errors
    /// Acknowledged records may be lost, because the disk failed until the end. Or another process is the node now.
    pub fn serve_until_signal(mut self) -> Result<(), StopError> {
        let signals = &mut self.signals;
        let signals_before_stop = signals.forever().take_while(|signal| !is_stop(*signal));
        for _ in signals_before_stop.filter(|signal| *signal == SIGHUP) {
            self.reload.run();
            audit::record_reload(&self.event_log.audit);
        }
        // 1. Stop accepting.
        tracing::info!(open_connections = self.lifecycle.open_connections(), "stopping");
        self.lifecycle.start_draining();
        self.reload.watcher.wake_workers();
        // 2. Answer the received requests.
        let started = clock::instant();
        let time_spent = || clock::instant().duration_since(started);
        while self.lifecycle.has_connections() && time_spent() < SHUTDOWN_TIMEOUT {
            if signals.pending().any(is_stop) {
                let open_connections = self.lifecycle.open_connections();
                tracing::warn!(open_connections, "stopped at once after a second signal");
                return Ok(());
            }
            std::thread::sleep(SHUTDOWN_POLL_INTERVAL);
        }
        // 3. Stop the log.
        let open = self.lifecycle.open_connections();
        let is_replaced = self.event_log.is_replaced();
        audit::record_stop(&self.event_log.audit);
        let stopped = self.event_log.stop(SHUTDOWN_TIMEOUT.saturating_sub(time_spent()));
        // 4. Stop the admin address.
        self.admin_shutdown.iter().for_each(AdminShutdown::run);
        match open {
            0 => tracing::info!("stopped"),
            _ => tracing::warn!(open_connections = open, "stopped with open connections"),
        }
        stopped?;
        if is_replaced { Err(StopError::Replaced) } else { Ok(()) }
    }
}

/// Starts a serving thread and waits until it accepts connections.
fn start_thread<S: Service, M: FnOnce() -> S + Send + 'static>(
    config: WorkerConfig<M>,
) -> Result<(), BootError> {
    let (started_tx, started_rx) = sync_channel(1);
    worker::spawn(config, started_tx).map_err(BootError::Thread)?;
    let ended = || Err(io::Error::other("the thread ended during its start"));
    started_rx.recv().unwrap_or_else(|_| ended()).map_err(BootError::Thread)
}
