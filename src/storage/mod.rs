//! The few file operations that the server and the compiler make, each with what it guarantees.
//!
//! Reading never blocks on what is not a regular file, and never follows more than one link.
//! A written file is whole or not there.

pub mod disk;

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, OFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};

/// What tells one content of a name from another without reading it. A rename, a write and a
/// truncation change at least the change time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    /// Bytes.
    pub length: u64,
    modified_ns: i128,
    changed_ns: i128,
}

/// Opens `path`, or the one link that it is, if that is a regular file.
///
/// # Errors
/// `InvalidInput` with the reason when it is a folder, a FIFO or a device; else what the system says,
/// of a link to a link that there are too many levels.
pub fn open_regular(path: &Path) -> io::Result<(File, Stamp)> {
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
        .open(target(path)?)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        let reason = "it is not a regular file, nor a link to one";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    Ok((file, stamp(&meta)))
}

/// The stamp of `path` as [`open_regular`] would open it, without opening it.
///
/// # Errors
/// What the system says.
pub fn stamp_of(path: &Path) -> io::Result<Stamp> {
    Ok(stamp(&fs::symlink_metadata(target(path)?)?))
}

fn target(path: &Path) -> io::Result<PathBuf> {
    if !fs::symlink_metadata(path)?.is_symlink() {
        return Ok(path.to_owned());
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    Ok(folder.join(fs::read_link(path)?))
}

fn stamp(meta: &fs::Metadata) -> Stamp {
    let nanoseconds = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
    Stamp {
        device: meta.dev(),
        inode: meta.ino(),
        length: meta.len(),
        modified_ns: nanoseconds(meta.mtime(), meta.mtime_nsec()),
        changed_ns: nanoseconds(meta.ctime(), meta.ctime_nsec()),
    }
}

/// Copies at most `bytes_max` bytes of `file` into memory that nobody can change or cut any more.
///
/// # Errors
/// What the system says, `OutOfMemory` and the like among them.
pub fn sealed_copy(file: &mut File, bytes_max: u64) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut copy = File::from(memfd_create("snapshot", flags)?);
    file.rewind()?;
    io::copy(&mut file.take(bytes_max), &mut copy)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    fcntl_add_seals(copy.as_fd(), seals)?;
    Ok(copy)
}

/// Puts `bytes` at `path`: written under a temporary name beside it (a dot file), synced, renamed.
///
/// # Errors
/// What the system says; the temporary file is gone then.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut replacement = Replacement::begin(path)?;
    replacement.write_all(bytes)?;
    replacement.commit()
}

/// A file that is written piece by piece: [`replace`] for what does not fit in memory. It is at its path once it is
/// committed, whole and durable; one that is dropped before leaves nothing.
#[derive(Debug)]
pub struct Replacement {
    file: File,
    folder: PathBuf,
    temporary: PathBuf,
    path: PathBuf,
}

impl Replacement {
    /// Begins the file that will be at `path`.
    ///
    /// # Errors
    /// What the system says; `InvalidInput` where `path` names no file, or a folder, device or pipe that is there: a rename
    /// would put a file in a device's place.
    pub fn begin(path: &Path) -> io::Result<Self> {
        let refused = |reason| io::Error::new(io::ErrorKind::InvalidInput, reason);
        let name = path.file_name().ok_or_else(|| refused("it names no file"))?;
        let takes_its_place = |meta: fs::Metadata| meta.is_file() || meta.is_symlink();
        if !fs::symlink_metadata(path).map_or(true, takes_its_place) {
            return Err(refused("it is there, and not a regular file"));
        }
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let temporary = folder.join(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id()));
        let file = File::create(&temporary)?;
        Ok(Self { file, folder: folder.to_owned(), temporary, path: path.to_owned() })
    }

    /// Syncs it and puts it in its place.
    ///
    /// # Errors
    /// What the system says.
    pub fn commit(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.temporary, &self.path)?;
        File::open(&self.folder)?.sync_all()
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Replacement {
    /// Once it was committed, nothing has the name.
    fn drop(&mut self) {
        // The first error is the one to tell; a leftover dot file is never looked at.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// What this process takes of the machine.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Bytes of memory that are resident.
    pub resident_bytes: u64,
    /// Descriptors that are open.
    pub descriptors: usize,
}

/// What this process takes now (proc(5)).
///
/// # Errors
/// There is no `/proc`, or it says something else.
pub fn usage() -> io::Result<Usage> {
    let pages = fs::read_to_string("/proc/self/statm")?;
    let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let resident = resident.ok_or(io::ErrorKind::InvalidData)?;
    // The listing holds one itself.
    let descriptors = fs::read_dir("/proc/self/fd")?.count().saturating_sub(1);
    Ok(Usage { resident_bytes: resident * rustix::param::page_size() as u64, descriptors })
}

/// Raises the limit on descriptors as far as this process may, and says where it is then.
pub fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Where it cannot be raised it stays.
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Lets every other thread go before the calling one, where there is not time for all.
pub fn lower_priority() {
    // Linux takes "this process" for this thread. Where it is forbidden, it works as the others do.
    let _ = setpriority_process(None, 19);
}
