//! The address of the client: the peer, or the address that trusted proxies report in `X-Forwarded-For`.
//!
//! Each proxy appends the address that it saw to the list that it received. So the list is read from the
//! right, and only as far as the proxy that wrote an item is trusted. Items that a client invented are
//! further left.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::limits::FORWARDED_FIELDS_MAX;

/// The values of the last `X-Forwarded-For` fields of a request. The nearest proxies wrote those.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ForwardedFor<'a>(pub(super) [&'a [u8]; FORWARDED_FIELDS_MAX]);

impl ForwardedFor<'_> {
    /// Returns the addresses, beginning with the one that the nearest proxy wrote. `None` for an item that is
    /// no address.
    fn nearest_first(&self) -> impl Iterator<Item = Option<IpAddr>> {
        let lines = self.0.iter().rev().filter(|line| !line.is_empty());
        lines.flat_map(|line| line.rsplit(|b| *b == b',')).map(|item| parse_address(item.trim_ascii()))
    }
}

/// Returns whether the peer is one of the `trusted_networks` proxies.
pub(crate) fn is_trusted(peer: IpAddr, trusted_networks: &[IpNet]) -> bool {
    let peer = peer.to_canonical();
    trusted_networks.iter().any(|net| net.contains(&peer))
}

/// Returns the client address of a request, as far as the `trusted_networks` proxies report it. Returns `None` for a
/// client on this machine, and for a trusted proxy that reports no client. If a proxy reports a text that is no
/// address, this is the address of the peer: a client that can cause such a text must not be without a limit.
pub(crate) fn client_address(
    peer: IpAddr,
    forwarded_for: &ForwardedFor<'_>,
    trusted_networks: &[IpNet],
) -> Option<IpAddr> {
    let peer = peer.to_canonical();
    if !is_trusted(peer, trusted_networks) {
        return Some(peer).filter(|peer| !peer.is_loopback());
    }
    // A loopback address in the list is one more hop: a proxy's own machine.
    let is_hop = |address: IpAddr| is_trusted(address, trusted_networks) || address.is_loopback();
    let mut reported =
        forwarded_for.nearest_first().map(|address| address.map(|address| address.to_canonical()));
    let client = reported.find(|address| !address.is_some_and(is_hop))?;
    Some(client.unwrap_or(peer))
}

/// Returns the key that rate limits count by: the IPv4 address, or the /64 of an IPv6 address. A household or
/// a machine usually has a whole /64.
pub(crate) fn rate_limit_key(client_address: IpAddr) -> u64 {
    match client_address {
        // No collision with IPv6: no client has a prefix that begins with 32 zero bits.
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    }
}

/// Parses an address, with or without a port, with or without brackets.
fn parse_address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()))
}
