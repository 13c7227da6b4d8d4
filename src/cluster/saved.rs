//! The encoded state of a node beside its table, as the section *stream* of a checkpoint has it. This is the
//! specification.
//!
//! All numbers are little-endian. Every node can read the state of every other node.
//!
//! ```text
//! OFFSET  SIZE  FIELD           MEANING
//! 0       4     version         3
//! 4       8     position        messages 1 to this one are processed; 0 in the file of `found` and `new-era`, before the message of the era exists
//! 12      8     seq             of the last record that took effect, over all eras
//! 20      16    chain           hash over these messages
//! 36      16    previous chain  the same without the last one
//! 52      8     clock           the greatest message time, milliseconds
//! 60      4     era length      n
//! 64      n     era             JSON, as in the message of an era
//! ..      4     producers       their number
//! ..            PRODUCER        ascending by ID
//! ..      4     members         their number, at most 256
//! ..            MEMBER          ascending by name
//! ..      4     logs            their number
//! ..            LOG             ascending by ID
//! ..      4     erasures        their number
//! ..            ERASURE         ascending by position
//! ..      8     window          number of keys
//! ..      24    KEY             oldest first: dedup key (16), message time (8)
//!
//! PRODUCER
//! 0       16    producer ID
//! 16      8     base seq
//! 24      8     next            the first seq that is not accepted
//! 32      1     has last        1 if a record was accepted, else 0
//! 33      4     length          of the last accepted record
//! 37      8     received        time of that record, milliseconds
//! 45      16    key             of that record
//! 61      16    running hash    over all accepted records
//! 77      8     marked          time of the newest mark, milliseconds
//! 85      4     name length     n
//! 89      n     name            of the node that sends under the ID; empty before its first accepted run
//! ..      4     marks           their number, at most 1,024
//! ..      24    MARK            seq (8), hash (16); ascending
//!
//! MEMBER
//! 0       4     name length     n
//! 4       n     name
//! ..      16    instance        of the data directory
//! ..      16    session         of the process
//! ..      8     since           the position of the heartbeat with which the session began
//! ..      8     heard           the state's clock at the newest heartbeat, milliseconds
//! ..      16    producer ID     under which the member sends
//! ..      8     erased to       the position up to which the member has done all erasures
//! ..      8     oldest          the order below which the member has no records
//!
//! LOG
//! 0       16    producer ID
//! 16      8     heard           the state's clock at the newest heartbeat, or at the first run, milliseconds
//! 24      8     first seq       the seq below which the log of the producer has no records
//!
//! ERASURE
//! 0       16    key of the tombstone
//! 16      8     position
//! 24      8     order           of the tombstone
//! 32      8     erased          the state's clock at its message, milliseconds
//! 40      4     site length     n
//! 44      n     site
//! ..      4     payload length  n
//! ..      n     payload         of the tombstone
//! ```
//!
//! A reader refuses another version, a number above its limit, and bytes that are missing or left over. The
//! blocks of the checkpoint have checksums.

use std::collections::BTreeMap;

use super::era::Era;
use super::identity::{InstanceId, SessionId};
use super::members::{MEMBERS_MAX, Member, Members};
use super::message::RecordIdentity;
use super::nodes::{Erasure, LogEntry, Nodes};
use super::producer::ProducerId;
use super::state::{PRODUCERS_MAX, ProducerEntry, SEQ_MARKS_MAX, SavedState, SeqMark};

/// The version that this release writes and reads.
pub const VERSION: u32 = 3;
/// Longest JSON of an era. A longer one is damage.
const ERA_BYTES_MAX: usize = 64 << 10;
/// Longest name of a node, and longest payload of a tombstone. A longer one is damage.
const TEXT_BYTES_MAX: usize = 2 << 20;

/// Encodes a state.
///
/// # Panics
/// Never: an era has no value that JSON cannot express.
pub fn encode(state: &SavedState) -> Vec<u8> {
    let era = serde_json::to_vec(&state.era).expect("numbers and texts are JSON");
    let mut bytes = Vec::with_capacity(256 + era.len() + 24 * state.window.len());
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&state.position.to_le_bytes());
    bytes.extend_from_slice(&state.seq.to_le_bytes());
    bytes.extend_from_slice(&state.chain);
    bytes.extend_from_slice(&state.previous_chain);
    bytes.extend_from_slice(&state.clock_ms.to_le_bytes());
    bytes.extend_from_slice(&(era.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&era);
    bytes.extend_from_slice(&(state.producers.len() as u32).to_le_bytes());
    for (id, entry) in &state.producers {
        encode_producer(*id, entry, &mut bytes);
    }
    encode_nodes(&state.nodes, &mut bytes);
    bytes.extend_from_slice(&(state.window.len() as u64).to_le_bytes());
    for (key, seen_ms) in &state.window {
        bytes.extend_from_slice(&key.to_le_bytes());
        bytes.extend_from_slice(&seen_ms.to_le_bytes());
    }
    bytes
}

fn encode_producer(id: ProducerId, entry: &ProducerEntry, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&id.0);
    bytes.extend_from_slice(&entry.base_seq.to_le_bytes());
    bytes.extend_from_slice(&entry.next.to_le_bytes());
    bytes.push(u8::from(entry.last.is_some()));
    let last = entry.last.unwrap_or(RecordIdentity { length: 0, received_ms: 0, key: 0 });
    bytes.extend_from_slice(&last.length.to_le_bytes());
    bytes.extend_from_slice(&last.received_ms.to_le_bytes());
    bytes.extend_from_slice(&last.key.to_le_bytes());
    bytes.extend_from_slice(&entry.running_hash.to_le_bytes());
    bytes.extend_from_slice(&entry.marked_ms.to_le_bytes());
    encode_text(&entry.node, bytes);
    bytes.extend_from_slice(&(entry.marks.len() as u32).to_le_bytes());
    for mark in &entry.marks {
        bytes.extend_from_slice(&mark.seq.to_le_bytes());
        bytes.extend_from_slice(&mark.hash.to_le_bytes());
    }
}

fn encode_text(text: &str, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

fn encode_nodes(nodes: &Nodes, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&(nodes.members.0.len() as u32).to_le_bytes());
    for (name, member) in &nodes.members.0 {
        encode_text(name, bytes);
        bytes.extend_from_slice(&member.instance.0);
        bytes.extend_from_slice(&member.session.0);
        bytes.extend_from_slice(&member.since.to_le_bytes());
        bytes.extend_from_slice(&member.heard_ms.to_le_bytes());
        bytes.extend_from_slice(&member.producer.0);
        bytes.extend_from_slice(&member.erased_to.to_le_bytes());
        bytes.extend_from_slice(&member.oldest.to_le_bytes());
    }
    bytes.extend_from_slice(&(nodes.logs.len() as u32).to_le_bytes());
    for (id, entry) in &nodes.logs {
        bytes.extend_from_slice(&id.0);
        bytes.extend_from_slice(&entry.heard_ms.to_le_bytes());
        bytes.extend_from_slice(&entry.first_seq.to_le_bytes());
    }
    bytes.extend_from_slice(&(nodes.erasures.len() as u32).to_le_bytes());
    for erasure in &nodes.erasures {
        bytes.extend_from_slice(&erasure.id.to_le_bytes());
        bytes.extend_from_slice(&erasure.position.to_le_bytes());
        bytes.extend_from_slice(&erasure.order.to_le_bytes());
        bytes.extend_from_slice(&erasure.erased_ms.to_le_bytes());
        encode_text(&erasure.site, bytes);
        encode_text(&erasure.payload, bytes);
    }
}

/// Returns the version of an encoded state if this release does not read it. `None` for the empty section of a server that
/// is alone.
pub fn other_version(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(Input(bytes).take()?)).filter(|version| *version != VERSION)
}

/// Decodes a state. Returns `None` if a check fails.
pub fn decode(bytes: &[u8]) -> Option<SavedState> {
    let mut input = Input(bytes);
    if u32::from_le_bytes(input.take()?) != VERSION {
        return None;
    }
    let (position, seq) = (u64::from_le_bytes(input.take()?), u64::from_le_bytes(input.take()?));
    let (chain, previous_chain) = (input.take()?, input.take()?);
    let clock_ms = i64::from_le_bytes(input.take()?);
    let era_bytes = u32::from_le_bytes(input.take()?) as usize;
    let era: Era = serde_json::from_slice(input.slice(era_bytes, ERA_BYTES_MAX)?).ok()?;
    let producers = u32::from_le_bytes(input.take()?) as usize;
    if producers > PRODUCERS_MAX {
        return None;
    }
    let producers =
        (0..producers).map(|_| decode_producer(&mut input)).collect::<Option<BTreeMap<_, _>>>()?;
    let nodes = decode_nodes(&mut input)?;
    let keys = usize::try_from(u64::from_le_bytes(input.take()?)).ok()?;
    let window_bytes = keys.checked_mul(24).filter(|bytes| *bytes == input.0.len())?;
    let window = input.slice(window_bytes, window_bytes)?.as_chunks::<24>().0.iter();
    let window = window.map(|entry| {
        let mut entry = Input(entry);
        Some((u128::from_le_bytes(entry.take()?), i64::from_le_bytes(entry.take()?)))
    });
    let window = window.collect::<Option<Vec<_>>>()?;
    Some(SavedState { position, seq, chain, previous_chain, era, clock_ms, producers, nodes, window })
}

fn decode_producer(input: &mut Input<'_>) -> Option<(ProducerId, ProducerEntry)> {
    let id = ProducerId(input.take()?);
    let (base_seq, next) = (u64::from_le_bytes(input.take()?), u64::from_le_bytes(input.take()?));
    let [has_last] = input.take()?;
    let last = RecordIdentity {
        length: u32::from_le_bytes(input.take()?),
        received_ms: i64::from_le_bytes(input.take()?),
        key: u128::from_le_bytes(input.take()?),
    };
    let running_hash = u128::from_le_bytes(input.take()?);
    let marked_ms = i64::from_le_bytes(input.take()?);
    let node = input.text()?;
    let marks = u32::from_le_bytes(input.take()?) as usize;
    if marks > SEQ_MARKS_MAX || has_last > 1 {
        return None;
    }
    let mark = |input: &mut Input<'_>| {
        Some(SeqMark { seq: u64::from_le_bytes(input.take()?), hash: u128::from_le_bytes(input.take()?) })
    };
    let marks = (0..marks).map(|_| mark(input)).collect::<Option<Vec<_>>>()?;
    let last = (has_last == 1).then_some(last);
    Some((id, ProducerEntry { node, base_seq, next, last, running_hash, marked_ms, marks }))
}

fn decode_nodes(input: &mut Input<'_>) -> Option<Nodes> {
    let members = u32::from_le_bytes(input.take()?) as usize;
    if members > MEMBERS_MAX {
        return None;
    }
    let members = (0..members).map(|_| decode_member(input)).collect::<Option<BTreeMap<_, _>>>()?;
    let logs = u32::from_le_bytes(input.take()?);
    let logs = (0..logs).map(|_| decode_log(input)).collect::<Option<BTreeMap<_, _>>>()?;
    let erasures = u32::from_le_bytes(input.take()?);
    let erasure = |input: &mut Input<'_>| {
        let (id, position) = (u128::from_le_bytes(input.take()?), u64::from_le_bytes(input.take()?));
        let (order, erased_ms) = (u64::from_le_bytes(input.take()?), i64::from_le_bytes(input.take()?));
        Some(Erasure { id, position, order, erased_ms, site: input.text()?, payload: input.text()? })
    };
    let erasures = (0..erasures).map(|_| erasure(input)).collect::<Option<Vec<_>>>()?;
    Some(Nodes { members: Members(members), logs, erasures })
}

fn decode_member(input: &mut Input<'_>) -> Option<(String, Member)> {
    let name = input.text()?;
    let (instance, session) = (InstanceId(input.take()?), SessionId(input.take()?));
    let (since, heard_ms) = (u64::from_le_bytes(input.take()?), i64::from_le_bytes(input.take()?));
    let producer = ProducerId(input.take()?);
    let (erased_to, oldest) = (u64::from_le_bytes(input.take()?), u64::from_le_bytes(input.take()?));
    Some((name, Member { instance, session, since, heard_ms, producer, erased_to, oldest }))
}

fn decode_log(input: &mut Input<'_>) -> Option<(ProducerId, LogEntry)> {
    let id = ProducerId(input.take()?);
    let (heard_ms, first_seq) = (i64::from_le_bytes(input.take()?), u64::from_le_bytes(input.take()?));
    Some((id, LogEntry { heard_ms, first_seq }))
}

/// The bytes that are not decoded yet.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn text(&mut self) -> Option<String> {
        let length = u32::from_le_bytes(self.take()?) as usize;
        String::from_utf8(self.slice(length, TEXT_BYTES_MAX)?.to_vec()).ok()
    }

    fn slice(&mut self, length: usize, length_max: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).filter(|_| length <= length_max)?;
        self.0 = rest;
        Some(taken)
    }
}
