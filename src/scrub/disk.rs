//! The disk as the scrub sees it: slow, past the page cache, and without a way to change a file.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::ScrubMetrics;
use crate::limits::READ_CHUNK_BYTES;
use crate::storage::disk::{DirectoryLock, Disk, DiskFile, FileIdentity};

/// The pauses of the scrub. Tests provide their own.
pub trait Pace: Send + Sync {
    /// Waits for `pause`. Returns false if the server stops.
    fn wait(&self, pause: Duration) -> bool;
}

/// A disk whose reads keep to a rate, and end when the server stops. Its files are read past the page cache. A file that
/// was replaced or deleted cannot be read any more, so that it is closed, and its bytes become free, after one pause.
#[derive(Clone)]
pub(super) struct ScrubDisk(Arc<ScrubDiskState>);

struct ScrubDiskState {
    disk: Arc<dyn Disk>,
    pace: Arc<dyn Pace>,
    bytes_per_second: u64,
    metrics: Arc<ScrubMetrics>,
    is_stopped: AtomicBool,
}

impl ScrubDisk {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        pace: Arc<dyn Pace>,
        bytes_per_second: u64,
        metrics: Arc<ScrubMetrics>,
    ) -> Self {
        let is_stopped = AtomicBool::new(false);
        Self(Arc::new(ScrubDiskState { disk, pace, bytes_per_second, metrics, is_stopped }))
    }

    /// Waits. Returns false if the server stops.
    pub(super) fn wait(&self, pause: Duration) -> bool {
        if !self.0.pace.wait(pause) {
            self.0.is_stopped.store(true, Ordering::Relaxed);
        }
        !self.is_stopped()
    }

    /// Returns whether the server stops. Reads have no result from then on.
    pub(super) fn is_stopped(&self) -> bool {
        self.0.is_stopped.load(Ordering::Relaxed)
    }

    fn pause_after(&self, read_bytes: usize) -> Duration {
        Duration::from_nanos(read_bytes as u64 * 1_000_000_000 / self.0.bytes_per_second)
    }
}

/// Returns the error of an operation that the scrub never does.
fn unsupported<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Disk for ScrubDisk {
    fn create_directory(&self, _: &Path) -> io::Result<()> {
        unsupported()
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        unsupported()
    }

    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        self.0.disk.identity(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.disk.list(dir)
    }

    fn create(&self, _: &Path) -> io::Result<Box<dyn DiskFile>> {
        unsupported()
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = self.0.disk.open_uncached(path)?;
        Ok(Box::new(ScrubFile { file, path: path.to_owned(), disk: self.clone() }))
    }

    fn truncate(&self, _: &Path, _: u64) -> io::Result<()> {
        unsupported()
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        unsupported()
    }

    fn unlink(&self, _: &Path) -> io::Result<()> {
        unsupported()
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        unsupported()
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.0.disk.free_bytes(dir)
    }
}

struct ScrubFile {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    disk: ScrubDisk,
}

impl DiskFile for ScrubFile {
    fn append(&mut self, _: &[u8]) -> io::Result<usize> {
        unsupported()
    }

    fn reserve(&mut self, _: Range<u64>) -> io::Result<u64> {
        unsupported()
    }

    fn trim(&mut self) -> io::Result<()> {
        unsupported()
    }

    /// Reads one chunk at most, and pauses for as long as it takes at the rate.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.disk.is_stopped() {
            return Err(io::Error::other("the server stops"));
        }
        if self.disk.identity(&self.path)? != self.file.identity()? {
            return Err(io::Error::other("the file was replaced"));
        }
        let most = buffer.len().min(READ_CHUNK_BYTES);
        let read = self.file.read_at(&mut buffer[..most], offset)?;
        self.disk.0.metrics.read_bytes.fetch_add(read as u64, Ordering::Relaxed);
        self.disk.wait(self.disk.pause_after(read));
        Ok(read)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        unsupported()
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        self.file.identity()
    }
}
