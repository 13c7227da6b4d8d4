//! A snapshot file to something that can be served: sealed, mapped, checked, in this order.
//!
//! What was checked is what is served: the file is copied into memory that nobody can change or
//! cut any more (see `storage::sealed_copy`), and only that copy is looked at. So nobody's truncate
//! can raise SIGBUS, and the check that was made once holds for every later access.
//!
//! `unsafe` stands here in two places: the map, and the access behind the check.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::Mmap;

use super::format::{ArchivedSite, FORMAT_VERSION, HASH_AT, HEADER_BYTES, Header, MAGIC, VERSION_MAX};
use super::verify;
use crate::condition::Patterns;
use crate::limits::SNAPSHOT_BYTES_MAX;
use crate::storage;

/// A checked snapshot in sealed memory.
pub struct Snapshot {
    map: Mmap,
    header: Header,
    patterns: Patterns,
    /// Give the memory of the map and of the patterns back to the budget.
    _charges: [Charge; 2],
}

/// Why a file is not served.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    #[error("it is not a snapshot: it does not begin with the snapshot's magic")]
    Foreign,
    #[error("it is not whole: {came} of {expected} bytes are there")]
    NotWhole { expected: u64, came: u64 },
    #[error(
        "its format version is {0}, this server reads {FORMAT_VERSION}: compile again with this release's `parallax compile`"
    )]
    Format(u32),
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    #[error("it is not sound: {0}")]
    Unsound(String),
    #[error(
        "its {needed} bytes do not fit beside the snapshots in memory: {used} of {bound} bytes are taken (--snapshots-memory)"
    )]
    NoRoom { needed: u64, used: u64, bound: u64 },
}

impl Snapshot {
    /// Opens the file at `path`, against `budget`.
    ///
    /// # Errors
    /// The first reason not to serve it.
    pub fn open(path: &Path, budget: &Budget) -> Result<Self, Refusal> {
        let (mut file, stamp) = storage::open_regular(path)?;
        Self::open_file(&mut file, stamp.length, budget)
    }

    /// Opens a regular file of `length` bytes.
    ///
    /// # Errors
    /// The first reason not to serve it.
    pub fn open_file(file: &mut File, length: u64, budget: &Budget) -> Result<Self, Refusal> {
        // First a look at the header alone, so that a file of any size that is no whole snapshot costs nothing.
        header(&first_bytes(file)?, length)?;
        let charge = budget.charge(length)?;
        let copy = storage::sealed_copy(file, length)?;
        // SAFETY: the file is a memfd of ours with the seals SHRINK, GROW and WRITE: no process
        // can change or cut the mapped bytes, for as long as they are mapped.
        let map = unsafe { Mmap::map(&copy) }?;
        let header = header(&map, map.len() as u64)?;
        let payload = &map[HEADER_BYTES..];
        if header.hash_with(payload) != header.hash {
            return Err(Refusal::Damaged("its hash differs from that of its content"));
        }
        let site = rkyv::access::<ArchivedSite, rkyv::rancor::Error>(payload)
            .map_err(|error| Refusal::Unsound(error.to_string()))?;
        verify::check(site).map_err(|reason| Refusal::Unsound(reason.to_owned()))?;
        if site.version.to_native() != header.version {
            return Err(Refusal::Unsound("header and content name different versions".to_owned()));
        }
        let sources: Vec<&str> = site.patterns.iter().map(|p| p.as_str()).collect();
        let patterns = Patterns::new(&sources).map_err(|error| Refusal::Unsound(error.to_string()))?;
        let charges = [charge, budget.charge(patterns.memory_bytes() as u64)?];
        Ok(Self { map, header, patterns, _charges: charges })
    }

    /// The site.
    pub fn site(&self) -> &ArchivedSite {
        // SAFETY: `open_file` checked exactly these bytes as an archive of `Site` with its root at
        // the end, and they are sealed; the map lives as long as `self`.
        unsafe { rkyv::access_unchecked::<ArchivedSite>(&self.map[HEADER_BYTES..]) }
    }

    /// Its compiled regular expressions.
    pub fn patterns(&self) -> &Patterns {
        &self.patterns
    }

    /// The site's version.
    pub fn version(&self) -> u64 {
        self.header.version
    }

    /// Names the whole content.
    pub fn hash(&self) -> [u8; 32] {
        self.header.hash
    }

    /// Whether the file at `path` says that it holds this very content.
    pub fn is_announced_by(&self, path: &Path) -> bool {
        let announced = storage::open_regular(path)
            .map_err(Refusal::from)
            .and_then(|(file, stamp)| header(&first_bytes(&file)?, stamp.length));
        announced.is_ok_and(|header| header.hash == self.header.hash)
    }

    /// Bytes of the whole file.
    pub fn bytes(&self) -> u64 {
        self.map.len() as u64
    }
}

fn first_bytes(file: &File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    file.take(HEADER_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The header at the beginning of `bytes`, of a file of `length` bytes.
fn header(bytes: &[u8], length: u64) -> Result<Header, Refusal> {
    let begins = MAGIC.starts_with(&bytes[..bytes.len().min(MAGIC.len())]);
    if !begins {
        return Err(Refusal::Foreign);
    }
    let Some(head) = bytes.first_chunk::<HEADER_BYTES>().filter(|_| length >= HEADER_BYTES as u64) else {
        return Err(Refusal::NotWhole { expected: HEADER_BYTES as u64, came: length });
    };
    if u32_at(head, 8) != FORMAT_VERSION {
        return Err(Refusal::Format(u32_at(head, 8)));
    }
    if u32_at(head, 12) as usize != HEADER_BYTES {
        return Err(Refusal::Damaged("its header has another length than this format's"));
    }
    let (payload_length, version) = (u64_at(head, 16), u64_at(head, 24));
    let came = length - HEADER_BYTES as u64;
    if payload_length > SNAPSHOT_BYTES_MAX || version > VERSION_MAX {
        return Err(Refusal::Damaged("its header has a length or a version out of range"));
    }
    if came < payload_length {
        return Err(Refusal::NotWhole { expected: payload_length, came });
    }
    if came > payload_length {
        return Err(Refusal::Damaged("it is longer than its header says"));
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(&head[HASH_AT..]);
    Ok(Header { payload_length, version, hash })
}

fn u32_at(head: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

fn u64_at(head: &[u8; HEADER_BYTES], at: usize) -> u64 {
    u64::from(u32_at(head, at)) | u64::from(u32_at(head, at + 4)) << 32
}

/// What sealed snapshots and the tables of their regular expressions may take in memory, all together, old ones included until the last
/// request and the last worker have let go of them.
#[derive(Debug, Clone)]
pub struct Budget {
    used: Arc<AtomicU64>,
    bound: u64,
}

impl Budget {
    /// A budget of `bound` bytes.
    pub fn new(bound: u64) -> Self {
        Self { used: Arc::default(), bound }
    }

    /// Bytes that are taken.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn charge(&self, bytes: u64) -> Result<Charge, Refusal> {
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|sum| *sum <= self.bound)
        });
        match taken {
            Ok(_) => Ok(Charge { bytes, used: Arc::clone(&self.used) }),
            Err(used) => Err(Refusal::NoRoom { needed: bytes, used, bound: self.bound }),
        }
    }
}

struct Charge {
    bytes: u64,
    used: Arc<AtomicU64>,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
