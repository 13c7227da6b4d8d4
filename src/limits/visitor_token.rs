//! Limits of visitor tokens and their keys.

/// Keys in the file of `--visitor-keys`. A rotation needs two. The file with one more is refused.
pub const VISITOR_KEYS_MAX: usize = 4;
/// Longest ID of a key, in characters. Each token has it in clear. A longer one is refused.
pub const VISITOR_KEY_ID_CHARS_MAX: usize = 8;
/// Least length of a key, in characters. 32 hex digits are 128 bits, too many to try. A shorter key is refused.
pub const VISITOR_KEY_CHARS_MIN: usize = 32;
/// Greatest length of a key, in characters. A secret of common tools has under 100. A longer one is refused.
pub const VISITOR_KEY_CHARS_MAX: usize = 256;
/// Size of the file of `--visitor-keys`: its keys, their IDs, and comments. A larger file is refused.
pub const VISITOR_KEYS_BYTES_MAX: usize = 16 * 1024;
/// Longest token, in characters. A cookie of a browser has 4,096 bytes, and all cookies of a request share 8 KiB in common
/// proxies. A visitor whose past needs more gets no token.
pub const VISITOR_TOKEN_CHARS_MAX: usize = 1_536;
/// Longest age of a token, in seconds. Nobody can recall a token, so it still counts for this time after an erasure.
pub const VISITOR_TOKEN_S_MAX: u64 = 24 * 60 * 60;
/// Longest time by which the clock of the server may be ahead of the clock of the program that opens a token, in seconds.
pub const VISITOR_TOKEN_SKEW_S_MAX: u64 = 300;
