//! The own records of a node: it writes, syncs, acknowledges and sends them.

use std::rc::Rc;

use parallax::testing::cluster::forward::fill_run;
use parallax::testing::cluster::message::{Header, Kind};
use parallax::testing::record::Record;

use super::{Around, Node, PUBLISH_TIMEOUT_MS};
use crate::event::{Action, Event};
use crate::mutant::Mutant;
use crate::stream::InTransit;

impl Node {
    /// Writes a record of an event. It is not durable yet.
    pub fn append(&mut self, event: Event, bytes: Vec<u8>, world: &mut Around<'_>) {
        let is_tombstone = event.action == Action::Tombstone;
        if is_tombstone {
            let returned = self.returned();
            self.erase(&event, (self.disk.end(), returned, world.now_ms), None, world);
        }
        if let Some(running) = &mut self.running
            && (world.is(Mutant::FoldsOwnOnArrival) || world.is(Mutant::FoldsOwnTwice))
        {
            let (record, _) = Record::decode(&bytes).expect("a record");
            running.base.fold(&record, &bytes, world.profiles_max);
        }
        self.disk.log.push(crate::disk::Entry {
            event: event.number,
            anon: event.anon.filter(|_| !is_tombstone),
            bytes: Some(bytes),
            written_ms: world.now_ms,
        });
    }

    /// Syncs the log, and acknowledges its records or lets them wait for their return.
    pub fn sync(&mut self, world: &mut Around<'_>) {
        let Some(running) = &mut self.running else { return };
        let first = self.disk.durable;
        self.disk.durable = self.disk.end();
        trace!("{}: syncs to {}", self.name, self.disk.durable);
        let may_wait = self.is_connected && running.follower.is_caught_up;
        let returned = running.follower.returned(&running.state);
        let oldest = self.disk.log.get(returned as usize).map_or(world.now_ms, |entry| entry.written_ms);
        for seq in first + 1..=self.disk.durable {
            let event = self.disk.log[seq as usize - 1].event;
            if let Some(event) = running.waiting.push(event, seq, may_wait, oldest, world.now_ms) {
                world.facts.acknowledge(event);
            }
        }
    }

    /// Acknowledges requests that have waited too long, and fails publications without an answer.
    pub fn tick(&mut self, world: &mut Around<'_>) {
        self.end_if_replaced(world);
        let Some(running) = &mut self.running else { return };
        if self.is_connected && running.follower.is_caught_up {
            running.returned.note(running.follower.returned(&running.state), world.now_ms);
        }
        while let Some(event) = running.waiting.next_expired(world.now_ms) {
            world.facts.acknowledge(event);
        }
        let overdue = running.deadlines.iter().filter(|deadline| **deadline <= world.now_ms).count();
        running.deadlines.drain(..overdue);
        let returned = running.follower.returned(&running.state);
        for _ in 0..overdue {
            if world.is(Mutant::NeverGoesBack) {
                running.forwarder.on_acknowledged();
            } else {
                running.forwarder.on_failed(returned);
            }
        }
    }

    /// Sends the next message, if there is one. Returns it.
    pub fn forward(&mut self, records_max: u64, world: &mut Around<'_>) -> Option<InTransit> {
        let running = self.running.as_mut().filter(|_| self.is_connected)?;
        if !running.follower.is_saved {
            if world.is(Mutant::SendsUnderVolatileId) {
                running.follower.is_saved = true;
            } else {
                self.disk.save_producer(&running.follower.producer);
                running.follower.is_saved = true;
                return None;
            }
        }
        if !running.follower.may_forward() && !world.is(Mutant::SendsBeforeCaughtUp) {
            return None;
        }
        if let Some(heartbeat) = self.due_heartbeat(world) {
            return Some(heartbeat);
        }
        let running = self.running.as_mut()?;
        let durable =
            if world.is(Mutant::SendsVolatileRecords) { self.disk.end() } else { self.disk.durable };
        let returned = running.follower.returned(&running.state).max(running.acknowledged);
        let now_ms = if world.is(Mutant::NeverGoesBack) { 0 } else { world.now_ms };
        let first = running.forwarder.next(durable, returned, now_ms)?;
        let last = durable.min(first + records_max - 1);
        let mut payload = Vec::new();
        let count = fill_run(&self.disk, first, last, &mut payload);
        let last = first + u64::from(count) - 1;
        let producer = &running.follower.producer;
        let header = Header {
            kind: Kind::Run,
            era: running.state.era.id,
            producer_id: producer.id,
            base_seq: producer.base_seq,
            first,
            sent_ms: if world.is(Mutant::TrustsStreamClock) { i64::MAX } else { world.now_ms },
            count,
        };
        let bytes: Rc<[u8]> = world.codec.encoder.encode(&header, &payload).expect("memory").into();
        if self.disk.producer().is_none_or(|saved| saved.id != header.producer_id) {
            world.facts.sent_under_volatile_id += 1;
        }
        world.facts.sent_early += u32::from(!running.follower.may_forward());
        running.forwarder.on_sent(last, returned, now_ms);
        running.deadlines.push(world.now_ms + PUBLISH_TIMEOUT_MS);
        trace!("{}: sends {first}..={last} under {:?}", self.name, header.producer_id);
        let sender = self.sender();
        Some(InTransit { bytes, sender, node: usize::MAX, connection: self.connection, last })
    }

    /// Notes that the engine has acknowledged a message of this connection.
    pub fn on_acknowledged(&mut self, message: &InTransit, world: &mut Around<'_>) {
        let Some(running) = &mut self.running else { return };
        if message.connection != self.connection || running.deadlines.is_empty() {
            return;
        }
        running.deadlines.remove(0);
        running.forwarder.on_acknowledged();
        if world.is(Mutant::TrustsAcknowledgement) {
            running.acknowledged = running.acknowledged.max(message.last);
            running.forwarder.on_returned(message.last, world.now_ms);
            while let Some(event) = running.waiting.next_returned(message.last) {
                world.facts.acknowledge_visible(event, &running.base);
            }
        }
    }
}
