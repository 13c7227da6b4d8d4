//! The memory limits that depend on the memory of the machine, unless a setting states them.
//!
//! Each is a part of the memory, but no less than a server needs to work, and no more than it can use. A machine of 16 GiB has
//! all the largest values. The memory is that of the machine, or of the smallest control group around the process.

use super::connections::{
    BODIES_MEMORY_BYTES_DEFAULT, CONNECTIONS_MAX_DEFAULT, CONNECTIONS_MEMORY_BYTES_DEFAULT,
    OUTPUT_BUFFER_BYTES_MAX, OUTPUT_POOL_BYTES_MAX,
};
use super::memory_sum::CONNECTION_BYTES;
use super::{DEDUP_IDS_MAX, INSIGHTS_MEMORY_BYTES_DEFAULT, INSIGHTS_MEMORY_BYTES_MIN, VERSIONS_BYTES_MAX};

/// A memory limit that depends on the memory of the machine.
#[derive(Debug, Clone, Copy)]
pub struct MemoryDefault {
    /// The limit is the memory divided by this number.
    divisor: u64,
    /// Least limit in bytes.
    pub bytes_min: u64,
    /// Largest limit in bytes, also if the system does not tell its memory.
    pub bytes_max: u64,
}

impl MemoryDefault {
    /// Returns the limit for a machine with this memory, in bytes.
    pub fn bytes(&self, machine_bytes: Option<u64>) -> u64 {
        machine_bytes
            .map_or(self.bytes_max, |machine| (machine / self.divisor).clamp(self.bytes_min, self.bytes_max))
    }
}

/// Read buffers and tasks of the connections of the public address. The least allows 1,024 connections.
pub const CONNECTIONS_DEFAULT: MemoryDefault = MemoryDefault {
    divisor: 32,
    bytes_min: 1_024 * CONNECTION_BYTES as u64,
    bytes_max: (CONNECTIONS_MAX_DEFAULT * CONNECTION_BYTES) as u64,
};
/// Unsent responses (`--connections-memory`). The least holds 18 of the largest.
pub const RESPONSES_DEFAULT: MemoryDefault =
    MemoryDefault { divisor: 32, bytes_min: 32 << 20, bytes_max: CONNECTIONS_MEMORY_BYTES_DEFAULT as u64 };
/// Request bodies that are being received (`--bodies-memory`). The least holds 64 of the largest.
pub const BODIES_DEFAULT: MemoryDefault =
    MemoryDefault { divisor: 32, bytes_min: 32 << 20, bytes_max: BODIES_MEMORY_BYTES_DEFAULT as u64 };
/// Output buffers that one thread keeps for its next responses. The least holds two of the largest.
pub const OUTPUT_POOL_DEFAULT: MemoryDefault = MemoryDefault {
    divisor: 128,
    bytes_min: 2 * OUTPUT_BUFFER_BYTES_MAX as u64,
    bytes_max: OUTPUT_POOL_BYTES_MAX as u64,
};
/// Paths and hashes of the last versions of all sites. The least holds 16 versions of 6,000 paths.
pub const VERSIONS_DEFAULT: MemoryDefault =
    MemoryDefault { divisor: 64, bytes_min: 8 << 20, bytes_max: VERSIONS_BYTES_MAX as u64 };
/// Message IDs of the dedup window. A machine of 2 GiB holds 3.3 million, which is 38 a second for 24 hours.
pub const DEDUP_DEFAULT: MemoryDefault = MemoryDefault {
    divisor: 16,
    bytes_min: 1_000_000 * DEDUP_ID_BYTES_MAX,
    bytes_max: DEDUP_IDS_MAX as u64 * DEDUP_ID_BYTES_MAX,
};
/// Insights (`--insights-memory`).
pub const INSIGHTS_DEFAULT: MemoryDefault = MemoryDefault {
    divisor: 32,
    bytes_min: INSIGHTS_MEMORY_BYTES_MIN,
    bytes_max: INSIGHTS_MEMORY_BYTES_DEFAULT,
};

/// Memory of one ID in the dedup window: 24 bytes of ring, and at most 11 of table, whose size is a power of two. Then the IDs
/// of one batch more.
pub const DEDUP_ID_BYTES_MAX: u64 = 40;

/// Share of the memory that the other limits leave, for snapshots, in percent, unless `--snapshots-memory` says otherwise. A
/// tenth is left for the parts of a checkpoint that grow with the profiles.
pub const SNAPSHOTS_SHARE_DEFAULT: u8 = 50;
/// The same for visitor profiles, unless `--profiles-memory` says otherwise.
pub const PROFILES_SHARE_DEFAULT: u8 = 40;
/// Least memory limit for snapshots if no setting states it. A small site fits, twice while it is replaced.
pub const SNAPSHOTS_MEMORY_BYTES_MIN: u64 = 64 << 20;
/// Least memory limit for visitor profiles that a share gives: 160,000 typical ones.
pub const PROFILES_MEMORY_BYTES_MIN: u64 = 64 << 20;
