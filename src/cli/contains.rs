//! `parallax check --contains`: searches every byte of a directory for a text, to prove an erasure.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::{CliError, print_line};
use crate::cli::byte_search::Needle;
use crate::storage::disk::RealDisk;
use crate::visitors::log::SeqLocator;

/// Number of matches that one search of a directory prints. The others are a count.
pub const MATCHES_SHOWN_MAX: usize = 100;

/// Searches the file at `path`, or all files of that directory and its subdirectories. Does not follow links.
pub(super) fn search_path(path: &Path, text: &str) -> Result<(), CliError> {
    let files = list_files(path)?;
    let Some(needle) = Needle::new(text) else { return Ok(()) };
    let (mut places, mut bytes) = (0, 0);
    for file in &files {
        match search_file(file, &needle, &mut places) {
            Ok(searched) => bytes += searched,
            // Retention deleted the file, or it was a temporary file that got its final name. Ignoring it is
            // safe: only files that stay can contradict the result.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                print_line(&format!("{}: deleted during the search", file.display()))?;
            }
            Err(error) => return Err(search_error(file, &error)),
        }
    }
    if places > MATCHES_SHOWN_MAX {
        print_line(&format!("and {} more places", places - MATCHES_SHOWN_MAX))?;
    }
    match places {
        0 => print_line(&format!("not found in {}: {} files, {bytes} bytes", path.display(), files.len())),
        _ => Err(CliError::Input(format!("found the text in {places} places of {}", path.display()))),
    }
}

/// Lists all regular files, sorted by path.
fn list_files(path: &Path) -> Result<Vec<PathBuf>, CliError> {
    let meta = path.metadata().map_err(|error| CliError::Input(format!("{}: {error}", path.display())))?;
    if !meta.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let (mut files, mut directories) = (Vec::new(), vec![path.to_owned()]);
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
        for entry in entries.map_err(|error| search_error(&directory, &error))? {
            let kind = entry.file_type().map_err(|error| search_error(&entry.path(), &error))?;
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Prints where the text occurs in a file, and adds the occurrences to `places`. Returns the file's size.
fn search_file(path: &Path, needle: &Needle<'_>, places: &mut usize) -> io::Result<u64> {
    let mut matches = Vec::new();
    let room = MATCHES_SHOWN_MAX.saturating_sub(*places);
    let bytes = needle.find_all(&mut File::open(path)?, &mut |at| {
        *places += 1;
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
