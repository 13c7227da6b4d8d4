//! The facts about events that the checks compare with the tables.

use parallax::testing::cluster::audit::Difference;

use crate::base::Base;
use crate::event::{Action, Event};

/// The facts that the checks compare with the tables.
#[derive(Default)]
pub struct Facts {
    pub(super) events: Vec<Info>,
    appends: u64,
    /// The anonymous IDs of tombstones that only a lost disk had.
    pub(super) lost_tombstones: Vec<u8>,
    pub new_ids: u32,
    pub chain_mismatches: u32,
    pub sent_under_volatile_id: u32,
    /// Names that another machine took from one that was heard.
    pub usurped: u32,
    /// Processes that ended after another one had taken their name.
    pub replaced: u32,
    /// Answers of a ready node whose table lacked messages from before its start.
    pub answered_early: u32,
    /// Messages that a node sent before it had caught up.
    pub sent_early: u32,
    /// Events that a receipt called visible and that are not in the table.
    pub(super) invisible: u32,
    /// Heartbeats that showed two tables at one position, or two chains without a lost end of the stream.
    pub(super) differences: u32,
    /// True after a restored disk, a copy, a lost end of the stream or a new era. Then new producer IDs are right.
    pub(super) is_disturbed: bool,
}

/// An event, with the facts about it.
pub(super) struct Info {
    pub(super) event: Event,
    pub(super) is_acknowledged: bool,
    /// True if the record was on a lost disk, damaged or erased.
    pub(super) is_exempt: bool,
    /// The number of the newest append of the event, over all nodes.
    pub(super) appended: u64,
}

impl Facts {
    pub fn acknowledge(&mut self, event: u32) {
        self.events[event as usize].is_acknowledged = true;
    }

    /// Notes a receipt that says `"visible":true`.
    pub fn acknowledge_visible(&mut self, event: u32, base: &Base) {
        self.acknowledge(event);
        let is_visible = base.times_applied(event) > 0 || self.events[event as usize].is_exempt;
        self.invisible += u32::from(!is_visible);
    }

    /// Notes the comparison of a heartbeat. Marks from before a lost end have another chain.
    pub fn note_difference(&mut self, difference: Option<Difference>) {
        self.differences += match difference {
            Some(Difference::Digest(_)) => 1,
            Some(Difference::Chain(_)) => u32::from(!self.is_disturbed),
            None => 0,
        };
    }

    pub fn exempt(&mut self, event: u32) {
        self.events[event as usize].is_exempt = true;
    }

    /// Notes a record that only a lost disk had.
    pub fn lose(&mut self, event: u32) {
        self.exempt(event);
        let Event { action, anon, .. } = self.events[event as usize].event;
        self.lost_tombstones.extend(anon.filter(|_| action == Action::Tombstone));
    }

    /// Makes the tombstone of an anonymous ID.
    pub fn tombstone(&mut self, anon: u8, now_ms: i64) -> Event {
        self.add(Action::Tombstone, Some(anon), None, now_ms, false)
    }

    pub(super) fn add(
        &mut self,
        action: Action,
        anon: Option<u8>,
        user: Option<u8>,
        time_ms: i64,
        has_generated_id: bool,
    ) -> Event {
        let number = self.events.len() as u32;
        let event = Event { number, action, anon, user, time_ms, has_generated_id };
        self.events.push(Info { event, is_acknowledged: false, is_exempt: false, appended: 0 });
        self.note_append(event);
        event
    }

    pub(super) fn note_append(&mut self, event: Event) {
        self.appends += 1;
        self.events[event.number as usize].appended = self.appends;
    }
}
