//! Reads bytes and little-endian numbers at fixed offsets of a file, record or message.

/// Reads two bytes at `offset`. Panics if `bytes` is shorter.
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, offset))
}

/// Reads four bytes at `offset`. Panics if `bytes` is shorter.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, offset))
}

/// Reads eight bytes at `offset`. Panics if `bytes` is shorter.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, offset))
}

/// Reads `N` bytes at `offset`. Panics if `bytes` is shorter.
pub(crate) fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[offset..offset + N]);
    array
}
