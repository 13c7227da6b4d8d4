//! Storage of visitors' IP addresses, as far as the site's settings allow it.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::context::IpAction;

/// A site's setting `privacy.ip`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IpPolicy {
    #[default]
    None,
    /// Only the network: the first 24 bits of an IPv4 address, the first 48 bits of an IPv6 address.
    Truncated,
    Full,
}

impl IpPolicy {
    /// Writes the address to store: the visitor's address that a server sent in `context.ip`, else the
    /// peer's.
    pub(super) fn write_stored(self, client_address: Option<&str>, peer_address: IpAddr, out: &mut String) {
        out.clear();
        if self != Self::None {
            self.push(parse_address(client_address).unwrap_or(peer_address), out);
        }
    }

    fn push(self, address: IpAddr, out: &mut String) {
        let kept = match address.to_canonical() {
            address if self == Self::Full => address,
            IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & (!0 << 8)).into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (!0 << 80)).into(),
        };
        write!(out, "{kept}").expect("writing to a String cannot fail");
    }

    /// Returns the treatment of `context.ip` in the payload. The payload must not contain more of the address
    /// than the record's `ip` field. `stored_address` is the address that was written to that field.
    pub(super) fn payload_action<'a>(
        self,
        client_address: Option<&str>,
        stored_address: &'a str,
    ) -> IpAction<'a> {
        match self {
            Self::Truncated if parse_address(client_address).is_some() => IpAction::Replace(stored_address),
            Self::Full => IpAction::Keep,
            _ => IpAction::Remove,
        }
    }
}

fn parse_address(text: Option<&str>) -> Option<IpAddr> {
    text?.trim().parse().ok()
}
