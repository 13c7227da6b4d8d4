//! The file operations of the server and the compiler, and the guarantee of each.
//!
//! Reading never blocks on a file that is not regular, and follows at most one link. A written file is
//! complete or absent.

pub(crate) mod access;
mod atomic_file;
pub(crate) mod copied_file;
pub mod damage;
pub mod disk;
pub(crate) mod machine;
mod uncached;

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, OFlags, SealFlags, fcntl_add_seals, memfd_create, statvfs};
use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};

pub use self::atomic_file::write_atomic;
pub(crate) use self::atomic_file::{AtomicFile, directory_of, write_data_file};

/// The metadata that distinguishes two contents under one name without reading them. A rename, a write and a
/// truncation change at least the change time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp {
    device: u64,
    inode: u64,
    /// File length in bytes.
    pub length: u64,
    modified_ns: i128,
    changed_ns: i128,
}

/// Opens `path` for reading if it is a regular file or a link to one.
///
/// # Errors
/// `InvalidInput` for a directory, a FIFO or a device. Otherwise the system's error. A link to a link gives
/// "too many levels of symbolic links".
pub(crate) fn open_regular(path: &Path) -> io::Result<(File, FileStamp)> {
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
        .open(resolve_link(path)?)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        let reason = "not a regular file or a link to one";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    Ok((file, stamp_from_metadata(&meta)))
}

/// Returns the stamp of the file that [`open_regular`] would open for `path`, without opening it.
///
/// # Errors
/// The system's error.
pub(crate) fn read_stamp(path: &Path) -> io::Result<FileStamp> {
    Ok(stamp_from_metadata(&fs::symlink_metadata(resolve_link(path)?)?))
}

fn resolve_link(path: &Path) -> io::Result<PathBuf> {
    if !fs::symlink_metadata(path)?.is_symlink() {
        return Ok(path.to_owned());
    }
    let dir = path.parent().unwrap_or(Path::new(""));
    Ok(dir.join(fs::read_link(path)?))
}

fn stamp_from_metadata(metadata: &fs::Metadata) -> FileStamp {
    let nanoseconds = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
    FileStamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        length: metadata.len(),
        modified_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
        changed_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
    }
}

/// Copies at most `bytes_max` bytes of `file` into sealed memory: nobody can change or truncate it
/// afterwards.
///
/// # Errors
/// The system's error, for example `OutOfMemory`.
pub(crate) fn copy_sealed(file: &mut File, bytes_max: u64) -> io::Result<File> {
    file.rewind()?;
    seal(file.take(bytes_max))
}

/// Copies bytes into sealed memory, as [`copy_sealed`] does.
pub(crate) fn seal(mut bytes: impl Read) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut copy = File::from(memfd_create("snapshot", flags)?);
    io::copy(&mut bytes, &mut copy)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    fcntl_add_seals(copy.as_fd(), seals)?;
    Ok(copy)
}

/// The resources that this process uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessUsage {
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Number of open file descriptors.
    pub descriptors: usize,
}

/// Returns the resources that this process uses now (proc(5)).
///
/// # Errors
/// `/proc` is not mounted, or its text cannot be parsed.
pub(crate) fn process_usage() -> io::Result<ProcessUsage> {
    let pages = fs::read_to_string("/proc/self/statm")?;
    let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let resident = resident.ok_or(io::ErrorKind::InvalidData)?;
    // The directory listing itself uses one descriptor.
    let descriptors = fs::read_dir("/proc/self/fd")?.count().saturating_sub(1);
    Ok(ProcessUsage { resident_bytes: resident * rustix::param::page_size() as u64, descriptors })
}

/// The space of a file system.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiskSpace {
    /// Bytes that this process may still write. A part of the unused bytes can be reserved for root.
    pub free_bytes: u64,
    /// All bytes.
    pub size_bytes: u64,
}

/// Returns the space of the file system that has `path` (statvfs(3)).
///
/// # Errors
/// The system's error.
pub(crate) fn disk_space(path: &Path) -> io::Result<DiskSpace> {
    let status = statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(status.f_frsize);
    Ok(DiskSpace { free_bytes: bytes(status.f_bavail), size_bytes: bytes(status.f_blocks) })
}

/// Raises the limit on file descriptors to the highest value allowed for this process. Returns the resulting
/// limit.
pub(crate) fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // If the limit cannot be raised, it stays as it is.
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Gives the calling thread the lowest CPU priority.
pub(crate) fn lower_thread_priority() {
    // Linux applies the priority of "this process" to the calling thread. If that is forbidden, the priority
    // stays.
    let _ = setpriority_process(None, 19);
}
