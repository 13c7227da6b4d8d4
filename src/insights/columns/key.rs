//! The file `columns-key`, with the key of the visitor hashes.

use std::io;
use std::path::Path;

use super::build::VisitorKey;
use crate::storage::disk::{Disk, append_all, read_full};
use crate::visitors::log::COLUMNS_KEY_FILE;

/// Temporary name of a file of this module. The log writer and an erasure have names of their own.
const TEMPORARY_FILE: &str = ".columns";

/// Reads the key of the column files in `dir`. Without a valid file it draws one, with which no column file can be
/// read. The second value is true if it was drawn.
///
/// # Errors
/// An I/O error.
pub(crate) fn load_or_draw_key(disk: &dyn Disk, dir: &Path) -> io::Result<(VisitorKey, bool)> {
    let file = match disk.open(&dir.join(COLUMNS_KEY_FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((VisitorKey::random(), true)),
        other => other?,
    };
    let mut bytes = [0; 17];
    let length = read_full(&*file, &mut bytes, 0)?;
    let key = bytes[..length].try_into().ok().map(VisitorKey);
    Ok(key.map_or_else(|| (VisitorKey::random(), true), |key| (key, false)))
}

/// Writes the key.
///
/// # Errors
/// The first I/O error.
pub(crate) fn store_key(disk: &dyn Disk, dir: &Path, key: VisitorKey) -> io::Result<()> {
    let mut file = disk.create(&dir.join(TEMPORARY_FILE))?;
    append_all(&mut *file, &key.0)?;
    file.sync_data()?;
    disk.rename(&dir.join(TEMPORARY_FILE), &dir.join(COLUMNS_KEY_FILE))?;
    disk.sync_directory(dir)
}
