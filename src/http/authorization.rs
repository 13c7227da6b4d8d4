//! HTTP Basic credentials (RFC 7617). Event libraries send the write key of a site as the user, without a
//! password.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Returns the user of Basic credentials, decoded into `buffer`, which is cleared first. Returns `None` if
/// the field has another scheme, is malformed, or has an empty user.
pub(crate) fn basic_user<'a>(authorization: &[u8], buffer: &'a mut Vec<u8>) -> Option<&'a str> {
    let (scheme, credentials) = authorization.split_at_checked(b"Basic ".len())?;
    buffer.clear();
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    STANDARD.decode_vec(credentials.trim_ascii(), buffer).ok()?;
    let user = buffer.split(|b| *b == b':').next()?;
    std::str::from_utf8(user).ok().filter(|user| !user.is_empty())
}
