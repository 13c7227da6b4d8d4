//! Random IDs and keys.

#[cfg_attr(not(feature = "server"), path = "hosted/random.rs")]
pub(crate) mod random;

pub(crate) use self::random::random_u64;

/// Returns a random secret key.
pub(crate) fn random_key() -> [u8; 32] {
    let mut key = [0; 32];
    key.as_chunks_mut().0.iter_mut().for_each(|word| *word = random_u64().to_le_bytes());
    key
}

/// Returns a random key for hashing visitor IDs, so that clients cannot construct collisions.
pub(crate) fn random_hash_key() -> [u8; 16] {
    let mut key = [0; 16];
    key.as_chunks_mut().0.iter_mut().for_each(|word| *word = random_u64().to_le_bytes());
    key
}

/// A generator of request IDs: 16 hex digits, unique within a worker, unlikely to collide across workers.
#[derive(Debug)]
pub(crate) struct RequestIdGenerator(u64);

impl RequestIdGenerator {
    /// Creates a generator with a random start value.
    pub(crate) fn new() -> Self {
        Self(random_u64())
    }

    /// Returns the next ID.
    pub(crate) fn next_id(&mut self) -> [u8; 16] {
        // SplitMix64 is a bijection of a counter: IDs do not repeat and do not look like a count.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        hex_u64(z ^ (z >> 31))
    }
}

impl Default for RequestIdGenerator {
    fn default() -> Self {
        Self::new()
    }
}

/// Formats `value` as 16 lower-case hex digits, most significant first.
pub(crate) fn hex_u64(value: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    digits[..8].copy_from_slice(&hex_u32(value >> 32));
    digits[8..].copy_from_slice(&hex_u32(value & 0xFFFF_FFFF));
    digits
}

/// Formats 32 bits at once: spreads the 8 half bytes over 8 bytes, then turns each into a digit or a letter.
fn hex_u32(value: u64) -> [u8; 8] {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let pairs = (value << 16 | value) & 0x0000_FFFF_0000_FFFF;
    let bytes = (pairs << 8 | pairs) & 0x00FF_00FF_00FF_00FF;
    let halves = (bytes << 4 | bytes) & (0x0F * ONES);
    let is_letter = (halves + 6 * ONES) >> 4 & ONES;
    (halves + u64::from(b'0') * ONES + u64::from(b'a' - b'0' - 10) * is_letter).to_be_bytes()
}

/// Accepts a tracking ID.
pub(crate) fn parse_tracking_id(text: &str) -> Result<String, String> {
    let expected = "expected `track_` and 1 to 64 of A-Z a-z 0-9 _ -, such as track_shop";
    is_tracking_id(text).then(|| text.to_owned()).ok_or_else(|| expected.to_owned())
}

/// Returns whether a text is a tracking ID: `track_` and 1 to 64 letters, digits, `_` or `-`.
pub(crate) fn is_tracking_id(text: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let name = text.strip_prefix("track_");
    name.is_some_and(|name| (1..=64).contains(&name.len()) && name.bytes().all(is_valid))
}
