//! One event into one profile.
//!
//! # Where the order of arrival matters
//!
//! Events may come in any order: a profile goes by when they happened. What comes first matters only
//!
//! * among visits, once more than `VISITS_KEPT` were known at a time: what is older than all that are kept counts as no visit of its own;
//! * among names, pages and traits, once there are more than a profile holds: what went is counted from the beginning if it comes
//!   back;
//! * among writes of traits as `traits.rs` says, and among touches of one time: the first stays the first touch, the last becomes
//!   the last.

use std::borrow::Cow;

use super::Counted;
use super::builder::Draft;
use super::event::Event;
use super::profile::hashed;
use crate::visitors::log::Kind;

impl<'a> Draft<'a> {
    /// Takes in an event. A page, an event, a screen and an identify are something that the visitor did; a profile event, which a
    /// server sends, only changes traits.
    pub(crate) fn fold(&mut self, event: &Event<'a>, counted: &mut Counted) {
        if event.kind != Kind::Profile {
            self.see(event.at_ms);
        }
        match event.kind {
            Kind::Page => self.fold_page(event),
            Kind::Track | Kind::Screen => {
                self.events = self.events.saturating_add(1);
                event.name.into_iter().for_each(|name| self.names.add(name.as_bytes().into(), event.at_ms));
            }
            Kind::Profile => event
                .payload
                .into_iter()
                .for_each(|payload| self.traits.operate(payload, event.at_ms, counted)),
            _ => event
                .payload
                .into_iter()
                .for_each(|payload| self.traits.identify(payload, event.at_ms, counted)),
        }
    }

    fn fold_page(&mut self, event: &Event<'a>) {
        self.page_views = self.page_views.saturating_add(1);
        if let Some(path) = event.page {
            let name = hashed(path).map_or(Cow::Borrowed(path.as_bytes()), |hash| Cow::Owned(hash.to_vec()));
            self.pages.add(name, event.at_ms);
        }
        event.touch.into_iter().for_each(|touch| self.touch(touch));
    }
}
