//! Verification of checkpoints: checks each file, compares the newest with a fold of the log from the one
//! before, and with a fold of the log alone.
//!
//! The log alone gives the same table only if it begins at seq 1 and no fold has evicted a visitor: void
//! records leave room in the table, so a second fold evicts other visitors. The checkpoint of a node of a
//! cluster has the events of all nodes, so its own log cannot give the same table.
//!
//! It works without the log's lock, so a server may run meanwhile.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use super::checkpoint::directory::{CheckpointDirectory, checkpoint_name};
use super::checkpoint::format::Header;
use super::checkpoint::reader::{CheckpointError, CheckpointReader};
use super::checkpoint::restore::{LoadedFold, load_fold, newest_header_seq};
use crate::checksum::hash64;
use crate::limits::CHECKPOINT_GENERATIONS;
use crate::log::{self, LogError, LogItem, LogReader, log_id};
use crate::record::TombstoneKey;
use crate::storage::disk::Disk;
use crate::visitors::live::ProfileTable;
use crate::visitors::store::table::{EvictionClass, Key, Table};
use crate::visitors::ties::TieEntry;
use crate::visitors::ties::known::FoldState;
use crate::visitors::ties::merge::{DropRule, merge};

/// A report on the checkpoints of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// One line for each file, and one for the comparison.
    pub lines: Vec<String>,
    /// The number of files that are damaged or differ from the log.
    pub failures: usize,
}

/// Checks all checkpoints of a directory and compares the two newest.
///
/// # Errors
/// The log between the two newest cannot be read.
pub fn check_directory(disk: &Arc<dyn Disk>, path: &Path) -> Result<CheckReport, LogError> {
    let dir = CheckpointDirectory::new(Arc::clone(disk), path);
    let failed = |source| LogError::Io { path: path.to_owned(), source };
    let mut checked = CheckReport::default();
    let mut sound = Vec::new();
    let log_id = log_id(disk, path)?;
    for seq in dir.seqs().map_err(failed)? {
        match check_file(disk, &dir.path_of(seq)) {
            Ok(header) if log_id.is_some_and(|log_id| log_id != header.log_id) => {
                checked.add_failure(seq, &CheckpointError::Foreign(header.log_id).to_string());
            }
            Ok(header) if header.seq == seq && is_of_node(&dir, seq) => {
                let name = checkpoint_name(seq);
                let entries = header.entries;
                let reason = "it has the events of all nodes of a cluster";
                checked
                    .lines
                    .push(format!("{name}: sound, {entries} entries, not compared with the log: {reason}"));
            }
            Ok(header) if header.seq == seq => {
                checked.lines.push(format!("{}: sound, {}", checkpoint_name(seq), describe(&header)));
                sound.push(header);
            }
            // A running server has deleted it since the directory was listed.
            Err(CheckpointError::Io(error)) if error.kind() == ErrorKind::NotFound => {}
            Err(CheckpointError::Thread(cause)) => return Err(LogError::Thread(cause)),
            Ok(_) => checked.add_failure(seq, "the seq in the header differs from the file name"),
            Err(fault) => checked.add_failure(seq, &fault.to_string()),
        }
    }
    let Some(newest) = sound.last() else { return Ok(checked) };
    let skip_reason = if log::has_begun_erasure(disk, path).map_err(failed)? {
        Some("an erasure is not finished")
    } else if is_of_earlier_fold(&dir, newest.seq) {
        Some("an earlier release made it, with another fold")
    } else {
        None
    };
    if let Some(reason) = skip_reason {
        let name = checkpoint_name(newest.seq);
        checked.lines.push(format!("{name}: not compared with the log: {reason}"));
        return Ok(checked);
    }
    let mut compared = CheckReport::default();
    if let [.., older, newer] = sound[..]
        && sound.len() <= CHECKPOINT_GENERATIONS
    {
        compare(disk, path, &older, &newer, &mut compared)?;
    }
    compare_with_log(disk, path, newest, &mut compared)?;
    if compared.failures > 0 && was_erased_meanwhile(&dir, newest).map_err(failed)? {
        let name = checkpoint_name(newest.seq);
        let reason = "an erasure has changed the log since the check began";
        compared =
            CheckReport { lines: vec![format!("{name}: not compared with the log: {reason}")], failures: 0 };
    }
    checked.lines.extend(compared.lines);
    checked.failures += compared.failures;
    Ok(checked)
}

fn is_of_node(dir: &CheckpointDirectory, seq: u64) -> bool {
    CheckpointReader::open(dir.disk(), &dir.path_of(seq)).is_ok_and(|opened| opened.is_of_node())
}

fn is_of_earlier_fold(dir: &CheckpointDirectory, seq: u64) -> bool {
    CheckpointReader::open(dir.disk(), &dir.path_of(seq)).is_ok_and(|opened| opened.is_of_earlier_fold())
}

/// Returns whether an erasure is running, or has replaced the newest checkpoint. Each erasure replaces it at its end.
fn was_erased_meanwhile(dir: &CheckpointDirectory, newest_header: &Header) -> io::Result<bool> {
    let is_same = match CheckpointReader::open(dir.disk(), &dir.path_of(newest_header.seq)) {
        Ok(opened) => opened.header() == newest_header,
        Err(CheckpointError::Io(error)) if error.kind() == ErrorKind::NotFound => false,
        Err(CheckpointError::Io(error)) => return Err(error),
        Err(_) => true,
    };
    Ok(!is_same || dir.is_erasing()?)
}

/// Returns the greatest seq in the headers of the log's checkpoints, or 0. The log had all records up to it.
/// The seq of a node's checkpoint is a position in the stream, and does not count.
///
/// # Errors
/// The directory cannot be read.
pub fn newest_checkpoint_seq(disk: &Arc<dyn Disk>, log_directory: &Path) -> Result<u64, LogError> {
    let log_id = log_id(disk, log_directory)?;
    let dir = CheckpointDirectory::new(Arc::clone(disk), log_directory);
    let mut seqs = dir.seqs().map_err(|error| LogError::io(log_directory, error))?;
    seqs.retain(|seq| !is_of_node(&dir, *seq));
    Ok(newest_header_seq(&dir, &seqs, log_id))
}

/// Runs all checks of one checkpoint and returns its header.
///
/// # Errors
/// A check fails, or the file cannot be read.
pub(crate) fn check_file(disk: &Arc<dyn Disk>, path: &Path) -> Result<Header, CheckpointError> {
    let opened = CheckpointReader::open(&**disk, path)?;
    let header = *opened.header();
    load_fold(opened, &mut |_, _| {})?;
    Ok(header)
}

impl CheckReport {
    fn add_failure(&mut self, seq: u64, failure: &str) {
        self.failures += 1;
        self.lines.push(format!("{}: {failure}", checkpoint_name(seq)));
    }
}

fn describe(header: &Header) -> String {
    format!("seq {}, {} entries, memory limit {}", header.seq, header.entries, header.cost_max)
}

/// Folds the log from the older checkpoint to the newer one, and compares the result with the newer
/// one.
fn compare(
    disk: &Arc<dyn Disk>,
    log_directory: &Path,
    older_header: &Header,
    newer_header: &Header,
    report: &mut CheckReport,
) -> Result<(), LogError> {
    let dir = CheckpointDirectory::new(Arc::clone(disk), log_directory);
    let opened = |header: &Header| CheckpointReader::open(&**disk, &dir.path_of(header.seq));
    let Ok(LoadedFold { table, state }) =
        opened(older_header).and_then(|opened| load_fold(opened, &mut |_, _| {}))
    else {
        return Ok(());
    };
    let names = format!("{} and {}", checkpoint_name(older_header.seq), checkpoint_name(newer_header.seq));
    if older_header.secret != newer_header.secret {
        report.add_failure(
            newer_header.seq,
            "its keys are hashed with another secret than those of the previous checkpoint",
        );
        return Ok(());
    }
    // If the memory limit was changed, it took effect when the server loaded the older checkpoint.
    let (live, _) = ProfileTable::from_table(table, state, newer_header.secret, newer_header.cost_max);
    let mut live = live.with_tombstone_key(TombstoneKey::read(Arc::clone(disk), log_directory)?);
    if let Some(reason) = fold_log(disk, log_directory, &mut live, older_header.seq, newer_header.seq)? {
        report.lines.push(format!("{names}: not compared: {reason}"));
        return Ok(());
    }
    let oldest_seq = dir.first_log_seq().map_err(|error| LogError::io(log_directory, error))?;
    let rule = DropRule { oldest_seq, ..DropRule::default() };
    let compared = opened(older_header).and_then(|older| {
        opened(newer_header).and_then(|newer| compare_with_fold(&older, newer, live, &rule))
    });
    match compared {
        Ok(differences) if differences.is_empty() => {
            report.lines.push(format!("{names}: the newer one matches the log between them"));
        }
        Ok(differences) => {
            let what =
                format!("it differs from a fold of the log from the previous checkpoint: {differences}");
            report.add_failure(newer_header.seq, &what);
        }
        Err(CheckpointError::Io(error)) if error.kind() == ErrorKind::NotFound => {}
        Err(fault) => report.add_failure(newer_header.seq, &fault.to_string()),
    }
    Ok(())
}

/// Folds the log from its first record to the newest checkpoint, and compares the result with it.
fn compare_with_log(
    disk: &Arc<dyn Disk>,
    log_directory: &Path,
    newest_header: &Header,
    report: &mut CheckReport,
) -> Result<(), LogError> {
    let name = checkpoint_name(newest_header.seq);
    let not_compared = |reason: String| format!("{name}: not compared with the log alone: {reason}");
    if newest_header.evicted > 0 {
        report.lines.push(not_compared(format!("{} visitors were evicted", newest_header.evicted)));
        return Ok(());
    }
    let (live, _) = ProfileTable::new(newest_header.secret, newest_header.cost_max);
    let mut live = live.with_tombstone_key(TombstoneKey::read(Arc::clone(disk), log_directory)?);
    if let Some(reason) = fold_log(disk, log_directory, &mut live, 0, newest_header.seq)? {
        report.lines.push(not_compared(reason));
        return Ok(());
    }
    let FoldState { visitors_evicted, .. } = live.state();
    let dir = CheckpointDirectory::new(Arc::clone(disk), log_directory);
    let compared = CheckpointReader::open(&**disk, &dir.path_of(newest_header.seq)).and_then(|opened| {
        let has_lost = !opened.lost_aliases()?.is_empty();
        Ok((compare_with_table(opened, &mut live.into_table())?, has_lost))
    });
    match compared {
        _ if visitors_evicted > 0 => report.lines.push(not_compared("its fold evicts visitors".to_owned())),
        // The order of the entries decides only which visitor is evicted next.
        Ok((differences, _)) if differences.has_same_entries() => {
            report.lines.push(format!("{name}: matches the log alone"));
        }
        Ok((_, true)) => {
            let reason = "a user had more anonymous IDs than a profile keeps, and one of them moved on";
            report.lines.push(not_compared(reason.to_owned()));
        }
        Ok((differences, false)) => {
            report.add_failure(
                newest_header.seq,
                &format!("it differs from a fold of the log alone: {differences}"),
            );
        }
        Err(CheckpointError::Io(error)) if error.kind() == ErrorKind::NotFound => {}
        Err(fault) => report.add_failure(newest_header.seq, &fault.to_string()),
    }
    Ok(())
}

/// Folds the records after `after_seq` up to `last_seq`. Returns the reason if the log does not have all of
/// them.
fn fold_log(
    disk: &Arc<dyn Disk>,
    log_directory: &Path,
    profiles: &mut ProfileTable,
    after_seq: u64,
    last_seq: u64,
) -> Result<Option<String>, LogError> {
    let mut reader = LogReader::open(Arc::clone(disk), log_directory, after_seq)?;
    if reader.last_seq() < last_seq {
        return Ok(Some(format!("the log is durable only up to seq {}", reader.last_seq())));
    }
    let mut next = after_seq + 1;
    while next <= last_seq {
        match reader.read_next()? {
            None => return Ok(Some(format!("the log ends before seq {next}"))),
            Some(LogItem::Damage(damage)) => return Ok(Some(format!("the log is damaged: {damage}"))),
            Some(LogItem::Records(records)) if records.first_seq > next => {
                return Ok(Some(format!("the log has no seq {next}")));
            }
            Some(LogItem::Records(records)) => {
                let records = records.before_seq(last_seq + 1);
                next = records.seqs().end;
                profiles.fold(records);
            }
        }
    }
    Ok(None)
}

/// The differences between a checkpoint and a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Differences {
    /// Entries of the checkpoint that the table does not have.
    pub extra: u64,
    /// Entries of the table that the checkpoint does not have.
    pub missing: u64,
    /// Entries of both that have another value or another eviction class.
    pub changed: u64,
    /// True if the filter of lost aliases, the known sites, the number of evicted visitors or the entries of
    /// ownership differ.
    pub state_differs: bool,
    /// Index of the first entry that differs, with all entries in the order of their last put.
    pub first_order_mismatch: Option<u64>,
}

impl Differences {
    /// Returns whether there is no difference.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether both have the same entries with the same values, in any order.
    fn has_same_entries(&self) -> bool {
        Self { first_order_mismatch: None, ..*self }.is_empty()
    }
}

impl std::fmt::Display for Differences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { extra, missing, changed, state_differs, first_order_mismatch: order_at } = self;
        write!(f, "{extra} extra entries, {missing} missing, {changed} changed")?;
        if *state_differs {
            write!(f, ", other lost aliases, sites, evictions or ownership")?;
        }
        order_at.map_or(Ok(()), |at| write!(f, ", different order from entry {at} on"))
    }
}

/// Compares a checkpoint with a fold of the log since the older one: the table, and the parts beside it. Both use
/// the same rule for entries of ownership, because the log may have lost records since the checkpoint.
fn compare_with_fold(
    older_checkpoint: &CheckpointReader,
    newest_checkpoint: CheckpointReader,
    profiles: ProfileTable,
    rule: &DropRule,
) -> Result<Differences, CheckpointError> {
    let FoldState { lost, known, visitors_evicted } = profiles.state();
    // Without the key the fold makes no entries.
    let has_same_ties = !profiles.has_tombstone_key()
        || tie_digest(&newest_checkpoint, &[], rule)?
            == tie_digest(older_checkpoint, &known.copy().recent.sorted(), rule)?;
    let is_same = has_same_ties
        && newest_checkpoint.lost_aliases()? == lost
        && newest_checkpoint.sites()? == *known.copy().sites
        && newest_checkpoint.header().evicted == visitors_evicted;
    let differences = compare_with_table(newest_checkpoint, &mut profiles.into_table())?;
    Ok(Differences { state_differs: !is_same, ..differences })
}

/// Returns the number and a hash of the entries of ownership after a merge.
fn tie_digest(
    base_checkpoint: &CheckpointReader,
    recent_entries: &[TieEntry],
    rule: &DropRule,
) -> Result<(u64, u64), CheckpointError> {
    let mut count = 0;
    let mut hash = 0_u64;
    merge(base_checkpoint.ties(), recent_entries, rule, |entry| {
        count += 1;
        hash = hash64(&[&hash.to_le_bytes()[..], &entry.to_bytes()].concat());
        Ok(())
    })?;
    Ok((count, hash))
}

/// Compares a checkpoint with a table: every entry, and the order of the entries.
///
/// # Errors
/// A check of the checkpoint fails, or its file cannot be read.
pub(crate) fn compare_with_table(
    reader: CheckpointReader,
    table: &mut Table,
) -> Result<Differences, CheckpointError> {
    let ranked = keys_in_put_order(table);
    let mut entries = reader.entries()?;
    let mut differences = Differences::default();
    let mut met = 0;
    let table_classes: HashMap<Key, EvictionClass> = ranked.iter().copied().collect();
    let mut at = 0;
    while let Some(kept) = entries.read_next()? {
        let place = ranked.get(at).map(|(key, _)| *key);
        if place != Some(kept.key) && differences.first_order_mismatch.is_none() {
            differences.first_order_mismatch = Some(at as u64);
        }
        let has_rank = table_classes.get(&kept.key) == Some(&kept.class);
        match table.get(kept.key) {
            None => differences.extra += 1,
            Some(value) => {
                met += 1;
                differences.changed += u64::from(value != kept.value || !has_rank);
            }
        }
        at += 1;
    }
    differences.missing = table.len() as u64 - met;
    Ok(differences)
}

/// Returns all keys of a table with their eviction classes, in the order of their last put.
fn keys_in_put_order(table: &mut Table) -> Vec<(Key, EvictionClass)> {
    let mut all = Vec::with_capacity(table.len());
    table.begin_copy();
    while !table.copy_chunk(usize::MAX, &mut |key, _, rank, order| all.push((order, key, rank))) {}
    all.sort_unstable_by_key(|(order, ..)| *order);
    all.into_iter().map(|(_, key, rank)| (key, rank)).collect()
}
