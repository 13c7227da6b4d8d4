//! The data of a record that changes a profile: columns, and the parts of the fold input.

use super::last_context::context_of_device;
use super::touch::EncodedTouch;
use crate::visitors::events::changes::Changes;
use crate::visitors::log::fold_input::FoldParts;
use crate::visitors::log::{Record, RecordContext, RecordKind};

/// The part of a record that matters to a profile.
pub(crate) struct Event<'e> {
    pub kind: RecordKind,
    pub at_ms: i64,
    /// True if the event begins or extends a visit.
    pub is_of_visit: bool,
    pub name: Option<&'e str>,
    pub page: Option<&'e str>,
    pub touch: Option<EncodedTouch<'e>>,
    pub changes: Changes<'e>,
    /// Unknown if the record does not describe the visitor's device.
    pub context: RecordContext,
}

impl<'e> Event<'e> {
    /// Reads a record. `parts` are those of its fold input, and `texts` is a reusable buffer for the texts of a
    /// touch.
    pub(crate) fn from_record(record: &Record<'e>, parts: &FoldParts<'e>, texts: &'e mut Vec<u8>) -> Self {
        let touch = parts.touch.filter(|_| record.kind == RecordKind::Page);
        Self {
            kind: record.kind,
            at_ms: record.timestamp_ms,
            is_of_visit: record.is_of_visit(),
            name: record.event,
            page: record.path,
            touch: touch.map(|touch| EncodedTouch::new(touch, record.path, record.timestamp_ms, texts)),
            changes: Changes::new(parts.changes),
            context: context_of_device(record),
        }
    }
}
