//! F: the state of the stream, as each node computes it from the messages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::record::{Batch, Heartbeat, Key, Kind, Message, Record, Run, Seen};
use crate::rules::{Rule, Rules};

/// An accepted tombstone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erasure {
    pub key: Key,
    pub visitor: u8,
    pub seq: u32,
    pub position: u32,
    /// The chain after its message.
    pub chain: u64,
}

/// A session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    pub base: u32,
    pub next: u32,
    /// The instance that has opened it, or 0 if a lost batch has.
    pub instance: u32,
}

/// A member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    pub instance: u32,
    /// The number of erasures that it has carried out.
    pub erased: usize,
    pub erased_position: u32,
}

/// The state at a position. Checkpoints have it without the window.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    pub position: u32,
    pub chain: u64,
    /// The seq of the last record, and the number of batches.
    pub seq: u32,
    pub batches: usize,
    pub sessions: BTreeMap<u32, Session>,
    pub members: BTreeMap<usize, Member>,
    pub erasures: Vec<Erasure>,
    pub window: VecDeque<Key>,
    /// Only for [`Rule::RecoversUnderR`].
    pub recovered: BTreeMap<u64, u32>,
    /// Runs of which only a part was new. Run borders never change, so this stays 0.
    pub overlaps: u32,
}

impl State {
    /// Applies the next message. Returns its batch if it has an effect on the log.
    pub fn apply(&mut self, message: &Message, chain: u64, rules: &Rules) -> Option<Batch> {
        self.position += 1;
        self.chain = chain;
        match message {
            Message::Heartbeat(heartbeat) => {
                self.hear(heartbeat, rules);
                None
            }
            Message::Run(run) => self.accepts(run, rules).then(|| self.accept(run, rules)),
        }
    }

    pub fn next(&self, session: u32) -> u32 {
        self.sessions.get(&session).map_or(0, |session| session.next)
    }

    fn hear(&mut self, heartbeat: &Heartbeat, rules: &Rules) {
        let erased = self.index(heartbeat.erased).unwrap_or(0);
        let new = Member { instance: heartbeat.instance, erased: 0, erased_position: 0 };
        let member = self.members.entry(heartbeat.name).or_insert(new);
        if heartbeat.instance < member.instance {
            return;
        }
        if heartbeat.instance > member.instance {
            *member = new;
        }
        member.erased = member.erased.max(erased);
        member.erased_position = member.erased_position.max(heartbeat.erased_position);
        for (session, base) in &heartbeat.sessions {
            self.sessions.entry(*session).or_insert(Session {
                base: *base,
                next: *base,
                instance: heartbeat.instance,
            });
        }
        if rules.breaks(Rule::SessionsLeave) {
            let is_listed = |id: &u32| heartbeat.sessions.iter().any(|(session, _)| session == id);
            self.sessions.retain(|id, session| session.instance != heartbeat.instance || is_listed(id));
        }
    }

    /// True if all members that a directory knows have carried out an erasure.
    pub fn is_confirmed(&self, index: usize, known: &BTreeSet<usize>, rules: &Rules) -> bool {
        let position = self.erasures[index].position;
        let by_position = rules.breaks(Rule::ConfirmsByPosition);
        let is_past = |member: &Member| {
            if by_position { member.erased_position >= position } else { member.erased > index }
        };
        let knows_all = rules.breaks(Rule::ForgetsLostMembers)
            || known.iter().all(|name| self.members.contains_key(name));
        knows_all && self.members.values().all(is_past)
    }

    fn accepts(&mut self, run: &Run, rules: &Rules) -> bool {
        if let Some(recovery) = &run.recovery {
            if rules.breaks(Rule::RecoversUnderR) || rules.breaks(Rule::RecoversUnderOwnR) {
                let next = self.recovered.get(&recovery.under).copied();
                return next.map_or(recovery.is_first, |next| next == recovery.index);
            }
            let is_after = |(session, next): (u32, u32)| self.next(session) >= next;
            if !rules.breaks(Rule::RecoversInAnyOrder) && !recovery.before.is_none_or(is_after) {
                return false;
            }
        }
        if !self.knows(&run.seen, rules) {
            return false;
        }
        let next = match (self.sessions.get(&run.session), &run.recovery) {
            (Some(session), _) => session.next,
            (None, Some(_)) if rules.breaks(Rule::OpensAtLostBatch) => run.first,
            (None, Some(recovery)) => recovery.base,
            (None, None) if rules.breaks(Rule::AcceptsUnknownSessions) => run.first,
            (None, None) => return false,
        };
        run.first <= next && next < run.next
    }

    /// True if the history of the sender is this one, and this one has its tombstones.
    fn knows(&self, seen: &Seen, rules: &Rules) -> bool {
        if rules.breaks(Rule::SeenIsPosition) {
            return true;
        }
        let has_key = |key: &Key| self.erasures.iter().any(|erasure| erasure.key == *key);
        self.index(seen.view).is_some()
            && (rules.breaks(Rule::AcceptsUnknownErasures) || seen.seen_lost.iter().all(has_key))
    }

    /// Returns the number of erasures up to a view.
    pub fn index(&self, view: u64) -> Option<usize> {
        if view == 0 {
            return Some(0);
        }
        self.erasures.iter().rposition(|erasure| erasure.chain == view).map(|index| index + 1)
    }

    fn accept(&mut self, run: &Run, rules: &Rules) -> Batch {
        let next = self.sessions.get(&run.session).map_or(run.first, |session| session.next);
        self.overlaps += u32::from(run.first < next && run.recovery.is_none());
        let mut records = Vec::new();
        for (seq, record) in (run.first..).zip(&run.records) {
            let is_repeated = run.recovery.is_none() && seq < next;
            let has_window = run.recovery.is_none() || !rules.breaks(Rule::RecoversWithoutWindow);
            let is_listed = !rules.breaks(Rule::RepeatsTombstones)
                && self.erasures.iter().any(|erasure| erasure.key == record.key);
            if is_repeated || is_listed || has_window && self.window.contains(&record.key) {
                continue;
            }
            let record = self.voided(record, &run.seen, rules);
            self.push_key(record.key, rules);
            if record.kind == Kind::Tombstone {
                self.erasures.push(Erasure {
                    key: record.key,
                    visitor: record.visitor,
                    seq: self.seq + 1 + records.len() as u32,
                    position: self.position,
                    chain: self.chain,
                });
            }
            records.push(record);
        }
        self.raise(run, rules);
        let batch = Batch {
            position: self.position,
            chain: self.chain,
            seq: self.seq + 1,
            session: run.session,
            base: self.sessions.get(&run.session).map_or(0, |session| session.base),
            first: run.first.max(next.min(run.next)),
            next: run.next,
            records,
        };
        self.seq += batch.records.len() as u32;
        self.batches += 1;
        batch
    }

    fn raise(&mut self, run: &Run, rules: &Rules) {
        if let Some(recovery) = &run.recovery {
            self.recovered.insert(recovery.under, recovery.index + 1);
            if rules.breaks(Rule::RecoversWithoutNext) {
                return;
            }
        }
        let base = run.recovery.as_ref().map_or(run.first, |recovery| recovery.base);
        let new = Session { base, next: 0, instance: 0 };
        let session = self.sessions.entry(run.session).or_insert(new);
        session.next = session.next.max(run.next);
    }

    /// Returns the record, void if an erasure that its node had not read names its visitor.
    fn voided(&self, record: &Record, seen: &Seen, rules: &Rules) -> Record {
        let read = self.index(seen.view).unwrap_or(0);
        let is_unseen = |(index, erasure): (usize, &Erasure)| {
            let is_after = if rules.breaks(Rule::SeenIsPosition) {
                erasure.position > seen.position
            } else {
                index >= read
            };
            is_after && erasure.visitor == record.visitor && !seen.seen_lost.contains(&erasure.key)
        };
        let is_void = record.kind == Kind::Event && self.erasures.iter().enumerate().any(is_unseen);
        if is_void && !rules.breaks(Rule::IgnoresSeen) { void(record) } else { *record }
    }

    pub fn push_key(&mut self, key: Key, rules: &Rules) {
        self.window.push_back(key);
        if self.window.len() > rules.window_max {
            self.window.pop_front();
        }
    }
}

pub fn void(record: &Record) -> Record {
    Record { visitor: u8::MAX, kind: Kind::Void, ..*record }
}
