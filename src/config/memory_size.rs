//! A memory limit in the settings: a number of bytes, or a share of the machine's memory.

use std::fmt;

use clap::builder::TypedValueParser;

use super::ByteSize;

/// Most bytes of a memory limit.
const BYTES_MAX: u64 = 1 << 48;

/// A memory limit. As text it is a size, such as `512MiB`, or a share, such as `40%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemorySize {
    /// A number of bytes.
    Bytes(u64),
    /// A share of the memory that the other limits leave, in percent.
    Share(u8),
}

impl MemorySize {
    /// Returns the limit in bytes, if the other limits leave `free_bytes`.
    pub(crate) fn bytes_of(self, free_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            // Divides first: a product of 64-bit numbers could overflow.
            Self::Share(percent) => free_bytes / 100 * u64::from(percent),
        }
    }

    /// Parses a whole share from 1 % to 100 %.
    fn parse_share(percent: &str) -> Result<Self, String> {
        let share = percent.parse().ok().filter(|percent| (1..=100).contains(percent));
        share.map(Self::Share).ok_or_else(|| format!("{percent}% is not in 1%..=100%"))
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => ByteSize(*bytes).fmt(f),
            Self::Share(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Accepts sizes up to [`BYTES_MAX`], and shares.
pub(super) fn memory_size_parser() -> impl TypedValueParser<Value = MemorySize> {
    |text: &str| match text.strip_suffix('%') {
        Some(percent) => MemorySize::parse_share(percent),
        None => match ByteSize::parse(text)? {
            ByteSize(bytes) if bytes > BYTES_MAX => Err(format!("{bytes} is not in 0..={BYTES_MAX}")),
            ByteSize(bytes) => Ok(MemorySize::Bytes(bytes)),
        },
    }
}
