//! How a node sends its outbox and its lost batches, and its heartbeats.

use std::rc::Rc;

use super::{Around, Node, Phase};
use crate::disk::{Lost, Own};
use crate::record::{Heartbeat, Key, Message, Recovery, Run, Seen};
use crate::rules::{Rule, Rules};
use crate::state::State;

/// The number of runs that a node may send before the first of them returns.
const AHEAD: usize = 3;

/// True if a lost batch is in effect again.
pub fn is_back(state: &State, lost: &Lost, offset: usize, name: usize, rules: &Rules) -> bool {
    match rules.broken {
        Rule::RecoversUnderR | Rule::RecoversUnderOwnR => {
            let end = state.recovered.get(&under(lost, name, rules)).copied().unwrap_or(0);
            end as usize > lost.index + offset
        }
        _ => state.next(lost.batches[offset].session) >= lost.batches[offset].next,
    }
}

/// Returns the session R of a lost file. Only for [`Rule::RecoversUnderR`] and [`Rule::RecoversUnderOwnR`].
fn under(lost: &Lost, name: usize, rules: &Rules) -> u64 {
    let own = if rules.breaks(Rule::RecoversUnderOwnR) { 1 + name as u64 } else { 0 };
    lost.name() | own << 60
}

impl Node {
    /// Sends a lost batch, or a run if all lost batches are back. Returns false if there is nothing to send.
    pub fn send(&mut self, around: &mut Around<'_>) -> bool {
        let Some(running) = &self.running else { return false };
        if !running.is_caught_up || running.phase != Phase::Follows || self.is_comparing() {
            return false;
        }
        let missing = self.missing(&running.state, around.rules);
        let has_missing = !missing.is_empty() && !around.rules.breaks(Rule::SendsOutboxFirst);
        let message = if !missing.is_empty() && (has_missing || around.dice.below(2) == 0) {
            let (file, offset) = *around.dice.pick(&missing);
            self.recovery(file, offset, around)
        } else {
            self.run(around)
        };
        let Some(message) = message else { return false };
        around.stream.in_transit.push(Rc::new(Message::Run(message)));
        true
    }

    /// Returns the first missing batches of each lost file.
    fn missing(&self, state: &State, rules: &Rules) -> Vec<(usize, usize)> {
        let mut missing = Vec::new();
        for (file, lost) in self.disk.lost.iter().enumerate() {
            let offsets =
                (0..lost.batches.len()).filter(|offset| !is_back(state, lost, *offset, self.name, rules));
            missing.extend(offsets.take(AHEAD).map(|offset| (file, offset)));
        }
        if rules.breaks(Rule::RecoversOldestFirst) {
            let first = missing.first().map(|(file, _)| *file);
            missing.retain(|(file, _)| Some(*file) == first);
        }
        missing
    }

    /// X3: returns the message of a lost batch.
    fn recovery(&mut self, file: usize, offset: usize, around: &mut Around<'_>) -> Option<Run> {
        let (lost, state) = (&self.disk.lost[file], &self.running.as_ref()?.state);
        let batch = &lost.batches[offset];
        let tombstones = lost.batches[..offset].iter().filter_map(|batch| batch.tombstone());
        let mut seen = lost.common.clone();
        seen.seen_lost.extend(tombstones.map(|tombstone| tombstone.key));
        if around.rules.breaks(Rule::SeenIsPosition) {
            seen.seen_lost = seen.seen_lost.last().copied().into_iter().collect();
        }
        let seen = self.seen(&seen, state, around.rules)?;
        let recovery = Recovery {
            base: batch.base,
            before: offset.checked_sub(1).map_or(lost.before, |before| Some(lost.batches[before].id())),
            under: under(lost, self.name, around.rules),
            index: (lost.index + offset) as u32,
            is_first: offset == 0,
        };
        let run = Run {
            session: batch.session,
            first: batch.first,
            next: batch.next,
            records: batch.records.clone(),
            seen,
            recovery: Some(recovery),
        };
        around.facts.counts.recovered += 1;
        if around.rules.breaks(Rule::DeletesLostBeforeReturn) && offset + 1 == lost.batches.len() {
            self.disk.lost.remove(file);
        }
        Some(run)
    }

    fn seen(&self, seen: &Seen, state: &State, rules: &Rules) -> Option<Seen> {
        if !rules.breaks(Rule::SeenIsPosition) {
            return self.disk.resolve(seen, state, rules);
        }
        let cap = self.disk.lost.iter().map(|lost| lost.common.position).min().unwrap_or(u32::MAX);
        Some(Seen { position: seen.position.min(cap), ..seen.clone() })
    }

    /// Returns one of the first unreturned runs of the first session that has some.
    fn run(&mut self, around: &mut Around<'_>) -> Option<Run> {
        let state = &self.running.as_ref()?.state;
        let is_sendable = |own: &&Own| {
            own.seq <= self.disk.outbox_synced || around.rules.breaks(Rule::SendsVolatileRecords)
        };
        let is_unreturned = |own: &&Own| own.seq >= state.next(own.session);
        let unreturned: Vec<&Own> =
            self.disk.outbox.iter().filter(is_unreturned).filter(is_sendable).collect();
        let session = unreturned.first()?.session;
        let mut runs: Vec<u32> =
            unreturned.iter().filter(|own| own.session == session).map(|own| own.run).collect();
        runs.dedup();
        runs.truncate(AHEAD);
        let chosen = *around.dice.pick(&runs);
        let moves = around.rules.breaks(Rule::MovesRunBorders);
        let length = 1 + around.dice.below(3);
        let view = unreturned.first()?.view;
        let own: Vec<&Own> = if moves {
            unreturned
                .into_iter()
                .take_while(|own| own.session == session && own.view == view)
                .take(length)
                .collect()
        } else {
            unreturned.into_iter().filter(|own| own.session == session && own.run == chosen).collect()
        };
        let (first, last) = (*own.first()?, *own.last()?);
        let seen = Seen {
            view: first.view,
            seen_lost: self.last_tombstone(first, around.rules),
            position: first.position,
        };
        let seen = self.seen(&seen, state, around.rules)?;
        let run = Run {
            session,
            first: first.seq,
            next: last.seq + 1,
            records: own.iter().map(|own| own.record).collect(),
            seen,
            recovery: None,
        };
        self.note_sent(&run, around);
        Some(run)
    }

    /// Returns the key of the last tombstone of a record's history. Only for [`Rule::SeenIsPosition`].
    fn last_tombstone(&self, own: &Own, rules: &Rules) -> Vec<Key> {
        if !rules.breaks(Rule::SeenIsPosition) {
            return Vec::new();
        }
        let lost = self.disk.lost.iter().flat_map(|lost| &lost.batches);
        let batches = self.disk.log.iter().chain(lost);
        batches
            .filter(|batch| batch.chain == own.view)
            .filter_map(|batch| batch.tombstone())
            .map(|one| one.key)
            .collect()
    }

    fn note_sent(&mut self, run: &Run, around: &mut Around<'_>) {
        if around.rules.breaks(Rule::ReplicatedWhenSent) {
            for record in &run.records {
                around.facts.facts[usize::from(record.key)].is_replicated = true;
            }
        }
        if around.rules.breaks(Rule::DeletesOutboxBeforeReturn) {
            self.disk.outbox.retain(|own| own.session != run.session || own.seq >= run.next);
        }
    }

    /// Sends a heartbeat. An instance sends its first one when it has carried out all erasures.
    pub fn send_heartbeat(&mut self, around: &mut Around<'_>) -> bool {
        let Some(running) = &self.running else { return false };
        if !running.is_caught_up || running.phase != Phase::Follows || self.is_comparing() {
            return false;
        }
        let confirmed = self.confirmed(around.rules);
        let erasures = &running.state.erasures;
        let is_erased = erasures.last().is_none_or(|last| last.seq <= self.disk.erased);
        if !self.disk.has_joined && !is_erased {
            return false;
        }
        self.disk.is_restored &= confirmed < erasures.len();
        let last = erasures[..confirmed].last();
        let is_listed = |session: u32| {
            session == running.session || self.disk.outbox.iter().any(|own| own.session == session)
        };
        let bases = self.disk.bases.iter().map(|(session, base)| (*session, *base));
        let sessions = bases.filter(|(session, _)| is_listed(*session)).collect();
        let heartbeat = Heartbeat {
            name: self.name,
            instance: self.disk.instance,
            sessions,
            erased: last.map_or(0, |erasure| erasure.chain),
            erased_position: erasures.get(confirmed).map_or(running.state.position, |next| next.position - 1),
        };
        around.stream.in_transit.push(Rc::new(Message::Heartbeat(heartbeat)));
        true
    }

    /// E5: returns the number of erasures that the directory has carried out, so that no file has an earlier record.
    fn confirmed(&self, rules: &Rules) -> usize {
        let Some(running) = &self.running else { return 0 };
        let state = &running.state;
        if !self.disk.lost.is_empty() && !rules.breaks(Rule::ConfirmsWithLostFiles) {
            return 0;
        }
        let has_seen = |own: &Own, index: usize| {
            let seen = Seen { view: own.view, ..Seen::default() };
            let seen = self.disk.resolve(&seen, state, rules);
            seen.is_some_and(|seen| {
                state.index(seen.view).is_some_and(|read| read > index)
                    || seen.seen_lost.contains(&state.erasures[index].key)
            })
        };
        let is_done = |index: usize| {
            let has_outbox = !rules.breaks(Rule::ConfirmsWithOutbox);
            state.erasures[index].seq <= self.disk.erased
                && (!has_outbox || self.disk.outbox.iter().all(|own| has_seen(own, index)))
        };
        (0..state.erasures.len()).take_while(|index| is_done(*index)).count()
    }
}
