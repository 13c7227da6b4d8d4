//! The place of the entries of ownership: the newest checkpoint, and memory.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::{Ownership, OwnershipError};
use crate::log::{LogError, LogReader};
use crate::record::TombstoneKey;
use crate::storage::damage::KnownDamage;
use crate::storage::disk::Disk;
use crate::visitors::checkpoint::directory::{CheckpointDirectory, checkpoint_name};
use crate::visitors::checkpoint::reader::{CheckpointError, CheckpointReader};
use crate::visitors::checkpoint::sections::TieIndex;
use crate::visitors::ties::known::KnownTies;

/// Attempts to open the newest checkpoint. Each failed attempt means that a newer one has replaced it, and that
/// the log writer does not know this yet.
const OPEN_ATTEMPTS_MAX: usize = 100;
/// Time between two of these attempts. The log writer learns of a new checkpoint within 5 ms. It is a sleep on the
/// thread of a job, and each attempt needs a look at the disk anyway.
const OPEN_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The place of the entries of ownership.
#[derive(Clone)]
pub struct OwnershipSource {
    /// The disk with the data directory.
    pub disk: Arc<dyn Disk>,
    /// The data directory.
    pub directory: PathBuf,
    /// The entries since the newest checkpoint.
    pub known: KnownTies,
    /// The key and the orders of a node of a cluster. `None` if the server is alone.
    pub cluster: Option<ClusterOwnership>,
    /// The damage that readers of the data directory report.
    pub damage: KnownDamage,
}

/// A function that maps the seq of an own record to the order of the entries.
pub(crate) type OrderOf = Arc<dyn Fn(u64) -> u64 + Send + Sync>;

/// The parts of ownership that differ on a node of a cluster.
#[derive(Clone)]
pub struct ClusterOwnership {
    /// The key of the cluster.
    pub key: TombstoneKey,
    /// The orders of the own records.
    pub order_of: OrderOf,
}

impl OwnershipSource {
    /// Opens the log for reading the records after `after_seq`. The reader reports the damage that it meets.
    ///
    /// # Errors
    /// An I/O error, or a format version that this release does not know.
    pub(crate) fn reader(&self, after_seq: u64) -> Result<LogReader, LogError> {
        let reader = LogReader::open(Arc::clone(&self.disk), &self.directory, after_seq)?;
        Ok(reader.with_known_damage(self.damage.clone()))
    }

    /// Reads the entries as of now.
    ///
    /// # Errors
    /// The checkpoint or the key is missing or damaged, or cannot be read.
    pub fn open(&self) -> Result<Ownership, OwnershipError> {
        let key = match &self.cluster {
            Some(cluster) => cluster.key.clone(),
            None => read_key(&self.disk, &self.directory)?,
        };
        let order_of = self.cluster.as_ref().map(|cluster| Arc::clone(&cluster.order_of));
        let mut attempts = 1;
        loop {
            let copy = self.known.copy();
            if ![0, key.check()].contains(&copy.key_check) {
                return Err(OwnershipError::OtherSecret(self.directory.clone()));
            }
            match self.index(copy.base_seq) {
                Err(CheckpointError::Io(error))
                    if error.kind() == ErrorKind::NotFound && attempts < OPEN_ATTEMPTS_MAX =>
                {
                    attempts += 1;
                    thread::sleep(OPEN_POLL_INTERVAL);
                }
                index => {
                    let recent = copy.recent.sorted();
                    let as_of_seq = copy.last_seq();
                    return Ok(Ownership { key, index: index?, recent, as_of_seq, order_of });
                }
            }
        }
    }

    fn index(&self, checkpoint_seq: u64) -> Result<Option<TieIndex>, CheckpointError> {
        if checkpoint_seq == 0 {
            return Ok(None);
        }
        let directory = CheckpointDirectory::new(Arc::clone(&self.disk), &self.directory);
        let index = CheckpointReader::open(directory.disk(), &directory.path_of(checkpoint_seq))
            .and_then(TieIndex::new);
        if let Err(error @ CheckpointError::Damaged { at, .. }) = &index {
            let file = checkpoint_name(checkpoint_seq);
            self.damage.report(&file, *at, &format_args!("{file}: {error}"));
        }
        index.map(Some)
    }
}

fn read_key(disk: &Arc<dyn Disk>, directory: &Path) -> Result<TombstoneKey, OwnershipError> {
    let key = TombstoneKey::read(Arc::clone(disk), directory)?;
    key.ok_or_else(|| OwnershipError::NoSecret(directory.to_owned()))
}
