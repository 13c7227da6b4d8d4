//! Addresses: claimed once, then listened on by every worker; and accepting.

use std::fs::File;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use monoio::net::TcpStream;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::Service;
use super::connection::{self, Shared};
use super::runtime::Kernel;
use crate::clock;
use crate::http::request::{Arrival, Surface};
use crate::metrics::Happening;

/// Connections that the kernel completes before they are accepted, for each listener.
const BACKLOG: i32 = 1024;
/// Connections that are accepted in a row.
const ACCEPTED_AT_ONCE: u32 = 16;
/// After a failed accept (descriptors out, memory out): a busy loop would not bring them back.
const BACK_OFF: Duration = Duration::from_millis(20);

/// An address that nobody else listens on, for as long as this is held.
pub struct Claim {
    /// Its port filled in where it was left open (0).
    pub address: SocketAddr,
    _socket: Socket,
}

/// Makes sure that nobody else listens on `address`. A listener that shares its port would not
/// notice; this one does not share, so it must be gone before [`bind`].
///
/// # Errors
/// `AddrInUse`, or what else the system says.
pub fn claim(address: SocketAddr) -> io::Result<Claim> {
    let socket = socket(address)?;
    socket.bind(&address.into())?;
    socket.listen(1)?;
    let address = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok(Claim { address, _socket: socket })
}

/// An address that no other program gets, and that this process may still [`bind`]: nobody is listened to yet.
pub struct Kept {
    _socket: Socket,
}

/// Keeps an address that was claimed, until it is listened on.
///
/// # Errors
/// What the system says.
pub fn keep(claim: Claim) -> io::Result<Kept> {
    let address = claim.address;
    drop(claim);
    let kept = socket(address)?;
    kept.set_reuse_port(true)?;
    kept.bind(&address.into())?;
    Ok(Kept { _socket: kept })
}

/// A listener that shares `address` with others of this process.
///
/// # Errors
/// What the system says.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(address)?;
    socket.set_reuse_port(true)?;
    // Accepted connections inherit it: an answer is one send, and nothing is gained by waiting.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Takes no more connections, whoever else holds the listener: its pending accept fails.
///
/// # Errors
/// What the system says.
pub fn stop_listening(listener: &TcpListener) -> io::Result<()> {
    SockRef::from(listener).shutdown(Shutdown::Both)
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    Ok(socket)
}

/// A listener with what accepting needs.
pub(super) struct Listening {
    listener: TcpListener,
    surface: Surface,
    /// For telling who comes when descriptors are out.
    spare: Option<File>,
}

impl Listening {
    /// Takes the spare descriptor at once: who is heard to serve has it, however few there are later.
    pub(super) fn new((listener, surface): (TcpListener, Surface)) -> Self {
        Self { listener, surface, spare: spare() }
    }
}

/// Accepts until the server stops. There is one accept future at a time and it is never dropped: a cancelled one
/// would leak a descriptor.
pub(super) async fn accept<S: Service>(listening: Listening, kernel: Kernel, shared: Rc<Shared<S>>) {
    let Listening { listener, surface, mut spare } = listening;
    // epoll needs it; a ring would answer EAGAIN to it in place of waiting.
    let prepared = listener.set_nonblocking(kernel == Kernel::Epoll);
    let listener = match prepared.and_then(|()| monoio::net::TcpListener::from_std(listener)) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("a worker cannot listen: {error}"),
    };
    let (mut failing, mut accepted) = (false, 0_u32);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                shared.spinning.came();
                spare = spare.or_else(self::spare);
                failing &= spare.is_none();
                let from = Arrival { peer: peer.ip(), surface, at: clock::instant() };
                welcome(stream, from, spare.is_some(), &shared);
                accepted += 1;
                if accepted % ACCEPTED_AT_ONCE == 0 {
                    give_way().await;
                }
            }
            Err(_) if shared.stopping.has_begun() => return,
            Err(error) => {
                shared.happened(Happening::Failed);
                if !failing {
                    tracing::warn!("a connection was not accepted: {error}; it is tried again and again");
                }
                failing = true;
                // Without a descriptor for it, who comes would wait for nothing: the spare one is for telling them.
                if spare.take().is_none() {
                    monoio::time::sleep(BACK_OFF).await;
                }
            }
        }
    }
}

/// Serves a connection, or tells it that it is one too many.
fn welcome<S: Service>(stream: TcpStream, from: Arrival, has_descriptors: bool, shared: &Rc<Shared<S>>) {
    let shared = Rc::clone(shared);
    let open = if has_descriptors { shared.stopping.opened(shared.connections.max) } else { None };
    if let Some(open) = open {
        shared.happened(Happening::Accepted);
        monoio::spawn(async move {
            connection::serve(stream, from, shared).await;
            drop(open);
        });
    } else {
        shared.happened(Happening::Refused);
        let expected = match has_descriptors {
            true => {
                "another try in a moment: as many connections are open as the server allows (--connections)"
            }
            false => "another try in a moment: the server may open no more connections (ulimit -n)",
        };
        monoio::spawn(connection::refuse(stream, from, expected, shared));
    }
}

/// Lets the worker's other tasks have a turn: with epoll a backlog would be accepted whole before anybody is answered.
async fn give_way() {
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

/// A descriptor held for nothing but to be given up.
fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}
