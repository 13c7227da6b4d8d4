//! A disk in memory that never fails.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use parallax::testing::storage::disk::{DirectoryLock, Disk, DiskFile, FileIdentity};

type Bytes = Arc<Mutex<Vec<u8>>>;

/// The files by path. Locking always succeeds.
#[derive(Default)]
pub struct MemoryDisk(Mutex<BTreeMap<PathBuf, Bytes>>);

impl MemoryDisk {
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        lock_mutex(&self.0).insert(path.to_owned(), Arc::new(Mutex::new(bytes.to_vec())));
    }

    pub fn bytes(&self, path: &Path) -> Vec<u8> {
        let file = self.file(path).expect("the file exists");
        lock_mutex(&file).clone()
    }

    fn file(&self, path: &Path) -> io::Result<Bytes> {
        lock_mutex(&self.0).get(path).cloned().ok_or_else(|| ErrorKind::NotFound.into())
    }
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Disk for MemoryDisk {
    fn create_directory(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        Ok(Box::new(OnlyDirectory))
    }

    fn identity(&self, _: &Path) -> io::Result<FileIdentity> {
        Ok(ONLY_IDENTITY)
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let files = lock_mutex(&self.0);
        let names = files.keys().filter(|path| path.parent() == Some(directory));
        Ok(names.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        if lock_mutex(&self.0).contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.put(path, b"");
        self.open(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(MemoryFile { bytes: self.file(path)?, end: 0 }))
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        lock_mutex(&*self.file(path)?).resize(length as usize, 0);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = lock_mutex(&self.0);
        let file = files.remove(from).ok_or(ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        lock_mutex(&self.0).remove(path).map(drop).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

/// The identity of every file and directory, none of which is ever replaced.
const ONLY_IDENTITY: FileIdentity = FileIdentity { device: 0, inode: 0 };

struct OnlyDirectory;

impl DirectoryLock for OnlyDirectory {
    fn identity(&self) -> io::Result<FileIdentity> {
        Ok(ONLY_IDENTITY)
    }
}

struct MemoryFile {
    bytes: Bytes,
    /// End of the appended bytes. Reserved bytes may follow.
    end: usize,
}

impl DiskFile for MemoryFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (mut file, end) = (lock_mutex(&self.bytes), self.end + bytes.len());
        let length = file.len().max(end);
        file.resize(length, 0);
        file[self.end..end].copy_from_slice(bytes);
        self.end = end;
        Ok(bytes.len())
    }

    fn reserve(&mut self, range: Range<u64>) -> io::Result<u64> {
        lock_mutex(&self.bytes).resize(range.end as usize, 0);
        Ok(range.end - range.start)
    }

    fn trim(&mut self) -> io::Result<()> {
        lock_mutex(&self.bytes).truncate(self.end);
        Ok(())
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let file = lock_mutex(&self.bytes);
        let bytes = file.get(at as usize..).unwrap_or_default();
        let length = bytes.len().min(into.len());
        into[..length].copy_from_slice(&bytes[..length]);
        Ok(length)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(lock_mutex(&self.bytes).len() as u64)
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        Ok(ONLY_IDENTITY)
    }
}
