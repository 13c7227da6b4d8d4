//! Draining: a worker of a server that stops accepts no more connections and closes idle ones.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use monoio::io::{CancelHandle, Canceller};

use super::state::WorkerState;
use crate::api::Service;

/// Interval of the sweeps of a draining worker. The regular sweeps are too rare for a stop, which waits for them.
const SWEEP_INTERVAL: Duration = Duration::from_millis(25);

/// The accepts of a worker, until it drains.
pub(super) struct Draining {
    /// Cancels the accepts. `None` after they were cancelled.
    canceller: RefCell<Option<Canceller>>,
    /// The handle that is cancelled when the worker drains.
    pub(super) cancel_handle: CancelHandle,
}

impl Default for Draining {
    fn default() -> Self {
        let canceller = Canceller::new();
        Self { cancel_handle: canceller.handle(), canceller: RefCell::new(Some(canceller)) }
    }
}

/// Begins to drain at the first call: cancels the accepts of the worker, and sweeps at short intervals from now on.
pub(super) fn begin<S: Service>(worker: &Rc<WorkerState<S>>) {
    let Some(canceller) = worker.draining.canceller.take() else { return };
    canceller.cancel();
    let worker = Rc::clone(worker);
    monoio::spawn(async move {
        loop {
            worker.sweep_timeouts();
            monoio::time::sleep(SWEEP_INTERVAL).await;
        }
    });
}
