//! Limits of the keys with which sites sign the IDs of their users.

/// Keys of one site in the file of `--identity-keys`. A rotation needs two. Each check computes the hash with every key, so
/// more would make a wrong hash expensive. The file with one more is refused.
pub const IDENTITY_KEYS_OF_SITE_MAX: usize = 4;
/// Least length of a key, in characters. Each user knows one valid hash, and with it can try keys without the server. 32 hex
/// digits are 128 bits, too many to try. A shorter key is refused.
pub const IDENTITY_KEY_CHARS_MIN: usize = 32;
/// Greatest length of a key, in characters. A secret of common tools has under 100. A longer one is refused.
pub const IDENTITY_KEY_CHARS_MAX: usize = 256;
/// Size of the file of `--identity-keys`: two keys of 64 hex digits for each of 5,000 sites fit. A larger file is refused.
pub const IDENTITY_KEYS_BYTES_MAX: usize = 1024 * 1024;
