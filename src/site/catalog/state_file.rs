//! A small file of the data directory that the watcher replaces as a whole, after a publication.
//!
//! ```text
//! OFFSET  SIZE  FIELD           MEANING
//! 0       8     magic           of the kind of file
//! 8       4     format version  of the kind of file
//! 12      4     zero
//! 16      8     payload length  bytes after the header; the file ends there
//! 24      32    hash            BLAKE3 of bytes 0..24 and of the payload, in this order
//! 56      n     payload
//! ```
//!
//! Numbers of the header are little-endian. **Writing**: under a temporary name (a dot file), sync, rename,
//! sync of the directory. Serving does not depend on such a file: one that is missing or damaged counts as
//! empty, and one that cannot be written is written later.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::clock;
use crate::little_endian::u32_at;
use crate::storage;
use crate::storage::disk::{Disk, FileIdentity, RealDisk};
use crate::varint::Decoder;

/// Length of the header. The payload follows it.
pub(super) const HEADER_BYTES: usize = 56;
const HASH_OFFSET: usize = 24;

/// Pause after a failed attempt to write the file. The watcher scans more often.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A kind of file.
#[derive(Debug)]
pub(crate) struct FileKind {
    /// The name of the file.
    pub name: &'static str,
    pub magic: [u8; 8],
    /// The format version that this release writes.
    pub format_version: u32,
    /// The earliest format version that this release reads.
    pub format_version_min: u32,
    /// A larger file is damage and is not read.
    pub bytes_max: u64,
    /// The content, for log lines.
    pub content: &'static str,
    /// The consequence of a file that cannot be read, for log lines.
    pub if_unreadable: &'static str,
    /// The consequence of a file that cannot be written, for log lines.
    pub if_unsaved: &'static str,
}

/// Damage of a file, or another format version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the file `{name}` is damaged: {reason}")]
pub struct FileDamage {
    name: &'static str,
    reason: &'static str,
}

impl FileKind {
    /// Completes the content of a file: `bytes` are [`HEADER_BYTES`] zeros and the payload.
    pub(super) fn seal(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        bytes[..8].copy_from_slice(&self.magic);
        bytes[8..12].copy_from_slice(&self.format_version.to_le_bytes());
        let payload_bytes = (bytes.len() - HEADER_BYTES) as u64;
        bytes[16..HASH_OFFSET].copy_from_slice(&payload_bytes.to_le_bytes());
        let hash = hash_of(&bytes);
        bytes[HASH_OFFSET..HEADER_BYTES].copy_from_slice(&hash);
        bytes
    }

    /// Returns the format version and the payload of a file.
    ///
    /// # Errors
    /// The content is damaged, or of another format version.
    pub(super) fn unseal<'b>(&self, bytes: &'b [u8]) -> Result<(u32, &'b [u8]), FileDamage> {
        let (header, payload) = bytes
            .split_at_checked(HEADER_BYTES)
            .ok_or_else(|| self.damage("it is shorter than its header"))?;
        if header[..8] != self.magic {
            return Err(self.damage("it does not begin with its magic"));
        }
        let format_version = u32_at(header, 8);
        if !(self.format_version_min..=self.format_version).contains(&format_version) {
            return Err(self.damage("its format version is unknown"));
        }
        if header[16..HASH_OFFSET] != (payload.len() as u64).to_le_bytes() {
            return Err(self.damage("its length differs from the length in its header"));
        }
        if header[HASH_OFFSET..] != hash_of(bytes) {
            return Err(self.damage("its hash is wrong"));
        }
        Ok((format_version, payload))
    }

    /// Returns the damage of a file of this kind.
    pub(super) fn damage(&self, reason: &'static str) -> FileDamage {
        FileDamage { name: self.name, reason }
    }

    /// Reads and decodes the file at `path`. `None` if there is no such file.
    ///
    /// # Errors
    /// The file cannot be read, or it is damaged.
    pub(super) fn read<T>(
        &self,
        path: &Path,
        decode: impl Fn(&[u8]) -> Result<T, FileDamage>,
    ) -> io::Result<Option<T>> {
        let bytes = match self.read_bounded(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        let content = decode(&bytes).map_err(|damage| io::Error::new(ErrorKind::InvalidData, damage))?;
        Ok(Some(content))
    }

    fn read_bounded(&self, path: &Path) -> io::Result<Vec<u8>> {
        let (file, stamp) = storage::open_regular(path)?;
        if stamp.length > self.bytes_max {
            let reason = format!("expected at most {} bytes, got {}", self.bytes_max, stamp.length);
            return Err(io::Error::new(ErrorKind::InvalidData, reason));
        }
        let mut bytes = Vec::with_capacity(stamp.length as usize);
        file.take(self.bytes_max).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

fn hash_of(bytes: &[u8]) -> [u8; 32] {
    crate::checksum::digest(&[&bytes[..HASH_OFFSET], &bytes[HEADER_BYTES..]])
}

/// A file in a data directory, and the state of the attempts to write it.
#[derive(Debug)]
pub(crate) struct StateFile {
    kind: &'static FileKind,
    path: PathBuf,
    /// The directory at the first attempt. Another one at its path belongs to another server.
    directory: Option<FileIdentity>,
    /// The last error, which was logged, and the time of the next attempt.
    failure: Option<(String, Instant)>,
    /// True if the temporary files of earlier processes are deleted.
    is_clean: bool,
}

impl StateFile {
    /// Returns the file of a data directory.
    pub(crate) fn new(kind: &'static FileKind, directory: &Path) -> Self {
        Self { kind, path: directory.join(kind.name), directory: None, failure: None, is_clean: false }
    }

    /// Reads the file. A file that is damaged or cannot be read is logged. It counts as an empty one.
    pub(super) fn load<T: Default>(&self, decode: impl Fn(&[u8]) -> Result<T, FileDamage>) -> T {
        let read = self.kind.read(&self.path, decode).unwrap_or_else(|error| {
            let kind = self.kind;
            let path = self.path.display();
            tracing::warn!(%path, %error, "cannot read the {}; {}", kind.content, kind.if_unreadable);
            None
        });
        read.unwrap_or_default()
    }

    /// Replaces the file. Returns whether that is done. An error is logged once, and further attempts have a pause
    /// between them.
    pub(super) fn save(&mut self, encode: impl FnOnce() -> Vec<u8>) -> bool {
        let now = clock::instant();
        if self.failure.as_ref().is_some_and(|(_, next)| now < *next) {
            return false;
        }
        let written = self.replace(&encode()).map_err(|error| error.to_string());
        let path = self.path.display();
        let kind = self.kind;
        match &written {
            Ok(()) if self.failure.is_some() => {
                tracing::info!(%path, "the {} can be saved again", kind.content)
            }
            Err(error) if self.failure.as_ref().is_none_or(|(before, _)| before != error) => {
                tracing::warn!(%path, error, "cannot save the {}; {}", kind.content, kind.if_unsaved);
            }
            _ => {}
        }
        self.failure = written.err().map(|error| (error, clock::instant() + RETRY_AFTER));
        self.failure.is_none()
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        let identity = RealDisk.identity(self.path.parent().unwrap_or(Path::new(".")))?;
        if *self.directory.get_or_insert(identity) != identity {
            return Err(io::Error::other("the data directory was replaced; restart the server"));
        }
        if !std::mem::replace(&mut self.is_clean, true) {
            self.delete_temporary_files();
        }
        storage::write_data_file(&self.path, bytes)
    }

    /// Deletes the temporary files of processes that were killed.
    fn delete_temporary_files(&self) {
        let Some(Ok(names)) = self.path.parent().map(std::fs::read_dir) else { return };
        let prefix = format!(".{}.", self.kind.name);
        for entry in names.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(&prefix) && name.ends_with(".tmp") {
                // Another attempt follows at the next start.
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// Decodes a map: the number of its entries, and the entries, sorted by their keys.
pub(super) fn decode_sorted<'p, T>(
    decoder: &mut Decoder<'p>,
    decode_value: impl Fn(&mut Decoder<'p>) -> Option<T>,
) -> Option<BTreeMap<String, T>> {
    let mut map: BTreeMap<String, T> = BTreeMap::new();
    for _ in 0..decoder.number()? {
        let key = decoder.text()?.to_owned();
        let is_sorted = map.last_key_value().is_none_or(|(last, _)| *last < key);
        let value = decode_value(decoder)?;
        is_sorted.then(|| map.insert(key, value))?;
    }
    Some(map)
}
