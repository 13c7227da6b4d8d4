//! The erasures of a node: a tombstone of the stream removes the profiles at once, and the thread `erasure` makes the own records void. Until
//! it is done, the node sends nothing.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use super::Node;
use crate::cluster::audit::Erasure;
use crate::cluster::erase::{ErasedRecord, ErasedUnderWay};
use crate::cluster::erasing::{ErasureCommand, ErasureDone, ErasureLink, ErasureTask, read_done};
use crate::cluster::follow::OwnLog;
use crate::cluster::message::RunRecord;
use crate::cluster::old_records::{OldRecords, first_allowed_seq};
use crate::cluster::seal;
use crate::visitors::live::ProfileTable;
use crate::visitors::log::RecordKind;
use crate::visitors::ties::known::OrderRules;

/// The erasures that a node knows.
pub(super) struct Erasures {
    link: ErasureLink,
    /// The erasures whose own records are not void yet: their IDs and positions.
    open: HashMap<u128, u64>,
    under_way: ErasedUnderWay<Erasure>,
    /// The keys of the records that took effect while an erasure was open: one of them may be an erased record.
    effective: HashSet<u128>,
    /// The erasures of the state's list. Those that have left it are removed with heartbeats.
    listed: HashMap<u128, Erasure>,
    pub(super) old_records: OldRecords,
}

impl Erasures {
    pub(super) fn new(link: ErasureLink) -> Self {
        Self {
            link,
            open: HashMap::new(),
            under_way: ErasedUnderWay::default(),
            effective: HashSet::new(),
            listed: HashMap::new(),
            old_records: OldRecords::default(),
        }
    }

    /// Returns whether own records may be sent.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Notes a record that the stream has accepted in the message at `position`.
    pub(super) fn on_accepted(&mut self, record: &RunRecord<'_>, is_effective: bool, position: u64) {
        let is_erased = |erasure: &Erasure| erasure.position <= position;
        if let Some(erasure) = self.under_way.on_accepted(record, is_effective, is_erased) {
            self.erase_again(erasure);
        }
        if !self.open.is_empty() && is_effective && record.record.kind != RecordKind::Void {
            self.effective.insert(record.key);
        }
    }

    /// Begins an erasure.
    pub(super) fn begin(&mut self, task: ErasureTask) {
        let (id, position) = (task.erasure.id, task.erasure.position);
        self.listed.insert(id, task.erasure.clone());
        if self.open.insert(id, position).is_none() {
            // The thread ends with the process.
            let _ = self.link.commands.send(ErasureCommand::Erase(task));
        }
    }

    fn erase_again(&self, erasure: Erasure) {
        let _ = self.link.commands.send(ErasureCommand::Again(erasure));
    }

    fn end(&mut self, task: &ErasureTask, under_way: Vec<ErasedRecord<Erasure>>, returned: u64) {
        self.open.remove(&task.erasure.id);
        for record in under_way {
            let ErasedRecord { seq, key, .. } = record;
            if key != 0 && self.effective.contains(&key) {
                self.erase_again(record.owner);
            } else if seq > returned {
                self.under_way.push(record);
            }
        }
        if self.open.is_empty() {
            self.effective.clear();
        }
    }

    /// Returns the position up to which all erasures are done. `position` is that of the state.
    pub(super) fn erased_to(&self, position: u64) -> u64 {
        self.open.values().min().map_or(position, |open| position.min(open - 1))
    }

    pub(super) fn forget_returned(&mut self, returned: u64) {
        self.under_way.forget_returned(returned);
    }
}

impl Node {
    /// Handles the erasures that the thread has done.
    pub(super) fn take_done_erasures(&mut self) {
        while let Ok(done) = self.erasures.link.done.try_recv() {
            let returned = self.returned();
            match done {
                ErasureDone::Erased(task, under_way) => self.erasures.end(&task, under_way, returned),
                ErasureDone::VoidBefore(seq) => self.erasures.old_records.end(seq),
            }
            // Its memory has the records as they were.
            self.log.read_again();
            self.hasten_heartbeat();
        }
    }

    /// Makes the records void that a restored backup has too many.
    pub(super) fn void_old_records(&mut self) {
        let Some(state) = &self.state else { return };
        self.log.refresh_first_seq();
        let first_allowed = first_allowed_seq(&self.follower.producer, &state.nodes);
        if let Some(command) = self.erasures.old_records.begin(self.log.first_seq(), first_allowed) {
            let _ = self.erasures.link.commands.send(command);
        }
    }

    /// Begins the erasures of a loaded state that this directory has not done: it has not read their tombstones. The order of an own
    /// record that has not returned is not known, so it counts as received before.
    pub(super) fn begin_unread_erasures(&mut self) {
        let Some(state) = &self.state else { return };
        let done: HashSet<u128> = read_done(&self.directory).ids().collect();
        let (last_seq, returned) = (self.log.last_seq(), self.follower.returned(state));
        let last_accepted = self.follower.last_accepted(state);
        for erasure in &state.nodes.erasures {
            if done.contains(&erasure.id) {
                self.erasures.listed.insert(erasure.id, erasure.clone());
            } else {
                self.erasures.begin(ErasureTask { erasure: erasure.clone(), last_seq, returned });
            }
        }
        let is_erased = |erasure: &Erasure| erasure.position <= state.position;
        for erasure in self.erasures.under_way.take_unseen(last_accepted, is_erased) {
            self.erasures.erase_again(erasure);
        }
    }

    /// Publishes the erasures that a known node has not confirmed. The ties of a visitor whose erasure has left the list are dropped.
    pub(super) fn publish_erasures(&mut self, profiles: &ProfileTable) {
        let Some(state) = &self.state else { return };
        let nodes = &state.nodes;
        let mut pending = HashMap::new();
        for erasure in &nodes.erasures {
            let late = nodes.unconfirmed(erasure, state.clock_ms);
            if !late.is_empty() {
                pending.insert(erasure.id, late);
            }
        }
        self.metrics.erasures_pending.store(pending.len() as u64, Ordering::Relaxed);
        // An erasure enters both lists at once, and leaves that of the state first.
        let has_left = self.erasures.listed.len() > nodes.erasures.len();
        let listed = nodes.erasures.iter().filter(|_| has_left).map(|erasure| erasure.id);
        let listed: HashSet<u128> = listed.collect();
        self.erasures.listed.retain(|id, erasure| {
            let is_listed = !has_left || listed.contains(id);
            if let Some(owner) = seal::owner(&erasure.payload).filter(|_| !is_listed) {
                profiles.forget_ties(owner, erasure.order);
            }
            is_listed
        });
        self.erasures.link.progress.set_pending(pending);
        let (base_position, floor) = (state.era.base_position, nodes.floor(state.clock_ms));
        profiles.set_orders(OrderRules { base_position, floor });
    }
}
