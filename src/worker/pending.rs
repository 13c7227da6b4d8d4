//! Requests whose answers wait for another thread, and the bell by which that thread says that some are complete.
//!
//! A bell is a pair of sockets: a byte in it wakes the worker in its own event loop, whichever that is, once for all that came.

use std::future::{Future, poll_fn};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use monoio::io::AsyncReadRent;

use super::Service;
use super::connection::Shared;
use super::memory::Holding;
use super::runtime::Kernel;

/// A request that waits. Where it is dropped before it is done, it is forgotten.
pub(super) struct Waiting<'s, S: Service> {
    shared: &'s Shared<S>,
    token: usize,
    pub(super) is_done: bool,
    /// Not only the disk is waited for: answers before may stand in the way, as long as their client takes nothing.
    _held: Holding,
}

impl<'s, S: Service> Waiting<'s, S> {
    /// It is handed over once those who are to be answered in this turn of the loop have been.
    pub(super) fn new(shared: &'s Shared<S>, token: usize) -> Self {
        if let Some(waker) = &*shared.hander.borrow() {
            waker.wake_by_ref();
        }
        let held = shared.held.hold(shared.service.borrow().waiting_bytes(token));
        Self { shared, token, is_done: false, _held: held }
    }
}

impl<S: Service> Future for Waiting<'_, S> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.shared.service.borrow().is_complete(self.token) {
            return Poll::Ready(());
        }
        let mut wakers = self.shared.wakers.borrow_mut();
        if wakers.len() <= self.token {
            wakers.resize(self.token + 1, None);
        }
        wakers[self.token] = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<S: Service> Drop for Waiting<'_, S> {
    fn drop(&mut self) {
        if !self.is_done {
            self.shared.service.borrow_mut().forget(self.token);
        }
    }
}

/// Has the other thread look whenever something new waits. Woken, it stands behind the connections that are to be polled
/// already, so that all of them are handed over together.
pub(super) async fn hand_over<S: Service>(shared: Rc<Shared<S>>) {
    poll_fn(|context| {
        shared.hander.borrow_mut().get_or_insert_with(|| context.waker().clone());
        shared.service.borrow_mut().hand_over();
        Poll::Pending
    })
    .await
}

/// Wakes what is complete, whenever the bell is rung.
pub(super) async fn hear<S: Service>(bell: UnixStream, kernel: Kernel, shared: Rc<Shared<S>>) {
    // As with listeners.
    let prepared = bell.set_nonblocking(kernel == Kernel::Epoll);
    let mut bell = match prepared.and_then(|()| monoio::net::UnixStream::from_std(bell)) {
        Ok(bell) => bell,
        Err(error) => return tracing::error!("a worker cannot hear of what is recorded: {error}"),
    };
    let mut rung = vec![0; 64];
    loop {
        let (read, buffer) = bell.read(rung).await;
        rung = buffer;
        if matches!(read, Ok(0)) {
            return;
        }
        shared.spinning.came();
        loop {
            let Some(token) = shared.service.borrow_mut().take_completion() else { break };
            let waker = shared.wakers.borrow_mut().get_mut(token).and_then(Option::take);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}
