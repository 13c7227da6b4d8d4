//! Amounts of events: `revenue`, `value`, `total` and `quantity` of the properties, in units of 10^-4.
//!
//! The rules are those of a cast to `decimal(15,4)` in DuckDB, so that a query over the export gives the same sums.

use serde::Deserialize;
use serde_json::value::RawValue;

pub(crate) use crate::site::experiment_metrics::UNITS_PER_ONE;
use crate::site::experiment_metrics::{AMOUNT_UNITS_END, VALUE_PROPERTIES};

/// Digits after the decimal point.
const SCALE: usize = 4;
/// Most bytes of a text that may be an amount. A longer one has more digits than any amount with a meaning.
const AMOUNT_TEXT_BYTES_MAX: usize = 1024;

/// An amount of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// The amount in units of 10^-4.
    Units(i64),
    /// The property has a value that is no amount.
    Ignored,
}

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow)]
    properties: Option<Properties<'a>>,
}

#[derive(Deserialize)]
struct Properties<'a> {
    #[serde(borrow)]
    revenue: Option<&'a RawValue>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    #[serde(borrow)]
    total: Option<&'a RawValue>,
    #[serde(borrow)]
    quantity: Option<&'a RawValue>,
}

/// Returns the amounts in the payload of an event, by the index of their name. Parses only a payload that has one
/// of the names.
pub(crate) fn amounts_of(payload: &str) -> [Option<Amount>; VALUE_PROPERTIES.len()] {
    if !VALUE_PROPERTIES.iter().any(|name| has_name(payload, name)) {
        return [None; VALUE_PROPERTIES.len()];
    }
    let Ok(Payload { properties: Some(properties) }) = serde_json::from_str(payload) else {
        return [None; VALUE_PROPERTIES.len()];
    };
    let Properties { revenue, value, total, quantity } = properties;
    [revenue, value, total, quantity].map(|raw| raw.map(|raw| parse_amount(raw.get())))
}

/// Returns whether a text may have a member of this name. An escape may hide it, so a text with one counts.
fn has_name(payload: &str, name: &str) -> bool {
    let quoted = |at: usize| payload[..at].ends_with('"') && payload[at + name.len()..].starts_with('"');
    payload.match_indices(name).any(|(at, _)| quoted(at)) || payload.contains("\\u")
}

/// Parses the JSON text of a value.
fn parse_amount(raw: &str) -> Amount {
    let units = match raw.as_bytes().first() {
        Some(b'"') => serde_json::from_str::<String>(raw).ok().filter(|text| is_plain_decimal(text)),
        Some(b'-' | b'0'..=b'9') => number_text(raw),
        _ => None,
    };
    units.and_then(|text| round_decimal(&text)).map_or(Amount::Ignored, Amount::Units)
}

/// Returns the digits of a JSON number. One that is no 64-bit integer is read as a double.
fn number_text(raw: &str) -> Option<String> {
    if raw.parse::<i64>().is_ok() || raw.parse::<u64>().is_ok() {
        return Some(raw.to_owned());
    }
    let number: f64 = raw.parse().ok()?;
    number.is_finite().then(|| number.to_string())
}

/// Returns whether the text has the form `-?[0-9]+([.][0-9]+)?`.
fn is_plain_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.len() <= AMOUNT_TEXT_BYTES_MAX && are_digits(whole) && are_digits(fraction)
}

/// Rounds a decimal number to four digits after the point, half away from zero. Returns `None` beyond the bound.
fn round_decimal(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digit = |at: usize| i64::from(fraction.as_bytes().get(at).map_or(0, |byte| byte - b'0'));
    let whole = whole.trim_start_matches('0');
    if whole.len() > 11 {
        return None;
    }
    let mut units: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    for at in 0..SCALE {
        units = units * 10 + digit(at);
    }
    units += i64::from(digit(SCALE) >= 5);
    let signed = if text.starts_with('-') { -units } else { units };
    (units < AMOUNT_UNITS_END).then_some(signed)
}
