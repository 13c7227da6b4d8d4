//! Restores the table of visitors at a start: from the newest valid checkpoint, or as an empty table if
//! there is none.

use std::collections::BTreeSet;
use std::io;

use super::directory::{CheckpointDirectory, checkpoint_name};
use super::format::Header;
use super::load::{Progress, load_table, wrong_entry_count};
use super::reader::{CheckpointError, CheckpointReader, damaged, read_header};
use super::scheduler::CheckpointState;
use crate::limits::CHECKPOINT_GENERATIONS;
use crate::log::{LogId, SeqRange, unsupported_version};
use crate::visitors::store::table::Table;
use crate::visitors::ties::known::{FoldState, KnownTies};
use crate::visitors::ties::lost::LostAliases;

/// The reason why the server must not start.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Another release wrote the checkpoint.
    #[error("{file}: {}", unsupported_version(*version))]
    Version {
        /// Name of the file.
        file: String,
        /// Format version of the file.
        version: u32,
    },
    /// A node of a cluster wrote the checkpoint, with the keys of the cluster.
    #[error("{file}: it is the checkpoint of a node of a cluster; start with --cluster and its settings")]
    OfCluster {
        /// Name of the file.
        file: String,
    },
    /// The directory cannot be listed.
    #[error("cannot list the checkpoints: {0}")]
    List(io::Error),
    /// The system starts no thread.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// The restored state, from which the server continues. The default is the state without a checkpoint.
#[derive(Default)]
pub struct RestoredTable {
    /// The table as of `seq`.
    pub table: Table,
    /// The parts of the fold beside the table, as of `seq`.
    pub state: FoldState,
    /// The secret with which keys are hashed. `None` without a checkpoint.
    pub secret: Option<[u8; 16]>,
    /// The ID of the log. `None` if neither a segment nor a checkpoint states it.
    pub log_id: Option<LogId>,
    /// The records up to this seq are in the table. 0 without a checkpoint.
    pub seq: u64,
    /// The greatest seq in a checkpoint's header. The log had all records up to it, so it must give none of
    /// these seqs again.
    pub durable_seq: u64,
    /// The initial state of the checkpoint scheduler.
    pub checkpoint_state: CheckpointState,
    /// Warnings about unusable checkpoints and lost records, one line each. The caller must log all of
    /// them.
    pub warnings: Vec<String>,
}

/// The part of the log that a restore must know.
#[derive(Debug, Clone, Copy)]
pub struct LogRange {
    /// The first seq in the log.
    pub first: u64,
    /// The ID of the log. Checkpoints of another log are not used. `None` if no segment states it.
    pub log_id: Option<LogId>,
}

impl LogRange {
    /// Returns whether retention has deleted no record of the log, so that its fold gives every profile.
    fn has_first_record(self) -> bool {
        self.first == 1 && self.log_id.is_some()
    }
}

/// Loads the table from the checkpoints in the directory of the log. A checkpoint beyond the end of the log is
/// used: the log has lost records. `cost_max` is the memory limit that the table will have. The caller must have
/// the log's lock.
///
/// # Errors
/// The server must not start, because that would lose visitors or mix up records.
pub fn restore(
    dir: &CheckpointDirectory,
    log_range: LogRange,
    cost_max: u64,
    progress: &mut Progress<'_>,
) -> Result<RestoredTable, RestoreError> {
    // If this fails, the next checkpoint deletes the file first.
    let _ = dir.remove_temporary();
    read_newest(dir, log_range, cost_max, progress)
}

/// Loads the table as [`restore`] does, and changes no file. A running server may have the log's lock.
///
/// # Errors
/// As for [`restore`].
pub(crate) fn read_newest(
    dir: &CheckpointDirectory,
    log_range: LogRange,
    cost_max: u64,
    progress: &mut Progress<'_>,
) -> Result<RestoredTable, RestoreError> {
    let seqs = dir.seqs().map_err(RestoreError::List)?;
    let mut restored = load_newest(dir, seqs, log_range, cost_max, progress)?;
    let seq = restored.seq;
    if seq + 1 < log_range.first {
        let missing =
            format!("records {}..={} are in no checkpoint and no segment", seq + 1, log_range.first - 1);
        restored.warnings.push(format!("{missing}; visitor profiles lack them"));
    }
    Ok(RestoredTable { log_id: log_range.log_id.or(restored.log_id), ..restored })
}

/// Returns the greatest seq in the headers of the checkpoints of a log, or 0. `log_id` is `None` if no segment
/// states it. Then each checkpoint counts.
pub(crate) fn newest_header_seq(dir: &CheckpointDirectory, seqs: &[u64], log_id: Option<LogId>) -> u64 {
    let headers = seqs.iter().filter_map(|seq| read_header(dir.disk(), &dir.path_of(*seq)).ok());
    let of_log = headers.filter(|header| log_id.is_none_or(|log_id| log_id == header.log_id));
    of_log.map(|header| header.seq).max().unwrap_or(0)
}

fn load_newest(
    dir: &CheckpointDirectory,
    mut seqs: Vec<u64>,
    log_range: LogRange,
    cost_max: u64,
    progress: &mut Progress<'_>,
) -> Result<RestoredTable, RestoreError> {
    let mut is_outdated = false;
    let mut durable_seq = 0;
    let mut warnings = Vec::new();
    while let Some(&seq) = seqs.last() {
        let file = checkpoint_name(seq);
        match load(dir, seq, log_range, progress) {
            Ok((LoadedFold { table, state }, header, bytes)) => {
                // Keep the previous checkpoint without a check. Older ones are deleted with the next one.
                let generations = seqs.split_off(seqs.len().saturating_sub(CHECKPOINT_GENERATIONS));
                is_outdated |= header.cost_max != cost_max;
                return Ok(RestoredTable {
                    table,
                    state,
                    secret: Some(header.secret),
                    log_id: Some(header.log_id),
                    seq,
                    durable_seq: durable_seq.max(seq),
                    checkpoint_state: CheckpointState { generations, seq, bytes, is_outdated },
                    warnings,
                });
            }
            // Without the checkpoint the start would fold the whole log, and end at the next thread.
            Err(CheckpointError::Thread(cause)) => return Err(RestoreError::Thread(cause)),
            Err(CheckpointError::OfCluster) => return Err(RestoreError::OfCluster { file }),
            Err(CheckpointError::Version(version)) => {
                return Err(RestoreError::Version { file, version });
            }
            Err(fault) => {
                if matches!(fault, CheckpointError::Damaged { .. } | CheckpointError::EarlierFold) {
                    durable_seq = durable_seq.max(newest_header_seq(dir, &[seq], log_range.log_id));
                }
                warnings.push(format!("{file}: not used: {fault}"));
            }
        }
        seqs.pop();
        is_outdated = true;
    }
    let checkpoint_state = CheckpointState { is_outdated, ..CheckpointState::default() };
    Ok(RestoredTable { durable_seq, checkpoint_state, warnings, ..RestoredTable::default() })
}

/// Loads a checkpoint. Returns its fold, its header and its size in bytes.
fn load(
    dir: &CheckpointDirectory,
    seq: u64,
    log_range: LogRange,
    progress: &mut Progress<'_>,
) -> Result<(LoadedFold, Header, u64), CheckpointError> {
    let opened = CheckpointReader::open(dir.disk(), &dir.path_of(seq))?;
    let header = *opened.header();
    if header.seq != seq {
        return Err(damaged(0, "the seq in the header differs from the file name"));
    }
    if opened.is_of_node() {
        return Err(CheckpointError::OfCluster);
    }
    if log_range.log_id.is_some_and(|log_id| log_id != header.log_id) {
        return Err(CheckpointError::Foreign(header.log_id));
    }
    if opened.is_of_earlier_fold() && log_range.has_first_record() {
        return Err(CheckpointError::EarlierFold);
    }
    let bytes = opened.bytes();
    Ok((load_fold(opened, progress)?, header, bytes))
}

/// Returns the seqs of the checkpoints that a copy of a directory keeps, if its checkpoints get the present format: without those of
/// an earlier fold if the log has all records, else only the newest whole one. `log_range` is that of the log.
///
/// # Errors
/// The directory cannot be listed.
pub(crate) fn seqs_for_copy(dir: &CheckpointDirectory, log_range: &SeqRange) -> io::Result<Vec<u64>> {
    let mut seqs = dir.seqs()?;
    let is_earlier = |seq: &u64| {
        CheckpointReader::open(dir.disk(), &dir.path_of(*seq)).is_ok_and(|opened| opened.is_of_earlier_fold())
    };
    if !seqs.iter().any(is_earlier) {
        return Ok(seqs);
    }
    let has_all_records = log_range.first == 1 && seqs.last().is_none_or(|seq| *seq <= log_range.last);
    if has_all_records {
        seqs.retain(|seq| !is_earlier(seq));
        return Ok(seqs);
    }
    let is_whole =
        |seq: &u64| CheckpointReader::open(dir.disk(), &dir.path_of(*seq)).and_then(check_content).is_ok();
    Ok(seqs.into_iter().rfind(is_whole).into_iter().collect())
}

/// Checks the ties, and returns the filter of lost aliases and the known sites.
fn read_sections(reader: &CheckpointReader) -> Result<(LostAliases, BTreeSet<Box<str>>), CheckpointError> {
    reader.ties().try_for_each(|entry| entry.map(drop))?;
    Ok((reader.lost_aliases()?, reader.sites()?))
}

/// Checks every byte of an open checkpoint, with some megabytes of memory. Only [`load_fold`] notices two entries with
/// the same key, which no damage of a disk causes.
///
/// # Errors
/// A check fails, or the file cannot be read.
pub(crate) fn check_content(reader: CheckpointReader) -> Result<(), CheckpointError> {
    read_sections(&reader)?;
    reader.stream()?;
    let expected = reader.header().entries;
    let mut entries = reader.entries()?;
    let mut found = 0;
    while entries.read_next()?.is_some() {
        found += 1;
    }
    if found == expected { Ok(()) } else { Err(wrong_entry_count()) }
}

/// A fold, loaded from a checkpoint.
pub struct LoadedFold {
    /// The table of visitors.
    pub table: Table,
    /// The parts beside the table.
    pub state: FoldState,
}

/// Loads the fold from an open checkpoint, and checks every byte of it.
///
/// # Errors
/// A check fails, or the file cannot be read.
pub fn load_fold(
    reader: CheckpointReader,
    progress: &mut Progress<'_>,
) -> Result<LoadedFold, CheckpointError> {
    let header = *reader.header();
    // Without entries a new key is as good as the old one.
    let key_check = if reader.parts().ties.entries > 0 { header.key_check } else { 0 };
    let (lost, sites) = read_sections(&reader)?;
    let table = load_table(reader.entries()?, header.entries, progress)?;
    let known = KnownTies::restored(header.seq, sites);
    known.set_key_check(key_check);
    Ok(LoadedFold { table, state: FoldState { lost, known, visitors_evicted: header.evicted } })
}
