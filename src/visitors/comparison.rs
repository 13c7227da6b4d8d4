//! The comparison of a copied directory with its original: every record, every entry of a checkpoint, and every byte of the other
//! files.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::checkpoint::reader::{CheckpointError, CheckpointReader};
use crate::limits::READ_CHUNK_BYTES;
use crate::log::{self, Damage, LogError, LogItem, LogReader, SeqRange};
use crate::storage::disk::{Disk, read_full};

/// The reason why a copy cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompareError {
    /// The copy differs from the original.
    #[error("the copy of {file} differs from the original: {difference}; nothing was changed")]
    Differs {
        /// The file, or `the log`.
        file: String,
        /// The difference.
        difference: String,
    },
    /// A checkpoint cannot be read.
    #[error("{file}: {source}")]
    Checkpoint {
        /// The name of the file.
        file: String,
        /// The error.
        source: CheckpointError,
    },
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The operating system returned an error.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// The records of a log that were compared.
#[derive(Debug, Default)]
pub(super) struct ComparedLog {
    pub(super) record_count: u64,
    /// The damage, which both logs have.
    pub(super) damage: Vec<String>,
}

/// The content of an item of a log.
#[derive(PartialEq)]
enum ItemContent<'a> {
    Records { seqs: Range<u64>, bytes: &'a [u8] },
    Damage(&'a Damage),
}

impl<'a> ItemContent<'a> {
    fn of(item: &'a LogItem<'_>) -> Self {
        match item {
            LogItem::Records(records) => Self::Records { seqs: records.seqs(), bytes: records.encoded() },
            LogItem::Damage(damage) => Self::Damage(damage),
        }
    }

    fn describe(content: Option<&Self>) -> String {
        match content {
            None => "its end".to_owned(),
            Some(Self::Damage(damage)) => damage.to_string(),
            Some(Self::Records { seqs, .. }) => format!("the records {} to {}", seqs.start, seqs.end - 1),
        }
    }
}

/// Compares two logs record by record. `range` is that of the original.
///
/// # Errors
/// They differ, or cannot be read.
pub(super) fn compare_logs(
    disk: &Arc<dyn Disk>,
    original_dir: &Path,
    copy_dir: &Path,
    range: &SeqRange,
) -> Result<ComparedLog, CompareError> {
    let differs = |difference: String| CompareError::Differs { file: "the log".to_owned(), difference };
    let copied_range = log::seq_range(Arc::clone(disk), copy_dir)?;
    if copied_range != *range {
        let text = |range: &SeqRange| format!("the seqs {} to {}", range.first, range.last);
        return Err(differs(format!("it has {} instead of {}", text(&copied_range), text(range))));
    }
    let open = |dir: &Path| -> Result<LogReader, LogError> {
        Ok(LogReader::open(Arc::clone(disk), dir, 0)?.with_durable_seq(range.last))
    };
    let mut originals = open(original_dir)?;
    let mut copies = open(copy_dir)?;
    let mut compared = ComparedLog::default();
    loop {
        let original_item = originals.read_next()?;
        let copied_item = copies.read_next()?;
        let original = original_item.as_ref().map(ItemContent::of);
        let copy = copied_item.as_ref().map(ItemContent::of);
        if original != copy {
            let [original, copy] = [&original, &copy].map(|content| ItemContent::describe(content.as_ref()));
            return Err(differs(format!("{copy} instead of {original}")));
        }
        match original {
            None => return Ok(compared),
            Some(ItemContent::Damage(damage)) => compared.damage.push(damage.to_string()),
            Some(ItemContent::Records { seqs, .. }) => compared.record_count += seqs.end - seqs.start,
        }
    }
}

/// Compares two checkpoints entry by entry. Returns the number of entries.
///
/// # Errors
/// They differ, or cannot be read.
pub(super) fn compare_checkpoints(
    disk: &dyn Disk,
    original_dir: &Path,
    copy_dir: &Path,
    name: &str,
) -> Result<u64, CompareError> {
    let failed = |source| CompareError::Checkpoint { file: name.to_owned(), source };
    let open = |dir: &Path| CheckpointReader::open(disk, &dir.join(name)).map_err(failed);
    let original = open(original_dir)?;
    let copy = open(copy_dir)?;
    let entry_count = original.header().entries;
    let is_equal = original.header() == copy.header()
        && original.parts() == copy.parts()
        && has_equal_entries(original, copy).map_err(failed)?;
    if is_equal {
        return Ok(entry_count);
    }
    Err(CompareError::Differs { file: name.to_owned(), difference: "other profiles".to_owned() })
}

/// Compares two files byte by byte.
///
/// # Errors
/// They differ, or cannot be read.
pub(super) fn compare_files(
    disk: &dyn Disk,
    original_dir: &Path,
    copy_dir: &Path,
    name: &str,
) -> Result<(), CompareError> {
    let copy_path = copy_dir.join(name);
    match have_equal_bytes(disk, &original_dir.join(name), &copy_path) {
        Ok(true) => Ok(()),
        Ok(false) => {
            Err(CompareError::Differs { file: name.to_owned(), difference: "other bytes".to_owned() })
        }
        Err(source) => Err(CompareError::Io { path: copy_path, source }),
    }
}

fn has_equal_entries(original: CheckpointReader, copy: CheckpointReader) -> Result<bool, CheckpointError> {
    let same_state = original.lost_aliases()? == copy.lost_aliases()? && original.sites()? == copy.sites()?;
    if !same_state || !has_equal_ties(&original, &copy)? {
        return Ok(false);
    }
    let mut originals = original.entries()?;
    let mut copies = copy.entries()?;
    loop {
        let original_entry = originals.read_next()?;
        if original_entry != copies.read_next()? {
            return Ok(false);
        }
        if original_entry.is_none() {
            return Ok(true);
        }
    }
}

fn has_equal_ties(original: &CheckpointReader, copy: &CheckpointReader) -> Result<bool, CheckpointError> {
    let mut originals = original.ties();
    let mut copies = copy.ties();
    loop {
        let original_tie = originals.next().transpose()?;
        if original_tie != copies.next().transpose()? {
            return Ok(false);
        }
        if original_tie.is_none() {
            return Ok(true);
        }
    }
}

fn have_equal_bytes(disk: &dyn Disk, original_path: &Path, copy_path: &Path) -> io::Result<bool> {
    let original = disk.open(original_path)?;
    let copy = disk.open(copy_path)?;
    let mut original_bytes = vec![0; READ_CHUNK_BYTES];
    let mut copied_bytes = vec![0; READ_CHUNK_BYTES];
    let mut offset = 0;
    loop {
        let length = read_full(&*original, &mut original_bytes, offset)?;
        let copied_length = read_full(&*copy, &mut copied_bytes, offset)?;
        if original_bytes[..length] != copied_bytes[..copied_length] {
            return Ok(false);
        }
        if length == 0 {
            return Ok(true);
        }
        offset += length as u64;
    }
}
