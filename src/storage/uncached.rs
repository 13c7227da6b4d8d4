//! A file that is read past the page cache, so that a reader sees the bytes of the disk, and other readers keep their
//! pages.

use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Advice, OFlags, fadvise, fcntl_setfl};
use rustix::io::Errno;

use super::disk::{DiskFile, FileIdentity};

/// Alignment of offset, length and memory of a direct read. No disk has larger logical blocks.
const DIRECT_ALIGN_BYTES: usize = 4096;
/// Bytes of one read at most. A longer read is short, and its caller continues.
const DIRECT_READ_BYTES_MAX: usize = 256 * 1024;

/// A file that is read with `O_DIRECT`. A file system that has no such reads gets the advice to drop the pages
/// before each read, so that the read comes from the disk, and after it.
#[derive(Debug)]
pub(super) struct UncachedFile {
    file: File,
    is_direct: AtomicBool,
}

impl UncachedFile {
    /// Opens a file for reading.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let direct = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path);
        match direct {
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                Ok(Self { file: File::open(path)?, is_direct: AtomicBool::new(false) })
            }
            other => Ok(Self { file: other?, is_direct: AtomicBool::new(true) }),
        }
    }

    fn read_direct(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let skipped = offset as usize % DIRECT_ALIGN_BYTES;
        let length = (skipped + buffer.len()).next_multiple_of(DIRECT_ALIGN_BYTES);
        let mut blocks = vec![0; length + DIRECT_ALIGN_BYTES];
        let start = blocks.as_ptr().align_offset(DIRECT_ALIGN_BYTES);
        let aligned = &mut blocks[start..start + length];
        let read = self.file.read_at(aligned, offset - skipped as u64)?;
        let bytes = aligned[..read].get(skipped..).unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(buffer.len())];
        buffer[..bytes.len()].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn read_and_drop(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.drop_pages(offset, buffer.len())?;
        let read = self.file.read_at(buffer, offset)?;
        self.drop_pages(offset, read)?;
        Ok(read)
    }

    fn drop_pages(&self, offset: u64, length: usize) -> io::Result<()> {
        // The length 0 means the whole file.
        let Some(length) = NonZeroU64::new(length as u64) else { return Ok(()) };
        Ok(fadvise(&self.file, offset, Some(length), Advice::DontNeed)?)
    }
}

impl DiskFile for UncachedFile {
    fn append(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn reserve(&mut self, _: Range<u64>) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn trim(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let most = buffer.len().min(DIRECT_READ_BYTES_MAX);
        let buffer = &mut buffer[..most];
        if self.is_direct.load(Ordering::Relaxed) {
            match self.read_direct(buffer, offset) {
                // The file system opens a file with the flag, and does not read with it.
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                    fcntl_setfl(&self.file, OFlags::empty())?;
                    self.is_direct.store(false, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        self.read_and_drop(buffer, offset)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        Ok(self.file.metadata()?.into())
    }
}
