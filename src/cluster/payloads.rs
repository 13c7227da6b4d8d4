//! The payloads of the messages about nodes: the heartbeat, and the message that forgets nodes.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::era::{EraId, text};
use super::message::{Header, Kind};
use super::producer::{Producer, ProducerId};

/// 128 bits, as 32 hex digits in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hex(pub [u8; 16]);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{:032x}", u128::from_be_bytes(self.0)))
    }
}

impl<'d> Deserialize<'d> for Hex {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let is_hex = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let value = u128::from_str_radix(&digits, 16).ok().filter(|_| is_hex);
        let value = value.ok_or_else(|| serde::de::Error::custom("expected 32 hex digits"))?;
        Ok(Self(value.to_be_bytes()))
    }
}

/// The payload of a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Heartbeat {
    /// The name of the node.
    pub node: String,
    /// The position of the sender's state.
    #[serde(with = "text")]
    pub position: u64,
    /// The newest marks of the sender, ascending.
    pub marks: Vec<Mark>,
    /// The producer IDs that the directory of the sender used before.
    pub predecessors: Vec<Hex>,
    /// The position up to which the sender has done all erasures.
    #[serde(with = "text")]
    pub erased_to: u64,
    /// The order below which the sender has no own record.
    #[serde(with = "text")]
    pub oldest: u64,
    /// The first seq of the log of the sender.
    #[serde(with = "text")]
    pub first_seq: u64,
}

impl Heartbeat {
    /// Returns the header and the payload of the message.
    ///
    /// # Panics
    /// Never: a heartbeat has no value that JSON cannot express.
    pub fn to_message(&self, era_id: EraId, producer: &Producer, sent_ms: i64) -> (Header, Vec<u8>) {
        let (producer_id, base_seq) = (producer.id, producer.base_seq);
        let header =
            Header { kind: Kind::Heartbeat, era: era_id, producer_id, base_seq, first: 0, sent_ms, count: 0 };
        (header, serde_json::to_vec(self).expect("numbers and texts are JSON"))
    }
}

/// The table of a node at the position of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mark {
    #[serde(with = "text")]
    pub position: u64,
    pub chain: Hex,
    pub digest: Hex,
}

/// The payload of a message that forgets nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Forget {
    /// The producer IDs that will not return.
    pub producers: Vec<Hex>,
}

impl Forget {
    /// Returns the header and the payload of the message.
    ///
    /// # Panics
    /// Never: the IDs are texts.
    pub fn to_message(&self, era_id: EraId, sent_ms: i64) -> (Header, Vec<u8>) {
        let producer_id = ProducerId([0; 16]);
        let header =
            Header { kind: Kind::Forget, era: era_id, producer_id, base_seq: 0, first: 0, sent_ms, count: 0 };
        (header, serde_json::to_vec(self).expect("texts are JSON"))
    }
}
