//! Validation of visitor IDs: anon ID and user ID.

use super::document::Value;
use super::refusal::{Location, Refusal};
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

/// Reads an event's anon ID. A number counts as its digits.
pub(super) fn read_anon_id<'d>(value: Value<'d>, place: Location<'d>) -> Result<&'d str, Refusal> {
    let id = read_id(value, place)?.filter(|id| is_anon_id(id));
    let expected = "1 to 128 bytes of visible ASCII";
    id.ok_or_else(|| place.refuse(problem::INVALID_ANON_ID, value, expected))
}

/// Reads an event's user ID. Sites choose their user IDs, so any text is valid. A number counts as its
/// digits.
pub(super) fn read_user_id<'d>(value: Value<'d>, place: Location<'d>) -> Result<&'d str, Refusal> {
    let id = read_id(value, place)?.filter(|id| (1..=USER_ID_BYTES_MAX).contains(&id.len()));
    id.ok_or_else(|| place.refuse(problem::INVALID_EVENT, value, "1 to 256 bytes of text"))
}

/// Returns the text of an ID, or `None` for an array or object. Refuses placeholders.
fn read_id<'d>(value: Value<'d>, place: Location<'d>) -> Result<Option<&'d str>, Refusal> {
    match value.as_text() {
        Some(id) if is_placeholder(id) => {
            let expected = "the id of one visitor, or no such member";
            Err(place.refuse(problem::PLACEHOLDER_ID, value, expected))
        }
        text => Ok(text),
    }
}
