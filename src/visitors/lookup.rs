//! A thread's look at the visitors: by the id that a request names, to the profile.
//!
//! What is found stays as it was until it is let go of; looking takes no lock and allocates nothing.

use super::apply::Keys;
use super::profile::profile::{Entry, Profile};
use super::store::table::{Key, Pinned, Reader};
use crate::visitors::log::bloom::Whose;

/// One thread's way to the table.
pub struct Lookup {
    reader: Reader,
    keys: Keys,
}

/// The table as a request sees it.
pub struct Visitors<'l> {
    pinned: Pinned<'l>,
    keys: &'l Keys,
}

impl Lookup {
    /// Through `reader`, by the keys of its table.
    pub fn new(reader: Reader, keys: Keys) -> Self {
        Self { reader, keys }
    }

    /// Holds what is found until the answer is dropped: for one request.
    pub fn pin(&mut self) -> Visitors<'_> {
        Visitors { pinned: self.reader.pin(), keys: &self.keys }
    }
}

impl Visitors<'_> {
    /// The visitor with an anonymous id, or the user whom it is tied to.
    pub fn anonymous(&self, site: &str, anon_id: &str) -> Option<Profile<'_>> {
        match self.entry(self.keys.of(site, Whose::Anon, anon_id))? {
            Entry::Profile(profile) => Some(profile),
            Entry::Alias(user) => self.profile(user),
        }
    }

    /// A user.
    pub fn user(&self, site: &str, user_id: &str) -> Option<Profile<'_>> {
        self.profile(self.keys.of(site, Whose::User, user_id))
    }

    fn profile(&self, key: Key) -> Option<Profile<'_>> {
        match self.entry(key)? {
            Entry::Profile(profile) => Some(profile),
            Entry::Alias(_) => None,
        }
    }

    fn entry(&self, key: Key) -> Option<Entry<'_>> {
        Entry::read(self.pinned.get(key)?)
    }
}
