//! The payloads of the messages about nodes: the heartbeat, the removal of a member, and the status request.

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
    /// The instance of its data directory.
    pub instance: Hex,
    /// The session of its process.
    pub session: Hex,
    /// The position of the sender's state.
    #[serde(with = "text")]
    pub position: u64,
    /// The newest marks of the sender, ascending.
    pub marks: Vec<Mark>,
    /// The position up to which the sender has done all erasures.
    #[serde(with = "text")]
    pub erased_to: u64,
    /// The order below which the sender has no own record.
    #[serde(with = "text")]
    pub oldest: u64,
    /// The first seq of the log of the sender.
    #[serde(with = "text")]
    pub first_seq: u64,
    /// The number of own records that the stream has not returned to the sender.
    #[serde(with = "text")]
    pub unreturned: u64,
    /// The members in the sender's state, for `parallax cluster status`.
    pub members: Vec<MemberSummary>,
}

/// A member, as the state of a heartbeat's sender has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemberSummary {
    pub name: String,
    pub instance: Hex,
    /// The state's clock at the newest heartbeat of the member, in milliseconds since 1970.
    #[serde(with = "text")]
    pub heard_ms: i64,
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

/// The payload of a message that removes a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Forget {
    /// The name of the member.
    pub node: String,
}

impl Forget {
    /// Returns the header and the payload of the message.
    ///
    /// # Panics
    /// Never: the name is a text.
    pub fn to_message(&self, era_id: EraId, sent_ms: i64) -> (Header, Vec<u8>) {
        (control_header(Kind::Forget, era_id, sent_ms), serde_json::to_vec(self).expect("texts are JSON"))
    }
}

/// Returns the header of an operator's message to the present era.
pub fn control_header(kind: Kind, era_id: EraId, sent_ms: i64) -> Header {
    let producer_id = ProducerId([0; 16]);
    Header { kind, era: era_id, producer_id, base_seq: 0, first: 0, sent_ms, count: 0 }
}

/// The payload of a status request.
pub const STATUS_REQUEST: &[u8] = b"{}";
