//! The file operations of the log, and the guarantee of each.
//!
//! The log accesses files through [`Disk`] only, so that a test can replace it with a simulated disk. Each
//! method is one system call, or behaves like one: it may be interrupted, and it may do less than asked. The
//! functions below the traits build complete operations from them.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{CWD, FlockOperation, RenameFlags, fdatasync, flock, fsync, renameat_with};
use rustix::io::Errno;

use super::access;
use super::atomic_file::directory_of;
use super::disk_space;
use super::uncached::UncachedFile;

/// The identity of a file or a directory. While it is open, no other one of the disk gets the same identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    /// The number of the device.
    pub device: u64,
    /// The number of the inode.
    pub inode: u64,
}

impl From<Metadata> for FileIdentity {
    fn from(metadata: Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// A lock on a directory, held until it is dropped.
pub trait DirectoryLock: Send + Sync {
    /// Returns the identity of the locked directory, also after a rename.
    fn identity(&self) -> io::Result<FileIdentity>;
}

/// The kind of a lock on a file between processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileLockMode {
    /// Several processes can hold it at once.
    Shared,
    /// One process alone can hold it.
    Exclusive,
}

/// A lock on a file between processes, held until it is dropped.
#[derive(Debug)]
pub struct FileLock {
    /// The kernel ends the lock when this file is closed. `None` on a disk that other processes do not use.
    _file: Option<File>,
}

/// A file system.
pub trait Disk: Send + Sync {
    /// Creates a data directory and its missing parents, and syncs the new directories. Does nothing if it exists.
    fn create_directory(&self, dir: &Path) -> io::Result<()>;

    /// Locks a directory. Returns `WouldBlock` if another process, or this one, holds the lock already.
    fn lock(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>>;

    /// Locks a file. Returns `WouldBlock` if another lock on it excludes this one. A disk that other processes do not use
    /// has nothing to exclude.
    fn lock_file(&self, _path: &Path, _mode: FileLockMode) -> io::Result<FileLock> {
        Ok(FileLock { _file: None })
    }

    /// Returns the identity of the file or directory that has this name now.
    fn identity(&self, path: &Path) -> io::Result<FileIdentity>;

    /// Returns the names in a directory, in no particular order. Skips names that are not UTF-8.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Creates a file of a data directory, to append to and to read. Returns `AlreadyExists` if it exists.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file for reading past the page cache. A disk without a page cache opens it as [`open`](Self::open)
    /// does.
    fn open_uncached(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.open(path)
    }

    /// Truncates the file to `length` bytes and syncs it, through a descriptor of its own.
    fn truncate(&self, path: &Path, length: u64) -> io::Result<()>;

    /// Atomically renames `old_path` to `new_path`, replacing `new_path`. Durable after a sync of the directory.
    fn rename(&self, old_path: &Path, new_path: &Path) -> io::Result<()>;

    /// Removes the name. Durable after a sync of the directory.
    fn unlink(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_directory(&self, dir: &Path) -> io::Result<()>;

    /// Returns the bytes that this process may still write to the file system of a directory.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Writes at most `bytes` after the appended bytes, over the reserved ones there. Returns the number of
    /// written bytes. `Interrupted` means that none were written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes zeros to `range`, which is after the appended bytes. Later appends overwrite them. Returns the
    /// number of written bytes, which may be less than asked. After an error the file is as usable as before.
    fn reserve(&mut self, range: Range<u64>) -> io::Result<u64>;

    /// Truncates the reserved bytes that no append has overwritten.
    fn trim(&mut self) -> io::Result<()>;

    /// Reads at most `buffer.len()` bytes at offset `offset`. Returns the number of bytes read. 0 means the end of
    /// the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Makes the file's bytes and length durable. Callers must not call it again after it failed: the kernel
    /// may have dropped the pages and marked them clean, so a second call could succeed without writing
    /// anything.
    fn sync_data(&mut self) -> io::Result<()>;

    /// Returns the file's length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Returns the identity of the file, also after a rename.
    fn identity(&self) -> io::Result<FileIdentity>;
}

/// Appends all of `bytes` with one call. On an error any part of them may be in the file.
///
/// # Errors
/// The system's error, or `WriteZero` for a short write, which happens on a disk that is about to be full.
pub(crate) fn append_all(file: &mut dyn DiskFile, bytes: &[u8]) -> io::Result<()> {
    let written = retry_interrupted(|| file.append(bytes))?;
    if written < bytes.len() {
        let text = format!("short write: {written} of {} bytes", bytes.len());
        return Err(io::Error::new(io::ErrorKind::WriteZero, text));
    }
    Ok(())
}

/// Reads from offset `offset` until `buffer` is full or the file ends. Returns the number of bytes read.
///
/// # Errors
/// The system's error.
pub(crate) fn read_full(file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match retry_interrupted(|| file.read_at(&mut buffer[filled..], offset + filled as u64))? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// Returns the names in a directory. A missing directory has none.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn list_if_present(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<String>> {
    match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

/// Returns whether an error says that the disk has lost bytes: a sector that cannot be read, or a checksum of the file
/// system that is wrong. Other errors, such as too many open files, say nothing about the bytes.
pub(crate) fn is_loss(error: &io::Error) -> bool {
    let lost = [Errno::IO, Errno::NODATA, Errno::UCLEAN, Errno::BADMSG];
    error.raw_os_error().is_some_and(|code| lost.iter().any(|lost| lost.raw_os_error() == code))
}

/// Bytes that [`copy_range`] reads with one call.
const COPY_CHUNK_BYTES: usize = 256 * 1024;

/// Appends the bytes of `range`, as far as they exist, to another file.
///
/// # Errors
/// The first I/O error of either file.
pub(crate) fn copy_range(
    source_file: &dyn DiskFile,
    range: Range<u64>,
    target_file: &mut dyn DiskFile,
) -> io::Result<()> {
    let mut at = range.start;
    let mut buffer = vec![0; COPY_CHUNK_BYTES];
    loop {
        let wanted = range.end.saturating_sub(at).min(COPY_CHUNK_BYTES as u64) as usize;
        let read = read_full(source_file, &mut buffer[..wanted], at)?;
        if read == 0 {
            return Ok(());
        }
        append_all(target_file, &buffer[..read])?;
        at += read as u64;
    }
}

/// Repeats `call` while signals interrupt it. An interrupted call has done nothing, so it may be repeated.
fn retry_interrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// The real file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_directory(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let above = directory_of(dir);
        self.create_above(above)?;
        access::create_directory(dir)?;
        self.sync_directory(above)
    }

    fn lock(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        let directory = File::open(dir)?;
        flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(RealLock(directory)))
    }

    fn lock_file(&self, path: &Path, mode: FileLockMode) -> io::Result<FileLock> {
        let (is_exclusive, operation) = match mode {
            FileLockMode::Shared => (false, FlockOperation::NonBlockingLockShared),
            FileLockMode::Exclusive => (true, FlockOperation::NonBlockingLockExclusive),
        };
        // On NFS an exclusive lock needs a file that is open for writing (flock(2)).
        let file = OpenOptions::new().read(true).write(is_exclusive).open(path)?;
        flock(&file, operation)?;
        Ok(FileLock { _file: Some(file) })
    }

    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        Ok(fs::metadata(path)?.into())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile::new(access::create_file(path)?)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile::new(File::open(path)?)))
    }

    fn open_uncached(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(UncachedFile::open(path)?))
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(length)?;
        Ok(fsync(&file)?)
    }

    fn rename(&self, old_path: &Path, new_path: &Path) -> io::Result<()> {
        fs::rename(old_path, new_path)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, dir: &Path) -> io::Result<()> {
        Ok(fsync(File::open(dir)?)?)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        Ok(disk_space(dir)?.free_bytes)
    }
}

impl RealDisk {
    /// Exchanges the names of two directories in one step (`renameat2`).
    ///
    /// # Errors
    /// The file system does not support it, one of them is a mount point, or an I/O error occurs.
    pub(crate) fn exchange(self, dir: &Path, other_dir: &Path) -> io::Result<()> {
        Ok(renameat_with(CWD, dir, CWD, other_dir, RenameFlags::EXCHANGE)?)
    }

    /// Creates a missing directory above a data directory, and those above it, with the access of the umask.
    fn create_above(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let above = directory_of(dir);
        self.create_above(above)?;
        fs::create_dir(dir)?;
        self.sync_directory(above)
    }
}

/// Zeros for `reserve`. One call writes at most this many.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// An open directory. The lock ends when it is closed.
struct RealLock(File);

impl DirectoryLock for RealLock {
    fn identity(&self) -> io::Result<FileIdentity> {
        Ok(self.0.metadata()?.into())
    }
}

#[derive(Debug)]
struct RealFile {
    file: File,
    /// End of the appended bytes. Used only for created files, not for files that are opened for reading.
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

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        // Not `File::sync_data`, which repeats an interrupted call.
        Ok(fdatasync(&self.file)?)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        Ok(self.file.metadata()?.into())
    }
}
