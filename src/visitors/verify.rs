//! Whether the checkpoints of a folder are sound, and the newer is what the log makes of the older.
//!
//! Works beside a running server, without its lock.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::checkpoint::directory::{Folder, checkpoint_name};
use super::checkpoint::format::Header;
use super::checkpoint::reader::{Fault, Opened};
use super::checkpoint::restore::table_of;
use crate::limits::CHECKPOINT_GENERATIONS;
use crate::storage::disk::Disk;
use crate::visitors::live::Live;
use crate::visitors::log::{Item, LogError, Reader};
use crate::visitors::store::table::{Key, Rank, Table};

/// What there is to say of a folder's checkpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// A line for each file, and one for what was compared.
    pub said: Vec<String>,
    /// Files that are damaged or differ.
    pub wrong: usize,
}

/// Checks all checkpoints of a folder, and compares the two newest.
///
/// # Errors
/// The log between them cannot be read.
pub fn check_folder(disk: &Arc<dyn Disk>, path: &Path) -> Result<Checked, LogError> {
    let folder = Folder::new(Arc::clone(disk), path);
    let failed = |source| LogError::Io { path: path.to_owned(), source };
    let mut checked = Checked::default();
    let mut sound = Vec::new();
    for seq in folder.seqs().map_err(failed)? {
        match check_file(disk, &folder.path_of(seq)) {
            Ok(header) if header.seq == seq => {
                checked.said.push(format!("{}: sound, {}", checkpoint_name(seq), shown(&header)));
                sound.push(header);
            }
            // A running server has deleted it meanwhile.
            Err(Fault::Io(error)) if error.kind() == ErrorKind::NotFound => {}
            Ok(_) => checked.complain(seq, "its header names another seq"),
            Err(fault) => checked.complain(seq, &fault.to_string()),
        }
    }
    if let [.., older, newer] = sound[..]
        && sound.len() <= CHECKPOINT_GENERATIONS
    {
        compare(disk, path, &older, &newer, &mut checked)?;
    }
    Ok(checked)
}

/// Makes every check of one checkpoint; its header.
///
/// # Errors
/// One of them fails; the system says no.
pub fn check_file(disk: &Arc<dyn Disk>, path: &Path) -> Result<Header, Fault> {
    let opened = Opened::open(&**disk, path)?;
    let header = *opened.header();
    table_of(opened, &mut |_, _| {})?;
    Ok(header)
}

impl Checked {
    fn complain(&mut self, seq: u64, what: &str) {
        self.wrong += 1;
        self.said.push(format!("{}: {what}", checkpoint_name(seq)));
    }
}

fn shown(header: &Header) -> String {
    format!("seq {}, {} entries, bound {}", header.seq, header.entries, header.cost_max)
}

/// Folds the log from the older up to the newer, and holds the result against it.
fn compare(
    disk: &Arc<dyn Disk>,
    path: &Path,
    older: &Header,
    newer: &Header,
    checked: &mut Checked,
) -> Result<(), LogError> {
    let folder = Folder::new(Arc::clone(disk), path);
    let opened = |header: &Header| Opened::open(&**disk, &folder.path_of(header.seq));
    let Ok(table) = opened(older).and_then(|opened| table_of(opened, &mut |_, _| {})) else { return Ok(()) };
    let names = format!("{} and {}", checkpoint_name(older.seq), checkpoint_name(newer.seq));
    if older.secret != newer.secret {
        checked.complain(newer.seq, "its keys have another secret than those of the one before");
        return Ok(());
    }
    // A bound that was changed took effect when the older was loaded.
    let (mut live, _) = Live::standing(table, newer.secret, newer.cost_max);
    if let Some(reason) = fold(disk, path, &mut live, older.seq, newer.seq)? {
        checked.said.push(format!("{names}: not compared: {reason}"));
        return Ok(());
    }
    match opened(newer).and_then(|opened| differences(opened, &mut live.into_table())) {
        Ok(differences) if differences.is_empty() => {
            checked.said.push(format!("{names}: the log between them makes one of the other"));
        }
        Ok(differences) => {
            let what = format!("it is not what the log makes of the one before: {differences}");
            checked.complain(newer.seq, &what);
        }
        Err(Fault::Io(error)) if error.kind() == ErrorKind::NotFound => {}
        Err(fault) => checked.complain(newer.seq, &fault.to_string()),
    }
    Ok(())
}

/// Folds the records behind `since` up to `until`; why it cannot be done.
fn fold(
    disk: &Arc<dyn Disk>,
    path: &Path,
    live: &mut Live,
    since: u64,
    until: u64,
) -> Result<Option<String>, LogError> {
    let mut reader = Reader::open(Arc::clone(disk), path, since)?;
    if reader.last_seq() < until {
        return Ok(Some(format!("the log names seq {} durable so far", reader.last_seq())));
    }
    let mut next = since + 1;
    while next <= until {
        match reader.read_next()? {
            None => return Ok(Some(format!("the log ends before seq {next}"))),
            Some(Item::Finding(finding)) => return Ok(Some(format!("the log is damaged: {finding}"))),
            Some(Item::Records(records)) if records.first_seq > next => {
                return Ok(Some(format!("the log has no seq {next}")));
            }
            Some(Item::Records(records)) => {
                let records = records.until(until + 1);
                next = records.seqs().end;
                live.fold(records);
            }
        }
    }
    Ok(None)
}

/// How a checkpoint differs from a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Differences {
    /// Entries of the checkpoint that the table does not have.
    pub added: u64,
    /// Entries of the table that the checkpoint does not have.
    pub missing: u64,
    /// Entries of both whose values or ranks differ.
    pub other: u64,
    /// Where in the order of their last put another entry stands first.
    pub order_at: Option<u64>,
}

impl Differences {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl std::fmt::Display for Differences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { added, missing, other, order_at } = self;
        write!(f, "{added} entries too many, {missing} too few, {other} with other contents")?;
        order_at.map_or(Ok(()), |at| write!(f, ", another order from entry {at} on"))
    }
}

/// Holds a checkpoint against a table: each entry, and their order.
///
/// # Errors
/// A check fails; the system says no.
pub fn differences(opened: Opened, table: &mut Table) -> Result<Differences, Fault> {
    let ranked = in_order(table);
    let (mut entries, mut differences, mut met) = (opened.entries()?, Differences::default(), 0);
    let mut at = 0;
    while let Some(kept) = entries.read_next()? {
        let place = ranked.get(at).map(|(key, _)| *key);
        if place != Some(kept.key) && differences.order_at.is_none() {
            differences.order_at = Some(at as u64);
        }
        let has_rank = place != Some(kept.key) || ranked.get(at).is_some_and(|(_, rank)| *rank == kept.rank);
        match table.get(kept.key) {
            None => differences.added += 1,
            Some(value) => {
                met += 1;
                differences.other += u64::from(value != kept.value || !has_rank);
            }
        }
        at += 1;
    }
    differences.missing = table.len() as u64 - met;
    Ok(differences)
}

/// All keys of a table with their ranks, in the order of their last put.
fn in_order(table: &mut Table) -> Vec<(Key, Rank)> {
    let mut all = Vec::with_capacity(table.len());
    table.begin_copy();
    while !table.copy_some(usize::MAX, &mut |key, _, rank, order| all.push((order, key, rank))) {}
    all.sort_unstable_by_key(|(order, ..)| *order);
    all.into_iter().map(|(_, key, rank)| (key, rank)).collect()
}
