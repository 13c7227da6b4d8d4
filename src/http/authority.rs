//! Hosts with an optional port (RFC 3986 section 3.2.2, RFC 9110 section 7.2).

use std::net::Ipv6Addr;

/// The bytes of a `reg-name`: unreserved, pct-encoded and sub-delims (RFC 3986 section 3.2.2).
const IS_REG_NAME_BYTE: [bool; 256] = {
    let mut is_name = [false; 256];
    let others = b"-._~%!$&'()*+,;=";
    let mut at = 0;
    while at < others.len() {
        is_name[others[at] as usize] = true;
        at += 1;
    }
    let mut byte = 0;
    while byte < 128 {
        is_name[byte] |= (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    is_name
};

/// Returns whether `text` is `uri-host [ ":" port ]` (RFC 9110 section 7.2) with a host that is not empty.
pub(super) fn is_authority(text: &[u8]) -> bool {
    let Some(literal) = text.strip_prefix(b"[") else {
        let is_name = |b: &u8| IS_REG_NAME_BYTE[usize::from(*b)];
        let host_bytes = text.iter().position(|b| !is_name(b)).unwrap_or(text.len());
        return host_bytes > 0 && is_port(&text[host_bytes..]);
    };
    let Some(end) = literal.iter().rposition(|b| *b == b']') else { return false };
    is_ip_literal(&literal[..end]) && is_port(&literal[end + 1..])
}

/// Returns whether `text` is empty or a colon and digits.
fn is_port(text: &[u8]) -> bool {
    match text {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// Returns whether `text` is an IPv6 address, or one of a future version (RFC 3986 section 3.2.2).
fn is_ip_literal(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let Some((version, address)) = text.strip_prefix(['v', 'V']).and_then(|rest| rest.split_once('.')) else {
        return text.parse::<Ipv6Addr>().is_ok();
    };
    let is_address_byte = |b: u8| b == b':' || b != b'%' && IS_REG_NAME_BYTE[usize::from(b)];
    [version, address].iter().all(|part| !part.is_empty())
        && version.bytes().all(|b| b.is_ascii_hexdigit())
        && address.bytes().all(is_address_byte)
}
