//! The visitors to whom events without an anonymous ID are credited: the anonymous ID of the user's latest
//! earlier identify event, until that anonymous ID is tied to another user.
//!
//! Ties and events are read in the order of their seqs, so only the present ties are kept. A tie that has
//! ended is dropped when its user is looked up, or when half of the kept ties have ended. So each tie costs
//! the same small time, also if one user has a million of them.

use std::collections::{HashMap, HashSet};

/// Memory of a tie: its entries in both tables, which are half full at worst.
const TIE_BYTES: u64 = 2 * (16 + 24 + 40);
/// Memory of a user in the set of users.
pub(super) const USER_BYTES: u64 = 2 * 9;
/// Ended ties that are kept at least, so that few ties are not compacted all the time.
const ENDED_TIES_MIN: usize = 1_024;

/// The ties of anonymous IDs to users at one place of the log. IDs are hashes.
#[derive(Default)]
pub(super) struct Ties {
    /// The users whose ties count. `None` for all users.
    users: Option<HashSet<u64>>,
    /// By anonymous ID: the user, and the number of the tie.
    present: HashMap<u64, (u64, u64)>,
    /// By user: the number and the anonymous ID of each tie, the latest last. Some may have ended.
    by_user: HashMap<u64, Vec<(u64, u64)>>,
    /// Ties in `by_user`.
    kept: usize,
    /// The number of the latest tie.
    latest: u64,
}

impl Ties {
    /// Creates ties of these users only.
    pub(super) fn of_users(users: HashSet<u64>) -> Self {
        Self { users: Some(users), ..Self::default() }
    }

    /// Ties an anonymous ID to a user from now on.
    pub(super) fn tie(&mut self, anonymous: u64, user: u64) {
        if self.users.as_ref().is_some_and(|users| !users.contains(&user)) {
            self.present.remove(&anonymous);
            return;
        }
        self.latest += 1;
        self.present.insert(anonymous, (user, self.latest));
        let ties = self.by_user.entry(user).or_default();
        match ties.last_mut() {
            // Repeated identify events of one device need one entry.
            Some(last) if last.1 == anonymous => *last = (self.latest, anonymous),
            _ => {
                ties.push((self.latest, anonymous));
                self.kept += 1;
            }
        }
        if self.kept > 2 * self.present.len() + ENDED_TIES_MIN {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let present = &self.present;
        self.by_user.retain(|user, ties| {
            ties.retain(|(number, anonymous)| present.get(anonymous) == Some(&(*user, *number)));
            !ties.is_empty()
        });
        self.kept = self.by_user.values().map(Vec::len).sum();
    }

    /// Returns whether a visitor is a user with ties.
    pub(super) fn has_user(&self, visitor: u64) -> bool {
        self.by_user.contains_key(&visitor)
    }

    /// Returns the visitor to whom an event of `visitor` is credited at this place.
    pub(super) fn credited(&mut self, visitor: u64) -> u64 {
        let Some(ties) = self.by_user.get_mut(&visitor) else { return visitor };
        while let Some((number, anonymous)) = ties.last() {
            if self.present.get(anonymous) == Some(&(visitor, *number)) {
                return *anonymous;
            }
            ties.pop();
            self.kept -= 1;
        }
        visitor
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let users = self.users.as_ref().map_or(0, HashSet::len) as u64;
        self.kept.max(self.present.len()) as u64 * TIE_BYTES + users * USER_BYTES
    }
}
