//! Files that appear under their names complete and durable.
//!
//! A file is written without a name (O_TMPFILE, open(2)) and gets its name at the end. If the process is killed before that,
//! the kernel deletes the file. Where the file system has no such files, it is a temporary dot file in the same directory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags, linkat};

use super::access::{self, OWNER_FILE};

/// The mode of a new file before the umask. open(2) removes the bits of the umask from it.
const PUBLIC_FILE: u32 = 0o666;
/// The names of open files, by which a file without a name gets one (proc(5)).
const OPEN_FILES: &str = "/proc/self/fd";

/// Writes `bytes` to `path` atomically and durably. The umask decides who may read the file.
///
/// # Errors
/// The system's error. The temporary file is removed.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(AtomicFile::create(path)?, bytes)
}

/// Writes a file of a data directory, as [`write_atomic`] does, with the access of that directory's files.
///
/// # Errors
/// The system's error. The temporary file is removed.
pub(crate) fn write_data_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = AtomicFile::with_mode(path, OWNER_FILE)?;
    access::allow_group(&file.file);
    write(file, bytes)
}

fn write(mut file: AtomicFile, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.commit()
}

/// A file that is written in pieces. It is the alternative to [`write_atomic`] for contents that do not fit in memory.
/// Dropped before [`commit`](Self::commit), it leaves nothing.
#[derive(Debug)]
pub(crate) struct AtomicFile {
    file: File,
    path: PathBuf,
    /// Its name until the commit. A file without a name has it only if it replaces another file.
    temporary: PathBuf,
    is_named: bool,
}

impl AtomicFile {
    /// Creates the file for `path`.
    ///
    /// # Errors
    /// The system's error. `InvalidInput` if `path` has no file name, or is an existing directory, device or
    /// pipe: a rename would replace a device with a file.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Self::with_mode(path, PUBLIC_FILE)
    }

    /// Creates the file for `path`. Only the owner of the process may read it.
    ///
    /// # Errors
    /// As for [`Self::create`].
    pub(crate) fn create_private(path: &Path) -> io::Result<Self> {
        Self::with_mode(path, OWNER_FILE)
    }

    fn with_mode(path: &Path, mode: u32) -> io::Result<Self> {
        let refused = |reason| io::Error::new(ErrorKind::InvalidInput, reason);
        let name = path.file_name().ok_or_else(|| refused("the path has no file name"))?;
        let takes_its_place = |meta: fs::Metadata| meta.is_file() || meta.is_symlink();
        if !fs::symlink_metadata(path).map_or(true, takes_its_place) {
            return Err(refused("the path exists and is not a regular file"));
        }
        let name = format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id());
        let temporary = directory_of(path).join(name);
        let (file, is_named) = match create_unnamed(directory_of(path), mode) {
            Ok(file) => (file, false),
            // The other way tells the error, if it has one too.
            Err(_) => (create_named(&temporary, mode)?, true),
        };
        Ok(Self { file, path: path.to_owned(), temporary, is_named })
    }

    /// Returns whether the file has a name before its commit, because the file system has no files without one.
    pub(crate) fn has_temporary_name(&self) -> bool {
        self.is_named
    }

    /// Syncs the file and gives it its name.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn commit(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if self.is_named || !self.link_to(&self.path)? {
            self.link_to_temporary()?;
            fs::rename(&self.temporary, &self.path)?;
            self.is_named = false;
        }
        File::open(directory_of(&self.path))?.sync_all()
    }

    /// Gives a file without a name a temporary one, because a link replaces no file.
    fn link_to_temporary(&mut self) -> io::Result<()> {
        if !self.is_named {
            // A killed process of the same number may have left a file.
            let _ = fs::remove_file(&self.temporary);
            self.is_named = self.link_to(&self.temporary)?;
        }
        Ok(())
    }

    /// Gives the file a name. Returns false if another file has it.
    fn link_to(&self, path: &Path) -> io::Result<bool> {
        let open = Path::new(OPEN_FILES).join(self.file.as_raw_fd().to_string());
        match linkat(CWD, &open, CWD, path, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            other => other.map(|()| true),
        }
    }
}

/// Returns the directory of a file.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a file without a name in a directory.
fn create_unnamed(directory: &Path, mode: u32) -> io::Result<File> {
    // Without them it would get no name.
    fs::metadata(OPEN_FILES)?;
    OpenOptions::new().write(true).custom_flags(OFlags::TMPFILE.bits() as i32).mode(mode).open(directory)
}

/// Creates a file with a temporary name. Replaces one that a killed process of the same number has left.
fn create_named(temporary_path: &Path, mode: u32) -> io::Result<File> {
    match fs::remove_file(temporary_path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(mode).open(temporary_path)
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for AtomicFile {
    /// Removes the temporary name.
    fn drop(&mut self) {
        if self.is_named {
            // Callers report the first error, not this one. A leftover dot file is ignored.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
