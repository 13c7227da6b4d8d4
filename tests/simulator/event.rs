//! The events of the simulated clients, and their records.

use parallax::testing::record::{FoldInput, Record, RecordKind};

use crate::fold_inputs::FoldInputs;

/// Anonymous IDs and user IDs of the world.
pub const ANON_IDS: usize = 6;
pub const USER_IDS: usize = 3;
pub const SITE: &str = "acme";

/// The effect of an event on a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Page,
    SetOnce(u8),
    Set(u8),
    Increment(u8),
    Identify,
    /// The erasure of an anonymous ID.
    Tombstone,
}

/// An event of a client, or the tombstone of an erasure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    pub number: u32,
    pub action: Action,
    pub anon: Option<u8>,
    pub user: Option<u8>,
    pub time_ms: i64,
    /// True if the server generated its message ID. No client sends such an event again.
    pub has_generated_id: bool,
}

impl Event {
    /// Returns the encoded record of the log.
    pub fn to_record(self, inputs: &FoldInputs, received_ms: i64, tombstone_key: u128) -> Vec<u8> {
        let (anon, user) = (self.anon.map(|id| format!("v{id}")), self.user.map(|id| format!("u{id}")));
        let number = format!("{}", self.number);
        let (text, fold_input) = match self.action {
            Action::Page | Action::Identify | Action::Tombstone => (None, FoldInput::EMPTY),
            Action::SetOnce(value) => (Some(format!("o{value}")), inputs.set_once(value)),
            Action::Set(value) => (Some(format!("s{value}")), inputs.set(value)),
            Action::Increment(value) => (Some(format!("i{value}")), inputs.increment(value)),
        };
        let is_tombstone = self.action == Action::Tombstone;
        let kind = match self.action {
            Action::Page => RecordKind::Page,
            Action::Identify => RecordKind::Identify,
            Action::Tombstone => RecordKind::Tombstone,
            _ => RecordKind::Profile,
        };
        let mut record = Record {
            received_ms,
            timestamp_ms: self.time_ms,
            site: Some(SITE),
            message_id: Some(number.as_str()).filter(|_| !is_tombstone),
            name: Some(number.as_str()).filter(|_| is_tombstone),
            anon_id: anon.as_deref(),
            user_id: user.as_deref(),
            event: text.as_deref(),
            path: Some("/a").filter(|_| self.action == Action::Page),
            payload: "{}",
            fold_input,
            gpc: self.has_generated_id,
            ..Record::new(kind)
        };
        record.key = match (is_tombstone, self.has_generated_id) {
            (true, _) => tombstone_key,
            (false, true) => 0,
            (false, false) => parallax::testing::cluster::message::dedup_key(&record),
        };
        let mut bytes = Vec::new();
        record.encode(&mut bytes).expect("a small record");
        bytes
    }

    /// Reads the event of a record. `None` for a void record.
    pub fn from_record(record: &Record<'_>) -> Option<Self> {
        let value = |text: &str| -> u8 { text[1..].parse().expect("a digit") };
        let action = match record.kind {
            RecordKind::Void => return None,
            RecordKind::Page => Action::Page,
            RecordKind::Identify => Action::Identify,
            RecordKind::Tombstone => Action::Tombstone,
            _ => {
                let text = record.event.expect("an action");
                match &text[..1] {
                    "o" => Action::SetOnce(value(text)),
                    "s" => Action::Set(value(text)),
                    _ => Action::Increment(value(text)),
                }
            }
        };
        let number = record.message_id.or(record.name).expect("a number").parse().expect("a number");
        Some(Self {
            number,
            action,
            anon: record.anon_id.map(value),
            user: record.user_id.map(value),
            time_ms: record.timestamp_ms,
            has_generated_id: record.gpc,
        })
    }
}

/// Returns a void record in place of this one. Length, received time and key remain.
pub fn void(bytes: &[u8]) -> Vec<u8> {
    let (record, _) = Record::decode(bytes).expect("a record");
    let padding = "\0".repeat(bytes.len());
    let mut void = Record {
        received_ms: record.received_ms,
        key: parallax::testing::cluster::message::dedup_key(&record),
        ..Record::new(RecordKind::Void)
    };
    let mut encoded = Vec::new();
    void.encode(&mut encoded).expect("an empty record");
    void.payload = &padding[..bytes.len() - encoded.len()];
    encoded.clear();
    void.encode(&mut encoded).expect("a record of the same length");
    assert_eq!(encoded.len(), bytes.len());
    encoded
}
