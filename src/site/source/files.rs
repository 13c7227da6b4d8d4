//! The authored files of one site, read from a directory or from memory (the binary embeds its demo site).
//!
//! Files are sorted by path. A path is relative to the site directory and written with `/`. Hidden files,
//! names that do not end in `.json`, and directories other than `routes/` and `content/` are ignored. Those that
//! look as if the author expects them to be read are listed as skipped. Nothing outside the site directory is
//! read. A file that cannot be read stays in the list with its error, so that
//! the report shows it with the other diagnostics.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry, File, FileType};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::limits::{CONTENT_FILE_BYTES_MAX, SOURCE_FILE_BYTES_MAX, SOURCE_FILES_MAX};
use crate::nearest::nearest;
use crate::parallel;

/// The only directories that contain authored files.
const DIRECTORIES: [&str; 2] = ["routes", "content"];

/// The names of authored files outside of these directories, without their ending.
const TOP_NAMES: [&str; 4] = ["site", "audiences", "groups", "queries"];

/// The authored files of one site, by path.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Files {
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
        let root = dir.canonicalize().map_err(|error| with_path(dir, error))?;
        let mut files = Files::default();
        let mut found = Vec::new();
        files.scan(&root, "", &mut found)?;
        let read = |_: &mut (), found: &FoundFile| read_found(&root, found);
        let contents = parallel::map(&found, || (), read, &|_, _| {});
        for (found, content) in found.into_iter().zip(contents) {
            files.files.insert(found.path, content.map_err(|error| with_path(&found.location, error))?);
        }
        Ok(files)
    }

    /// Uses files that are already in memory.
    pub fn from_memory<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Files {
        let authored = files.into_iter().filter(|(path, _)| is_authored(path));
        let files =
            authored.map(|(path, bytes)| (path.to_owned(), check_size(bytes.to_vec(), bytes_max(path))));
        Files { files: files.collect(), skipped: BTreeMap::new() }
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
        for entry in fs::read_dir(dir).map_err(|error| with_path(dir, error))? {
            let entry = entry.map_err(|error| with_path(dir, error))?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            self.scan_entry(&entry, path, files).map_err(|error| with_path(&entry.path(), error))?;
            if files.len() > SOURCE_FILES_MAX {
                break;
            }
        }
        Ok(())
    }

    fn scan_entry(&mut self, entry: &DirEntry, path: String, files: &mut Vec<FoundFile>) -> io::Result<()> {
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if is_authored_directory(&path) {
                return self.scan(&entry.path(), &format!("{path}/"), files);
            }
            if nearest(&path, DIRECTORIES).is_some() {
                self.skipped.insert(path, "a directory `routes` or `content`");
            }
            return Ok(());
        }
        let linked_folder = kind.is_symlink() && is_authored_directory(&path) && entry.path().is_dir();
        if is_authored(&path) || linked_folder {
            let is_utf8 = entry.file_name().to_str().is_some();
            files.push(FoundFile { path, location: entry.path(), kind, is_utf8 });
        } else if looks_authored(&path) {
            self.skipped.insert(path, "a name that ends in `.json`");
        }
        Ok(())
    }
}

/// A listed file.
struct FoundFile {
    /// See [`Files`].
    path: String,
    location: PathBuf,
    kind: FileType,
    /// True if the file name is UTF-8.
    is_utf8: bool,
}

/// Reads the bytes of a file, or returns the reason why it is rejected.
fn read_found(root: &Path, file: &FoundFile) -> io::Result<Result<Vec<u8>, FileError>> {
    if !file.is_utf8 {
        return Ok(Err(file_error("a file name in UTF-8", "other bytes")));
    }
    if file.kind.is_symlink() && !links_to_file_inside(root, &file.location) {
        let expected = "a file, or a link to a file inside the site directory";
        return Ok(Err(file_error(expected, "a link to something else")));
    }
    if !file.kind.is_symlink() && !file.kind.is_file() {
        return Ok(Err(file_error("a regular file", "a special file")));
    }
    read_bounded(&file.location, bytes_max(&file.path))
}

fn links_to_file_inside(root: &Path, link: &Path) -> bool {
    let target = link.canonicalize();
    target.is_ok_and(|target| target.starts_with(root) && target.is_file())
}

/// Reads at most one byte more than the limit, so that a file that grows meanwhile is bounded too.
fn read_bounded(path: &Path, bytes_max: usize) -> io::Result<Result<Vec<u8>, FileError>> {
    let file = File::open(path)?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(length.min(bytes_max) + 1);
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    Ok(check_size(bytes, bytes_max))
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

/// Returns whether this is the path of an authored file, including files in a wrong place, which are
/// reported.
fn is_authored(path: &str) -> bool {
    let dir = path.split_once('/').map(|(dir, _)| dir);
    path.ends_with(".json") && !is_hidden(path) && dir.is_none_or(|dir| DIRECTORIES.contains(&dir))
}

/// Returns whether a file without the ending of authored files is in their place or has the name of one.
fn looks_authored(path: &str) -> bool {
    let is_inside = path.split_once('/').is_some_and(|(dir, _)| DIRECTORIES.contains(&dir));
    let is_named = path.split_once('.').is_some_and(|(stem, _)| TOP_NAMES.contains(&stem));
    (is_inside || is_named) && !is_hidden(path)
}

fn is_authored_directory(path: &str) -> bool {
    let top = path.split('/').next().unwrap_or(path);
    DIRECTORIES.contains(&top) && !is_hidden(path)
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
