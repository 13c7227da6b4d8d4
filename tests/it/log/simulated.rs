//! A disk in memory: a page cache over a platter, names that become durable when the directory is synced,
//! calls that fail on demand, and power cuts.
//!
//! It checks one rule by itself: after a failed append or sync, the log does not write through the same
//! descriptor again.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use parallax::testing::storage::disk::{DirectoryLock, Disk, DiskFile, FileIdentity};

use super::inode::Inode;
use crate::dice::Dice;

/// The way in which a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Eio,
    Enospc,
    Short,
    Eintr,
}

/// Bytes that one call reserves at most. It is less than the log asks for.
const RESERVE_BYTES_MAX: usize = 10_000;

/// The calls that fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    Never,
    /// The call with this number. The first one is 1.
    Nth(u64, Fault),
    /// One in this number of calls, with any fault.
    OneIn(usize),
    /// This call and all later ones. They have no effect, because the power is about to fail.
    From(u64),
    /// All calls that need space.
    Full,
}

#[derive(Clone)]
pub struct SimulatedDisk(Arc<Mutex<State>>);

#[derive(Clone)]
struct State {
    random: Dice,
    plan: Plan,
    calls: u64,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    pending: Vec<NameChange>,
    inodes: Vec<Inode>,
    locked: BTreeSet<u64>,
    /// The inode of the directory. Another directory at the same path has another one.
    directory: u64,
    log: Vec<String>,
    on_open: Vec<OpenHook>,
    /// A copy of the disk before each call, if they are wanted.
    copies: Option<Vec<State>>,
}

/// A file that another process writes when a path is opened for the `opens`th time from now on.
#[derive(Clone)]
struct OpenHook {
    path: PathBuf,
    opens: u32,
    written: (PathBuf, Vec<u8>),
}

/// The files of a directory, for [`SimulatedDisk::restore_directory`].
pub struct DirectoryNames(BTreeMap<PathBuf, usize>);

#[derive(Clone)]
struct NameChange {
    removed: Option<PathBuf>,
    added: Option<(PathBuf, usize)>,
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        if let Some(removed) = &self.removed {
            names.remove(removed);
        }
        if let Some((added, inode)) = &self.added {
            names.insert(added.clone(), *inode);
        }
    }
}

impl SimulatedDisk {
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            random: Dice(seed),
            plan: Plan::Never,
            calls: 0,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending: Vec::new(),
            inodes: Vec::new(),
            locked: BTreeSet::new(),
            directory: 0,
            log: Vec::new(),
            on_open: Vec::new(),
            copies: None,
        })))
    }

    /// Copies the disk before each call from now on, so that a test can go on from there as after a crash.
    pub fn begin_copies(&self) {
        self.state().copies = Some(Vec::new());
    }

    /// Returns an independent copy.
    pub fn copied(&self) -> Self {
        Self(Arc::new(Mutex::new(State { locked: BTreeSet::new(), ..self.state().clone() })))
    }

    /// Sets the seed of all later random choices.
    pub fn set_seed(&self, seed: u64) {
        self.state().random = Dice(seed);
    }

    /// Returns the copies, and ends the copying.
    pub fn take_copies(&self) -> Vec<Self> {
        let copies = self.state().copies.take().expect("the copying has begun");
        copies.into_iter().map(|state| Self(Arc::new(Mutex::new(state)))).collect()
    }

    /// Writes a file when `path` is opened for the `opens`th time from now on.
    pub fn put_on_open(&self, path: &Path, opens: u32, written: (PathBuf, Vec<u8>)) {
        self.state().on_open.push(OpenHook { path: path.to_owned(), opens, written });
    }

    fn run_hooks(&self, path: &Path) {
        let mut state = self.state();
        state.on_open.iter_mut().filter(|hook| hook.path == path).for_each(|hook| hook.opens -= 1);
        let (due, left) = std::mem::take(&mut state.on_open).into_iter().partition(|hook| hook.opens == 0);
        state.on_open = left;
        drop(state);
        let due: Vec<OpenHook> = due;
        due.iter().for_each(|hook| self.put(&hook.written.0, &hook.written.1));
    }

    /// Sets the calls that fail, and counts calls from 1 again.
    pub fn plan(&self, plan: Plan) {
        let mut state = self.state();
        state.plan = plan;
        state.calls = 0;
    }

    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Returns the renames, the unlinks and the successful syncs since the last call, such as
    /// `sync /data/oldest`. Failed renames and unlinks are included.
    pub fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.state().log)
    }

    pub fn cut_power(&self) {
        let state = &mut *self.state();
        let pending = std::mem::take(&mut state.pending);
        let in_order = state.random.below(2) == 0;
        let until = state.random.below(pending.len() + 1);
        for (at, change) in pending.iter().enumerate() {
            if if in_order { at < until } else { state.random.below(2) == 0 } {
                change.apply(&mut state.durable_names);
            }
        }
        state.names.clone_from(&state.durable_names);
        for inode in &mut state.inodes {
            inode.cut_power(&mut state.random);
        }
        state.locked.clear();
    }

    pub fn bytes(&self, path: &Path) -> Vec<u8> {
        let state = self.state();
        state.inodes[state.names[path]].cache.clone()
    }

    /// Creates a durable file.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let state = &mut *self.state();
        let mut inode = Inode::default();
        inode.write(0, bytes);
        inode.sync();
        state.inodes.push(inode);
        state.names.insert(path.to_owned(), state.inodes.len() - 1);
        state.durable_names.insert(path.to_owned(), state.inodes.len() - 1);
    }

    /// Moves the directory away with all of its files, and creates an empty one in its place.
    pub fn replace_directory(&self) {
        let state = &mut *self.state();
        state.directory += 1;
        state.names.clear();
    }

    /// Replaces the directory by the one that was there before the first replacement, with these names.
    pub fn restore_directory(&self, names: &DirectoryNames) {
        let state = &mut *self.state();
        state.directory = 0;
        state.names.clone_from(&names.0);
    }

    /// Returns the files of the directory.
    pub fn directory_names(&self) -> DirectoryNames {
        DirectoryNames(self.state().names.clone())
    }

    /// Deletes a file, as another program does.
    pub fn delete(&self, path: &Path) {
        self.state().names.remove(path).expect("the file exists");
    }

    /// Truncates a file, as another program does.
    pub fn truncate_as_another(&self, path: &Path, length: usize) {
        let state = &mut *self.state();
        state.inodes[state.names[path]].trim(length);
    }

    pub fn names(&self) -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        self.state().names.keys().filter_map(name).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl State {
    /// Returns the fault of this call, if any, or an error if the call has no effect.
    fn count_call(&mut self, needs_room: bool) -> io::Result<Option<Fault>> {
        if let Some(mut copies) = self.copies.take() {
            copies.push(Self { locked: BTreeSet::new(), ..self.clone() });
            self.copies = Some(copies);
        }
        self.calls += 1;
        let fault = match self.plan {
            Plan::Never => None,
            Plan::Nth(n, fault) => (n == self.calls).then_some(fault),
            Plan::OneIn(n) => (self.random.below(n) == 0)
                .then(|| [Fault::Eio, Fault::Enospc, Fault::Short, Fault::Eintr][self.random.below(4)]),
            Plan::From(n) if self.calls >= n => return Err(io::Error::other("the power is going")),
            Plan::From(_) => None,
            Plan::Full if needs_room => return Err(ErrorKind::StorageFull.into()),
            Plan::Full => None,
        };
        Ok(fault)
    }

    /// Changes names. A change may happen although it returns an error.
    fn apply_change(&mut self, change: NameChange) -> io::Result<()> {
        let fault = self.count_call(change.added.is_some())?.and_then(error_of);
        if fault.is_none() || self.random.below(2) == 0 {
            change.apply(&mut self.names);
            self.pending.push(change);
        }
        fault.map_or(Ok(()), Err)
    }

    fn inode_of(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }
}

/// Returns the error of a fault. A short call returns none. Calls without a length ignore that fault.
fn error_of(fault: Fault) -> Option<io::Error> {
    match fault {
        Fault::Eio => Some(io::Error::from_raw_os_error(5)),
        Fault::Enospc => Some(ErrorKind::StorageFull.into()),
        Fault::Eintr => Some(ErrorKind::Interrupted.into()),
        Fault::Short => None,
    }
}

impl Disk for SimulatedDisk {
    fn create_directory(&self, _: &Path) -> io::Result<()> {
        // The directory exists, so this needs no room.
        self.state().count_call(false)?.and_then(error_of).map_or(Ok(()), Err)
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        let mut state = self.state();
        state.count_call(false)?.and_then(error_of).map_or(Ok(()), Err)?;
        let directory = state.directory;
        if !state.locked.insert(directory) {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Lock { disk: self.clone(), directory }))
    }

    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        let mut state = self.state();
        state.count_call(false)?.and_then(error_of).map_or(Ok(()), Err)?;
        match state.names.get(path) {
            Some(&inode) => Ok(FileIdentity { device: FILES, inode: inode as u64 }),
            // Only a segment has a file name in such a call. The other path is the directory.
            None if path.extension().is_some() => Err(ErrorKind::NotFound.into()),
            None => Ok(FileIdentity { device: DIRECTORIES, inode: state.directory }),
        }
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.count_call(false)?.and_then(error_of).map_or(Ok(()), Err)?;
        let names = state.names.keys().filter(|path| path.parent() == Some(directory));
        Ok(names.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        if state.names.contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        state.inodes.push(Inode::default());
        let inode = state.inodes.len() - 1;
        state.apply_change(NameChange { removed: None, added: Some((path.to_owned(), inode)) })?;
        Ok(Box::new(SimulatedFile::new(self, path, inode)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.run_hooks(path);
        let mut state = self.state();
        state.count_call(false)?.and_then(error_of).map_or(Ok(()), Err)?;
        let inode = state.inode_of(path)?;
        Ok(Box::new(SimulatedFile::new(self, path, inode)))
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        let state = &mut *self.state();
        let inode = state.inode_of(path)?;
        let fault = state.count_call(false)?.and_then(error_of);
        if fault.is_none() || state.random.below(2) == 0 {
            state.inodes[inode].truncate(length as usize);
        }
        fault.map_or(Ok(()), Err)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        let inode = state.inode_of(from)?;
        state.log.push(format!("rename {}", to.display()));
        state.apply_change(NameChange { removed: Some(from.to_owned()), added: Some((to.to_owned(), inode)) })
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.inode_of(path)?;
        state.log.push(format!("unlink {}", path.display()));
        state.apply_change(NameChange { removed: Some(path.to_owned()), added: None })
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let state = &mut *self.state();
        let fault = state.count_call(false)?.and_then(error_of);
        if fault.is_none() || state.random.below(2) == 0 {
            state.pending.drain(..).for_each(|change| change.apply(&mut state.durable_names));
        }
        if fault.is_none() {
            state.log.push(format!("sync {}", directory.display()));
        }
        fault.map_or(Ok(()), Err)
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        let is_full = matches!(self.state().plan, Plan::Full);
        Ok(if is_full { 0 } else { u64::MAX })
    }
}

/// The device number of all files, and that of all directories.
const FILES: u64 = 1;
const DIRECTORIES: u64 = 2;

struct Lock {
    disk: SimulatedDisk,
    directory: u64,
}

impl DirectoryLock for Lock {
    fn identity(&self) -> io::Result<FileIdentity> {
        Ok(FileIdentity { device: DIRECTORIES, inode: self.directory })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.disk.state().locked.remove(&self.directory);
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    path: PathBuf,
    inode: usize,
    /// The end of the appended bytes.
    end: usize,
    /// True if an append or a sync has failed.
    has_failed: bool,
}

impl SimulatedFile {
    fn new(disk: &SimulatedDisk, path: &Path, inode: usize) -> Self {
        Self { disk: disk.clone(), path: path.to_owned(), inode, end: 0, has_failed: false }
    }
}

impl DiskFile for SimulatedFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(!self.has_failed, "{} is appended to after a failure", self.path.display());
        let state = &mut *self.disk.state();
        let Ok(fault) = state.count_call(true) else {
            self.has_failed = true;
            return Err(ErrorKind::StorageFull.into());
        };
        let part = match fault {
            None => bytes.len(),
            Some(Fault::Eintr) => return Err(ErrorKind::Interrupted.into()),
            Some(_) => state.random.below(bytes.len().max(1)),
        };
        state.inodes[self.inode].write(self.end, &bytes[..part]);
        self.end += part;
        self.has_failed = fault.is_some();
        fault.and_then(error_of).map_or(Ok(part), Err)
    }

    fn reserve(&mut self, range: Range<u64>) -> io::Result<u64> {
        assert!(!self.has_failed, "{} is made longer after a failure", self.path.display());
        let state = &mut *self.disk.state();
        let fault = state.count_call(true)?;
        let (from, most) = (range.start as usize, range.count().min(RESERVE_BYTES_MAX));
        assert!(from >= self.end, "{} is overwritten with zeros", self.path.display());
        let part = if fault.is_some() { state.random.below(most) } else { most };
        state.inodes[self.inode].write(from, &vec![0; part]);
        fault.and_then(error_of).map_or(Ok(part as u64), Err)
    }

    fn trim(&mut self) -> io::Result<()> {
        assert!(!self.has_failed, "{} is cut after a failure", self.path.display());
        let state = &mut *self.disk.state();
        let fault = state.count_call(false)?.filter(|fault| *fault != Fault::Eintr).and_then(error_of);
        if fault.is_none() || state.random.below(2) == 0 {
            state.inodes[self.inode].trim(self.end);
        }
        fault.map_or(Ok(()), Err)
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let state = &mut *self.disk.state();
        let fault = state.count_call(false)?;
        fault.and_then(error_of).map_or(Ok(()), Err)?;
        let bytes = state.inodes[self.inode].cache.get(at as usize..).unwrap_or_default();
        let mut length = bytes.len().min(into.len());
        if fault == Some(Fault::Short) && length > 1 {
            length = 1 + state.random.below(length - 1);
        }
        into[..length].copy_from_slice(&bytes[..length]);
        Ok(length)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        assert!(!self.has_failed, "{} is synced after a failure", self.path.display());
        let state = &mut *self.disk.state();
        let fault = state.count_call(false).inspect_err(|_| self.has_failed = true)?.and_then(error_of);
        match fault {
            None => {
                state.inodes[self.inode].sync();
                state.log.push(format!("sync {}", self.path.display()));
                Ok(())
            }
            Some(error) => {
                self.has_failed = true;
                state.inodes[self.inode].fail_sync(&mut state.random);
                Err(error)
            }
        }
    }

    fn length(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        state.count_call(false)?.and_then(error_of).map_or(Ok(()), Err)?;
        Ok(state.inodes[self.inode].cache.len() as u64)
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        self.disk.state().count_call(false)?.and_then(error_of).map_or(Ok(()), Err)?;
        Ok(FileIdentity { device: FILES, inode: self.inode as u64 })
    }
}
