//! How a value compares with what an operator expects, in GrowthBook's dialect.
//!
//! In come two values, out goes whether the operator holds between them. Nothing allocates.

use std::cmp::Ordering;
use std::fmt::{self, Write};

use super::Operator;
use super::value::{Array, Value};

/// Whether `actual <operator> expected`, for the operators that need nothing but two values; the
/// others hold for nothing.
pub(super) fn compare(operator: Operator, actual: Value, expected: Value) -> bool {
    match operator {
        Operator::Is => is(actual, expected),
        Operator::Eq => actual == expected,
        Operator::Ne => actual != expected,
        Operator::Gt => order(actual, expected).is_some_and(Ordering::is_gt),
        Operator::Gte => order(actual, expected).is_some_and(Ordering::is_ge),
        Operator::Lt => order(actual, expected).is_some_and(Ordering::is_lt),
        Operator::Lte => order(actual, expected).is_some_and(Ordering::is_le),
        Operator::In => in_list(actual, expected, same) == Some(true),
        Operator::Nin => in_list(actual, expected, same) == Some(false),
        Operator::Ini => in_list(actual, expected, same_caseless) == Some(true),
        Operator::Nini => in_list(actual, expected, same_caseless) == Some(false),
        Operator::All => has_all(actual, expected, is),
        Operator::Alli => has_all(actual, expected, is_caseless),
        Operator::Exists => Value::Bool(actual != Value::Null) == expected,
        Operator::Type => Value::String(type_name(actual)) == expected,
        Operator::Veq => version_order(actual, expected).is_eq(),
        Operator::Vne => version_order(actual, expected).is_ne(),
        Operator::Vgt => version_order(actual, expected).is_gt(),
        Operator::Vgte => version_order(actual, expected).is_ge(),
        Operator::Vlt => version_order(actual, expected).is_lt(),
        Operator::Vlte => version_order(actual, expected).is_le(),
        _ => false,
    }
}

/// Whether the value, or any of its items, is in the array.
pub(super) fn is_in(actual: Value, list: Array) -> bool {
    overlaps(actual, list, same)
}

fn in_list(actual: Value, expected: Value, same: fn(Value, Value) -> bool) -> Option<bool> {
    match expected {
        Value::Array(list) => Some(overlaps(actual, list, same)),
        _ => None,
    }
}

fn overlaps(actual: Value, list: Array, same: fn(Value, Value) -> bool) -> bool {
    let listed = |item| list.iter().any(|expected| same(item, expected));
    match actual {
        Value::Array(items) => items.iter().any(listed),
        single => listed(single),
    }
}

fn has_all(actual: Value, expected: Value, is: fn(Value, Value) -> bool) -> bool {
    let (Value::Array(items), Value::Array(list)) = (actual, expected) else {
        return false;
    };
    list.iter().all(|expected| items.iter().any(|item| is(item, expected)))
}

/// JavaScript's loose equality of a value with a literal: the literal's type decides.
fn is(actual: Value, expected: Value) -> bool {
    match expected {
        Value::String(text) => Text::of(actual).is_some_and(|actual| actual.as_str() == text),
        Value::Number(number) => number_of(actual) == Some(number),
        Value::Bool(flag) => actual != Value::Null && is_truthy(actual) == flag,
        Value::Null | Value::Array(_) | Value::Object(_) => actual == expected,
    }
}

fn is_caseless(actual: Value, expected: Value) -> bool {
    match expected {
        Value::String(text) => Text::of(actual).is_some_and(|actual| equal_caseless(actual.as_str(), text)),
        _ => is(actual, expected),
    }
}

fn same(actual: Value, expected: Value) -> bool {
    actual == expected
}

fn same_caseless(actual: Value, expected: Value) -> bool {
    match (actual, expected) {
        (Value::String(a), Value::String(b)) => equal_caseless(a, b),
        _ => actual == expected,
    }
}

fn equal_caseless(a: &str, b: &str) -> bool {
    a.chars().flat_map(char::to_lowercase).eq(b.chars().flat_map(char::to_lowercase))
}

/// Strings order by their characters, anything else by its number; what has none has no order.
fn order(actual: Value, expected: Value) -> Option<Ordering> {
    match (actual, expected) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => number_of(actual)?.partial_cmp(&number_of(expected)?),
    }
}

/// The number by which the ordering operators and a literal number compare a value, as JavaScript has it: null counts as 0;
/// arrays and objects have none.
pub fn number_of(value: Value) -> Option<f64> {
    match value {
        Value::Null => Some(0.0),
        Value::Bool(flag) => Some(f64::from(flag)),
        Value::Number(number) => Some(number),
        Value::String(text) => number_in(text.trim()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// Decimal numbers only: Rust would also read words such as "nan" and "inf".
fn number_in(text: &str) -> Option<f64> {
    let decimal = |byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    match text {
        "" => Some(0.0),
        _ if text.bytes().all(decimal) => text.parse().ok(),
        _ => None,
    }
}

/// As in JavaScript; the sizes of arrays and objects do not matter.
fn is_truthy(value: Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => flag,
        Value::Number(number) => number != 0.0,
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

fn type_name(value: Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Versions order as their padded texts do. What is no version counts as "0".
fn version_order(actual: Value, expected: Value) -> Ordering {
    let (actual, expected) = (version_of(&actual), version_of(&expected));
    padded(actual.as_str()).cmp(padded(expected.as_str()))
}

fn version_of<'a>(value: &Value<'a>) -> Text<'a> {
    match value {
        Value::Number(_) => Text::of(*value),
        Value::String(text) if !text.is_empty() => Some(Text::Whole(text)),
        _ => None,
    }
    .unwrap_or(Text::Whole("0"))
}

/// The bytes of a version so rewritten that comparing texts compares versions: without a leading
/// `v` and without build data, numbers padded to five places, and a `~`, which stands behind all
/// letters, after a release's three parts, for a release comes after its own pre-releases.
fn padded(version: &str) -> impl Iterator<Item = u8> {
    let version = version.strip_prefix('v').unwrap_or(version);
    let version = version.split_once('+').map_or(version, |(core, _)| core);
    let parts = version.split(['-', '.']);
    let release = (parts.clone().count() == 3).then_some("~");
    parts.chain(release).enumerate().flat_map(|(index, part)| {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let padding = if is_number { 5_usize.saturating_sub(part.len()) } else { 0 };
        let separator = (index > 0).then_some(b'-');
        separator.into_iter().chain(std::iter::repeat_n(b' ', padding)).chain(part.bytes())
    })
}

/// The text of a value that has one: a string's own, or what JavaScript writes for a boolean or a
/// number (with an exponent from 1e21 and below 1e-6, in Rust's form).
pub(super) enum Text<'a> {
    Whole(&'a str),
    Digits(Digits),
}

impl<'a> Text<'a> {
    pub(super) fn of(value: Value<'a>) -> Option<Self> {
        match value {
            Value::String(text) => Some(Text::Whole(text)),
            Value::Bool(flag) => Some(Text::Whole(if flag { "true" } else { "false" })),
            Value::Number(number) => Some(Text::Digits(Digits::of(number))),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            Text::Whole(text) => text,
            Text::Digits(digits) => digits.as_str(),
        }
    }
}

/// A number in decimal.
pub(super) struct Digits {
    bytes: [u8; Digits::BYTES],
    length: usize,
}

impl Digits {
    /// The longest is "-0.0000012345678901234567", of 17 digits; with an exponent it is shorter.
    const BYTES: usize = 32;

    fn of(number: f64) -> Self {
        let mut digits = Digits { bytes: [0; Digits::BYTES], length: 0 };
        let plain = number == 0.0 || (1e-6..1e21).contains(&number.abs());
        let written = if plain { write!(digits, "{number}") } else { write!(digits, "{number:e}") };
        written.expect("every number fits");
        digits
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl Write for Digits {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}
