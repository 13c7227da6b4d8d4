//! The members of an event that have a meaning, found in one pass. `null` and `""` count as not there.

use super::document::Value;
use super::operations::OPERATIONS;

/// What an event has. Where a member has two names, the first of the two wins.
#[derive(Clone, Copy, Default)]
pub(super) struct Members<'d> {
    pub kind: Option<Value<'d>>,
    pub event: Option<Value<'d>>,
    pub name: Option<Value<'d>>,
    pub properties: Option<Value<'d>>,
    pub traits: Option<Value<'d>>,
    pub context: Option<Value<'d>>,
    pub variants: Option<Value<'d>>,
    pub message_id: Option<Value<'d>>,
    pub user_id: Option<Value<'d>>,
    pub sent_at: Option<Value<'d>>,
    pub site: Option<Value<'d>>,
    /// Of a body; in an event it means nothing.
    pub batch: Option<Value<'d>>,
    /// In the order of `OPERATIONS`.
    pub operations: [Option<Value<'d>>; OPERATIONS.len()],
    anon_id: [Option<Value<'d>>; 2],
    timestamp: [Option<Value<'d>>; 2],
    tracking_id: [Option<Value<'d>>; 2],
}

impl<'d> Members<'d> {
    pub(super) fn of(event: Value<'d>) -> Self {
        let mut members = Self::default();
        for member in event.members() {
            if let Some(slot) = members.slot(member.name) {
                *slot = member.value.present();
            }
        }
        members
    }

    fn slot(&mut self, name: &str) -> Option<&mut Option<Value<'d>>> {
        Some(match name {
            "type" => &mut self.kind,
            "event" => &mut self.event,
            "name" => &mut self.name,
            "properties" => &mut self.properties,
            "traits" => &mut self.traits,
            "context" => &mut self.context,
            "variants" => &mut self.variants,
            "messageId" => &mut self.message_id,
            "userId" => &mut self.user_id,
            "anonId" => &mut self.anon_id[0],
            "anonymousId" => &mut self.anon_id[1],
            "timestamp" => &mut self.timestamp[0],
            "originalTimestamp" => &mut self.timestamp[1],
            "sentAt" => &mut self.sent_at,
            "trackingId" => &mut self.tracking_id[0],
            "writeKey" => &mut self.tracking_id[1],
            "site" => &mut self.site,
            "batch" => &mut self.batch,
            _ => &mut self.operations[OPERATIONS.iter().position(|known| *known == name)?],
        })
    }

    pub(super) fn anon_id(&self) -> Option<Value<'d>> {
        self.anon_id[0].or(self.anon_id[1])
    }

    pub(super) fn timestamp(&self) -> Option<Value<'d>> {
        self.timestamp[0].or(self.timestamp[1])
    }

    pub(super) fn tracking_id(&self) -> Option<Value<'d>> {
        self.tracking_id[0].or(self.tracking_id[1])
    }

    /// Whether there is a profile operation.
    pub(super) fn has_operation(&self) -> bool {
        self.operations.iter().any(Option::is_some)
    }
}
