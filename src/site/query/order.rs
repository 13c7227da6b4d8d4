//! Values as bytes that compare as the values do.
//!
//! In one order stand booleans before numbers before texts, texts by code point; descending turns that round. What is missing
//! comes last either way; null, arrays and objects have no order and count as missing.

use crate::condition::Value;

const BOOLEAN: u8 = 0x10;
const NUMBER: u8 = 0x20;
const TEXT: u8 = 0x30;
/// Above every tag, turned round or not.
const MISSING: u8 = 0xFF;

/// Appends a value of a sequence by which things are sorted. No value's bytes begin another's.
pub fn sort_value(value: Option<Value<'_>>, descending: bool, out: &mut Vec<u8>) {
    let begin = out.len();
    match value {
        Some(Value::Bool(flag)) => out.extend([BOOLEAN, u8::from(flag)]),
        Some(Value::Number(number)) => {
            out.push(NUMBER);
            out.extend(number_key(number));
        }
        Some(Value::String(text)) => {
            out.push(TEXT);
            terminated(text, out);
        }
        None | Some(Value::Null | Value::Array(_) | Value::Object(_)) => return out.push(MISSING),
    }
    if descending {
        out[begin..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// A zero ends the text, so that it comes before all that it begins; its own zeros are followed by 0xFF.
fn terminated(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        out.push(byte);
        if byte == 0 {
            out.push(0xFF);
        }
    }
    out.extend([0, 0]);
}

/// Bytes that compare as numbers do; the two zeros are one.
pub fn number_key(number: f64) -> [u8; 8] {
    let bits = (number + 0.0).to_bits();
    let negative = bits >> 63 == 1;
    (if negative { !bits } else { bits | 1 << 63 }).to_be_bytes()
}
