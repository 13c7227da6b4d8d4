//! The table of visitors of a data directory, folded for a command: the newest checkpoint and the records after it.
//!
//! It takes no lock, so a server may run meanwhile. The table has the memory limit of the checkpoint.

use std::path::Path;
use std::sync::Arc;

use super::checkpoint::directory::CheckpointDirectory;
use super::checkpoint::reader::CheckpointReader;
use super::checkpoint::restore::{LogRange, RestoreError, RestoredTable, read_newest};
use super::live::{ProfileReaders, ProfileTable};
use crate::ids;
use crate::limits::PROFILES_MEMORY_BYTES_DEFAULT;
use crate::log::{self, LogError, LogItem, LogReader};
use crate::record::TombstoneKey;
use crate::storage::disk::Disk;

/// The table of visitors of a data directory.
pub(crate) struct FoldedDirectory {
    pub(crate) profiles: ProfileReaders,
    /// The unusable checkpoints and the damage of the log, a line each.
    pub(crate) warnings: Vec<String>,
    /// The owner of the memory that the readers read.
    _table: ProfileTable,
}

/// The reason why a data directory cannot be folded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FoldDirectoryError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Restore(#[from] RestoreError),
}

/// Folds the data directory of a server that is no node of a cluster.
///
/// # Errors
/// A file cannot be read, or it is of another release.
pub(crate) fn fold_directory(
    disk: &Arc<dyn Disk>,
    directory: &Path,
) -> Result<FoldedDirectory, FoldDirectoryError> {
    let checkpoints = CheckpointDirectory::new(Arc::clone(disk), directory);
    let range = log::seq_range(Arc::clone(disk), directory)?;
    let log_range = LogRange { first: range.first, log_id: range.log_id };
    let restored = read_newest(&checkpoints, log_range, PROFILES_MEMORY_BYTES_DEFAULT, &mut |_, _| {})?;
    let RestoredTable { table, state, secret, seq, mut warnings, .. } = restored;
    let hash_key = secret.unwrap_or_else(ids::random_hash_key);
    let checkpoint = CheckpointReader::open(&**disk, &checkpoints.path_of(seq));
    let cost_max =
        checkpoint.map_or(PROFILES_MEMORY_BYTES_DEFAULT, |checkpoint| checkpoint.header().cost_max);
    let (table, profiles) = ProfileTable::from_table(table, state, hash_key, cost_max);
    let mut table = table.with_tombstone_key(TombstoneKey::read(Arc::clone(disk), directory)?);
    let mut reader = LogReader::open_to_end(disk, directory, seq, range.last)?;
    while let Some(item) = reader.read_next()? {
        match item {
            LogItem::Records(records) => table.fold(records),
            LogItem::Damage(damage) => warnings.push(damage.to_string()),
        }
    }
    Ok(FoldedDirectory { profiles, warnings, _table: table })
}
