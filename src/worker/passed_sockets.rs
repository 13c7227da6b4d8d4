//! Sockets that the service manager opened and passed to this process (socket activation, sd_listen_fds(3)).
//!
//! The service manager keeps handles of its own. So the sockets stay open between two processes, and new connections
//! wait in their queues until the next process accepts them.

use std::env;
use std::io;
use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;
use socket2::{Protocol, SockRef};

/// A listening TCP socket that the service manager passed.
pub struct PassedSocket {
    /// Its name, `FileDescriptorName=` of a socket unit, which selects the address that it serves.
    pub name: String,
    pub address: SocketAddr,
    pub listener: TcpListener,
}

/// A passed socket that the server cannot use.
#[derive(Debug, thiserror::Error)]
pub enum PassedSocketError {
    #[error("LISTEN_FDNAMES has {names} names for the {sockets} passed sockets; give each socket one name")]
    Names { names: usize, sockets: usize },
    #[error(
        "the passed socket {name:?} (descriptor {descriptor}) is not a listening TCP socket: {cause}. In its socket unit, set ListenStream= to an address with a port, and Accept=no"
    )]
    Kind { name: String, descriptor: usize, cause: io::Error },
    #[error(
        "the passed socket {name:?} on {address} has an unknown name; name it public, events or admin (FileDescriptorName= in its socket unit)"
    )]
    Name { name: String, address: SocketAddr },
    #[error(
        "the passed socket {name:?} listens on {address}, but {flag} is {expected}; set {flag} and ListenStream= of its socket unit to the same address"
    )]
    Address { name: String, address: SocketAddr, flag: &'static str, expected: SocketAddr },
    #[error(
        "the passed socket {name:?} on {address} needs {flag} {address}; set it, or disable the socket unit"
    )]
    Unwanted { name: String, address: SocketAddr, flag: &'static str },
}

/// The number of the first passed descriptor (`SD_LISTEN_FDS_START`).
const FIRST_DESCRIPTOR: usize = 3;
/// The name of a socket without a name, as sd_listen_fds_with_names(3) returns it.
const NAME_UNKNOWN: &str = "unknown";

/// Takes the sockets that were passed to this process, and their variables from its environment. Call it before
/// any thread is started, because a thread may read the environment.
///
/// # Errors
/// A descriptor is not a listening TCP socket, or the sockets and their names differ in number.
pub(crate) fn take_passed_sockets() -> Result<Vec<PassedSocket>, PassedSocketError> {
    let names = env::var("LISTEN_FDNAMES").ok();
    let mut descriptors = ListenFd::from_env();
    let sockets = descriptors.len();
    let names: Vec<String> = match names {
        Some(names) => names.split(':').map(str::to_owned).collect(),
        None => vec![NAME_UNKNOWN.to_owned(); sockets],
    };
    if sockets > 0 && names.len() != sockets {
        return Err(PassedSocketError::Names { names: names.len(), sockets });
    }
    let take = |(index, name): (usize, String)| match take_listener(&mut descriptors, index) {
        Ok((listener, address)) => Ok(PassedSocket { name, address, listener }),
        Err(cause) => Err(PassedSocketError::Kind { name, descriptor: FIRST_DESCRIPTOR + index, cause }),
    };
    names.into_iter().take(sockets).enumerate().map(take).collect()
}

fn take_listener(descriptors: &mut ListenFd, index: usize) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = descriptors.take_tcp_listener(index)?.ok_or(io::ErrorKind::NotFound)?;
    let socket = SockRef::from(&listener);
    if socket.protocol()? != Some(Protocol::TCP) {
        return Err(io::Error::other("its protocol is not TCP"));
    }
    if !socket.is_listener()? {
        return Err(io::Error::other("it does not listen"));
    }
    // Accepted connections inherit this, as with the listeners that the server binds itself.
    socket.set_tcp_nodelay(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
