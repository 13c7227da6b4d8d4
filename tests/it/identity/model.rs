//! A naive model of identity: the list of all events and erasures. Every answer is computed from the whole list, by the words
//! of the documentation.

use parallax::testing::record::RecordKind;

pub(super) type Id = &'static str;

/// Anonymous IDs of events. An alias can also name a user ID as its `previousId`, which is then an anonymous ID too.
pub(super) const ANON_IDS: [Id; 4] = ["a0", "a1", "a2", "a3"];
pub(super) const USER_IDS: [Id; 3] = ["u0", "u1", "u2"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Visitor {
    User(Id),
    /// The visitor of an anonymous ID without a user.
    Anonymous(Id),
}

/// An event as a client sent it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub kind: RecordKind,
    pub at_ms: i64,
    pub is_bot: bool,
    /// True if the site counts crawlers like other visitors.
    pub keeps_bots: bool,
    pub anon: Option<Id>,
    pub user: Option<Id>,
    pub previous: Option<Id>,
}

impl Sent {
    pub(super) fn changes_profile(&self) -> bool {
        self.kind != RecordKind::Group && (!self.is_bot || self.keeps_bots)
    }

    fn is_identify(&self) -> bool {
        self.kind == RecordKind::Identify && self.changes_profile()
    }

    /// Returns the anonymous ID and the user that the event names for a tie.
    fn named_tie(&self) -> Option<(Id, Id)> {
        let anon = match self.kind {
            RecordKind::Identify => self.anon,
            RecordKind::Alias => self.previous,
            _ => None,
        };
        anon.filter(|_| self.changes_profile()).zip(self.user)
    }
}

#[derive(Debug, Clone)]
enum Entry {
    Sent(Sent),
    /// A visitor, and the anonymous IDs that the visitor had.
    Erased(Visitor, Vec<Id>),
}

/// The rest of an event after all erasures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept {
    pub kind: RecordKind,
    pub anon: Option<Id>,
    pub user: Option<Id>,
    pub previous: Option<Id>,
    pub is_redacted: bool,
    /// True if nothing is left but the end of a tie.
    pub is_end: bool,
}

/// All events and erasures. The entry at index `i` has the seq `i + 1`.
#[derive(Debug, Default)]
pub(super) struct Model {
    entries: Vec<Entry>,
}

impl Model {
    pub(super) fn send(&mut self, sent: Sent) {
        self.entries.push(Entry::Sent(sent));
    }

    /// Erases a visitor. Returns the numbers of erased and of redacted records.
    pub(super) fn erase(&mut self, visitor: Visitor) -> (u64, u64) {
        let before = self.kept();
        let ids = ANON_IDS.into_iter().chain(USER_IDS);
        let named = match visitor {
            Visitor::User(user) => ids.filter(|id| self.user_of(id, self.len()) == Some(user)).collect(),
            Visitor::Anonymous(id) => vec![id],
        };
        self.entries.push(Entry::Erased(visitor, named));
        let after = self.kept();
        let changes = || before.iter().zip(&after).filter(|(before, after)| before != after);
        let is_erased = |kept: &Option<Kept>| kept.is_none_or(|kept| kept.is_end);
        let erased = changes().filter(|(_, after)| is_erased(after)).count() as u64;
        (erased, changes().count() as u64 - erased)
    }

    /// Returns a line for each entry.
    pub(super) fn story(&self) -> String {
        let line = |(at, entry): (usize, &Entry)| match entry {
            Entry::Sent(Sent { kind, is_bot, keeps_bots, anon, user, previous, .. }) => {
                let bot = if *is_bot { format!(" bot {keeps_bots}") } else { String::new() };
                format!("{} {kind:?} {anon:?} {user:?} {previous:?}{bot}\n", at + 1)
            }
            Entry::Erased(visitor, named) => format!("{} erased {visitor:?} {named:?}\n", at + 1),
        };
        self.entries.iter().enumerate().map(line).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn sent(&self, at: usize) -> Option<&Sent> {
        match &self.entries[at] {
            Entry::Sent(sent) => Some(sent),
            Entry::Erased(..) => None,
        }
    }

    /// Returns the user of an anonymous ID after the first `end` entries.
    pub(super) fn user_of(&self, anon: Id, end: usize) -> Option<Id> {
        let mut user = None;
        for entry in &self.entries[..end] {
            match entry {
                Entry::Erased(_, named) if named.contains(&anon) => user = None,
                Entry::Erased(..) => {}
                Entry::Sent(sent) => {
                    let named = sent.named_tie().filter(|(named, _)| *named == anon);
                    if let Some((_, named)) = named.filter(|_| sent.is_identify() || user.is_none()) {
                        user = Some(named);
                    }
                }
            }
        }
        user
    }

    /// Returns the visitor that an ID names at present.
    pub(super) fn present(&self, id: Visitor) -> Visitor {
        match id {
            Visitor::User(_) => id,
            Visitor::Anonymous(anon) => self.user_of(anon, self.len()).map_or(id, Visitor::User),
        }
    }

    /// Returns the anonymous ID and the user that an entry ties.
    fn tie_at(&self, at: usize) -> Option<(Id, Id)> {
        let sent = self.sent(at)?;
        let (anon, user) = sent.named_tie()?;
        (sent.is_identify() || self.user_of(anon, at).is_none()).then_some((anon, user))
    }

    fn ends(&self, at: usize, anon: Id) -> bool {
        matches!(&self.entries[at], Entry::Erased(_, named) if named.contains(&anon))
    }

    /// Returns the holder of an anonymous ID at an entry, as of the first `end` entries.
    fn holder(&self, anon: Id, at: usize, end: usize) -> Visitor {
        if let Some(user) = self.user_of(anon, at + 1) {
            return Visitor::User(user);
        }
        let later = (at + 1..end).take_while(|at| !self.ends(*at, anon));
        let next = later.filter_map(|at| self.tie_at(at)).find(|(tied, _)| *tied == anon);
        next.map_or(Visitor::Anonymous(anon), |(_, user)| Visitor::User(user))
    }

    /// Returns the user of the last tie before an entry that no erasure of the first `end` entries has removed.
    fn kept_user_before(&self, anon: Id, at: usize, end: usize) -> Option<Id> {
        let is_erased = |user: Id, since: usize| {
            let mut later = self.entries[since..end].iter();
            later.any(|entry| matches!(entry, Entry::Erased(visitor, _) if *visitor == Visitor::User(user)))
        };
        let before = (0..at).rev().take_while(|at| !self.ends(*at, anon));
        let mut ties = before.filter_map(|at| Some((at, self.tie_at(at)?)));
        let kept = ties.find(|(at, (tied, user))| *tied == anon && !is_erased(user, *at));
        kept.map(|(_, (_, user))| user)
    }

    /// Returns the owner of a record, as of the first `end` entries.
    fn owner_at(&self, at: usize, kept: &Kept, end: usize) -> Option<Visitor> {
        let sent = self.sent(at)?;
        match (kept.anon, kept.user) {
            (Some(anon), _) if kept.is_end => self.kept_user_before(anon, at, end).map(Visitor::User),
            (_, Some(user)) if kept.kind == RecordKind::Alias => Some(Visitor::User(user)),
            (Some(_), Some(user)) if sent.is_identify() => Some(Visitor::User(user)),
            (Some(anon), Some(user)) if self.user_of(anon, at + 1).is_some_and(|tied| tied != user) => {
                Some(Visitor::User(user))
            }
            (Some(anon), _) => Some(self.holder(anon, at, end)),
            (None, user) => user.map(Visitor::User),
        }
    }

    /// Returns whether the `previousId` of an alias is an ID of a visitor. The text of a user ID can be an anonymous ID of the
    /// alias's own user.
    fn names_previous(
        &self,
        visitor: Visitor,
        (at, end): (usize, usize),
        (previous, user): (Id, Option<Id>),
    ) -> bool {
        let holder = self.holder(previous, at, end);
        holder == visitor || Visitor::User(previous) == visitor && user.map(Visitor::User) != Some(holder)
    }

    /// Returns the rest of each record. `None` if the record is void or a tombstone.
    pub(super) fn kept(&self) -> Vec<Option<Kept>> {
        (0..self.len()).map(|at| self.kept_at(at)).collect()
    }

    fn kept_at(&self, at: usize) -> Option<Kept> {
        let Sent { kind, anon, user, previous, .. } = *self.sent(at)?;
        let mut kept = Kept { kind, anon, user, previous, is_redacted: false, is_end: false };
        for (end, entry) in self.entries.iter().enumerate().skip(at) {
            let Entry::Erased(erased, _) = entry else { continue };
            if self.owner_at(at, &kept, end) == Some(*erased) {
                kept = self.end_at(at, &kept, (*erased, end))?;
                continue;
            }
            let holds = |id: Id| self.holder(id, at, end) == *erased;
            let lost = [
                kept.anon.is_some_and(|anon| !kept.is_end && holds(anon)),
                kept.user.is_some_and(|user| Visitor::User(user) == *erased),
                kept.previous.is_some_and(|id| self.names_previous(*erased, (at, end), (id, kept.user))),
            ];
            let ids = [&mut kept.anon, &mut kept.user, &mut kept.previous];
            ids.into_iter().zip(lost).for_each(|(id, is_lost)| *id = id.filter(|_| !is_lost));
            kept.is_redacted |= lost.contains(&true);
        }
        Some(kept)
    }

    /// Returns the rest of an erased record: the end of the tie to another user, if the record ended one.
    fn end_at(&self, at: usize, kept: &Kept, (erased, end): (Visitor, usize)) -> Option<Kept> {
        let (anon, _) = self.sent(at)?.named_tie().filter(|_| kept.kind == RecordKind::Identify)?;
        let before = self.kept_user_before(anon, at, end).filter(|_| !kept.is_end)?;
        let rest = Kept { user: None, is_redacted: true, is_end: true, ..*kept };
        (Visitor::User(before) != erased).then_some(rest)
    }

    /// Returns the owner of each record.
    pub(super) fn owners(&self) -> Vec<Option<Visitor>> {
        let kept = self.kept().into_iter().enumerate();
        kept.map(|(at, kept)| self.owner_at(at, &kept?, self.len())).collect()
    }

    /// Returns the seqs of the records in the export of a visitor: its own, and the aliases of others that name an ID of it.
    pub(super) fn exported(&self, visitor: Visitor) -> Vec<u64> {
        let (kept, owners) = (self.kept(), self.owners());
        let names = |at: usize, kept: Kept| {
            let previous = kept.previous;
            previous.is_some_and(|id| self.names_previous(visitor, (at, self.len()), (id, kept.user)))
        };
        let is_exported = |at: &usize| {
            let is_named = |kept: Kept| owners[*at] == Some(visitor) && !kept.is_end || names(*at, kept);
            kept[*at].is_some_and(is_named)
        };
        (0..self.len()).filter(is_exported).map(|at| at as u64 + 1).collect()
    }

    /// Returns the column `tied` of each record.
    pub(super) fn tied(&self) -> Vec<Option<Id>> {
        let tied = |(at, kept): (usize, Option<Kept>)| {
            let (kept, sent) = (kept?, self.sent(at)?);
            let id = if kept.kind == RecordKind::Alias { kept.previous } else { kept.anon };
            let is_named = kept.is_end || (kept.user.is_some() && sent.named_tie().is_some());
            id.filter(|_| is_named)
        };
        self.kept().into_iter().enumerate().map(tied).collect()
    }

    /// Returns the visitor of each page, screen and track event for Insights.
    pub(super) fn visitors(&self) -> Vec<Option<Visitor>> {
        self.kept().into_iter().enumerate().map(|(at, kept)| self.visitor_at(at, kept?)).collect()
    }

    fn visitor_at(&self, at: usize, kept: Kept) -> Option<Visitor> {
        let sent = self.sent(at)?;
        let is_event = matches!(kept.kind, RecordKind::Page | RecordKind::Track | RecordKind::Screen);
        if !is_event || sent.is_bot {
            return None;
        }
        let (None, Some(user)) = (kept.anon, kept.user) else { return kept.anon.map(Visitor::Anonymous) };
        let mut ties = (0..at).rev().filter_map(|at| self.tie_at(at));
        let is_credited = |(anon, tied): &(Id, Id)| *tied == user && self.user_of(anon, at) == Some(user);
        let credited = ties.find(is_credited).map(|(anon, _)| Visitor::Anonymous(anon));
        Some(credited.unwrap_or(Visitor::User(user)))
    }
}
