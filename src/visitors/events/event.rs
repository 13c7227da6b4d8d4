//! One event that was understood: every member that has a meaning, checked.

use super::context::Context;
use super::decode::{Call, Sent};
use super::document::Value;
use super::members::{Members, Named};
use super::refusal::{Place, Refusal};
use super::{kind, operations, time, variants, visitor};
use crate::limits::{EVENT_BYTES_MAX, EVENT_NAME_CHARS_MAX, MESSAGE_ID_BYTES_MAX, NAME_BYTES_MAX};
use crate::problem;
use crate::visitors::log::Kind;

/// An event, borrowed from its body.
pub(super) struct Event<'d> {
    pub value: Value<'d>,
    pub kind: Kind,
    pub message_id: Option<&'d str>,
    pub anon_id: Option<&'d str>,
    pub user_id: Option<&'d str>,
    /// Of a track event; of a screen it is "screen".
    pub event: Option<&'d str>,
    pub name: Option<&'d str>,
    pub variants: Option<&'d str>,
    pub properties: Option<Value<'d>>,
    pub context: Context<'d>,
    pub timestamp_ms: i64,
}

impl<'d> Event<'d> {
    /// Reads the event at `place`, which has these members.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub(super) fn read(
        place: Place<'d>,
        members: &Members<'d>,
        sent: &Sent<'d>,
        call: &Call<'d>,
    ) -> Result<Self, Refusal> {
        let value = place.within;
        check_size(value, place)?;
        check_site(members, call, place)?;
        let kind = kind::of(members, sent.endpoint, place)?;
        object(members.get(Named::Properties), place)?;
        object(members.get(Named::Traits), place)?;
        let context = Context::read(members.get(Named::Context), sent.context, place)?;
        if kind == Kind::Profile {
            operations::check(members, place)?;
        }
        let event = event_name(members, kind, place)?;
        let anon_id = members.anon_id().map(|id| visitor::anon_id(id, place)).transpose()?.or(call.anon_id);
        let user_id = members.get(Named::UserId).map(|id| visitor::user_id(id, place)).transpose()?;
        if anon_id.is_none() && user_id.is_none() {
            return Err(place.lacks(problem::MISSING_VISITOR, "anonId", "'anonId' or 'userId'"));
        }
        Ok(Self {
            value,
            kind,
            message_id: members.get(Named::MessageId).map(|id| message_id(id, place)).transpose()?,
            anon_id,
            user_id,
            event,
            name: members.get(Named::Name).map(|value| name(value, place)).transpose()?,
            variants: members.get(Named::Variants).map(|value| variants::read(value, place)).transpose()?,
            properties: members.get(Named::Properties),
            context,
            timestamp_ms: timestamp(members, sent, call, place)?,
        })
    }
}

/// What may stand as the message ID of an event in a receipt, whatever else is wrong with it.
pub(super) fn message_id_of<'d>(members: &Members<'d>) -> Option<&'d str> {
    members.get(Named::MessageId).and_then(message_id_text)
}

fn check_size<'d>(value: Value<'d>, place: Place<'d>) -> Result<(), Refusal> {
    let bytes = value.source().len();
    if bytes > EVENT_BYTES_MAX {
        let expected = "an event of at most 32768 bytes";
        return Err(place.too_much(problem::EVENT_TOO_LARGE, value, expected, bytes));
    }
    object(Some(value), place)
}

/// An event that names its site names that of the request.
pub(super) fn check_site<'d>(
    members: &Members<'d>,
    call: &Call<'_>,
    place: Place<'d>,
) -> Result<(), Refusal> {
    let named = [(members.tracking_id(), call.tracking_id), (members.get(Named::Site), call.site)];
    let other = |(value, own): (Option<Value<'d>>, &str)| value.filter(|value| value.text() != Some(own));
    match named.into_iter().find_map(other) {
        Some(value) => Err(place.refuse(problem::SITE_MISMATCH, value, "the site of the request")),
        None => Ok(()),
    }
}

fn object<'d>(value: Option<Value<'d>>, place: Place<'d>) -> Result<(), Refusal> {
    match value.filter(|value| !value.is_object()) {
        Some(value) => Err(place.refuse(problem::INVALID_EVENT, value, "an object")),
        None => Ok(()),
    }
}

fn name<'d>(value: Value<'d>, place: Place<'d>) -> Result<&'d str, Refusal> {
    let name = value.string().filter(|name| name.len() <= NAME_BYTES_MAX);
    name.ok_or_else(|| place.refuse(problem::INVALID_EVENT, value, "a string of at most 1024 bytes"))
}

fn event_name<'d>(members: &Members<'d>, kind: Kind, place: Place<'d>) -> Result<Option<&'d str>, Refusal> {
    let expected = "the event's name, 1 to 200 characters";
    match kind {
        Kind::Screen => Ok(Some(Kind::Screen.name())),
        Kind::Track => {
            let lacks = || place.lacks(problem::INVALID_EVENT, "event", expected);
            let value = members.get(Named::Event).ok_or_else(lacks)?;
            // What has so few bytes has no more characters.
            let fits = |name: &&str| {
                name.len() <= EVENT_NAME_CHARS_MAX || name.chars().count() <= EVENT_NAME_CHARS_MAX
            };
            let name = value.string().filter(fits);
            name.map(Some).ok_or_else(|| place.refuse(problem::INVALID_EVENT, value, expected))
        }
        _ => Ok(None),
    }
}

fn message_id<'d>(value: Value<'d>, place: Place<'d>) -> Result<&'d str, Refusal> {
    message_id_text(value)
        .ok_or_else(|| place.refuse(problem::INVALID_EVENT, value, "1 to 128 bytes of text"))
}

/// A text, or the digits of a number; `true` would make all events of who sends it duplicates of the first.
fn message_id_text(value: Value<'_>) -> Option<&str> {
    let id = value.text().filter(|_| value.boolean().is_none())?;
    (1..=MESSAGE_ID_BYTES_MAX).contains(&id.len()).then_some(id)
}

/// When it happened, by our clock.
fn timestamp<'d>(
    members: &Members<'d>,
    sent: &Sent<'_>,
    call: &Call<'_>,
    place: Place<'d>,
) -> Result<i64, Refusal> {
    let timestamp = members.timestamp().map(|value| instant(value, place)).transpose()?;
    let sent_at = members.get(Named::SentAt).map(|value| instant(value, place)).transpose()?;
    Ok(time::repaired(timestamp, sent_at.or(sent.sent_ms), call.received_ms))
}

/// The time that a member says.
pub(super) fn instant<'d>(value: Value<'d>, place: Place<'d>) -> Result<i64, Refusal> {
    time::read(value).ok_or_else(|| place.refuse(problem::INVALID_TIMESTAMP, value, time::EXPECTED))
}
