//! Who asks: the peer, or whom trusted proxies name in `X-Forwarded-For`.
//!
//! Each proxy writes the address that it saw behind those it was told, so the list is read from the right, and only as far as
//! what wrote it is trusted: what a client made up stands further left.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::limits::FORWARDED_LINES_MAX;

/// The values of `X-Forwarded-For`, of many fields the last: those that the nearest proxies wrote.
#[derive(Debug, Default, Clone, Copy)]
pub struct Forwarded<'a>([&'a [u8]; FORWARDED_LINES_MAX]);

impl<'a> Forwarded<'a> {
    /// Another field of the head.
    pub fn push(&mut self, value: &'a [u8]) {
        self.0.rotate_left(1);
        self.0[FORWARDED_LINES_MAX - 1] = value;
    }

    /// The addresses, the nearest proxy's word first; None where something else stands.
    fn nearest_first(&self) -> impl Iterator<Item = Option<IpAddr>> {
        let lines = self.0.iter().rev().filter(|line| !line.is_empty());
        lines.flat_map(|line| line.rsplit(|b| *b == b',')).map(|item| address(item.trim_ascii()))
    }
}

/// The address that a request comes from, as far as `trusted` proxies can be believed; None for this machine itself and for a
/// trusted proxy that asks on nobody's behalf.
pub fn client(peer: IpAddr, forwarded: &Forwarded<'_>, trusted: &[IpNet]) -> Option<IpAddr> {
    let is_trusted = |address: &IpAddr| trusted.iter().any(|net| net.contains(address));
    let peer = peer.to_canonical();
    if !is_trusted(&peer) {
        return Some(peer).filter(|peer| !peer.is_loopback());
    }
    // A proxy's own machine that is named is one hop more.
    let mut told =
        forwarded.nearest_first().map_while(|address| address).map(|address| address.to_canonical());
    told.find(|address| !is_trusted(address) && !address.is_loopback())
}

/// What limits count as one: an address of IPv4, the /64 of IPv6, which one household or machine has whole.
pub fn household(client: IpAddr) -> u64 {
    match client {
        // No household has a prefix that begins with 32 zeros.
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    }
}

/// An address, with a port or without, in brackets or without.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()))
}
