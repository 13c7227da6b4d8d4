//! Whose address an event came from, as far as the site asks for it.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::context::Ip;

/// `privacy.ip` of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IpPolicy {
    #[default]
    None,
    /// The network: the first 24 bits of IPv4, the first 48 of IPv6.
    Truncated,
    Full,
}

impl IpPolicy {
    /// Writes what is stored: the visitor's address that a server passed on, else the peer's.
    pub(super) fn write(self, sent: Option<&str>, peer: IpAddr, out: &mut String) {
        out.clear();
        if self != Self::None {
            self.push(parsed(sent).unwrap_or(peer), out);
        }
    }

    fn push(self, address: IpAddr, out: &mut String) {
        let kept = match address.to_canonical() {
            address if self == Self::Full => address,
            IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & (!0 << 8)).into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (!0 << 80)).into(),
        };
        write!(out, "{kept}").expect("a String takes everything");
    }

    /// What becomes of `context.ip` in the payload: a stored address must not stand there longer than in its own column.
    /// `stored` is what `write` wrote.
    pub(super) fn payload<'a>(self, sent: Option<&str>, stored: &'a str) -> Ip<'a> {
        match self {
            Self::Truncated if parsed(sent).is_some() => Ip::Written(stored),
            Self::Full => Ip::AsSent,
            _ => Ip::Gone,
        }
    }
}

fn parsed(sent: Option<&str>) -> Option<IpAddr> {
    sent?.trim().parse().ok()
}
