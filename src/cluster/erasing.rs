//! The thread `erasure` of a node: carries out the erasures that the stream orders, one after the other, and
//! appends tombstones.
//!
//! The fold removes the profiles when it processes a tombstone. Then the thread makes the own records of the
//! visitor void, and replaces the checkpoints that have the visitor. The node sends no record until the
//! thread is done.
//!
//! The thread writes the file `erased` ([`super::erased_file`]). It reads the own records that have not
//! returned before it makes any void, and notes those of the visitor.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use super::erase::{ErasedRecord, ErasureNote, NotedErasures};
use super::erase_limits::while_busy;
use super::erased_file::{self, ERASED_FILE};
use super::erasure_progress::ErasureProgress;
use super::message::dedup_key;
use super::nodes::Erasure;
use super::old_records;
use super::positions::Orders;
use super::seal::{self, SealKey};
use crate::ids;
use crate::log::Erasure as StartingErasure;
use crate::log::{ClusterTombstone, EraseError, ErasureSummary, LogError, LogItem, LogReader, Tombstone};
use crate::record::Record;
use crate::storage;
use crate::threads;
use crate::visitors::erasure::{Eraser, ErasureError};
use crate::visitors::ownership::{OrderOf, Ownership, OwnershipError, OwnershipRule, Relation, Visitor};

/// Pause after an erasure that failed, and between two attempts while another erasure runs.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// An erasure of the stream, with the own records at the moment when the node processed it.
#[derive(Debug, Clone)]
pub(crate) struct ErasureTask {
    pub(crate) erasure: Erasure,
    /// The last own record that can be the erased visitor's. Later ones belong to a new visitor.
    pub(crate) last_seq: u64,
    /// The last own record that had returned. Later ones count as received before the tombstone.
    pub(crate) returned: u64,
    /// Erased records after this seq can take effect after the tombstone: those that had not returned, or all
    /// if the node has not read it.
    pub(crate) noted_after: u64,
    /// When the tombstone was recorded, and the clock of the state at this moment.
    pub(crate) tombstone_ms: i64,
    pub(crate) clock_ms: i64,
    /// True if the file `erased` has the erasure: a crash has interrupted it.
    pub(crate) is_repeated: bool,
}

impl ErasureTask {
    /// Creates the task of an erasure whose tombstone the node has read. `clock_ms` is that of the state.
    pub(crate) fn new(erasure: Erasure, (last_seq, returned_seq): (u64, u64), clock_ms: i64) -> Self {
        let (noted_after, tombstone_ms) = (returned_seq, erasure.erased_ms);
        Self {
            erasure,
            last_seq,
            returned: returned_seq,
            noted_after,
            tombstone_ms,
            clock_ms,
            is_repeated: false,
        }
    }

    /// Returns the note of the erasure when it begins.
    pub(crate) fn note(&self) -> ErasureNote<Erasure> {
        let (id, owner) = (self.erasure.id, Some(self.erasure.clone()));
        let (last_seq, returned, tombstone_ms) = (self.last_seq, self.returned, self.tombstone_ms);
        ErasureNote {
            id,
            last_seq,
            returned,
            tombstone_ms,
            is_done: false,
            has_too_many_records: false,
            owner,
        }
    }
}

/// A command of the node.
pub(crate) enum ErasureCommand {
    Erase(ErasureTask),
    /// Make the records of a visitor void in the log of the cluster only. Its files can be those of another directory, from before
    /// an erasure that is done in the own log.
    EraseShared(Erasure),
    /// Records of the erased visitor with these keys took effect after the tombstone, so the visitor is erased again.
    Again(Erasure, Vec<u128>),
    /// An own record that the log does not have took effect after these tombstones. Its owner may be one of
    /// the visitors.
    Absent {
        erasures: Vec<Erasure>,
        seq: u64,
        record: Vec<u8>,
    },
    /// The own records up to this seq have returned, at this time of the state's clock.
    Forget(u64, i64),
    /// The own records before a seq become void.
    VoidBefore(u64),
}

/// A command that is done.
pub(crate) enum ErasureDone {
    Erased(ErasedVisitor),
    /// The erasures with these IDs.
    ErasedShared(Vec<u128>),
    VoidBefore(u64),
}

/// An erasure that is done.
pub(crate) struct ErasedVisitor {
    pub(crate) task: ErasureTask,
    summary: ErasureSummary,
    /// The erased records that can take effect after the tombstone.
    pub(crate) under_way: Vec<ErasedRecord>,
}

/// The node's end of the thread.
pub(crate) struct ErasureLink {
    pub(crate) commands: Sender<ErasureCommand>,
    pub(crate) done: Receiver<ErasureDone>,
    pub(crate) progress: ErasureProgress,
}

/// The two logs of a node, whose records an erasure makes void.
pub(crate) struct NodeErasers {
    /// That of the own records.
    pub(crate) own: Eraser,
    /// That of the log of the cluster.
    pub(crate) shared: Eraser,
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
pub(crate) fn link(seal_key: SealKey, orders: Orders, directory: PathBuf) -> (ErasureLink, ErasureThread) {
    let ((commands, received), (sender, done)) = (channel(), channel());
    let progress = ErasureProgress::default();
    let link = ErasureLink { commands, done, progress: progress.clone() };
    (link, ErasureThread { commands: received, done: sender, progress, seal: seal_key, orders, directory })
}

/// Reads the file `erased` of a directory.
pub(crate) fn read_erased(directory: &Path) -> NotedErasures<Erasure> {
    erased_file::from_text(&fs::read_to_string(directory.join(ERASED_FILE)).unwrap_or_default())
}

impl ErasureThread {
    /// Runs on a thread of its own until the node is gone.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub(crate) fn spawn(self, erasers: NodeErasers) -> std::io::Result<()> {
        threads::spawn("erasure", move || self.run(&erasers)).map(drop)
    }

    fn run(self, erasers: &NodeErasers) {
        let eraser = &erasers.own;
        let mut noted = read_erased(&self.directory);
        while let Ok(first) = self.commands.recv() {
            let (mut erased, mut of_shared, mut returned) = (Vec::new(), Vec::new(), None);
            for command in std::iter::once(first).chain(self.commands.try_iter()) {
                match command {
                    ErasureCommand::Erase(task) => erased.push(self.make_void(erasers, &mut noted, task)),
                    ErasureCommand::EraseShared(erasure) => of_shared.push(erasure),
                    // An erasure of this turn is not noted as done before its records are in the file.
                    ErasureCommand::Forget(seq, clock_ms) => returned = Some((seq, clock_ms)),
                    ErasureCommand::Again(erasure, keys) => {
                        if self.erase_again(eraser, &erasure) {
                            noted.remove(&keys);
                            self.write_noted(&noted);
                        }
                    }
                    ErasureCommand::Absent { erasures, seq, record } => {
                        self.erase_absent(eraser, &erasures, (seq, &record));
                    }
                    ErasureCommand::VoidBefore(seq) => {
                        self.send_done(eraser, until_done(|| old_records::void_before(eraser, seq)));
                    }
                }
            }
            if !erased.is_empty() {
                self.finish(eraser, erased, &mut noted);
            }
            if !of_shared.is_empty() {
                self.finish_shared(&erasers.shared, &of_shared);
            }
            if let Some((seq, clock_ms)) = returned
                && noted.forget_returned(seq, clock_ms)
            {
                self.write_noted(&noted);
            }
        }
    }

    /// Makes the records of a visitor void, in the own log and in that of the cluster.
    fn make_void(
        &self,
        erasers: &NodeErasers,
        noted_erasures: &mut NotedErasures<Erasure>,
        task: ErasureTask,
    ) -> ErasedVisitor {
        let id = task.erasure.id;
        let NodeErasers { own: eraser, shared } = erasers;
        until_done(|| self.erase_own(eraser, noted_erasures, &task));
        let summary = until_done(|| self.erase_shared(shared, std::slice::from_ref(&task.erasure)));
        if noted_erasures.get(id).is_some_and(|note| note.has_too_many_records) {
            tracing::warn!("too many records were under way during an erasure; erasing the visitor again");
            self.erase_again(eraser, &task.erasure);
        }
        ErasedVisitor { summary, under_way: noted_erasures.records_of(id).collect(), task }
    }

    /// Replaces the checkpoints that have the visitors of some erasures. A node that is restored from a
    /// backup can have many of them.
    fn finish(
        &self,
        eraser: &Eraser,
        erased_visitors: Vec<ErasedVisitor>,
        noted_erasures: &mut NotedErasures<Erasure>,
    ) {
        until_done(|| eraser.wait_for(eraser.checkpoints.request_replacement()));
        erased_visitors.iter().for_each(|visitor| noted_erasures.finish(visitor.task.erasure.id));
        self.write_noted(noted_erasures);
        for visitor in erased_visitors {
            let ErasureSummary { records, redacted, segments, .. } = visitor.summary;
            let erasure = &visitor.task.erasure;
            tracing::info!(order = erasure.order, records, redacted, segments, "erased a visitor");
            self.progress.add_done(erasure, visitor.summary);
            self.send_done(eraser, ErasureDone::Erased(visitor));
        }
    }

    /// Makes the records of several visitors void in the log of the cluster, in one pass.
    fn finish_shared(&self, eraser: &Eraser, erasures: &[Erasure]) {
        let summary = until_done(|| self.erase_shared(eraser, erasures));
        if summary.segments > 0 {
            let ErasureSummary { records, redacted, segments, .. } = summary;
            tracing::warn!(
                records,
                redacted,
                segments,
                "the log had records of erased visitors; erased them again"
            );
            until_done(|| eraser.wait_for(eraser.checkpoints.request_replacement()));
        }
        self.send_done(
            eraser,
            ErasureDone::ErasedShared(erasures.iter().map(|erasure| erasure.id).collect()),
        );
    }

    fn send_done(&self, eraser: &Eraser, erasure_done: ErasureDone) {
        // Without the node the process ends.
        let _ = self.done.send(erasure_done);
        eraser.log.wake_writer();
    }

    fn write(&self, noted_erasures: &NotedErasures<Erasure>) -> std::io::Result<()> {
        storage::write_data_file(
            &self.directory.join(ERASED_FILE),
            erased_file::to_text(noted_erasures).as_bytes(),
        )
    }

    fn write_noted(&self, noted_erasures: &NotedErasures<Erasure>) {
        if let Err(error) = self.write(noted_erasures) {
            let path = self.directory.join(ERASED_FILE);
            tracing::error!(path = %path.display(), %error, "cannot note an erasure; the next start repeats it");
        }
    }

    /// Makes the own records of the visitor void. Before the first one, the note of the erasure is durable.
    fn erase_own(
        &self,
        eraser: &Eraser,
        noted_erasures: &mut NotedErasures<Erasure>,
        task: &ErasureTask,
    ) -> Result<(), ErasureError> {
        let started = eraser.log.seal_for_erasure()?.begin()?;
        let ownership = eraser.source.open()?.with_orders(self.orders_of(task));
        let Some(mut rule) = self.rule(&ownership, &task.erasure)? else { return Ok(()) };
        if noted_erasures.get(task.erasure.id).is_none() {
            let records = self.under_way(eraser, &mut rule, task)?;
            self.note(noted_erasures, task, &records).map_err(EraseError::from)?;
        }
        started.rewrite(&mut rule).map_err(EraseError::from)?;
        Ok(rule.into_error().map_or(Ok(()), Err)?)
    }

    /// Makes the records of the visitors void in the log of the cluster.
    fn erase_shared(&self, eraser: &Eraser, erasures: &[Erasure]) -> Result<ErasureSummary, ErasureError> {
        let started = eraser.log.seal_for_erasure()?.begin()?;
        let ownership = eraser.source.open()?;
        let visitors = erasures.iter().filter_map(|erasure| self.visitor(&ownership, erasure).transpose());
        let visitors = visitors.collect::<Result<Vec<_>, _>>()?;
        if visitors.is_empty() {
            return Ok(ErasureSummary::default());
        }
        let mut rule = OwnershipRule::new(&ownership, visitors);
        let summary = started.rewrite(&mut rule).map_err(EraseError::from)?;
        rule.into_error().map_or(Ok(()), Err)?;
        Ok(summary)
    }

    /// Reads the own records that can take effect after the tombstone. Returns those that an erasure makes void.
    fn under_way(
        &self,
        eraser: &Eraser,
        rule: &mut OwnershipRule<'_>,
        task: &ErasureTask,
    ) -> Result<Vec<ErasedRecord>, ErasureError> {
        let mut erased = Vec::new();
        let reader = LogReader::open(Arc::clone(&eraser.source.disk), &self.directory, task.noted_after);
        let reader =
            reader.map_err(EraseError::from)?.with_known_damage(eraser.log.metrics().damage().clone());
        let mut reader = reader.with_durable_seq(task.last_seq).with_filter(rule.segment_filter());
        while let Some(item) = reader.read_next().map_err(EraseError::from)? {
            let LogItem::Records(records) = item else { continue };
            for (seq, record) in records.iter().filter(|(seq, _)| *seq <= task.last_seq) {
                if rule.relation(seq, &record)? == Relation::Owned {
                    erased.push(ErasedRecord { seq, key: dedup_key(&record) });
                }
            }
        }
        Ok(erased)
    }

    /// Writes the note of an erasure that begins.
    fn note(
        &self,
        noted_erasures: &mut NotedErasures<Erasure>,
        task: &ErasureTask,
        records: &[ErasedRecord],
    ) -> Result<(), LogError> {
        let mut with_note = noted_erasures.clone();
        with_note.add(task.note(), records);
        self.write(&with_note).map_err(|error| LogError::io(&self.directory.join(ERASED_FILE), error))?;
        *noted_erasures = with_note;
        Ok(())
    }

    /// Returns the rule that finds the records of an erased visitor. `None` if the tombstone names no owner.
    fn rule<'a>(
        &self,
        ownership: &'a Ownership,
        erasure: &Erasure,
    ) -> Result<Option<OwnershipRule<'a>>, OwnershipError> {
        let visitor = self.visitor(ownership, erasure)?;
        Ok(visitor.map(|visitor| OwnershipRule::new(ownership, vec![visitor])))
    }

    /// Returns an erased visitor. `None` if the tombstone names no owner.
    fn visitor(&self, ownership: &Ownership, erasure: &Erasure) -> Result<Option<Visitor>, OwnershipError> {
        let Some(owner) = seal::owner(&erasure.payload) else { return Ok(None) };
        let hashes = seal::open(&self.seal, erasure.id, &erasure.payload).unwrap_or_default().hashes;
        let tombstone =
            Tombstone { site: erasure.site.clone(), owner, named: Vec::new(), seq: erasure.order };
        let hashes = Some(&*hashes).filter(|hashes| !hashes.is_empty());
        ownership.erased_visitor(&tombstone, hashes).map(Some)
    }

    /// Finds the owner of an own record that the log does not have, and erases this visitor again.
    fn erase_absent(&self, eraser: &Eraser, erasures: &[Erasure], (seq, encoded_record): (u64, &[u8])) {
        let Some((record, _)) = Record::decode(encoded_record) else { return };
        for erasure in erasures {
            match self.is_owner(eraser, erasure, (seq, &record)) {
                Ok(true) => {
                    self.erase_again(eraser, erasure);
                    return;
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::error!(%error, seq, "cannot find the owner of a damaged or lost record that has returned; repeat the erasures of the last minute");
                }
            }
        }
    }

    /// Returns whether the visitor of an erasure owned a record before the tombstone.
    fn is_owner(
        &self,
        eraser: &Eraser,
        erasure: &Erasure,
        (seq, record): (u64, &Record<'_>),
    ) -> Result<bool, OwnershipError> {
        let before = erasure.order.saturating_sub(1);
        let ownership = eraser.source.open()?.with_orders(Arc::new(move |_| before));
        let Some(mut rule) = self.rule(&ownership, erasure)? else { return Ok(false) };
        Ok(rule.relation(seq, record)? == Relation::Owned)
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

    /// Appends another tombstone of the visitor of an erasure. Returns whether it is durable.
    fn erase_again(&self, eraser: &Eraser, erasure: &Erasure) -> bool {
        let key = random_id();
        let payload = seal::payload_again(&self.seal, erasure.id, &erasure.payload, key);
        let Some(payload) = payload else { return false };
        let tombstone = ClusterTombstone { site: erasure.site.clone(), key, payload };
        match append(eraser, || eraser.log.append_tombstones(None, vec![tombstone.clone()])) {
            Ok(_) => {
                tracing::info!(
                    "a record was under way during the erasure of its visitor; erasing the visitor again"
                );
                true
            }
            Err(error) => {
                tracing::error!(%error, "cannot erase a visitor again whose record was under way; repeat the erasure");
                false
            }
        }
    }
}

/// Calls `attempt` until it succeeds.
fn until_done<T>(mut attempt: impl FnMut() -> Result<T, ErasureError>) -> T {
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(ErasureError::Log(EraseError::Busy | EraseError::BackupRuns)) => {}
            Err(error) => {
                tracing::error!(%error, "cannot erase yet; the node sends nothing until it is done");
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
    // On the threads that erase. The log does not tell when another erasure ends.
    let pause = || thread::sleep(RETRY_PAUSE);
    let next_seq = while_busy(pause, || Ok(send().and_then(StartingErasure::begin)?.next_seq()))?;
    eraser.log.wake_writer();
    Ok(next_seq)
}

/// Returns a random erasure ID. It is not 0, because a record with the key 0 is never a duplicate.
pub(crate) fn random_id() -> u128 {
    (u128::from(ids::random_u64()) << 64 | u128::from(ids::random_u64())) | 1
}
