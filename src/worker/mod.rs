//! Workers: pinned threads that serve connections.
//!
//! Each worker has its own io_uring (or epoll), its own listeners on the shared ports, and its own request
//! handler. Workers share no state that is written while a request is handled. They share the sockets that a
//! service manager passed.

mod access_log;
mod bodies;
pub(crate) mod busy_poll;
mod connection;
mod draining;
mod listener;
mod memory;
mod output_pool;
mod passed_sockets;
mod pending;
mod receive_rate;
mod rejection;
mod runtime;
mod shutdown;
mod state;
mod timeouts;
mod unsent;

use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

pub use busy_poll::BusyPoll;
pub(crate) use listener::{BoundAddress, ReservedAddress, bind, bind_exclusive, reserve_address};
pub use output_pool::Output;
pub(crate) use passed_sockets::{PassedSocket, PassedSocketError, take_passed_sockets};
pub use receive_rate::ReceiveRate;
pub(crate) use runtime::Driver;
pub use shutdown::Lifecycle;
pub use unsent::UnsentBytes;

use self::busy_poll::BusyPoller;
use self::listener::WorkerListener;
use self::state::WorkerState;
use self::timeouts::TimeoutSweeper;
use crate::api::{Endpoint, Service};
use crate::config::ConnectionLimits;
use crate::http::request::Surface;
use crate::metrics::Totals;
use crate::threads;

/// Number of timeout sweeps of a worker within its shortest timeout. So a connection is ended at most a
/// twentieth of its timeout late. If thousands time out at once, a second twentieth is left for their
/// responses: a tenth is allowed.
const SWEEPS_PER_TIMEOUT: u32 = 20;

/// Number of per-endpoint counters: one for each endpoint, and one for requests that reached none.
pub const ENDPOINT_COUNTERS: usize = Endpoint::ALL.len() + 1;

/// The configuration of a thread that serves connections.
pub(crate) struct WorkerConfig<M> {
    /// The name of the thread.
    pub name: String,
    /// The CPU that the thread is pinned to. `None` for any CPU.
    pub cpu: Option<usize>,
    /// The I/O driver of the thread.
    pub driver: Driver,
    /// How long the thread polls before it parks. Zero to park at once.
    pub busy_poll: Duration,
    /// Limits and timeouts of its connections.
    pub connections: ConnectionLimits,
    /// The totals that the thread adds its counters to.
    pub totals: Totals,
    /// The lifecycle of the server, which tells the thread to drain.
    pub lifecycle: Lifecycle,
    /// Sockets that listen already, with the surface that each one serves.
    pub listeners: Vec<(TcpListener, Surface)>,
    /// Receives a byte when pending requests may have become ready.
    pub wakeup_rx: Option<UnixStream>,
    /// Creates the service, on the thread itself.
    pub make_service: M,
}

/// Starts a thread that serves until the process ends. The thread reports through `start_sender` that it runs, or
/// why it cannot.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn spawn<S: Service, M: FnOnce() -> S + Send + 'static>(
    config: WorkerConfig<M>,
    start_sender: SyncSender<std::io::Result<()>>,
) -> std::io::Result<()> {
    let WorkerConfig {
        name,
        cpu,
        driver,
        busy_poll,
        connections,
        totals,
        lifecycle,
        listeners,
        wakeup_rx,
        make_service,
    } = config;
    let worker_listener = |(listener, surface)| WorkerListener::new(listener, surface, &lifecycle);
    let listeners = listeners.into_iter().map(worker_listener).collect();
    threads::spawn(&name, move || {
        if let Some(cpu) = cpu {
            pin_to_cpu(cpu);
        }
        runtime::run(driver, &start_sender, || {
            let timeouts = connections.timeouts;
            let period = (timeouts.shortest() / SWEEPS_PER_TIMEOUT).min(Duration::from_secs(1));
            let timeout_sweeper = TimeoutSweeper::new(timeouts);
            let busy_poller = BusyPoller::new(busy_poll);
            let worker = WorkerState::new(
                make_service(),
                connections,
                timeout_sweeper,
                totals,
                lifecycle,
                busy_poller,
            );
            serve(listeners, wakeup_rx, driver, Rc::new(worker), period)
        });
    })?;
    Ok(())
}

async fn serve<S: Service>(
    listeners: Vec<WorkerListener>,
    wakeup_rx: Option<UnixStream>,
    driver: Driver,
    worker: Rc<WorkerState<S>>,
    sweep_period: Duration,
) {
    monoio::spawn(tick(Rc::clone(&worker)));
    monoio::spawn(sweep(Rc::clone(&worker), sweep_period));
    if let Some(wakeup_rx) = wakeup_rx {
        monoio::spawn(pending::flush_when_woken(Rc::clone(&worker)));
        monoio::spawn(pending::wake_completed(wakeup_rx, driver, Rc::clone(&worker)));
    }
    for listener in listeners {
        monoio::spawn(listener::accept(listener, driver, Rc::clone(&worker)));
    }
    // This future never completes. After accepting has stopped, open connections are still served.
    Rc::clone(&worker.busy_poller).keep_awake().await
}

async fn tick<S: Service>(worker: Rc<WorkerState<S>>) {
    loop {
        monoio::time::sleep(Duration::from_secs(1)).await;
        worker.tick();
    }
}

/// Sweeps the timeouts periodically: one timer for all connections, and none for a single read.
async fn sweep<S: Service>(worker: Rc<WorkerState<S>>, sweep_period: Duration) {
    loop {
        monoio::time::sleep(sweep_period).await;
        worker.sweep_timeouts();
        pending::wake_ready(&worker);
        worker.bodies.sweep();
    }
}

/// Returns the CPUs that this process may run on, in order.
pub(crate) fn available_cpus() -> Vec<usize> {
    let Ok(mask) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| mask.is_set(*cpu)).collect()
}

fn pin_to_cpu(cpu_index: usize) {
    let mut mask = CpuSet::new();
    mask.set(cpu_index);
    if let Err(error) = sched_setaffinity(None, &mask) {
        tracing::warn!(cpu = cpu_index, %error, "could not pin the worker to its CPU; it may run on any CPU");
    }
}
