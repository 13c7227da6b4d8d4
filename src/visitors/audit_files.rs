//! Copies the audit log of a data directory, whose files name nobody. A copy has all of its lines.

use std::io;
use std::path::Path;

use crate::data_files::{AUDIT_DIRECTORY, audit_number_in_name};
use crate::storage::disk::{Disk, copy_range, list_if_present};

/// The size of a copied audit log.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CopiedAuditLog {
    pub(super) files: usize,
    pub(super) bytes: u64,
}

/// Copies the audit log of `source_dir` to `target_dir`. Calls `on_copied` with the paths of each file and its copy.
///
/// # Errors
/// The first I/O error.
pub(super) fn copy_audit_log(
    disk: &dyn Disk,
    source_dir: &Path,
    target_dir: &Path,
    on_copied: impl Fn(&Path, &Path) -> io::Result<()>,
) -> io::Result<CopiedAuditLog> {
    let [source, target] = [source_dir, target_dir].map(|dir| dir.join(AUDIT_DIRECTORY));
    let names = audit_file_names(disk, &source)?;
    let mut copied = CopiedAuditLog::default();
    if names.is_empty() {
        return Ok(copied);
    }
    disk.create_directory(&target)?;
    for name in &names {
        let original = source.join(name);
        let copy_path = target.join(name);
        let mut copy = disk.create(&copy_path)?;
        copy_range(&*disk.open(&original)?, 0..u64::MAX, &mut *copy)?;
        copy.sync_data()?;
        on_copied(&original, &copy_path)?;
        copied.files += 1;
        copied.bytes += copy.length()?;
    }
    disk.sync_directory(&target)?;
    Ok(copied)
}

/// Returns the size of the audit log of a data directory in bytes.
///
/// # Errors
/// The first I/O error.
pub(super) fn audit_log_bytes(disk: &dyn Disk, dir: &Path) -> io::Result<u64> {
    let dir = dir.join(AUDIT_DIRECTORY);
    let length = |name: &String| disk.open(&dir.join(name))?.length();
    audit_file_names(disk, &dir)?.iter().map(length).sum()
}

/// Deletes the files of the audit log in a copy that is not finished.
///
/// # Errors
/// The first I/O error.
pub(super) fn delete_audit_log(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let dir = dir.join(AUDIT_DIRECTORY);
    audit_file_names(disk, &dir)?.iter().try_for_each(|name| disk.unlink(&dir.join(name)))
}

fn audit_file_names(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<String>> {
    let mut names = list_if_present(disk, dir)?;
    names.retain(|name| audit_number_in_name(name).is_some());
    Ok(names)
}
