//! A node: how it starts, records events, and follows the stream.

mod cut;
mod duties;
mod sending;

use std::collections::BTreeMap;

use crate::dice::Dice;
use crate::disk::{Disk, Own};
use crate::facts::Facts;
use crate::record::{Batch, Kind, Message, Record, Table, VISITORS, fold};
use crate::rules::{Rule, Rules};
use crate::state::State;
use crate::stream::Stream;
pub use cut::Cut;
pub use duties::Erasing;

/// The world around a node.
pub struct Around<'w> {
    pub stream: &'w mut Stream,
    pub facts: &'w mut Facts,
    pub dice: &'w mut Dice,
    pub rules: &'w Rules,
}

/// The phase of a running node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It compares the tail of its log with the stream, and then appends.
    Follows,
    /// It removes a lost end from its log.
    Cuts(Cut),
    /// X5: no checkpoint continues the stream.
    Stopped,
}

/// The memory of a running node.
pub struct Running {
    pub state: State,
    pub table: Table,
    pub session: u32,
    pub is_caught_up: bool,
    pub phase: Phase,
    pub erasing: Option<Erasing>,
    /// The next seq of each session at the last sync of the log.
    pub durable_next: BTreeMap<u32, u32>,
    /// The view of new outbox records.
    pub view: u64,
}

pub struct Node {
    pub name: usize,
    pub disk: Disk,
    pub running: Option<Running>,
}

impl Node {
    /// Starts. A directory without a checkpoint waits for a copy.
    pub fn start(&mut self, around: &mut Around<'_>) {
        let rules = around.rules;
        if self.disk.checkpoints.is_empty() {
            return;
        }
        self.disk.recover(rules);
        let unfinished = self.disk.unfinished_cut().map(|lost| lost.index);
        let any = self.disk.lost.first().map(|lost| lost.index.min(self.disk.log.len()));
        let cut = match rules.broken {
            Rule::CutsAtEachStart => any,
            Rule::RewritesLostFile | Rule::ForgetsCut => None,
            _ => unfinished,
        };
        around.facts.counts.cuts_continued += u64::from(unfinished.is_some());
        let phase = cut.map_or(Phase::Follows, |index| Phase::Cuts(Cut::continued(index)));
        let Some(table) = self.disk.load_table() else {
            return around.facts.fail(format!("node {}: no checkpoint for its log", self.name));
        };
        let newest = self.disk.newest_checkpoint().expect("the table was loaded");
        let state = self.disk.load_state(newest, rules);
        let is_kept = rules.breaks(Rule::KeepsSession) && self.disk.session > 0;
        let session = if is_kept { self.disk.session } else { around.facts.session() };
        self.disk.session = session;
        self.disk.bases.entry(session).or_insert(self.disk.outbox_next);
        self.running = Some(Running {
            state,
            table,
            session,
            is_caught_up: false,
            phase,
            erasing: None,
            durable_next: BTreeMap::new(),
            view: self.disk.view(),
        });
    }

    pub fn crash(&mut self, dice: &mut Dice) {
        if self.running.take().is_some() {
            self.disk.crash(dice);
        }
    }

    /// Records an event of a client. Returns false if the node does not take events.
    pub fn receive(&mut self, record: Record, around: &mut Around<'_>) -> bool {
        let Some(running) = &mut self.running else { return false };
        if !self.disk.has_joined {
            return false;
        }
        if running.state.window.contains(&record.key) {
            let synced = &self.disk.log[..self.disk.log_synced];
            let has_record = synced.iter().flat_map(|batch| &batch.records).any(|one| one.key == record.key);
            if has_record || around.rules.breaks(Rule::AcknowledgesVolatileDuplicates) {
                trace!("{}: receives {record:?}, a duplicate", self.name);
                let is_durable = self.disk.durable_keys() >> record.key & 1 == 1;
                let is_kept = is_durable || around.facts.may_be_erased(record.key);
                around
                    .facts
                    .check(is_kept, || format!("record {} is a duplicate of no durable record", record.key));
                around.facts.acknowledge(record.key);
                return true;
            }
        }
        if self
            .disk
            .outbox
            .iter()
            .any(|own| own.record.key == record.key && own.seq >= running.state.next(own.session))
        {
            return true;
        }
        let lost_view = self.disk.lost.last().map(|lost| lost.view);
        let lost_view = lost_view.filter(|_| !around.rules.breaks(Rule::ForgetsLostErasures));
        let own = Own {
            seq: self.disk.outbox_next,
            session: running.session,
            run: self.disk.outbox_next,
            record,
            view: lost_view.unwrap_or(if around.rules.breaks(Rule::SeenBeforeSync) {
                running.state.erasures.last().map_or(0, |erasure| erasure.chain)
            } else {
                running.view
            }),
            position: running.state.position,
        };
        self.append(own, around);
        true
    }

    /// Appends to the outbox. A run has up to three records with one view, and a tombstone is a run of its own.
    fn append(&mut self, mut own: Own, around: &mut Around<'_>) {
        if let Some(last) = self.disk.outbox.back() {
            let is_event = [last.record.kind, own.record.kind] == [Kind::Event; 2];
            let is_unsynced = last.seq > self.disk.outbox_synced;
            let fits = last.session == own.session && own.seq - last.run < 3;
            if is_event && is_unsynced && fits && last.view == own.view && around.dice.below(3) > 0 {
                own.run = last.run;
            }
        }
        trace!(
            "{}: appends {} of session {} run {}: {:?}, view {:x}",
            self.name, own.seq, own.session, own.run, own.record, own.view
        );
        let fact = &mut around.facts.facts[usize::from(own.record.key)];
        fact.is_retried |= fact.last > 0;
        fact.last = around.facts.step;
        if fact.first == 0 {
            fact.first = around.facts.step;
        }
        self.disk.outbox_next += 1;
        self.disk.outbox.push_back(own);
    }

    /// Syncs the outbox and acknowledges its records.
    pub fn sync_outbox(&mut self, around: &mut Around<'_>) -> bool {
        let synced = self.disk.outbox_synced;
        let Some(last) = self.disk.outbox.back().filter(|last| last.seq > synced) else { return false };
        trace!("{}: syncs its outbox to {}", self.name, last.seq);
        self.disk.outbox_synced = last.seq;
        for own in self.disk.outbox.iter().filter(|own| own.seq > synced) {
            around.facts.acknowledge(own.record.key);
        }
        true
    }

    pub fn is_cutting(&self) -> bool {
        self.running.as_ref().is_some_and(|running| matches!(running.phase, Phase::Cuts(_)))
    }

    /// True while the node compares the tail of its log with the stream.
    pub fn is_comparing(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.state.batches < self.disk.log.len())
    }

    /// Reads one message, or does one step of a cut. Returns false if there is nothing to do.
    pub fn follow(&mut self, around: &mut Around<'_>) -> bool {
        let Some(running) = &mut self.running else { return false };
        match running.phase {
            Phase::Stopped => return false,
            Phase::Cuts(cut) => {
                self.cut(cut, around);
                return true;
            }
            Phase::Follows => (),
        }
        if !around.stream.continues(running.state.position, running.state.chain) {
            self.go_back(around);
            return true;
        }
        let index = running.state.batches;
        let Some((message, chain)) = around.stream.after(running.state.position) else {
            let was_caught_up = running.is_caught_up;
            if index < self.disk.log.len() {
                self.begin_cut(index, around);
                return true;
            }
            running.is_caught_up = true;
            return !was_caught_up;
        };
        let batch = running.state.apply(&message, chain, around.rules);
        self.disk.members.extend(running.state.members.keys());
        if let Some(batch) =
            batch.filter(|batch| !around.rules.breaks(Rule::SkipsEmptyBatches) || !batch.records.is_empty())
        {
            around.facts.note_batch(&batch);
            self.take(index, batch, around);
        } else if around.rules.breaks(Rule::SkipsEmptyBatches) {
            running.state.batches = index;
        }
        self.note_answers(&message, around);
        true
    }

    /// Compares a batch with the log, or appends and folds it.
    fn take(&mut self, index: usize, batch: Batch, around: &mut Around<'_>) {
        let Some(running) = &mut self.running else { return };
        if let Some(own) = self.disk.log.get(index) {
            if own.chain != batch.chain {
                return self.begin_cut(index, around);
            }
            around.facts.check(is_equal(own, &batch), || format!("other content: {own:?}, {batch:?}"));
            if !around.rules.breaks(Rule::AppendsTailAgain) {
                return;
            }
        }
        trace!("{}: appends {batch:?}", self.name);
        fold(&mut running.table, &batch);
        let is_own =
            |own: &&Own| own.session == batch.session && (batch.first..batch.next).contains(&own.seq);
        for own in self.disk.outbox.iter().filter(is_own).filter(|own| own.seq <= self.disk.outbox_synced) {
            around.facts.facts[usize::from(own.record.key)].is_replicated = true;
        }
        self.disk.log.push(batch);
    }

    /// X1: continues from the newest checkpoint that continues the stream.
    fn go_back(&mut self, around: &mut Around<'_>) {
        let Some(running) = &mut self.running else { return };
        running.is_caught_up = false;
        running.erasing = None;
        running.durable_next.clear();
        let fits = |state: &State| {
            state.batches <= self.disk.log.len() && around.stream.continues(state.position, state.chain)
        };
        let Some(checkpoint) = self.disk.checkpoints.iter().rev().find(|checkpoint| fits(&checkpoint.state))
        else {
            return self.stop(around);
        };
        trace!("{}: goes back from {} to {}", self.name, running.state.position, checkpoint.state.position);
        running.state = self.disk.load_state(checkpoint, around.rules);
    }

    /// X5: stops. No checkpoint that the rules keep continues the stream.
    fn stop(&mut self, around: &mut Around<'_>) {
        trace!("{}: stops, no checkpoint continues the stream", self.name);
        around.facts.counts.stopped += 1;
        let continues =
            self.disk.kept.iter().any(|(position, chain, _)| around.stream.continues(*position, *chain));
        around
            .facts
            .check(!continues, || format!("node {} stops, and a checkpoint continues the stream", self.name));
        if let Some(running) = &mut self.running {
            running.phase = Phase::Stopped;
        }
    }

    /// Notes the erasures that this node knows to be done on all members.
    fn note_answers(&mut self, message: &Message, around: &mut Around<'_>) {
        let Some(running) = &self.running else { return };
        if matches!(message, Message::Run(_)) || self.is_comparing() {
            return;
        }
        for (index, erasure) in running.state.erasures.iter().enumerate() {
            let answer =
                crate::facts::Answer { key: erasure.key, position: erasure.position, chain: erasure.chain };
            if !around.facts.answers.contains(&answer)
                && running.state.is_confirmed(index, &self.disk.members, around.rules)
            {
                trace!("{}: DELETE {} has status 200", self.name, erasure.key);
                around.facts.answers.push(answer);
                around.facts.counts.answered += 1;
                let step = around.facts.step;
                around.facts.facts[usize::from(erasure.key)].answered.get_or_insert(step);
            }
        }
    }

    /// Returns the visitors' counts of the whole log.
    pub fn folded(&self) -> Table {
        let mut table = [0; VISITORS];
        self.disk.log.iter().for_each(|batch| fold(&mut table, batch));
        table
    }
}

/// True if two batches are equal, except for records that one node has erased.
pub fn is_equal(one: &Batch, other: &Batch) -> bool {
    let is_same = |(one, other): (&Record, &Record)| {
        one.key == other.key && (one == other || one.kind == Kind::Void || other.kind == Kind::Void)
    };
    let sides =
        |batch: &Batch| (batch.chain, batch.session, batch.first, batch.next, batch.seq, batch.records.len());
    sides(one) == sides(other) && one.records.iter().zip(&other.records).all(is_same)
}
