//! HTTP Basic credentials (RFC 7617): libraries send a site's write key as the user, with no password.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The user of Basic credentials, in `decoded`, which is cleared; None where there are none, or none that can be read.
pub fn basic_user<'a>(authorization: &[u8], decoded: &'a mut Vec<u8>) -> Option<&'a str> {
    let (scheme, credentials) = authorization.split_at_checked(b"Basic ".len())?;
    decoded.clear();
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    STANDARD.decode_vec(credentials.trim_ascii(), decoded).ok()?;
    let user = decoded.split(|b| *b == b':').next()?;
    std::str::from_utf8(user).ok().filter(|user| !user.is_empty())
}
