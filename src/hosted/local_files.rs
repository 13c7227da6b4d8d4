//! The file operations of the authoring commands, over the files that the host has read.
//!
//! A command is restarted until the host has read every path that it looks at. A path that the host has not read is an error for
//! the command, and the host reads it for the next run. The changes of a command are a list, which the host carries out after the
//! last run. A command sees its own changes. If the host cannot carry out a change, the next run gets its error.

mod host_error;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

pub use self::host_error::HostError;

/// The state of a path, as the host has read it. Links are followed.
#[derive(Debug, Clone)]
pub enum Fact {
    /// The path cannot be read.
    Unreadable(HostError),
    Directory(Result<Vec<Entry>, HostError>),
    /// A regular file: its length, and its first bytes.
    File {
        length: usize,
        content: Result<Vec<u8>, HostError>,
    },
    /// A pipe, a socket or a device.
    Special,
}

/// An entry of a directory.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The name, with U+FFFD in place of bytes that are not UTF-8.
    pub name: OsString,
    pub is_utf8: bool,
    pub kind: EntryKind,
}

/// The kind of an entry of a directory. A link is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
    Link,
    /// A pipe, a socket or a device.
    Special,
}

/// A change that the host carries out.
#[derive(Debug, Clone)]
pub enum Change {
    CreateDirectories(PathBuf),
    Write(PathBuf, Vec<u8>),
    /// Writes a file that appears under its name when it is complete.
    WriteAtomic(PathBuf, Vec<u8>),
    Delete(PathBuf),
}

/// The files of a run: those that the host has read, and the changes of the command.
#[derive(Debug, Default)]
pub struct HostFiles {
    /// By path as the command names it, with the absolute path without links.
    pub facts: BTreeMap<PathBuf, (Fact, PathBuf)>,
    /// The errors of changes, by their numbers in the list.
    pub failures: BTreeMap<usize, HostError>,
    /// The paths that the host must read, with the number of bytes of a file.
    pub needs: BTreeMap<PathBuf, usize>,
    pub changes: Vec<Change>,
    created: BTreeSet<PathBuf>,
    written: BTreeMap<PathBuf, Vec<u8>>,
    deleted: BTreeSet<PathBuf>,
}

thread_local! {
    static FILES: RefCell<HostFiles> = RefCell::default();
}

/// Begins a run.
pub(crate) fn begin(mut files: HostFiles) {
    // A path that cannot be read may be another spelling of one that can, such as `file/`.
    let readable = files.facts.values().filter(|(fact, _)| !matches!(fact, Fact::Unreadable(_)));
    let by_real_path: Vec<_> = readable.cloned().map(|(fact, real)| (real.clone(), (fact, real))).collect();
    for (path, fact) in by_real_path {
        files.facts.entry(path).or_insert(fact);
    }
    FILES.set(files);
}

/// Returns the needs and the changes of the run.
pub(crate) fn take() -> HostFiles {
    FILES.take()
}

impl Entry {
    pub(crate) fn name(&self) -> OsString {
        self.name.clone()
    }

    pub(crate) fn is_utf8(&self) -> bool {
        self.is_utf8
    }

    pub(crate) fn kind(&self) -> io::Result<EntryKind> {
        Ok(self.kind)
    }
}

impl HostFiles {
    /// Returns the state of a path before the changes, with the first bytes of a file.
    fn fact(&mut self, path: &Path, bytes_max: usize) -> io::Result<Fact> {
        match self.facts.get(path) {
            Some((Fact::File { length, content: Ok(content) }, _))
                if content.len() < (*length).min(bytes_max) => {}
            Some((fact, _)) => return Ok(fact.clone()),
            None => {}
        }
        let bytes = self.needs.entry(path.to_owned()).or_default();
        *bytes = bytes_max.max(*bytes);
        Err(io::Error::other("the host has not read this path yet"))
    }

    /// Returns the state of a path after the changes.
    fn look(&mut self, path: &Path, bytes_max: usize) -> io::Result<Fact> {
        let key = normalized(path);
        if let Some(bytes) = self.written.get(&key) {
            return Ok(Fact::File { length: bytes.len(), content: Ok(bytes.clone()) });
        }
        if self.deleted.contains(&key) {
            return Ok(Fact::Unreadable(HostError::not_found()));
        }
        let fact = self.fact(path, bytes_max)?;
        let is_created = self.created.contains(&key);
        let fact = if is_created && matches!(fact, Fact::Unreadable(_)) {
            Fact::Directory(Ok(Vec::new()))
        } else {
            fact
        };
        let Fact::Directory(Ok(mut entries)) = fact else { return Ok(fact) };
        let children = self.created.iter().map(|path| (path, EntryKind::Directory));
        for (child, kind) in children.chain(self.written.keys().map(|path| (path, EntryKind::File))) {
            if child.parent() == Some(&key)
                && let Some(name) = child.file_name()
                && entries.iter().all(|entry| entry.name != name)
            {
                entries.push(Entry { name: name.to_owned(), is_utf8: true, kind });
            }
        }
        entries.retain(|entry| !self.deleted.contains(&key.join(&entry.name)));
        Ok(Fact::Directory(Ok(entries)))
    }

    /// Adds a change. Returns its error, if the host could not carry it out.
    fn change(&mut self, change: Change) -> io::Result<()> {
        let number = self.changes.len();
        self.changes.push(change);
        self.failures.get(&number).map_or(Ok(()), |error| Err(error.to_io_error()))
    }
}

/// Returns a path without `.` and without a `/` at its end.
fn normalized(path: &Path) -> PathBuf {
    path.components().filter(|component| *component != Component::CurDir).collect()
}

/// Calls a function with the files of the run.
fn with_files<T>(function: impl FnOnce(&mut HostFiles) -> io::Result<T>) -> io::Result<T> {
    FILES.with_borrow_mut(function)
}

/// Announces that the command will read a path, so that the host reads it at once.
pub(crate) fn announce(path: &Path) {
    let _ = with_files(|files| files.fact(path, 0));
}

/// Ends the reading of several paths.
///
/// # Errors
/// The host has not read all of them yet.
pub(crate) fn finish_reading() -> io::Result<()> {
    with_files(|files| match files.needs.is_empty() {
        true => Ok(()),
        false => Err(io::Error::other("the host has not read all paths yet")),
    })
}

/// Returns the absolute path without links.
pub(crate) fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    with_files(|files| {
        let fact = files.look(path, 0)?;
        let real = files.facts.get(path).map_or_else(|| path.to_owned(), |(_, real)| real.clone());
        match fact {
            Fact::Unreadable(error) => Err(error.to_io_error()),
            _ => Ok(real),
        }
    })
}

/// Returns the entries of a directory. It has none if the host has not read it yet.
pub(crate) fn read_directory(path: &Path) -> io::Result<impl Iterator<Item = io::Result<Entry>>> {
    let entries = with_files(|files| match files.look(path, 0) {
        // `finish_reading` ends the run.
        Err(_) => Ok(Vec::new()),
        Ok(Fact::Directory(entries)) => entries.map_err(|error| error.to_io_error()),
        Ok(Fact::Unreadable(error)) => Err(error.to_io_error()),
        Ok(_) => Err(HostError::not_a_directory().to_io_error()),
    })?;
    Ok(entries.into_iter().map(Ok))
}

/// Returns whether the path exists.
pub(crate) fn exists(path: &Path) -> bool {
    with_files(|files| files.look(path, 0)).is_ok_and(|fact| !matches!(fact, Fact::Unreadable(_)))
}

/// Returns whether the path is a directory, or a link to one.
pub(crate) fn is_directory(path: &Path) -> bool {
    with_files(|files| files.look(path, 0)).is_ok_and(|fact| matches!(fact, Fact::Directory(_)))
}

/// Returns whether the path is a file, or a link to one.
pub(crate) fn is_file(path: &Path) -> bool {
    with_files(|files| files.look(path, 0)).is_ok_and(|fact| matches!(fact, Fact::File { .. }))
}

/// Reads a file up to a number of bytes.
pub(crate) fn read_at_most(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    read(path, bytes_max).map_err(|fact| match fact {
        Refused::Error(error) => error,
        Refused::NotAFile => HostError::is_a_directory().to_io_error(),
    })
}

/// Reads the first bytes of a regular file.
pub(crate) fn read_first_bytes(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    read(path, bytes_max).map_err(|fact| match fact {
        Refused::Error(error) => error,
        Refused::NotAFile => io::Error::new(ErrorKind::InvalidInput, "not a regular file or a link to one"),
    })
}

/// Returns the length of a regular file in bytes.
pub(crate) fn length(path: &Path) -> io::Result<usize> {
    with_files(|files| match files.look(path, 0)? {
        Fact::File { length, .. } => Ok(length),
        _ => Err(ErrorKind::InvalidInput.into()),
    })
}

enum Refused {
    Error(io::Error),
    NotAFile,
}

fn read(path: &Path, bytes_max: usize) -> Result<Vec<u8>, Refused> {
    match with_files(|files| files.look(path, bytes_max)).map_err(Refused::Error)? {
        Fact::File { content, .. } => {
            let mut content = content.map_err(|error| Refused::Error(error.to_io_error()))?;
            content.truncate(bytes_max);
            Ok(content)
        }
        Fact::Unreadable(error) => Err(Refused::Error(error.to_io_error())),
        Fact::Directory(_) | Fact::Special => Err(Refused::NotAFile),
    }
}

/// Creates a directory, and those above it.
pub(crate) fn create_directories(path: &Path) -> io::Result<()> {
    with_files(|files| {
        let key = normalized(path);
        if files.created.contains(&key) {
            return Ok(());
        }
        // The parent of a created directory is created or exists.
        let is_known = key.parent().is_some_and(|parent| files.created.contains(parent));
        if !is_known && matches!(files.look(path, 0)?, Fact::Directory(_)) {
            return Ok(());
        }
        files.change(Change::CreateDirectories(path.to_owned()))?;
        files.created.extend(key.ancestors().map(Path::to_owned));
        Ok(())
    })
}

/// Writes a file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    with_files(|files| {
        files.change(Change::Write(path.to_owned(), bytes.to_owned()))?;
        files.note_written(path, bytes);
        Ok(())
    })
}

/// Writes a file that appears under its name complete and durable.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.file_name().is_none() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the path has no file name"));
    }
    with_files(|files| {
        files.change(Change::WriteAtomic(path.to_owned(), bytes.to_owned()))?;
        files.note_written(path, bytes);
        Ok(())
    })
}

/// Deletes a file.
pub(crate) fn delete_file(path: &Path) -> io::Result<()> {
    with_files(|files| {
        files.change(Change::Delete(path.to_owned()))?;
        let key = normalized(path);
        files.written.remove(&key);
        files.deleted.insert(key);
        Ok(())
    })
}

impl HostFiles {
    fn note_written(&mut self, path: &Path, bytes: &[u8]) {
        let key = normalized(path);
        self.deleted.remove(&key);
        self.written.insert(key, bytes.to_owned());
    }
}
