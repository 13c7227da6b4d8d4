//! Checksums and hashes: which one stands for what, and the arithmetic that joins CRCs.
//!
//! * `digest` (BLAKE3, 256 bits) vouches for a whole snapshot.
//! * `keyed` (HMAC-SHA-256) names a text to those only who have the key.
//! * `tag` and `table` (XXH3, seedless) name content in ETags and find routes: the same on every
//!   machine and in every release, not meant to withstand forgery.
//! * `castagnoli` (CRC-32C) guards the log's headers, batches and footers.
//! * `crc` (CRC-32 of RFC 1952) closes a gzip body. The CRC of two texts end to end follows from
//!   the CRC of each and the length of the second, so that a body assembled from pieces is never
//!   read again: see [`crc_join`].

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128};

/// 256 bits over `bytes`, in the order given.
pub fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

/// 256 bits over `parts`, end to end, that tell nothing of them without `key` (RFC 2104).
pub fn keyed(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    // The key fits a block, which is what this constructor takes; a shorter one is padded with zeros by the standard.
    let mut block = [0; 64];
    block[..32].copy_from_slice(key);
    let mut hmac = Hmac::<Sha256>::new(&block.into());
    parts.iter().for_each(|part| hmac.update(part));
    hmac.finalize().into_bytes().into()
}

/// 128 bits that name a content.
pub fn tag(bytes: &[u8]) -> u128 {
    xxh3_128(bytes)
}

/// The same of `parts`, end to end.
pub fn tag_of(parts: &[&[u8]]) -> u128 {
    let mut hasher = Xxh3::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.digest128()
}

/// 64 bits for tables of names.
pub fn table(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// The CRC-32C of `parts`, end to end.
pub fn castagnoli(parts: &[&[u8]]) -> u32 {
    parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part))
}

/// The CRC-32 of `bytes`.
pub fn crc(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// The CRC-32 of a text that goes on with `bytes`, from that of its beginning.
pub fn crc_on(crc: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(crc);
    hasher.update(bytes);
    hasher.finalize()
}

/// The CRC-32 of A followed by B, from the CRC of each and B's shift.
pub fn crc_join(crc_a: u32, crc_b: u32, shift_b: u32) -> u32 {
    multiply(shift_b, crc_a) ^ crc_b
}

/// What a text of `length` bytes multiplies the CRC before it with: x^(8 * length) modulo the
/// polynomial. Computed once when a piece is compiled.
pub fn crc_shift(length: usize) -> u32 {
    let mut result = ONE;
    let mut square = multiply(X, X);
    square = multiply(square, square);
    square = multiply(square, square);
    let mut rest = length;
    while rest > 0 {
        if rest & 1 == 1 {
            result = multiply(result, square);
        }
        square = multiply(square, square);
        rest >>= 1;
    }
    result
}

/// The CRC-32 polynomial, bit 31 standing for x^0 (reflected, as in RFC 1952 section 8).
const POLYNOMIAL: u32 = 0xEDB8_8320;
const ONE: u32 = 1 << 31;
const X: u32 = 1 << 30;

/// a * b modulo the polynomial, without a branch that depends on the data.
fn multiply(mut a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    for _ in 0..32 {
        product ^= b & 0u32.wrapping_sub(a >> 31);
        a <<= 1;
        b = (b >> 1) ^ (POLYNOMIAL & 0u32.wrapping_sub(b & 1));
    }
    product
}
