//! The log of the cluster, as a node has it: all records that took effect, in the order of the stream.
//!
//! A start has the state of a checkpoint, and a log that can be longer: its *tail*. The stream gives the tail again. The node
//! compares each of these records with the log, and appends the later ones. If the stream has lost its end, the records
//! differ, and the log is cut before the first other one.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::follow::{OwnLog, OwnRecord};
use super::message::RunRecord;
use super::own_log::OwnRecords;
use super::positions::PositionsFile;
use super::state::StreamState;
use crate::little_endian::array_at;
use crate::log::{LogError, SharedEnd, StreamLog, StreamMark};
use crate::record::{KEY_OFFSET, Record, RecordKind, encoded_records, key_to_bytes};
use crate::storage::disk::Disk;

/// The log of the cluster.
pub struct SharedLog {
    log: StreamLog,
    positions: PositionsFile,
    directory: PathBuf,
    disk: Arc<dyn Disk>,
    /// The records after the state that the log had when the state was loaded.
    tail: OwnRecords,
    /// The seq up to which no kept checkpoint needs records.
    needed: Arc<AtomicU64>,
    /// The end up to which readers of the admin address read.
    end: SharedEnd,
}

/// Own records of which the seq in the log of the cluster is kept. A request waits for 50 ms for its records, so the nodes would
/// have to return 5 million records a second to reach the limit.
const LOG_SEQS_MAX: usize = 1 << 18;

/// The seqs of the newest own records in the log of the cluster, for receipts. A record without effect has none.
#[derive(Default)]
pub(crate) struct LogSeqs(VecDeque<(u64, u64)>);

impl LogSeqs {
    /// Adds the records of an own run, the first of which has this seq in the log of the cluster.
    pub(crate) fn add(&mut self, first_seq: u64, records: &EffectiveRecords) {
        self.0.extend(records.places.iter().map(|(_, own_seq)| *own_seq).zip(first_seq..));
        self.0.drain(..self.0.len().saturating_sub(LOG_SEQS_MAX));
    }

    /// Returns the seq of an own record.
    pub(crate) fn of(&self, own_seq: u64) -> Option<u64> {
        let index = self.0.binary_search_by_key(&own_seq, |(own_seq, _)| *own_seq).ok()?;
        self.0.get(index).map(|(_, seq)| *seq)
    }

    /// Forgets all seqs, before records are sent again.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The records of a message that take effect, as the log has them.
#[derive(Default)]
pub struct EffectiveRecords {
    bytes: Vec<u8>,
    /// The order of each record, and its seq in the log of its sender.
    places: Vec<(u64, u64)>,
}

impl EffectiveRecords {
    /// Adds a record. A run leaves out a key that follows from the record, and the log has it.
    pub fn push(&mut self, record: &RunRecord<'_>, order: u64) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(record.bytes);
        let key = key_to_bytes(record.key, record.record.payload.len() as u32);
        self.bytes[start + KEY_OFFSET..][..key.len()].copy_from_slice(&key);
        self.places.push((order, record.seq));
    }

    pub(crate) fn len(&self) -> u64 {
        self.places.len() as u64
    }

    pub(crate) fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Iterates over the records, with the order and the sender's seq of each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Record<'_>, u64, u64)> {
        let records = encoded_records(&self.bytes).filter_map(Record::decode);
        records.zip(&self.places).map(|((record, _), (order, sender_seq))| (record, *order, *sender_seq))
    }
}

impl SharedLog {
    /// Creates the log of a directory. `needed_seq` is that of the log's consumer.
    pub fn new(
        log: StreamLog,
        positions: PositionsFile,
        directory: &Path,
        disk: Arc<dyn Disk>,
        needed_seq: Arc<AtomicU64>,
    ) -> Self {
        let tail = OwnRecords::new(Arc::clone(&disk), directory, log.last_seq());
        Self {
            log,
            positions,
            directory: directory.to_owned(),
            disk,
            tail,
            needed: needed_seq,
            end: SharedEnd::default(),
        }
    }

    /// Does all timed work of the log that is due, and begins an erasure if one was requested.
    pub fn run_once(&mut self) {
        self.log.run_once();
    }

    /// Returns the time of a monotonic clock at which the next timed work is due.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.log.next_due()
    }

    /// Continues after a state that was loaded: its seq and its last order.
    pub fn on_loaded(&mut self, seq: u64, last_order: u64) {
        self.tail = OwnRecords::new(Arc::clone(&self.disk), &self.directory, self.log.last_seq());
        self.positions.rewind(last_order);
        self.positions.delete_after(seq);
        self.positions.set_returned(seq);
    }

    /// Makes the log have the records of a message, the first of which has this seq. Returns whether it has them. If not, the
    /// disk has failed, and the caller tries again.
    pub fn add(&mut self, first_seq: u64, records: &EffectiveRecords) -> bool {
        let Some(known) = self.compare(first_seq, records) else { return false };
        let known_bytes: usize = encoded_records(&records.bytes).take(known).map(<[u8]>::len).sum();
        let count = records.places.len() - known;
        count == 0 || self.log.append(&records.bytes[known_bytes..], count as u32)
    }

    /// Returns how many of the records the log has, after it has cut off others in the place of the next one. `None` if that
    /// fails.
    fn compare(&mut self, first_seq: u64, records: &EffectiveRecords) -> Option<usize> {
        let last_seq = self.log.last_seq();
        if first_seq > last_seq {
            return Some(0);
        }
        let end_seq = (first_seq + records.len()).min(last_seq + 1);
        if let Err(error) = self.load(first_seq, end_seq - 1) {
            tracing::error!(%error, "cannot read the log to compare it with the stream; reading it again until the disk works");
            return None;
        }
        for (seq, record) in (first_seq..end_seq).zip(encoded_records(&records.bytes)) {
            match self.tail.record(seq) {
                OwnRecord::Encoded(logged) if !is_same(logged, record) => {
                    tracing::warn!(
                        seq,
                        last_seq,
                        "the stream has other records than the log; cutting the log"
                    );
                    let is_cut = self.log.cut_after(seq - 1);
                    self.positions.delete_after(seq - 1);
                    return is_cut.then(|| (seq - first_seq) as usize);
                }
                _ => {}
            }
        }
        Some((end_seq - first_seq) as usize)
    }

    /// Cuts off the records after the seq of a state at the end of the stream: the stream has lost them. Their senders send them
    /// again.
    pub fn end_tail(&mut self, seq: u64) {
        let last_seq = self.log.last_seq();
        if last_seq > seq {
            tracing::warn!(seq, last_seq, "the stream ends before the log; cutting the log");
            self.positions.delete_after(seq);
            // After a failure the next batch begins after the cut.
            let _ = self.log.cut_after(seq);
        }
    }

    fn load(&mut self, first_seq: u64, last_seq: u64) -> Result<(), LogError> {
        let mut next = first_seq;
        while next <= last_seq {
            next = self.tail.load(next, last_seq)?.max(next) + 1;
        }
        Ok(())
    }

    /// Notes the orders of records that were added, and whether one of them made a tie.
    pub fn note_orders(&mut self, first_seq: u64, records: &EffectiveRecords, makes_tie: bool) {
        let orders: Vec<u64> = records.places.iter().map(|(order, _)| *order).collect();
        self.positions.on_records(first_seq, &orders, makes_tie);
        let last_seq = first_seq + records.len() - 1;
        self.tail.forget_through(last_seq);
    }

    /// Makes everything durable that a checkpoint of the present state needs. Returns whether it is.
    pub fn save(&mut self) -> bool {
        let saved = self.positions.save(self.log.first_seq());
        if let Err(error) = &saved {
            tracing::error!(%error, "cannot write the file `positions`; exports and erasures may miss events after a crash; check the disk");
        }
        self.log.sync() && saved.is_ok()
    }

    /// Forgets the records in memory, because an erasure has changed the files.
    pub(crate) fn read_again(&mut self) {
        self.tail.read_again();
    }

    /// Returns the order below which the log has no record. `last_order` is that of the state.
    pub(crate) fn oldest(&self, last_order: u64) -> u64 {
        self.positions.orders().oldest(self.log.first_seq(), last_order)
    }

    /// Returns the end up to which readers read.
    pub(crate) fn end(&self) -> SharedEnd {
        self.end.clone()
    }

    /// Moves the end up to which readers read to a state.
    pub(crate) fn publish_end(&self, state: &StreamState, erased_to: u64) {
        let chain = u32::from_be_bytes(array_at(&state.chain, 0));
        self.end.set(state.seq, StreamMark { chain, erased_to });
    }

    /// Lets retention delete the records up to a seq.
    pub(crate) fn set_needed(&self, seq: u64) {
        self.needed.store(seq, Ordering::Relaxed);
    }
}

/// Returns whether the log has a record as the stream gives it. An erasure may have changed either.
fn is_same(logged: &[u8], record: &[u8]) -> bool {
    if logged == record {
        return true;
    }
    let Some((ours, theirs)) = Record::decode(logged).zip(Record::decode(record)) else { return false };
    let records = [ours.0, theirs.0];
    let is_void = records.iter().any(|record| record.kind == RecordKind::Void);
    let is_erased =
        records.iter().any(|record| record.is_redacted) || (is_void && logged.len() == record.len());
    is_erased && records[0].received_ms == records[1].received_ms
}
