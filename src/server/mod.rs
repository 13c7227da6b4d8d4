//! Boot: what is started in which order, and which thread does what.
//!
//! The order: the addresses are claimed, so that a port in use is noticed before anything else is
//! done; the operator's address listens; the snapshots are scanned and the log is read, of which it
//! tells how far that is; the workers listen. When `start` returns, every listener accepts.

mod admin_thread;
mod event_log;

use std::collections::HashSet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::admin_thread::Operating;
use self::event_log::Recording;
use crate::admin::{Metrics, Operator, Read};
use crate::api::token_bucket::Throttle;
use crate::api::{Desk, Settings};
use crate::config::{Config, Connections, Driver};
use crate::http::request::Surface;
use crate::limits::memory_sum::{self, Term};
use crate::limits::{
    CONNECTIONS_FEW, CONNECTIONS_MAX, CONNECTIONS_MEMORY_BYTES_MIN, DESCRIPTORS_PER_THREAD,
    DESCRIPTORS_RESERVED, OPERATOR_CONNECTIONS_MAX, REFUSED_WAITED_FOR_MAX,
};
use crate::metrics::{JobCounts, Totals};
use crate::resolve::user_agent::Agents;
use crate::site::catalog::catalog::Current;
use crate::site::catalog::directory::Shelf;
use crate::site::catalog::watcher::{self, Watched};
use crate::site::snapshot::open::Budget;
use crate::visitors::checkpoint::restore::RestoreError;
use crate::visitors::log::LogError;
use crate::visitors::store::table::memory_bytes_max;
use crate::worker::{self, ENDPOINTS_COUNTED, Kernel, Plan, Stopping};
use crate::{clock, ids, storage};

/// Where a server listens, ports filled in.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// Edge's address.
    pub listen: SocketAddr,
    /// The address of events, where they have their own.
    pub events_listen: Option<SocketAddr>,
    /// The operator's address.
    pub admin: SocketAddr,
}

/// A server that serves, until the process ends.
pub struct Running {
    /// Where it listens.
    pub addresses: Addresses,
    /// Worker threads.
    pub workers: usize,
    /// What serves them.
    pub kernel: Kernel,
    /// Heard since before anything listened, so that none is lost.
    signals: Signals,
    watched: Watched,
    stopping: Stopping,
    /// The workers' own, held to stop them.
    listeners: Vec<TcpListener>,
    recording: Recording,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    #[error(
        "{address} cannot be listened on: {cause}; is another server using the port? Name another by {flag}"
    )]
    Address { address: SocketAddr, flag: &'static str, cause: io::Error },
    #[error("the snapshots folder {} cannot be read: {cause}; create it, or name another by --snapshots", folder.display())]
    Snapshots { folder: PathBuf, cause: io::Error },
    #[error(
        "the data folder {} cannot be used: {cause}; stop the server that has it, mend what is wrong, or name another by --data", folder.display()
    )]
    Data { folder: PathBuf, cause: LogError },
    #[error("the data folder {} cannot be used: {cause}", folder.display())]
    Visitors { folder: PathBuf, cause: RestoreError },
    #[error(
        "io_uring is not to be had: {0}; use --driver auto or epoll, or allow io_uring (sysctl kernel.io_uring_disabled, the container's seccomp profile)"
    )]
    Driver(io::Error),
    #[error("{what}: {cause}")]
    System { what: &'static str, cause: io::Error },
    #[error(
        "this process may open {limit} files and connections, which leaves none for visitors: raise the limit (ulimit -n, LimitNOFILE) to {limit} + 1000 or more"
    )]
    Descriptors { limit: u64 },
    #[error(
        "a thread cannot be started: {0}; raise the limits on processes and on locked memory (ulimit -u, -l)"
    )]
    Thread(io::Error),
}

/// Starts a server.
///
/// # Errors
/// What was in the way, and what to do about it.
pub fn start(config: Config) -> Result<Running, BootError> {
    let signals = signals()?;
    let (addresses, _kept) = claim(&config)?;
    let kernel = choose_kernel(config.driver)?;
    let (current, budget) = (Current::default(), Budget::new(config.snapshots_memory));
    let shelf = Shelf::new(budget.clone());
    let (stopping, totals) = (Stopping::default(), Totals::new(ENDPOINTS_COUNTED));
    let (agents, settings) = (Arc::new(Agents::new()), settings(&config));
    let operators = Settings { address_limit: None, site_limit: None, ..settings.clone() };
    let metrics = Metrics {
        totals: totals.clone(),
        publishing: shelf.publishing(),
        budget,
        started_s: clock::now_s(),
        read: None,
    };
    let first_desk = desk(&operators, &current, &agents);
    let (token, stops) = (config.admin_token.clone(), stopping.clone());
    let operator = || Operator::new(first_desk(), token, stops, metrics);
    let operating = Operating::begin(kernel, operators_connections(&config), addresses.admin, operator)?;
    let watched = publish(&config, &current, shelf)?;
    operating.reading.scanned();
    let recording = Recording::start(&config, &operating.reading)?;

    let cpus = worker::cpus();
    let workers = config.workers.unwrap_or(cpus.len()).max(1);
    let connections_max = connections_max(&config, workers)?;
    let read = read(&config, workers, (stopping.clone(), connections_max), &recording);
    let knowing = |settings: &Settings| {
        let (desk, visitors) = (desk(settings, &current, &agents), recording.looks.clone());
        move || desk().knowing(visitors.lookup())
    };
    operating.complete(&recording, knowing(&operators), read);

    let public = connections(&config, connections_max, workers);
    let mut listeners = Vec::with_capacity(workers);
    for i in 0..workers {
        let own = bind_public(&addresses)?;
        listeners.extend(held(&own)?);
        let (recorder, bell) = recording.recorder()?;
        let desk = knowing(&settings);
        serve(Plan {
            name: format!("worker-{i}"),
            cpu: cpus.get(i % cpus.len().max(1)).copied(),
            kernel,
            spin: config.spin,
            connections: public,
            totals: totals.clone(),
            stopping: stopping.clone(),
            listeners: own,
            bell: Some(bell),
            service: move || desk().recording(recorder()),
        })?;
    }
    stopping.serve();
    Ok(Running { addresses, workers, kernel, signals, watched, stopping, listeners, recording })
}

/// What makes a desk, on the thread that answers there.
fn desk(
    settings: &Settings,
    current: &Current,
    agents: &Arc<Agents>,
) -> impl FnOnce() -> Desk + Send + use<> {
    let (settings, current, agents) = (settings.clone(), current.clone(), Arc::clone(agents));
    move || Desk::new(settings, &current, agents)
}

/// What there is to tell once the log is read.
fn read(config: &Config, workers: usize, connections: (Stopping, usize), recording: &Recording) -> Read {
    let memory = memory_sum::terms(config, workers, connections.1, memory_bytes_max(config.profiles_memory));
    say_memory(&memory);
    Read {
        memory,
        connections,
        log: recording.queue.clone(),
        syncs: recording.syncs.clone(),
        recorded: recording.recorded.clone(),
        checkpoints: Arc::clone(&recording.checkpoints),
        visitors: recording.looks.clone(),
        jobs: JobCounts::default(),
    }
}

fn signals() -> Result<Signals, BootError> {
    let heard = |cause| BootError::System { what: "signals cannot be heard", cause };
    Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(heard)
}

/// The same listeners again, to stop them by.
fn held(listeners: &[(TcpListener, Surface)]) -> Result<Vec<TcpListener>, BootError> {
    let cause = |cause| BootError::System { what: "a listener cannot be held (ulimit -n)", cause };
    listeners.iter().map(|(listener, _)| listener.try_clone().map_err(cause)).collect()
}

fn choose_kernel(driver: Driver) -> Result<Kernel, BootError> {
    let (kernel, note) = Kernel::choose(driver).map_err(BootError::Driver)?;
    if let Some(note) = note {
        tracing::warn!("{note}");
    }
    Ok(kernel)
}

/// What the operator set for all desks.
fn settings(config: &Config) -> Settings {
    warn_of_idle_limit(config);
    let throttle = |limit: u32| Arc::new(Throttle::new(limit, clock::instant(), ids::random()));
    Settings {
        explain: config.explain,
        country_header: config.country_header.as_deref().map(Box::from),
        trusted_proxies: config.trusted_proxies.as_slice().into(),
        address_limit: config.address_limit.map(throttle),
        site_limit: config.site_limit.map(throttle),
    }
}

/// What the public address's connections may take, of each worker.
fn connections(config: &Config, max: usize, workers: usize) -> Connections {
    let held_bytes_max = config.held_bytes_max(workers);
    Connections { timeouts: config.timeouts, max, held_bytes_max, log: config.access_log }
}

/// What the operator's may.
fn operators_connections(config: &Config) -> Connections {
    let (max, held_bytes_max) = (OPERATOR_CONNECTIONS_MAX, CONNECTIONS_MEMORY_BYTES_MIN);
    Connections { timeouts: config.timeouts, max, held_bytes_max, log: false }
}

/// Connections of the public address, as many as the operator says and descriptors allow.
fn connections_max(config: &Config, workers: usize) -> Result<usize, BootError> {
    let wanted = config.connections;
    let limit = storage::raise_descriptors();
    let open = storage::usage().map_or(0, |usage| usage.descriptors);
    // The operator's thread has its own by now.
    let threads = workers * DESCRIPTORS_PER_THREAD + (workers + 1) * REFUSED_WAITED_FOR_MAX;
    let events = config.events_listen.map_or(0, |_| 2 * workers);
    let taken = (open + events + threads + OPERATOR_CONNECTIONS_MAX + DESCRIPTORS_RESERVED) as u64;
    let room = limit.saturating_sub(taken).min(usize::MAX as u64) as usize;
    if room == 0 {
        return Err(BootError::Descriptors { limit });
    }
    if room < wanted.unwrap_or(CONNECTIONS_FEW) {
        tracing::warn!(
            "{room} connections at a time: the limit on descriptors, {limit}, allows no more; raise it (ulimit -n, LimitNOFILE)"
        );
    }
    Ok(wanted.unwrap_or(CONNECTIONS_MAX).min(room))
}

/// A limit that nobody comes under is a mistake that nothing else would show.
fn warn_of_idle_limit(config: &Config) {
    let is_limited = config.address_limit.is_some() || config.site_limit.is_some();
    if is_limited && config.trusted_proxies.is_empty() && config.listen.ip().is_loopback() {
        tracing::warn!(
            "nobody is limited: all who come to {} are this machine; name the proxy by --trusted-proxy",
            config.listen
        );
    }
}

fn say_memory(terms: &[Term]) {
    let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
    let sum: u64 = terms.iter().map(|term| term.bytes).sum();
    let parts: Vec<_> =
        terms.iter().map(|term| format!("{} {}", term.holder, mebibytes(term.bytes))).collect();
    tracing::info!("memory stays under {} MiB: {}", mebibytes(sum), parts.join(" + "));
}

/// How long requests that have come may take to be answered once the server stops.
const STOP: Duration = Duration::from_secs(10);
/// Between two looks at whether they are: two things are waited for, signals and connections, and no connection is to wake
/// this thread on a request's way.
const STOP_LOOK: Duration = Duration::from_millis(10);

impl Running {
    /// Serves until the operator ends the process by SIGTERM or SIGINT: then no connection is taken any more, what has come
    /// is answered, each answer the last of its connection, and this returns, after 10 s or at a second signal in any case.
    /// At SIGHUP all snapshots are read again.
    pub fn serve_until_told(mut self) {
        let signals = &mut self.signals;
        let ends = |signal: &i32| *signal != SIGHUP;
        for _ in signals.forever().take_while(|signal| !ends(signal)) {
            tracing::info!("SIGHUP: the snapshots folder is looked at again");
            self.watched.look_again();
        }
        tracing::info!("stopping: {} connections are open", self.stopping.open());
        self.stopping.begin();
        for listener in &self.listeners {
            if let Err(error) = worker::stop_listening(listener) {
                tracing::warn!("a listener cannot be stopped: {error}");
            }
        }
        let begun = clock::instant();
        while self.stopping.open() > 0 && clock::instant().duration_since(begun) < STOP {
            if signals.pending().any(|signal| ends(&signal)) {
                return tracing::warn!("stopped at once, with {} connections open", self.stopping.open());
            }
            std::thread::sleep(STOP_LOOK);
        }
        let open = self.stopping.open();
        self.recording.stop(STOP.saturating_sub(clock::instant().duration_since(begun)));
        match open {
            0 => tracing::info!("stopped"),
            _ => tracing::warn!("stopped with {open} connections open"),
        }
    }
}

fn bind(address: SocketAddr, flag: &'static str) -> Result<TcpListener, BootError> {
    worker::bind(address).map_err(|cause| BootError::Address { address, flag, cause })
}

/// What a worker listens on.
fn bind_public(addresses: &Addresses) -> Result<Vec<(TcpListener, Surface)>, BootError> {
    let listener = bind(addresses.listen, "--listen")?;
    let Some(events_listen) = addresses.events_listen else { return Ok(vec![(listener, Surface::Public)]) };
    let events = bind(events_listen, "--events-listen")?;
    Ok(vec![(listener, Surface::Edge), (events, Surface::Events)])
}

/// All are held until all are claimed: two surfaces on one port would answer for each other. Then they are kept until they are
/// listened on: reading snapshots and log takes its time.
fn claim(config: &Config) -> Result<(Addresses, Vec<worker::Kept>), BootError> {
    let failed = |address, flag| move |cause| BootError::Address { address, flag, cause };
    let claim = |address, flag| worker::claim(address).map_err(failed(address, flag));
    let (listen, admin) = (claim(config.listen, "--listen")?, claim(config.admin, "--admin")?);
    let events = config.events_listen.map(|address| claim(address, "--events-listen")).transpose()?;
    let events_listen = events.as_ref().map(|claim| claim.address);
    let addresses = Addresses { listen: listen.address, events_listen, admin: admin.address };
    let claims = [(Some(listen), "--listen"), (Some(admin), "--admin"), (events, "--events-listen")];
    let claims = claims.into_iter().filter_map(|(claim, flag)| Some((claim?, flag)));
    let keep = |(claim, flag): (worker::Claim, _)| {
        let address = claim.address;
        worker::keep(claim).map_err(failed(address, flag))
    };
    Ok((addresses, claims.map(keep).collect::<Result<_, _>>()?))
}

/// Scans the folder, and has it watched from then on.
fn publish(config: &Config, current: &Current, mut shelf: Shelf) -> Result<Watched, BootError> {
    let folder: &Path = &config.snapshots;
    let unreadable = |cause| BootError::Snapshots { folder: folder.to_owned(), cause };
    shelf.scan(folder, &HashSet::new(), current).map_err(unreadable)?;
    if current.load().sites().is_empty() {
        tracing::warn!(
            "{} holds no snapshot that can be served: every site is 404 until one is put there",
            folder.display()
        );
    }
    watcher::spawn(folder.to_owned(), shelf, current.clone(), config.rescan).map_err(BootError::Thread)
}

/// Starts one serving thread and waits until it does.
fn serve<S: worker::Service, M: FnOnce() -> S + Send + 'static>(plan: Plan<M>) -> Result<(), BootError> {
    let (started, answer) = sync_channel(1);
    worker::spawn(plan, started).map_err(BootError::Thread)?;
    let gone = || Err(io::Error::other("it ended at once"));
    answer.recv().unwrap_or_else(|_| gone()).map_err(BootError::Thread)
}
