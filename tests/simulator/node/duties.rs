//! The duties of a node beside following and sending: erasures and heartbeats. And two rules that mutants break.

use std::rc::Rc;

use parallax::testing::cluster::erase::Absence;
use parallax::testing::cluster::filter::AcceptedRun;
use parallax::testing::cluster::follow::OwnLog;
use parallax::testing::cluster::message::push_record;
use parallax::testing::cluster::payloads::{Heartbeat, Hex};
use parallax::testing::cluster::state::StreamState;

use super::{Around, Node};
use crate::disk::{Disk, Interruption};
use crate::event::{Action, Event};
use crate::mutant::Mutant;
use crate::stream::Message;
use crate::world::Codec;

impl Around<'_> {
    /// Returns whether a mutant ignores a record that the own log does not have.
    pub(super) fn ignores(&self, absence: Absence) -> bool {
        self.is(match absence {
            Absence::Unreadable => Mutant::IgnoresUnreadableRecords,
            Absence::Lost => Mutant::IgnoresLostRecords,
        })
    }

    /// Returns a crash in one of four erasures.
    pub(super) fn interruption(&mut self) -> Option<Interruption> {
        self.random = self.random.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63;
        let bits = self.random >> 32;
        let is_noted_late = self.is(Mutant::NotesErasuresLate);
        let records = (bits >> 2 & 3) as usize;
        (self.may_interrupt && bits & 3 == 0).then_some(Interruption { records, is_noted_late })
    }
}

impl Node {
    /// Carries out the erasures that are in the state and that this directory has not done: it did not read
    /// their tombstones. Erased records that returned unseen can have taken effect after their tombstones, so
    /// they need a second one.
    pub(super) fn erase_unread(&mut self, last_accepted: u64, world: &mut Around<'_>) {
        let running = self.running.as_ref().expect("it was started");
        let clock_ms = running.state.clock_ms;
        let is_tombstone = |event: &&Event| event.action == Action::Tombstone;
        let tombstones: Vec<Event> = running.base.effects.iter().filter(is_tombstone).copied().collect();
        for tombstone in tombstones {
            // All its records count as under way: the state hides the order.
            let returned = if world.is(Mutant::TrustsLoadedOrder) { self.returned() } else { 0 };
            self.erase(&tombstone, (self.disk.end(), returned, clock_ms), None, world);
        }
        let base = &self.running.as_ref().expect("it was started").base;
        for (anon, _) in self.disk.erased.take_unseen(last_accepted, |anon| base.is_erased(*anon)) {
            self.erase_again(anon, world);
        }
    }

    /// Carries out an erasure. `extent` is that of [`crate::disk::Disk::erase`].
    pub(super) fn erase(
        &mut self,
        tombstone: &Event,
        extent: (u64, u64, i64),
        interruption: Option<Interruption>,
        world: &mut Around<'_>,
    ) {
        let erased = self.disk.erase(tombstone, extent, interruption);
        erased.iter().for_each(|event| world.facts.exempt(*event));
    }

    /// Ends the process. Only the durable part of the log remains.
    pub(super) fn crash(&mut self) {
        trace!("{}: crashes during an erasure", self.name);
        self.running = None;
        self.disk.cut(self.disk.durable);
    }

    /// Makes a second tombstone of a visitor, one of whose erased records was under way and took effect after
    /// the first one. The tombstone is durable before a checkpoint can have the record.
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
        let identity = &running.membership.identity;
        let heartbeat = Heartbeat {
            node: identity.name.clone(),
            instance: Hex(identity.instance.0),
            session: Hex(identity.session.0),
            position: running.state.position,
            marks: running.marks.newest(),
            erased_to: running.state.position,
            oldest: 0,
            first_seq: 1,
            unreturned: 0,
            members: Vec::new(),
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
    run.records()
        .iter()
        .any(|record| log.record(record.seq).encoded().is_none_or(|own| differs(own, record.bytes)))
}
