//! The tokens of the file: 256 random bits, of which the file holds the SHA-256.

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};

use crate::checksum::sha256;
use crate::ids;

/// The begin of each token. It lets a person and a scanner of secrets recognize one.
const PREFIX: &str = "pxt_";

/// Returns a new token.
pub(crate) fn new_token() -> String {
    format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&ids::random_key()))
}

/// Returns the hash of a token, as the file has it.
pub(crate) fn token_hash(token: &[u8]) -> String {
    HEXLOWER.encode(&sha256(token))
}
