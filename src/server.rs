//! Boot: what is started in which order, and which thread does what.
//!
//! The order: the addresses are claimed, so that a port in use is noticed before anything else is
//! done; the snapshots are scanned; the operator's address listens, then the workers. When
//! `start` returns, every listener accepts.

use std::collections::HashSet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::admin::Operator;
use crate::api::{Desk, Settings, Surface};
use crate::clock;
use crate::config::Config;
use crate::edge::agent::Agents;
use crate::snapshot::current::Current;
use crate::snapshot::open::Budget;
use crate::snapshot::shelf::Shelf;
use crate::snapshot::watch;
use crate::worker::{self, Kernel, Plan, Stopping};

/// A server that serves, until the process ends.
#[derive(Debug)]
pub struct Running {
    /// Edge's address, its port filled in.
    pub listen: SocketAddr,
    /// The operator's address, its port filled in.
    pub admin: SocketAddr,
    /// Worker threads.
    pub workers: usize,
    /// What serves them.
    pub kernel: Kernel,
    /// Heard since before anything listened, so that none is lost.
    signals: Signals,
    stopping: Stopping,
    /// The workers' own, held to stop them.
    listeners: Vec<TcpListener>,
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
        "io_uring is not to be had: {0}; use --driver auto or epoll, or allow io_uring (sysctl kernel.io_uring_disabled, the container's seccomp profile)"
    )]
    Driver(io::Error),
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
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(BootError::Thread)?;
    let [listen, admin] = claim_both(config.listen, config.admin)?;
    let (kernel, note) = Kernel::choose(config.driver).map_err(BootError::Driver)?;
    if let Some(note) = note {
        tracing::warn!("{note}");
    }
    let current = Current::default();
    publish(&config, &current)?;

    let agents = Arc::new(Agents::new());
    let settings = Settings {
        explain: config.explain,
        country_header: config.country_header.map(String::into_boxed_str),
    };
    let desk = |surface| {
        let (settings, current, agents) = (settings.clone(), current.clone(), Arc::clone(&agents));
        move || Desk::new(surface, settings, &current, agents)
    };
    let operator_desk = desk(Surface::Admin);
    let token = config.admin_token;
    let stopping = Stopping::default();
    let told = stopping.clone();
    let operator = move || Operator::new(operator_desk(), token, told);
    let timeouts = config.timeouts;
    let listener = bind(admin, "--admin")?;
    // Its connections are not waited for, so they have a stop of their own.
    let stopping_own = Stopping::default();
    let name = "operator".to_owned();
    serve(Plan { name, cpu: None, kernel, timeouts, stopping: stopping_own, listener, service: operator })?;

    let cpus = worker::cpus();
    let workers = config.workers.unwrap_or(cpus.len()).max(1);
    let mut listeners = Vec::with_capacity(workers);
    for i in 0..workers {
        let listener = bind(listen, "--listen")?;
        listeners.push(listener.try_clone().map_err(BootError::Thread)?);
        let (name, cpu) = (format!("worker-{i}"), cpus.get(i % cpus.len().max(1)).copied());
        let (stopping, service) = (stopping.clone(), desk(Surface::Edge));
        serve(Plan { name, cpu, kernel, timeouts, stopping, listener, service })?;
    }
    Ok(Running { listen, admin, workers, kernel, signals, stopping, listeners })
}

/// How long requests that have come may take to be answered once the server stops.
const STOP: Duration = Duration::from_secs(10);
/// Between two looks at whether they are: two things are waited for, signals and connections, and no connection is to wake
/// this thread on a request's way.
const STOP_LOOK: Duration = Duration::from_millis(10);

impl Running {
    /// Serves until the operator ends the process by SIGTERM or SIGINT: then no connection is taken any more, what has come
    /// is answered, each answer the last of its connection, and this returns, after 10 s or at a second signal in any case.
    /// SIGHUP asks for a look at the snapshots, which are looked at all the time.
    pub fn serve_until_told(mut self) {
        let signals = &mut self.signals;
        let ends = |signal: &i32| *signal != SIGHUP;
        signals.forever().find(ends);
        tracing::info!("stopping: {} connections are open", self.stopping.open());
        self.stopping.begin();
        for listener in &self.listeners {
            if let Err(error) = worker::stop_listening(listener) {
                tracing::warn!("a listener cannot be stopped: {error}");
            }
        }
        let begun = clock::instant();
        while self.stopping.open() > 0 {
            if signals.pending().any(|signal| ends(&signal)) || clock::instant().duration_since(begun) >= STOP
            {
                return tracing::warn!("stopped with {} connections open", self.stopping.open());
            }
            std::thread::sleep(STOP_LOOK);
        }
        tracing::info!("stopped");
    }
}

fn bind(address: SocketAddr, flag: &'static str) -> Result<TcpListener, BootError> {
    worker::bind(address).map_err(|cause| BootError::Address { address, flag, cause })
}

/// Both are held until both are claimed: two surfaces on one port would answer for each other.
fn claim_both(listen: SocketAddr, admin: SocketAddr) -> Result<[SocketAddr; 2], BootError> {
    let claim =
        |address, flag| worker::claim(address).map_err(|cause| BootError::Address { address, flag, cause });
    let claims = [claim(listen, "--listen")?, claim(admin, "--admin")?];
    Ok(claims.map(|claim| claim.address))
}

/// Scans the folder, and has it watched from then on.
fn publish(config: &Config, current: &Current) -> Result<(), BootError> {
    let folder: &Path = &config.snapshots;
    let unreadable = |cause| BootError::Snapshots { folder: folder.to_owned(), cause };
    let mut shelf = Shelf::new(Budget::new(config.snapshots_memory));
    shelf.scan(folder, &HashSet::new(), current).map_err(unreadable)?;
    if current.load().sites().is_empty() {
        tracing::warn!(
            "{} holds no snapshot that can be served: every site is 404 until one is put there",
            folder.display()
        );
    }
    watch::spawn(folder.to_owned(), shelf, current.clone(), config.rescan).map_err(BootError::Thread)
}

/// Starts one serving thread and waits until it does.
fn serve<S: worker::Service, M: FnOnce() -> S + Send + 'static>(plan: Plan<M>) -> Result<(), BootError> {
    let (started, answer) = sync_channel(1);
    worker::spawn(plan, started).map_err(BootError::Thread)?;
    let gone = || Err(io::Error::other("it ended at once"));
    answer.recv().unwrap_or_else(|_| gone()).map_err(BootError::Thread)
}
