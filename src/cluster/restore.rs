//! The start of a node: its producer ID, and the table and the state from a checkpoint.

use std::path::Path;
use std::{fs, io};

use super::producer::{PRODUCER_FILE, Producer};
use super::saved;
use super::secret::ClusterKeys;
use super::state::SavedState;
use crate::log::{LogId, SeqRange};
use crate::storage::disk::RealDisk;
use crate::visitors::checkpoint::directory::{CheckpointDirectory, checkpoint_name};
use crate::visitors::checkpoint::reader::{CheckpointError, CheckpointReader};
use crate::visitors::checkpoint::restore::{LoadedFold, load_fold};
use crate::visitors::checkpoint::scheduler::CheckpointState;
use crate::visitors::store::table::Table;
use crate::visitors::ties::TieEntry;
use crate::visitors::ties::known::FoldState;

/// The table and the state with which a node starts.
pub(crate) struct RestoredNode {
    pub(crate) table: Table,
    pub(crate) fold: FoldState,
    /// `None` without a checkpoint. Position 0 if the file is of `new-era`.
    pub(crate) saved: Option<SavedState>,
    pub(crate) checkpoint_state: CheckpointState,
    /// The ID of the log of the cluster.
    pub(crate) log_id: LogId,
    /// The last seq that an own checkpoint proves to be durable in that log.
    pub(crate) durable_seq: u64,
    /// Problems for the log.
    pub(crate) warnings: Vec<String>,
}

/// An error that ends the start of a node.
pub(crate) enum NodeRestoreError {
    /// The setting at fault, and the remedy.
    Setting(String),
    /// The system starts no thread.
    Thread(io::Error),
}

impl From<String> for NodeRestoreError {
    fn from(text: String) -> Self {
        Self::Setting(text)
    }
}

/// A callback that gets the entries loaded so far, and the entries in total.
type Progress<'p> = dyn FnMut(u64, u64) + 'p;

/// A checkpoint with a state.
struct Found {
    reader: CheckpointReader,
    saved: SavedState,
    /// The number in the name. `None` for the file of `--bootstrap`.
    number: Option<u64>,
}

impl Found {
    /// Returns whether a node must start from this file of `--bootstrap`, although it has a checkpoint of its own.
    fn replaces(&self, own_checkpoint: &Self) -> bool {
        self.saved.era.id != own_checkpoint.saved.era.id
            || self.saved.position > own_checkpoint.saved.position
    }
}

/// Reads the file `producer` of the directory of the own log. Without it, or if it is damaged, the producer ID is that of the log: the
/// comparison with the stream finds a difference. The second value is true if the file is intact.
pub(crate) fn load_producer(directory: &Path, log_id: LogId) -> (Producer, bool) {
    let stored = fs::read(directory.join(PRODUCER_FILE)).ok().and_then(|bytes| Producer::from_bytes(&bytes));
    let is_saved = stored.is_some();
    (stored.unwrap_or_else(|| Producer::first(log_id)), is_saved)
}

/// Restores table and state from the newest own checkpoint, or from the file `bootstrap_path` if there is none, or
/// if the file is of another era or later in the stream. So a node can continue after the stream has dropped
/// messages that it has not read.
///
/// # Errors
/// The directory or the file cannot be part of this cluster, or no thread can be started.
pub(crate) fn restore(
    directory: &CheckpointDirectory,
    data_directory: &Path,
    log_range: &SeqRange,
    bootstrap_path: Option<&Path>,
    keys: &ClusterKeys,
    progress: &mut Progress<'_>,
) -> Result<RestoredNode, NodeRestoreError> {
    let mut warnings = Vec::new();
    let mut found = own_checkpoints(directory, &mut warnings)?;
    let generations = numbers(&found);
    drop_later(&mut found, log_range.last, &mut warnings);
    // The file has the profiles of visitors who were erased after it was made. So it can be deleted once the node has a
    // checkpoint of its own.
    if let Some(path) = bootstrap_path.filter(|path| found.is_empty() || path.try_exists().unwrap_or(true)) {
        let file = read_file(path)?;
        check_end(data_directory, log_range, path, &file.saved)?;
        if found.last().is_none_or(|newest| file.replaces(newest)) {
            found = vec![file];
        }
    }
    while let Some(Found { reader, saved, number }) = found.pop() {
        let (header, bytes) = (*reader.header(), reader.bytes());
        if header.secret != keys.table_check {
            let text = "--cluster-secret is not the secret with which the checkpoint was made; use the file of the other nodes";
            return Err(NodeRestoreError::Setting(text.to_owned()));
        }
        let ties = if number.is_none() { all_ties(&reader) } else { Ok(Vec::new()) };
        let loaded = ties.and_then(|ties| load_fold(reader, progress).map(|loaded| (ties, loaded)));
        match loaded {
            Ok((ties, LoadedFold { table, state: fold })) => {
                check_log(data_directory, log_range, header.log_id)?;
                if number.is_none() {
                    fold.known.reset(0, ties);
                }
                let seq = number.unwrap_or(0);
                let checkpoint_state = CheckpointState {
                    generations: if number.is_some() { generations } else { Vec::new() },
                    seq,
                    bytes,
                    is_outdated: number.is_none(),
                };
                return Ok(RestoredNode {
                    table,
                    fold,
                    durable_seq: if number.is_some() { saved.seq } else { 0 },
                    saved: Some(saved),
                    checkpoint_state,
                    log_id: header.log_id,
                    warnings,
                });
            }
            Err(CheckpointError::Thread(cause)) => return Err(NodeRestoreError::Thread(cause)),
            Err(error) => warnings.push(format!("a checkpoint is not used: {error}")),
        }
    }
    check_log(data_directory, log_range, keys.log_id)?;
    Ok(RestoredNode {
        table: Table::new(),
        fold: FoldState::default(),
        saved: None,
        checkpoint_state: CheckpointState { is_outdated: true, ..CheckpointState::default() },
        log_id: keys.log_id,
        durable_seq: 0,
        warnings,
    })
}

/// Drops the checkpoints that are after the end of the log, which would get a hole.
fn drop_later(checkpoints: &mut Vec<Found>, last_seq: u64, warnings: &mut Vec<String>) {
    for Found { saved, number, .. } in checkpoints.extract_if(.., |one| one.saved.seq > last_seq) {
        let name = number.map_or_else(String::new, checkpoint_name);
        warnings
            .push(format!("{name}: not used: it is of seq {}, and the log ends at {last_seq}", saved.seq));
    }
}

/// Returns the entries of ownership of a checkpoint that is not in the directory of its node, in their order.
/// They are in memory until the next checkpoint.
pub(crate) fn all_ties(reader: &CheckpointReader) -> Result<Vec<TieEntry>, CheckpointError> {
    let mut ties = reader.ties().collect::<Result<Vec<_>, _>>()?;
    ties.sort_unstable_by_key(|tie| tie.seq);
    Ok(ties)
}

fn numbers(checkpoints: &[Found]) -> Vec<u64> {
    let mut numbers: Vec<u64> = checkpoints.iter().filter_map(|one| one.number).collect();
    let surplus = numbers.len().saturating_sub(crate::limits::CHECKPOINT_GENERATIONS);
    numbers.drain(..surplus);
    numbers
}

/// Returns the checkpoints that have a state, the newest last. Checkpoints of a server that was alone have none.
fn own_checkpoints(
    directory: &CheckpointDirectory,
    warnings: &mut Vec<String>,
) -> Result<Vec<Found>, String> {
    let seqs = directory.seqs().map_err(|error| format!("cannot list the checkpoints: {error}"))?;
    let mut found = Vec::new();
    for number in seqs {
        let opened = CheckpointReader::open(directory.disk(), &directory.path_of(number));
        let state = opened.and_then(|reader| reader.stream().map(|bytes| (reader, bytes)));
        match state {
            Ok((reader, bytes)) if !bytes.is_empty() => match decode_state(&checkpoint_name(number), &bytes)?
            {
                // The tables of all nodes are equal, so one node alone cannot continue with another fold.
                _ if reader.is_of_earlier_fold() => warnings.push(format!(
                    "{}: not used: {}",
                    checkpoint_name(number),
                    CheckpointError::EarlierFold
                )),
                Some(saved) => found.push(Found { reader, saved, number: Some(number) }),
                None => {
                    warnings.push(format!("{}: its section `stream` is invalid", checkpoint_name(number)))
                }
            },
            Ok(_) => {}
            Err(error) => warnings.push(format!("{}: not used: {error}", checkpoint_name(number))),
        }
    }
    found.sort_by_key(|one| one.reader.header().created_ms);
    Ok(found)
}

/// Returns the newest own checkpoint with a state.
///
/// # Errors
/// The directory cannot be listed, or the checkpoint was made with another secret.
pub(crate) fn newest_own(
    directory: &CheckpointDirectory,
    keys: &ClusterKeys,
) -> Result<Option<(CheckpointReader, SavedState)>, String> {
    let Some(Found { reader, saved, .. }) = own_checkpoints(directory, &mut Vec::new())?.pop() else {
        return Ok(None);
    };
    if reader.header().secret != keys.table_check {
        return Err("--cluster-secret is not the secret with which the checkpoint was made".to_owned());
    }
    Ok(Some((reader, saved)))
}

/// Decodes the state of the file `name`. `None`: it is damaged, or of a server that is alone.
///
/// # Errors
/// Another release wrote it.
fn decode_state(name: &str, bytes: &[u8]) -> Result<Option<SavedState>, String> {
    match saved::other_version(bytes) {
        Some(version) => Err(format!(
            "{name}: the state of the node has version {version}, and this release reads version {}; start with an empty data directory \
             and the checkpoint of a node of this release, or found the cluster again with `parallax cluster found`",
            saved::VERSION
        )),
        None => Ok(saved::decode(bytes)),
    }
}

/// Reads a checkpoint that the operator names.
fn read_file(path: &Path) -> Result<Found, String> {
    let name = path.display();
    if !path.try_exists().unwrap_or(true) {
        return Err(format!(
            "cannot read --bootstrap {name}: there is no such file, and the node has no checkpoint of its own; copy the data directory of \
             another node, or for a new cluster the file of `parallax cluster found`"
        ));
    }
    let reader =
        CheckpointReader::open(&RealDisk, path).map_err(|error| format!("--bootstrap {name}: {error}"))?;
    let bytes = reader.stream().map_err(|error| format!("--bootstrap {name}: {error}"))?;
    let saved = decode_state(&format!("--bootstrap {name}"), &bytes)?;
    if reader.is_of_earlier_fold() {
        return Err(format!("--bootstrap {name}: {}", CheckpointError::EarlierFold));
    }
    let saved = saved.ok_or_else(|| {
        format!("--bootstrap {name}: it is the checkpoint of a server that is alone; make a file with `parallax cluster found`")
    })?;
    Ok(Found { reader, saved, number: None })
}

/// Refuses a file of `--bootstrap` that is after the end of the log. The log would have a hole.
fn check_end(
    data_directory: &Path,
    log_range: &SeqRange,
    path: &Path,
    file_state: &SavedState,
) -> Result<(), String> {
    if file_state.seq <= log_range.last {
        return Ok(());
    }
    Err(format!(
        "--bootstrap {} is of seq {}, and the log in {} ends at {}; stop another node, copy its data directory to this place, and start again",
        path.display(),
        file_state.seq,
        data_directory.display(),
        log_range.last
    ))
}

/// Refuses the log of a server that was alone, unless the cluster was founded from it, and that of another cluster.
fn check_log(data_directory: &Path, log_range: &SeqRange, log_id: LogId) -> Result<(), String> {
    if log_range.log_id.is_none_or(|present| present == log_id) {
        return Ok(());
    }
    Err(format!(
        "the data directory {} has the log of a server that was alone, or of another cluster; found the cluster from it with \
         `parallax cluster found --from {}`, or start this node with an empty data directory",
        data_directory.display(),
        data_directory.display()
    ))
}
