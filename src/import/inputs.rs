//! The inputs of an import: data directories and exports.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ImportOptions;
use super::error::ImportError;
use crate::log::{self, LogError, parse_segment_name};
use crate::record::TombstoneKey;
use crate::storage::disk::{DirectoryLock, Disk};
use crate::visitors::backup::is_of_node;

/// First bytes of files that are no NDJSON, and their names.
const FOREIGN: [(&[u8], &str); 4] = [
    (b"\x1F\x8B", "gzip; decompress it first"),
    (b"\x28\xB5\x2F\xFD", "zstd; decompress it first"),
    (b"PAR1", "Parquet; export as NDJSON (`parallax export DIR -o FILE`)"),
    (b"\xFD7zXZ", "xz; decompress it first"),
];

/// The identity and the content of an input. An import continues only with equal inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InputStamp {
    pub(super) path: String,
    pub(super) bytes: u64,
    /// The time of the last change of a file, in nanoseconds. 0 for a directory.
    modified_ns: i64,
    /// The ID of the log of a directory.
    log_id: Option<String>,
    /// The last seq of a directory.
    pub(super) last_seq: u64,
}

/// An input.
pub(super) struct Input {
    /// The path as the user wrote it.
    pub(super) path: PathBuf,
    pub(super) stamp: InputStamp,
    pub(super) kind: InputKind,
}

pub(super) enum InputKind {
    /// A data directory, which is locked.
    Directory {
        /// The key of the digests in its tombstones.
        key: Option<TombstoneKey>,
        _lock: Box<dyn DirectoryLock>,
    },
    /// An export.
    File,
}

/// Opens the inputs: the directories, then the files.
///
/// # Errors
/// An input cannot be imported, or a server uses a directory.
pub(super) fn open(disk: &Arc<dyn Disk>, options: &ImportOptions) -> Result<Vec<Input>, ImportError> {
    let directories = options.directories.iter().map(|path| open_directory(disk, path));
    let files = options.files.iter().map(|path| open_file(path));
    directories.chain(files).collect()
}

impl Input {
    /// Returns the key of the tombstones of a directory.
    pub(super) fn key(&self) -> Option<&TombstoneKey> {
        match &self.kind {
            InputKind::Directory { key, .. } => key.as_ref(),
            InputKind::File => None,
        }
    }

    /// Returns the error of an input that cannot be imported.
    pub(super) fn refuse(path: &Path, reason: impl Into<String>) -> ImportError {
        ImportError::Input { path: path.to_owned(), reason: reason.into() }
    }
}

fn open_file(path: &Path) -> Result<Input, ImportError> {
    let unreadable = |error: std::io::Error| Input::refuse(path, error.to_string());
    let mut file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(Input::refuse(path, "it is a directory; use --merge for a data directory"));
    }
    if !metadata.is_file() {
        let reason =
            "it is no regular file, so an interrupted import could not continue; write it to a file first";
        return Err(Input::refuse(path, reason));
    }
    let mut start = [0; 8];
    let read = file.read(&mut start).map_err(unreadable)?;
    if let Some((_, name)) = FOREIGN.iter().find(|(magic, _)| start[..read].starts_with(magic)) {
        return Err(Input::refuse(path, format!("its format is {name}")));
    }
    let stamp = InputStamp {
        path: absolute(path),
        bytes: metadata.len(),
        modified_ns: metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec()),
        log_id: None,
        last_seq: 0,
    };
    Ok(Input { path: path.to_owned(), stamp, kind: InputKind::File })
}

fn open_directory(disk: &Arc<dyn Disk>, path: &Path) -> Result<Input, ImportError> {
    let unreadable = |error: std::io::Error| Input::refuse(path, error.to_string());
    if !log::contains_log(&**disk, path).map_err(unreadable)? {
        return Err(Input::refuse(
            path,
            "it contains no segment of a log; use the directory of serve --data",
        ));
    }
    if is_of_node(&**disk, path).map_err(unreadable)? {
        let reason = "it is the directory of a node of a cluster, whose erasures are those of the cluster; export it, and import the export";
        return Err(Input::refuse(path, reason));
    }
    let lock = disk.lock(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => ImportError::Log(LogError::Locked { dir: path.to_owned() }),
        _ => unreadable(error),
    })?;
    let range = log::seq_range(Arc::clone(disk), path)?;
    let key = TombstoneKey::read(Arc::clone(disk), path)?;
    let tombstones = log::scan_tombstones(disk, path)?.tombstones;
    if key.is_none() && !tombstones.is_empty() {
        let reason = "the file `secret` is missing, so nothing can tell which visitors were erased; restore it from a backup";
        return Err(Input::refuse(path, reason));
    }
    let names = disk.list(path).map_err(unreadable)?;
    let segments = names.iter().filter(|name| parse_segment_name(name).is_some());
    let bytes = segments.map(|name| fs::metadata(path.join(name)).map_or(0, |metadata| metadata.len())).sum();
    let stamp = InputStamp {
        path: absolute(path),
        bytes,
        modified_ns: 0,
        log_id: range.log_id.map(|log_id| log_id.to_string()),
        last_seq: range.last,
    };
    Ok(Input { path: path.to_owned(), stamp, kind: InputKind::Directory { key, _lock: lock } })
}

fn absolute(path: &Path) -> String {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}
