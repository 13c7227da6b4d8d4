//! The payload of a tombstone that travels through the stream: the digests of the erased IDs, and the sealed
//! keys of their visitors.
//!
//! The IDs themselves do not travel. The key of the table finds a profile without a pass over the table, and
//! the hash finds the segments with records of the ID. Someone who can read the stream could guess IDs and
//! compare their hashes. So both are sealed: their bytes are combined with a keystream by exclusive or. Block
//! n of the keystream is the HMAC of the erasure ID and n under a key of the cluster. An erasure ID is random
//! and is used once.
//!
//! ```text
//! {"owner":"...","erased":["...","..."],"sealed":"..."}
//!
//! SEALED, as lower-case hex digits
//! 0       2     keys           their number n, little-endian
//! 2       16n   keys           of the table, two little-endian numbers each
//! ..      8     hashes         to the end, little-endian
//! ```

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Serialize};

use crate::checksum::hmac_sha256;
use crate::log::VisitorIds;
use crate::record::IdTag;
use crate::visitors::store::table::Key;

/// Digests in one tombstone. More are in further ones.
const TAGS_MAX: usize = crate::limits::TOMBSTONE_IDS_MAX;
/// Hashes in one tombstone: 128 KiB as text. A visitor with more is found by comparing all records.
const HASHES_MAX: usize = 8_192;

/// The key that seals the keys of erased visitors.
#[derive(Clone)]
pub struct SealKey(pub [u8; 32]);

/// The sealed part of a tombstone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SealedIds {
    /// The keys of the named IDs in the table. An ID whose text was not known has none.
    pub keys: Vec<Key>,
    /// The hashes of all IDs that the visitor ever had. Empty if they are not known.
    pub hashes: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
struct Payload {
    owner: String,
    erased: Vec<String>,
    sealed: String,
}

/// Returns the payloads of a visitor's tombstones, with the erasure ID of each. `new_id` returns random bits.
///
/// # Panics
/// Never: texts are JSON.
pub fn payloads(
    key: &SealKey,
    visitor_ids: &VisitorIds,
    table_keys: &[Key],
    mut new_id: impl FnMut() -> u128,
) -> Vec<(u128, String)> {
    let hashes = if visitor_ids.hashes.len() <= HASHES_MAX { visitor_ids.hashes.clone() } else { Vec::new() };
    let ids = SealedIds { keys: table_keys.to_vec(), hashes };
    let payload = |named: &[IdTag]| {
        let id = new_id();
        let erased = named.iter().map(|tag| HEXLOWER.encode(&tag.0)).collect();
        let payload =
            Payload { owner: HEXLOWER.encode(&visitor_ids.owner.0), erased, sealed: seal(key, id, &ids) };
        (id, serde_json::to_string(&payload).expect("texts are JSON"))
    };
    let mut named = visitor_ids.named.clone();
    // Their order reveals nothing about the IDs.
    named.sort_unstable();
    named.chunks(TAGS_MAX).map(payload).collect()
}

/// Returns the payload of another tombstone of the same visitor, with the erasure ID `new_id`. `None` if the
/// payload has no sealed part.
///
/// # Panics
/// Never: texts are JSON.
pub fn payload_again(key: &SealKey, erasure_id: u128, payload: &str, new_id: u128) -> Option<String> {
    let ids = open(key, erasure_id, payload)?;
    let payload: Payload = serde_json::from_str(payload).ok()?;
    let payload = Payload { sealed: seal(key, new_id, &ids), ..payload };
    Some(serde_json::to_string(&payload).expect("texts are JSON"))
}

/// Returns the digest of the owner that a payload names.
pub fn owner(payload: &str) -> Option<IdTag> {
    let payload: Payload = serde_json::from_str(payload).ok()?;
    Some(IdTag(from_hex(&payload.owner)?.try_into().ok()?))
}

/// Opens the sealed part of a tombstone. `None` if it has none.
pub fn open(key: &SealKey, erasure_id: u128, payload: &str) -> Option<SealedIds> {
    let payload: Payload = serde_json::from_str(payload).ok()?;
    let mut bytes = from_hex(&payload.sealed)?;
    combine(key, erasure_id, &mut bytes);
    let (count, rest) = bytes.split_first_chunk::<2>()?;
    let (keys, hashes) = rest.split_at_checked(16 * usize::from(u16::from_le_bytes(*count)))?;
    let number = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let keys = keys.as_chunks::<8>().0.as_chunks::<2>().0.iter();
    let (hashes, rest) = hashes.as_chunks::<8>();
    let ids = SealedIds {
        keys: keys.map(|halves| Key(halves.map(|half| number(&half)))).collect(),
        hashes: hashes.iter().map(number).collect(),
    };
    rest.is_empty().then_some(ids)
}

fn seal(key: &SealKey, erasure_id: u128, ids: &SealedIds) -> String {
    let count = u16::try_from(ids.keys.len()).unwrap_or(u16::MAX);
    let mut bytes = count.to_le_bytes().to_vec();
    let keys = ids.keys.iter().take(usize::from(count)).flat_map(|key| key.0);
    keys.chain(ids.hashes.iter().copied()).for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    combine(key, erasure_id, &mut bytes);
    HEXLOWER.encode(&bytes)
}

fn combine(key: &SealKey, erasure_id: u128, bytes: &mut [u8]) {
    for (number, block) in (0_u64..).zip(bytes.chunks_mut(32)) {
        let stream = hmac_sha256(&key.0, &[&erasure_id.to_le_bytes(), &number.to_le_bytes()]);
        block.iter_mut().zip(stream).for_each(|(byte, mask)| *byte ^= mask);
    }
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()
}
