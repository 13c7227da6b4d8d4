//! The files that a source has, and the format of `current.json`: the list of a bucket, an HTTP directory or
//! a directory.
//!
//! ```json
//! {"files":[{"name":"acme-43.snapshot","bytes":1048576,"blake3":"<64 hexadecimal digits>"}]}
//! ```
//!
//! The file is beside the snapshots that it names. Unknown members are ignored. A list without files is
//! refused: it would remove every site.

use std::collections::BTreeSet;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Serialize};

use crate::checksum::FileHash;
use crate::limits::{ARCHIVE_BYTES_MAX, PIECE_DATA_BYTES_MAX};
use crate::site::snapshot::format::HEADER_BYTES;

/// Name of the list.
pub const LIST_NAME: &str = "current.json";
/// Most files in a source. The server reports the states of 1,000 files, and the puller removes a file only
/// if it knows the states. A source with more files is refused as a whole.
pub const FILES_MAX: usize = 1_000;
/// Largest list, in bytes: [`FILES_MAX`] entries of 400 bytes, and room. A larger one is refused unread.
pub const LIST_BYTES_MAX: usize = 512 << 10;
/// Longest name of a file, in bytes. A file system allows 255, of which the temporary name needs 5.
pub const NAME_BYTES_MAX: usize = 200;
/// Largest file, in bytes: the largest snapshot. A larger one is refused before its first byte is fetched.
pub const FILE_BYTES_MAX: u64 = HEADER_BYTES as u64 + ARCHIVE_BYTES_MAX + PIECE_DATA_BYTES_MAX;

/// A snapshot in a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// The name in the source and in the snapshots directory.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// The hash of the whole file.
    pub hash: FileHash,
}

impl SourceFile {
    /// Checks name and length.
    ///
    /// # Errors
    /// The limit that the file exceeds.
    pub fn check(&self) -> Result<(), ListError> {
        let Self { name, bytes, .. } = self;
        if !is_snapshot_name(name) {
            return Err(ListError::Name(name.chars().take(NAME_BYTES_MAX).collect()));
        }
        if *bytes == 0 || *bytes > FILE_BYTES_MAX {
            return Err(ListError::Length { name: name.clone(), bytes: *bytes });
        }
        Ok(())
    }
}

/// The reason why a list is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    #[error("{LIST_NAME} is not valid: {0}")]
    Json(String),
    #[error("{LIST_NAME} has more than {LIST_BYTES_MAX} bytes")]
    TooLong,
    #[error("{LIST_NAME} has no files; an empty list would remove every site, so it changes nothing")]
    Empty,
    #[error("the source has {0} files, the limit is {FILES_MAX}; remove old versions")]
    TooMany(usize),
    #[error(
        "{0:?} is not the name of a snapshot: it must end with .snapshot, begin with a letter or a digit, and have at most {NAME_BYTES_MAX} of A-Z, a-z, 0-9, '.', '_' and '-'"
    )]
    Name(String),
    #[error("{LIST_NAME} names {0} twice")]
    Twice(String),
    #[error("{name} has {bytes} bytes, the limits are 1 and {FILE_BYTES_MAX}")]
    Length { name: String, bytes: u64 },
    #[error("the hash of {0} is not 64 hexadecimal digits")]
    Hash(String),
}

#[derive(Serialize, Deserialize)]
struct Document {
    files: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    name: String,
    bytes: u64,
    blake3: String,
}

/// Returns whether a file of a source may have this name. No such name leaves the directory or is hidden.
pub fn is_snapshot_name(name: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    name.len() <= NAME_BYTES_MAX
        && name.len() > ".snapshot".len()
        && name.ends_with(".snapshot")
        && name.as_bytes()[0].is_ascii_alphanumeric()
        && name.bytes().all(is_valid)
}

/// Parses a `current.json`.
///
/// # Errors
/// The first mistake. A list with one bad entry is refused as a whole.
pub fn parse(bytes: &[u8]) -> Result<Vec<SourceFile>, ListError> {
    if bytes.len() > LIST_BYTES_MAX {
        return Err(ListError::TooLong);
    }
    let document: Document =
        serde_json::from_slice(bytes).map_err(|error| ListError::Json(error.to_string()))?;
    match document.files.len() {
        0 => return Err(ListError::Empty),
        count if count > FILES_MAX => return Err(ListError::TooMany(count)),
        _ => {}
    }
    let mut names = BTreeSet::new();
    let mut files = Vec::with_capacity(document.files.len());
    for Entry { name, bytes, blake3 } in document.files {
        let hash = parse_hex(&blake3).ok_or_else(|| ListError::Hash(name.clone()))?;
        let file = SourceFile { name, bytes, hash: FileHash::Blake3(hash) };
        file.check()?;
        if !names.insert(file.name.clone()) {
            return Err(ListError::Twice(file.name));
        }
        files.push(file);
    }
    Ok(files)
}

/// Formats a `current.json`. Files with another hash than BLAKE3 have no entry.
pub fn format(files: &[SourceFile]) -> String {
    let entry = |file: &SourceFile| match file.hash {
        FileHash::Blake3(hash) => {
            Some(Entry { name: file.name.clone(), bytes: file.bytes, blake3: HEXLOWER.encode(&hash) })
        }
        FileHash::Sha256(_) => None,
    };
    let document = Document { files: files.iter().filter_map(entry).collect() };
    serde_json::to_string(&document).expect("texts and numbers are JSON") + "\n"
}

fn parse_hex(text: &str) -> Option<[u8; 32]> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
}
