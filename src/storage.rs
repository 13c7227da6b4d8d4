//! The few file operations that the server and the compiler make, each with what it guarantees.
//!
//! Reading never blocks on what is not a regular file, and never follows more than one link.
//! A written file is whole or not there.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, OFlags, SealFlags, fcntl_add_seals, memfd_create};

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
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name =
        path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it names no file"))?;
    let temporary = folder.join(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id()));
    let written = write_synced(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        // The first error is the one to tell; a leftover dot file is never looked at.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    File::open(folder)?.sync_all()
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
