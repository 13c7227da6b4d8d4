//! Random bits from the kernel.

/// Returns 64 random bits.
///
/// # Panics
/// Panics if the kernel has no `getrandom`. Every Linux with io_uring or memfd has it.
pub(crate) fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())
        .expect("getrandom(2) is there since Linux 3.17");
    u64::from_le_bytes(bytes)
}
