//! A record that changes a profile, and the parts of its fold input.

use super::touch::EncodedTouch;
use crate::events::changes::Changes;
use crate::record::fold_input::FoldParts;
use crate::record::{Record, RecordKind};

/// A record and the decoded parts of its fold input.
pub(crate) struct Event<'e> {
    pub record: &'e Record<'e>,
    pub touch: Option<EncodedTouch<'e>>,
    pub changes: Changes<'e>,
}

impl<'e> Event<'e> {
    /// Reads a record. `parts` are those of its fold input, and `buffer` is a reusable buffer for the texts of a
    /// touch.
    pub(crate) fn from_record(
        record: &'e Record<'e>,
        parts: &FoldParts<'e>,
        buffer: &'e mut Vec<u8>,
    ) -> Self {
        let touch = parts.touch.filter(|_| record.kind == RecordKind::Page);
        Self {
            record,
            touch: touch.map(|touch| EncodedTouch::new(touch, record.path, record.timestamp_ms, buffer)),
            changes: Changes::new(parts.changes),
        }
    }
}
