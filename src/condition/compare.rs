//! Comparison of two values by an operator, in GrowthBook's dialect. Nothing here allocates.

use std::cmp::Ordering;
use std::fmt::{self, Write};

use super::Operator;
use super::program::ArchivedConstant;
use super::value::Value;

/// Returns whether `actual <operator> expected` holds. Operators that need more than two values never hold
/// here.
pub(super) fn compare(operator: Operator, actual: Value, expected: Value) -> bool {
    match operator {
        Operator::LooseEq => loosely_equal(actual, expected),
        Operator::Eq => actual == expected,
        Operator::Ne => actual != expected,
        Operator::Gt => order(actual, expected).is_some_and(Ordering::is_gt),
        Operator::Gte => order(actual, expected).is_some_and(Ordering::is_ge),
        Operator::Lt => order(actual, expected).is_some_and(Ordering::is_lt),
        Operator::Lte => order(actual, expected).is_some_and(Ordering::is_le),
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

/// Returns whether `actual <operator> list` holds, for the operators that take a list.
pub(super) fn compare_with_list(operator: Operator, actual: Value, list: &[ArchivedConstant]) -> bool {
    match operator {
        Operator::In => is_in(actual, list),
        Operator::Nin => !is_in(actual, list),
        Operator::Ini => is_in_caseless(actual, list),
        Operator::Nini => !is_in_caseless(actual, list),
        Operator::All => has_all(actual, list, loosely_equal),
        Operator::Alli => has_all(actual, list, loosely_equal_caseless),
        _ => false,
    }
}

/// Returns whether the value, or any item if it is an array, is in the list.
pub(super) fn is_in(actual: Value, list: &[ArchivedConstant]) -> bool {
    any_item(actual, |item| match item {
        // Lists of texts are common and may be long, so their items are compared in place.
        Value::String(text) => {
            list.iter().any(|known| matches!(known, ArchivedConstant::Text(known) if **known == *text))
        }
        item => list.iter().any(|known| item == known.value()),
    })
}

fn is_in_caseless(actual: Value, list: &[ArchivedConstant]) -> bool {
    any_item(actual, |item| list.iter().any(|expected| same_caseless(item, expected.value())))
}

fn any_item(actual: Value, passes: impl Fn(Value) -> bool) -> bool {
    match actual {
        Value::Array(items) => items.iter().any(passes),
        single => passes(single),
    }
}

fn has_all(actual: Value, list: &[ArchivedConstant], is_equal: fn(Value, Value) -> bool) -> bool {
    let Value::Array(items) = actual else {
        return false;
    };
    list.iter().all(|expected| items.iter().any(|item| is_equal(item, expected.value())))
}

/// Compares a value with a literal by JavaScript's loose equality. The type of the literal decides.
fn loosely_equal(actual: Value, expected: Value) -> bool {
    match expected {
        Value::String(text) => Text::from_value(actual).is_some_and(|actual| actual.as_str() == text),
        Value::Number(number) => to_number(actual) == Some(number),
        Value::Bool(flag) => actual != Value::Null && is_truthy(actual) == flag,
        Value::Null | Value::Array(_) | Value::Object(_) => actual == expected,
    }
}

fn loosely_equal_caseless(actual: Value, expected: Value) -> bool {
    match expected {
        Value::String(text) => {
            Text::from_value(actual).is_some_and(|actual| equal_caseless(actual.as_str(), text))
        }
        _ => loosely_equal(actual, expected),
    }
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

/// Orders two strings by their characters and other values by their numbers. Values without a number have no
/// order.
fn order(actual: Value, expected: Value) -> Option<Ordering> {
    match (actual, expected) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => to_number(actual)?.partial_cmp(&to_number(expected)?),
    }
}

/// Returns the number of a value for ordering operators and for comparison with a literal number, as in
/// JavaScript. Null counts as 0. Arrays and objects have no number.
pub(crate) fn to_number(value: Value) -> Option<f64> {
    match value {
        Value::Null => Some(0.0),
        Value::Bool(flag) => Some(f64::from(flag)),
        Value::Number(number) => Some(number),
        Value::String(text) => parse_decimal(text.trim()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// Parses a decimal number. Rust's parser alone would also accept words such as "nan" and "inf".
fn parse_decimal(text: &str) -> Option<f64> {
    let decimal = |byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    match text {
        "" => Some(0.0),
        _ if text.bytes().all(decimal) => text.parse().ok(),
        _ => None,
    }
}

/// Returns the truth value as in JavaScript: arrays and objects are true, even if they are empty.
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

/// Orders two versions by their sort keys. A value that is not a version counts as "0".
fn version_order(actual: Value, expected: Value) -> Ordering {
    version_sort_key(version_text(&actual).as_str()).cmp(version_sort_key(version_text(&expected).as_str()))
}

fn version_text<'a>(value: &Value<'a>) -> Text<'a> {
    match value {
        Value::Number(_) => Text::from_value(*value),
        Value::String(text) if !text.is_empty() => Some(Text::Borrowed(text)),
        _ => None,
    }
    .unwrap_or(Text::Borrowed("0"))
}

/// Returns a sort key of a version: bytes whose order is the order of versions.
///
/// The leading `v` and the build metadata are removed. Numbers are padded to five digits. A release of three
/// parts gets a `~` at the end, which sorts after all letters, because a release is later than its own
/// pre-releases.
fn version_sort_key(version: &str) -> impl Iterator<Item = u8> {
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

/// The text of a value: a string's own text, or JavaScript's text of a boolean or number. Numbers from 1e21
/// and below 1e-6 have an exponent in Rust's form.
pub(super) enum Text<'a> {
    Borrowed(&'a str),
    Digits(DecimalBuffer),
}

impl<'a> Text<'a> {
    pub(super) fn from_value(value: Value<'a>) -> Option<Self> {
        match value {
            Value::String(text) => Some(Text::Borrowed(text)),
            Value::Bool(flag) => Some(Text::Borrowed(if flag { "true" } else { "false" })),
            Value::Number(number) => Some(Text::Digits(DecimalBuffer::from_f64(number))),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Digits(digits) => digits.as_str(),
        }
    }
}

/// A number in decimal, in a fixed buffer.
pub(super) struct DecimalBuffer {
    bytes: [u8; DecimalBuffer::BYTES],
    length: usize,
}

impl DecimalBuffer {
    /// The longest text is "-0.0000012345678901234567", with 17 significant digits. Numbers with an exponent
    /// are shorter.
    const BYTES: usize = 32;

    fn from_f64(number: f64) -> Self {
        let mut digits = DecimalBuffer { bytes: [0; DecimalBuffer::BYTES], length: 0 };
        let plain = number == 0.0 || (1e-6..1e21).contains(&number.abs());
        let written = if plain { write!(digits, "{number}") } else { write!(digits, "{number:e}") };
        written.expect("every number fits the buffer");
        digits
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl Write for DecimalBuffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}
