//! The comparison of a migrated directory with its original: every record, every entry of a checkpoint, and every byte of the other
//! files.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{MigrationError, Plan, io_error};
use crate::limits::READ_CHUNK_BYTES;
use crate::log::{self, LogError, LogItem, LogReader, parse_segment_name};
use crate::storage::disk::{Disk, read_full};
use crate::visitors::checkpoint::reader::{CheckpointError, CheckpointReader};

impl Plan {
    /// Compares the logs record by record. Returns the number of records, and the damage, which both have.
    pub(super) fn compare_logs(
        &self,
        disk: &Arc<dyn Disk>,
        copy_dir: &Path,
    ) -> Result<(u64, Vec<String>), MigrationError> {
        let differs = |difference: String| MigrationError::Differs { file: "the log".to_owned(), difference };
        let copied_range = log::seq_range(Arc::clone(disk), copy_dir)?;
        if copied_range != self.range {
            return Err(differs(format!("it has {copied_range:?} instead of {:?}", self.range)));
        }
        let open = |dir: &Path| -> Result<LogReader, LogError> {
            Ok(LogReader::open(Arc::clone(disk), dir, 0)?.with_durable_seq(self.range.last))
        };
        let mut originals = open(&self.dir)?;
        let mut copies = open(copy_dir)?;
        let mut count = 0;
        let mut damage = Vec::new();
        loop {
            match (originals.read_next()?, copies.read_next()?) {
                (None, None) => return Ok((count, damage)),
                (Some(LogItem::Damage(original)), Some(LogItem::Damage(copy))) if original == copy => {
                    damage.push(original.to_string());
                }
                (Some(LogItem::Records(original)), Some(LogItem::Records(copy)))
                    if original.seqs() == copy.seqs() && original.encoded() == copy.encoded() =>
                {
                    count += original.seqs().end - original.seqs().start;
                }
                (original, copy) => {
                    return Err(differs(format!("{} instead of {}", describe(copy), describe(original))));
                }
            }
        }
    }

    /// Compares all files but segments and checkpoints byte by byte.
    pub(super) fn compare_files(&self, disk: &dyn Disk, copy_dir: &Path) -> Result<(), MigrationError> {
        for name in self.files.keys().filter(|name| parse_segment_name(name).is_none()) {
            let [original, copy] = [&self.dir, copy_dir].map(|dir: &Path| dir.join(name));
            let is_equal = have_equal_bytes(disk, &original, &copy).map_err(io_error(&copy))?;
            if !is_equal {
                return Err(MigrationError::Differs {
                    file: name.clone(),
                    difference: "other bytes".to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Compares the checkpoints entry by entry. Returns the number of entries of the newest one.
    pub(super) fn compare_checkpoints(
        &self,
        disk: &dyn Disk,
        copy_dir: &Path,
    ) -> Result<Option<u64>, MigrationError> {
        let mut profiles = None;
        for name in self.checkpoints.keys() {
            let failed = |source| MigrationError::Checkpoint { file: name.clone(), source };
            let differs = |difference: &str| MigrationError::Differs {
                file: name.clone(),
                difference: difference.to_owned(),
            };
            let open = |dir: &Path| CheckpointReader::open(disk, &dir.join(name));
            let original = open(&self.dir).map_err(failed)?;
            let copy = open(copy_dir).map_err(failed)?;
            if original.header() != copy.header() || original.parts() != copy.parts() {
                return Err(differs("another header or trailer"));
            }
            if !has_equal_entries(original, copy).map_err(failed)? {
                return Err(differs("other profiles"));
            }
            profiles = Some(open(copy_dir).map_err(failed)?.header().entries);
        }
        Ok(profiles)
    }
}

fn describe(item: Option<LogItem<'_>>) -> String {
    match item {
        None => "its end".to_owned(),
        Some(LogItem::Damage(damage)) => damage.to_string(),
        Some(LogItem::Records(records)) => format!("the records {:?}", records.seqs()),
    }
}

fn has_equal_entries(original: CheckpointReader, copy: CheckpointReader) -> Result<bool, CheckpointError> {
    let same_ties = original.ties().map(Result::ok).eq(copy.ties().map(Result::ok));
    let same_state = original.lost_aliases()? == copy.lost_aliases()? && original.sites()? == copy.sites()?;
    if !same_ties || !same_state {
        return Ok(false);
    }
    let mut originals = original.entries()?;
    let mut copies = copy.entries()?;
    loop {
        match (originals.read_next()?, copies.read_next()?) {
            (None, None) => return Ok(true),
            (Some(original), Some(copy)) if original == copy => {}
            _ => return Ok(false),
        }
    }
}

fn have_equal_bytes(disk: &dyn Disk, left: &Path, right: &Path) -> io::Result<bool> {
    let files = [disk.open(left)?, disk.open(right)?];
    let mut buffers = [vec![0; READ_CHUNK_BYTES], vec![0; READ_CHUNK_BYTES]];
    let mut offset = 0;
    loop {
        let mut lengths = [0; 2];
        for ((file, buffer), length) in files.iter().zip(&mut buffers).zip(&mut lengths) {
            *length = read_full(&**file, buffer, offset)?;
        }
        let [left_length, right_length] = lengths;
        if left_length != right_length || buffers[0][..left_length] != buffers[1][..left_length] {
            return Ok(false);
        }
        if left_length == 0 {
            return Ok(true);
        }
        offset += left_length as u64;
    }
}
