//! The members of an event that have a meaning, found in one pass. `null` and `""` count as not there.

use super::document::Value;

/// A member that has a meaning, by its name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Named {
    Type,
    Event,
    Name,
    Properties,
    Traits,
    Context,
    Variants,
    MessageId,
    UserId,
    AnonId,
    AnonymousId,
    Timestamp,
    OriginalTimestamp,
    SentAt,
    TrackingId,
    WriteKey,
    Site,
    /// Of a body; in an event it means nothing.
    Batch,
    Set,
    SetOnce,
    Unset,
    Increment,
    Append,
    Union,
    Remove,
}

impl Named {
    const COUNT: usize = Self::Remove as usize + 1;

    fn of(text: &str) -> Option<Self> {
        Some(match text {
            "type" => Self::Type,
            "event" => Self::Event,
            "name" => Self::Name,
            "properties" => Self::Properties,
            "traits" => Self::Traits,
            "context" => Self::Context,
            "variants" => Self::Variants,
            "messageId" => Self::MessageId,
            "userId" => Self::UserId,
            "anonId" => Self::AnonId,
            "anonymousId" => Self::AnonymousId,
            "timestamp" => Self::Timestamp,
            "originalTimestamp" => Self::OriginalTimestamp,
            "sentAt" => Self::SentAt,
            "trackingId" => Self::TrackingId,
            "writeKey" => Self::WriteKey,
            "site" => Self::Site,
            "batch" => Self::Batch,
            "set" => Self::Set,
            "setOnce" => Self::SetOnce,
            "unset" => Self::Unset,
            "increment" => Self::Increment,
            "append" => Self::Append,
            "union" => Self::Union,
            "remove" => Self::Remove,
            _ => return None,
        })
    }
}

/// What an event has. Of each member only the place is kept, so that all of them are cheap to hand on.
#[derive(Clone, Copy)]
pub(super) struct Members<'d> {
    event: Value<'d>,
    /// Where the values stand in the document, by name; 0, which is the root's place, where there is none.
    places: [u32; Named::COUNT],
}

impl<'d> Members<'d> {
    pub(super) fn of(event: Value<'d>) -> Self {
        let mut places = [0; Named::COUNT];
        for member in event.members() {
            if let Some(name) = Named::of(member.name) {
                places[name as usize] = member.value.present().map_or(0, Value::place);
            }
        }
        Self { event, places }
    }

    pub(super) fn get(&self, name: Named) -> Option<Value<'d>> {
        let place = self.places[name as usize];
        (place != 0).then(|| self.event.beside(place))
    }

    /// The first of its two names wins.
    pub(super) fn anon_id(&self) -> Option<Value<'d>> {
        self.get(Named::AnonId).or_else(|| self.get(Named::AnonymousId))
    }

    /// The first of its two names wins.
    pub(super) fn timestamp(&self) -> Option<Value<'d>> {
        self.get(Named::Timestamp).or_else(|| self.get(Named::OriginalTimestamp))
    }

    /// The first of its two names wins.
    pub(super) fn tracking_id(&self) -> Option<Value<'d>> {
        self.get(Named::TrackingId).or_else(|| self.get(Named::WriteKey))
    }
}
