//! Merges two profiles: an anonymous visitor turns out to be a known user.
//!
//! Counts add up, visits included. The newest times are kept. The first touch is the earlier one, and the
//! last touch is the later one. The later context is kept, and of two with the same time the user's. Each trait keeps its later write, and of two writes at the same time the
//! user's. IDs do not change. Limits apply when the profile is written.

use super::builder::ProfileBuilder;

impl<'a> ProfileBuilder<'a> {
    /// Merges `other` into this profile.
    pub fn merge(&mut self, other: Self) {
        self.seen_ms = match (self.seen_ms, other.seen_ms) {
            (Some(own), Some(theirs)) => Some((own.0.min(theirs.0), own.1.max(theirs.1))),
            (own, theirs) => own.or(theirs),
        };
        self.page_views = self.page_views.saturating_add(other.page_views);
        self.events = self.events.saturating_add(other.events);
        self.visits.merge(&other.visits);
        self.names.merge(other.names);
        self.pages.merge(other.pages);
        if let Some((first, last)) = other.touches {
            self.add_touch(first);
            self.add_touch(last);
        }
        let own = std::mem::replace(&mut self.context, other.context);
        self.context.replace(own);
        self.traits.merge(other.traits);
    }
}
