//! The files that the scrub reads, and the check of each kind. `parallax check` uses the same checks.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::insights::{ColumnFileError, Columns, parse_column_file_name};
use crate::log::{self, LogError, SECRET_FILE, parse_segment_name};
use crate::storage::disk::{Disk, is_loss};
use crate::visitors::checkpoint::directory::seq_of;
use crate::visitors::checkpoint::reader::{CheckpointError, CheckpointReader};
use crate::visitors::checkpoint::restore::check_content;

/// A file that nothing is appended to any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A segment, with its first seq and the one of the next segment.
    Segment(u64, u64),
    Checkpoint(u64),
    Columns,
    Secret,
}

/// A file to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScrubbedFile {
    pub name: String,
    kind: Kind,
}

/// A damaged place of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub offset: u64,
    /// The name of the file, and the damage.
    pub text: String,
}

/// Returns the files to check, in the order of their names. The last segment is the one that is written.
///
/// # Errors
/// The directory cannot be listed.
pub(super) fn list(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<ScrubbedFile>> {
    let mut names = disk.list(dir)?;
    names.sort_unstable();
    let seqs: Vec<u64> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
    let kind = |name: &str| {
        if let Some(first_seq) = parse_segment_name(name) {
            let next = seqs.partition_point(|seq| *seq <= first_seq);
            return seqs.get(next).map(|next_seq| Kind::Segment(first_seq, *next_seq));
        }
        if let Some(seq) = seq_of(name) {
            return Some(Kind::Checkpoint(seq));
        }
        if parse_column_file_name(name).is_some() {
            return Some(Kind::Columns);
        }
        (name == SECRET_FILE).then_some(Kind::Secret)
    };
    Ok(names.into_iter().filter_map(|name| kind(&name).map(|kind| ScrubbedFile { name, kind })).collect())
}

/// Returns whether a file that does not exist was deleted on purpose: retention has expired the segment, or the file
/// is replaced by another one.
///
/// # Errors
/// An I/O error.
pub(super) fn is_deleted_on_purpose(disk: &Arc<dyn Disk>, dir: &Path, name: &str) -> io::Result<bool> {
    match parse_segment_name(name) {
        Some(first_seq) => log::is_expired(disk, dir, first_seq),
        None => Ok(name != SECRET_FILE),
    }
}

impl ScrubbedFile {
    /// Checks every byte of the file, and returns its damage.
    ///
    /// # Errors
    /// The file does not exist, or cannot be read for a reason that says nothing about its bytes.
    pub(super) fn check(&self, disk: &Arc<dyn Disk>, dir: &Path) -> io::Result<Vec<Finding>> {
        let finding = |offset, text| Finding { offset, text };
        let path = dir.join(&self.name);
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", self.name);
        let checked = match self.kind {
            Kind::Segment(first_seq, next_seq) => match log::check_sealed(disk, dir, first_seq, next_seq) {
                Ok(damage) => {
                    Ok(damage.iter().map(|damage| finding(damage.offset, damage.to_string())).collect())
                }
                Err(LogError::Io { source, .. }) => Err(source),
                // The start has read the header, so its version was another one.
                Err(error) => Ok(vec![finding(0, named(&error))]),
            },
            Kind::Secret => log::check_key(disk, dir).map(|damage| {
                damage.into_iter().map(|damage| finding(damage.offset, damage.to_string())).collect()
            }),
            Kind::Checkpoint(seq) => match check_checkpoint(&**disk, &path, seq) {
                Err(CheckpointError::Io(error)) => Err(error),
                Err(error @ CheckpointError::Damaged { at, .. }) => Ok(vec![finding(at, named(&error))]),
                // A start does not use a file of another log or release, and the next checkpoints replace it.
                Ok(()) | Err(_) => Ok(Vec::new()),
            },
            Kind::Columns => match Columns::check_file(&**disk, &path) {
                Err(ColumnFileError::Io(error)) => Err(error),
                Err(error @ ColumnFileError::Damaged(_)) => Ok(vec![finding(0, named(&error))]),
                // The server builds a file of another log or release again.
                Ok(()) | Err(_) => Ok(Vec::new()),
            },
        };
        match checked {
            Err(error) if is_loss(&error) => {
                Ok(vec![finding(0, named(&format_args!("the disk has lost bytes: {error}")))])
            }
            other => other,
        }
    }
}

fn check_checkpoint(disk: &dyn Disk, path: &Path, seq: u64) -> Result<(), CheckpointError> {
    let opened = CheckpointReader::open(disk, path)?;
    if opened.header().seq != seq {
        let what = "the seq in the header differs from the file name";
        return Err(CheckpointError::Damaged { at: 0, what });
    }
    check_content(opened)
}
