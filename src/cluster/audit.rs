//! The audit of a cluster: the comparison of digests, and the end of a node that was away too long.
//!
//! # Heartbeats
//!
//! Each node sends a heartbeat every 10 s. It is a message of the stream, so its position is the same for all
//! nodes. When a node processes one, it keeps a *mark*: position, chain, and the digest of its table. Its
//! next heartbeats carry its newest marks. So nodes compare their tables at equal positions
//! ([`Marks::first_difference`]).

use std::collections::VecDeque;

use super::nodes::SILENCE_MS_MAX;
use super::payloads::{Hex, Mark};
use super::producer::Producer;
use super::state::{Chain, StreamState};

/// Time between two heartbeats of a node, in ms. A difference of tables is noticed within two of them.
pub const HEARTBEAT_INTERVAL_MS: i64 = 10_000;
/// Marks that a node keeps. With a heartbeat each second from ten nodes they reach back for a minute. An
/// older one is not compared.
pub const MARKS_KEPT: usize = 64;
/// Marks that a heartbeat carries. More would make heartbeats longer than a batch of events.
pub const MARKS_SENT: usize = 8;

/// Returns whether this directory was away for so long that its producer ID has left the state. It stays alone: its
/// records would count again, and it may have erased visitors.
pub fn was_away_too_long(producer: &Producer, state: &StreamState) -> bool {
    let is_missing =
        producer.returned_seq >= producer.base_seq && !state.producers.contains_key(&producer.id);
    is_missing && state.clock_ms.saturating_sub(producer.returned_ms) > SILENCE_MS_MAX
}

/// A position at which two nodes differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// The nodes have read other messages: the servers of the stream diverge, or the mark is from before the
    /// stream lost its end.
    Chain(u64),
    /// The nodes have folded the same messages into other tables.
    Digest(u64),
}

/// The newest marks of a node.
#[derive(Debug, Default)]
pub struct Marks(VecDeque<Mark>);

impl Marks {
    /// Keeps the mark of a heartbeat. Positions ascend. After another state was loaded, marks from its
    /// position on are replaced.
    pub fn push(&mut self, position: u64, chain: Chain, digest: u128) {
        while self.0.back().is_some_and(|mark| mark.position >= position) {
            self.0.pop_back();
        }
        if self.0.len() == MARKS_KEPT {
            self.0.pop_front();
        }
        self.0.push_back(Mark { position, chain: Hex(chain), digest: Hex(digest.to_be_bytes()) });
    }

    /// Returns the newest marks, for the next heartbeat.
    pub fn newest(&self) -> Vec<Mark> {
        self.0.iter().skip(self.0.len().saturating_sub(MARKS_SENT)).copied().collect()
    }

    /// Returns the first difference from the marks of another node. `None` if all common positions are equal.
    pub fn first_difference(&self, other_marks: &[Mark]) -> Option<Difference> {
        let compare = |other: &Mark| {
            let own = self.0.iter().find(|own| own.position == other.position)?;
            match (own.chain == other.chain, own.digest == other.digest) {
                (false, _) => Some(Difference::Chain(own.position)),
                (true, false) => Some(Difference::Digest(own.position)),
                (true, true) => None,
            }
        };
        other_marks.iter().find_map(compare)
    }
}
