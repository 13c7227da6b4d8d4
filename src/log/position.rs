//! A position in a log, at which an export ends and the next one continues.
//!
//! A position names the record after which an export continues, and proves that the log still has this record. A data
//! directory that was replaced by an older copy, and was written to since then, gives the same seqs to other records, under
//! the same log ID. Its export would skip some of them in silence.
//!
//! ```text
//! LOGID:SEQ:HASH
//! LOGID   32 hex digits: the ID of the log
//! SEQ     decimal: the seq of the last record before the position, 0 before the first record
//! HASH    24 hex digits: the number n of hashed records (8), then their hash (16)
//! ```
//!
//! **The hash** runs over the records from SEQ - n + 1 to SEQ, in order. It begins as 0. For each record it becomes the
//! XXH3 (64 bits) of itself, the seq, the length and the received time, 8 bytes each. No erasure changes these three
//! values of a record, and nothing else of the log changes them either.
//!
//! **The hashed records** are those of one segment, from its first record on, or from the first record after damage. They
//! are of one segment, because retention deletes whole segments: so the log has either all of them or lacks SEQ too. Their
//! number is in the position, because the borders of segments can change later: a recovery moves the records that no file
//! states to be durable into the segment that it begins. An export without a server has made them durable and exported
//! them before.

use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::sync::Arc;

use super::format::Records;
use super::reader::{LogItem, LogReader};
use super::{LogError, LogId, SeqRange};
use crate::checksum::hash64;
use crate::limits::SEQ_MAX;
use crate::record::key_and_time;
use crate::storage::disk::Disk;

/// Hex digits of the number of hashed records.
const COUNT_DIGITS: usize = 8;
/// Hex digits of the hash.
const HASH_DIGITS: usize = 16;
/// Hex digits of the part HASH.
const PROOF_DIGITS: usize = COUNT_DIGITS + HASH_DIGITS;

/// The position after a record of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogPosition {
    log_id: LogId,
    seq: u64,
    /// The number of hashed records. 0 only before the first record.
    count: u32,
    hash: u64,
}

impl LogPosition {
    /// Parses a position. Returns `None` for any other text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let [log_id, seq, proof] = parts[..] else { return None };
        let is_proof = proof.len() == PROOF_DIGITS && proof.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (count, hash) = proof.split_at_checked(COUNT_DIGITS).filter(|_| is_proof)?;
        let position = Self {
            log_id: LogId::parse(log_id)?,
            seq: seq.parse().ok().filter(|seq| *seq <= SEQ_MAX)?,
            count: u32::from_str_radix(count, 16).ok()?,
            hash: u64::from_str_radix(hash, 16).ok()?,
        };
        let is_possible = match position.count {
            0 => position.seq == 0 && position.hash == 0,
            count => u64::from(count) <= position.seq,
        };
        is_possible.then_some(position)
    }

    /// Returns the seq of the last record before the position.
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns the seq of the first hashed record.
    fn first_seq(&self) -> u64 {
        self.seq + 1 - u64::from(self.count)
    }
}

impl Display for LogPosition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { log_id, seq, count, hash } = self;
        write!(f, "{log_id}:{seq}:{count:0COUNT_DIGITS$x}{hash:0HASH_DIGITS$x}")
    }
}

/// The reason why an export cannot continue at a position or after a seq.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PositionError {
    /// The position is of another log.
    #[error("it is of another log: this one has the ID {0}, as a restored backup has")]
    OtherLog(LogId),
    /// The log ends before it.
    #[error(
        "it is beyond the end of the log, whose last seq is {0}: the log is an older copy, or the seq is of another log"
    )]
    BeyondEnd(u64),
    /// Retention has deleted records that the position proves, or that an export would skip.
    #[error("retention has deleted the records before seq {0}")]
    Expired(u64),
    /// The log has given the seqs to other records.
    #[error(
        "the log has other records up to this seq: its directory was replaced by an older copy, and new events were recorded"
    )]
    OtherRecords,
    /// A damaged place holds the records, so nothing can be said about them.
    #[error("the log is damaged, so the position cannot be verified: {0}")]
    Damaged(String),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// The hash of consecutive records, of which a position is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordChain {
    first_seq: u64,
    next_seq: u64,
    hash: u64,
}

impl RecordChain {
    /// Creates a chain without records, which ends before `next_seq`.
    fn starting_at(next_seq: u64) -> Self {
        Self { first_seq: next_seq, next_seq, hash: 0 }
    }

    /// Adds the next records of a log. The chain starts again after a gap, and at a segment of which `segment_starts` has
    /// the first seq.
    pub(crate) fn add(&mut self, records: &Records<'_>, segment_starts: &[u64]) {
        if records.first_seq != self.next_seq || segment_starts.contains(&records.first_seq) {
            *self = Self::starting_at(records.first_seq);
        }
        for record in records.iter_encoded() {
            let (_, received_ms) = key_and_time(record);
            let values = [self.hash, self.next_seq, record.len() as u64, received_ms.cast_unsigned()];
            self.hash = hash64(values.map(u64::to_le_bytes).as_flattened());
            self.next_seq += 1;
        }
    }

    /// Returns the seq of the last record.
    pub(crate) fn last_seq(&self) -> u64 {
        self.next_seq - 1
    }

    /// Returns the position at the end of the chain. `None` if damage holds the record before it.
    pub(crate) fn position(&self, log_id: LogId) -> Option<LogPosition> {
        let seq = self.last_seq();
        let count = u32::try_from(self.next_seq - self.first_seq).ok()?;
        let position = LogPosition { log_id, seq, count, hash: self.hash };
        (count > 0 || seq == 0).then_some(position)
    }
}

/// Verifies that the log in `dir` has the records before a position. Returns the chain with which an export continues.
/// `range` is that of the log.
///
/// # Errors
/// The log lacks these records, or cannot be read.
pub(crate) fn verify(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    range: &SeqRange,
    position: &LogPosition,
) -> Result<RecordChain, PositionError> {
    if let Some(log_id) = range.log_id.filter(|log_id| *log_id != position.log_id) {
        return Err(PositionError::OtherLog(log_id));
    }
    if position.seq > range.last {
        return Err(PositionError::BeyondEnd(range.last));
    }
    if position.count > 0 && position.first_seq() < range.first {
        return Err(PositionError::Expired(range.first));
    }
    let chains = Chains::read(disk, dir, position.first_seq(), position.seq)?;
    if chains.all.first_seq == position.first_seq() && chains.all.next_seq == position.seq + 1 {
        let is_same = chains.all.hash == position.hash;
        return if is_same { Ok(chains.continued) } else { Err(PositionError::OtherRecords) };
    }
    match chains.damage {
        Some(damage) => Err(PositionError::Damaged(damage)),
        // Retention has deleted the segment meanwhile.
        None => Err(PositionError::Expired(position.seq + 1)),
    }
}

/// Returns the chain with which an export continues after `seq`, a number that proves nothing. `range` is that of the log.
///
/// # Errors
/// The log has no record after `seq`, or has lost some to retention, or cannot be read.
pub(crate) fn chain_after(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    range: &SeqRange,
    seq: u64,
) -> Result<RecordChain, PositionError> {
    if seq > range.last {
        return Err(PositionError::BeyondEnd(range.last));
    }
    // An export from 0 on has all records that the log still has.
    if seq == 0 || seq + 1 == range.first {
        return Ok(RecordChain::starting_at(seq + 1));
    }
    if seq < range.first {
        return Err(PositionError::Expired(range.first));
    }
    let starts = LogReader::open(Arc::clone(disk), dir, 0)?.segment_starts();
    let first_seq = starts.into_iter().rfind(|start| *start <= seq).unwrap_or(seq);
    Ok(Chains::read(disk, dir, first_seq, seq)?.continued)
}

/// The chains of a range of records.
struct Chains {
    /// The chain of all these records. Shorter if some are missing.
    all: RecordChain,
    /// The chain of those in the segment of the last one, as an export makes it.
    continued: RecordChain,
    /// The damaged place that holds some of them.
    damage: Option<String>,
}

impl Chains {
    /// Reads the records from `first_seq` to `last_seq`.
    fn read(disk: &Arc<dyn Disk>, dir: &Path, first_seq: u64, last_seq: u64) -> Result<Self, LogError> {
        let chain = RecordChain::starting_at(first_seq);
        let mut chains = Self { all: chain, continued: chain, damage: None };
        if last_seq < first_seq {
            return Ok(chains);
        }
        let reader = LogReader::open(Arc::clone(disk), dir, first_seq.saturating_sub(1))?;
        let mut reader = reader.with_durable_seq(last_seq);
        let segment_starts = reader.segment_starts();
        while let Some(item) = reader.read_next()? {
            match item {
                LogItem::Records(records) if records.first_seq > last_seq => break,
                LogItem::Records(records) => {
                    let records = records.before_seq(last_seq + 1);
                    chains.all.add(&records, &[]);
                    chains.continued.add(&records, &segment_starts);
                }
                LogItem::Damage(damage)
                    if damage.lost_seqs.start <= last_seq && damage.lost_seqs.end > first_seq =>
                {
                    chains.damage = Some(damage.to_string());
                }
                LogItem::Damage(_) => {}
            }
        }
        if chains.continued.next_seq != last_seq + 1 {
            chains.continued = RecordChain::starting_at(last_seq + 1);
        }
        Ok(chains)
    }
}
