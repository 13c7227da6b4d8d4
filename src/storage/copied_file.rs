//! Copies of files for a backup: private, durable, and with the time of the last change of the original.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Timespec, Timestamps, UTIME_OMIT, futimens};

use super::{FileStamp, access, open_regular};

/// Bytes between two checks whether to stop: some tens of milliseconds of work.
const CHUNK_BYTES: u64 = 8 << 20;
/// A file that was changed in this time before it was copied can change again without another time of change, because the
/// kernel counts this time in ticks of at most 10 ms. 2 s are the ticks of the coarsest file systems.
const RECENT_NS: i128 = 2_000_000_000;

/// Copies the first `byte_limit` bytes of the regular file `source_path` to the new file `copy_path` and syncs it. Only the owner can read it. The copy gets the
/// time of the last change of the original, unless this was in the last two seconds before `now_ms`. Returns the stamp of
/// the original when the copy began.
///
/// # Errors
/// The first error of the system. `Interrupted` if `is_stopped` returns true.
pub(crate) fn copy_private(
    source_path: &Path,
    copy_path: &Path,
    byte_limit: u64,
    now_ms: i64,
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<FileStamp> {
    let (source, stamp) = open_regular(source_path)?;
    let mut copy = access::create_file(copy_path)?;
    let mut remaining = byte_limit;
    loop {
        if is_stopped() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let copied = io::copy(&mut (&source).take(CHUNK_BYTES.min(remaining)), &mut copy)?;
        if copied == 0 {
            break;
        }
        remaining -= copied;
    }
    if i128::from(now_ms) * 1_000_000 - stamp.modified_ns > RECENT_NS {
        set_modified(&copy, stamp.modified_ns)?;
    }
    copy.sync_all()?;
    Ok(stamp)
}

/// Gives an existing file another name, on the same file system.
///
/// # Errors
/// The system's error. Some file systems have no such names, and others limit their number.
pub(crate) fn link(path: &Path, new_path: &Path) -> io::Result<()> {
    fs::hard_link(path, new_path)
}

fn set_modified(file: &File, modified_ns: i128) -> io::Result<()> {
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let seconds = modified_ns.div_euclid(1_000_000_000) as i64;
    let nanoseconds = modified_ns.rem_euclid(1_000_000_000) as i64;
    let times =
        Timestamps { last_access: time(0, UTIME_OMIT), last_modification: time(seconds, nanoseconds) };
    Ok(futimens(file, &times)?)
}

impl FileStamp {
    /// Returns whether a file with this stamp has the length and the time of change of another one, as a copy of
    /// [`copy_private`] has.
    pub(crate) fn is_copy_of(&self, original: &Self) -> bool {
        (self.length, self.modified_ns) == (original.length, original.modified_ns)
    }

    /// Returns whether two names belong to one file.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}
