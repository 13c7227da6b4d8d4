//! Addresses: claimed once, then listened on by every worker; and accepting.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::rc::Rc;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::Service;
use super::connection::{self, Shared};
use super::ring::Kernel;

/// Connections that the kernel completes before they are accepted, for each listener.
const BACKLOG: i32 = 1024;
/// After a failed accept (descriptors out, memory out): a busy loop would not bring them back.
const BACK_OFF: Duration = Duration::from_millis(100);

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

/// Accepts until the server stops. There is one accept future at a time and it is never dropped: a cancelled one
/// would leak a descriptor.
pub(super) async fn accept<S: Service>(listener: TcpListener, kernel: Kernel, shared: Rc<Shared<S>>) {
    // epoll needs it; a ring would answer EAGAIN to it in place of waiting.
    let prepared = listener.set_nonblocking(kernel == Kernel::Epoll);
    let listener = match prepared.and_then(|()| monoio::net::TcpListener::from_std(listener)) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("a worker cannot listen: {error}"),
    };
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                monoio::spawn(connection::serve(stream, peer, Rc::clone(&shared)));
            }
            Err(_) if shared.stopping.has_begun() => return,
            Err(error) => {
                tracing::warn!("a connection was not accepted: {error}");
                monoio::time::sleep(BACK_OFF).await;
            }
        }
    }
}
