//! The keys that all nodes of a cluster derive from the secret of the operator. The secret itself never travels.

use super::era::EraId;
use super::seal::SealKey;
use crate::checksum::hmac_sha256;
use crate::little_endian::array_at;
use crate::log::LogId;
use crate::record::TombstoneKey;

/// The keys of a cluster.
#[derive(Clone)]
pub(crate) struct ClusterKeys {
    /// The key with which the IDs of visitors become keys of the table.
    pub(crate) table: [u8; 16],
    /// The check value of the table key in the header of a checkpoint, because the file leaves the machine.
    pub(crate) table_check: [u8; 16],
    /// The check value of the secret in the message of an era.
    pub(crate) secret_check: EraId,
    /// The key of the digests in tombstones and entries of ownership.
    pub(crate) tombstone: TombstoneKey,
    /// The ID of the log of a cluster that was founded without a directory.
    pub(crate) log_id: LogId,
    /// The key that seals the keys of erased visitors in tombstones.
    pub(crate) seal: SealKey,
}

impl ClusterKeys {
    /// Derives the keys of a secret.
    pub(crate) fn derive(secret: &[u8; 32]) -> Self {
        Self {
            table: first_half(hmac_sha256(secret, &[b"parallax table"])),
            table_check: first_half(hmac_sha256(secret, &[b"parallax table check"])),
            secret_check: EraId(first_half(hmac_sha256(secret, &[b"parallax secret check"]))),
            tombstone: TombstoneKey::new(hmac_sha256(secret, &[b"parallax tombstones"])),
            log_id: LogId(first_half(hmac_sha256(secret, &[b"parallax log"]))),
            seal: SealKey(hmac_sha256(secret, &[b"parallax sealed keys"])),
        }
    }
}

fn first_half(hash: [u8; 32]) -> [u8; 16] {
    array_at(&hash, 0)
}
