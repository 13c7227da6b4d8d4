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

use super::format::{
    ArchivedPage, ArchivedPart, ArchivedRule, ArchivedShows, ArchivedSite, FORMAT_VERSION, HASH_AT,
    HEADER_BYTES, Header, MAGIC, VERSION_MAX,
};
use crate::condition::Patterns;
use crate::limits::{NODE_NESTING_MAX, SNAPSHOT_BYTES_MAX, ZONES_MAX};
use crate::storage;

/// A checked snapshot in sealed memory.
pub struct Snapshot {
    map: Mmap,
    header: Header,
    patterns: Patterns,
    /// Gives the memory back to the budget.
    _charge: Charge,
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
        references(site).map_err(|reason| Refusal::Unsound(reason.to_owned()))?;
        if site.version.to_native() != header.version {
            return Err(Refusal::Unsound("header and content name different versions".to_owned()));
        }
        let sources: Vec<&str> = site.patterns.iter().map(|p| p.as_str()).collect();
        let patterns = Patterns::new(&sources).map_err(|error| Refusal::Unsound(error.to_string()))?;
        Ok(Self { map, header, patterns, _charge: charge })
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

/// Whether every index is in range and every zone stands in exactly one place, outside itself. A
/// file that `compile` wrote passes; one that was made by hand with a right hash may not.
fn references(site: &ArchivedSite) -> Result<(), &'static str> {
    let routes = site.routes.len();
    let is_route = |index: u32| (index as usize) < routes;
    let slots = &site.literals;
    if !slots.is_empty() && !slots.len().is_power_of_two()
        || !slots.is_empty() && slots.iter().all(|s| *s != 0)
    {
        return Err("the table of literal paths has no end");
    }
    if slots.iter().any(|s| *s != 0 && !is_route(s.to_native() - 1)) {
        return Err("the table of literal paths names a route that is not there");
    }
    tree_references(site)?;
    for route in site.routes.iter() {
        if !route.path.starts_with('/') {
            return Err("a route's path does not begin with a slash");
        }
        if let ArchivedShows::Page(page) = &route.shows {
            page_references(site, page)?;
        }
    }
    Ok(())
}

/// Whether every branch is reached from exactly one before it, so that a search ends and visits each
/// once, and every route stands as deep as its path has segments, so that each parameter finds its own.
fn tree_references(site: &ArchivedSite) -> Result<(), &'static str> {
    let has_segments = |route: usize, segments: usize| {
        site.routes.get(route).is_some_and(|route| route.path.matches('/').count() == segments)
    };
    let mut depths = vec![None; site.tree.len()];
    depths.iter_mut().take(1).for_each(|root| *root = Some(0));
    for (from, branch) in site.tree.iter().enumerate() {
        let depth: usize = depths[from].ok_or("the tree of patterns has a branch that nothing leads to")?;
        let ends = [(&branch.route, depth), (&branch.rest, depth + 1)];
        for (route, segments) in ends {
            if route.as_ref().is_some_and(|route| !has_segments(route.to_native() as usize, segments)) {
                return Err("the tree of patterns names a route that is not there, or elsewhere");
            }
        }
        let onward = branch.literals.iter().map(|l| l.1.to_native());
        for index in onward.chain(branch.param.as_ref().map(|p| p.to_native())) {
            match depths.get_mut(index as usize) {
                Some(reached @ None) if index as usize > from => *reached = Some(depth + 1),
                _ => return Err("the tree of patterns has a circle, or a branch in two places"),
            }
        }
    }
    Ok(())
}

fn page_references(site: &ArchivedSite, page: &ArchivedPage) -> Result<(), &'static str> {
    let combinations = page.pieces.get(page.combinations.to_native() as usize);
    let array = page.combinations_array_bytes.to_native() as usize;
    if page.zones.len() > ZONES_MAX || combinations.is_none_or(|piece| piece.text.len() < array) {
        return Err("a page has too many zones, or no combinations");
    }
    for zone in page.zones.iter() {
        let is_variant = |index: u8| usize::from(index) < zone.variants.len();
        let rules_hold = zone.rules.iter().all(|rule| match rule {
            ArchivedRule::When { variant, .. } => is_variant(*variant),
            ArchivedRule::Experiment { experiment, arms, .. } => {
                let experiment = site.experiments.get(usize::from(experiment.to_native()));
                experiment.is_some_and(|e| e.ranges.len() == arms.len())
                    && arms.iter().all(|arm| is_variant(*arm))
            }
        });
        if !is_variant(0) || !rules_hold {
            return Err("a rule names what is not there");
        }
    }
    let mut stood = [false; ZONES_MAX];
    parts_references(page, &page.parts, &mut stood, 0)?;
    if stood[..page.zones.len()].contains(&false) {
        return Err("a zone stands nowhere");
    }
    Ok(())
}

fn parts_references(
    page: &ArchivedPage,
    parts: &[ArchivedPart],
    stood: &mut [bool; ZONES_MAX],
    depth: usize,
) -> Result<(), &'static str> {
    for part in parts {
        match part {
            ArchivedPart::Piece(index) if (index.to_native() as usize) < page.pieces.len() => {}
            ArchivedPart::Zone(index) if usize::from(*index) < page.zones.len() => {
                // A second standing covers circles too: a zone within itself would stand twice.
                let twice = std::mem::replace(&mut stood[usize::from(*index)], true);
                if twice || depth >= NODE_NESTING_MAX {
                    return Err("a zone stands in two places, or too deep");
                }
                for variant in page.zones[usize::from(*index)].variants.iter() {
                    parts_references(page, &variant.parts, stood, depth + 1)?;
                }
            }
            _ => return Err("a layout names a piece or a zone that is not there"),
        }
    }
    Ok(())
}

/// What sealed snapshots may take in memory, all together, old ones included until the last
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
