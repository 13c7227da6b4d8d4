//! Deletes the copies that earlier backups have of segments that an erasure has rewritten since.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::{Backup, MakeBackupError, Target};
use crate::log::{TombstoneScan, is_erasing, is_rewritten, parse_segment_name, scan_tombstones};
use crate::storage::disk::{Disk, RealDisk};
use crate::storage::read_stamp;
use crate::visitors::checkpoint::directory::seq_of;

/// The result of [`forget_erased`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Forgotten {
    /// Deleted files.
    pub(crate) files: usize,
    /// Backups that lost one, and are incomplete now.
    pub(crate) backups: usize,
}

/// Deletes from the backups `earlier` the segments and quarantined tails that have other records in the newest backup
/// `newest_path`: an erasure has made them void. If an erasure is later than a backup, it also deletes the segments that
/// retention has deleted since, because nothing tells any more whom they name. A backup that has lost a segment loses its
/// checkpoints, too, since they have the profiles of the erased visitors. So does a backup without its first records: its
/// checkpoints can have the profile of an erased visitor of whom it has no record.
///
/// # Errors
/// A file cannot be read or deleted. The next run continues.
pub(crate) fn forget_erased(
    target: &Target,
    newest_path: &Path,
    earlier: &mut [Backup],
) -> Result<Forgotten, MakeBackupError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let newest = scan_tombstones(&disk, newest_path)?;
    let mut forgotten = Forgotten::default();
    for backup in earlier {
        let names = stale_files(&disk, &newest, newest_path, &backup.path)?;
        if names.is_empty() {
            continue;
        }
        // A backup that has no longer all files is not complete any more, also if the process is killed here.
        target.set_incomplete(backup)?;
        for name in &names {
            let path = backup.path.join(name);
            disk.unlink(&path).map_err(|error| MakeBackupError::io(&path, error))?;
        }
        disk.sync_directory(&backup.path).map_err(|error| MakeBackupError::io(&backup.path, error))?;
        forgotten.files += names.len();
        forgotten.backups += 1;
    }
    Ok(forgotten)
}

/// Returns the names of the files to delete in a backup.
fn stale_files(
    disk: &Arc<dyn Disk>,
    newest: &TombstoneScan,
    newest_path: &Path,
    backup_path: &Path,
) -> Result<Vec<String>, MakeBackupError> {
    let failed = |error| MakeBackupError::io(backup_path, error);
    let range = scan_tombstones(disk, backup_path)?.range;
    let is_later = |seq: u64| seq > range.last;
    // Retention may have deleted the tombstones between the two backups, or the backup has an erasure that was interrupted.
    let is_older_than_an_erasure = newest.tombstones.iter().any(|tombstone| is_later(tombstone.seq))
        || newest.range.first > range.last + 1
        || is_erasing(&**disk, backup_path).map_err(failed)?;
    let names = disk.list(backup_path).map_err(failed)?;
    let mut stale = Vec::new();
    for name in names.iter().filter(|name| parse_segment_name(name).is_some() || name.contains(TORN)) {
        let old_path = backup_path.join(name);
        let new_path = newest_path.join(name);
        let old_stamp = read_stamp(&old_path).map_err(failed)?;
        let is_stale = match read_stamp(&new_path) {
            Ok(new_stamp) if old_stamp.is_same_file(&new_stamp) => false,
            // Without an erasure, other records are a loss of the data directory, and the backup has the only copy.
            Ok(_) => is_older_than_an_erasure && is_rewritten(disk, &old_path, &new_path).map_err(failed)?,
            Err(error) if error.kind() == ErrorKind::NotFound => is_older_than_an_erasure,
            Err(error) => return Err(failed(error)),
        };
        stale.extend(is_stale.then(|| name.clone()));
    }
    if !stale.is_empty() || is_older_than_an_erasure && range.first > 1 {
        stale.extend(names.iter().filter(|name| seq_of(name).is_some()).cloned());
    }
    Ok(stale)
}

/// A part of the name of a quarantined tail.
const TORN: &str = ".torn-";
