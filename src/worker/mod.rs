//! A worker: one pinned thread with its own ring (or epoll), its own listener on the shared port,
//! its own desk. Workers share nothing that is written on a request's way.

mod connection;
mod deadlines;
mod listener;
mod ring;
mod stopping;

use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

pub use listener::{bind, claim, stop_listening};
pub use ring::Kernel;
pub use stopping::Stopping;

use self::deadlines::Deadlines;
use crate::api::Desk;
use crate::config::Timeouts;
use crate::http::request::Request;
use crate::limits::SWEEPS_PER_TIMEOUT;
use crate::problem::Problem;

/// What a connection asks to have its requests answered.
pub trait Service: 'static {
    /// Appends the answer to a whole request.
    fn answer(&mut self, request: &Request<'_>, peer: SocketAddr, out: &mut Vec<u8>);
    /// Appends the refusal of what is not a request.
    fn refuse(&mut self, problem: &Problem<'_>, out: &mut Vec<u8>);
    /// The header, lower case, that the parser must look for beside those it knows.
    fn country_header(&self) -> Option<&str>;
    /// Once a second.
    fn tick(&mut self);
}

impl Service for Desk {
    fn answer(&mut self, request: &Request<'_>, _peer: SocketAddr, out: &mut Vec<u8>) {
        Desk::answer(self, request, out);
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

/// How a thread that serves connections is set up.
pub struct Plan<M> {
    /// The thread's name.
    pub name: String,
    /// The CPU that it stays on; None: any.
    pub cpu: Option<usize>,
    /// Its kernel interface.
    pub kernel: Kernel,
    /// How long its connections may take.
    pub timeouts: Timeouts,
    /// When it is to stop.
    pub stopping: Stopping,
    /// Bound and listening.
    pub listener: TcpListener,
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
    thread::Builder::new().name(plan.name.clone()).spawn(move || {
        if let Some(cpu) = plan.cpu {
            pin(cpu);
        }
        let Plan { kernel, timeouts, stopping, listener, service, .. } = plan;
        ring::run(kernel, &started, || {
            let period = (timeouts.shortest() / SWEEPS_PER_TIMEOUT).min(Duration::from_secs(1));
            let deadlines = Deadlines::new(timeouts, period);
            let shared = Rc::new(connection::Shared::new(service(), deadlines, stopping));
            serve(listener, kernel, shared, period)
        });
    })?;
    Ok(())
}

async fn serve<S: Service>(
    listener: TcpListener,
    kernel: Kernel,
    shared: Rc<connection::Shared<S>>,
    period: Duration,
) {
    monoio::spawn(tick(Rc::clone(&shared)));
    monoio::spawn(sweep(Rc::clone(&shared), period));
    listener::accept(listener, kernel, shared).await;
    // No more come; those that are open are still served.
    std::future::pending().await
}

async fn tick<S: Service>(shared: Rc<connection::Shared<S>>) {
    loop {
        monoio::time::sleep(Duration::from_secs(1)).await;
        shared.service.borrow_mut().tick();
    }
}

/// One timer for all connections: none is set for a read.
async fn sweep<S: Service>(shared: Rc<connection::Shared<S>>, period: Duration) {
    loop {
        monoio::time::sleep(period).await;
        shared.deadlines.sweep(shared.stopping.has_begun());
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
