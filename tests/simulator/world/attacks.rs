//! Actions of operators and attackers: replaced disks, second machines with one name, removed members, wrong clocks of the
//! servers, and messages that their senders may not send.

use parallax::testing::checksum::crc32c;
use parallax::testing::cluster::members::REACHABLE_MS;
use parallax::testing::cluster::message::{Header, Kind, Sender, push_record};
use parallax::testing::cluster::payloads::Forget;
use parallax::testing::cluster::producer::ProducerId;
use parallax::testing::log::LogId;

use super::{EraId, World, era};
use crate::disk::Disk;
use crate::event::Action;
use crate::node::Node;

impl World<'_> {
    /// Replaces the disk of a node by an empty one, or starts a second machine under its name with an empty disk.
    pub(super) fn replace_disk(&mut self, node: usize) -> bool {
        let log_id = LogId(u128::from(self.dice.next_u64()).to_le_bytes());
        if self.dice.below(2) == 0 {
            if std::mem::replace(&mut self.has_copy, true) {
                return false;
            }
            trace!("{node}: a second machine gets its name");
            self.facts.is_disturbed = true;
            self.nodes.push(Node::new(self.nodes[node].name, Disk::new(log_id)));
            let last = self.nodes.len() - 1;
            self.with_node(last, |node, around| node.boot(around));
            return true;
        }
        if self.stream.ahead_ms != 0 {
            return false;
        }
        self.has_lost_disk = true;
        let lost = self.nodes[node].lose_disk(log_id);
        trace!("{node}: gets an empty disk, loses {lost:?}");
        lost.into_iter().for_each(|event| self.facts.lose(event));
        self.with_node(node, |node, around| node.boot(around));
        true
    }

    /// Lets the clock of the stream jump ahead, back or home.
    pub(super) fn move_stream_clock(&mut self, _: usize) -> bool {
        if self.has_lost_disk {
            return false;
        }
        let day_ms = 24 * 60 * 60 * 1_000;
        self.stream.ahead_ms = *self.dice.pick(&[0, 40 * day_ms, -day_ms]);
        true
    }

    /// Removes a member that has been silent for 30 s. It may come back.
    pub(super) fn forget_member(&mut self, _: usize) -> bool {
        let Some(state) = self.nodes.iter().find_map(|node| Some(&node.running.as_ref()?.state)) else {
            return false;
        };
        // The operator's command compares times of the servers.
        let is_silent = |heard_ms: i64| self.now_ms - heard_ms >= REACHABLE_MS;
        let mut members = state.nodes.members.0.iter();
        let Some((name, _)) = members.find(|(_, member)| is_silent(member.heard_ms)) else { return false };
        let name = name.clone();
        self.append_forget(&name);
        true
    }

    /// Appends the message of the operator that removes a member.
    pub(super) fn append_forget(&mut self, name: &str) {
        trace!("the operator removes {name}");
        let forget = Forget { node: name.to_owned() };
        let (header, payload) = forget.to_message(self.founding.state.era.id, self.now_ms);
        let bytes = self.codec.encoder.encode(&header, &payload).expect("memory");
        self.stream.append(Sender::Control, bytes.into(), self.now_ms);
    }

    /// Appends a message with the rights of one node that does harm to others if it takes effect.
    pub(super) fn forge(&mut self, attacker: usize) -> bool {
        let victim = self.dice.below(self.nodes.len());
        let kind = self.dice.below(4);
        let Some(state) = self.nodes[attacker].running.as_ref().map(|running| &running.state) else {
            return false;
        };
        let era_id = state.era.id;
        let name = format!("n{}", self.nodes[victim].name);
        let (header, payload) = match kind {
            0 => {
                let id = EraId(u128::from(self.dice.next_u64()).to_be_bytes());
                let forged =
                    parallax::testing::cluster::era::Era { id, ..era(77, self.stream.created_ms, false) };
                forged.to_message(self.now_ms)
            }
            1 => Forget { node: name.clone() }.to_message(era_id, self.now_ms),
            2 => Forget { node: String::new() }.to_message(era_id, self.now_ms),
            _ => {
                let producers = state.producers.iter().filter(|(_, entry)| entry.node == name);
                let Some((id, base_seq, next)) =
                    producers.map(|(id, entry)| (*id, entry.base_seq, entry.next)).next()
                else {
                    return false;
                };
                if victim == attacker || self.nodes[victim].name == self.nodes[attacker].name {
                    return false;
                }
                self.forged_run(id, base_seq, next, era_id)
            }
        };
        let mut bytes = self.codec.encoder.encode(&header, &payload).expect("memory");
        if kind == 2 {
            // A format of another release.
            bytes[8] = 99;
            let crc = crc32c(&[&bytes[..84], &bytes[88..]]);
            bytes[84..88].copy_from_slice(&crc.to_le_bytes());
        }
        trace!("{attacker}: forges {:?} against {name}, format {}", header.kind, bytes[8]);
        let sender = self.nodes[attacker].sender();
        self.stream.append(sender, bytes.into(), self.now_ms);
        true
    }

    /// Returns a run with the next seq of another node's producer.
    fn forged_run(&mut self, id: ProducerId, base_seq: u64, next: u64, era_id: EraId) -> (Header, Vec<u8>) {
        let event = self.facts.add(Action::Page, Some(0), None, self.now_ms, false);
        let record = self.codec.record(event, self.now_ms, u64::from(event.number));
        let mut payload = Vec::new();
        assert!(push_record(&mut payload, &record));
        let sent_ms = self.now_ms;
        let header = Header {
            kind: Kind::Run,
            era: era_id,
            producer_id: id,
            base_seq,
            first: next,
            sent_ms,
            count: 1,
        };
        (header, payload)
    }
}
