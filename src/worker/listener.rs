//! Listeners: reserves addresses, binds one listener per address and worker, and accepts connections.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use monoio::net::TcpStream;
use socket2::{Domain, Protocol, Socket, Type};

use super::connection;
use super::rejection::reject_connection;
use super::runtime::Driver;
use super::shutdown::{Lifecycle, OpenListener};
use super::state::WorkerState;
use crate::api::Service;
use crate::clock;
use crate::http::request::{RequestMeta, Surface};
use crate::metrics::ConnectionEvent;

/// Backlog of each listener: connections that the kernel completes before we accept them.
const BACKLOG: i32 = 1024;
/// Connections accepted in a row before the worker's other tasks run.
const ACCEPT_BURST_MAX: u32 = 16;
/// Time for which binding is retried while the address is in use. The kernel releases the listeners of a dead
/// process late if it used io_uring: we measured up to 104 ms. After this time another process has the port.
const BIND_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between two attempts to bind.
const BIND_RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// Interval at which a worker looks whether all workers run.
const START_INTERVAL: Duration = Duration::from_millis(1);
/// Pause after a failed accept without a spare descriptor. Descriptors or memory are exhausted then, and a
/// busy loop would not free them.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(20);

/// An address that is bound exclusively for as long as this value exists.
pub(crate) struct BoundAddress {
    /// The address with its actual port, also if port 0 was requested.
    pub address: SocketAddr,
    _socket: Socket,
}

/// Binds `address` exclusively, which proves that no other process listens on it. A listener with a shared
/// port would not notice another one. Drop the result before you call [`bind`], because this socket does not
/// share its port.
///
/// # Errors
/// `AddrInUse` after [`BIND_TIMEOUT`], or another error of the system.
pub(crate) fn bind_exclusive(address: SocketAddr) -> io::Result<BoundAddress> {
    retry_while_in_use(|| {
        let socket = socket(address)?;
        socket.bind(&address.into())?;
        socket.listen(1)?;
        let address = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(BoundAddress { address, _socket: socket })
    })
}

/// Repeats `bind` until it succeeds, fails with another error than `AddrInUse`, or [`BIND_TIMEOUT`] is over.
fn retry_while_in_use<T>(mut bind: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let started = clock::instant();
    loop {
        match bind() {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse
                    && clock::instant().duration_since(started) < BIND_TIMEOUT =>
            {
                thread::sleep(BIND_RETRY_INTERVAL);
            }
            result => return result,
        }
    }
}

/// An address that is reserved for this process until it calls [`bind`]. The socket does not listen.
pub(crate) struct ReservedAddress {
    _socket: Socket,
}

/// Reserves an address that was bound exclusively, until the workers listen on it.
///
/// # Errors
/// As for [`bind_exclusive`].
pub(crate) fn reserve_address(bound_address: BoundAddress) -> io::Result<ReservedAddress> {
    let address = bound_address.address;
    drop(bound_address);
    retry_while_in_use(|| {
        let socket = socket(address)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        Ok(ReservedAddress { _socket: socket })
    })
}

/// Binds a listener that shares `address` with other listeners of this process.
///
/// # Errors
/// As for [`bind_exclusive`].
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    retry_while_in_use(|| {
        let socket = socket(address)?;
        socket.set_reuse_port(true)?;
        // Accepted connections inherit this. A response is one send, so delaying it would gain nothing.
        socket.set_tcp_nodelay(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    })
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    Ok(socket)
}

/// A listener of one worker.
pub(super) struct WorkerListener {
    listener: TcpListener,
    surface: Surface,
    /// A descriptor in reserve. It is released to accept and reject one connection when descriptors are
    /// exhausted.
    spare_fd: Option<File>,
    open_listener: OpenListener,
}

impl WorkerListener {
    /// Opens the spare descriptor at once, so that a worker that reported its start has it even if few
    /// descriptors remain later.
    pub(super) fn new(listener: TcpListener, surface: Surface, lifecycle: &Lifecycle) -> Self {
        Self { listener, surface, spare_fd: reserve_fd(), open_listener: lifecycle.open_listener() }
    }
}

/// Accepts connections, from the time when all workers run until the worker drains. Then it closes this handle of the socket. It never shuts
/// the socket down, because a service manager may have passed it and keep it for the next process.
///
/// There is only one accept future at a time and it is never dropped, which would leak a descriptor. A cancelled
/// accept ends with an error, or with a connection that arrived just before. That connection is served.
pub(super) async fn accept<S: Service>(
    worker_listener: WorkerListener,
    driver: Driver,
    worker: Rc<WorkerState<S>>,
) {
    let WorkerListener { listener, surface, mut spare_fd, open_listener } = worker_listener;
    // epoll needs a non-blocking socket. On one, io_uring would return EAGAIN instead of waiting. All handles of a
    // passed socket share this flag.
    let prepared = listener.set_nonblocking(driver == Driver::Epoll);
    let listener = match prepared.and_then(|()| monoio::net::TcpListener::from_std(listener)) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "worker cannot accept connections on its listener"),
    };
    // Connections may wait in the queue of a passed socket. The first worker would take all of them, and keep those that
    // stay open.
    while !worker.lifecycle.is_accepting() && !worker.lifecycle.is_draining() {
        monoio::time::sleep(START_INTERVAL).await;
    }
    let mut is_failing = false;
    let mut accepted_count = 0_u32;
    loop {
        match listener.cancelable_accept(worker.draining.cancel_handle.clone()).await {
            Ok((stream, peer)) => {
                worker.busy_poller.on_activity();
                spare_fd = spare_fd.or_else(self::reserve_fd);
                is_failing &= spare_fd.is_none();
                let connection = stream.as_raw_fd();
                let connection_meta =
                    RequestMeta { peer: peer.ip(), surface, connection, received_at: clock::instant() };
                on_accept(stream, connection_meta, spare_fd.is_some(), &worker);
                accepted_count += 1;
                if accepted_count.is_multiple_of(ACCEPT_BURST_MAX) {
                    yield_now().await;
                }
            }
            Err(_) if worker.lifecycle.is_draining() => break,
            Err(error) => {
                worker.count_event(ConnectionEvent::Failed);
                if !is_failing {
                    tracing::warn!(%error, "accept failed; retrying until it succeeds");
                }
                is_failing = true;
                // Without a descriptor, the client would wait for nothing. Release the spare one, so that the
                // next accept succeeds and the connection can be rejected.
                if spare_fd.take().is_none() {
                    monoio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
        }
    }
    // The count last: when it is zero, the process may end.
    drop(listener);
    drop(open_listener);
}

/// Serves a connection, or rejects it if it exceeds a limit.
fn on_accept<S: Service>(
    stream: TcpStream,
    connection_meta: RequestMeta,
    has_descriptors: bool,
    worker: &Rc<WorkerState<S>>,
) {
    let worker = Rc::clone(worker);
    let limits = &worker.connections;
    // A connection that is being closed still counts until its task ends. It frees the place of this one.
    let make_room = || limits.closes_waiting && worker.timeout_sweeper.close_longest_waiting();
    let open_connection =
        has_descriptors.then(|| worker.lifecycle.try_open_connection(limits.max, make_room));
    if let Some(open_connection) = open_connection.flatten() {
        worker.count_event(ConnectionEvent::Accepted);
        monoio::spawn(connection::serve(stream, connection_meta, open_connection, worker));
    } else {
        worker.count_event(ConnectionEvent::Refused);
        let sentence = match has_descriptors {
            true => "Connection limit of the server reached (--connections); retry later.",
            false => "File descriptor limit of the server reached (ulimit -n); retry later.",
        };
        monoio::spawn(reject_connection(stream, connection_meta, sentence, worker));
    }
}

/// Lets the worker's other tasks run. With epoll the worker would otherwise accept the whole backlog before
/// it answers any request.
async fn yield_now() {
    let mut has_waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Opens a descriptor that exists only to be released later.
fn reserve_fd() -> Option<File> {
    File::open("/dev/null").ok()
}
