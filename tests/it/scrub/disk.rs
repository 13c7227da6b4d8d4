//! A disk on which bits change under the page cache, and on which other programs act between two reads.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use parallax::testing::storage::disk::{DirectoryLock, Disk, DiskFile, FileIdentity};

use crate::log::simulated::SimulatedDisk;

/// A function that runs before each read past the page cache.
type Hook = Box<dyn FnMut(&Path) + Send>;

/// A simulated disk whose files have other bytes past the page cache.
#[derive(Clone)]
pub(super) struct MediumDisk {
    pub(super) cached: SimulatedDisk,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The changed bits by inode: offset and mask.
    flips: Vec<(u64, u64, u8)>,
    /// The inodes whose reads fail.
    unreadable: Vec<u64>,
    hook: Option<Hook>,
    /// The names of the files that were opened past the page cache, in order.
    opened: Vec<String>,
    /// The number of open files past the page cache, by path.
    open: BTreeMap<PathBuf, usize>,
}

impl MediumDisk {
    pub(super) fn new(cached: SimulatedDisk) -> Self {
        Self { cached, state: Arc::default() }
    }

    /// Changes a bit of a file on the disk. Readers of the page cache do not see it.
    pub(super) fn flip(&self, path: &Path, offset: u64, mask: u8) {
        let inode = self.cached.identity(path).expect("the file exists").inode;
        self.state().flips.push((inode, offset, mask));
    }

    /// Changes all bits back.
    pub(super) fn restore(&self) {
        self.state().flips.clear();
    }

    /// Lets all reads of a file past the page cache fail, as of a lost sector.
    pub(super) fn lose(&self, path: &Path) {
        let inode = self.cached.identity(path).expect("the file exists").inode;
        self.state().unreadable.push(inode);
    }

    /// Sets the function that runs before each read past the page cache.
    pub(super) fn set_hook(&self, hook: impl FnMut(&Path) + Send + 'static) {
        self.state().hook = Some(Box::new(hook));
    }

    pub(super) fn clear_hook(&self) {
        self.state().hook = None;
    }

    /// Returns the names of the files that were opened past the page cache since the last call, each once in a row.
    pub(super) fn take_opened(&self) -> Vec<String> {
        let mut opened = std::mem::take(&mut self.state().opened);
        opened.dedup();
        opened
    }

    /// Returns the number of open files with this path, also if the path leads to another file by now.
    pub(super) fn open_files(&self, path: &Path) -> usize {
        self.state().open.get(path).copied().unwrap_or_default()
    }

    fn run_hook(&self, path: &Path) {
        // The hook uses the disk, too.
        let Some(mut hook) = self.state().hook.take() else { return };
        hook(path);
        self.state().hook.get_or_insert(hook);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the mutex is not poisoned")
    }
}

impl Disk for MediumDisk {
    fn create_directory(&self, dir: &Path) -> io::Result<()> {
        self.cached.create_directory(dir)
    }

    fn lock(&self, dir: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.cached.lock(dir)
    }

    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        self.cached.identity(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.cached.list(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.cached.create(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.cached.open(path)
    }

    fn open_uncached(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = self.cached.open(path)?;
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let mut state = self.state();
        state.opened.push(name);
        *state.open.entry(path.to_owned()).or_default() += 1;
        drop(state);
        let inode = file.identity()?.inode;
        Ok(Box::new(MediumFile { file, inode, path: path.to_owned(), disk: self.clone() }))
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        self.cached.truncate(path, length)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.cached.rename(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.cached.unlink(path)
    }

    fn sync_directory(&self, dir: &Path) -> io::Result<()> {
        self.cached.sync_directory(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.cached.free_bytes(dir)
    }
}

/// A file that is read past the page cache.
struct MediumFile {
    file: Box<dyn DiskFile>,
    inode: u64,
    path: PathBuf,
    disk: MediumDisk,
}

impl Drop for MediumFile {
    fn drop(&mut self) {
        *self.disk.state().open.get_mut(&self.path).expect("it is open") -= 1;
    }
}

impl DiskFile for MediumFile {
    fn append(&mut self, _: &[u8]) -> io::Result<usize> {
        panic!("{} is written", self.path.display())
    }

    fn reserve(&mut self, _: Range<u64>) -> io::Result<u64> {
        panic!("{} is written", self.path.display())
    }

    fn trim(&mut self) -> io::Result<()> {
        panic!("{} is cut", self.path.display())
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        self.disk.run_hook(&self.path);
        let read = self.file.read_at(into, at)?;
        let state = self.disk.state();
        if state.unreadable.contains(&self.inode) {
            return Err(io::Error::from_raw_os_error(5));
        }
        for (_, offset, mask) in state.flips.iter().filter(|(inode, ..)| *inode == self.inode) {
            let place = offset.checked_sub(at).and_then(|place| into[..read].get_mut(place as usize));
            place.into_iter().for_each(|byte| *byte ^= mask);
        }
        Ok(read)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        panic!("{} is synced", self.path.display())
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        self.file.identity()
    }
}
