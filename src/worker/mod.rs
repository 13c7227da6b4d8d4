//! A worker: one pinned thread with its own ring (or epoll), its own listener on the shared port,
//! its own desk. Workers share nothing that is written on a request's way.

mod access_log;
mod busy_poll;
mod connection;
mod listener;
mod memory;
mod pending;
mod runtime;
mod shutdown;
mod timeouts;

use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

pub use busy_poll::Spin;
pub use listener::{Claim, Kept, bind, claim, keep, stop_listening};
pub use runtime::Kernel;
pub use shutdown::Stopping;

use self::busy_poll::Spinning;
use self::listener::Listening;
use self::timeouts::Deadlines;
use crate::api::{Answered, Desk, Endpoint, Progress};
use crate::config::Connections;
use crate::http::request::{Arrival, Request, Surface, Waited};
use crate::limits::SWEEPS_PER_TIMEOUT;
use crate::metrics::Totals;
use crate::problem::Problem;

/// What a connection asks to have its requests answered.
pub trait Service: 'static {
    /// Appends the answer to a whole request, or says that it waits.
    fn answer(&mut self, request: &Request<'_>, arrival: &Arrival, out: &mut Vec<u8>) -> Progress;
    /// Appends the answer to a request that waited and is complete.
    fn finish(
        &mut self,
        token: usize,
        waited: &Waited<'_>,
        arrival: &Arrival,
        out: &mut Vec<u8>,
    ) -> Answered {
        let _ = (token, waited, arrival, out);
        Answered::default()
    }
    /// Whether what waits under this token is to be finished.
    fn is_complete(&self, token: usize) -> bool {
        let _ = token;
        true
    }
    /// Has another thread look at what waits since this was called last; once for all that come in a turn of the loop.
    fn hand_over(&mut self) {}
    /// What waits under this token holds in memory, about.
    fn waiting_bytes(&self, token: usize) -> usize {
        let _ = token;
        0
    }
    /// What came to be complete since this was asked last; asked again until there is no more.
    fn take_completion(&mut self) -> Option<usize> {
        None
    }
    /// What waits under this token will not be finished: its client is gone.
    fn forget(&mut self, token: usize) {
        let _ = token;
    }
    /// Appends the refusal of what is not a request.
    fn refuse(&mut self, problem: &Problem<'_>, out: &mut Vec<u8>);
    /// The header, lower case, that the parser must look for beside those it knows.
    fn country_header(&self) -> Option<&str>;
    /// Once a second.
    fn tick(&mut self);
}

impl Service for Desk {
    fn answer(&mut self, request: &Request<'_>, arrival: &Arrival, out: &mut Vec<u8>) -> Progress {
        Desk::answer(self, request, arrival, out)
    }

    fn finish(
        &mut self,
        token: usize,
        waited: &Waited<'_>,
        arrival: &Arrival,
        out: &mut Vec<u8>,
    ) -> Answered {
        Desk::finish(self, token, waited, arrival, out)
    }

    fn is_complete(&self, token: usize) -> bool {
        Desk::is_complete(self, token)
    }

    fn hand_over(&mut self) {
        Desk::hand_over(self);
    }

    fn waiting_bytes(&self, token: usize) -> usize {
        Desk::waiting_bytes(self, token)
    }

    fn take_completion(&mut self) -> Option<usize> {
        Desk::take_completion(self)
    }

    fn forget(&mut self, token: usize) {
        Desk::forget(self, token);
    }

    fn refuse(&mut self, problem: &Problem<'_>, out: &mut Vec<u8>) {
        Desk::refuse(self, problem, out);
    }

    fn country_header(&self) -> Option<&str> {
        Desk::country_header(self)
    }

    fn tick(&mut self) {
        Desk::tick(self);
    }
}

/// Endpoints that answers are counted by: those that there are, and the place where none is.
pub const ENDPOINTS_COUNTED: usize = Endpoint::ALL.len() + 1;

/// How a thread that serves connections is set up.
pub struct Plan<M> {
    /// The thread's name.
    pub name: String,
    /// The CPU that it stays on; None: any.
    pub cpu: Option<usize>,
    /// Its kernel interface.
    pub kernel: Kernel,
    /// How long it polls before it parks.
    pub spin: Duration,
    /// What its connections may take.
    pub connections: Connections,
    /// Where it tells what it has done.
    pub totals: Totals,
    /// When it is to stop.
    pub stopping: Stopping,
    /// Bound and listening, with what each serves.
    pub listeners: Vec<(TcpListener, Surface)>,
    /// A byte comes here when something that waited may be complete.
    pub bell: Option<UnixStream>,
    /// Makes its service, on the thread itself.
    pub service: M,
}

/// Starts a thread that serves for the rest of the process's life. Says through `started` that it
/// does, or why it cannot.
///
/// # Errors
/// The thread cannot be started.
pub fn spawn<S: Service, M: FnOnce() -> S + Send + 'static>(
    plan: Plan<M>,
    started: SyncSender<std::io::Result<()>>,
) -> std::io::Result<()> {
    let Plan { name, cpu, kernel, spin, connections, totals, stopping, listeners, bell, service } = plan;
    let listening = listeners.into_iter().map(Listening::new).collect();
    thread::Builder::new().name(name).spawn(move || {
        if let Some(cpu) = cpu {
            pin(cpu);
        }
        runtime::run(kernel, &started, || {
            let timeouts = connections.timeouts;
            let period = (timeouts.shortest() / SWEEPS_PER_TIMEOUT).min(Duration::from_secs(1));
            let deadlines = Deadlines::new(timeouts);
            let spinning = Spinning::new(spin);
            let shared =
                connection::Shared::new(service(), connections, deadlines, totals, stopping, spinning);
            serve(listening, bell, kernel, Rc::new(shared), period)
        });
    })?;
    Ok(())
}

async fn serve<S: Service>(
    listening: Vec<Listening>,
    bell: Option<UnixStream>,
    kernel: Kernel,
    shared: Rc<connection::Shared<S>>,
    period: Duration,
) {
    monoio::spawn(tick(Rc::clone(&shared)));
    monoio::spawn(sweep(Rc::clone(&shared), period));
    if let Some(bell) = bell {
        monoio::spawn(pending::hand_over(Rc::clone(&shared)));
        monoio::spawn(pending::hear(bell, kernel, Rc::clone(&shared)));
    }
    for one in listening {
        monoio::spawn(listener::accept(one, kernel, Rc::clone(&shared)));
    }
    // It never ends: when no more come, those that are open are still served.
    Rc::clone(&shared.spinning).keep_awake().await
}

async fn tick<S: Service>(shared: Rc<connection::Shared<S>>) {
    loop {
        monoio::time::sleep(Duration::from_secs(1)).await;
        shared.tick();
    }
}

/// One timer for all connections: none is set for a read.
async fn sweep<S: Service>(shared: Rc<connection::Shared<S>>, period: Duration) {
    loop {
        monoio::time::sleep(period).await;
        shared.deadlines.sweep(shared.stopping.has_begun(), shared.held.is_pressed());
    }
}

/// The CPUs that this process may run on, in order.
pub fn cpus() -> Vec<usize> {
    let Ok(mask) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| mask.is_set(*cpu)).collect()
}

fn pin(cpu: usize) {
    let mut mask = CpuSet::new();
    mask.set(cpu);
    if let Err(error) = sched_setaffinity(None, &mask) {
        tracing::warn!(cpu, "the worker is not pinned: {error}");
    }
}
