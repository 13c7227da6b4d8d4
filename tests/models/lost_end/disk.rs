//! The directory of a node, and what a crash leaves of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::dice::Dice;
use crate::record::{Batch, Keys, Kind, Record, Seen, Table, VISITORS, fold};
use crate::rules::{Rule, Rules};
use crate::state::State;

/// A record of the outbox.
#[derive(Debug, Clone)]
pub struct Own {
    pub seq: u32,
    pub session: u32,
    /// The seq of the first record of its run.
    pub run: u32,
    pub record: Record,
    pub view: u64,
    /// Only for [`Rule::SeenIsPosition`].
    pub position: u32,
}

#[derive(Debug, Clone)]
pub struct Checkpoint {
    pub state: State,
    pub table: Table,
}

/// A file in `lost/`: the batches of one lost end.
#[derive(Debug, Clone)]
pub struct Lost {
    /// Their index in the log.
    pub index: usize,
    pub batches: Vec<Batch>,
    /// The batch before them.
    pub before: Option<(u32, u32)>,
    /// The last common view, and the view of new outbox records until all lost files are gone.
    pub common: Seen,
    pub view: u64,
    /// True after the directory was synced. Until then a crash can undo the rename.
    pub is_durable: bool,
}

impl Lost {
    /// Returns R: the chain of the first lost batch.
    pub fn name(&self) -> u64 {
        self.batches[0].chain
    }
}

/// The erasures between the common history and a view of a lost end.
#[derive(Debug, Clone)]
pub struct LostView {
    pub view: u64,
    pub common: Seen,
}

/// A directory.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    pub instance: u32,
    /// False until the first heartbeat has returned.
    pub has_joined: bool,
    /// True for a restored backup that has not confirmed all erasures since.
    pub is_restored: bool,
    /// All names that have been members. A lost end of the stream can contain the heartbeats of one.
    pub members: BTreeSet<usize>,
    pub log: Vec<Batch>,
    pub log_synced: usize,
    pub outbox: VecDeque<Own>,
    /// The seq of the last synced outbox record, and of the next one.
    pub outbox_synced: u32,
    pub outbox_next: u32,
    /// The session of the last start.
    pub session: u32,
    /// The first outbox seq of each session.
    pub bases: BTreeMap<u32, u32>,
    pub checkpoints: Vec<Checkpoint>,
    /// Position, chain and seq of the checkpoints that the rules keep. No cut changes this list.
    pub kept: Vec<(u32, u64, u32)>,
    pub erased: u32,
    pub lost: Vec<Lost>,
    /// Unfinished lost files: `R.new`.
    pub lost_new: Vec<Lost>,
    pub views: Vec<LostView>,
}

impl Disk {
    /// Returns an empty directory of a new cluster.
    pub fn new(instance: u32) -> Self {
        let founding = Checkpoint { state: State::default(), table: [0; VISITORS] };
        Self {
            instance,
            outbox_next: 1,
            checkpoints: vec![founding],
            kept: vec![(0, 0, 0)],
            ..Self::default()
        }
    }

    /// Returns a directory without a log, which another one is copied to.
    pub fn empty(instance: u32) -> Self {
        Self { checkpoints: Vec::new(), kept: Vec::new(), ..Self::new(instance) }
    }

    pub fn end_seq(&self) -> u32 {
        self.log.last().map_or(1, Batch::end_seq)
    }

    pub fn sync_log(&mut self) {
        self.log_synced = self.log.len();
    }

    /// Loses a part of the unsynced ends.
    pub fn crash(&mut self, dice: &mut Dice) {
        let torn = dice.below(self.log.len() - self.log_synced + 1);
        self.log.truncate(self.log_synced + torn);
        let unsynced = self.outbox.iter().filter(|own| own.seq > self.outbox_synced).count();
        let kept = self.outbox.len() - unsynced + dice.below(unsynced + 1);
        self.outbox.truncate(kept);
        let is_undone = self.lost.last().is_some_and(|lost| !lost.is_durable) && dice.below(2) == 0;
        if is_undone {
            self.lost_new.extend(self.lost.pop());
        }
        if dice.below(2) == 0 {
            self.lost_new.clear();
        }
    }

    /// Makes everything durable that the crash has left.
    pub fn recover(&mut self, rules: &Rules) {
        self.sync_log();
        if let Some(last) = self.outbox.back() {
            self.outbox_synced = last.seq;
            self.outbox_next = last.seq + 1;
        } else {
            self.outbox_next = self.outbox_synced + 1;
        }
        self.lost.iter_mut().for_each(|lost| lost.is_durable = true);
        if !rules.breaks(Rule::KeepsUnfinishedFile) {
            self.lost_new.clear();
        }
        self.erased = self.erased.min(self.end_seq() - 1);
        self.forget_bases();
    }

    /// Deletes the sessions that the outbox has no records of.
    pub fn forget_bases(&mut self) {
        let is_used = |session: &u32| self.outbox.iter().any(|own| own.session == *session);
        self.bases.retain(|session, _| is_used(session));
    }

    /// Returns the index of a batch in the log.
    pub fn index_of(&self, chain: u64) -> Option<usize> {
        self.log.iter().rposition(|batch| batch.chain == chain)
    }

    /// Returns the lost file of the cut that a crash has interrupted.
    pub fn unfinished_cut(&self) -> Option<&Lost> {
        self.lost.iter().find(|lost| self.index_of(lost.name()).is_some())
    }

    /// Returns the state of a checkpoint, with the window from the log.
    pub fn load_state(&self, checkpoint: &Checkpoint, rules: &Rules) -> State {
        let mut state = checkpoint.state.clone();
        let end = if rules.breaks(Rule::WindowAtEnd) { self.log.len() } else { state.batches };
        state.window.clear();
        for record in self.log[..end].iter().flat_map(|batch| &batch.records) {
            state.push_key(record.key, rules);
        }
        state
    }

    /// Returns the newest checkpoint that the log reaches.
    pub fn newest_checkpoint(&self) -> Option<&Checkpoint> {
        self.checkpoints.iter().rev().find(|checkpoint| checkpoint.state.batches <= self.log.len())
    }

    /// Returns the table at the end of the log.
    pub fn load_table(&self) -> Option<Table> {
        let checkpoint = self.newest_checkpoint()?;
        let mut table = checkpoint.table;
        self.log[checkpoint.state.batches..].iter().for_each(|batch| fold(&mut table, batch));
        Some(table)
    }

    /// Returns the chain of the last tombstone of the synced log.
    pub fn view(&self) -> u64 {
        let synced = &self.log[..self.log_synced];
        synced.iter().rev().find(|batch| batch.tombstone().is_some()).map_or(0, |batch| batch.chain)
    }

    /// Returns the keys of the durable records: outbox, log and lost files.
    pub fn durable_keys(&self) -> Keys {
        let own = self.outbox.iter().filter(|own| own.seq <= self.outbox_synced);
        let own = own.fold(0, |keys, own| keys | own.record.content());
        let lost = self.lost.iter().filter(|lost| lost.is_durable).flat_map(|lost| &lost.batches);
        self.log[..self.log_synced].iter().chain(lost).fold(own, |keys, batch| keys | content(batch))
    }

    /// Returns the keys of the events in any file.
    pub fn event_keys(&self) -> Keys {
        let own = self.outbox.iter().map(|own| &own.record);
        let lost = self.lost.iter().chain(&self.lost_new).flat_map(|lost| &lost.batches);
        let records = self.log.iter().chain(lost).flat_map(|batch| &batch.records).chain(own);
        records.filter(|record| record.kind == Kind::Event).fold(0, |keys, record| keys | 1 << record.key)
    }

    /// Returns the erasures of a lost history as erasures of this one. `None` if the history is unknown.
    pub fn resolve(&self, seen: &Seen, state: &State, rules: &Rules) -> Option<Seen> {
        let mut seen = seen.clone();
        if rules.breaks(Rule::SendsLostViews) {
            return Some(seen);
        }
        while state.index(seen.view).is_none() {
            let lost = self.views.iter().find(|lost| lost.view == seen.view)?;
            seen.view = lost.common.view;
            seen.seen_lost.extend(&lost.common.seen_lost);
        }
        Some(seen)
    }
}

pub fn content(batch: &Batch) -> Keys {
    batch.records.iter().fold(0, |keys, record| keys | record.content())
}
