//! Records, batches and messages.

/// The key of a record: its number in the history. A retry of a client has the same key.
pub type Key = u8;

/// The number of keys of a history, and of visitors.
pub const KEYS_MAX: usize = 128;
pub const VISITORS: usize = 4;

/// A set of keys.
pub type Keys = u128;

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Event,
    Tombstone,
    /// An erased event. Its key stays.
    Void,
}

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    pub key: Key,
    pub visitor: u8,
    pub kind: Kind,
}

impl Record {
    /// Returns the set with the key, or the empty set if the record is void.
    pub fn content(&self) -> Keys {
        if self.kind == Kind::Void { 0 } else { 1 << self.key }
    }
}

/// The records of a run in the log. A batch without records raises the next seq of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub position: u32,
    pub chain: u64,
    /// The seq of its first record.
    pub seq: u32,
    pub session: u32,
    /// The first outbox seq of the session.
    pub base: u32,
    /// The outbox seqs of the run: from `first` to before `next`.
    pub first: u32,
    pub next: u32,
    pub records: Vec<Record>,
}

impl Batch {
    /// Returns the session and the next seq, which identify the batch in every history of the stream.
    pub fn id(&self) -> (u32, u32) {
        (self.session, self.next)
    }

    pub fn tombstone(&self) -> Option<Record> {
        self.records.first().copied().filter(|first| first.kind == Kind::Tombstone)
    }

    pub fn end_seq(&self) -> u32 {
        self.seq + self.records.len() as u32
    }
}

/// A table: the number of effective events of each visitor since the visitor was erased last.
pub type Table = [u16; VISITORS];

/// Folds a batch.
pub fn fold(table: &mut Table, batch: &Batch) {
    for record in &batch.records {
        match record.kind {
            Kind::Event => table[usize::from(record.visitor)] += 1,
            Kind::Tombstone => table[usize::from(record.visitor)] = 0,
            Kind::Void => (),
        }
    }
}

/// The erasures that a node had read when it recorded an event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// The chain after the message of the last tombstone. 0 if there was none.
    pub view: u64,
    /// Tombstones that the node has read in a lost end of the stream.
    pub seen_lost: Vec<Key>,
    /// Only for [`crate::rules::Rule::SeenIsPosition`]: the position that the node had read.
    pub position: u32,
}

/// The part of a batch that only a message of kind `recover` has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// The first outbox seq of the session, which the message opens if the state does not have it.
    pub base: u32,
    /// The ID of the batch before it in the log that lost it.
    pub before: Option<(u32, u32)>,
    /// Only for [`crate::rules::Rule::RecoversUnderR`]: the session R, the index of the batch in the log, and whether it is the first
    /// of its lost end.
    pub under: u64,
    pub index: u32,
    pub is_first: bool,
}

/// A message of kind `run` or `recover`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub session: u32,
    pub first: u32,
    pub next: u32,
    pub records: Vec<Record>,
    pub seen: Seen,
    pub recovery: Option<Recovery>,
}

/// A heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    pub name: usize,
    pub instance: u32,
    /// Each session that the outbox has records of, with its first outbox seq.
    pub sessions: Vec<(u32, u32)>,
    /// The chain after the message of the last tombstone that the directory has carried out.
    pub erased: u64,
    /// Only for [`crate::rules::Rule::ConfirmsByPosition`].
    pub erased_position: u32,
}

/// A message of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    Run(Run),
    Heartbeat(Heartbeat),
}

impl Message {
    pub fn is_run(&self) -> bool {
        matches!(self, Self::Run(run) if run.recovery.is_none())
    }

    /// Returns the key of the first record.
    pub fn key(&self) -> Option<Key> {
        match self {
            Self::Run(run) => run.records.first().map(|record| record.key),
            Self::Heartbeat(_) => None,
        }
    }

    pub fn has_records(&self) -> bool {
        matches!(self, Self::Run(run) if !run.records.is_empty())
    }
}
