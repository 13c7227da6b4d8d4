//! Validation of an event's `variants`, the variants that the page showed: `zone:key` pairs joined by commas.

use super::document::Value;
use super::refusal::{Location, Refusal};
use crate::limits::{CANONICAL_BYTES_MAX, KEY_BYTES_MAX, PAIRS_MAX};
use crate::problem;

/// Returns the text of `variants` as it was sent, if it is valid.
pub(super) fn read<'d>(value: Value<'d>, place: Location<'d>) -> Result<&'d str, Refusal> {
    let expected = "'zone:key' pairs joined by ',', each zone once, at most 64 in 2048 bytes";
    let text = value.as_str().filter(|text| text.len() <= CANONICAL_BYTES_MAX && is_pairs(text));
    text.ok_or_else(|| place.refuse(problem::INVALID_VARIANTS, value, expected))
}

fn is_pairs(text: &str) -> bool {
    let mut zones = [""; PAIRS_MAX];
    for (i, pair) in text.split(',').enumerate() {
        let Some((zone, key)) = pair.split_once(':') else { return false };
        if i == PAIRS_MAX || !is_key(zone) || !is_key(key) || zones[..i].contains(&zone) {
            return false;
        }
        zones[i] = zone;
    }
    true
}

fn is_key(text: &str) -> bool {
    (1..=KEY_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}
