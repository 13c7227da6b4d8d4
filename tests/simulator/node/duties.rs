//! The duties of a node beside following and sending: erasures and heartbeats. And two rules that mutants break.

use std::rc::Rc;

use parallax::testing::cluster::audit::{Heartbeat, Hex};
use parallax::testing::cluster::filter::AcceptedRun;
use parallax::testing::cluster::follow::OwnLog;
use parallax::testing::cluster::message::push_record;
use parallax::testing::cluster::state::StreamState;

use super::{Around, Node};
use crate::disk::Disk;
use crate::event::{Action, Event};
use crate::mutant::Mutant;
use crate::stream::Message;
use crate::world::Codec;

impl Node {
    /// Carries out the erasures that are in the state and that this directory has not done: it did not read their tombstones. Erased
    /// records that returned unseen can have taken effect after their tombstones, so they need a second one.
    pub(super) fn erase_unread(&mut self, last_accepted: u64, world: &mut Around<'_>) {
        let running = self.running.as_ref().expect("it was started");
        let is_tombstone = |event: &&Event| event.action == Action::Tombstone;
        let tombstones: Vec<Event> = running.base.effects.iter().filter(is_tombstone).copied().collect();
        for tombstone in tombstones {
            let erased = self.disk.erase(&tombstone, self.disk.end());
            erased.iter().for_each(|event| world.facts.exempt(*event));
        }
        let base = &self.running.as_ref().expect("it was started").base;
        for anon in self.disk.under_way.take_unseen(last_accepted, |anon| base.is_erased(*anon)) {
            self.erase_again(anon, world);
        }
    }

    /// Forgets the erased records that had returned before their erasure.
    pub(super) fn forget_returned(&mut self) {
        let Some(running) = &self.running else { return };
        let returned = running.follower.returned(&running.state);
        self.disk.under_way.forget_returned(returned);
    }

    /// Makes a second tombstone of a visitor, one of whose erased records was under way and took effect after the first one. The
    /// tombstone is durable before a checkpoint can have the record.
    pub(super) fn erase_again(&mut self, anon: u8, world: &mut Around<'_>) {
        let running = self.running.as_ref().expect("it runs");
        if world.is(Mutant::HasNoSecondTombstone) || !running.base.is_erased(anon) {
            return;
        }
        let event = world.facts.tombstone(anon, world.now_ms);
        trace!("{}: second tombstone {event:?}", self.name);
        let bytes = world.codec.record(event, world.now_ms, world.random ^ u64::from(event.number));
        self.append(event, bytes, world);
        self.sync(world);
    }

    /// Returns the next heartbeat, if the node may send. A lost one is not sent again.
    pub fn heartbeat(&self, world: &mut Around<'_>) -> Option<Rc<[u8]>> {
        let running = self.running.as_ref().filter(|_| self.is_connected)?;
        if !running.follower.may_forward() {
            return None;
        }
        let producer = &running.follower.producer;
        let heartbeat = Heartbeat {
            node: format!("n{}", self.name),
            position: running.state.position,
            marks: running.marks.newest(),
            predecessors: producer.predecessors.iter().map(|one| Hex(one.id.0)).collect(),
            erased_to: running.state.position,
            oldest: 0,
            first_seq: 1,
        };
        let (header, payload) = heartbeat.to_message(running.state.era.id, producer, world.now_ms);
        Some(world.codec.encoder.encode(&header, &payload).expect("memory").into())
    }
}

/// The mutant A5: makes the first record of a run the next one of its producer.
pub(super) fn accept_gap(state: &mut StreamState, message: &Message, codec: &mut Codec) {
    let Ok(decoded) = codec.decoder.decode(&message.bytes) else { return };
    if let Some(entry) = state.producers.get_mut(&decoded.header.producer_id) {
        entry.next = entry.next.max(decoded.header.first);
    }
}

/// The mutant A18: returns whether a record differs from the own log, erased or not.
pub(super) fn is_changed(run: &AcceptedRun, log: &Disk) -> bool {
    let differs = |own: &[u8], bytes: &[u8]| {
        let mut payload = Vec::new();
        push_record(&mut payload, own);
        payload != bytes
    };
    run.records().iter().any(|record| log.record(record.seq).is_none_or(|own| differs(own, record.bytes)))
}
