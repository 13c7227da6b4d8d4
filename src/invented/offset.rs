//! The time of an event before the present of its visit, such as `-3d`.

use crate::condition::parse_duration_ms;

/// The phrase for a diagnostic.
pub(super) const EXPECTED: &str =
    "a time before `now` such as `-3d`: `-`, and a whole number above 0 of `s`, `m`, `h` or `d`";

/// Returns the milliseconds before the present.
pub(super) fn parse_offset_ms(text: &str) -> Option<i64> {
    parse_duration_ms(text.strip_prefix('-')?)
}
