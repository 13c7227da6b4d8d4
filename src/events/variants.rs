//! Validation of an event's `variants` and `experiments`, which the page showed: `zone:key` or
//! `experiment:variant` pairs joined by commas.

use super::document::Value;
use super::location::Location;
use super::refusal::Refusal;
use crate::limits::{CANONICAL_BYTES_MAX, KEY_BYTES_MAX, PAIRS_MAX};
use crate::problem;
use crate::record::{HELD_OUT, NOT_HELD_OUT, SITE_HOLDOUT};

/// Returns the text of `variants` as it was sent, if it is valid. An empty text is the baseline.
pub(super) fn read<'d>(value: Value<'d>, location: Location<'d>) -> Result<&'d str, Refusal> {
    let expected = "'zone:key' pairs joined by ',', each zone once, at most 64 in 2048 bytes";
    let text = value
        .as_str()
        .filter(|text| text.is_empty() || text.len() <= CANONICAL_BYTES_MAX && is_pairs(text, is_key));
    text.ok_or_else(|| location.refuse(problem::INVALID_VARIANTS, value, expected))
}

/// Returns the text of `experiments` as it was sent, if it is valid. Its length is bounded by its pairs.
pub(super) fn read_experiments<'d>(value: Value<'d>, location: Location<'d>) -> Result<&'d str, Refusal> {
    let expected = "'experiment:variant' pairs joined by ',', each experiment once, at most 64, after '~:on' or '~:~' if the site has a holdout";
    let text = value.as_str().filter(|text| {
        let is_arm = |variant: &str| variant == HELD_OUT || is_key(variant);
        without_site_holdout(text).is_none_or(|pairs| is_pairs(pairs, is_arm))
    });
    text.ok_or_else(|| location.refuse(problem::INVALID_EVENT, value, expected))
}

/// Returns the pairs after the one of the site's holdout. `None` if there are none.
fn without_site_holdout(text: &str) -> Option<&str> {
    let (pair, rest) = text.split_once(',').map_or((text, None), |(pair, rest)| (pair, Some(rest)));
    match pair.split_once(':') {
        Some((SITE_HOLDOUT, HELD_OUT | NOT_HELD_OUT)) => rest,
        _ => Some(text),
    }
}

/// Returns whether `text` has at most `PAIRS_MAX` pairs with different names, and `is_value` accepts each value.
fn is_pairs(text: &str, is_value: impl Fn(&str) -> bool) -> bool {
    let mut names = [""; PAIRS_MAX];
    for (i, pair) in text.split(',').enumerate() {
        let Some((name, value)) = pair.split_once(':') else { return false };
        if i == PAIRS_MAX || !is_key(name) || !is_value(value) || names[..i].contains(&name) {
            return false;
        }
        names[i] = name;
    }
    true
}

pub(crate) fn is_key(text: &str) -> bool {
    (1..=KEY_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}
