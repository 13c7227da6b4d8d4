//! Validation of visitor IDs: anon ID and user ID.

use super::document::Value;
use super::ignored::IgnoredValues;
use super::location::Location;
use super::members::{MemberName, Members};
use super::refusal::Refusal;
use super::request::RequestFacts;
use crate::limits::{ANON_ID_BYTES_MAX, USER_ID_BYTES_MAX};
use crate::problem;

/// Returns whether `id` has 1 to `ANON_ID_BYTES_MAX` bytes of visible ASCII.
pub(crate) fn is_anon_id(id: &str) -> bool {
    // No early exit, so that the compiler can vectorize the loop.
    (1..=ANON_ID_BYTES_MAX).contains(&id.len()) && id.bytes().fold(true, |all, b| all & b.is_ascii_graphic())
}

/// Returns whether `id` is a value that programs send when they have no ID, in any case. As an ID it would
/// merge the profiles of unrelated visitors.
pub(crate) fn is_placeholder(id: &str) -> bool {
    const PLACEHOLDERS: [&str; 13] = [
        "anonymous",
        "null",
        "undefined",
        "none",
        "nil",
        "0",
        "-",
        "true",
        "false",
        "NaN",
        "[object Object]",
        "{}",
        "00000000-0000-0000-0000-000000000000",
    ];
    PLACEHOLDERS.iter().any(|p| p.eq_ignore_ascii_case(id))
}

/// The IDs of an event's visitor. At least one is present.
pub(super) struct VisitorIds<'d> {
    pub anon_id: Option<&'d str>,
    pub user_id: Option<&'d str>,
    /// True if the event has a user ID that does not count, because it is not verified.
    pub is_user_unverified: bool,
}

/// Reads the IDs of an event. `user_hash` is the hash in its context.
///
/// # Errors
/// `invalid_anon_id`, `invalid_event`, `placeholder_id`, `missing_visitor`, and `unverified_user` if the event has no anon
/// ID either.
pub(super) fn read_ids<'d>(
    members: &Members<'d>,
    request: &RequestFacts<'d>,
    user_hash: Option<&'d str>,
    location: Location<'d>,
    ignored_values: &mut IgnoredValues,
) -> Result<VisitorIds<'d>, Refusal> {
    let anon_id = members.anon_id().map(|id| read_anon_id(id, location)).transpose()?.or(request.anon_id);
    let named = members.get(MemberName::UserId).map(|id| read_user_id(id, location)).transpose()?;
    let user_id = named.filter(|id| request.user_rule.accepts(id, user_hash));
    let is_user_unverified = named.is_some() && user_id.is_none();
    if is_user_unverified {
        ignored_values.add_unverified_user(location, anon_id.is_some())?;
    }
    match anon_id.or(user_id) {
        Some(_) => Ok(VisitorIds { anon_id, user_id, is_user_unverified }),
        None => Err(location.refuse_missing(
            problem::MISSING_VISITOR,
            "anonId",
            "The event names no visitor; add 'anonId' or 'userId'.",
        )),
    }
}

/// Reads an event's anon ID. A number counts as its digits.
fn read_anon_id<'d>(value: Value<'d>, location: Location<'d>) -> Result<&'d str, Refusal> {
    let id = read_id(value, location)?.filter(|id| is_anon_id(id));
    let expected = "1 to 128 bytes of visible ASCII";
    id.ok_or_else(|| location.refuse(problem::INVALID_ANON_ID, value, expected))
}

/// Reads an event's user ID. Sites choose their user IDs, so any text is valid. A number counts as its
/// digits.
fn read_user_id<'d>(value: Value<'d>, location: Location<'d>) -> Result<&'d str, Refusal> {
    let id = read_id(value, location)?.filter(|id| (1..=USER_ID_BYTES_MAX).contains(&id.len()));
    id.ok_or_else(|| location.refuse(problem::INVALID_EVENT, value, "1 to 256 bytes of text"))
}

/// Returns the text of an ID, or `None` for an array or object. Refuses placeholders.
fn read_id<'d>(value: Value<'d>, location: Location<'d>) -> Result<Option<&'d str>, Refusal> {
    match value.as_text() {
        Some(id) if is_placeholder(id) => {
            let expected = "the id of one visitor, or no such member";
            Err(location.refuse(problem::PLACEHOLDER_ID, value, expected))
        }
        text => Ok(text),
    }
}
