//! Parses the amounts of an event: the properties `revenue`, `value`, `total` and `quantity`. The unit of an amount is
//! 10^-4.
//!
//! The rules for amounts are the rules of a cast to `decimal(15,4)` in DuckDB. So a query over the export gives the
//! same sums.

use serde::Deserialize;
use serde_json::value::RawValue;

pub(crate) use crate::site::experiment_metrics::UNITS_PER_ONE;
use crate::site::experiment_metrics::{AMOUNT_UNITS_END, VALUE_PROPERTIES};

/// Digits after the decimal point.
const SCALE: usize = 4;
/// Maximum length of the text of an amount, in bytes. A longer text is no amount.
const AMOUNT_TEXT_BYTES_MAX: usize = 1024;

/// An amount of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// The amount in units of 10^-4.
    Units(i64),
    /// The value of the property is no amount.
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

/// Returns the amounts in the payload of an event. The amounts are in the order of [`VALUE_PROPERTIES`]. Parses the
/// payload only if the payload can have one of the properties.
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

/// Returns true if a payload can have a member with this name. A payload with the escape `\u` can have any member,
/// because the escape can hide a name.
fn has_name(payload: &str, name: &str) -> bool {
    let is_quoted =
        |index: usize| payload[..index].ends_with('"') && payload[index + name.len()..].starts_with('"');
    payload.match_indices(name).any(|(index, _)| is_quoted(index)) || payload.contains("\\u")
}

/// Parses an amount from the JSON text of a value.
pub(crate) fn parse_amount(json: &str) -> Amount {
    let units = match json.as_bytes().first() {
        Some(b'"') => serde_json::from_str::<String>(json).ok().filter(|text| is_plain_decimal(text)),
        Some(b'-' | b'0'..=b'9') => number_text(json),
        _ => None,
    };
    units.and_then(|text| round_decimal(&text)).map_or(Amount::Ignored, Amount::Units)
}

/// Converts a JSON number to the text of a decimal number. If the number is no 64-bit integer, rounds the number to a
/// double first.
fn number_text(json: &str) -> Option<String> {
    if json.parse::<i64>().is_ok() || json.parse::<u64>().is_ok() {
        return Some(json.to_owned());
    }
    let number: f64 = json.parse().ok()?;
    number.is_finite().then(|| number.to_string())
}

/// Returns whether the text has the form `-?[0-9]+([.][0-9]+)?`.
fn is_plain_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.len() <= AMOUNT_TEXT_BYTES_MAX && are_digits(whole) && are_digits(fraction)
}

/// Rounds a decimal number to four digits after the point. A half is rounded away from zero. Returns `None` if the
/// number is too large.
fn round_decimal(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digit = |index: usize| i64::from(fraction.as_bytes().get(index).map_or(0, |byte| byte - b'0'));
    let whole = whole.trim_start_matches('0');
    if whole.len() > 11 {
        return None;
    }
    let mut units: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    for index in 0..SCALE {
        units = units * 10 + digit(index);
    }
    units += i64::from(digit(SCALE) >= 5);
    let signed = if text.starts_with('-') { -units } else { units };
    (units < AMOUNT_UNITS_END).then_some(signed)
}
