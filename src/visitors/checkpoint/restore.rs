//! The table at a start: from the newest checkpoint that passes all checks, else the one before, else empty.

use std::io;

use super::directory::{Folder, checkpoint_name};
use super::reader::{Fault, Opened};
use super::scheduler::Standing;
use crate::limits::CHECKPOINT_GENERATIONS;
use crate::visitors::store::table::Table;

/// Why a server must not start.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A later release wrote the checkpoint.
    #[error("{file} has format version {version}, which this release does not know")]
    Version {
        /// Its name.
        file: String,
        /// Its format version.
        version: u32,
    },
    /// One must be put out of reach and cannot.
    #[error("{file} is beyond the log and cannot be put aside: {cause}")]
    Refuse {
        /// Its name.
        file: String,
        /// What the system says.
        cause: io::Error,
    },
    /// The folder cannot be read.
    #[error("its checkpoints cannot be listed: {0}")]
    List(io::Error),
}

/// What a start goes on from.
pub struct Restored {
    /// As of `seq`.
    pub table: Table,
    /// The one that keys were hashed with; `None` without a checkpoint.
    pub secret: Option<[u8; 16]>,
    /// The records up to this one are in the table; 0 without a checkpoint.
    pub seq: u64,
    /// For who makes the next.
    pub standing: Standing,
    /// What is wrong, a line each: loud, all of it.
    pub findings: Vec<String>,
}

/// What the log has, to hold checkpoints against.
#[derive(Debug, Clone, Copy)]
pub struct Reach {
    /// The first seq that is kept.
    pub first: u64,
    /// The last that can be read.
    pub last: u64,
}

/// How far a long load has come: entries, of how many.
pub type Progress<'p> = dyn FnMut(u64, u64) + 'p;

/// Loads the table from the folder's checkpoints, beside a log that reaches so far; the caller has the log's lock. `cost_max` is the
/// bound that the table will go by.
///
/// # Errors
/// A start would do harm.
pub fn restore(
    folder: &Folder,
    log: Reach,
    cost_max: u64,
    progress: &mut Progress<'_>,
) -> Result<Restored, RestoreError> {
    // What cannot be deleted now is deleted before the next is made.
    let _ = folder.clear();
    let seqs = folder.seqs().map_err(RestoreError::List)?;
    let mut findings = Vec::new();
    let mut usable = Vec::new();
    for seq in seqs {
        if seq <= log.last {
            usable.push(seq);
            continue;
        }
        // The seqs behind the log's end will be given again, to other records.
        let file = checkpoint_name(seq);
        folder.refuse(seq).map_err(|cause| RestoreError::Refuse { file: file.clone(), cause })?;
        findings.push(format!(
            "{file}: refused and put aside, for the log beside it ends at seq {}: records are lost",
            log.last
        ));
    }
    let Newest { table, secret, cost_max: made_with, mut standing } =
        newest(folder, usable, &mut findings, progress)?;
    standing.is_outdated |= made_with.is_some_and(|made_with| made_with != cost_max);
    let seq = standing.seq;
    if seq + 1 < log.first {
        let missing = format!("records {}..={} are in no checkpoint and no segment", seq + 1, log.first - 1);
        findings.push(format!("{missing}: what they say of visitors is lost"));
    }
    Ok(Restored { table, secret, seq, standing, findings })
}

struct Newest {
    table: Table,
    secret: Option<[u8; 16]>,
    cost_max: Option<u64>,
    standing: Standing,
}

fn newest(
    folder: &Folder,
    mut usable: Vec<u64>,
    findings: &mut Vec<String>,
    progress: &mut Progress<'_>,
) -> Result<Newest, RestoreError> {
    let mut is_outdated = false;
    while let Some(&seq) = usable.last() {
        let file = checkpoint_name(seq);
        match load(folder, seq, progress) {
            Ok((table, loaded)) => {
                // The one before is kept as it is; what is older is deleted with the next.
                let generations = usable.split_off(usable.len().saturating_sub(CHECKPOINT_GENERATIONS));
                let standing = Standing { generations, seq, bytes: loaded.bytes, is_outdated };
                let (secret, cost_max) = (Some(loaded.secret), Some(loaded.cost_max));
                return Ok(Newest { table, secret, cost_max, standing });
            }
            Err(Fault::Version(version)) => return Err(RestoreError::Version { file, version }),
            Err(fault) => findings.push(format!("{file}: not used: {fault}")),
        }
        usable.pop();
        is_outdated = true;
    }
    let standing = Standing { is_outdated, ..Standing::default() };
    Ok(Newest { table: Table::new(), secret: None, cost_max: None, standing })
}

struct Loaded {
    secret: [u8; 16],
    cost_max: u64,
    bytes: u64,
}

fn load(folder: &Folder, seq: u64, progress: &mut Progress<'_>) -> Result<(Table, Loaded), Fault> {
    let opened = Opened::open(folder.disk(), &folder.path_of(seq))?;
    let header = *opened.header();
    if header.seq != seq {
        return Err(Fault::Damaged { at: 0, what: "the header names another seq than the file's name" });
    }
    let loaded = Loaded { secret: header.secret, cost_max: header.cost_max, bytes: opened.bytes() };
    Ok((table_of(opened, progress)?, loaded))
}

/// The table that a checkpoint is of.
///
/// # Errors
/// A check fails; the system says no.
pub fn table_of(opened: Opened, progress: &mut Progress<'_>) -> Result<Table, Fault> {
    let of = opened.header().entries;
    let (mut entries, mut table, mut done) = (opened.entries()?, Table::new(), 0);
    while let Some(kept) = entries.read_next()? {
        table.put(kept.key, kept.value, kept.rank);
        done += 1;
        progress(done, of);
    }
    if table.len() as u64 != of {
        return Err(Fault::Damaged { at: 0, what: "two entries have one key" });
    }
    Ok(table)
}
