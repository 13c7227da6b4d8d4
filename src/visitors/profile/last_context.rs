//! The context of a visitor's last event: device, system, browser, country and language, as the record has them.
//!
//! ```text
//! context = base - at:number | device:byte | os:byte | browser:byte | country:2 bytes | language:3 bytes
//! ```

use super::varint::{Decoder, put_number};
use crate::record::{CONTEXT_BYTES, Record, RecordContext, RecordKind};

/// The context of a record, and the time of its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastContext {
    /// Unix milliseconds.
    pub at_ms: i64,
    /// At least one value of it is known.
    pub values: RecordContext,
}

impl LastContext {
    /// The context of a visitor without one.
    pub(super) const UNKNOWN: Self = Self { at_ms: 0, values: RecordContext::UNKNOWN };

    pub(super) fn is_known(&self) -> bool {
        self.values.has_known()
    }

    /// Replaces the context by a known one that is not older.
    pub(super) fn replace(&mut self, new_context: Self) {
        if new_context.is_known() && (new_context.at_ms >= self.at_ms || !self.is_known()) {
            *self = new_context;
        }
    }

    pub(super) fn encode(&self, base_ms: i64, out: &mut Vec<u8>) {
        put_number(out, base_ms.wrapping_sub(self.at_ms) as u64);
        out.extend_from_slice(&self.values.to_bytes());
    }

    /// Decodes a context. `None` if it is malformed.
    pub(super) fn decode(mut decoder: Decoder<'_>, base_ms: i64) -> Option<Self> {
        let at_ms = base_ms.wrapping_sub(decoder.number()? as i64);
        let values = decoder.take(CONTEXT_BYTES)?.first_chunk::<CONTEXT_BYTES>()?;
        Some(Self { at_ms, values: RecordContext::from_bytes(*values) })
    }
}

/// Returns the context of a record that describes the visitor's device, else an unknown one. A record without an
/// anonymous ID, or of another kind, often comes from a server, and has the User-Agent of that server.
pub(super) fn context_of_device(record: &Record<'_>) -> RecordContext {
    let is_of_device = match record.kind {
        RecordKind::Page | RecordKind::Screen => true,
        RecordKind::Track => record.anon_id.is_some() || record.is_redacted,
        _ => false,
    };
    if is_of_device { record.context } else { RecordContext::UNKNOWN }
}
