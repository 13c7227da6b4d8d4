//! Validation of one event: every member that has a defined meaning.

use super::context::Context;
use super::document::Value;
use super::ignored::{IgnoredValues, JsonType};
use super::location::Location;
use super::members::{MemberName, Members};
use super::refusal::Refusal;
use super::request::RequestFacts;
use super::submission::{Submission, check_site, read_sent_at};
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
    /// Validates the event at `location`. `members` are its members. Optional values that cannot be used are added to
    /// `ignored_values`.
    ///
    /// # Errors
    /// The first error found.
    pub(super) fn read(
        location: Location<'d>,
        members: &Members<'d>,
        submission: &Submission<'d>,
        request: &RequestFacts<'d>,
        ignored_values: &mut IgnoredValues,
    ) -> Result<Self, Refusal> {
        check_size(location.base, location)?;
        check_site(members, request, location)?;
        let kind = kind::parse(members, submission.endpoint, location)?;
        Self::read_as(kind, location, members, submission, request, ignored_values)
    }

    /// Validates an event whose kind is known and whose size and site are not checked, such as that of a record.
    ///
    /// # Errors
    /// The first error found.
    pub(super) fn read_as(
        kind: RecordKind,
        location: Location<'d>,
        members: &Members<'d>,
        submission: &Submission<'d>,
        request: &RequestFacts<'d>,
        ignored_values: &mut IgnoredValues,
    ) -> Result<Self, Refusal> {
        let value = location.base;
        let properties =
            ignored_values.typed(JsonType::Object, members.get(MemberName::Properties), location);
        ignored_values.typed(JsonType::Object, members.get(MemberName::Traits), location);
        let context =
            Context::read(members.get(MemberName::Context), submission.context, location, ignored_values)?;
        if kind == RecordKind::Profile {
            operations::check(members, location)?;
        }
        let event = read_event_name(members, kind, location)?;
        let VisitorIds { anon_id, user_id, is_user_unverified } =
            visitor::read_ids(members, request, context.user_hash, location, ignored_values)?;
        let client_times = read_client_times(members, submission, location, ignored_values)?;
        Ok(Self {
            value,
            kind,
            message_id: members
                .get(MemberName::MessageId)
                .map(|id| read_message_id(id, location))
                .transpose()?,
            anon_id,
            user_id,
            is_user_unverified,
            event,
            name: members.get(MemberName::Name).and_then(|value| read_name(value, location, ignored_values)),
            variants: members
                .get(MemberName::Variants)
                .map(|value| variants::read(value, location))
                .transpose()?,
            experiments: members
                .get(MemberName::Experiments)
                .filter(|_| matches!(kind, RecordKind::Page | RecordKind::Track))
                .map(|value| variants::read_experiments(value, location))
                .transpose()?,
            properties,
            context,
            timestamp_ms: time::correct_clock_skew(client_times, request.received_ms),
            client_times,
        })
    }

    /// Returns a text of the page: a property, or else a member of `context.page`.
    pub(super) fn page_text(&self, name: &str) -> Option<&'d str> {
        let property = self.properties.and_then(|properties| properties.get_present(name)?.as_str());
        property.or_else(|| self.context.page.get_str(name))
    }
}

/// Returns the event's message ID for the receipt if it is valid, even if other members are not.
pub(super) fn usable_message_id<'d>(members: &Members<'d>) -> Option<&'d str> {
    members.get(MemberName::MessageId).and_then(parse_message_id)
}

fn check_size<'d>(value: Value<'d>, location: Location<'d>) -> Result<(), Refusal> {
    let bytes = value.source().len();
    if bytes > EVENT_BYTES_MAX {
        let sentence = "The event has {} bytes, more than the limit of 32768.";
        return Err(location.refuse_count(problem::EVENT_TOO_LARGE, value, sentence, bytes));
    }
    match value.is_object() {
        true => Ok(()),
        false => Err(location.refuse(problem::INVALID_EVENT, value, "an object")),
    }
}

/// Reads the name of a page. Ignores a value that is not a short text.
fn read_name<'d>(
    value: Value<'d>,
    location: Location<'d>,
    ignored_values: &mut IgnoredValues,
) -> Option<&'d str> {
    let name = value.as_str().filter(|name| name.len() <= NAME_BYTES_MAX);
    if name.is_none() {
        ignored_values.add(location, problem::INVALID_EVENT, value, "a string of at most 1024 bytes");
    }
    name
}

fn read_event_name<'d>(
    members: &Members<'d>,
    kind: RecordKind,
    location: Location<'d>,
) -> Result<Option<&'d str>, Refusal> {
    let expected = "the event's name, 1 to 200 characters";
    match kind {
        RecordKind::Screen => Ok(Some(RecordKind::Screen.name())),
        RecordKind::Track => {
            let sentence = "The event has no name; add 'event', 1 to 200 characters.";
            let lacks = || location.refuse_missing(problem::INVALID_EVENT, "event", sentence);
            let value = members.get(MemberName::Event).ok_or_else(lacks)?;
            // Fast path: a name has at most as many characters as bytes.
            let fits = |name: &&str| {
                name.len() <= EVENT_NAME_CHARS_MAX || name.chars().count() <= EVENT_NAME_CHARS_MAX
            };
            let name = value.as_str().filter(fits);
            name.map(Some).ok_or_else(|| location.refuse(problem::INVALID_EVENT, value, expected))
        }
        _ => Ok(None),
    }
}

fn read_message_id<'d>(value: Value<'d>, location: Location<'d>) -> Result<&'d str, Refusal> {
    parse_message_id(value)
        .ok_or_else(|| location.refuse(problem::INVALID_EVENT, value, "1 to 128 bytes of text"))
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
    submission: &Submission<'_>,
    location: Location<'d>,
    ignored_values: &mut IgnoredValues,
) -> Result<ClientTimes, Refusal> {
    let expected = |value| location.refuse(problem::INVALID_TIMESTAMP, value, time::EXPECTED);
    let timestamp = members.timestamp().map(|value| time::read(value).ok_or_else(|| expected(value)));
    let sent_ms = read_sent_at(members, location, ignored_values).or(submission.sent_ms);
    Ok(ClientTimes { timestamp_ms: timestamp.transpose()?, sent_ms })
}
