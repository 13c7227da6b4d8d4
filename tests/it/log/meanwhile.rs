//! A disk on which something happens in the midst of what a reader does: at any call, those on its files among them.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use parallax::storage::disk::{Disk, DiskFile};

use super::simulated::SimulatedDisk;

type Event = Box<dyn FnOnce() + Send>;

#[derive(Clone)]
pub struct Meanwhile {
    disk: SimulatedDisk,
    /// Calls until it happens, and what.
    event: Arc<Mutex<(usize, Option<Event>)>>,
}

impl Meanwhile {
    pub fn happens_at(disk: &SimulatedDisk, call: usize, event: impl FnOnce() + Send + 'static) -> Arc<Self> {
        let event = Arc::new(Mutex::new((call, Some(Box::new(event) as Event))));
        Arc::new(Self { disk: disk.clone(), event })
    }

    pub fn has_happened(&self) -> bool {
        self.event.lock().expect("unpoisoned").1.is_none()
    }

    fn call(&self) -> &SimulatedDisk {
        let mut event = self.event.lock().expect("unpoisoned");
        match event.0 {
            0 => event.1.take().into_iter().for_each(|event| event()),
            _ => event.0 -= 1,
        }
        &self.disk
    }
}

impl Disk for Meanwhile {
    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.call().list(folder)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = self.call().open(path)?;
        Ok(Box::new(Read { file, meanwhile: self.clone() }))
    }

    fn make_folder(&self, _: &Path) -> io::Result<()> {
        unreachable!("a reader changes nothing")
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn Send + Sync>> {
        unreachable!("a reader changes nothing")
    }

    fn create_private(&self, _: &Path) -> io::Result<Box<dyn DiskFile>> {
        unreachable!("a reader changes nothing")
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

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        unreachable!("a reader changes nothing")
    }
}

/// A file that is read.
struct Read {
    file: Box<dyn DiskFile>,
    meanwhile: Meanwhile,
}

impl DiskFile for Read {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        self.meanwhile.call();
        self.file.read_at(into, at)
    }

    fn length(&self) -> io::Result<u64> {
        self.meanwhile.call();
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
}
