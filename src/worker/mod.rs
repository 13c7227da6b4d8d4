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
use std::time::{Duration, Instant};

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
use crate::api::{Endpoint, Handler, Outcome, Poll, SharedBytes, SharedParts};
use crate::config::ConnectionLimits;
use crate::http::refused_head::RefusedHead;
use crate::http::request::{BufferedRequest, Request, RequestMeta, Surface};
use crate::metrics::Totals;
use crate::problem::Problem;
use crate::threads;

/// Number of timeout sweeps of a worker within its shortest timeout. So a connection is ended at most a
/// twentieth of its timeout late. If thousands time out at once, a second twentieth is left for their
/// responses: a tenth is allowed.
const SWEEPS_PER_TIMEOUT: u32 = 20;

/// A service that answers the requests of a worker's connections.
pub trait Service: 'static {
    /// Appends the response to a complete request, or returns a token if the response is pending.
    fn handle(&mut self, request: &Request<'_>, meta: &RequestMeta, out: &mut Vec<u8>) -> Poll;
    /// Appends the response to a request that was pending and is ready.
    fn finish(
        &mut self,
        token: usize,
        buffered: &BufferedRequest<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let _ = (token, buffered, meta, out);
        Outcome::default()
    }
    /// Returns whether the pending request with this token can be finished.
    fn is_ready(&self, token: usize) -> bool {
        let _ = token;
        true
    }
    /// Returns the time at which the worker finishes the pending request with this token, even if it is not ready.
    /// `None` if the request waits without a limit.
    fn deadline(&self, token: usize) -> Option<Instant> {
        let _ = token;
        None
    }
    /// Makes all requests ready that need not wait longer, because the server is draining.
    fn drain(&mut self) {}
    /// Notifies the other thread of the requests that became pending since the last call. The worker calls
    /// this once for all requests of an event loop iteration.
    fn flush(&mut self) {}
    /// Returns approximately how much memory the pending request with this token uses, in bytes.
    fn pending_bytes(&self, token: usize) -> usize {
        let _ = token;
        0
    }
    /// Returns the token of a request that became ready, each one once. The worker calls this until it
    /// returns `None`.
    fn take_completion(&mut self) -> Option<usize> {
        None
    }
    /// Abandons the pending request with this token, because its client is gone.
    fn cancel(&mut self, token: usize) {
        let _ = token;
    }
    /// Appends the problem of input that is not a complete and valid request.
    fn reject(
        &mut self,
        problem: &Problem<'_>,
        head: &RefusedHead<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    );
    /// Returns whether the pending request with this token is abandoned when its client closes the connection. Otherwise the
    /// worker notices that only when it writes the response.
    fn ends_with_client(&self, token: usize) -> bool {
        let _ = token;
        false
    }
    /// Moves the shared parts of the responses since the last call to `shared`.
    fn take_shared_parts(&mut self, shared: &mut SharedParts) {
        let _ = shared;
    }
    /// Returns whether these bytes keep a snapshot in memory that is not served any more.
    fn is_of_replaced_snapshot(&mut self, bytes: &SharedBytes) -> bool {
        let _ = bytes;
        false
    }
    /// Returns the country header (lower case) that the parser extracts in addition to the standard ones.
    fn country_header(&self) -> Option<&str>;
    /// Runs periodic work. The worker calls this once a second.
    fn tick(&mut self);
}

impl Service for Handler {
    fn handle(&mut self, request: &Request<'_>, meta: &RequestMeta, out: &mut Vec<u8>) -> Poll {
        Handler::handle(self, request, meta, out)
    }

    fn finish(
        &mut self,
        token: usize,
        buffered: &BufferedRequest<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    ) -> Outcome {
        Handler::complete(self, token, buffered, meta, out)
    }

    fn is_ready(&self, token: usize) -> bool {
        Handler::is_ready(self, token)
    }

    fn deadline(&self, token: usize) -> Option<Instant> {
        Handler::deadline(self, token)
    }

    fn flush(&mut self) {
        Handler::flush(self);
    }

    fn pending_bytes(&self, token: usize) -> usize {
        Handler::pending_bytes(self, token)
    }

    fn take_completion(&mut self) -> Option<usize> {
        Handler::take_completion(self)
    }

    fn ends_with_client(&self, token: usize) -> bool {
        Handler::ends_with_client(self, token)
    }

    fn cancel(&mut self, token: usize) {
        Handler::cancel(self, token);
    }

    fn drain(&mut self) {
        Handler::drain(self);
    }

    fn reject(
        &mut self,
        problem: &Problem<'_>,
        head: &RefusedHead<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    ) {
        Handler::reject_unparsed(self, problem, head, meta.surface, out);
    }

    fn take_shared_parts(&mut self, shared: &mut SharedParts) {
        Handler::take_shared_parts(self, shared);
    }

    fn is_of_replaced_snapshot(&mut self, bytes: &SharedBytes) -> bool {
        bytes.is_of_replaced_snapshot(self.catalog())
    }

    fn country_header(&self) -> Option<&str> {
        Handler::country_header(self)
    }

    fn tick(&mut self) {
        Handler::tick(self);
    }
}

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
