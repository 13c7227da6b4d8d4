//! Workers: pinned threads that serve connections.
//!
//! Each worker has its own io_uring (or epoll), its own listeners on the shared ports, and its own request
//! handler. Workers share no state that is written while a request is handled.

mod access_log;
mod bodies;
pub(crate) mod busy_poll;
mod connection;
mod listener;
mod memory;
mod output_pool;
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
pub(crate) use listener::{
    BoundAddress, ReservedAddress, bind, bind_exclusive, reserve_address, stop_listening,
};
pub use output_pool::Output;
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

/// Starts a thread that serves until the process ends. The thread reports through `started` that it runs, or
/// why it cannot.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn spawn<S: Service, M: FnOnce() -> S + Send + 'static>(
    plan: WorkerConfig<M>,
    started: SyncSender<std::io::Result<()>>,
) -> std::io::Result<()> {
    let WorkerConfig {
        name,
        cpu,
        driver: kernel,
        busy_poll: spin,
        connections,
        totals,
        lifecycle: stopping,
        listeners,
        wakeup_rx: wakeup,
        make_service: service,
    } = plan;
    let listening = listeners.into_iter().map(WorkerListener::new).collect();
    threads::spawn(&name, move || {
        if let Some(cpu) = cpu {
            pin_to_cpu(cpu);
        }
        runtime::run(kernel, &started, || {
            let timeouts = connections.timeouts;
            let period = (timeouts.shortest() / SWEEPS_PER_TIMEOUT).min(Duration::from_secs(1));
            let deadlines = TimeoutSweeper::new(timeouts);
            let spinning = BusyPoller::new(spin);
            let shared = WorkerState::new(service(), connections, deadlines, totals, stopping, spinning);
            serve(listening, wakeup, kernel, Rc::new(shared), period)
        });
    })?;
    Ok(())
}

async fn serve<S: Service>(
    listening: Vec<WorkerListener>,
    wakeup: Option<UnixStream>,
    kernel: Driver,
    shared: Rc<WorkerState<S>>,
    period: Duration,
) {
    monoio::spawn(tick(Rc::clone(&shared)));
    monoio::spawn(sweep(Rc::clone(&shared), period));
    if let Some(wakeup) = wakeup {
        monoio::spawn(pending::flush_when_woken(Rc::clone(&shared)));
        monoio::spawn(pending::wake_completed(wakeup, kernel, Rc::clone(&shared)));
    }
    for one in listening {
        monoio::spawn(listener::accept(one, kernel, Rc::clone(&shared)));
    }
    // This future never completes. After accepting has stopped, open connections are still served.
    Rc::clone(&shared.busy_poller).keep_awake().await
}

async fn tick<S: Service>(shared: Rc<WorkerState<S>>) {
    loop {
        monoio::time::sleep(Duration::from_secs(1)).await;
        shared.tick();
    }
}

/// Sweeps the timeouts periodically: one timer for all connections, and none for a single read.
async fn sweep<S: Service>(shared: Rc<WorkerState<S>>, period: Duration) {
    loop {
        monoio::time::sleep(period).await;
        shared.timeout_sweeper.sweep(shared.lifecycle.is_draining(), shared.memory.is_under_pressure());
        pending::wake_ready(&shared);
        shared.bodies.sweep();
    }
}

/// Returns the CPUs that this process may run on, in order.
pub(crate) fn available_cpus() -> Vec<usize> {
    let Ok(mask) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| mask.is_set(*cpu)).collect()
}

fn pin_to_cpu(cpu: usize) {
    let mut mask = CpuSet::new();
    mask.set(cpu);
    if let Err(error) = sched_setaffinity(None, &mask) {
        tracing::warn!(cpu, %error, "could not pin the worker to its CPU; it may run on any CPU");
    }
}
