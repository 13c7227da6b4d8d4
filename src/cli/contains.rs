//! `parallax check --contains`: searches every byte of a directory for a text, to prove an erasure.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::{CliError, print_line};
use crate::cli::byte_search::Needle;
use crate::log::SeqLocator;
use crate::storage::disk::RealDisk;

/// Number of matches that one search of a directory prints. The others are a count.
pub const MATCHES_SHOWN_MAX: usize = 100;

/// A file of a listing. A rewritten file has another inode, and a renamed one another path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The number of its inode.
    pub inode: u64,
}

/// The results of a search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SearchSummary {
    /// Files that were searched.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// Searches the file at `path`, or all files of that directory and its subdirectories. Does not follow links.
pub(super) fn search_path(path: &Path, text: &str) -> Result<(), CliError> {
    let Some(needle) = Needle::new(text) else { return Ok(()) };
    let mut places = 0;
    let mut search = |path: &Path| match search_file(path, &needle, &mut places) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            print_line(&format!("{}: deleted during the search", path.display())).map(|()| None)
        }
        Err(error) => Err(search_error(path, &error)),
    };
    let SearchSummary { files, bytes } = search_all(&mut || list_files(path), &mut search)?;
    if places > MATCHES_SHOWN_MAX {
        print_line(&format!("and {} more places", places - MATCHES_SHOWN_MAX))?;
    }
    match places {
        0 => print_line(&format!("not found in {}: {files} files, {bytes} bytes", path.display())),
        _ => Err(CliError::Input(format!("found the text in {places} places of {}", path.display()))),
    }
}

/// Searches all files that `list` returns, and lists again until no file is new: a server may give a file its
/// final name during the search. `search` returns the bytes of a file, or `None` if there is no such file. It ends,
/// because a search is faster than a server writes new files.
///
/// # Errors
/// The first error of `list` or `search`.
pub fn search_all<E>(
    list: &mut dyn FnMut() -> Result<Vec<ListedFile>, E>,
    search: &mut dyn FnMut(&Path) -> Result<Option<u64>, E>,
) -> Result<SearchSummary, E> {
    let mut seen = BTreeSet::new();
    let mut summary = SearchSummary::default();
    loop {
        let mut files = list()?;
        files.retain(|file| !seen.contains(file));
        if files.is_empty() {
            return Ok(summary);
        }
        for file in files {
            if let Some(bytes) = search(&file.path)? {
                summary.files += 1;
                summary.bytes += bytes;
            }
            seen.insert(file);
        }
    }
}

/// Lists all regular files, sorted by path.
fn list_files(path: &Path) -> Result<Vec<ListedFile>, CliError> {
    let meta = path.metadata().map_err(|error| CliError::Input(format!("{}: {error}", path.display())))?;
    if !meta.is_dir() {
        return Ok(vec![ListedFile { path: path.to_owned(), inode: meta.ino() }]);
    }
    let mut files = Vec::new();
    let mut directories = vec![path.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
        for entry in entries.map_err(|error| search_error(&directory, &error))? {
            let kind = entry.file_type().map_err(|error| search_error(&entry.path(), &error))?;
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() {
                files.push(ListedFile { path: entry.path(), inode: entry.ino() });
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Prints where the text occurs in a file, and adds the occurrences to `occurrence_count`. Returns the file's size.
fn search_file(path: &Path, needle: &Needle<'_>, occurrence_count: &mut usize) -> io::Result<u64> {
    let mut matches = Vec::new();
    let room = MATCHES_SHOWN_MAX.saturating_sub(*occurrence_count);
    let bytes = needle.find_all(&mut File::open(path)?, &mut |at| {
        *occurrence_count += 1;
        if matches.len() < room {
            matches.push(at);
        }
    })?;
    let mut locator = SeqLocator::open(&RealDisk, path)?;
    for at in matches {
        let record =
            locator.seq_at(at)?.map_or_else(String::new, |seq| format!(", in the record with seq {seq}"));
        print_line(&format!("{}: at offset {at}{record}", path.display()))
            .map_err(|_| ErrorKind::WriteZero)?;
    }
    Ok(bytes)
}

fn search_error(path: &Path, error: &io::Error) -> CliError {
    CliError::System(format!("cannot search {}, so nothing is proven: {error}", path.display()))
}
