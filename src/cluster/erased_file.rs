//! The file `erased` of a data directory: the notes of its erasures.
//!
//! # Layout
//!
//! Each line is a JSON object, the oldest erasure first. Seqs, positions and orders are decimal strings, IDs
//! and keys are 32 hex digits.
//!
//! ```text
//! {"id":"..","lastSeq":"9","returned":"7","tombstoneMs":"1767607200000","isDone":true,"hasTooManyRecords":false,"erasure":{..}|null,"records":[["8",".."]]}
//! ```
//!
//! | member | meaning |
//! |---|---|
//! | `id` | erasure ID |
//! | `lastSeq` | last own record that can be the erased visitor's |
//! | `returned` | last own record that had returned at the tombstone |
//! | `tombstoneMs` | when the tombstone was recorded, in ms since 1970 |
//! | `isDone` | all records of the visitor are void |
//! | `hasTooManyRecords` | more records were under way than are noted |
//! | `erasure` | position, order, time (`erasedMs`), site and payload of the tombstone. Null after the own records up to `lastSeq` have returned, and a minute has passed |
//! | `records` | seqs and dedup keys of the erased records that had not returned |
//!
//! # Writing
//!
//! The file is replaced as a whole: before the records of an erasure become void, after they are void, and
//! after the second tombstone of a record is durable. A line that cannot be read is ignored. The erasure of a
//! missing line begins again, as that of a loaded state.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::era::text;
use super::erase::{ErasedRecord, ErasureNote, NotedErasures};
use super::nodes::Erasure;
use super::payloads::Hex;

/// Name of the file.
pub const ERASED_FILE: &str = "erased";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Line {
    id: Hex,
    #[serde(with = "text")]
    last_seq: u64,
    #[serde(with = "text")]
    returned: u64,
    #[serde(with = "text")]
    tombstone_ms: i64,
    is_done: bool,
    has_too_many_records: bool,
    erasure: Option<Tombstone>,
    records: Vec<(Seq, Hex)>,
}

#[derive(Serialize, Deserialize)]
struct Seq(#[serde(with = "text")] u64);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Tombstone {
    #[serde(with = "text")]
    position: u64,
    #[serde(with = "text")]
    order: u64,
    #[serde(with = "text")]
    erased_ms: i64,
    site: String,
    payload: String,
}

/// Encodes the notes of a directory.
///
/// # Panics
/// Never: texts are JSON.
pub fn to_text(noted_erasures: &NotedErasures<Erasure>) -> String {
    let mut records: BTreeMap<u128, Vec<(Seq, Hex)>> = BTreeMap::new();
    for (id, record) in noted_erasures.records() {
        records.entry(id).or_default().push((Seq(record.seq), hex(record.key)));
    }
    let line = |note: &ErasureNote<Erasure>| {
        let line = Line {
            id: hex(note.id),
            last_seq: note.last_seq,
            returned: note.returned,
            tombstone_ms: note.tombstone_ms,
            is_done: note.is_done,
            has_too_many_records: note.has_too_many_records,
            erasure: note.owner.clone().map(|erasure| Tombstone {
                position: erasure.position,
                order: erasure.order,
                erased_ms: erasure.erased_ms,
                site: erasure.site,
                payload: erasure.payload,
            }),
            records: records.remove(&note.id).unwrap_or_default(),
        };
        serde_json::to_string(&line).expect("texts are JSON") + "\n"
    };
    noted_erasures.notes().iter().map(line).collect()
}

/// Decodes the file. Ignores lines that cannot be read.
pub fn from_text(text: &str) -> NotedErasures<Erasure> {
    let mut erased = NotedErasures::default();
    for line in text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
        let id = number(line.id);
        let owner = line.erasure.map(|Tombstone { position, order, erased_ms, site, payload }| Erasure {
            id,
            position,
            order,
            erased_ms,
            site,
            payload,
        });
        let records: Vec<ErasedRecord> = line
            .records
            .into_iter()
            .map(|(seq, key)| ErasedRecord { seq: seq.0, key: number(key) })
            .collect();
        let Line { last_seq, returned, tombstone_ms, is_done, has_too_many_records, .. } = line;
        erased.add(
            ErasureNote { id, last_seq, returned, tombstone_ms, is_done, has_too_many_records, owner },
            &records,
        );
    }
    erased
}

fn hex(number: u128) -> Hex {
    Hex(number.to_be_bytes())
}

fn number(hex: Hex) -> u128 {
    u128::from_be_bytes(hex.0)
}
