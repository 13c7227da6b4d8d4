//! The authored files of one site, read from a directory or from memory (the binary embeds its demo site).
//!
//! Files are sorted by path. A path is relative to the site directory and written with `/`. Hidden files,
//! names that do not end in `.json`, and directories other than `routes/` and `content/` are ignored. Those that
//! look as if the author expects them to be read are listed as skipped. Nothing outside the site directory is
//! read. A file that cannot be read stays in the list with its error, so that
//! the report shows it with the other diagnostics.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::limits::{CONTENT_FILE_BYTES_MAX, SOURCE_FILE_BYTES_MAX, SOURCE_FILES_MAX};
use crate::local_files::{self, Entry, EntryKind};
use crate::nearest::nearest;
use crate::parallel;

/// The only directories that contain authored files of the site.
const DIRECTORIES: [&str; 2] = ["routes", "content"];

/// The only directory that contains tests, which are not published.
const TEST_DIRECTORIES: [&str; 1] = ["tests"];

/// The names of authored files outside of these directories, without their ending.
const TOP_NAMES: [&str; 4] = ["site", "audiences", "groups", "queries"];

/// The expectations that a skipped directory and a skipped file do not meet.
const EXPECTED_DIRECTORY: &str = "a directory `routes` or `content`";
const EXPECTED_NAME: &str = "a name that ends in `.json`";

/// The part of a site directory that is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    /// The site, without its tests.
    #[default]
    Site,
    Tests,
}

/// The authored files of one site, or its tests, by path.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Files {
    part: Part,
    files: BTreeMap<String, Result<Vec<u8>, FileError>>,
    /// The skipped files and directories, by path, with the expectation that each does not meet.
    skipped: BTreeMap<String, &'static str>,
}

/// The reason why a file was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    pub expected: String,
    pub actual: String,
}

impl Files {
    /// Reads the files of a site directory.
    ///
    /// Follows a link only to a regular file inside the directory. Stops after `SOURCE_FILES_MAX + 1` files.
    ///
    /// # Errors
    /// An error of the operating system (no such directory, permission denied), with the path.
    pub fn from_directory(dir: &Path) -> io::Result<Files> {
        Self::read(dir, Part::Site)
    }

    /// Reads the files in the directory `tests` of a site directory, as [`from_directory`](Self::from_directory) reads the site.
    ///
    /// # Errors
    /// As for [`from_directory`](Self::from_directory).
    pub(crate) fn tests_from_directory(dir: &Path) -> io::Result<Files> {
        Self::read(dir, Part::Tests)
    }

    fn read(dir: &Path, part: Part) -> io::Result<Files> {
        let root = local_files::canonicalize(dir).map_err(|error| with_path(dir, error))?;
        let mut files = Files { part, ..Files::default() };
        let mut found = Vec::new();
        files.scan(&root, "", &mut found)?;
        let read = |_: &mut (), found: &FoundFile| read_found(&root, found);
        let contents = parallel::map(&found, || (), read, &|_, _| {});
        for (found, content) in found.into_iter().zip(contents) {
            files.files.insert(found.path, content.map_err(|error| with_path(&found.location, error))?);
        }
        local_files::finish_reading()?;
        Ok(files)
    }

    /// Uses files that are already in memory.
    pub fn from_memory<'a>(texts: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Files {
        let mut files = Files::default();
        for (path, bytes) in texts {
            match files.part.has_file(path) {
                true => {
                    let content = check_size(bytes.to_vec(), bytes_max(path));
                    files.files.insert(path.to_owned(), content);
                }
                false => files.skip(path),
            }
        }
        files
    }

    /// Lists a file of a site that is not read, or the first directory above it that is not read, if the author may expect it to be.
    fn skip(&mut self, path: &str) {
        let directories = path.match_indices('/').map(|(at, _)| &path[..at]);
        match directories.into_iter().find(|directory| !self.part.has_directory(directory)) {
            Some(directory) => self.skip_directory(directory),
            None if self.part.looks_authored(path) => {
                self.skipped.insert(path.to_owned(), EXPECTED_NAME);
            }
            None => {}
        }
    }

    /// Lists a directory that is not read, if its name is similar to that of one that is.
    fn skip_directory(&mut self, path: &str) {
        if self.part == Part::Site && nearest(path, DIRECTORIES).is_some() {
            self.skipped.insert(path.to_owned(), EXPECTED_DIRECTORY);
        }
    }

    /// Returns the skipped files and directories, sorted by path, each with the expectation that it does not meet.
    pub fn skipped(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.skipped.iter().map(|(path, expected)| (path.as_str(), *expected))
    }

    /// Returns all files, sorted by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Result<&[u8], &FileError>)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file.as_deref()))
    }

    /// Returns the bytes of a file, if it exists and was read.
    pub fn bytes(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path)?.as_deref().ok()
    }

    /// Returns whether a file with this path exists, even if it could not be read.
    pub fn contains(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    pub fn len(&self) -> usize {
        self.files.len()
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Lists the files in a directory and its subdirectories, without reading them.
    fn scan(&mut self, dir: &Path, prefix: &str, files: &mut Vec<FoundFile>) -> io::Result<()> {
        for entry in local_files::read_directory(dir).map_err(|error| with_path(dir, error))? {
            let entry = entry.map_err(|error| with_path(dir, error))?;
            let path = format!("{prefix}{}", entry.name().to_string_lossy());
            let location = dir.join(entry.name());
            let scanned = self.scan_entry(&entry, &location, path, files);
            scanned.map_err(|error| with_path(&location, error))?;
            if files.len() > SOURCE_FILES_MAX {
                break;
            }
        }
        Ok(())
    }

    fn scan_entry(
        &mut self,
        entry: &Entry,
        location: &Path,
        path: String,
        files: &mut Vec<FoundFile>,
    ) -> io::Result<()> {
        let kind = entry.kind()?;
        if kind == EntryKind::Directory {
            if self.part.has_directory(&path) {
                return self.scan(location, &format!("{path}/"), files);
            }
            self.skip_directory(&path);
            return Ok(());
        }
        let linked_folder =
            kind == EntryKind::Link && self.part.has_directory(&path) && local_files::is_directory(location);
        if self.part.has_file(&path) || linked_folder {
            let is_utf8 = entry.is_utf8();
            files.push(FoundFile { path, location: location.to_owned(), kind, is_utf8 });
        } else if self.part.looks_authored(&path) {
            self.skipped.insert(path, EXPECTED_NAME);
        }
        Ok(())
    }
}

impl Part {
    fn directories(self) -> &'static [&'static str] {
        match self {
            Self::Site => &DIRECTORIES,
            Self::Tests => &TEST_DIRECTORIES,
        }
    }

    /// Returns whether this is the path of an authored file, including files in a wrong place, which are
    /// reported.
    fn has_file(self, path: &str) -> bool {
        let is_inside = match path.split_once('/') {
            Some((dir, _)) => self.directories().contains(&dir),
            None => self == Self::Site,
        };
        is_inside && path.ends_with(".json") && !is_hidden(path)
    }

    /// Returns whether a file without the ending of authored files is in their place or has the name of one.
    fn looks_authored(self, path: &str) -> bool {
        let is_inside = path.split_once('/').is_some_and(|(dir, _)| self.directories().contains(&dir));
        let is_top = |stem: &str| self == Self::Site && TOP_NAMES.contains(&stem);
        let is_named = path.split_once('.').is_some_and(|(stem, _)| is_top(stem));
        (is_inside || is_named) && !is_hidden(path)
    }

    fn has_directory(self, path: &str) -> bool {
        let top = path.split('/').next().unwrap_or(path);
        self.directories().contains(&top) && !is_hidden(path)
    }
}

/// A listed file.
struct FoundFile {
    /// See [`Files`].
    path: String,
    location: PathBuf,
    kind: EntryKind,
    /// True if the file name is UTF-8.
    is_utf8: bool,
}

/// Reads the bytes of a file, or returns the reason why it is rejected.
fn read_found(root: &Path, file: &FoundFile) -> io::Result<Result<Vec<u8>, FileError>> {
    if !file.is_utf8 {
        return Ok(Err(file_error("a file name in UTF-8", "other bytes")));
    }
    if file.kind == EntryKind::Link && !links_to_file_inside(root, &file.location) {
        let expected = "a file, or a link to a file inside the site directory";
        return Ok(Err(file_error(expected, "a link to something else")));
    }
    if !matches!(file.kind, EntryKind::Link | EntryKind::File) {
        return Ok(Err(file_error("a regular file", "a special file")));
    }
    read_bounded(&file.location, bytes_max(&file.path))
}

fn links_to_file_inside(root: &Path, link: &Path) -> bool {
    let target = local_files::canonicalize(link);
    target.is_ok_and(|target| target.starts_with(root) && local_files::is_file(&target))
}

/// Reads at most one byte more than the limit, so that a file that grows meanwhile is bounded too.
fn read_bounded(path: &Path, bytes_max: usize) -> io::Result<Result<Vec<u8>, FileError>> {
    Ok(check_size(local_files::read_at_most(path, bytes_max + 1)?, bytes_max))
}

fn bytes_max(path: &str) -> usize {
    if path.starts_with("content/") { CONTENT_FILE_BYTES_MAX } else { SOURCE_FILE_BYTES_MAX }
}

fn check_size(bytes: Vec<u8>, bytes_max: usize) -> Result<Vec<u8>, FileError> {
    if bytes.len() <= bytes_max {
        return Ok(bytes);
    }
    let expected = format!("a file of at most {bytes_max} bytes");
    Err(file_error(&expected, "a larger file"))
}

fn is_hidden(path: &str) -> bool {
    path.split('/').any(|name| name.starts_with('.'))
}

fn file_error(expected: &str, actual: &str) -> FileError {
    FileError { expected: expected.to_owned(), actual: actual.to_owned() }
}

/// Adds the path in front of an error message, unless the message already contains it.
fn with_path(path: &Path, error: io::Error) -> io::Error {
    let text = error.to_string();
    let already = text.contains(&*path.to_string_lossy());
    io::Error::new(error.kind(), if already { text } else { format!("{}: {text}", path.display()) })
}
