//! X2: a node keeps the batches of a lost end in a file and removes them from its log, step by step.

use super::{Around, Node, Phase};
use crate::disk::{Disk, Lost, LostView};
use crate::record::{Batch, Key, Seen};
use crate::rules::{Rule, Rules};

/// The next step of a cut. A crash can come before each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    SyncLog,
    WriteViews,
    WriteFile,
    Rename,
    SyncDirectory,
    LowerErased,
    DeleteCheckpoints,
    CutLog,
    Load,
}

/// A cut in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The index of the first lost batch in the log.
    pub index: usize,
    pub step: Step,
}

impl Cut {
    /// Returns the cut that a start continues.
    pub fn continued(index: usize) -> Self {
        Self { index, step: Step::LowerErased }
    }
}

impl Node {
    /// Begins the cut of a lost end.
    pub fn begin_cut(&mut self, index: usize, around: &mut Around<'_>) {
        let Some(running) = &mut self.running else { return };
        let lost = &self.disk.log[index..];
        trace!("{}: has lost {} batches from index {index} on", self.name, lost.len());
        let counts = &mut around.facts.counts;
        counts.cuts += 1;
        counts.cuts_of_tombstone += u64::from(lost.iter().any(|batch| batch.tombstone().is_some()));
        let is_erased = |seq: u32| seq <= self.disk.erased;
        counts.cuts_of_erasure +=
            u64::from(lost.iter().any(|batch| batch.tombstone().is_some() && is_erased(batch.seq)));
        counts.cuts_beside += u64::from(!self.disk.lost.is_empty());
        running.is_caught_up = false;
        running.erasing = None;
        let step = match around.rules.broken {
            Rule::NeverRecovers => Step::LowerErased,
            Rule::LostBeforeSync => Step::WriteViews,
            _ => Step::SyncLog,
        };
        running.phase = Phase::Cuts(Cut { index, step });
    }

    /// Does one step of a cut.
    pub fn cut(&mut self, cut: Cut, around: &mut Around<'_>) {
        trace!("{}: cut from index {}, {:?}", self.name, cut.index, cut.step);
        let disk = &mut self.disk;
        let next = match cut.step {
            Step::SyncLog => {
                disk.sync_log();
                Step::WriteViews
            }
            Step::WriteViews => {
                write_views(disk, cut.index);
                Step::WriteFile
            }
            Step::WriteFile => {
                self.write_file(cut.index);
                Step::Rename
            }
            Step::Rename => {
                rename(disk, around.rules);
                if around.rules.breaks(Rule::CutsBeforeRename) {
                    Step::LowerErased
                } else {
                    Step::SyncDirectory
                }
            }
            Step::SyncDirectory => {
                disk.lost.iter_mut().for_each(|lost| lost.is_durable = true);
                Step::LowerErased
            }
            Step::LowerErased => {
                let end = disk.log.get(cut.index).map_or(disk.end_seq(), |batch| batch.seq);
                if !around.rules.breaks(Rule::KeepsErased) {
                    disk.erased = disk.erased.min(end - 1);
                }
                if around.rules.breaks(Rule::CutsBeforeCheckpoints) {
                    Step::CutLog
                } else {
                    Step::DeleteCheckpoints
                }
            }
            Step::DeleteCheckpoints => {
                let end = if around.rules.breaks(Rule::DeletesAllCheckpoints) { 0 } else { cut.index };
                disk.checkpoints.retain(|checkpoint| checkpoint.state.batches <= end);
                if disk.log.len() > cut.index { Step::CutLog } else { Step::Load }
            }
            Step::CutLog => {
                disk.log.truncate(disk.log.len().saturating_sub(1).max(cut.index));
                disk.sync_log();
                match (disk.log.len() > cut.index, around.rules.breaks(Rule::CutsBeforeCheckpoints)) {
                    (true, _) => Step::CutLog,
                    (_, true) => Step::DeleteCheckpoints,
                    (_, false) => Step::Load,
                }
            }
            Step::Load => return self.load(around),
        };
        if let Some(running) = &mut self.running {
            running.phase = Phase::Cuts(Cut { step: next, ..cut });
        }
    }

    /// Writes `lost/R.new`.
    fn write_file(&mut self, index: usize) {
        let present = self.running.as_ref().map_or(0, |running| running.view);
        let view = self.disk.lost.last().map_or(present, |lost| lost.view);
        let file = lost_file(&self.disk, index, view);
        self.disk.lost_new.retain(|lost| lost.name() != file.name());
        self.disk.lost_new.push(file);
    }

    /// Loads table and state from the newest checkpoint, and follows again.
    fn load(&mut self, around: &mut Around<'_>) {
        let Some(running) = &mut self.running else { return };
        let (Some(checkpoint), Some(table)) = (self.disk.newest_checkpoint(), self.disk.load_table()) else {
            // A start finds this when it continues a cut, and the stream has lost more.
            return self.stop(around);
        };
        running.state = self.disk.load_state(checkpoint, around.rules);
        running.table = table;
        running.durable_next.clear();
        running.phase = Phase::Follows;
    }
}

/// Renames `lost/R.new`, if there is no `lost/R` yet.
fn rename(disk: &mut Disk, rules: &Rules) {
    let file = disk.lost_new.pop().expect("it was written");
    match rules.broken {
        Rule::OverwritesLostFile => disk.lost.clear(),
        Rule::RewritesLostFile => disk.lost.retain(|lost| lost.name() != file.name()),
        _ => (),
    }
    if disk.lost.iter().all(|lost| lost.name() != file.name()) {
        disk.lost.push(file);
    }
}

/// Returns the view of the log before a batch.
fn common_view(disk: &Disk, index: usize) -> Seen {
    let is_tombstone = |batch: &&Batch| batch.tombstone().is_some();
    let view = disk.log[..index].iter().rev().find(is_tombstone).map_or(0, |batch| batch.chain);
    Seen { view, ..Seen::default() }
}

fn write_views(disk: &mut Disk, index: usize) {
    let common = common_view(disk, index);
    let mut seen_lost: Vec<Key> = Vec::new();
    for batch in &disk.log[index..] {
        let Some(tombstone) = batch.tombstone() else { continue };
        seen_lost.push(tombstone.key);
        disk.views.retain(|lost| lost.view != batch.chain);
        disk.views.push(LostView {
            view: batch.chain,
            common: Seen { seen_lost: seen_lost.clone(), ..common.clone() },
        });
    }
}

fn lost_file(disk: &Disk, index: usize, view: u64) -> Lost {
    let before = index.checked_sub(1).map(|before| &disk.log[before]);
    let common = Seen { position: before.map_or(0, |batch| batch.position), ..common_view(disk, index) };
    Lost {
        index,
        batches: disk.log[index..].to_vec(),
        before: before.map(Batch::id),
        common,
        view,
        is_durable: false,
    }
}
