//! Checksums and hashes, and the arithmetic that combines CRCs.
//!
//! * [`digest`] (BLAKE3, 256 bits) verifies a whole snapshot. [`derive_key`] makes the keys of visitor tokens.
//! * [`sha256_prefix`] names the bytes of a file in a URL.
//! * [`hmac_sha256`] gives a name to a text that only holders of the key can compute. An [`HmacKey`] checks such a name.
//! * [`hash128`] and [`hash64`] (XXH3 without a seed) compute ETags and find routes. The values are the same
//!   on every machine and in every release. They do not resist forgery.
//! * [`crc32c()`] protects the log's headers, batches and footers.
//! * [`crc32`] (RFC 1952) ends a gzip body. The CRC of a concatenation follows from the CRC of each part and
//!   the length of the second, so a body assembled from pieces is never read again: see [`crc32_combine`].

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128};

/// Returns the BLAKE3 hash of the concatenation of `parts`.
pub fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// Derives a key from secret parts, each with its length. `purpose` separates it from keys for other uses.
pub(crate) fn derive_key(purpose: &str, parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key(purpose);
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// Returns the SHA-256 of `bytes`.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Returns the first 8 bytes of the SHA-256 of `bytes`, as a big-endian number.
pub fn sha256_prefix(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(*sha256(bytes).first_chunk().expect("a digest has 32 bytes"))
}

/// A hash of a whole file, and its kind.
#[cfg(feature = "cluster")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileHash {
    Blake3([u8; 32]),
    Sha256([u8; 32]),
}

/// A hasher of a file that is read in pieces.
#[cfg(feature = "cluster")]
#[derive(Debug)]
pub(crate) enum FileHasher {
    Blake3(Box<blake3::Hasher>),
    Sha256(Sha256),
}

#[cfg(feature = "cluster")]
impl FileHasher {
    /// Creates the hasher for the kind of `hash`.
    pub(crate) fn for_kind(hash: FileHash) -> Self {
        match hash {
            FileHash::Blake3(_) => Self::Blake3(Box::default()),
            FileHash::Sha256(_) => Self::Sha256(Sha256::default()),
        }
    }

    /// Adds the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Blake3(hasher) => _ = hasher.update(bytes),
            Self::Sha256(hasher) => hasher.update(bytes),
        }
    }

    /// Returns the hash.
    pub(crate) fn finish(self) -> FileHash {
        match self {
            Self::Blake3(hasher) => FileHash::Blake3(*hasher.finalize().as_bytes()),
            Self::Sha256(hasher) => FileHash::Sha256(hasher.finalize().into()),
        }
    }
}

/// Returns the BLAKE3 hash of a file, in hex.
///
/// # Errors
/// The file cannot be read.
#[cfg(feature = "cluster")]
pub(crate) fn digest_file(path: &std::path::Path) -> std::io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(std::fs::File::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Returns the HMAC-SHA-256 (RFC 2104) of the concatenation of `parts`. It reveals nothing without `key`.
pub fn hmac_sha256(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    // This constructor takes a key of one whole block. RFC 2104 pads a shorter key with zeros.
    let mut block = [0; 64];
    block[..32].copy_from_slice(key);
    let mut hmac = Hmac::<Sha256>::new(&block.into());
    parts.iter().for_each(|part| hmac.update(part));
    hmac.finalize().into_bytes().into()
}

/// A key of HMAC-SHA-256 (RFC 2104), of any length. It holds the states of both hashes after the block of the key, so that
/// a check hashes only the text.
#[derive(Clone)]
pub struct HmacKey(Hmac<Sha256>);

impl HmacKey {
    /// Prepares a key.
    pub fn new(key: &[u8]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC takes keys of any length"))
    }

    /// Returns whether `mac` is the HMAC of `text`. Compares in constant time.
    pub fn verifies(&self, text: &[u8], mac: &[u8; 32]) -> bool {
        let mut hmac = self.0.clone();
        hmac.update(text);
        hmac.verify_slice(mac).is_ok()
    }
}

impl fmt::Debug for HmacKey {
    /// Writes nothing of the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HmacKey")
    }
}

/// Returns a 128-bit hash that identifies a content.
pub fn hash128(bytes: &[u8]) -> u128 {
    xxh3_128(bytes)
}

/// Length in bytes up to which [`hash128_parts`] copies its parts together. A site ID and an anonymous ID of the
/// longest kind fit. Longer texts take the streaming hasher, which prepares 576 bytes of state first.
pub const COPIED_BYTES_MAX: usize = 256;

/// Returns the [`hash128`] of the concatenation of `parts`. It is inlined, so that a part whose length the caller knows is
/// copied without a call.
#[inline]
pub fn hash128_parts<const PARTS: usize>(parts: [&[u8]; PARTS]) -> u128 {
    if parts.iter().map(|part| part.len()).sum::<usize>() > COPIED_BYTES_MAX {
        let mut hasher = Xxh3::new();
        parts.iter().for_each(|part| hasher.update(part));
        return hasher.digest128();
    }
    let mut text = [0; COPIED_BYTES_MAX];
    let mut end = 0;
    for part in parts {
        text[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    hash128(&text[..end])
}

/// Returns a 64-bit hash for hash tables.
pub fn hash64(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

#[cfg(feature = "server")]
/// Returns the CRC-32C of the concatenation of `parts`.
pub fn crc32c(parts: &[&[u8]]) -> u32 {
    parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part))
}

/// Returns the CRC-32 of `bytes`.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// Extends `crc`, the CRC-32 of the text so far, by `bytes`.
pub(crate) fn crc32_append(crc: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(crc);
    hasher.update(bytes);
    hasher.finalize()
}

/// Returns the CRC-32 of A followed by B, from the CRC of each and the shift of B ([`crc32_shift`]).
pub(crate) fn crc32_combine(crc_a: u32, crc_b: u32, shift_b: u32) -> u32 {
    multiply(shift_b, crc_a) ^ crc_b
}

/// Returns the shift of a text of `text_bytes` bytes: x^(8 * length) modulo the polynomial. The CRC of the text
/// before it is multiplied by this factor. Computed once, when a piece is compiled.
pub fn crc32_shift(text_bytes: usize) -> u32 {
    let mut result = ONE;
    let mut square = multiply(X, X);
    square = multiply(square, square);
    square = multiply(square, square);
    let mut rest = text_bytes;
    while rest > 0 {
        if rest & 1 == 1 {
            result = multiply(result, square);
        }
        square = multiply(square, square);
        rest >>= 1;
    }
    result
}

/// The CRC-32 polynomial. Bit 31 is the coefficient of x^0 (reflected, as in RFC 1952 section 8).
const POLYNOMIAL: u32 = 0xEDB8_8320;
const ONE: u32 = 1 << 31;
const X: u32 = 1 << 30;

/// Returns a * b modulo the polynomial, without branches that depend on the data.
fn multiply(mut a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    for _ in 0..32 {
        product ^= b & 0u32.wrapping_sub(a >> 31);
        a <<= 1;
        b = (b >> 1) ^ (POLYNOMIAL & 0u32.wrapping_sub(b & 1));
    }
    product
}
