//! The lifecycle of the server, shared by all threads: accepting, draining, and the numbers of open listeners
//! and connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A handle to the lifecycle of the server. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Lifecycle(Arc<State>);

#[derive(Debug, Default)]
struct State {
    accepting: AtomicBool,
    draining: AtomicBool,
    open_listeners: AtomicUsize,
    open_connections: AtomicUsize,
}

impl Lifecycle {
    /// Starts draining: each response is now the last of its connection, and idle connections are closed.
    pub fn start_draining(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
    }

    /// Returns whether the server is draining.
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Relaxed)
    }

    /// Counts a listener until the returned value is dropped.
    pub(super) fn open_listener(&self) -> OpenListener {
        self.0.open_listeners.fetch_add(1, Ordering::Relaxed);
        OpenListener(self.clone())
    }

    /// Returns whether a listener may accept a connection, or an accepted one is open.
    pub fn has_connections(&self) -> bool {
        // The listeners first: a connection is counted before its listener is dropped.
        self.0.open_listeners.load(Ordering::Acquire) > 0 || self.open_connections() > 0
    }

    /// Returns the number of open connections, without those of the admin address.
    pub fn open_connections(&self) -> usize {
        self.0.open_connections.load(Ordering::Relaxed)
    }

    /// Marks the public addresses as accepting connections.
    pub fn start_accepting(&self) {
        self.0.accepting.store(true, Ordering::Relaxed);
    }

    /// Returns whether the public addresses accept connections and the server is not draining.
    pub fn is_accepting(&self) -> bool {
        self.0.accepting.load(Ordering::Relaxed) && !self.is_draining()
    }

    /// Counts a connection until the returned value is dropped. If `connections_max` others are open, `make_room` closes
    /// one. Returns `None` if it returns false.
    pub(super) fn try_open_connection(
        &self,
        connections_max: usize,
        make_room: impl FnOnce() -> bool,
    ) -> Option<OpenConnection> {
        let others = self.0.open_connections.fetch_add(1, Ordering::Relaxed);
        let open = OpenConnection(self.clone());
        (others < connections_max || make_room()).then_some(open)
    }
}

/// An open connection. Dropping it decrements the count.
pub(super) struct OpenConnection(Lifecycle);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.0.open_connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A listener that accepts connections. Dropping it decrements the count.
pub(super) struct OpenListener(Lifecycle);

impl Drop for OpenListener {
    fn drop(&mut self) {
        self.0.0.open_listeners.fetch_sub(1, Ordering::Release);
    }
}
