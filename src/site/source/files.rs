//! The authored files of one site: from a folder, or from memory (the binary carries its demo site).
//!
//! In comes a folder or a list of (path, bytes); out go the files that count, sorted by path. A path is relative to the site's
//! folder and written with `/`. What always holds: dot files and names that do not end in `.json` are not there, nor are
//! folders other than `routes/` and `content/`; nothing outside the folder was read; and a file that cannot be taken stays in
//! the list with its fault, so that reading reports it among the other mistakes.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry, File, FileType};
use std::io::{self, Read};
use std::path::Path;

use crate::limits::{CONTENT_BYTES_MAX, FILE_BYTES_MAX, FILES_MAX};

/// The only folders that hold authored files.
const FOLDERS: [&str; 2] = ["routes", "content"];

/// The authored files of one site by path.
#[derive(Debug, Default)]
pub struct Files(BTreeMap<String, Result<Vec<u8>, Fault>>);

/// Why a file was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub expected: String,
    pub came: String,
}

impl Files {
    /// Reads the files of a site's folder.
    ///
    /// A link is followed to a regular file inside the folder and nowhere else. Listing stops after `FILES_MAX` and one files.
    ///
    /// # Errors
    /// What the machine refuses (no such folder, no permission), with the path named.
    pub fn from_folder(folder: &Path) -> io::Result<Files> {
        let root = folder.canonicalize().map_err(|error| naming(folder, error))?;
        let mut files = Files::default();
        files.scan(&root, &root, "")?;
        Ok(files)
    }

    /// Takes files that are in memory already.
    pub fn from_memory<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Files {
        let authored = files.into_iter().filter(|(path, _)| is_authored(path));
        Files(
            authored
                .map(|(path, bytes)| (path.to_owned(), bounded(bytes.to_vec(), bytes_max(path))))
                .collect(),
        )
    }

    /// All files by path, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Result<&[u8], &Fault>)> {
        self.0.iter().map(|(path, file)| (path.as_str(), file.as_deref()))
    }

    /// The bytes of a file, where it is there and was taken.
    pub fn bytes(&self, path: &str) -> Option<&[u8]> {
        self.0.get(path)?.as_deref().ok()
    }

    /// Whether there is a file of this path, taken or not.
    pub fn contains(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn scan(&mut self, root: &Path, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder).map_err(|error| naming(folder, error))? {
            let entry = entry.map_err(|error| naming(folder, error))?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            self.scan_entry(root, &entry, path).map_err(|error| naming(&entry.path(), error))?;
            if self.len() > FILES_MAX {
                break;
            }
        }
        Ok(())
    }

    fn scan_entry(&mut self, root: &Path, entry: &DirEntry, path: String) -> io::Result<()> {
        let kind = entry.file_type()?;
        if kind.is_dir() {
            return if is_authored_folder(&path) {
                self.scan(root, &entry.path(), &format!("{path}/"))
            } else {
                Ok(())
            };
        }
        let linked_folder = kind.is_symlink() && is_authored_folder(&path) && entry.path().is_dir();
        if is_authored(&path) || linked_folder {
            let taken = take(root, entry, kind, bytes_max(&path))?;
            self.0.insert(path, taken);
        }
        Ok(())
    }
}

/// The bytes of a file, or why it is not taken.
fn take(
    root: &Path,
    entry: &DirEntry,
    kind: FileType,
    bytes_max: usize,
) -> io::Result<Result<Vec<u8>, Fault>> {
    let path = entry.path();
    if entry.file_name().to_str().is_none() {
        return Ok(Err(fault("a file name in UTF-8", "other bytes")));
    }
    if kind.is_symlink() && !leads_to_file_inside(root, &path) {
        let expected = "a file, or a link to a file inside the site's folder";
        return Ok(Err(fault(expected, "a link that leads elsewhere")));
    }
    if !kind.is_symlink() && !kind.is_file() {
        return Ok(Err(fault("a regular file", "a special one")));
    }
    read_bounded(&path, bytes_max)
}

fn leads_to_file_inside(root: &Path, link: &Path) -> bool {
    let target = link.canonicalize();
    target.is_ok_and(|target| target.starts_with(root) && target.is_file())
}

/// Reads one byte more than is allowed, so that a file which grows meanwhile is still bounded.
fn read_bounded(path: &Path, bytes_max: usize) -> io::Result<Result<Vec<u8>, Fault>> {
    let file = File::open(path)?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(length.min(bytes_max) + 1);
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bounded(bytes, bytes_max))
}

fn bytes_max(path: &str) -> usize {
    if path.starts_with("content/") { CONTENT_BYTES_MAX } else { FILE_BYTES_MAX }
}

fn bounded(bytes: Vec<u8>, bytes_max: usize) -> Result<Vec<u8>, Fault> {
    if bytes.len() <= bytes_max {
        return Ok(bytes);
    }
    let expected = format!("a file of at most {bytes_max} bytes");
    Err(fault(&expected, "a larger one"))
}

/// Whether a file of this path is the author's to be read (or to be told that it stands in a wrong place).
fn is_authored(path: &str) -> bool {
    let folder = path.split_once('/').map(|(folder, _)| folder);
    path.ends_with(".json") && !is_hidden(path) && folder.is_none_or(|folder| FOLDERS.contains(&folder))
}

fn is_authored_folder(path: &str) -> bool {
    let top = path.split('/').next().unwrap_or(path);
    FOLDERS.contains(&top) && !is_hidden(path)
}

fn is_hidden(path: &str) -> bool {
    path.split('/').any(|name| name.starts_with('.'))
}

fn fault(expected: &str, came: &str) -> Fault {
    Fault { expected: expected.to_owned(), came: came.to_owned() }
}

/// Puts the path before an error's text, once.
fn naming(path: &Path, error: io::Error) -> io::Error {
    let text = error.to_string();
    let already = text.contains(&*path.to_string_lossy());
    io::Error::new(error.kind(), if already { text } else { format!("{}: {text}", path.display()) })
}
