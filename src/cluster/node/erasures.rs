//! The erasures of a node: a tombstone of the stream removes the profiles at once, and the thread `erasure`
//! makes the own records void. Until it is done, the node sends nothing.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use super::Node;
use crate::cluster::erase::{Absence, NotedErasures, absence};
use crate::cluster::erasing::{ErasedVisitor, ErasureCommand, ErasureDone, ErasureLink, ErasureTask};
use crate::cluster::erasure_progress::PendingErasure;
use crate::cluster::filter::AcceptedRun;
use crate::cluster::follow::OwnLog;
use crate::cluster::message::RunRecord;
use crate::cluster::nodes::Erasure;
use crate::cluster::old_records::{OldRecords, first_allowed_seq};
use crate::cluster::seal;
use crate::record::RecordKind;
use crate::visitors::live::ProfileTable;

/// The erasures that a node knows.
pub(super) struct Erasures {
    link: ErasureLink,
    /// The erasures whose own records are not void yet: their IDs and positions.
    open: HashMap<u128, u64>,
    /// The content of the file `erased`, which the thread writes.
    noted: NotedErasures<Erasure>,
    /// The keys of the records that took effect while an erasure was open: one of them may be an erased record.
    effective: HashSet<u128>,
    /// The erasures of the state's list. Those that have left it are removed with heartbeats.
    listed: HashMap<u128, Erasure>,
    pub(super) old_records: OldRecords,
}

impl Erasures {
    pub(super) fn new(link: ErasureLink, noted_erasures: NotedErasures<Erasure>) -> Self {
        Self {
            link,
            open: HashMap::new(),
            noted: noted_erasures,
            effective: HashSet::new(),
            listed: HashMap::new(),
            old_records: OldRecords::default(),
        }
    }

    /// Returns whether own records may be sent.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns whether no own record of an erasure can be under way.
    pub(super) fn is_settled(&self) -> bool {
        self.noted.is_settled()
    }

    /// Notes a record that the stream has accepted with this order.
    pub(super) fn on_accepted(&mut self, record: &RunRecord<'_>, is_effective: bool, order: u64) {
        let is_erased = |erasure: &Erasure| erasure.order < order;
        if let Some(erasure) = self.noted.on_accepted(record, is_effective, is_erased) {
            self.erase_again(erasure, vec![record.key]);
        } else if !self.open.is_empty() && is_effective && record.record.kind != RecordKind::Void {
            self.effective.insert(record.key);
        }
    }

    /// Notes that an own record took effect with this order, and that the log does not have it.
    fn on_absent(&self, record: &RunRecord<'_>, absence: Absence, order: u64) {
        let candidates = self.noted.candidates(record, absence);
        let erasures: Vec<Erasure> = candidates.filter(|erasure| erasure.order < order).cloned().collect();
        if !erasures.is_empty() {
            let (seq, record) = (record.seq, record.bytes.to_vec());
            // The thread ends with the process.
            let _ = self.link.commands.send(ErasureCommand::Absent { erasures, seq, record });
        }
    }

    /// Begins an erasure, unless this directory has done it. If a crash has interrupted it, its first extent counts.
    pub(super) fn begin(&mut self, task: ErasureTask) {
        let (id, position) = (task.erasure.id, task.erasure.position);
        self.listed.insert(id, task.erasure.clone());
        self.noted.reopen(id, &task.erasure);
        let task = match self.noted.get(id) {
            Some(note) if note.is_done => return self.begin_shared(task.erasure),
            Some(note) => {
                ErasureTask { last_seq: note.last_seq, returned: note.returned, is_repeated: true, ..task }
            }
            None => task,
        };
        if self.open.insert(id, position).is_none() {
            if !task.is_repeated {
                self.noted.add(task.note(), &[]);
            }
            let _ = self.link.commands.send(ErasureCommand::Erase(task));
        }
    }

    /// Begins an erasure that is done in the own log. The log of the cluster can be the copy of another directory, from before it.
    fn begin_shared(&mut self, erasure: Erasure) {
        if self.open.insert(erasure.id, erasure.position).is_none() {
            let _ = self.link.commands.send(ErasureCommand::EraseShared(erasure));
        }
    }

    fn erase_again(&self, erasure: Erasure, keys: Vec<u128>) {
        let _ = self.link.commands.send(ErasureCommand::Again(erasure, keys));
    }

    /// Ends an erasure. The state has accepted own records up to `last_accepted_seq`, and up to `returned_seq` of the
    /// present producer ID.
    fn end(
        &mut self,
        ErasedVisitor { task, mut under_way, .. }: ErasedVisitor,
        (returned_seq, last_accepted_seq): (u64, u64),
    ) {
        let id = task.erasure.id;
        self.open.remove(&id);
        if !task.is_repeated {
            let is_back = |key| self.effective.contains(&key);
            let back: Vec<u128> =
                under_way.extract_if(.., |record| is_back(record.key)).map(|record| record.key).collect();
            if !back.is_empty() {
                self.erase_again(task.erasure.clone(), back);
            }
            self.noted.add(task.note(), &under_way);
        }
        self.noted.finish(id);
        if task.noted_after < task.returned {
            self.erase_unseen(last_accepted_seq, |erasure| erasure.id == id);
        }
        self.noted.forget_returned(returned_seq, task.clock_ms);
        if self.open.is_empty() {
            self.effective.clear();
            let _ = self.link.commands.send(ErasureCommand::Forget(returned_seq, task.clock_ms));
        }
    }

    /// Erases the visitors again whose records a loaded state has accepted in an unknown order.
    fn erase_unseen(&mut self, last_accepted_seq: u64, is_erased: impl Fn(&Erasure) -> bool) {
        for (erasure, keys) in self.noted.take_unseen(last_accepted_seq, is_erased) {
            self.erase_again(erasure, keys);
        }
    }

    /// Returns the position up to which all erasures are done. `position` is that of the state.
    pub(super) fn erased_to(&self, position: u64) -> u64 {
        self.open.values().min().map_or(position, |open| position.min(open - 1))
    }

    /// Notes that the own records up to a seq have returned. While an erasure is open, the file keeps them:
    /// one of them may need a second tombstone.
    pub(super) fn forget_returned(&mut self, returned_seq: u64, clock_ms: i64) {
        if self.noted.forget_returned(returned_seq, clock_ms) && self.open.is_empty() {
            let _ = self.link.commands.send(ErasureCommand::Forget(returned_seq, clock_ms));
        }
    }
}

impl Node {
    /// Handles the erasures that the thread has done.
    pub(super) fn take_done_erasures(&mut self) {
        while let Ok(done) = self.erasures.link.done.try_recv() {
            let last_accepted = self.state.as_ref().map_or(0, |state| self.follower.last_accepted(state));
            let returned = self.returned();
            match done {
                ErasureDone::Erased(visitor) => self.erasures.end(visitor, (returned, last_accepted)),
                ErasureDone::ErasedShared(ids) => self.erasures.open.retain(|id, _| !ids.contains(id)),
                ErasureDone::VoidBefore(seq) => self.erasures.old_records.end(seq),
            }
            // Its memory has the records as they were.
            self.log.read_again();
            self.shared.read_again();
            self.hasten_heartbeat();
        }
    }

    /// Makes the surplus records of a restored backup void.
    pub(super) fn void_old_records(&mut self) {
        let Some(state) = &self.state else { return };
        self.log.refresh_first_seq();
        let mut first_allowed = first_allowed_seq(&self.follower.producer, &state.nodes);
        if self.was_removed {
            first_allowed = first_allowed.max(self.positions.orders().first_seq_from(state.nodes.floor()));
        }
        if let Some(command) = self.erasures.old_records.begin(self.log.first_seq(), first_allowed) {
            let _ = self.erasures.link.commands.send(command);
        }
    }

    /// Begins the erasures of a loaded state that this directory has not done: it has not read their
    /// tombstones, or a crash has interrupted them. The order of an own record that has not returned is not
    /// known, so it counts as received before.
    pub(super) fn begin_unread_erasures(&mut self) {
        let Some(state) = &self.state else { return };
        let (last_seq, returned) = (self.log.last_seq(), self.follower.returned(state));
        let last_accepted = self.follower.last_accepted(state);
        for erasure in &state.nodes.erasures {
            let task = ErasureTask::new(erasure.clone(), (last_seq, returned), state.clock_ms);
            // The node has not read the tombstone, so each erased record can have taken effect after it.
            self.erasures.begin(ErasureTask { noted_after: 0, ..task });
        }
        let last_order = state.last_order();
        let is_erased = |erasure: &Erasure| erasure.order <= last_order;
        self.erasures.erase_unseen(last_accepted, is_erased);
    }

    /// Finds the own records of a run that took effect and that the log does not have: a visitor who was
    /// erased may own one. `effective_seqs` has the seqs that took effect. The log has loaded the seqs of the run.
    pub(super) fn note_absent(&self, run: &AcceptedRun, effective_seqs: &[u64]) {
        let Some(state) = self.state.as_ref().filter(|_| !effective_seqs.is_empty()) else { return };
        let (producer, name) = (&self.follower.producer, &self.membership.identity.name);
        let (id, sender) = (run.producer_id(), state.node_of(run.producer_id()));
        let records = run.records();
        for record in records.iter().filter(|record| effective_seqs.binary_search(&record.seq).is_ok()) {
            let absence = absence(producer, id, sender, record, &self.log, name);
            if let Some(absence) = absence {
                self.erasures.on_absent(record, absence, state.order(record.seq - run.first));
            }
        }
    }

    /// Publishes the erasures that a member has not confirmed. The ties of a visitor whose erasure has
    /// left the list are dropped.
    pub(super) fn publish_erasures(&mut self, profiles: &ProfileTable) {
        let Some(state) = &self.state else { return };
        let nodes = &state.nodes;
        let mut pending = HashMap::new();
        for erasure in &nodes.erasures {
            let late = nodes.unconfirmed(erasure);
            if !late.is_empty() {
                let owner = seal::owner(&erasure.payload);
                pending.insert(erasure.id, PendingErasure { owner, nodes: late });
            }
        }
        self.metrics.erasures_pending.store(pending.len() as u64, Ordering::Relaxed);
        // An erasure enters both lists at once, and leaves that of the state first.
        let has_left = self.erasures.listed.len() > nodes.erasures.len();
        let listed = nodes.erasures.iter().filter(|_| has_left).map(|erasure| erasure.id);
        let listed: HashSet<u128> = listed.collect();
        self.erasures.listed.retain(|id, erasure| {
            // The ties find the owner of a record that returns later.
            let is_needed = !has_left || listed.contains(id) || self.erasures.noted.is_open(*id);
            if !is_needed && let Some(owner) = seal::owner(&erasure.payload) {
                profiles.forget_ties(owner, erasure.order);
            }
            is_needed
        });
        self.erasures.link.progress.set_pending(pending);
        profiles.set_orders(self.order_rules(state));
    }
}
