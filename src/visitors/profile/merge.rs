//! Two profiles into one: a visitor turns out to be a user who is known already.
//!
//! Counts add, visits too; of the times the newest stay; the first touch is the earlier, the last the later; of each trait stands
//! what was written later, and of two writes of one time what the user has. Ids are not touched. Bounds are applied when the profile
//! is written.

use super::builder::Draft;

impl<'a> Draft<'a> {
    /// Takes in what is known of `other`.
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
            self.touch(first);
            self.touch(last);
        }
        self.traits.merge(other.traits);
    }
}
