//! Rule T4: the own records before the first one that this directory has told the cluster.
//!
//! A restored backup can begin earlier than the log that it replaces, whose beginning retention had deleted.
//! The ties that decide the owners of these records may be dropped on all nodes. So the records become void
//! before the node sends a heartbeat.

use super::erasing::{ErasureCommand, ErasureDone};
use super::nodes::Nodes;
use super::producer::Producer;
use crate::log::{EraseError, EraseRule, Treatment};
use crate::record::{Record, RecordKind};
use crate::visitors::erasure::{Eraser, ErasureError};

/// Returns the first own seq that this directory may have, as its heartbeats of any time say. Records that it
/// sends under a later producer ID are others, and do not count.
pub fn first_allowed_seq(producer: &Producer, nodes: &Nodes) -> u64 {
    let ids = producer.predecessors.iter().map(|one| one.id).chain([producer.id]);
    let told = ids.filter_map(|id| Some(nodes.logs.get(&id)?.first_seq.min(producer.seqs_of(id)?.end)));
    told.max().unwrap_or(0)
}

/// The old records of a node.
#[derive(Debug, Default)]
pub(crate) struct OldRecords {
    /// The records before this seq are void.
    void_before: u64,
    is_running: bool,
}

impl OldRecords {
    /// Returns the command that makes the records before `first_allowed_seq` void. `None` if there are none, or if it runs.
    pub(crate) fn begin(&mut self, first_seq: u64, first_allowed_seq: u64) -> Option<ErasureCommand> {
        let is_needed = first_allowed_seq > first_seq.max(self.void_before) && !self.is_running;
        self.is_running |= is_needed;
        is_needed.then_some(ErasureCommand::VoidBefore(first_allowed_seq))
    }

    /// Notes that the command is done.
    pub(crate) fn end(&mut self, first_allowed_seq: u64) {
        (self.void_before, self.is_running) = (first_allowed_seq, false);
    }

    /// Returns whether no record has to become void, so that a heartbeat may be sent.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_running
    }
}

/// Makes the records before a seq void.
///
/// # Errors
/// The log is stopped, another erasure runs, or the disk fails.
pub(crate) fn void_before(eraser: &Eraser, seq: u64) -> Result<ErasureDone, ErasureError> {
    let started = eraser.log.seal_for_erasure()?.begin()?;
    let summary = started.rewrite(&mut BeforeSeq(seq)).map_err(EraseError::from)?;
    tracing::warn!(
        before_seq = seq,
        records = summary.records,
        segments = summary.segments,
        "made the records void that retention had deleted before this directory was restored"
    );
    Ok(ErasureDone::VoidBefore(seq))
}

/// The rule that makes all records before a seq void. A tombstone stays.
struct BeforeSeq(u64);

impl EraseRule for BeforeSeq {
    fn may_match(&self, _filter: &[u8]) -> bool {
        true
    }

    fn may_name(&self, _hash: u64) -> bool {
        true
    }

    fn treatment(&mut self, seq: u64, record: &Record<'_>) -> Treatment {
        if seq < self.0 && record.kind != RecordKind::Tombstone { Treatment::Void } else { Treatment::Keep }
    }

    fn names_visitor(&mut self, _record: &Record<'_>) -> bool {
        false
    }
}
