//! The filter: selects the records of a message that take effect, and advances the state.
//!
//! This is the first half of the function that every node applies to each message. The second half folds the
//! selected records into the table, one at a time, and evicts visitors after each. The filter is pure: it
//! uses the state, the message, its position and its stream time.

use super::era::Era;
use super::message::{self, Decoder, Header, Kind, Message, MessageError, RunRecord, Sender, StreamMessage};
use super::nodes::Erasure;
use super::payloads::{Forget, Heartbeat, STATUS_REQUEST};
use super::producer::ProducerId;
use super::state::{PRODUCERS_MAX, ProducerEntry, StreamState, next_chain};
use crate::record::RecordKind;

/// Time by which the stream's clock may be ahead of the sender's, in ms: 10 minutes. A server whose clock
/// jumps ahead would empty the duplicate window for ever, because the clock of a state never moves back.
/// Beyond this the sender's clock counts.
pub const STREAM_AHEAD_MS_MAX: i64 = 10 * 60 * 1_000;

/// The result of a message.
#[derive(Debug)]
pub enum Step {
    /// The message has no effect. Position and chain have advanced.
    NoEffect(NoEffect),
    /// Records are accepted. The caller takes each from the run and folds it.
    Accepted(AcceptedRun),
    /// The state has noted a heartbeat. The node compares its marks, and keeps a mark of its own table.
    Heartbeat(ProducerId, Heartbeat),
    /// A member is removed.
    Forget(Forget),
    /// The operator asks for the status. The node sends a heartbeat at once.
    StatusRequest,
    /// The message begins another era. The state has not changed. The node loads the checkpoint of that era.
    NewEra(Era),
    /// The message is not the next one. The state has not changed.
    WrongPosition,
}

/// The reason why a message has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoEffect {
    /// The message is malformed.
    Malformed,
    /// The message has a format that the era does not have.
    UnsupportedFormat(u16),
    /// The sender may not send a message of this kind.
    Forbidden(Kind),
    /// Another node sends under the producer ID, or the heartbeat names another node.
    OtherNode,
    /// Another instance is the member of this name.
    NameInUse,
    /// A later session is the member of this name.
    EarlierSession,
    /// The cluster has [`MEMBERS_MAX`](super::members::MEMBERS_MAX) members.
    TooManyMembers,
    /// The message belongs to another era.
    OtherEra,
    /// The message repeats the present era.
    SameEra,
    /// The state has [`PRODUCERS_MAX`] producers.
    TooManyProducers,
    /// The message has another base seq than the producer's first one.
    OtherBaseSeq,
    /// Earlier records of the producer are missing. It sends all again.
    Gap,
    /// All records were accepted before.
    Repeated,
}

/// The accepted part of a run: a cursor over its records.
#[derive(Debug)]
pub struct AcceptedRun {
    header: Header,
    payload: Vec<u8>,
    /// The bytes of the payload that the cursor has passed.
    offset: usize,
    next: u64,
    /// The first accepted seq.
    pub first: u64,
}

impl AcceptedRun {
    pub fn producer_id(&self) -> ProducerId {
        self.header.producer_id
    }

    /// Returns the last accepted seq.
    pub fn last(&self) -> u64 {
        self.header.first + u64::from(self.header.count) - 1
    }

    /// Returns the accepted records.
    pub fn records(&self) -> Vec<RunRecord<'_>> {
        let mut records = message::decode_records(&self.header, &self.payload).unwrap_or_default();
        records.retain(|record| record.seq >= self.first);
        records
    }

    /// Accepts the next record. Returns it with a flag whether it takes effect on the table. A record whose
    /// key the window has takes none. Returns `None` after the last record.
    pub fn next_record(&mut self, state: &mut StreamState) -> Option<(RunRecord<'_>, bool)> {
        let entry = state.producers.get_mut(&self.header.producer_id)?;
        let record = message::next_record(&self.payload, &mut self.offset, &mut self.next)?;
        let clock_ms = state.clock_ms;
        entry.add(record.identity());
        entry.next = record.seq + 1;
        if self.offset == self.payload.len() {
            entry.mark(clock_ms);
        }
        let is_duplicate = state.window.check_and_insert(record.key, clock_ms);
        state.window.commit();
        state.seq += u64::from(!is_duplicate);
        if !is_duplicate && record.record.kind == RecordKind::Tombstone {
            let order = state.order(record.seq - self.first);
            state.nodes.on_tombstone(Erasure {
                id: record.key,
                position: state.position,
                order,
                erased_ms: clock_ms,
                site: record.record.site.unwrap_or_default().to_owned(),
                payload: record.record.payload.to_owned(),
            });
        }
        Some((record, !is_duplicate))
    }
}

/// Processes the message after the state's position.
pub fn step(
    state: &mut StreamState,
    decoder: &mut Decoder,
    message: &StreamMessage<impl AsRef<[u8]>>,
) -> Step {
    if message.position != state.position + 1 {
        return Step::WrongPosition;
    }
    let decoded = decoder.decode(message.bytes.as_ref()).map_err(|error| match error {
        MessageError::UnsupportedFormat(format) => NoEffect::UnsupportedFormat(format),
        MessageError::Malformed(_) => NoEffect::Malformed,
    });
    let decoded = decoded.and_then(|decoded| match decoded.header.kind {
        kind if kind.is_allowed(&message.sender) => Ok(decoded),
        kind => Err(NoEffect::Forbidden(kind)),
    });
    let era = decoded.as_ref().ok().and_then(Era::from_message);
    if let Some(era) = &era
        && era.id != state.era.id
        && era.secret_check == state.era.secret_check
    {
        return Step::NewEra(era.clone());
    }
    state.position = message.position;
    state.previous_chain = state.chain;
    state.chain = next_chain(&state.chain, message);
    let decoded = match decoded {
        Ok(decoded) => decoded,
        Err(reason) => return Step::NoEffect(reason),
    };
    if decoded.header.era != state.era.id {
        return Step::NoEffect(NoEffect::OtherEra);
    }
    if era.is_some() {
        return Step::NoEffect(NoEffect::SameEra);
    }
    let Some(content) = Content::read(&decoded) else { return Step::NoEffect(NoEffect::Malformed) };
    let sender_ms = decoded.header.sent_ms.saturating_add(STREAM_AHEAD_MS_MAX);
    state.advance_clock(message.stream_ms.min(sender_ms));
    apply(state, decoded, content, &message.sender).unwrap_or_else(Step::NoEffect)
}

/// The payload of a message of the present era.
enum Content {
    Run,
    Heartbeat(Heartbeat),
    Forget(Forget),
    StatusRequest,
}

impl Content {
    /// Reads the payload. Returns `None` if it is malformed.
    fn read(message: &Message) -> Option<Self> {
        let Message { header, payload } = message;
        match header.kind {
            Kind::Run => message::decode_records(header, payload).map(|_| Self::Run),
            Kind::Heartbeat => serde_json::from_slice(payload).ok().map(Self::Heartbeat),
            Kind::Forget => serde_json::from_slice(payload).ok().map(Self::Forget),
            Kind::StatusRequest => (payload == STATUS_REQUEST).then_some(Self::StatusRequest),
            Kind::Era => None,
        }
    }
}

/// Applies a message to the state, whose position and clock have advanced.
fn apply(
    state: &mut StreamState,
    message: Message,
    content: Content,
    sender: &Sender,
) -> Result<Step, NoEffect> {
    let id = message.header.producer_id;
    let clock_ms = state.clock_ms;
    let Sender::Node(node) = sender else {
        return Ok(match content {
            Content::Forget(forget) => {
                state.nodes.on_forget(&forget.node, clock_ms);
                Step::Forget(forget)
            }
            _ => Step::StatusRequest,
        });
    };
    if state.producers.get(&id).is_some_and(|entry| !entry.is_of(node)) {
        return Err(NoEffect::OtherNode);
    }
    if !state.nodes.logs.contains_key(&id) && state.nodes.logs.len() >= PRODUCERS_MAX {
        return Err(NoEffect::TooManyProducers);
    }
    if let Content::Heartbeat(heartbeat) = content {
        if heartbeat.node != *node {
            return Err(NoEffect::OtherNode);
        }
        let order = state.order(0);
        state.nodes.on_heartbeat(id, &heartbeat, state.position, order, clock_ms)?;
        if let Some(entry) = state.producers.get_mut(&id) {
            node.clone_into(&mut entry.node);
        }
        // With each heartbeat and not with each message, because this visits all entries.
        for silent in state.nodes.remove_silent(clock_ms) {
            state.producers.remove(&silent);
        }
        return Ok(Step::Heartbeat(id, heartbeat));
    }
    let first = accept(state, &message.header, node)?;
    state.nodes.on_run(id, clock_ms);
    let Message { header, payload } = message;
    let mut run = AcceptedRun { next: header.first, header, payload, offset: 0, first };
    while run.next < first {
        message::next_record(&run.payload, &mut run.offset, &mut run.next);
    }
    Ok(Step::Accepted(run))
}

/// Returns the first seq of a run that is accepted. Makes an entry for a new producer, which belongs to the node from then on.
fn accept(state: &mut StreamState, header: &Header, node_name: &str) -> Result<u64, NoEffect> {
    let entry = state.producers.get(&header.producer_id);
    if entry.is_none() && state.producers.len() >= PRODUCERS_MAX {
        return Err(NoEffect::TooManyProducers);
    }
    let (base_seq, next) =
        entry.map_or((header.base_seq, header.base_seq), |entry| (entry.base_seq, entry.next));
    if header.base_seq != base_seq {
        return Err(NoEffect::OtherBaseSeq);
    }
    if header.first > next {
        return Err(NoEffect::Gap);
    }
    if header.first + u64::from(header.count) <= next {
        return Err(NoEffect::Repeated);
    }
    let entry = state.producers.entry(header.producer_id).or_insert_with(|| ProducerEntry::new(base_seq));
    if entry.node.is_empty() {
        node_name.clone_into(&mut entry.node);
    }
    Ok(next)
}
