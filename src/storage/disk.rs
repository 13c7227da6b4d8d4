//! The few file operations that the log makes, each with what it guarantees.
//!
//! The log names files through [`Disk`] only, so that a test can put a simulated one under it. Each
//! call is one system call, or as good as one: it may be interrupted and may do less than asked.
//! What makes whole operations of them stands below the traits.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, fdatasync, flock, fsync};

/// A file system.
pub trait Disk: Send + Sync {
    /// Makes `folder` and what leads to it, unless it is there, and syncs what was made.
    fn make_folder(&self, folder: &Path) -> io::Result<()>;

    /// Locks `path`, an empty file made for it, until the answer is dropped; `WouldBlock` where
    /// another process or another lock of this one has it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;

    /// The names in `folder`, in no order; those that are not UTF-8 are left out.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Makes a file that is not there yet, to append to; `AlreadyExists` where it is.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// As [`create`](Self::create); only who owns the process may read the file.
    fn create_private(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Cuts the file at `length` bytes and syncs it, through a descriptor of its own.
    fn truncate(&self, path: &Path, length: u64) -> io::Result<()>;

    /// Puts the file `from` in the place of `to`, at once. Durable after the folder's sync.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Takes the name away. Durable after the folder's sync.
    fn unlink(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in `folder` durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// An open file.
pub trait DiskFile: Send {
    /// Writes at most `bytes` behind what was appended before, over what is reserved there; says how many. `Interrupted`
    /// where nothing was.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes zeros at `range`, behind what was appended, for later appends to go over; at most all of them, and says how many.
    /// Where it fails the file is as good as before.
    fn reserve(&mut self, range: Range<u64>) -> io::Result<u64>;

    /// Cuts what is reserved and was not appended to.
    fn trim(&mut self) -> io::Result<()>;

    /// Reads at most `into` from `at` on; says how many bytes, none at the end only.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;

    /// Makes the file's bytes and length durable. Once it failed, the pages may be gone and marked
    /// clean: a second call on this file would say yes to nothing, so there must be none.
    fn sync_data(&mut self) -> io::Result<()>;

    /// Bytes.
    fn length(&self) -> io::Result<u64>;
}

/// Appends all of `bytes` with one call, or fails and leaves any part of them.
///
/// # Errors
/// What the system says; `WriteZero` for a short write, which is a full disk in the making.
pub fn append_whole(file: &mut dyn DiskFile, bytes: &[u8]) -> io::Result<()> {
    let written = uninterrupted(|| file.append(bytes))?;
    if written < bytes.len() {
        let text = format!("{written} of {} bytes were written", bytes.len());
        return Err(io::Error::new(io::ErrorKind::WriteZero, text));
    }
    Ok(())
}

/// Fills `into` from `at` on as far as the file goes; says how far.
///
/// # Errors
/// What the system says.
pub fn read_full(file: &dyn DiskFile, into: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match uninterrupted(|| file.read_at(&mut into[filled..], at + filled as u64))? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// Calls again as long as a signal came first; a call that did nothing may be repeated.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// The file system of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        let above = folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        self.make_folder(above)?;
        fs::create_dir(folder)?;
        self.sync_folder(above)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(file))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Box::new(RealFile::new(file)))
    }

    fn create_private(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Box::new(RealFile::new(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile::new(File::open(path)?)))
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(length)?;
        Ok(fsync(&file)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        Ok(fsync(File::open(folder)?)?)
    }
}

/// What is reserved by one call.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

#[derive(Debug)]
struct RealFile {
    file: File,
    /// Where what was appended ends; of a file that was made, not of one opened to read.
    end: u64,
}

impl RealFile {
    fn new(file: File) -> Self {
        Self { file, end: 0 }
    }
}

impl DiskFile for RealFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write_at(bytes, self.end)?;
        self.end += written as u64;
        Ok(written)
    }

    fn reserve(&mut self, range: Range<u64>) -> io::Result<u64> {
        let most = (range.end - range.start).min(ZEROS.len() as u64) as usize;
        Ok(self.file.write_at(&ZEROS[..most], range.start)? as u64)
    }

    fn trim(&mut self) -> io::Result<()> {
        self.file.set_len(self.end)
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(into, at)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        // Not `File::sync_data`, which calls again when it was interrupted.
        Ok(fdatasync(&self.file)?)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}
