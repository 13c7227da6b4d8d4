//! The addresses that a command listens on.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

/// An address that another process uses, or that this machine does not have.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {cause}. If another process uses the port, stop it or change {flag}")]
pub struct ListenError {
    pub address: SocketAddr,
    /// The flag that sets the address.
    pub flag: &'static str,
    pub cause: io::Error,
}

/// Parses an address with a port. Without a host it is 127.0.0.1, as is `localhost`.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    match (host, port.parse()) {
        ("" | "localhost", Ok(port)) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        _ => text.parse().map_err(|_| {
            "expected an address and a port, such as 127.0.0.1:8080, [::]:8080, localhost:8080 or 8080"
                .to_owned()
        }),
    }
}
