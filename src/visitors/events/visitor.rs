//! Who an event is of: anon ID, user ID.

use super::document::Value;
use super::refusal::{Place, Refusal};
use crate::limits::{ANON_ID_BYTES_MAX, USER_ID_BYTES_MAX};
use crate::problem;

/// 1 to `ANON_ID_BYTES_MAX` bytes of visible ASCII.
pub fn is_anon_id(id: &str) -> bool {
    // Without a way out between, so that many bytes are looked at together.
    (1..=ANON_ID_BYTES_MAX).contains(&id.len()) && id.bytes().fold(true, |all, b| all & b.is_ascii_graphic())
}

/// Values that programs send where they have no id, in any case; as an id each would join strangers.
pub fn is_placeholder(id: &str) -> bool {
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

/// The anon ID that an event names. A number is its digits.
pub(super) fn anon_id<'d>(value: Value<'d>, place: Place<'d>) -> Result<&'d str, Refusal> {
    let id = not_a_placeholder(value, place)?.filter(|id| is_anon_id(id));
    let expected = "1 to 128 bytes of visible ASCII";
    id.ok_or_else(|| place.refuse(problem::INVALID_ANON_ID, value, expected))
}

/// The user ID that an event names: any text, since it is the site's own. A number is its digits.
pub(super) fn user_id<'d>(value: Value<'d>, place: Place<'d>) -> Result<&'d str, Refusal> {
    let id = not_a_placeholder(value, place)?.filter(|id| (1..=USER_ID_BYTES_MAX).contains(&id.len()));
    id.ok_or_else(|| place.refuse(problem::INVALID_EVENT, value, "1 to 256 bytes of text"))
}

/// The text of an id; None where it is an array or an object.
fn not_a_placeholder<'d>(value: Value<'d>, place: Place<'d>) -> Result<Option<&'d str>, Refusal> {
    match value.text() {
        Some(id) if is_placeholder(id) => {
            let expected = "the id of one visitor, or no such member";
            Err(place.refuse(problem::PLACEHOLDER_ID, value, expected))
        }
        text => Ok(text),
    }
}
