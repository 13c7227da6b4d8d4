//! Pending responses: requests that wait for another thread, and the wakeups that the other thread sends when
//! some are ready.
//!
//! A wakeup is a byte in a pair of sockets. It wakes the worker in its own event loop, with io_uring and with
//! epoll. One wakeup can announce several completions.

use std::future::{Future, poll_fn};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use monoio::io::AsyncReadRent;
use monoio::time::{Sleep, sleep_until};

use super::draining;
use super::runtime::Driver;
use super::state::WorkerState;
use super::timeouts::TimeoutGuard;
use crate::api::Service;

/// A pending response, as a future. If it is dropped unfinished, it cancels the request in the service.
pub(super) struct PendingResponse<'s, S: Service> {
    worker: &'s WorkerState<S>,
    token: usize,
    pub(super) is_done: bool,
    /// The client, if the request ends when it has gone.
    client: Option<&'s TimeoutGuard>,
    /// Ends the wait of a request that is not ready in time.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<'s, S: Service> PendingResponse<'s, S> {
    /// Creates the future and schedules a flush. The flush runs after the connections that are ready in this
    /// iteration of the event loop.
    pub(super) fn new(worker: &'s WorkerState<S>, timeout_guard: &'s TimeoutGuard, token: usize) -> Self {
        if let Some(waker) = &*worker.flush_waker.borrow() {
            waker.wake_by_ref();
        }
        let service = worker.service.borrow();
        let timer = service.deadline(token).map(|deadline| Box::pin(sleep_until(deadline.into())));
        let client = service.ends_with_client(token).then_some(timeout_guard);
        Self { worker, token, is_done: false, client, timer }
    }

    /// Returns approximately how much memory the request uses, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.worker.service.borrow().pending_bytes(self.token)
    }

    /// Returns whether the client asked the server to wait.
    pub(super) fn is_timed(&self) -> bool {
        self.timer.is_some()
    }
}

impl<S: Service> Future for PendingResponse<'_, S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let is_over = self.timer.as_mut().is_some_and(|timer| timer.as_mut().poll(context).is_ready());
        let has_gone = self.client.is_some_and(|client| client.poll_hang_up(context).is_ready());
        if is_over || has_gone || self.worker.service.borrow().is_ready(self.token) {
            return Poll::Ready(());
        }
        let mut wakers = self.worker.wakers.borrow_mut();
        if wakers.len() <= self.token {
            wakers.resize(self.token + 1, None);
        }
        wakers[self.token] = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<S: Service> Drop for PendingResponse<'_, S> {
    fn drop(&mut self) {
        if !self.is_done {
            self.worker.service.borrow_mut().cancel(self.token);
        }
    }
}

/// Flushes new pending requests to the other thread, each time its waker is called. A woken task runs after
/// the connections that are already scheduled, so one flush covers the requests of all of them.
pub(super) async fn flush_when_woken<S: Service>(worker: Rc<WorkerState<S>>) {
    poll_fn(|context| {
        worker.flush_waker.borrow_mut().get_or_insert_with(|| context.waker().clone());
        worker.service.borrow_mut().flush();
        Poll::Pending
    })
    .await
}

/// Wakes the connections of completed requests, at each wakeup from the other thread.
pub(super) async fn wake_completed<S: Service>(
    wakeup_rx: UnixStream,
    driver: Driver,
    worker: Rc<WorkerState<S>>,
) {
    // epoll needs a non-blocking socket, io_uring a blocking one, as with listeners.
    let prepared = wakeup_rx.set_nonblocking(driver == Driver::Epoll);
    let mut wakeup_rx = match prepared.and_then(|()| monoio::net::UnixStream::from_std(wakeup_rx)) {
        Ok(wakeup_rx) => wakeup_rx,
        Err(error) => {
            return tracing::error!(%error, "worker cannot read wakeups; pending responses will not be sent");
        }
    };
    let mut byte = vec![0; 64];
    loop {
        let (read, buffer) = wakeup_rx.read(byte).await;
        byte = buffer;
        if matches!(read, Ok(0)) {
            return;
        }
        worker.busy_poller.on_activity();
        wake_ready(&worker);
    }
}

/// Wakes the connections of all requests that are ready. If the server stops, the worker begins to drain.
pub(super) fn wake_ready<S: Service>(worker: &Rc<WorkerState<S>>) {
    if worker.lifecycle.is_draining() {
        draining::begin(worker);
        worker.service.borrow_mut().drain();
    }
    loop {
        let Some(token) = worker.service.borrow_mut().take_completion() else { return };
        let waker = worker.wakers.borrow_mut().get_mut(token).and_then(Option::take);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
