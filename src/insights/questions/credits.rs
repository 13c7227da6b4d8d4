//! Credits. A credit names the visitor to whom events without an anonymous ID belong.
//!
//! A server of the site sends such an event with a user ID only. The event is credited to the anonymous ID of the
//! latest valid tie of the user before the event. A tie is valid until it ends, or until its anonymous ID is tied to
//! another user. So an order that a server sends is in the visit in which the visitor ordered.
//!
//! The order of ties and events is the order of their seqs. The ties of all files are read once. They give for each
//! user the locations at which the credited visitor changes. The credits of a user are read only if a counted file has
//! such an event of the user. If the question counts only some visitors, the credits of a user are read only if these
//! visitors need them.

use super::limits::{Limits, ScanError};
use super::part::{PARTS_MAX, Part};
use super::plan::Plan;
use super::row::Row;
use super::visitor_tables::{VisitorTable, Visitors};
use crate::events::identity;
use crate::insights::columns::format::ColumnFileError;
use crate::insights::columns::reader::{Columns, TieRow};

/// Memory of an entry of a list of credits or ties, in bytes. The factor 2 is for the free places of the list.
const ENTRY_BYTES: u64 = 2 * 16;
/// Memory of the valid tie of an anonymous ID, in bytes. The factor 2 is for the free places of the table.
const TIE_BYTES: u64 = 2 * (8 + 16 + 1);
/// Memory of an empty list of a user, in bytes. The factor 2 is for the free places of the table.
const USER_LIST_BYTES: u64 = 2 * (8 + 24 + 1);
/// Memory of a user in a set of users, in bytes. The factor 2 is for the free places of the set.
const USER_BYTES: u64 = 2 * 9;
const _: () = assert!(size_of::<Credit>() == 16 && size_of::<(u64, u64)>() == 16 && size_of::<Tie>() == 16);
/// Number of ended ties that the tables can always keep. So small tables are not compacted again and again.
const ENDED_TIES_MAX: usize = 1_024;

/// A set of visitors. The question counts the rows of these visitors. A visitor is a hash.
#[derive(Clone, Copy)]
pub(crate) enum VisitorSet<'v> {
    Part(Part),
    /// The hashes of the visitors, in ascending order.
    Hashes(&'v [u64]),
}

impl VisitorSet<'_> {
    pub(crate) fn has(self, visitor_hash: u64) -> bool {
        match self {
            Self::Part(part) => part.has(visitor_hash),
            Self::Hashes(hashes) => hashes.binary_search(&visitor_hash).is_ok(),
        }
    }

    fn has_all(self) -> bool {
        matches!(self, Self::Part(Part::WHOLE))
    }
}

/// The location of a row in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowLocation {
    /// The number of the file. The oldest file of the log has the number 0.
    pub file: u32,
    /// The position of the row among the rows of the file in the order of their seqs.
    pub position: u32,
}

impl RowLocation {
    /// Returns the row with this location as its value and its order.
    pub(super) fn of_row(self, mut row: Row) -> Row {
        row.value = self.file;
        row.order = self.position;
        row
    }
}

/// A change of the visitor to whom the events of a user are credited.
pub(super) struct Credit {
    /// The first location at which events are credited to `owner`.
    from: RowLocation,
    /// The credited visitor. If the user has no valid tie, this is the user.
    owner: u64,
}

/// The credits of users.
#[derive(Default)]
pub(crate) struct Credits {
    /// The credits of each user, in the order of their locations.
    by_user: VisitorTable<Vec<Credit>>,
    /// The number of credits in `by_user`.
    count: usize,
}

impl Credits {
    /// Reads the credits that concern the events of these visitors, or the events that are credited to them.
    /// `counted_columns` are the files whose rows are counted, and `columns` are all files whose ties count. Returns
    /// `None` if the credits do not fit in the memory.
    ///
    /// # Errors
    /// Returns an error if a file is damaged, or if the time is over.
    pub(crate) fn read(
        columns: &[&Columns],
        counted_columns: &[&Columns],
        visitors: VisitorSet<'_>,
        limits: &Limits<'_>,
    ) -> Result<Option<Self>, ScanError> {
        let Some(users) = users_alone(columns, counted_columns, visitors, limits)? else { return Ok(None) };
        if users.is_empty() {
            return Ok(Some(Self::default()));
        }
        let aliased = aliased_ids(columns, &users, limits)?;
        let mut ties = Ties::of_users(users, aliased);
        let mut credits = Self::default();
        for (number, file) in columns.iter().enumerate() {
            limits.check_time()?;
            credits.add_file(file, number as u32, &mut ties)?;
            if credits.memory_bytes() + ties.memory_bytes() > limits.memory_bytes {
                return Ok(None);
            }
        }
        Ok(Some(credits))
    }

    fn add_file(&mut self, file: &Columns, file_number: u32, ties: &mut Ties) -> Result<(), ColumnFileError> {
        let file = &*file.opened()?;
        let rows = file.ties()?;
        if rows.is_empty() {
            return Ok(());
        }
        let hashes = file.visitors()?;
        for row in rows {
            let hash = |visitor: u32| hashes[visitor as usize];
            let anonymous = hash(row.anonymous);
            let user = row.user.map(hash);
            let previous_user = ties.user_of(anonymous);
            if !identity::ties(row.is_alias, || previous_user.is_some()) {
                continue;
            }
            match user {
                Some(user) => ties.tie(anonymous, user),
                None => ties.end(anonymous),
            }
            // No other event has this location, because the record at it is the tie.
            let location = RowLocation { file: file_number, position: row.position };
            for user in previous_user.into_iter().chain(user) {
                self.add_credit(user, location, ties);
            }
        }
        Ok(())
    }

    fn add_credit(&mut self, user_hash: u64, location: RowLocation, ties: &mut Ties) {
        if !ties.counts(user_hash) {
            return;
        }
        let owner = ties.owner(user_hash);
        let credits = self.by_user.entry(user_hash).or_default();
        if credits.last().map_or(user_hash, |last| last.owner) != owner {
            credits.push(Credit { from: location, owner });
            self.count += 1;
        }
    }

    /// Returns true if no event is credited to a visitor other than its user.
    pub(crate) fn are_empty(&self) -> bool {
        self.by_user.is_empty()
    }

    /// Returns the credits of a user, in the order of their locations. A visitor whose events are not credited to others has none.
    pub(super) fn of_user(&self, user_hash: u64) -> &[Credit] {
        self.by_user.get(&user_hash).map_or(&[], Vec::as_slice)
    }

    /// Returns the visitor to whom an event of `visitor_hash` at a location is credited.
    pub(crate) fn owner(&self, visitor_hash: u64, location: RowLocation) -> u64 {
        owner_at(self.of_user(visitor_hash), location).unwrap_or(visitor_hash)
    }

    /// Returns each user that is not in `visitors` and whose events can be credited to a visitor in `visitors`. The
    /// users are in ascending order.
    pub(crate) fn users_of_others(&self, visitors: VisitorSet<'_>) -> Vec<u64> {
        let has_owner = |credits: &[Credit]| credits.iter().any(|credit| visitors.has(credit.owner));
        let users = self.by_user.iter().filter(|(user, credits)| !visitors.has(**user) && has_owner(credits));
        let mut users: Vec<u64> = users.map(|(user, _)| *user).collect();
        users.sort_unstable();
        users
    }

    /// Iterates over the visitors to whom the events of a user can be credited.
    pub(crate) fn owners_of(&self, user_hash: u64) -> impl Iterator<Item = u64> {
        self.by_user.get(&user_hash).into_iter().flatten().map(|credit| credit.owner)
    }

    fn memory_bytes(&self) -> u64 {
        self.count as u64 * ENTRY_BYTES + self.by_user.len() as u64 * USER_LIST_BYTES
    }
}

/// Returns the visitor to whom an event at a location is credited. `None` if it is the user of the credits.
pub(super) fn owner_at(credits: &[Credit], location: RowLocation) -> Option<u64> {
    let passed = credits.partition_point(|credit| credit.from <= location);
    passed.checked_sub(1).map(|last| credits[last].owner)
}

/// The credits of a scan that counts the visitors in parts.
pub(crate) struct CreditsInParts {
    pub part_count: u64,
    /// True if `present` has the credits of all parts.
    has_all: bool,
    /// The credits of the last part that was asked for, at first those of the first part.
    present: Credits,
}

impl CreditsInParts {
    /// Returns the credits of a part. Parts are asked for in their order.
    pub(crate) fn of_part(
        &mut self,
        part: Part,
        files: ScannedFiles<'_>,
        plan: &Plan<'_>,
        limits: &Limits<'_>,
    ) -> Result<&Credits, ScanError> {
        if !self.has_all && !part.is_first() {
            self.present = Credits::default();
            let credits = files.credits(VisitorSet::Part(part), plan, &limits.for_credits())?;
            self.present = credits.ok_or(ScanError::TooLarge)?;
        }
        Ok(&self.present)
    }
}

/// The files of a scan.
#[derive(Clone, Copy)]
pub(crate) struct ScannedFiles<'f> {
    /// The files before `files` in the log. The scan reads only the ties of these files.
    pub earlier: &'f [&'f Columns],
    pub files: &'f [&'f Columns],
}

impl<'f> ScannedFiles<'f> {
    /// Creates the files of a scan that reads the whole log.
    pub(crate) fn all(columns: &'f [&'f Columns]) -> Self {
        Self { earlier: &[], files: columns }
    }

    /// Reads the credits for these visitors. Returns `None` if the credits do not fit in the memory of `limits`.
    pub(crate) fn credits(
        self,
        visitors: VisitorSet<'_>,
        plan: &Plan<'_>,
        limits: &Limits<'_>,
    ) -> Result<Option<Credits>, ScanError> {
        let files: Vec<&Columns> = self.earlier.iter().chain(self.files).copied().collect();
        let counted = self.files.iter().copied().filter(|file| file.may_have_rows_in(&plan.window));
        Credits::read(&files, &counted.collect::<Vec<_>>(), visitors, limits)
    }

    /// Returns the credits of all parts, if they fit in their memory. Otherwise returns the number of parts, and the credits of
    /// the first part: doubles `part_count` until they fit in half of the memory. Hashes divide the users evenly. So the
    /// credits of each other part fit in the whole memory.
    pub(crate) fn credits_in_parts(
        self,
        plan: &Plan<'_>,
        limits: &Limits<'_>,
        mut part_count: u64,
    ) -> Result<CreditsInParts, ScanError> {
        // The ties are dropped before the rows are read, so they can take the memory of the rows.
        let with_ties = limits.for_credits().memory_bytes + limits.for_rows().memory_bytes;
        let with_ties = Limits { memory_bytes: with_ties, is_over: limits.is_over };
        let limits = limits.for_credits();
        let half = Limits { memory_bytes: limits.memory_bytes / 2, is_over: limits.is_over };
        let all = self.credits(VisitorSet::Part(Part::WHOLE), plan, &with_ties)?;
        if let Some(all) = all.filter(|all| all.memory_bytes() <= limits.memory_bytes) {
            return Ok(CreditsInParts { part_count, has_all: true, present: all });
        }
        loop {
            let first_part = VisitorSet::Part(Part { number: 0, count: part_count });
            if let Some(first) = self.credits(first_part, plan, &half)? {
                return Ok(CreditsInParts { part_count, has_all: false, present: first });
            }
            if part_count >= PARTS_MAX {
                return Err(ScanError::TooLarge);
            }
            part_count *= 2;
        }
    }

    /// Returns the visitors of `files`, and the visitors to whom the events in `files` can be credited. Returns `None`
    /// if the credits do not fit in their memory.
    pub(crate) fn visitors(
        self,
        plan: &Plan<'_>,
        limits: &Limits<'_>,
    ) -> Result<Option<Vec<u64>>, ScanError> {
        let credits = self.credits(VisitorSet::Part(Part::WHOLE), plan, &limits.for_credits())?;
        let Some(credits) = credits else { return Ok(None) };
        let mut visitors = Vec::new();
        for file in self.files {
            let file_visitors = file.visitors()?;
            visitors.extend(file_visitors.iter().flat_map(|visitor| credits.owners_of(*visitor)));
            visitors.extend(file_visitors);
        }
        Ok(Some(visitors))
    }
}

/// Returns users that have an event without an anonymous ID. Returns such a user if it is in `visitors`, or if a tie
/// names it together with a visitor in `visitors`. Returns `None` if the users do not fit in the memory.
fn users_alone(
    columns: &[&Columns],
    counted_columns: &[&Columns],
    visitors: VisitorSet<'_>,
    limits: &Limits<'_>,
) -> Result<Option<Visitors>, ScanError> {
    let mut users = Visitors::default();
    let mut tied = None;
    let are_too_many = |users: &Visitors| users.len() as u64 * USER_BYTES > limits.memory_bytes;
    for file in counted_columns {
        let file = &*file.opened()?;
        let alone = file.users_alone()?;
        if alone.is_empty() {
            continue;
        }
        let tied = match &mut tied {
            Some(tied) => tied,
            // A question without such events reads no ties.
            none => none.insert(users_tied(columns, visitors, limits)?),
        };
        let hashes = file.visitors()?;
        let alone = alone.into_iter().map(|visitor| hashes[visitor as usize]);
        users.extend(alone.filter(|user| visitors.has(*user) || tied.contains(user)));
        if are_too_many(tied) || are_too_many(&users) {
            return Ok(None);
        }
    }
    Ok(Some(users))
}

/// Returns each user that a tie names together with one of these visitors. Stops when the users exceed the memory. If
/// `visitors` has all visitors, returns no users, because the caller then needs none.
fn users_tied(
    columns: &[&Columns],
    visitors: VisitorSet<'_>,
    limits: &Limits<'_>,
) -> Result<Visitors, ScanError> {
    let mut users = Visitors::default();
    if visitors.has_all() {
        return Ok(users);
    }
    for file in columns {
        limits.check_time()?;
        let file = &*file.opened()?;
        let rows = file.ties()?;
        let hashes = if rows.is_empty() { Vec::new() } else { file.visitors()? };
        let hash = |visitor: u32| hashes[visitor as usize];
        let rows = rows.iter().filter(|row| visitors.has(hash(row.anonymous)));
        users.extend(rows.filter_map(|row| row.user.map(hash)));
        if users.len() as u64 * USER_BYTES > limits.memory_bytes {
            break;
        }
    }
    Ok(users)
}

/// Returns each anonymous ID that an alias names together with one of these users.
fn aliased_ids(
    columns: &[&Columns],
    user_hashes: &Visitors,
    limits: &Limits<'_>,
) -> Result<Visitors, ScanError> {
    let mut aliased = Visitors::default();
    for file in columns {
        limits.check_time()?;
        let file = &*file.opened()?;
        let rows: Vec<_> = file.ties()?.into_iter().filter(|row| row.is_alias).collect();
        let hashes = if rows.is_empty() { Vec::new() } else { file.visitors()? };
        let hash = |visitor: u32| hashes[visitor as usize];
        let counts = |row: &TieRow| row.user.is_some_and(|user| user_hashes.contains(&hash(user)));
        aliased.extend(rows.iter().filter(|row| counts(row)).map(|row| hash(row.anonymous)));
    }
    Ok(aliased)
}

/// The tie of an anonymous ID.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tie {
    /// The number of the tie. A later tie has a higher number.
    number: u64,
    user: u64,
}

/// The ties between anonymous IDs and users at one location in the log. All IDs are hashes.
#[derive(Default)]
struct Ties {
    /// The users whose ties are kept.
    users: Visitors,
    /// Each anonymous ID that an alias names together with one of `users`. Ties between such an ID and other users are
    /// kept too.
    aliased: Visitors,
    /// The valid tie of each anonymous ID.
    current: VisitorTable<Tie>,
    /// The ties of each user, in the order of their numbers. An entry is the number and the anonymous ID of a tie. Some
    /// of these ties have ended.
    by_user: VisitorTable<Vec<(u64, u64)>>,
    /// The number of ties in `by_user`.
    kept: usize,
    /// The number of the latest tie.
    latest: u64,
}

impl Ties {
    /// Creates an empty set of ties. The set keeps the ties of these users.
    fn of_users(user_hashes: Visitors, aliased_hashes: Visitors) -> Self {
        Self { users: user_hashes, aliased: aliased_hashes, ..Self::default() }
    }

    /// Returns the user to whom an anonymous ID is tied. A user that is not in `users` is returned only for an ID in
    /// `aliased`.
    fn user_of(&self, anonymous_hash: u64) -> Option<u64> {
        self.current.get(&anonymous_hash).map(|tie| tie.user)
    }

    fn counts(&self, user_hash: u64) -> bool {
        self.users.contains(&user_hash)
    }

    /// Ties an anonymous ID to a user.
    fn tie(&mut self, anonymous_hash: u64, user_hash: u64) {
        self.latest += 1;
        if !self.counts(user_hash) && !self.aliased.contains(&anonymous_hash) {
            return self.end(anonymous_hash);
        }
        self.current.insert(anonymous_hash, Tie { number: self.latest, user: user_hash });
        if !self.counts(user_hash) {
            return;
        }
        let ties = self.by_user.entry(user_hash).or_default();
        match ties.last_mut() {
            // Consecutive ties between the same two IDs need only one entry.
            Some(last) if last.1 == anonymous_hash => *last = (self.latest, anonymous_hash),
            _ => {
                ties.push((self.latest, anonymous_hash));
                self.kept += 1;
            }
        }
        if self.kept > 2 * self.current.len() + ENDED_TIES_MAX {
            self.compact();
        }
    }

    /// Ends the tie of an anonymous ID.
    fn end(&mut self, anonymous_hash: u64) {
        self.current.remove(&anonymous_hash);
    }

    fn compact(&mut self) {
        let current = &self.current;
        self.by_user.retain(|user, ties| {
            ties.retain(|(number, anonymous)| {
                current.get(anonymous) == Some(&Tie { number: *number, user: *user })
            });
            !ties.is_empty()
        });
        self.kept = self.by_user.values().map(Vec::len).sum();
    }

    /// Returns the visitor to whom the next event of `user_hash` is credited.
    fn owner(&mut self, user_hash: u64) -> u64 {
        let Some(ties) = self.by_user.get_mut(&user_hash) else { return user_hash };
        while let Some((number, anonymous)) = ties.last() {
            if self.current.get(anonymous) == Some(&Tie { number: *number, user: user_hash }) {
                return *anonymous;
            }
            ties.pop();
            self.kept -= 1;
        }
        user_hash
    }

    fn memory_bytes(&self) -> u64 {
        let users = (self.users.len() + self.aliased.len()) as u64;
        // A list that was compacted keeps its places. It had at most twice as many entries as there are valid ties.
        let entries = self.kept.max(2 * self.current.len()) as u64;
        entries * ENTRY_BYTES
            + self.current.len() as u64 * TIE_BYTES
            + self.by_user.len() as u64 * USER_LIST_BYTES
            + users * USER_BYTES
    }
}
