//! A disk that runs an event in the middle of a read: at any call on the disk or on one of its files.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use parallax::testing::storage::disk::{DirectoryLock, Disk, DiskFile, FileIdentity};

use super::simulated::SimulatedDisk;

type Event = Box<dyn FnOnce() + Send>;

#[derive(Clone)]
pub struct InterleavedDisk {
    disk: SimulatedDisk,
    /// The number of calls before the event, and the event until it has run.
    event: Arc<Mutex<(usize, Option<Event>)>>,
}

impl InterleavedDisk {
    pub fn with_event_at(
        disk: &SimulatedDisk,
        call: usize,
        event: impl FnOnce() + Send + 'static,
    ) -> Arc<Self> {
        let event = Arc::new(Mutex::new((call, Some(Box::new(event) as Event))));
        Arc::new(Self { disk: disk.clone(), event })
    }

    pub fn has_event_run(&self) -> bool {
        self.event.lock().expect("the mutex is not poisoned").1.is_none()
    }

    fn count_call(&self) -> &SimulatedDisk {
        let mut event = self.event.lock().expect("the mutex is not poisoned");
        match event.0 {
            0 => event.1.take().into_iter().for_each(|event| event()),
            _ => event.0 -= 1,
        }
        &self.disk
    }
}

impl Disk for InterleavedDisk {
    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.count_call().list(directory)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = self.count_call().open(path)?;
        Ok(Box::new(InterleavedFile { file, disk: self.clone() }))
    }

    fn create_directory(&self, _: &Path) -> io::Result<()> {
        unreachable!("a reader changes nothing")
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        unreachable!("a reader changes nothing")
    }

    fn identity(&self, _: &Path) -> io::Result<FileIdentity> {
        unreachable!("a reader has no lock")
    }

    fn create(&self, _: &Path) -> io::Result<Box<dyn DiskFile>> {
        unreachable!("a reader changes nothing")
    }

    fn truncate(&self, _: &Path, _: u64) -> io::Result<()> {
        unreachable!("a reader changes nothing")
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        unreachable!("a reader changes nothing")
    }

    fn unlink(&self, _: &Path) -> io::Result<()> {
        unreachable!("a reader changes nothing")
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        unreachable!("a reader changes nothing")
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        unreachable!("a reader writes nothing")
    }
}

/// A file whose calls count as calls on the disk.
struct InterleavedFile {
    file: Box<dyn DiskFile>,
    disk: InterleavedDisk,
}

impl DiskFile for InterleavedFile {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        self.disk.count_call();
        self.file.read_at(into, at)
    }

    fn length(&self) -> io::Result<u64> {
        self.disk.count_call();
        self.file.length()
    }

    fn append(&mut self, _: &[u8]) -> io::Result<usize> {
        unreachable!("a reader changes nothing")
    }

    fn reserve(&mut self, _: Range<u64>) -> io::Result<u64> {
        unreachable!("a reader changes nothing")
    }

    fn trim(&mut self) -> io::Result<()> {
        unreachable!("a reader changes nothing")
    }

    fn sync_data(&mut self) -> io::Result<()> {
        unreachable!("a reader changes nothing")
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        unreachable!("a reader has no lock")
    }
}
