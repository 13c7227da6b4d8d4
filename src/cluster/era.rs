//! Eras: one lifetime of a stream, with the settings that all nodes share.
//!
//! The operator's command appends the message of an era to a new stream, or to a stream whose content is
//! replaced by a checkpoint. Every setting that the fold reads belongs to the era, because nodes with
//! different settings would get different tables.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::message::{Header, Kind, Message};
use super::producer::ProducerId;

/// The fold version of this release. A release that folds a record into other bytes has another one.
pub const FOLD_VERSION: u32 = 2;

/// The ID of an era: random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EraId(pub [u8; 16]);

/// The settings of an era.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Era {
    #[serde(with = "hex")]
    pub id: EraId,
    /// The creation time of the stream, in milliseconds since 1970. Another time is another stream.
    #[serde(with = "text")]
    pub created_ms: i64,
    /// The checkpoint with which the era begins. `None`: an empty table.
    pub checkpoint: Option<EraCheckpoint>,
    /// The greatest cost of the table. Evictions are part of the fold.
    #[serde(with = "text")]
    pub cost_max: u64,
    pub fold_version: u32,
    /// The greatest number of keys in the duplicate window.
    #[serde(with = "text")]
    pub duplicates_max: u64,
    /// The number that is added to each position of this era's stream, for the orders of records. So they are
    /// after those of the era before, and after the seqs of a log that was alone.
    #[serde(with = "text")]
    pub base_position: u64,
    /// A value that only holders of the cluster's secret can compute.
    #[serde(with = "hex")]
    pub secret_check: EraId,
}

/// The checkpoint of an era: a file that each node loads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EraCheckpoint {
    pub name: String,
    /// The BLAKE3 hash of the file, in hex.
    pub hash: String,
}

impl Era {
    /// Returns the header and the payload of the era's message.
    ///
    /// # Panics
    /// Never: an era has no value that JSON cannot express.
    pub fn to_message(&self, sent_ms: i64) -> (Header, Vec<u8>) {
        let header = Header {
            kind: Kind::Era,
            era: self.id,
            producer_id: ProducerId([0; 16]),
            base_seq: 0,
            first: 0,
            sent_ms,
            count: 0,
        };
        (header, serde_json::to_vec(self).expect("numbers and texts are JSON"))
    }

    /// Reads the era of a message. Returns `None` for a message of another kind, or if its payload is not an era.
    pub fn from_message(message: &Message) -> Option<Self> {
        let era: Self = serde_json::from_slice(&message.payload).ok()?;
        (message.header.kind == Kind::Era && message.header.era == era.id).then_some(era)
    }
}

/// 64-bit numbers as strings.
pub(super) mod text {
    use super::{Deserialize, Deserializer, Serializer};

    pub(in crate::cluster) fn serialize<S: Serializer>(
        value: &impl ToString,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&value.to_string())
    }

    pub(in crate::cluster) fn deserialize<'d, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: std::str::FromStr<Err: std::fmt::Display>,
        D: Deserializer<'d>,
    {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// 128-bit values as 32 hex digits.
mod hex {
    use super::{Deserialize, Deserializer, EraId, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &EraId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{:032x}", u128::from_be_bytes(value.0)))
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<EraId, D::Error> {
        let text = String::deserialize(deserializer)?;
        let value = u128::from_str_radix(&text, 16).ok().filter(|_| text.len() == 32);
        value
            .map(|value| EraId(value.to_be_bytes()))
            .ok_or_else(|| serde::de::Error::custom("no 32 hex digits"))
    }
}
