//! The list of the erasures of a log: a file that a restore of an older backup needs, because the backup has the visitors
//! that were erased later.
//!
//! # Layout
//!
//! Each line is a JSON object. Seqs are decimal strings, digests are 32 hex digits, and times are RFC 3339.
//!
//! ```text
//! {"erasures":1,"logId":"..","secretCheck":"..","firstSeq":"1","lastSeq":"60","made":".."}
//! {"seq":"45","erasedAt":"..","site":"fjell","owner":"..","erased":["..",..]}      one per tombstone, in the order of the seqs
//! {"tombstones":"1","crc32c":".."}
//! ```
//!
//! | member | meaning |
//! |---|---|
//! | `erasures` | format version, 1 |
//! | `logId` | ID of the log |
//! | `secretCheck` | a number (8 hex digits) that differs between the keys of the digests and reveals nothing of the key |
//! | `firstSeq` | retention has deleted the tombstones before this seq |
//! | `lastSeq` | last seq of the log when the file was made |
//! | `made` | time when the file was made |
//! | `owner`, `erased` | the digests in the tombstone: of the visitor, and of the IDs that it names |
//! | `crc32c` | CRC-32C of all earlier lines, 8 hex digits |
//!
//! A digest reveals an ID only to somebody who has the file `secret` of the data directory.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::checksum::crc32c;
use crate::events::time;
use crate::log::{Damage, ListedTombstone, LogError, LogId, TombstoneScan, scan_tombstones};
use crate::record::{IdTag, TombstoneKey};
use crate::storage::disk::Disk;

/// The format version of the file.
const VERSION: u32 = 1;

/// The tombstones of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ErasureList {
    pub log_id: LogId,
    /// The check of the key of the digests.
    pub secret_check: u32,
    /// Retention has deleted the tombstones before this seq.
    pub first_seq: u64,
    /// The last seq of the log.
    pub last_seq: u64,
    /// The time when the list was made, in milliseconds.
    pub made_ms: i64,
    /// In the order of their seqs.
    pub tombstones: Vec<ListedTombstone>,
}

/// The reason why a log has no list of erasures.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnlistedError {
    #[error(
        "no segment of the log has an intact header, so its ID is not known; restore the directory from a backup"
    )]
    NoLogId,
    #[error(
        "the file `secret` is missing, so nothing can tell which visitors were erased; restore it from a backup"
    )]
    NoSecret,
    #[error(transparent)]
    Log(#[from] LogError),
}

/// The reason why a file is no list of erasures.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ListError {
    #[error("it is no list of erasures; give the file that `parallax erasures DIR -o FILE` has written")]
    Foreign,
    #[error("it has the format version {0}, which is not supported; use the release that wrote the file")]
    Version(u64),
    #[error(
        "it is damaged: {0}; use another copy of the file, or write it again with `parallax erasures DIR -o FILE`"
    )]
    Damaged(String),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeaderLine {
    erasures: u32,
    log_id: String,
    secret_check: String,
    first_seq: String,
    last_seq: String,
    made: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TombstoneLine {
    seq: String,
    erased_at: String,
    site: String,
    owner: String,
    erased: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndLine {
    tombstones: String,
    crc32c: String,
}

impl ErasureList {
    /// Reads the erasures of the log in `dir`, at the time `now_ms`. A server may be writing to it. The second value is damage
    /// that may hide erasures.
    ///
    /// # Errors
    /// The log has no ID or no key, or cannot be read.
    pub(crate) fn of_log(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        now_ms: i64,
    ) -> Result<(Self, Vec<Damage>), UnlistedError> {
        let TombstoneScan { range, tombstones, damage } = scan_tombstones(disk, dir)?;
        let key = TombstoneKey::read(Arc::clone(disk), dir)?.ok_or(UnlistedError::NoSecret)?;
        let list = Self {
            log_id: range.log_id.ok_or(UnlistedError::NoLogId)?,
            secret_check: key.check(),
            first_seq: range.first,
            last_seq: range.last,
            made_ms: now_ms,
            tombstones,
        };
        Ok((list, damage))
    }

    /// Returns the tombstones that a copy of the log lacks, which has those of `scan`.
    pub(crate) fn missing_in(&self, scan: &TombstoneScan) -> Vec<ListedTombstone> {
        let is_missing = |tombstone: &&ListedTombstone| {
            let found = scan.tombstones.binary_search_by_key(&tombstone.seq, |own| own.seq);
            let is_equal = found.is_ok_and(|at| scan.tombstones[at] == **tombstone);
            // Retention of the copy has deleted the earlier ones together with all records before them.
            tombstone.seq >= scan.range.first && !is_equal
        };
        self.tombstones.iter().filter(is_missing).cloned().collect()
    }

    /// Encodes the file.
    ///
    /// # Panics
    /// Never: texts are JSON.
    pub(crate) fn to_text(&self) -> String {
        let line = |line: serde_json::Result<String>| line.expect("texts are JSON") + "\n";
        let mut text = line(serde_json::to_string(&HeaderLine {
            erasures: VERSION,
            log_id: self.log_id.to_string(),
            secret_check: format!("{:08x}", self.secret_check),
            first_seq: self.first_seq.to_string(),
            last_seq: self.last_seq.to_string(),
            made: time::to_text(self.made_ms),
        }));
        for tombstone in &self.tombstones {
            text += &line(serde_json::to_string(&TombstoneLine {
                seq: tombstone.seq.to_string(),
                erased_at: time::to_text(tombstone.erased_ms),
                site: tombstone.site.clone(),
                owner: tombstone.owner.to_string(),
                erased: tombstone.named.iter().map(IdTag::to_string).collect(),
            }));
        }
        let tombstones = self.tombstones.len().to_string();
        let crc = crc32c(&[text.as_bytes()]);
        text + &line(serde_json::to_string(&EndLine { tombstones, crc32c: format!("{crc:08x}") }))
    }

    /// Decodes the file.
    ///
    /// # Errors
    /// The file is damaged, or is another one.
    pub(crate) fn from_text(text: &str) -> Result<Self, ListError> {
        #[derive(Deserialize)]
        struct Version {
            erasures: u64,
        }
        let damaged = |reason: &str| ListError::Damaged(reason.to_owned());
        let first = text.lines().next().unwrap_or_default();
        let Version { erasures } = serde_json::from_str(first).map_err(|_| ListError::Foreign)?;
        if erasures != u64::from(VERSION) {
            return Err(ListError::Version(erasures));
        }
        let whole = text.strip_suffix('\n').ok_or_else(|| damaged("its end is missing"))?;
        let (content, end) = whole.rsplit_once('\n').ok_or_else(|| damaged("its end is missing"))?;
        let end: EndLine = serde_json::from_str(end).map_err(|_| damaged("its end is missing"))?;
        let crc = crc32c(&[content.as_bytes(), b"\n"]);
        if end.crc32c != format!("{crc:08x}") {
            return Err(damaged("its checksum is wrong"));
        }
        let mut lines = content.lines();
        let header = lines.next().and_then(|line| serde_json::from_str(line).ok());
        let mut list = header.and_then(Self::of_header).ok_or_else(|| damaged("line 1 is invalid"))?;
        for (line, number) in lines.zip(2..) {
            let tombstone = serde_json::from_str(line).ok().and_then(tombstone_of);
            let invalid = || ListError::Damaged(format!("line {number} is invalid"));
            list.tombstones.push(tombstone.ok_or_else(invalid)?);
        }
        Ok(list)
    }

    fn of_header(line: HeaderLine) -> Option<Self> {
        Some(Self {
            log_id: LogId::parse(&line.log_id)?,
            secret_check: u32::from_str_radix(&line.secret_check, 16).ok()?,
            first_seq: line.first_seq.parse().ok()?,
            last_seq: line.last_seq.parse().ok()?,
            made_ms: time::parse_instant(&line.made)?,
            tombstones: Vec::new(),
        })
    }
}

fn tombstone_of(line: TombstoneLine) -> Option<ListedTombstone> {
    Some(ListedTombstone {
        seq: line.seq.parse().ok()?,
        erased_ms: time::parse_instant(&line.erased_at)?,
        site: line.site,
        owner: IdTag::parse(&line.owner)?,
        named: line.erased.iter().map(|tag| IdTag::parse(tag)).collect::<Option<_>>()?,
    })
}
