//! The names of the snapshot files in a directory.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use crate::local_files;

/// Returns the names of the snapshot files in a directory.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn list_snapshot_names(directory: &Path) -> io::Result<BTreeSet<OsString>> {
    let names = local_files::read_directory(directory)?.map(|entry| Ok(entry?.name()));
    names.filter(|name| name.as_ref().map_or(true, |name| is_snapshot_name(name))).collect()
}

/// Returns whether a file name ends in `.snapshot` and does not begin with a dot.
pub(crate) fn is_snapshot_name(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.ends_with(b".snapshot") && !name.starts_with(b".")
}
