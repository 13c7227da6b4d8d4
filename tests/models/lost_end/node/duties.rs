//! The other work of a node: syncs, checkpoints, erasures, deletions and copies.

use super::{Around, Node, Phase};
use crate::disk::{Checkpoint, Disk};
use crate::record::Kind;
use crate::rules::Rule;
use crate::state::void;

/// The next step of an erasure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Erasing {
    Checkpoints,
    Note,
}

impl Node {
    /// L4: syncs the log.
    pub fn sync_log(&mut self) -> bool {
        let is_comparing = self.is_comparing();
        let Some(running) = &mut self.running else { return false };
        if running.phase != Phase::Follows || is_comparing {
            return false;
        }
        self.disk.sync_log();
        running.durable_next =
            running.state.sessions.iter().map(|(id, session)| (*id, session.next)).collect();
        running.view = self.disk.view();
        if self.disk.lost.is_empty() && self.disk.outbox.is_empty() {
            self.disk.views.clear();
        }
        true
    }

    /// Makes a checkpoint.
    pub fn make_checkpoint(&mut self, around: &mut Around<'_>) -> bool {
        let is_early = around.rules.breaks(Rule::CheckpointBeforeSync);
        if !is_early && !self.sync_log() || self.is_comparing() {
            return false;
        }
        let Some(running) = self.running.as_ref().filter(|running| running.phase == Phase::Follows) else {
            return false;
        };
        if self.disk.checkpoints.last().is_some_and(|last| {
            (last.state.position, last.state.chain) == (running.state.position, running.state.chain)
        }) {
            return false;
        }
        trace!("{}: makes a checkpoint at {}", self.name, running.state.position);
        self.disk.checkpoints.push(Checkpoint { state: running.state.clone(), table: running.table });
        let extra = self.disk.checkpoints.len().saturating_sub(around.rules.checkpoints_max);
        self.disk.checkpoints.drain(..extra);
        self.disk.kept.push((running.state.position, running.state.chain, running.state.seq));
        let extra = self.disk.kept.len().saturating_sub(around.rules.checkpoints_max);
        self.disk.kept.drain(..extra);
        true
    }

    /// E3: does one step of the first erasure that this directory has not carried out.
    pub fn erase(&mut self, around: &mut Around<'_>) -> bool {
        let is_comparing = self.is_comparing();
        let Some(running) = &mut self.running else { return false };
        if running.phase != Phase::Follows || is_comparing {
            return false;
        }
        let Some(erasure) =
            running.state.erasures.iter().find(|erasure| erasure.seq > self.disk.erased).cloned()
        else {
            return false;
        };
        trace!("{}: erases for {erasure:?}, {:?}", self.name, running.erasing);
        match running.erasing {
            None => {
                if !around.rules.breaks(Rule::ErasedBeforeSync) {
                    self.sync_log();
                }
                let records = self.disk.log.iter_mut().take_while(|batch| batch.seq < erasure.seq);
                for record in records.flat_map(|batch| &mut batch.records) {
                    if record.kind == Kind::Event && record.visitor == erasure.visitor {
                        around.facts.counts.void += 1;
                        *record = void(record);
                    }
                }
            }
            Some(Erasing::Checkpoints) => {
                self.replace_checkpoints(erasure.seq, erasure.visitor, around);
            }
            Some(Erasing::Note) => self.disk.erased = erasure.seq,
        }
        if let Some(running) = &mut self.running {
            running.erasing = match running.erasing {
                None => Some(Erasing::Checkpoints),
                Some(Erasing::Checkpoints) => Some(Erasing::Note),
                Some(Erasing::Note) => None,
            };
        }
        true
    }

    /// Removes a visitor from the checkpoints before an erasure, or deletes them.
    fn replace_checkpoints(&mut self, seq: u32, visitor: u8, around: &mut Around<'_>) {
        if around.rules.rewrites_checkpoints {
            let log = &self.disk.log;
            for checkpoint in self.disk.checkpoints.iter_mut().filter(|checkpoint| checkpoint.state.seq < seq)
            {
                let records = log[..checkpoint.state.batches].iter().flat_map(|batch| &batch.records);
                let of_visitor =
                    records.filter(|record| record.visitor == visitor && record.kind == Kind::Event);
                checkpoint.table[usize::from(visitor)] = of_visitor.count() as u16;
            }
        } else {
            if !around.rules.breaks(Rule::ErasedBeforeSync) {
                self.make_checkpoint(around);
            } else if let Some(running) = &self.running {
                self.disk.checkpoints.push(Checkpoint { state: running.state.clone(), table: running.table });
            }
            self.disk.checkpoints.retain(|checkpoint| checkpoint.state.seq >= seq);
            self.disk.kept.retain(|(_, _, kept)| *kept >= seq);
        }
    }

    /// O4: deletes outbox records that have returned, from the front, if the log is synced up to them.
    pub fn delete_outbox(&mut self, around: &mut Around<'_>) -> bool {
        let Some(running) = self.running.as_ref().filter(|running| running.phase == Phase::Follows) else {
            return false;
        };
        let is_early = around.rules.breaks(Rule::DeletesOutboxBeforeSync);
        let is_deletable = |session: u32, seq: u32| {
            let durable = running.durable_next.get(&session).copied().unwrap_or(0);
            seq < if is_early { running.state.next(session) } else { durable }
        };
        let synced = self.disk.outbox_synced;
        let count = self
            .disk
            .outbox
            .iter()
            .take_while(|own| is_deletable(own.session, own.seq) && own.seq <= synced)
            .count();
        let count = around.dice.below(count + 1);
        self.disk.outbox.drain(..count);
        count > 0
    }

    /// X4: deletes the lost files whose batches are back, if the log is synced up to them.
    pub fn delete_lost(&mut self, around: &mut Around<'_>) -> bool {
        let Some(running) = self.running.as_ref().filter(|running| running.phase == Phase::Follows) else {
            return false;
        };
        if !running.is_caught_up || self.is_comparing() {
            return false;
        }
        let is_early = around.rules.breaks(Rule::DeletesLostBeforeSync);
        let durable = |session: u32| running.durable_next.get(&session).copied().unwrap_or(0);
        let rules = around.rules;
        let (state, name, count) = (&running.state, self.name, self.disk.lost.len());
        self.disk.lost.retain(|lost| {
            let is_synced = |offset: usize| {
                is_early || durable(lost.batches[offset].session) >= lost.batches[offset].next
            };
            !(0..lost.batches.len())
                .all(|offset| super::sending::is_back(state, lost, offset, name, rules) && is_synced(offset))
        });
        if self.disk.lost.len() < count {
            trace!("{name}: deletes {} lost files", count - self.disk.lost.len());
        }
        self.disk.lost.len() < count
    }

    /// Returns the directory that a peer may copy, if it continues the stream.
    pub fn copyable(&self, around: &Around<'_>) -> Option<Disk> {
        let running = self.running.as_ref()?;
        let has_lost = !self.disk.lost.is_empty() && !around.rules.breaks(Rule::CopiesWithLostFiles);
        let continues = around.stream.continues(running.state.position, running.state.chain);
        if !running.is_caught_up
            || running.phase != Phase::Follows
            || self.is_comparing()
            || has_lost
            || !continues
        {
            return None;
        }
        let log = self.disk.log[..self.disk.log_synced].to_vec();
        let fits = |checkpoint: &&Checkpoint| checkpoint.state.batches <= log.len();
        let checkpoints: Vec<Checkpoint> = self.disk.checkpoints.iter().filter(fits).cloned().collect();
        let end = log.last().map_or(0, |batch| batch.end_seq() - 1);
        let erased =
            if around.rules.breaks(Rule::CopyCountsAsErased) { end } else { self.disk.erased.min(end) };
        let members = self.disk.members.clone();
        let keep = |checkpoint: &Checkpoint| {
            (checkpoint.state.position, checkpoint.state.chain, checkpoint.state.seq)
        };
        let kept = checkpoints.iter().map(keep).collect();
        Some(Disk { members, kept, log_synced: log.len(), log, checkpoints, erased, ..Disk::empty(0) })
    }
}
