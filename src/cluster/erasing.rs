//! The thread `erasure` of a node: carries out the erasures that the stream orders, one after the other, and appends tombstones.
//!
//! The fold removes the profiles when it processes a tombstone. Then the thread makes the own records of the visitor void, and replaces the
//! checkpoints that have the visitor. The node sends no record until the thread is done.
//!
//! The file `erased` of the directory has the IDs of the last erasures that it has done, 32 hex digits in each line.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::audit::Erasure;
use super::erase::ErasedRecord;
use super::erase_limits::{DoneErasures, while_busy};
use super::message::dedup_key;
use super::old_records;
use super::positions::Orders;
use super::seal::{self, SealKey};
use crate::ids;
use crate::storage;
use crate::visitors::erasure::{Eraser, ErasureError};
use crate::visitors::log::Erasure as StartingErasure;
use crate::visitors::log::{
    ClusterTombstone, EraseError, EraseRule, ErasureSummary, Record, Tombstone, Treatment,
};
use crate::visitors::ownership::{OrderOf, OwnershipRule};

/// Pause after an erasure that failed, and between two attempts while another erasure runs.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Name of the file.
const ERASED_FILE: &str = "erased";

/// An erasure of the stream, with the own records at the moment when the node processed it.
#[derive(Debug, Clone)]
pub(crate) struct ErasureTask {
    pub(crate) erasure: Erasure,
    /// The last own record that can be the erased visitor's. Later ones belong to a new visitor.
    pub(crate) last_seq: u64,
    /// The last own record that had returned. Later ones count as received before the tombstone.
    pub(crate) returned: u64,
}

/// A command of the node.
pub(crate) enum ErasureCommand {
    Erase(ErasureTask),
    /// A record of the erased visitor took effect after the tombstone, so the visitor is erased again.
    Again(Erasure),
    /// The own records before a seq become void.
    VoidBefore(u64),
}

/// A command that is done.
pub(crate) enum ErasureDone {
    /// With the erased records that had not returned.
    Erased(ErasureTask, Vec<ErasedRecord<Erasure>>),
    VoidBefore(u64),
}

/// The own records of a visitor that are void: their numbers, and those that had not returned.
type VoidRecords = (ErasureSummary, Vec<ErasedRecord<Erasure>>);

/// The progress of erasures, for the request that waits for one.
#[derive(Clone, Default)]
pub(crate) struct ErasureProgress(Arc<(Mutex<ProgressState>, Condvar)>);

#[derive(Default)]
struct ProgressState {
    /// The erasures that this node has done, with their orders.
    done: DoneErasures<(u64, ErasureSummary)>,
    /// The erasures of the state, with the names of the nodes that have not confirmed.
    pending: HashMap<u128, Vec<String>>,
}

impl ErasureProgress {
    fn change(&self, change: impl FnOnce(&mut ProgressState)) {
        change(&mut self.0.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.1.notify_all();
    }

    /// Sets the erasures that a known node has not confirmed.
    pub(crate) fn set_pending(&self, pending: HashMap<u128, Vec<String>>) {
        self.change(|state| state.pending = pending);
    }

    /// Adds a result. A request of this node reads it within seconds, and the results of the other nodes' erasures are not read.
    fn add_done(&self, erasure: &Erasure, summary: ErasureSummary) {
        self.change(|state| state.done.push(erasure.id, (erasure.order, summary)));
    }

    /// Waits until this node has done an erasure. Returns its order and its results. `None` after the time limit.
    pub(crate) fn wait_done(&self, id: u128, limit: Duration) -> Option<(u64, ErasureSummary)> {
        let state = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.1.wait_timeout_while(state, limit, |state| state.done.get(id).is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.done.get(id).copied()
    }

    /// Waits until all nodes have confirmed an erasure. Returns the names of the others after the time limit.
    pub(crate) fn wait_confirmed(&self, id: u128, limit: Duration) -> Vec<String> {
        let state = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.1.wait_timeout_while(state, limit, |state| state.pending.contains_key(&id));
        waited.unwrap_or_else(PoisonError::into_inner).0.pending.get(&id).cloned().unwrap_or_default()
    }
}

/// The node's end of the thread.
pub(crate) struct ErasureLink {
    pub(crate) commands: Sender<ErasureCommand>,
    pub(crate) done: Receiver<ErasureDone>,
    pub(crate) progress: ErasureProgress,
}

/// The thread's end.
pub(crate) struct ErasureThread {
    commands: Receiver<ErasureCommand>,
    done: Sender<ErasureDone>,
    progress: ErasureProgress,
    seal: SealKey,
    orders: Orders,
    directory: PathBuf,
}

/// Creates both ends.
pub(crate) fn link(seal: SealKey, orders: Orders, directory: PathBuf) -> (ErasureLink, ErasureThread) {
    let ((commands, received), (sender, done)) = (channel(), channel());
    let progress = ErasureProgress::default();
    let link = ErasureLink { commands, done, progress: progress.clone() };
    (link, ErasureThread { commands: received, done: sender, progress, seal, orders, directory })
}

/// Reads the IDs of the erasures that a directory has done.
pub(crate) fn read_done(directory: &Path) -> DoneErasures<()> {
    DoneErasures::from_text(&fs::read_to_string(directory.join(ERASED_FILE)).unwrap_or_default())
}

impl ErasureThread {
    /// Runs on a thread of its own until the node is gone.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub(crate) fn spawn(self, eraser: Eraser) -> std::io::Result<()> {
        thread::Builder::new().name("erasure".to_owned()).spawn(move || self.run(&eraser)).map(drop)
    }

    fn run(self, eraser: &Eraser) {
        let mut all_done = read_done(&self.directory);
        while let Ok(first) = self.commands.recv() {
            let mut erased = Vec::new();
            for command in std::iter::once(first).chain(self.commands.try_iter()) {
                match command {
                    ErasureCommand::Erase(task) => {
                        let void = until_done(|| self.erase(eraser, &task));
                        erased.push((task, void));
                    }
                    ErasureCommand::Again(erasure) => self.erase_again(eraser, &erasure),
                    ErasureCommand::VoidBefore(seq) => {
                        self.send_done(eraser, until_done(|| old_records::void_before(eraser, seq)));
                    }
                }
            }
            if !erased.is_empty() {
                self.finish(eraser, erased, &mut all_done);
            }
        }
    }

    /// Replaces the checkpoints that have the visitors of some erasures. A node that is restored from a backup can have many of them.
    fn finish(
        &self,
        eraser: &Eraser,
        erased: Vec<(ErasureTask, VoidRecords)>,
        all_done: &mut DoneErasures<()>,
    ) {
        until_done(|| eraser.wait_for(eraser.checkpoints.request_replacement()));
        erased.iter().for_each(|(task, _)| all_done.push(task.erasure.id, ()));
        self.write_done(all_done);
        for (task, (summary, under_way)) in erased {
            let ErasureSummary { records, redacted, segments, .. } = summary;
            tracing::info!(order = task.erasure.order, records, redacted, segments, "erased a visitor");
            self.progress.add_done(&task.erasure, summary);
            self.send_done(eraser, ErasureDone::Erased(task, under_way));
        }
    }

    fn send_done(&self, eraser: &Eraser, done: ErasureDone) {
        // Without the node the process ends.
        let _ = self.done.send(done);
        eraser.log.wake_writer();
    }

    fn write_done(&self, done: &DoneErasures<()>) {
        let path = self.directory.join(ERASED_FILE);
        if let Err(error) = storage::write_atomic(&path, done.to_text().as_bytes()) {
            tracing::error!(path = %path.display(), %error, "cannot note an erasure; the next start repeats it");
        }
    }

    /// Makes the own records of the visitor void.
    fn erase(&self, eraser: &Eraser, task: &ErasureTask) -> Result<VoidRecords, ErasureError> {
        let erasure = &task.erasure;
        let Some(owner) = seal::owner(&erasure.payload) else { return Ok(Default::default()) };
        let started = eraser.log.seal_for_erasure()?.begin()?;
        let ownership = eraser.source.open()?.with_orders(self.orders_of(task));
        let hashes = seal::open(&self.seal, erasure.id, &erasure.payload).unwrap_or_default().hashes;
        let tombstone = Tombstone { site: erasure.site.clone(), owner, seq: erasure.order };
        let hashes = Some(&*hashes).filter(|hashes| !hashes.is_empty());
        let visitor = ownership.erased_visitor(&tombstone, hashes)?;
        let rule = OwnershipRule::new(&ownership, vec![visitor]);
        let mut rule = RuleOfTask { rule, task, under_way: Vec::new() };
        let summary = started.rewrite(&mut rule).map_err(EraseError::from)?;
        let RuleOfTask { rule, under_way, .. } = rule;
        rule.into_error().map_or(Ok(()), Err)?;
        Ok((summary, under_way))
    }

    /// Returns the orders of the own records, as of the tombstone of a task.
    fn orders_of(&self, task: &ErasureTask) -> OrderOf {
        let (orders, before) = (self.orders.clone(), task.erasure.order.saturating_sub(1));
        let (last_seq, returned) = (task.last_seq, task.returned);
        Arc::new(move |seq| match seq {
            _ if seq > last_seq => u64::MAX - 1,
            _ if seq > returned => before,
            _ => orders.order_of(seq),
        })
    }

    /// Appends another tombstone of the visitor of an erasure.
    fn erase_again(&self, eraser: &Eraser, erasure: &Erasure) {
        let key = random_id();
        let payload = seal::payload_again(&self.seal, (erasure.id, &erasure.payload), key);
        let Some(payload) = payload else { return };
        let tombstone = ClusterTombstone { site: erasure.site.clone(), key, payload };
        match append(eraser, || eraser.log.append_tombstones(None, vec![tombstone.clone()])) {
            Ok(_) => tracing::info!(
                "a record was under way during the erasure of its visitor; erasing the visitor again"
            ),
            Err(error) => {
                tracing::error!(%error, "cannot erase a visitor again whose record was under way; repeat the erasure")
            }
        }
    }
}

/// Calls `attempt` until it succeeds.
fn until_done<T>(mut attempt: impl FnMut() -> Result<T, ErasureError>) -> T {
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(ErasureError::Log(EraseError::Busy)) => {}
            Err(error) => {
                tracing::error!(%error, "cannot erase yet; no event is sent until a visitor is erased");
            }
        }
        thread::sleep(RETRY_PAUSE);
    }
}

/// Calls `send` until no other erasure runs. Returns the seq after the tombstones.
pub(crate) fn append(
    eraser: &Eraser,
    send: impl Fn() -> Result<StartingErasure, EraseError>,
) -> Result<u64, EraseError> {
    let pause = || thread::sleep(RETRY_PAUSE);
    let next_seq = while_busy(pause, || Ok(send().and_then(StartingErasure::begin)?.next_seq()))?;
    eraser.log.wake_writer();
    Ok(next_seq)
}

/// Returns a random erasure ID. It is not 0, because a record with the key 0 is never a duplicate.
pub(crate) fn random_id() -> u128 {
    (u128::from(ids::random_u64()) << 64 | u128::from(ids::random_u64())) | 1
}

/// The rule of an erasure. It collects the records that become void and have not returned.
struct RuleOfTask<'a> {
    rule: OwnershipRule<'a>,
    task: &'a ErasureTask,
    under_way: Vec<ErasedRecord<Erasure>>,
}

impl EraseRule for RuleOfTask<'_> {
    fn may_match(&self, filter: &[u8]) -> bool {
        self.rule.may_match(filter)
    }

    fn may_name(&self, hash: u64) -> bool {
        self.rule.may_name(hash)
    }

    fn treatment(&mut self, seq: u64, record: &Record<'_>) -> Treatment {
        let treatment = self.rule.treatment(seq, record);
        let is_new = self.under_way.last().is_none_or(|last| last.seq < seq);
        if treatment == Treatment::Void && seq > self.task.returned && is_new {
            let owner = self.task.erasure.clone();
            self.under_way.push(ErasedRecord { seq, key: dedup_key(record), owner });
        }
        treatment
    }

    fn names_visitor(&mut self, record: &Record<'_>) -> bool {
        self.rule.names_visitor(record)
    }
}
