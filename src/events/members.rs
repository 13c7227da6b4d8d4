//! The members of an event that have a defined meaning, collected in one pass. `null` and `""` count as
//! missing, except for an empty `variants`.

use super::document::Value;

/// The name of a member that has a defined meaning.
#[derive(Debug, Clone, Copy)]
pub(super) enum MemberName {
    Type,
    Event,
    Name,
    Properties,
    Traits,
    Context,
    Variants,
    Experiments,
    PreviousId,
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
    /// Only valid in a body. Ignored in an event.
    Batch,
    Set,
    SetOnce,
    Unset,
    Increment,
    Append,
    Union,
    Remove,
}

impl MemberName {
    const COUNT: usize = Self::Remove as usize + 1;

    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "type" => Self::Type,
            "event" => Self::Event,
            "name" => Self::Name,
            "properties" => Self::Properties,
            "traits" => Self::Traits,
            "context" => Self::Context,
            "variants" => Self::Variants,
            "experiments" => Self::Experiments,
            "previousId" => Self::PreviousId,
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

/// The known members of an event. It stores a node index for each name, so that it is cheap to copy.
#[derive(Clone, Copy)]
pub(super) struct Members<'d> {
    event: Value<'d>,
    /// The node index of each value, by name. 0, the index of the root, means that the member is missing.
    node_indexes: [u32; MemberName::COUNT],
    /// True if the event has a member that names the site, also if its value is `null` or `""`.
    pub names_site: bool,
}

impl<'d> Members<'d> {
    pub(super) fn new(event: Value<'d>) -> Self {
        let mut node_indexes = [0; MemberName::COUNT];
        let mut names_site = false;
        for member in event.members() {
            if let Some(name) = MemberName::parse(member.name) {
                names_site |= matches!(name, MemberName::TrackingId | MemberName::WriteKey);
                // An empty `variants` is the baseline of a page.
                let is_baseline = matches!(name, MemberName::Variants) && member.value.as_str() == Some("");
                let value = member.value.present().or(is_baseline.then_some(member.value));
                node_indexes[name as usize] = value.map_or(0, Value::node_index);
            }
        }
        Self { event, node_indexes, names_site }
    }

    pub(super) fn get(&self, name: MemberName) -> Option<Value<'d>> {
        let index = self.node_indexes[name as usize];
        (index != 0).then(|| self.event.with_node_index(index))
    }

    /// Returns `anonId`, else `anonymousId`.
    pub(super) fn anon_id(&self) -> Option<Value<'d>> {
        self.get(MemberName::AnonId).or_else(|| self.get(MemberName::AnonymousId))
    }

    /// Returns `timestamp`, else `originalTimestamp`.
    pub(super) fn timestamp(&self) -> Option<Value<'d>> {
        self.get(MemberName::Timestamp).or_else(|| self.get(MemberName::OriginalTimestamp))
    }

    /// Returns `trackingId`, else `writeKey`.
    pub(super) fn tracking_id(&self) -> Option<Value<'d>> {
        self.get(MemberName::TrackingId).or_else(|| self.get(MemberName::WriteKey))
    }
}
