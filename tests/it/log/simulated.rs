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

use parallax::testing::storage::disk::{Disk, DiskFile};

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

struct State {
    random: Dice,
    plan: Plan,
    calls: u64,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    pending: Vec<NameChange>,
    inodes: Vec<Inode>,
    locked: BTreeSet<PathBuf>,
    log: Vec<String>,
}

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
            log: Vec::new(),
        })))
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
        self.state().count_call(true)?.and_then(error_of).map_or(Ok(()), Err)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let mut state = self.state();
        state.count_call(false)?.and_then(error_of).map_or(Ok(()), Err)?;
        if !state.locked.insert(path.to_owned()) {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Lock { disk: self.clone(), path: path.to_owned() }))
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

    fn create_private(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.create(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
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
}

struct Lock {
    disk: SimulatedDisk,
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.disk.state().locked.remove(&self.path);
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
}
