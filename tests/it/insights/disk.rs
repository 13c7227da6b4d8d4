//! A real disk whose calls a test can watch, delay and let fail.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use parallax::testing::storage::disk::{DirectoryLock, Disk, DiskFile, FileIdentity, RealDisk};

/// A file operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Identity,
    List,
    Create,
    Open,
    Rename,
    Unlink,
    SyncDirectory,
    FreeBytes,
    Append,
    SyncData,
    Read,
}

type Hook = Box<dyn FnMut(Call, &Path) -> io::Result<()> + Send>;

/// A real disk with a hook before each call.
#[derive(Clone)]
pub(super) struct WatchedDisk {
    hook: Arc<Mutex<Hook>>,
    free_bytes: Arc<AtomicU64>,
}

impl WatchedDisk {
    pub(super) fn new() -> Self {
        let hook: Hook = Box::new(|_, _| Ok(()));
        Self { hook: Arc::new(Mutex::new(hook)), free_bytes: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    /// Sets the function that runs before each call. The call fails with its error. A rename has the new path.
    pub(super) fn set_hook(&self, hook: impl FnMut(Call, &Path) -> io::Result<()> + Send + 'static) {
        *self.hook.lock().expect("the mutex is not poisoned") = Box::new(hook);
    }

    pub(super) fn clear_hook(&self) {
        self.set_hook(|_, _| Ok(()));
    }

    pub(super) fn set_free_bytes(&self, bytes: u64) {
        self.free_bytes.store(bytes, Ordering::Relaxed);
    }

    fn run_hook(&self, call: Call, path: &Path) -> io::Result<()> {
        (self.hook.lock().expect("the mutex is not poisoned"))(call, path)
    }

    fn wrap(&self, file: Box<dyn DiskFile>, path: &Path) -> Box<dyn DiskFile> {
        Box::new(WatchedFile { file, disk: self.clone(), path: path.to_owned() })
    }
}

impl Disk for WatchedDisk {
    fn create_directory(&self, dir: &Path) -> io::Result<()> {
        RealDisk.create_directory(dir)
    }

    fn lock(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        RealDisk.lock(dir)
    }

    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        self.run_hook(Call::Identity, path)?;
        RealDisk.identity(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.run_hook(Call::List, dir)?;
        RealDisk.list(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.run_hook(Call::Create, path)?;
        Ok(self.wrap(RealDisk.create(path)?, path))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.run_hook(Call::Open, path)?;
        Ok(self.wrap(RealDisk.open(path)?, path))
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        RealDisk.truncate(path, length)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.run_hook(Call::Rename, to)?;
        RealDisk.rename(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.run_hook(Call::Unlink, path)?;
        RealDisk.unlink(path)
    }

    fn sync_directory(&self, dir: &Path) -> io::Result<()> {
        self.run_hook(Call::SyncDirectory, dir)?;
        RealDisk.sync_directory(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.run_hook(Call::FreeBytes, dir)?;
        Ok(self.free_bytes.load(Ordering::Relaxed))
    }
}

/// A file with a hook before its calls.
struct WatchedFile {
    file: Box<dyn DiskFile>,
    disk: WatchedDisk,
    path: PathBuf,
}

impl DiskFile for WatchedFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.run_hook(Call::Append, &self.path)?;
        self.file.append(bytes)
    }

    fn reserve(&mut self, range: Range<u64>) -> io::Result<u64> {
        self.file.reserve(range)
    }

    fn trim(&mut self) -> io::Result<()> {
        self.file.trim()
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        self.disk.run_hook(Call::Read, &self.path)?;
        self.file.read_at(into, at)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.disk.run_hook(Call::SyncData, &self.path)?;
        self.file.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        self.file.identity()
    }
}
