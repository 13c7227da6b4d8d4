//! The file `versions` of the data directory: paths, queries and hashes of the last versions of each site, so that
//! `since` knows them after a restart. THE SPEC; there is no other.
//!
//! **Purpose.** The watcher replaces the file after a publication. A start reads it. Nothing else depends on it: if
//! it is missing or damaged, all older versions are unknown, and clients get the full list.
//!
//! ```text
//! OFFSET  SIZE  FIELD           MEANING
//! 0       8     magic           FF 50 4C 58 56 45 52 53 ("\xFFPLXVERS")
//! 8       4     format version  1
//! 12      4     zero
//! 16      8     payload length  bytes after the header; the file ends there
//! 24      32    hash            BLAKE3 of bytes 0..24 and of the payload, in this order
//! 56      n     payload         the number of sites, and the sites, sorted by ID
//!
//! site      the site ID; the number of entries, and the entries, sorted by key and content;
//!           the number of versions, and the versions, oldest first
//! entry     a key (a path or the ID of a query); 16 bytes that identify its content
//! version   the version; 32 bytes with the hash of its snapshot; the list of its paths; the list of its queries
//! list      the number of entries; for each one its index, minus the index of the one before (the first minus 0)
//! ```
//!
//! Numbers of the header are little-endian. All other numbers are varints, and a text is its length and its bytes
//! (`varint`). Versions share their entries, so the file grows only by the changes of a version and by one byte for
//! each path.
//!
//! **Writing**: under a temporary name (a dot file), sync, rename, sync of the directory.
//!
//! **The smallest file in hex** is `tests/golden/smallest.versions.hex`, a golden test.

use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::versions::{ContentEntry, PublishedVersion, SiteVersions, Versions};
use crate::clock;
use crate::limits::{VERSIONS_FILE_BYTES_MAX, VERSIONS_KEPT_MAX};
use crate::storage;
use crate::varint::{Decoder, put_number, put_sized};

/// The name of the file.
pub(crate) const VERSIONS_FILE: &str = "versions";

const MAGIC: [u8; 8] = *b"\xFFPLXVERS";
const FORMAT_VERSION: u32 = 1;
const HEADER_BYTES: usize = 56;
const HASH_OFFSET: usize = 24;

/// Pause after a failed attempt to write the file. The watcher scans more often.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Damage of the file, or another format version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the file `versions` is damaged: {0}")]
pub struct VersionsDamage(&'static str);

/// The file in a data directory, and the state of the attempts to write it.
#[derive(Debug)]
pub(crate) struct VersionsFile {
    path: PathBuf,
    /// The last error, which was logged, and the time of the next attempt.
    failure: Option<(String, Instant)>,
    /// True if the temporary files of earlier processes are deleted.
    is_clean: bool,
}

impl VersionsFile {
    /// Returns the file of a data directory.
    pub(crate) fn new(directory: &Path) -> Self {
        Self { path: directory.join(VERSIONS_FILE), failure: None, is_clean: false }
    }

    /// Reads the file. A file that is damaged or cannot be read is logged. It counts as one without versions.
    pub(crate) fn load(&self) -> SiteVersions {
        let read = match read_bounded(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return SiteVersions::new(),
            Err(error) => Err(error.to_string()),
            Ok(bytes) => decode(&bytes).map_err(|damage| damage.to_string()),
        };
        read.unwrap_or_else(|error| {
            let path = self.path.display();
            tracing::warn!(%path, error, "cannot read the served versions; `since` knows none of them");
            SiteVersions::new()
        })
    }

    /// Replaces the file. Returns whether that is done. An error is logged once, and further attempts have a pause
    /// between them.
    pub(crate) fn save(&mut self, versions: &SiteVersions) -> bool {
        let now = clock::instant();
        if self.failure.as_ref().is_some_and(|(_, next)| now < *next) {
            return false;
        }
        if !std::mem::replace(&mut self.is_clean, true) {
            self.delete_temporary_files();
        }
        let written = storage::write_atomic(&self.path, &encode(versions)).map_err(|error| error.to_string());
        let path = self.path.display();
        match (&written, &self.failure) {
            (Ok(()), Some(_)) => tracing::info!(%path, "the served versions can be saved again"),
            (Err(error), before) if before.as_ref().is_none_or(|(known, _)| known != error) => {
                tracing::warn!(%path, error, "cannot save the served versions; after a restart `since` may not know them");
            }
            _ => {}
        }
        self.failure = written.err().map(|error| (error, clock::instant() + RETRY_AFTER));
        self.failure.is_none()
    }

    /// Deletes the temporary files of processes that were killed.
    fn delete_temporary_files(&self) {
        let Some(Ok(names)) = self.path.parent().map(std::fs::read_dir) else { return };
        for entry in names.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name
                .strip_prefix('.')
                .is_some_and(|name| name.starts_with("versions.") && name.ends_with(".tmp"))
            {
                // Another attempt follows at the next start.
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let (file, stamp) = storage::open_regular(path)?;
    if stamp.length > VERSIONS_FILE_BYTES_MAX {
        let reason = format!("expected at most {VERSIONS_FILE_BYTES_MAX} bytes, got {}", stamp.length);
        return Err(io::Error::new(ErrorKind::InvalidData, reason));
    }
    let mut bytes = Vec::with_capacity(stamp.length as usize);
    file.take(VERSIONS_FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the file at `path` and returns the number of its sites and versions. `None` if there is no such file.
///
/// # Errors
/// The file cannot be read, or it is damaged.
pub fn check(path: &Path) -> io::Result<Option<(usize, usize)>> {
    let bytes = match read_bounded(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let sites = decode(&bytes).map_err(|damage| io::Error::new(ErrorKind::InvalidData, damage))?;
    Ok(Some((sites.len(), sites.values().map(|versions| versions.iter().count()).sum())))
}

/// Encodes the content of the file.
pub fn encode(sites: &SiteVersions) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    put_number(&mut bytes, sites.len() as u64);
    for (site, versions) in sites {
        put_sized(&mut bytes, site.as_bytes());
        encode_site(versions, &mut bytes);
    }
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    let payload_bytes = (bytes.len() - HEADER_BYTES) as u64;
    bytes[16..HASH_OFFSET].copy_from_slice(&payload_bytes.to_le_bytes());
    let hash = hash_of(&bytes);
    bytes[HASH_OFFSET..HEADER_BYTES].copy_from_slice(&hash);
    bytes
}

fn hash_of(bytes: &[u8]) -> [u8; 32] {
    crate::checksum::digest(&[&bytes[..HASH_OFFSET], &bytes[HEADER_BYTES..]])
}

type EntryRef<'v> = (&'v str, &'v [u8; 16]);

fn encode_site(versions: &Versions, out: &mut Vec<u8>) {
    let entries = distinct_entries(versions);
    put_number(out, entries.len() as u64);
    for (key, content) in &entries {
        put_sized(out, key.as_bytes());
        out.extend_from_slice(&content[..]);
    }
    put_number(out, versions.iter().count() as u64);
    for version in versions.iter() {
        put_number(out, version.version);
        out.extend_from_slice(&version.hash);
        for list in [&version.paths, &version.queries] {
            put_number(out, list.len() as u64);
            let mut before = 0;
            for entry in list {
                let at = entries.partition_point(|known| *known < (&*entry.key, &entry.content));
                put_number(out, (at - before) as u64);
                before = at;
            }
        }
    }
}

/// Returns the entries of all versions, sorted, each one once.
fn distinct_entries(versions: &Versions) -> Vec<EntryRef<'_>> {
    let mut entries: Vec<EntryRef<'_>> = Vec::new();
    for version in versions.iter() {
        let sorted = entries.len();
        for entry in version.paths.iter().chain(&version.queries) {
            let entry = (&*entry.key, &entry.content);
            if entries[..sorted].binary_search(&entry).is_err() {
                entries.push(entry);
            }
        }
        entries.sort();
    }
    entries
}

/// Decodes the content of the file.
///
/// # Errors
/// The content is damaged, or of another format version.
pub fn decode(bytes: &[u8]) -> Result<SiteVersions, VersionsDamage> {
    let (header, payload) =
        bytes.split_at_checked(HEADER_BYTES).ok_or(VersionsDamage("it is shorter than its header"))?;
    if header[..8] != MAGIC {
        return Err(VersionsDamage("it does not begin with its magic"));
    }
    if header[8..12] != FORMAT_VERSION.to_le_bytes() {
        return Err(VersionsDamage("its format version is unknown"));
    }
    if header[16..HASH_OFFSET] != (payload.len() as u64).to_le_bytes() {
        return Err(VersionsDamage("its length differs from the length in its header"));
    }
    if header[HASH_OFFSET..] != hash_of(bytes) {
        return Err(VersionsDamage("its hash is wrong"));
    }
    let mut payload = Decoder(payload);
    let sites = decode_sites(&mut payload).filter(|_| payload.0.is_empty());
    sites.ok_or(VersionsDamage("its payload is malformed"))
}

fn decode_sites(payload: &mut Decoder<'_>) -> Option<SiteVersions> {
    let mut sites = SiteVersions::new();
    for _ in 0..payload.number()? {
        let site = payload.text()?.to_owned();
        let is_sorted = sites.last_key_value().is_none_or(|(last, _)| *last < site);
        let versions = decode_site(payload)?;
        is_sorted.then(|| sites.insert(site, versions))?;
    }
    Some(sites)
}

fn decode_site(payload: &mut Decoder<'_>) -> Option<Versions> {
    let mut entries: Vec<ContentEntry> = Vec::new();
    for _ in 0..payload.number()? {
        let key = payload.text()?;
        let content = payload.take(16)?.try_into().ok()?;
        // Contents of one key follow each other, so they share its text.
        let key = match entries.last() {
            Some(last) if *last.key == *key => Arc::clone(&last.key),
            _ => Arc::from(key),
        };
        entries.push(ContentEntry { key, content });
    }
    if !entries.is_sorted_by(|a, b| (&a.key, &a.content) < (&b.key, &b.content)) {
        return None;
    }
    let count = payload.number().filter(|count| *count <= VERSIONS_KEPT_MAX as u64)?;
    let mut versions = Vec::new();
    for _ in 0..count {
        let version = payload.number()?;
        let hash = payload.take(32)?.try_into().ok()?;
        let paths = decode_list(payload, &entries)?;
        let queries = decode_list(payload, &entries)?;
        versions.push(Arc::new(PublishedVersion { version, hash, paths, queries }));
    }
    Some(Versions::new(versions))
}

/// Decodes a list of entries, whose keys are sorted and different.
fn decode_list(payload: &mut Decoder<'_>, entries: &[ContentEntry]) -> Option<Vec<ContentEntry>> {
    let count = payload.number().filter(|count| *count <= entries.len() as u64)?;
    let mut list: Vec<ContentEntry> = Vec::with_capacity(count as usize);
    let mut at = 0_u64;
    for _ in 0..count {
        at = at.checked_add(payload.number()?)?;
        let entry = entries.get(usize::try_from(at).ok()?)?;
        if list.last().is_some_and(|last| last.key >= entry.key) {
            return None;
        }
        list.push(entry.clone());
    }
    Some(list)
}
