//! Boot: what is started in which order, and which thread does what.
//!
//! The order: the addresses are claimed, so that a port in use is noticed before anything else is
//! done; the snapshots are scanned; the operator's address listens, then the workers. When
//! `start` returns, every listener accepts.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::admin::Operator;
use crate::api::{Desk, Settings, Surface};
use crate::config::{Config, Timeouts};
use crate::edge::agent::Agents;
use crate::snapshot::current::Current;
use crate::snapshot::open::Budget;
use crate::snapshot::shelf::Shelf;
use crate::snapshot::watch;
use crate::worker::{self, Kernel, Plan};

/// A server that serves. There is no stopping it but ending the process.
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
    let operator = move || Operator::new(operator_desk(), token);
    let timeouts = config.timeouts;
    serve("operator".into(), None, kernel, timeouts, (admin, "--admin"), operator)?;

    let cpus = worker::cpus();
    let workers = config.workers.unwrap_or(cpus.len()).max(1);
    for i in 0..workers {
        let cpu = cpus.get(i % cpus.len().max(1)).copied();
        serve(format!("worker-{i}"), cpu, kernel, timeouts, (listen, "--listen"), desk(Surface::Edge))?;
    }
    Ok(Running { listen, admin, workers, kernel })
}

/// Returns when the operator ends the process by SIGTERM or SIGINT.
///
/// # Errors
/// Signals cannot be waited for.
pub fn wait_for_the_end() -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let signal = signals.forever().next();
    tracing::info!(signal, "ended by a signal");
    Ok(())
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
fn serve<S: worker::Service>(
    name: String,
    cpu: Option<usize>,
    kernel: Kernel,
    timeouts: Timeouts,
    (address, flag): (SocketAddr, &'static str),
    service: impl FnOnce() -> S + Send + 'static,
) -> Result<(), BootError> {
    let listener = worker::bind(address).map_err(|cause| BootError::Address { address, flag, cause })?;
    let (started, answer) = sync_channel(1);
    let plan = Plan { name, cpu, kernel, timeouts, listener, service };
    worker::spawn(plan, started).map_err(BootError::Thread)?;
    let gone = || Err(io::Error::other("it ended at once"));
    answer.recv().unwrap_or_else(|_| gone()).map_err(BootError::Thread)
}
