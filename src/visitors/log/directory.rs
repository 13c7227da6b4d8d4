//! The folder of the log: its lock, its names, and the one way by which a file comes into it.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::LogError;
use super::format::{
    OLDEST_BYTES, SECRET_BYTES, oldest_from_bytes, oldest_to_bytes, secret_from_bytes, secret_to_bytes,
};
use crate::limits::{READ_BYTES, SEQ_MAX};
use crate::storage::disk::{Disk, DiskFile, append_whole, read_full};

const LOCK: &str = "lock";
const OLDEST: &str = "oldest";
const ERASING: &str = "erasing";
const SECRET: &str = "secret";
const NEW: &str = ".new";
const REWRITTEN: &str = ".rewritten";
const SUFFIX: &str = ".segment";
const TORN: &str = ".torn-";

/// What `oldest` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oldest {
    /// Nothing was let go.
    Absent,
    /// The first seq that is kept.
    Seq(u64),
    /// It cannot be read: nothing may be deleted for its sake.
    Damaged,
}

/// What fills a file that is being made.
type Fill<'a> = &'a mut dyn FnMut(&mut dyn DiskFile) -> io::Result<()>;

/// The folder, and the lock of who may change it. A clone is for an erasure, which works beside the writer.
#[derive(Clone)]
pub struct Directory {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    /// Held as long as this or a clone is; readers have none.
    _lock: Option<Arc<dyn Send + Sync>>,
}

impl Directory {
    /// The folder for its only writer; made if need be.
    ///
    /// # Errors
    /// [`LogError::Held`] where another has it; else what the system says.
    pub fn own(disk: Arc<dyn Disk>, folder: &Path) -> Result<Self, LogError> {
        disk.make_folder(folder).map_err(|error| LogError::io(folder, error))?;
        let lock = disk.lock(&folder.join(LOCK)).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => LogError::Held { folder: folder.to_owned() },
            _ => LogError::io(&folder.join(LOCK), error),
        })?;
        Ok(Self { disk, folder: folder.to_owned(), _lock: Some(lock.into()) })
    }

    /// The folder for a reader, beside a writer or not.
    pub fn read(disk: Arc<dyn Disk>, folder: &Path) -> Self {
        Self { disk, folder: folder.to_owned(), _lock: None }
    }

    /// Where `name` is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The segments' first seqs, by their names, in order.
    pub fn segments(&self) -> io::Result<Vec<u64>> {
        let names = self.disk.list(&self.folder)?;
        let mut seqs: Vec<u64> = names.iter().filter_map(|name| seq_of(name)).collect();
        seqs.sort_unstable();
        Ok(seqs)
    }

    /// Opens a file to read.
    pub fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open(&self.path(name))
    }

    /// Puts a file that `fill` writes in the place of `name`, whole and durable; it can be appended to.
    ///
    /// # Errors
    /// What failed first. The old file or the new one has the name then, and either may after a crash.
    pub fn install(&self, name: &str, fill: Fill<'_>) -> io::Result<Box<dyn DiskFile>> {
        unless_absent(self.disk.unlink(&self.path(NEW)))?;
        let file = self.disk.create(&self.path(NEW))?;
        self.put(NEW, file, name, fill)
    }

    /// As [`install`](Self::install), for an erasure beside the writer.
    pub fn rewrite(&self, name: &str, fill: Fill<'_>) -> io::Result<()> {
        unless_absent(self.disk.unlink(&self.path(REWRITTEN)))?;
        let file = self.disk.create(&self.path(REWRITTEN))?;
        self.put(REWRITTEN, file, name, fill).map(drop)
    }

    fn put(
        &self,
        new: &str,
        mut file: Box<dyn DiskFile>,
        name: &str,
        fill: Fill<'_>,
    ) -> io::Result<Box<dyn DiskFile>> {
        fill(&mut *file)?;
        file.sync_data()?;
        self.rename(new, name)?;
        Ok(file)
    }

    /// Gives a file another name, durably; a file that has it is gone then.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(&self.path(from), &self.path(to))?;
        self.sync()
    }

    /// Deletes a file, durably.
    pub fn delete(&self, name: &str) -> io::Result<()> {
        unless_absent(self.disk.unlink(&self.path(name)))?;
        self.sync()
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync_folder(&self.folder)
    }

    /// Takes away what a crash or a failure left half made.
    pub fn clear(&self) -> io::Result<()> {
        [NEW, REWRITTEN].iter().try_for_each(|name| unless_absent(self.disk.unlink(&self.path(name))))
    }

    /// Whether an erasure was begun that did not end.
    pub fn is_erasing(&self) -> io::Result<bool> {
        Ok(self.disk.list(&self.folder)?.iter().any(|name| name == ERASING))
    }

    /// An erasure begins, durably.
    pub fn begin_erasing(&self) -> io::Result<()> {
        self.install(ERASING, &mut |_| Ok(())).map(drop)
    }

    /// The erasure has ended.
    pub fn end_erasing(&self) -> io::Result<()> {
        self.delete(ERASING)
    }

    /// The key by which tombstones name ids; `None` where there is none.
    ///
    /// # Errors
    /// What the system says; `InvalidData` where it is damaged.
    pub fn secret(&self) -> io::Result<Option<[u8; 32]>> {
        let file = match self.open(SECRET) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let mut bytes = [0; SECRET_BYTES + 1];
        let length = read_full(&*file, &mut bytes, 0)?;
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the file `secret` is damaged");
        secret_from_bytes(&bytes[..length]).map(Some).ok_or_else(damaged)
    }

    /// Makes that key.
    pub fn set_secret(&self, key: &[u8; 32]) -> io::Result<()> {
        unless_absent(self.disk.unlink(&self.path(NEW)))?;
        let file = self.disk.create_private(&self.path(NEW))?;
        let bytes = secret_to_bytes(key);
        self.put(NEW, file, SECRET, &mut |file| append_whole(file, &bytes)).map(drop)
    }

    /// The files in which recovery kept what it cut.
    pub fn kept_aside(&self) -> io::Result<Vec<String>> {
        let mut names = self.disk.list(&self.folder)?;
        names.retain(|name| name.get(20..).is_some_and(|behind| behind.starts_with(TORN)));
        names.sort_unstable();
        Ok(names)
    }

    /// What retention let go.
    pub fn oldest(&self) -> io::Result<Oldest> {
        let file = match self.open(OLDEST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Oldest::Absent),
            other => other?,
        };
        let mut bytes = [0; OLDEST_BYTES + 1];
        let length = read_full(&*file, &mut bytes, 0)?;
        Ok(oldest_from_bytes(&bytes[..length]).map_or(Oldest::Damaged, Oldest::Seq))
    }

    /// Lets go what is below `seq`, durably; the segments are still there.
    pub fn set_oldest(&self, seq: u64) -> io::Result<()> {
        let bytes = oldest_to_bytes(seq);
        self.install(OLDEST, &mut |file| append_whole(file, &bytes)).map(drop)
    }

    /// Deletes a segment that was let go, and what was cut from it.
    pub fn remove(&self, first_seq: u64) -> io::Result<()> {
        let torn = torn_prefix(first_seq);
        for name in self.disk.list(&self.folder)?.iter().filter(|name| name.starts_with(&torn)) {
            unless_absent(self.disk.unlink(&self.path(name)))?;
        }
        unless_absent(self.disk.unlink(&self.path(&segment_name(first_seq))))
    }

    /// Copies what stands in a segment at `range` into a file of its own; its name is the answer.
    pub fn keep_aside(&self, first_seq: u64, range: Range<u64>) -> io::Result<String> {
        let torn = torn_prefix(first_seq);
        let names = self.disk.list(&self.folder)?;
        let numbers = names.iter().filter_map(|name| name.strip_prefix(&torn)?.parse::<u64>().ok());
        let name = format!("{torn}{}", numbers.max().unwrap_or(0) + 1);
        let from = self.open(&segment_name(first_seq))?;
        self.install(&name, &mut |to| copy(&*from, range.clone(), to))?;
        Ok(name)
    }

    /// Cuts a segment at `length` bytes.
    pub fn cut(&self, first_seq: u64, length: u64) -> io::Result<()> {
        self.disk.truncate(&self.path(&segment_name(first_seq)), length)
    }
}

/// Whether `folder` holds a log: a segment at least, for a log always has one that is written to.
///
/// # Errors
/// What the system says; `NotFound` where there is no such folder.
pub fn holds_log(disk: &dyn Disk, folder: &Path) -> io::Result<bool> {
    Ok(disk.list(folder)?.iter().any(|name| seq_of(name).is_some()))
}

/// The name of the segment that begins with `first_seq`.
pub fn segment_name(first_seq: u64) -> String {
    format!("{first_seq:020}{SUFFIX}")
}

/// The first seq that a segment's name tells; `None` for another file.
pub fn seq_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let is_number = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten().filter(|seq| *seq <= SEQ_MAX)
}

fn torn_prefix(first_seq: u64) -> String {
    format!("{first_seq:020}{TORN}")
}

fn unless_absent(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

fn copy(from: &dyn DiskFile, range: Range<u64>, to: &mut dyn DiskFile) -> io::Result<()> {
    let (mut at, mut buffer) = (range.start, vec![0; READ_BYTES]);
    loop {
        let wanted = buffer.len().min(range.end.saturating_sub(at) as usize);
        let read = read_full(from, &mut buffer[..wanted], at)?;
        if read == 0 {
            return Ok(());
        }
        append_whole(to, &buffer[..read])?;
        at += read as u64;
    }
}
