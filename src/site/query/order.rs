//! Sort keys: values as bytes that compare like the values.
//!
//! Booleans sort before numbers, and numbers before texts. Texts sort by code point. A descending order
//! reverses all of that. Missing values are last in both directions. Null, arrays and objects have no order
//! and count as missing.

use crate::condition::Value;

const BOOLEAN: u8 = 0x10;
const NUMBER: u8 = 0x20;
const TEXT: u8 = 0x30;
/// Greater than every tag, inverted or not.
const MISSING: u8 = 0xFF;

/// Appends one value to a sort key that consists of several. The bytes of a value are never a prefix of
/// another's.
pub fn append_sort_key(value: Option<Value<'_>>, is_descending: bool, out: &mut Vec<u8>) {
    let begin = out.len();
    match value {
        Some(Value::Bool(flag)) => out.extend([BOOLEAN, u8::from(flag)]),
        Some(Value::Number(number)) => {
            out.push(NUMBER);
            out.extend(number_key(number));
        }
        Some(Value::String(text)) => {
            out.push(TEXT);
            append_terminated(text, out);
        }
        None | Some(Value::Null | Value::Array(_) | Value::Object(_)) => return out.push(MISSING),
    }
    if is_descending {
        out[begin..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Appends a text and its terminator. Two zeros end the text, so that it sorts before all texts that it is a
/// prefix of. A zero within the text is followed by 0xFF.
fn append_terminated(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        out.push(byte);
        if byte == 0 {
            out.push(0xFF);
        }
    }
    out.extend([0, 0]);
}

/// Returns bytes that compare like the numbers. Zero and negative zero have the same bytes.
pub fn number_key(number: f64) -> [u8; 8] {
    let bits = (number + 0.0).to_bits();
    let negative = bits >> 63 == 1;
    (if negative { !bits } else { bits | 1 << 63 }).to_be_bytes()
}
