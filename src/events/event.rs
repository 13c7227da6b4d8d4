//! Validation of one event: every member that has a defined meaning.

use super::context::Context;
use super::decode::{EventContext, Submission};
use super::document::Value;
use super::ignored::{IgnoredValues, JsonType};
use super::members::{MemberName, Members};
use super::refusal::{Location, Refusal};
use super::visitor::{self, VisitorIds};
use super::{kind, operations, time, variants};
use crate::limits::{EVENT_BYTES_MAX, EVENT_NAME_CHARS_MAX, MESSAGE_ID_BYTES_MAX, NAME_BYTES_MAX};
use crate::problem;
use crate::record::RecordKind;
use crate::record::fold_input::ClientTimes;

/// A validated event, borrowed from its body.
pub(super) struct Event<'d> {
    pub value: Value<'d>,
    pub kind: RecordKind,
    pub message_id: Option<&'d str>,
    pub anon_id: Option<&'d str>,
    pub user_id: Option<&'d str>,
    /// True if the event has a user ID that does not count, because it is not verified.
    pub is_user_unverified: bool,
    /// The name of a track event. Screen events have "screen", other kinds have none.
    pub event: Option<&'d str>,
    pub name: Option<&'d str>,
    pub variants: Option<&'d str>,
    /// Only of page and track events.
    pub experiments: Option<&'d str>,
    pub properties: Option<Value<'d>>,
    pub context: Context<'d>,
    pub timestamp_ms: i64,
    pub client_times: ClientTimes,
}

impl<'d> Event<'d> {
    /// Validates the event at `place`. `members` are its members. Optional values that cannot be used are added to
    /// `ignored`.
    ///
    /// # Errors
    /// The first error found.
    pub(super) fn read(
        place: Location<'d>,
        members: &Members<'d>,
        sent: &Submission<'d>,
        call: &EventContext<'d>,
        ignored: &mut IgnoredValues,
    ) -> Result<Self, Refusal> {
        let value = place.base;
        check_size(value, place)?;
        check_site(members, call, place)?;
        let kind = kind::parse(members, sent.endpoint, place)?;
        let properties = ignored.typed(JsonType::Object, members.get(MemberName::Properties), place);
        ignored.typed(JsonType::Object, members.get(MemberName::Traits), place);
        let context = Context::read(members.get(MemberName::Context), sent.context, place, ignored)?;
        if kind == RecordKind::Profile {
            operations::check(members, place)?;
        }
        let event = read_event_name(members, kind, place)?;
        let VisitorIds { anon_id, user_id, is_user_unverified } =
            visitor::read_ids(members, call, context.user_hash, place, ignored)?;
        let client_times = read_client_times(members, sent, place, ignored)?;
        Ok(Self {
            value,
            kind,
            message_id: members
                .get(MemberName::MessageId)
                .map(|id| read_message_id(id, place))
                .transpose()?,
            anon_id,
            user_id,
            is_user_unverified,
            event,
            name: members.get(MemberName::Name).and_then(|value| read_name(value, place, ignored)),
            variants: members
                .get(MemberName::Variants)
                .map(|value| variants::read(value, place))
                .transpose()?,
            experiments: members
                .get(MemberName::Experiments)
                .filter(|_| matches!(kind, RecordKind::Page | RecordKind::Track))
                .map(|value| variants::read_experiments(value, place))
                .transpose()?,
            properties,
            context,
            timestamp_ms: time::correct_clock_skew(client_times, call.received_ms),
            client_times,
        })
    }
}

/// Returns the event's message ID for the receipt if it is valid, even if other members are not.
pub(super) fn usable_message_id<'d>(members: &Members<'d>) -> Option<&'d str> {
    members.get(MemberName::MessageId).and_then(parse_message_id)
}

fn check_size<'d>(value: Value<'d>, place: Location<'d>) -> Result<(), Refusal> {
    let bytes = value.source().len();
    if bytes > EVENT_BYTES_MAX {
        let sentence = "The event has {} bytes, more than the limit of 32768.";
        return Err(place.refuse_count(problem::EVENT_TOO_LARGE, value, sentence, bytes));
    }
    match value.is_object() {
        true => Ok(()),
        false => Err(place.refuse(problem::INVALID_EVENT, value, "an object")),
    }
}

/// Checks that an event that names its site names the site of the request.
pub(super) fn check_site<'d>(
    members: &Members<'d>,
    call: &EventContext<'_>,
    place: Location<'d>,
) -> Result<(), Refusal> {
    let named = [(members.tracking_id(), call.tracking_id), (members.get(MemberName::Site), call.site)];
    let other = |(value, own): (Option<Value<'d>>, &str)| value.filter(|value| value.as_text() != Some(own));
    match named.into_iter().find_map(other) {
        Some(value) => Err(place.refuse(problem::SITE_MISMATCH, value, "the site of the request")),
        None => Ok(()),
    }
}

/// Reads the name of a page. Ignores a value that is not a short text.
fn read_name<'d>(value: Value<'d>, place: Location<'d>, ignored: &mut IgnoredValues) -> Option<&'d str> {
    let name = value.as_str().filter(|name| name.len() <= NAME_BYTES_MAX);
    if name.is_none() {
        ignored.add(place, problem::INVALID_EVENT, value, "a string of at most 1024 bytes");
    }
    name
}

fn read_event_name<'d>(
    members: &Members<'d>,
    kind: RecordKind,
    place: Location<'d>,
) -> Result<Option<&'d str>, Refusal> {
    let expected = "the event's name, 1 to 200 characters";
    match kind {
        RecordKind::Screen => Ok(Some(RecordKind::Screen.name())),
        RecordKind::Track => {
            let sentence = "The event has no name; add 'event', 1 to 200 characters.";
            let lacks = || place.refuse_missing(problem::INVALID_EVENT, "event", sentence);
            let value = members.get(MemberName::Event).ok_or_else(lacks)?;
            // Fast path: a name has at most as many characters as bytes.
            let fits = |name: &&str| {
                name.len() <= EVENT_NAME_CHARS_MAX || name.chars().count() <= EVENT_NAME_CHARS_MAX
            };
            let name = value.as_str().filter(fits);
            name.map(Some).ok_or_else(|| place.refuse(problem::INVALID_EVENT, value, expected))
        }
        _ => Ok(None),
    }
}

fn read_message_id<'d>(value: Value<'d>, place: Location<'d>) -> Result<&'d str, Refusal> {
    parse_message_id(value)
        .ok_or_else(|| place.refuse(problem::INVALID_EVENT, value, "1 to 128 bytes of text"))
}

/// Returns a message ID: a text, or the digits of a number. Booleans are invalid, because all events with
/// `true` from one client would be duplicates of the first.
fn parse_message_id(value: Value<'_>) -> Option<&str> {
    let id = value.as_text().filter(|_| value.as_bool().is_none())?;
    (1..=MESSAGE_ID_BYTES_MAX).contains(&id.len()).then_some(id)
}

/// Reads the times that the event states, by the client's clock. A time of sending that is not a time is ignored.
fn read_client_times<'d>(
    members: &Members<'d>,
    sent: &Submission<'_>,
    place: Location<'d>,
    ignored: &mut IgnoredValues,
) -> Result<ClientTimes, Refusal> {
    let expected = |value| place.refuse(problem::INVALID_TIMESTAMP, value, time::EXPECTED);
    let timestamp = members.timestamp().map(|value| time::read(value).ok_or_else(|| expected(value)));
    let sent_ms = read_sent_at(members, place, ignored).or(sent.sent_ms);
    Ok(ClientTimes { timestamp_ms: timestamp.transpose()?, sent_ms })
}

/// Reads the member `sentAt` of an event or a body. Ignores a value that is not a time.
pub(super) fn read_sent_at<'d>(
    members: &Members<'d>,
    place: Location<'d>,
    ignored: &mut IgnoredValues,
) -> Option<i64> {
    let value = members.get(MemberName::SentAt)?;
    let time = time::read(value);
    if time.is_none() {
        ignored.add(place, problem::INVALID_TIMESTAMP, value, time::EXPECTED);
    }
    time
}
