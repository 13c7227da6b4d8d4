//! Folds one event into a profile.
//!
//! # Effects of the arrival order
//!
//! Events may arrive in any order. The profile depends on their timestamps. The arrival order matters only in
//! these cases:
//!
//! * Visits: after more than `VISITS_KEPT` visits, an event older than all kept visits does not count as a
//!   visit of its own.
//! * Names, pages and traits: a profile keeps a limited number. One that was removed and appears again is
//!   counted from zero.
//! * Traits: see `traits.rs`.
//! * Touches with the same time: the first to arrive stays the first touch, and the last to arrive becomes
//!   the last touch.
//! * Contexts with the same time: the last to arrive is kept.

use std::borrow::Cow;

use super::FoldCounts;
use super::builder::ProfileBuilder;
use super::event::Event;
use super::last_context::{LastContext, context_of_device};
use super::profile::hashed_path;
use crate::record::RecordKind;

impl<'a> ProfileBuilder<'a> {
    /// Folds an event into this profile. A profile event is sent by a server and only changes traits.
    /// Every other kind also counts as activity of the visitor, and the events of a visit begin or extend one.
    pub(crate) fn fold(&mut self, event: &Event<'a>, counts: &mut FoldCounts) {
        let record = event.record;
        let at_ms = event.record.timestamp_ms;
        if record.kind != RecordKind::Profile {
            self.record_activity(at_ms);
        }
        if record.is_of_visit() {
            self.visits.add(at_ms);
        }
        self.context.replace(LastContext { at_ms, values: context_of_device(record) });
        match record.kind {
            RecordKind::Page => self.fold_page(event),
            RecordKind::Track | RecordKind::Screen => {
                self.events = self.events.saturating_add(1);
                record.event.into_iter().for_each(|name| self.names.add(name.as_bytes().into(), at_ms));
            }
            _ => self.traits.apply(event.changes, at_ms, counts),
        }
    }

    fn fold_page(&mut self, event: &Event<'a>) {
        self.page_views = self.page_views.saturating_add(1);
        if let Some(path) = event.record.path {
            let name =
                hashed_path(path).map_or(Cow::Borrowed(path.as_bytes()), |hash| Cow::Owned(hash.to_vec()));
            self.pages.add(name, event.record.timestamp_ms);
        }
        event.touch.into_iter().for_each(|touch| self.add_touch(touch));
    }
}
