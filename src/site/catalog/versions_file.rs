//! The file `versions` of the data directory: paths, queries and hashes of the last versions of each site, so that
//! `since` knows them after a restart. THE SPEC; there is no other.
//!
//! **Purpose.** The watcher replaces the file after a publication. A start reads it. Nothing else depends on it: if
//! it is missing or damaged, all older versions are unknown, and clients get the full list.
//!
//! The header is that of [`super::state_file`], with the magic FF 50 4C 58 56 45 52 53 ("\xFFPLXVERS").
//!
//! ```text
//! payload   the number of sites, and the sites, sorted by ID; the number of histories, and the histories, sorted by ID
//!
//! site      the site ID; the number of entries, and the entries, sorted by key and content;
//!           the number of versions, and the versions, oldest first
//! entry     a key (a path or the ID of a query); 16 bytes that identify its content
//! version   the version; 32 bytes with the hash of its snapshot; the list of its paths; the list of its queries
//! history   the site ID; the number of servings, 1 to 64, and the servings, oldest first
//! serving   the time from which it was served, in milliseconds since 1970; the version; 32 bytes with the hash of its snapshot
//! list      the number of entries; for each one its index, minus the index of the one before (the first minus 0)
//! ```
//!
//! A file that ends after the sites has no histories: earlier releases wrote none.
//!
//! Numbers are varints, and a text is its length and its bytes (`varint`). Versions share their entries, so
//! the file grows only by the changes of a version and by one byte for each path.
//!
//! **The smallest file in hex** is `tests/golden/smallest.versions.hex`, a golden test.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::state_file::{FileDamage, FileKind, HEADER_BYTES, StateFile, decode_sorted};
use super::versions::{ContentEntry, PublishedVersion, Serving, SiteVersions, Versions};
use crate::limits::{SERVINGS_KEPT_MAX, VERSIONS_FILE_BYTES_MAX, VERSIONS_KEPT_MAX};
use crate::varint::{Decoder, put_number, put_sized};

/// The file `versions`.
pub(crate) static VERSIONS_FILE: FileKind = FileKind {
    name: "versions",
    magic: *b"\xFFPLXVERS",
    format_version: 1,
    format_version_min: 1,
    bytes_max: VERSIONS_FILE_BYTES_MAX,
    content: "served versions",
    if_unreadable: "`since` knows none of them",
    if_unsaved: "after a restart `since` may not know them",
};

/// Reads the file. A file that is damaged or cannot be read is logged. It counts as one without versions.
pub(crate) fn load(file: &StateFile) -> SiteVersions {
    file.load(decode)
}

/// Reads the file at `path` and returns the number of its sites and versions. `None` if there is no such file.
///
/// # Errors
/// The file cannot be read, or it is damaged.
pub fn check(path: &Path) -> io::Result<Option<(usize, usize)>> {
    let count =
        |sites: SiteVersions| (sites.len(), sites.values().map(|versions| versions.iter().count()).sum());
    Ok(VERSIONS_FILE.read(path, decode)?.map(count))
}

/// Encodes the content of the file.
pub fn encode(site_versions: &SiteVersions) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    put_number(&mut bytes, site_versions.len() as u64);
    for (site, versions) in site_versions {
        put_sized(&mut bytes, site.as_bytes());
        encode_site(versions, &mut bytes);
    }
    let histories = || site_versions.iter().filter(|(_, versions)| !versions.servings().is_empty());
    put_number(&mut bytes, histories().count() as u64);
    for (site, versions) in histories() {
        put_sized(&mut bytes, site.as_bytes());
        encode_servings(versions.servings(), &mut bytes);
    }
    VERSIONS_FILE.seal(bytes)
}

fn encode_servings(servings: &[Serving], out: &mut Vec<u8>) {
    put_number(out, servings.len() as u64);
    for serving in servings {
        put_number(out, serving.from_ms.cast_unsigned());
        put_number(out, serving.version);
        out.extend_from_slice(&serving.hash);
    }
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
pub fn decode(bytes: &[u8]) -> Result<SiteVersions, FileDamage> {
    let (_, payload) = VERSIONS_FILE.unseal(bytes)?;
    let mut payload = Decoder(payload);
    let sites = decode_sorted(&mut payload, decode_site).and_then(|sites| match payload.0 {
        [] => Some(sites),
        _ => decode_histories(&mut payload, sites),
    });
    let sites = sites.filter(|_| payload.0.is_empty());
    sites.ok_or_else(|| VERSIONS_FILE.damage("its payload is malformed"))
}

/// Adds the histories to their sites.
fn decode_histories(decoder: &mut Decoder<'_>, mut site_versions: SiteVersions) -> Option<SiteVersions> {
    let mut before = None;
    for _ in 0..decoder.number()? {
        let site = decoder.text()?;
        if before.replace(site).is_some_and(|before| before >= site) {
            return None;
        }
        let servings = decode_servings(decoder)?;
        let versions = site_versions.get_mut(site)?;
        *versions = std::mem::take(versions).with_servings(servings);
    }
    Some(site_versions)
}

fn decode_servings(decoder: &mut Decoder<'_>) -> Option<Vec<Serving>> {
    let count = decoder.number().filter(|count| (1..=SERVINGS_KEPT_MAX as u64).contains(count))?;
    let servings = (0..count).map(|_| {
        let from_ms = i64::try_from(decoder.number()?).ok()?;
        let version = decoder.number()?;
        let hash = decoder.take(32)?.try_into().ok()?;
        Some(Serving { from_ms, version, hash })
    });
    let servings: Vec<Serving> = servings.collect::<Option<_>>()?;
    servings.is_sorted_by_key(|serving| serving.from_ms).then_some(servings)
}

fn decode_site(decoder: &mut Decoder<'_>) -> Option<Versions> {
    let mut entries: Vec<ContentEntry> = Vec::new();
    for _ in 0..decoder.number()? {
        let key = decoder.text()?;
        let content = decoder.take(16)?.try_into().ok()?;
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
    let count = decoder.number().filter(|count| *count <= VERSIONS_KEPT_MAX as u64)?;
    let mut versions = Vec::new();
    for _ in 0..count {
        let version = decoder.number()?;
        let hash = decoder.take(32)?.try_into().ok()?;
        let paths = decode_list(decoder, &entries)?;
        let queries = decode_list(decoder, &entries)?;
        versions.push(Arc::new(PublishedVersion { version, hash, paths, queries }));
    }
    Some(Versions::new(versions))
}

/// Decodes a list of entries, whose keys are sorted and different.
fn decode_list(decoder: &mut Decoder<'_>, entries: &[ContentEntry]) -> Option<Vec<ContentEntry>> {
    let count = decoder.number().filter(|count| *count <= entries.len() as u64)?;
    let mut list: Vec<ContentEntry> = Vec::with_capacity(count as usize);
    let mut at = 0_u64;
    for _ in 0..count {
        at = at.checked_add(decoder.number()?)?;
        let entry = entries.get(usize::try_from(at).ok()?)?;
        if list.last().is_some_and(|last| last.key >= entry.key) {
            return None;
        }
        list.push(entry.clone());
    }
    Some(list)
}
