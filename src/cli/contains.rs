//! `parallax check --contains`: every byte of a folder is searched for a text, to prove that a visitor was erased.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::{Failure, say};
use crate::cli::byte_search::Needle;
use crate::limits::PLACES_SHOWN_MAX;
use crate::storage::disk::RealDisk;
use crate::visitors::log::Locator;

/// Searches the file at `path`, or every file in that folder and those within it; links are not followed.
pub(super) fn contains(path: &Path, text: &str) -> Result<(), Failure> {
    let files = files(path)?;
    let Some(needle) = Needle::new(text) else { return Ok(()) };
    let (mut places, mut bytes) = (0, 0);
    for file in &files {
        match search(file, &needle, &mut places) {
            Ok(searched) => bytes += searched,
            // Retention took it away, or it got the name it was made for: only what stays proves something.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                say(&format!("{}: went away meanwhile", file.display()))?;
            }
            Err(error) => return Err(unsearched(file, &error)),
        }
    }
    if places > PLACES_SHOWN_MAX {
        say(&format!("and {} places more", places - PLACES_SHOWN_MAX))?;
    }
    match places {
        0 => say(&format!("nowhere in {}: {} files, {bytes} bytes", path.display(), files.len())),
        _ => Err(Failure::Input(format!("the text stands in {places} places of {}", path.display()))),
    }
}

/// All regular files, by name.
fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let meta = path.metadata().map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
    if !meta.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let (mut files, mut folders) = (Vec::new(), vec![path.to_owned()]);
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
        for entry in entries.map_err(|error| unsearched(&folder, &error))? {
            let kind = entry.file_type().map_err(|error| unsearched(&entry.path(), &error))?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Says where the text stands in a file, and counts it; gives how many bytes there were.
fn search(path: &Path, needle: &Needle<'_>, places: &mut usize) -> io::Result<u64> {
    let mut shown = Vec::new();
    let room = PLACES_SHOWN_MAX.saturating_sub(*places);
    let bytes = needle.find_all(&mut File::open(path)?, &mut |at| {
        *places += 1;
        if shown.len() < room {
            shown.push(at);
        }
    })?;
    let mut locator = Locator::open(&RealDisk, path)?;
    for at in shown {
        let record =
            locator.seq_at(at)?.map_or_else(String::new, |seq| format!(", in the record of seq {seq}"));
        say(&format!("{}: at {at}{record}", path.display())).map_err(|_| ErrorKind::WriteZero)?;
    }
    Ok(bytes)
}

fn unsearched(path: &Path, error: &io::Error) -> Failure {
    Failure::Machine(format!("{} cannot be searched, so nothing is proven: {error}", path.display()))
}
