//! The only place that draws random bits, and the ids made of them.

/// 64 random bits from the system.
///
/// # Panics
/// Where the kernel has no `getrandom`, which no Linux with io_uring or memfd lacks.
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())
        .expect("getrandom(2) is there since Linux 3.17");
    u64::from_le_bytes(bytes)
}

/// A key that nobody else has.
pub fn secret() -> [u8; 32] {
    let mut key = [0; 32];
    key.as_chunks_mut().0.iter_mut().for_each(|word| *word = random().to_le_bytes());
    key
}

/// Mints request ids: 16 hex digits, unique within a worker, unlikely to meet across workers.
#[derive(Debug)]
pub struct RequestIds(u64);

impl RequestIds {
    /// Begins at a random place.
    pub fn new() -> Self {
        Self(random())
    }

    /// The next id.
    pub fn mint(&mut self) -> [u8; 16] {
        // SplitMix64: a bijection of a counter, so that ids do not repeat and do not look like a count.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        hex(z ^ (z >> 31))
    }
}

impl Default for RequestIds {
    fn default() -> Self {
        Self::new()
    }
}

/// 16 lower-case hex digits, most significant first.
pub fn hex(value: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    digits[..8].copy_from_slice(&half_hex(value >> 32));
    digits[8..].copy_from_slice(&half_hex(value & 0xFFFF_FFFF));
    digits
}

/// The digits of 32 bits, all at once: each half byte in a byte of its own, then what makes it a digit or a letter.
fn half_hex(value: u64) -> [u8; 8] {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let pairs = (value << 16 | value) & 0x0000_FFFF_0000_FFFF;
    let bytes = (pairs << 8 | pairs) & 0x00FF_00FF_00FF_00FF;
    let halves = (bytes << 4 | bytes) & (0x0F * ONES);
    let is_letter = (halves + 6 * ONES) >> 4 & ONES;
    (halves + u64::from(b'0') * ONES + u64::from(b'a' - b'0' - 10) * is_letter).to_be_bytes()
}
