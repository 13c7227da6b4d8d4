//! The pulled files in the snapshots directory.
//!
//! `.pulled` lists their names, one in a line. A name is added before its file appears, and leaves the list
//! after its file is removed. So a file that is not in the list belongs to somebody else, and is neither
//! replaced nor removed.
//!
//! A file is written as `.NAME.tmp`, compared with its length and hash, synced, and renamed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::list::{SourceFile, is_snapshot_name};
use crate::checksum::{FileHash, FileHasher};
use crate::site::catalog::directory::PULLED_NAME;
use crate::site::catalog::files::{FileList, FileState};
use crate::storage;

/// Bytes that are hashed at once.
const READ_BYTES: usize = 1 << 20;

/// The relation of a file in the source to the snapshots directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// The directory has the same content under this name.
    Present,
    Missing,
    /// The directory has other content under this name, and it was not pulled.
    Foreign,
}

/// The snapshots directory, as far as it was pulled.
pub(super) struct Mirror {
    directory: PathBuf,
    /// The names in `.pulled`.
    names: BTreeSet<String>,
    /// The hashes of files that were compared since the start.
    known: BTreeMap<String, FileHash>,
}

impl Mirror {
    /// Reads the list of a directory, and removes the temporary files of an earlier process.
    ///
    /// # Errors
    /// The list exists and cannot be read. Then it is not known which files may be replaced.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let text = match fs::read_to_string(directory.join(PULLED_NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let names: BTreeSet<_> =
            text.lines().filter(|name| is_snapshot_name(name)).map(str::to_owned).collect();
        for name in &names {
            // Most have none. One that cannot be removed is overwritten by the next attempt.
            let _ = fs::remove_file(temporary(directory, name));
        }
        Ok(Self { directory: directory.to_owned(), names, known: BTreeMap::new() })
    }

    /// Returns the names in the list.
    pub(super) fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// Compares a file of the source with the directory.
    pub(super) fn find(&mut self, file: &SourceFile) -> Presence {
        let path = self.directory.join(&file.name);
        let length = fs::metadata(&path).map(|meta| meta.len()).ok();
        if length == Some(file.bytes) {
            if self.known.get(&file.name) == Some(&file.hash) {
                return Presence::Present;
            }
            if hash_file(&path, file.hash).is_ok_and(|hash| hash == file.hash) {
                self.known.insert(file.name.clone(), file.hash);
                return Presence::Present;
            }
        }
        let exists = fs::symlink_metadata(&path).is_ok();
        if exists && !self.names.contains(&file.name) { Presence::Foreign } else { Presence::Missing }
    }

    /// Begins to write a file: adds its name to the list.
    ///
    /// # Errors
    /// The disk refuses it.
    pub(super) fn begin(&mut self, file: &SourceFile) -> io::Result<Download> {
        if self.names.insert(file.name.clone()) {
            self.save().inspect_err(|_| _ = self.names.remove(&file.name))?;
        }
        Download::create(&self.directory, file.clone())
    }

    /// Notes that a download is complete.
    pub(super) fn finished(&mut self, file: &SourceFile) {
        self.known.insert(file.name.clone(), file.hash);
    }

    /// Returns whether a pulled file is in the directory.
    pub(super) fn exists(&self, name: &str) -> bool {
        fs::symlink_metadata(self.directory.join(name)).is_ok()
    }

    /// Removes a pulled file.
    ///
    /// # Errors
    /// The disk refuses it.
    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.directory.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.known.remove(name);
        self.names.remove(name);
        self.save()
    }

    fn save(&self) -> io::Result<()> {
        let text: String = self.names.iter().map(|name| format!("{name}\n")).collect();
        storage::write_atomic(&self.directory.join(PULLED_NAME), text.as_bytes())
    }
}

/// Returns whether a pulled file may be removed now. `listed_files` are the files of the source, and `file_list` those
/// of the server's last scan.
///
/// A file that is not served may go. A served one may go if the server has accepted another listed file of
/// the same site, or all listed files. So no removal unpublishes a site because its other file is damaged,
/// has not arrived, or is of a newer release.
pub fn is_removable(name: &str, listed_files: &[SourceFile], file_list: &FileList) -> bool {
    // The server has not seen the file yet, or it knows more files than it reports.
    let Some(own) = file_list.find(name) else { return false };
    let site = match &own.site {
        Some((site, _)) if own.state == FileState::Served => site,
        _ => return true,
    };
    let accepted =
        |file: &SourceFile| file_list.find(&file.name).filter(|status| status.state != FileState::Refused);
    let is_same_site = |file: &SourceFile| {
        accepted(file).and_then(|status| status.site.as_ref()).is_some_and(|(other, _)| other == site)
    };
    listed_files.iter().any(is_same_site) || listed_files.iter().all(|file| accepted(file).is_some())
}

/// A file that is being written. Dropped before [`finish`](Self::finish), it leaves nothing.
pub(super) struct Download {
    file: File,
    source: SourceFile,
    hasher: FileHasher,
    written: u64,
    temporary: PathBuf,
    path: PathBuf,
}

impl Download {
    fn create(directory: &Path, source_file: SourceFile) -> io::Result<Self> {
        let temporary = temporary(directory, &source_file.name);
        Ok(Self {
            file: File::create(&temporary)?,
            hasher: FileHasher::for_kind(source_file.hash),
            written: 0,
            path: directory.join(&source_file.name),
            temporary,
            source: source_file,
        })
    }

    /// Returns the file as the source lists it.
    pub(super) fn source(&self) -> &SourceFile {
        &self.source
    }

    /// Compares length and hash, syncs the file and gives it its name.
    ///
    /// # Errors
    /// A difference, or the disk refuses it.
    pub(super) fn finish(mut self) -> Result<(), String> {
        let SourceFile { name, bytes, hash } = &self.source;
        if self.written != *bytes {
            return Err(format!("{name}: received {} bytes, expected {bytes}", self.written));
        }
        let hasher = std::mem::replace(&mut self.hasher, FileHasher::for_kind(*hash));
        if hasher.finish() != *hash {
            return Err(format!(
                "{name}: the content does not match the hash in the source; publish the file again"
            ));
        }
        self.commit().map_err(|error| format!("cannot write {}: {error}", self.path.display()))
    }

    fn commit(&self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.temporary, &self.path)?;
        let directory = self.path.parent().unwrap_or(Path::new("."));
        File::open(directory)?.sync_all()
    }
}

impl Write for Download {
    /// Refuses more bytes than the source lists.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.written + bytes.len() as u64 > self.source.bytes {
            let text = format!(
                "{} has more bytes than the {} that the source lists",
                self.source.name, self.source.bytes
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        self.written += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Download {
    /// Removes the temporary file. After a commit it no longer exists.
    fn drop(&mut self) {
        // The caller reports the first error, not this one. The next start removes a leftover file.
        let _ = fs::remove_file(&self.temporary);
    }
}

fn temporary(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!(".{name}.tmp"))
}

/// Returns the hash of a file, of the same kind as `expected`.
pub(super) fn hash_file(path: &Path, expected: FileHash) -> io::Result<FileHash> {
    let (mut file, _) = storage::open_regular(path)?;
    let mut hasher = FileHasher::for_kind(expected);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            count => hasher.update(&buffer[..count]),
        }
    }
}
