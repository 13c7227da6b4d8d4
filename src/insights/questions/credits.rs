//! The visitors to whom events without an anonymous ID are credited: the anonymous ID of the user's latest earlier tie,
//! until that anonymous ID is tied to another user or that tie ends. So the order that a server sends is in the visit
//! that led to it.
//!
//! A credit depends on the ties before the event, in the order of the seqs. The ties of all files are read once, and give
//! for each user the places at which its credited visitor changes. Only users with such events in the files that a question
//! reads count, and of them only those that a part of the visitors needs.

use std::collections::{HashMap, HashSet};

use super::rows::Plan;
use super::scan::{Limits, ScanError, meets, part_of};
use crate::insights::columns::format::ColumnFileError;
use crate::insights::columns::reader::{Columns, TieRow};
use crate::insights::experiment::PARTS_MAX;
use crate::visitors::events::identity;

/// Memory of a tie while ties are read, and of the places of a user: the entries of tables that are half full at worst.
const TIE_BYTES: u64 = 2 * (16 + 24 + 40);
/// Memory of a user in the set of users.
const USER_BYTES: u64 = 2 * 9;
/// Ended ties that are kept at least, so that few ties are not compacted all the time.
const ENDED_TIES_MIN: usize = 1_024;

/// Memory that the credits of a part of the visitors may take at least, so that a small limit refuses no question about
/// few users. The ties of one user cannot be divided.
pub(crate) const CREDITS_BYTES_MIN: u64 = 64 << 10;

/// The visitors whose rows are counted. The credits are those of their events, and of the events that are credited to them.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'w> {
    /// A part of the visitors, and the number of parts.
    Part(u64, u64),
    /// Visitors in ascending order.
    These(&'w [u64]),
}

impl Wanted<'_> {
    pub(crate) fn has(self, visitor: u64) -> bool {
        match self {
            Self::Part(part, parts) => part_of(visitor, parts) == part,
            Self::These(visitors) => visitors.binary_search(&visitor).is_ok(),
        }
    }

    fn are_all(self) -> bool {
        matches!(self, Self::Part(_, 1))
    }
}

/// A place in the log: the number of the file, then the position in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub file: u32,
    pub position: u32,
}

/// The credited visitors of users.
#[derive(Default)]
pub(crate) struct Credits {
    /// By user: from each place on, the credited visitor. It is the user without a tie.
    by_user: HashMap<u64, Vec<(Place, u64)>>,
    /// All visitors with a credit.
    owners: HashSet<u64>,
    places: usize,
}

impl Credits {
    /// Reads the credits of wanted visitors. `read` are those of the files whose rows are counted. Returns `None` if the
    /// credits do not fit the memory.
    ///
    /// # Errors
    /// A file is damaged, or the time is over.
    pub(crate) fn read(
        files: &[&Columns],
        read: &[&Columns],
        wanted: Wanted<'_>,
        limits: &Limits<'_>,
    ) -> Result<Option<Self>, ScanError> {
        let Some(users) = users_alone(files, read, wanted, limits)? else { return Ok(None) };
        if users.is_empty() {
            return Ok(Some(Self::default()));
        }
        let aliased = aliased_ids(files, &users, limits)?;
        let mut ties = Ties::of_users(users, aliased);
        let mut credits = Self::default();
        for (number, file) in files.iter().enumerate() {
            if (limits.is_over)() {
                return Err(ScanError::TooExpensive);
            }
            credits.add_file(file, number as u32, &mut ties)?;
            if credits.memory_bytes() + ties.memory_bytes() > limits.memory_bytes {
                return Ok(None);
            }
        }
        Ok(Some(credits))
    }

    fn add_file(&mut self, file: &Columns, number: u32, ties: &mut Ties) -> Result<(), ColumnFileError> {
        let file = &*file.opened()?;
        let rows = file.ties()?;
        if rows.is_empty() {
            return Ok(());
        }
        let hashes = file.visitors()?;
        for row in rows {
            let hash = |visitor: u32| hashes[visitor as usize];
            let (anonymous, user) = (hash(row.anonymous), row.user.map(hash));
            let before = ties.user_of(anonymous);
            if !identity::ties(row.is_alias, || before.is_some()) {
                continue;
            }
            match user {
                Some(user) => ties.tie(anonymous, user),
                None => ties.end(anonymous),
            }
            // An event at the place of the tie is the tie itself.
            let place = Place { file: number, position: row.position };
            for changed in before.into_iter().chain(user) {
                self.add_place(changed, place, ties);
            }
        }
        Ok(())
    }

    fn add_place(&mut self, user: u64, place: Place, ties: &mut Ties) {
        if !ties.counts(user) {
            return;
        }
        let credited = ties.credited(user);
        let places = self.by_user.entry(user).or_default();
        if places.last().map_or(user, |(_, last)| *last) != credited {
            places.push((place, credited));
            self.places += 1;
            self.owners.insert(credited);
        }
    }

    /// Returns whether no event has another visitor than its own.
    pub(crate) fn are_empty(&self) -> bool {
        self.by_user.is_empty()
    }

    /// Returns whether the rows of a visitor can be credited to others, or those of others to it.
    pub(crate) fn concern(&self, visitor: u64) -> bool {
        self.by_user.contains_key(&visitor) || self.owners.contains(&visitor)
    }

    /// Returns the visitor to whom an event of `visitor` is credited at a place.
    pub(crate) fn owner(&self, visitor: u64, place: Place) -> u64 {
        let Some(places) = self.by_user.get(&visitor) else { return visitor };
        let at = places.partition_point(|(from, _)| *from <= place);
        at.checked_sub(1).map_or(visitor, |at| places[at].1)
    }

    /// Returns the users that are not wanted but have events that are credited to a wanted visitor, in ascending order.
    pub(crate) fn users_of_others(&self, wanted: Wanted<'_>) -> Vec<u64> {
        let has = |places: &[(Place, u64)]| places.iter().any(|(_, owner)| wanted.has(*owner));
        let users = self.by_user.iter().filter(|(user, places)| !wanted.has(**user) && has(places));
        let mut users: Vec<u64> = users.map(|(user, _)| *user).collect();
        users.sort_unstable();
        users
    }

    /// Iterates over the visitors to whom events of a user are credited at some place.
    pub(crate) fn owners_of(&self, user: u64) -> impl Iterator<Item = u64> {
        self.by_user.get(&user).into_iter().flatten().map(|(_, owner)| *owner)
    }

    fn memory_bytes(&self) -> u64 {
        (self.places + self.owners.len()) as u64 * TIE_BYTES
    }
}

/// The files of a scan, and the earlier ones, whose ties decide to whom events without an anonymous ID are credited.
#[derive(Clone, Copy)]
pub(crate) struct ScannedFiles<'f> {
    pub earlier: &'f [&'f Columns],
    pub files: &'f [&'f Columns],
}

impl<'f> ScannedFiles<'f> {
    /// Returns files without earlier ones.
    pub(crate) fn all(files: &'f [&'f Columns]) -> Self {
        Self { earlier: &[], files }
    }

    /// Reads the credits of wanted visitors. Returns `None` if they do not fit the memory of `limits`.
    pub(crate) fn credits(
        self,
        wanted: Wanted<'_>,
        plan: &Plan<'_>,
        limits: &Limits<'_>,
    ) -> Result<Option<Credits>, ScanError> {
        let files: Vec<&Columns> = self.earlier.iter().chain(self.files).copied().collect();
        let read: Vec<&Columns> =
            self.files.iter().copied().filter(|file| meets(file, &plan.window)).collect();
        Credits::read(&files, &read, wanted, limits)
    }

    /// Returns the number of parts in which the credits fit their memory too, at least `parts`, and the credits of the first
    /// one. Hashes divide the users evenly. So the first part may take half of the memory, and the others fit.
    pub(crate) fn parts_with_credits(
        self,
        plan: &Plan<'_>,
        limits: &Limits<'_>,
        mut parts: u64,
    ) -> Result<(u64, Credits), ScanError> {
        let limits = limits.for_credits();
        let half = Limits { memory_bytes: limits.memory_bytes / 2, is_over: limits.is_over };
        loop {
            if let Some(credits) = self.credits(Wanted::Part(0, parts), plan, &half)? {
                return Ok((parts, credits));
            }
            if parts >= PARTS_MAX {
                return Err(ScanError::TooLarge);
            }
            parts *= 2;
        }
    }

    /// Returns the visitors of the files, and those to whom their events are credited. `None` if these do not fit the
    /// memory of credits.
    pub(crate) fn visitors(
        self,
        plan: &Plan<'_>,
        limits: &Limits<'_>,
    ) -> Result<Option<Vec<u64>>, ScanError> {
        let credits = self.credits(Wanted::Part(0, 1), plan, &limits.for_credits())?;
        let Some(credits) = credits else { return Ok(None) };
        let mut visitors = Vec::new();
        for file in self.files {
            let own = file.visitors()?;
            visitors.extend(own.iter().flat_map(|visitor| credits.owners_of(*visitor)));
            visitors.extend(own);
        }
        Ok(Some(visitors))
    }
}

/// Returns the users of events without an anonymous ID that are wanted, or were tied to a wanted visitor. `None` if the users
/// do not fit the memory.
fn users_alone(
    files: &[&Columns],
    read: &[&Columns],
    wanted: Wanted<'_>,
    limits: &Limits<'_>,
) -> Result<Option<HashSet<u64>>, ScanError> {
    let mut users = HashSet::new();
    let mut tied = None;
    let are_too_many = |users: &HashSet<u64>| users.len() as u64 * USER_BYTES > limits.memory_bytes;
    for file in read {
        let file = &*file.opened()?;
        let alone = file.users_alone()?;
        if alone.is_empty() {
            continue;
        }
        let tied = match &mut tied {
            Some(tied) => tied,
            // Questions without such events read no ties.
            none => none.insert(users_tied(files, wanted, limits)?),
        };
        let hashes = file.visitors()?;
        let alone = alone.into_iter().map(|visitor| hashes[visitor as usize]);
        users.extend(alone.filter(|user| wanted.has(*user) || tied.contains(user)));
        if are_too_many(tied) || are_too_many(&users) {
            return Ok(None);
        }
    }
    Ok(Some(users))
}

/// Returns the users that were tied to a wanted visitor. Stops when they take more than the memory. If all visitors are
/// wanted, they are not needed.
fn users_tied(
    files: &[&Columns],
    wanted: Wanted<'_>,
    limits: &Limits<'_>,
) -> Result<HashSet<u64>, ScanError> {
    let mut users = HashSet::new();
    if wanted.are_all() {
        return Ok(users);
    }
    for file in files {
        if (limits.is_over)() {
            return Err(ScanError::TooExpensive);
        }
        let file = &*file.opened()?;
        let rows = file.ties()?;
        let hashes = if rows.is_empty() { Vec::new() } else { file.visitors()? };
        let hash = |visitor: u32| hashes[visitor as usize];
        let wanted = rows.iter().filter(|row| wanted.has(hash(row.anonymous)));
        users.extend(wanted.filter_map(|row| row.user.map(hash)));
        if users.len() as u64 * USER_BYTES > limits.memory_bytes {
            break;
        }
    }
    Ok(users)
}

/// Returns the anonymous IDs that an alias names beside one of these users.
fn aliased_ids(
    files: &[&Columns],
    users: &HashSet<u64>,
    limits: &Limits<'_>,
) -> Result<HashSet<u64>, ScanError> {
    let mut aliased = HashSet::new();
    for file in files {
        if (limits.is_over)() {
            return Err(ScanError::TooExpensive);
        }
        let file = &*file.opened()?;
        let rows: Vec<_> = file.ties()?.into_iter().filter(|row| row.is_alias).collect();
        let hashes = if rows.is_empty() { Vec::new() } else { file.visitors()? };
        let hash = |visitor: u32| hashes[visitor as usize];
        let counts = |row: &TieRow| row.user.is_some_and(|user| users.contains(&hash(user)));
        aliased.extend(rows.iter().filter(|row| counts(row)).map(|row| hash(row.anonymous)));
    }
    Ok(aliased)
}

/// The ties of anonymous IDs to users at one place of the log. IDs are hashes.
#[derive(Default)]
struct Ties {
    /// The users whose ties count.
    users: HashSet<u64>,
    /// The anonymous IDs that an alias ties to such a user, unless they have another one.
    aliased: HashSet<u64>,
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
    fn of_users(users: HashSet<u64>, aliased: HashSet<u64>) -> Self {
        Self { users, aliased, ..Self::default() }
    }

    /// Returns the user of an anonymous ID: any user of an ID that an alias names, and a user that counts of any other.
    fn user_of(&self, anonymous: u64) -> Option<u64> {
        self.present.get(&anonymous).map(|(user, _)| *user)
    }

    fn counts(&self, user: u64) -> bool {
        self.users.contains(&user)
    }

    /// Ties an anonymous ID to a user from now on.
    fn tie(&mut self, anonymous: u64, user: u64) {
        self.latest += 1;
        if !self.counts(user) && !self.aliased.contains(&anonymous) {
            return self.end(anonymous);
        }
        self.present.insert(anonymous, (user, self.latest));
        if !self.counts(user) {
            return;
        }
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

    /// Ends the tie of an anonymous ID.
    fn end(&mut self, anonymous: u64) {
        self.present.remove(&anonymous);
    }

    fn compact(&mut self) {
        let present = &self.present;
        self.by_user.retain(|user, ties| {
            ties.retain(|(number, anonymous)| present.get(anonymous) == Some(&(*user, *number)));
            !ties.is_empty()
        });
        self.kept = self.by_user.values().map(Vec::len).sum();
    }

    /// Returns the visitor to whom an event of `visitor` is credited at this place.
    fn credited(&mut self, visitor: u64) -> u64 {
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

    fn memory_bytes(&self) -> u64 {
        let users = (self.users.len() + self.aliased.len()) as u64;
        self.kept.max(self.present.len()) as u64 * TIE_BYTES + users * USER_BYTES
    }
}
