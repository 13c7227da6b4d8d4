//! The part of a profile that the rules of a site read, for a visitor token.

use super::builder::ProfileBuilder;
use super::profile::{Profile, hashed_path};
use crate::site::snapshot::rule_facts::RuleFacts;

/// Returns the encoded part of a profile that has the facts, without the site and the anon IDs. Decisions by it are those by the profile.
pub fn project(profile: Profile<'_>, facts: &RuleFacts) -> Option<Vec<u8>> {
    let mut part = ProfileBuilder::of(profile)?;
    part.drop_ids(facts.user_id);
    part.names.retain(|name| std::str::from_utf8(name).is_ok_and(|name| facts.has_event(name)));
    part.pages.retain(|name| {
        let is_hash_of = |path: &str| hashed_path(path).is_some_and(|hash| hash == name);
        facts.has_page(std::str::from_utf8(name).ok(), is_hash_of)
    });
    part.traits.retain(|name| facts.has_trait(name));
    // A touch that no rule reads is that of the other one, which takes no bytes more.
    part.touches = part.touches.filter(|_| facts.first_touch || facts.last_touch).map(|(first, last)| {
        (if facts.first_touch { first } else { last }, if facts.last_touch { last } else { first })
    });
    let mut encoded = Vec::new();
    part.write(&mut encoded);
    Some(encoded)
}
