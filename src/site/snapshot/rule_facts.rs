//! The facts about a visitor's past that the rules of a site read. A visitor token has these and no others.

use std::collections::BTreeSet;

use super::format::{ArchivedRule, ArchivedSite};
use crate::checksum::hash64;
use crate::condition::program::ArchivedProgram;
use crate::site::profile_fields::ProfileField;

/// The facts that the rules of a site read. Visits, page views, the number of events, the times of the first and the last activity,
/// and enrolments are not among them: a token always has those.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RuleFacts {
    /// The names of events, as authored: a final `*` means all names that begin with the text before it.
    events: BTreeSet<Box<str>>,
    /// The paths of pages, in the same form.
    pages: BTreeSet<Box<str>>,
    /// The paths after `traits.`.
    traits: BTreeSet<Box<str>>,
    pub first_touch: bool,
    pub last_touch: bool,
    pub user_id: bool,
    hash: u64,
}

impl RuleFacts {
    /// Collects the facts of all conditions of a site.
    pub fn of(site: &ArchivedSite) -> Self {
        let mut facts = Self::default();
        site.audiences.iter().for_each(|audience| facts.add(&audience.condition.program));
        let rules = site.pages.iter().flat_map(|page| page.zones.iter()).flat_map(|zone| zone.rules.iter());
        let conditions = rules.filter_map(|rule| match rule {
            ArchivedRule::Audience { .. } => None,
            ArchivedRule::When { when, .. } => Some(when),
            ArchivedRule::Experiment { when, .. } => when.as_ref(),
        });
        conditions.for_each(|condition| facts.add(&condition.program));
        facts.hash = facts.compute_hash();
        facts
    }

    fn add(&mut self, program: &ArchivedProgram) {
        use ProfileField as F;
        for (code, name) in program.fields() {
            match F::from_code(code) {
                Some(F::Event | F::EventCount | F::EventFirst | F::EventLast) => {
                    _ = self.events.insert(name.into())
                }
                Some(F::Page | F::PageCount | F::PageFirst | F::PageLast) => {
                    _ = self.pages.insert(name.into())
                }
                Some(F::Trait) => _ = self.traits.insert(name.into()),
                Some(F::UserId) => self.user_id = true,
                Some(field) if field.is_of_touch() && field as u16 >= F::LastTouchSource as u16 => {
                    self.last_touch = true
                }
                Some(field) if field.is_of_touch() => self.first_touch = true,
                _ => {}
            }
        }
    }

    /// Returns whether a rule reads the history of this event.
    pub fn has_event(&self, name: &str) -> bool {
        self.events.iter().any(|fact| is_named(fact, name))
    }

    /// Returns whether a rule reads the history of this page. The path is `None` if the profile has only its hash.
    pub fn has_page(&self, path: Option<&str>, has_hash_of: impl Fn(&str) -> bool) -> bool {
        match path {
            Some(path) => self.pages.iter().any(|fact| is_named(fact, path)),
            None => self.pages.iter().any(|fact| &**fact == "*" || has_hash_of(fact)),
        }
    }

    /// Returns whether a rule reads a trait, or a member of it.
    pub fn has_trait(&self, name: &str) -> bool {
        let is_of_trait =
            |fact: &str| fact.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.traits.iter().any(|fact| is_of_trait(fact))
    }

    /// Returns a hash of all facts. Two versions of a site with equal facts accept the tokens of each other.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    fn compute_hash(&self) -> u64 {
        let flags = [self.first_touch, self.last_touch, self.user_id].map(u8::from);
        let mut input = flags.to_vec();
        for names in [&self.events, &self.pages, &self.traits] {
            input.extend_from_slice(&(names.len() as u32).to_le_bytes());
            for name in names {
                input.extend_from_slice(&(name.len() as u32).to_le_bytes());
                input.extend_from_slice(name.as_bytes());
            }
        }
        hash64(&input)
    }
}

/// Returns whether a fact is this name, or a prefix of it.
fn is_named(fact: &str, name: &str) -> bool {
    match fact.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => fact == name,
    }
}
