//! The simulated disk of a node: a log with a torn tail, the file `producer`, checkpoints.

use parallax::testing::cluster::era::Era;
use parallax::testing::cluster::erase::{ErasedRecord, ErasedUnderWay};
use parallax::testing::cluster::follow::OwnLog;
use parallax::testing::cluster::message::dedup_key;
use parallax::testing::cluster::producer::Producer;
use parallax::testing::cluster::state::{SavedState, StreamState};
use parallax::testing::visitors::log::{LogId, Record};

use crate::base::Base;
use crate::event::{Event, void};
use crate::stream::Message;

/// Checkpoints that a disk keeps.
const CHECKPOINTS_KEPT: usize = 3;

/// A record of the log.
#[derive(Clone)]
pub struct Entry {
    pub event: u32,
    /// The erased anonymous ID of a tombstone, or the ID of another record, unless it is void.
    pub anon: Option<u8>,
    /// `None`: damaged.
    pub bytes: Option<Vec<u8>>,
    pub written_ms: i64,
}

/// A checkpoint: the state and the table at one position.
#[derive(Clone)]
pub struct Checkpoint {
    pub state: SavedState,
    pub base: Base,
}

impl Checkpoint {
    /// Returns the state and an empty table at the beginning of an era.
    pub fn founding(era: Era, message: &Message, has_real: bool) -> Self {
        Self { state: StreamState::founded(era, message, 0).save(), base: Base::new(has_real) }
    }
}

/// The files of a node.
#[derive(Clone)]
pub struct Disk {
    pub log_id: LogId,
    /// The records from seq 1 on, durable or not. Deleted ones are damaged.
    pub log: Vec<Entry>,
    /// The last durable seq.
    pub durable: u64,
    /// The first seq that retention has kept.
    pub first_seq: u64,
    /// The file `producer`.
    producer: Option<Vec<u8>>,
    /// The content before the last change.
    earlier_producer: Option<Vec<u8>>,
    pub checkpoints: Vec<Checkpoint>,
    /// The tombstones of the erasures that this directory has done.
    erasures: Vec<u32>,
    /// Erased records that have not returned since, with their anonymous IDs.
    pub under_way: ErasedUnderWay<u8>,
}

impl Disk {
    pub fn new(log_id: LogId) -> Self {
        Self {
            log_id,
            log: Vec::new(),
            durable: 0,
            first_seq: 1,
            producer: None,
            earlier_producer: None,
            checkpoints: Vec::new(),
            erasures: Vec::new(),
            under_way: ErasedUnderWay::default(),
        }
    }

    pub fn producer(&self) -> Option<Producer> {
        self.producer.as_deref().map(|bytes| Producer::from_bytes(bytes).expect("an intact file"))
    }

    pub fn save_producer(&mut self, producer: &Producer) {
        let earlier = self.producer.replace(producer.to_bytes());
        if earlier != self.producer {
            self.earlier_producer = earlier;
        }
    }

    /// Replaces the file by an earlier version, as a restored backup does.
    pub fn restore_producer(&mut self) {
        self.producer.clone_from(&self.earlier_producer);
    }

    pub fn add_checkpoint(&mut self, checkpoint: Checkpoint) {
        self.checkpoints.push(checkpoint);
        let surplus = self.checkpoints.len().saturating_sub(CHECKPOINTS_KEPT);
        self.checkpoints.drain(..surplus);
    }

    /// Returns the last seq of the log, durable or not.
    pub fn end(&self) -> u64 {
        self.log.len() as u64
    }

    pub fn has_event(&self, number: u32) -> bool {
        self.log.iter().any(|entry| entry.event == number)
    }

    /// Carries out an erasure, once: erases the content of the readable records of its visitor up to a seq. Returns the events of those that
    /// were not erased before.
    pub fn erase(&mut self, tombstone: &Event, last: u64) -> Vec<u32> {
        let mut erased = Vec::new();
        if self.erasures.contains(&tombstone.number) {
            return erased;
        }
        self.erasures.push(tombstone.number);
        for (seq, entry) in (1..).zip(self.log.iter_mut().take(last as usize)) {
            let is_named = entry.anon.is_some() && entry.anon == tombstone.anon;
            if let Some(bytes) = entry.bytes.as_mut().filter(|_| is_named) {
                trace!("erases seq {seq}, event {}", entry.event);
                *bytes = void(bytes);
                entry.anon = None;
                let (record, _) = Record::decode(bytes).expect("a record");
                let owner = tombstone.anon.expect("an ID");
                self.under_way.push(ErasedRecord { seq, key: dedup_key(&record), owner });
                erased.push(entry.event);
            }
        }
        erased
    }

    /// Deletes the records up to a seq, as retention does.
    pub fn delete(&mut self, last: u64) {
        self.log.iter_mut().take(last as usize).for_each(|entry| entry.bytes = None);
        self.first_seq = self.first_seq.max(last + 1);
    }

    /// Cuts the log after a seq. Returns the events of the lost records.
    pub fn cut(&mut self, last: u64) -> Vec<u32> {
        let lost =
            self.log.drain(last.min(self.log.len() as u64) as usize..).map(|entry| entry.event).collect();
        self.durable = self.durable.min(last);
        lost
    }
}

impl OwnLog for Disk {
    fn first_seq(&self) -> u64 {
        self.first_seq
    }

    fn last_seq(&self) -> u64 {
        self.durable
    }

    fn record(&self, seq: u64) -> Option<&[u8]> {
        self.log.get(usize::try_from(seq).ok()?.checked_sub(1)?)?.bytes.as_deref()
    }
}
