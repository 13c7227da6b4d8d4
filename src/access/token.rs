//! The tokens of the file and of shared links: 256 random bits, of which only the SHA-256 is stored.

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};

use crate::checksum::sha256;
use crate::ids;

/// The begin of each token. It lets a person and a scanner of secrets recognize one.
const PREFIX: &str = "pxt_";
/// The begin of the token of a shared link.
const LINK_PREFIX: &str = "pxl_";

/// Returns a new token.
pub(crate) fn new_token() -> String {
    with_prefix(PREFIX)
}

/// Returns a new token of a shared link.
pub(crate) fn new_link_token() -> String {
    with_prefix(LINK_PREFIX)
}

fn with_prefix(prefix: &str) -> String {
    format!("{prefix}{}", BASE64URL_NOPAD.encode(&ids::random_key()))
}

/// Returns the hash of a token, as the file has it.
pub(crate) fn token_hash(token: &[u8]) -> String {
    HEXLOWER.encode(&sha256(token))
}
