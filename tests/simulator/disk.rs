//! The simulated disk of a node: a log with a torn tail, the file `producer`, checkpoints.

use parallax::testing::cluster::era::Era;
use parallax::testing::cluster::erase::{ErasedRecord, ErasureNote, NotedErasures};
use parallax::testing::cluster::follow::{OwnLog, OwnRecord};
use parallax::testing::cluster::message::dedup_key;
use parallax::testing::cluster::producer::Producer;
use parallax::testing::cluster::state::{SavedState, StreamState};
use parallax::testing::log::LogId;
use parallax::testing::record::Record;

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
    /// The file `erased`: the erasures by the numbers of their tombstones, and their anonymous IDs.
    pub erased: NotedErasures<u8>,
    /// The file `node`.
    pub node_file: Option<String>,
    /// True if the file `replaced` exists.
    pub is_replaced: bool,
}

/// A crash during an erasure.
#[derive(Debug, Clone, Copy)]
pub struct Interruption {
    /// The records that become void before it. All, if there are no more.
    pub records: usize,
    /// The mutant that writes the file `erased` after the records are void.
    pub is_noted_late: bool,
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
            erased: NotedErasures::default(),
            node_file: None,
            is_replaced: false,
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

    /// Carries out an erasure, once: notes it, and erases the content of the readable records of its visitor
    /// up to `last_seq`. `returned` is the last seq that has returned, and `tombstone_ms` the time of the
    /// tombstone. Returns the events of the records that were not erased before.
    pub fn erase(
        &mut self,
        tombstone: &Event,
        (last_seq, returned, tombstone_ms): (u64, u64, i64),
        interruption: Option<Interruption>,
    ) -> Vec<u32> {
        let (id, owner) = (u128::from(tombstone.number), tombstone.anon.expect("an ID"));
        self.erased.reopen(id, &owner);
        let last_seq = match self.erased.get(id) {
            Some(note) if note.is_done => return Vec::new(),
            Some(note) => note.last_seq,
            None => last_seq,
        };
        let is_late = interruption.is_some_and(|interruption| interruption.is_noted_late);
        if self.erased.get(id).is_none() && !is_late {
            let records = self.records_of(owner, last_seq, returned);
            let (is_done, has_too_many_records, owner) = (false, false, Some(owner));
            let note =
                ErasureNote { id, last_seq, returned, tombstone_ms, is_done, has_too_many_records, owner };
            self.erased.add(note, &records);
        }
        let erased = self.make_void(owner, last_seq, interruption.map_or(usize::MAX, |one| one.records));
        if interruption.is_none() {
            self.erased.finish(id);
        }
        erased
    }

    /// Returns the readable records of an anonymous ID that have not returned.
    fn records_of(&self, anon: u8, last_seq: u64, returned: u64) -> Vec<ErasedRecord> {
        let entries = (1..=last_seq).zip(&self.log).skip(returned as usize);
        let own = entries.filter(|(_, entry)| entry.anon == Some(anon));
        own.filter_map(|(seq, entry)| {
            let (record, _) = Record::decode(entry.bytes.as_ref()?).expect("a record");
            Some(ErasedRecord { seq, key: dedup_key(&record) })
        })
        .collect()
    }

    /// Erases the content of the first `count` readable records of an anonymous ID. Returns their events.
    fn make_void(&mut self, anon: u8, last_seq: u64, count: usize) -> Vec<u32> {
        let entries = (1..=last_seq).zip(&mut self.log);
        let own = entries.filter(|(_, entry)| entry.anon == Some(anon) && entry.bytes.is_some());
        own.take(count)
            .map(|(seq, entry)| {
                trace!("erases seq {seq}, event {}", entry.event);
                entry.bytes = entry.bytes.as_deref().map(void);
                entry.anon = None;
                entry.event
            })
            .collect()
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

    fn record(&self, seq: u64) -> OwnRecord<'_> {
        let entry = seq.checked_sub(1).and_then(|index| self.log.get(index as usize));
        entry.and_then(|entry| entry.bytes.as_deref()).map_or(OwnRecord::Absent, OwnRecord::Encoded)
    }
}
