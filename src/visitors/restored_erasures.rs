//! Carries out erasures in the copy of a backup: those that the backup lacks, and those that it has in part.
//!
//! A copy beside a running server has each file as of another moment. So it can have the tombstone of an erasure, and
//! segments or a checkpoint as of before it, without the marker `erasing`. The records tell: one before a tombstone that
//! still names an erased ID.
//!
//! The erasures are finished as a start finishes those of a killed server: tombstones and marker first, then
//! [`Eraser::resume`]. The copy has no name yet that a server would use. If this fails, it is discarded.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::events::identity;
use crate::ids;
use crate::log::{
    self, ErasureSummary, ListedTombstone, LockedLog, LogConsumer, LogError, LogId, LogItem, LogReader,
    Options, Records, SeqRange, TombstoneScan, VisitorIds, WriterThread,
};
use crate::record::{IdKind, IdTag, Record, RecordKind, TombstoneKey};
use crate::storage::damage::KnownDamage;
use crate::storage::disk::Disk;
use crate::visitors::checkpoint::CheckpointMetrics;
use crate::visitors::checkpoint::directory::CheckpointDirectory;
use crate::visitors::checkpoint::reader::read_header;
use crate::visitors::checkpoint::restore::{LogRange, RestoreError, RestoredTable, restore};
use crate::visitors::checkpoint::scheduler::{Options as CheckpointOptions, build_checkpointer};
use crate::visitors::erasure::{Eraser, ErasureError};
use crate::visitors::live::ProfileTable;
use crate::visitors::ownership::OwnershipSource;

/// The reason why an erasure in the copy is not finished.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnfinishedError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Checkpoint(#[from] RestoreError),
    #[error(transparent)]
    Erasure(#[from] ErasureError),
    #[error("cannot create a thread: {0}")]
    Thread(std::io::Error),
    #[error("the last records of the copy are not on disk")]
    Unsynced,
}

/// Appends `missing_tombstones` tombstones to the copy in `dir`, and finishes all erasures that it has in part. `scan` are the
/// tombstones of the copy. Returns `None` if there was nothing to do.
///
/// # Errors
/// The disk fails, or the copy cannot be opened.
pub(crate) fn carry_out(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    missing_tombstones: &[ListedTombstone],
    scan: &TombstoneScan,
) -> Result<Option<ErasureSummary>, UnfinishedError> {
    let clock = SystemClock::new();
    let unfinished_from = first_unfinished(disk, dir, scan)?;
    if !missing_tombstones.is_empty() || unfinished_from.is_some() {
        log::append_to_copy(disk, dir, missing_tombstones, unfinished_from, &clock)?;
    }
    let has_begun = log::has_begun_erasure(disk, dir).map_err(|error| LogError::io(dir, error))?;
    if has_begun { finish(disk, dir, Arc::new(clock)) } else { Ok(None) }
}

/// Returns the seq of the first tombstone that names an ID of an earlier record. The ID of a shared device may stay in
/// records of other visitors. Then the erasure is repeated without effect.
fn first_unfinished(disk: &Arc<dyn Disk>, dir: &Path, scan: &TombstoneScan) -> Result<Option<u64>, LogError> {
    let Some(key) = TombstoneKey::read(Arc::clone(disk), dir)?.filter(|_| !scan.tombstones.is_empty()) else {
        return Ok(None);
    };
    let mut seqs: HashMap<IdTag, Vec<u64>> = HashMap::new();
    for tombstone in &scan.tombstones {
        for tag in &tombstone.named {
            seqs.entry(*tag).or_default().push(tombstone.seq);
        }
    }
    let reader = LogReader::open(Arc::clone(disk), dir, 0)?;
    let mut reader = reader.with_durable_seq(scan.range.last);
    let mut first = None::<u64>;
    let mut fold_input = Vec::new();
    while let Some(item) = reader.read_next()? {
        let LogItem::Records(records) = item else { continue };
        for (seq, record) in records.iter() {
            for tag in own_tags(&key, &record, &mut fold_input) {
                let later = seqs.get(&tag).and_then(|seqs| seqs.iter().find(|tombstone| **tombstone > seq));
                first = later.copied().into_iter().chain(first).min();
            }
        }
    }
    Ok(first)
}

/// Returns the digests of the IDs by which a record can belong to a visitor. A record with a user ID belongs to no other
/// user, although an erased one may have used the same device.
fn own_tags(key: &TombstoneKey, record: &Record<'_>, buffer: &mut Vec<u8>) -> Vec<IdTag> {
    let Some(site) = record.site.filter(|_| {
        !matches!(record.kind, RecordKind::Void | RecordKind::Tombstone) && !identity::is_end_of_tie(record)
    }) else {
        return Vec::new();
    };
    let anon_id = record.anon_id.filter(|_| record.user_id.is_none()).map(|id| (IdKind::Anon, id));
    let user_id = record.user_id.map(|id| (IdKind::User, id));
    let previous = record.previous_id(buffer);
    let previous = previous.into_iter().flat_map(|id| [(IdKind::Anon, id), (IdKind::User, id)]);
    anon_id.into_iter().chain(user_id).chain(previous).map(|(kind, id)| key.tag(site, kind, id)).collect()
}

/// The fold of the copy's records while its erasures are finished.
struct CopyFold(ProfileTable);

impl LogConsumer for CopyFold {
    fn consume(&mut self, records: Records<'_>) {
        self.0.fold(records);
    }

    fn is_current(&self, visitor_ids: &VisitorIds) -> bool {
        self.0.is_current(visitor_ids)
    }

    fn on_erase(&mut self, visitor_ids: &VisitorIds, seq: u64) {
        self.0.erase(visitor_ids, seq);
    }

    fn on_idle(&mut self, clock: &dyn Clock, durable_seq: Option<u64>) -> Option<Duration> {
        self.0.on_idle(clock, durable_seq)
    }

    fn on_closed(&mut self, clock: &dyn Clock, durable_seq: Option<u64>) {
        self.0.close(clock, durable_seq);
    }

    fn checkpointed_seq(&self) -> u64 {
        self.0.checkpointed_seq()
    }
}

/// Finishes the erasures that have begun in the log in `dir`, which no server uses.
fn finish(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    clock: Arc<SystemClock>,
) -> Result<Option<ErasureSummary>, UnfinishedError> {
    let log = LockedLog::lock(dir, Arc::clone(disk))?;
    let SeqRange { first, log_id, .. } = log.seq_range()?;
    let checkpoints = CheckpointDirectory::new(Arc::clone(disk), dir);
    let cost_max = cost_max_of(&checkpoints).map_err(RestoreError::List)?;
    let restored = restore(&checkpoints, LogRange { first, log_id }, cost_max, &mut |_, _| {})?;
    let RestoredTable { table, state, secret, log_id, seq, durable_seq, checkpoint_state, .. } = restored;
    let log_id = log_id.unwrap_or_else(LogId::random);
    let hash_key = secret.unwrap_or_else(ids::random_hash_key);
    let key = log.load_or_draw_key()?;
    let (table, _readers) = ProfileTable::from_table(table, state, hash_key, cost_max);
    let known = table.state().known;
    let metrics = Arc::<CheckpointMetrics>::default();
    let options = CheckpointOptions::new(hash_key, cost_max, log_id);
    let (scheduler, checkpointer) =
        build_checkpointer(checkpoints, options, checkpoint_state, Arc::clone(&metrics));
    let fold = CopyFold(table.with_checkpoints(scheduler).with_tombstone_key(Some(key.clone())));
    let options = Options {
        checkpointed_seq: seq,
        durable_seq,
        log_id: Some(log_id),
        tombstone_key: Some(key),
        hash_seed: ids::random_u64(),
        ..Options::default()
    };
    let (queue, writer, _) = log.open(options, clock, Box::new(fold))?;
    checkpointer.spawn().map_err(UnfinishedError::Thread)?;
    let writer = WriterThread::spawn(queue.clone(), writer).map_err(UnfinishedError::Thread)?;
    let source = OwnershipSource {
        disk: Arc::clone(disk),
        directory: dir.to_owned(),
        known,
        cluster: None,
        damage: KnownDamage::default(),
    };
    let resumed = Eraser { log: queue, source, checkpoints: metrics }.resume();
    let is_synced = writer.stop().is_ok_and(|end| end.durable_seq == end.last_seq);
    let summary = resumed?;
    if is_synced { Ok(summary) } else { Err(UnfinishedError::Unsynced) }
}

/// Returns the memory limit of the server that wrote the newest checkpoint. With another one, visitors would be evicted.
/// Without a checkpoint there is no limit: the server had less log to fold than the distance of two checkpoints.
fn cost_max_of(checkpoints: &CheckpointDirectory) -> std::io::Result<u64> {
    let newest = checkpoints.seqs()?.into_iter().rev();
    let mut headers =
        newest.filter_map(|seq| read_header(checkpoints.disk(), &checkpoints.path_of(seq)).ok());
    Ok(headers.next().map_or(u64::MAX, |header| header.cost_max))
}
