//! The binary encoding of values: traits in profiles, fields of content, arrays and objects in programs.
//!
//! JSON is encoded as little-endian bytes. Values are read in place, without allocation:
//!
//! ```text
//! value  = 0                                  null
//!        | 1 | 2                              false, true
//!        | 3 f64                              number
//!        | 4 text                             string
//!        | 5 bytes:u32 count:u32 value*       array; `bytes` is the length of the part after `count`
//!        | 6 bytes:u32 count:u32 (text value)*  object; members in ascending order of their keys
//! text   = bytes:u32 UTF-8
//! ```
//!
//! Equal values have equal bytes, because keys are sorted and negative zero is written as zero. Arrays and
//! objects are therefore compared as bytes. Numbers are 64-bit floats, as in JavaScript: integers beyond 2^53
//! are rounded. Malformed bytes decode to `None` or end an iteration. They never cause a panic.

use serde_json::{Map, Value as Json};

/// Nesting depth of arrays and objects in a value that is converted back to JSON: the depth that `serde_json`
/// reads. Deeper content, which only a corrupt buffer has, is left out.
pub const VALUE_NESTING_MAX: usize = 128;

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const NUMBER: u8 = 3;
const STRING: u8 = 4;
const ARRAY: u8 = 5;
const OBJECT: u8 = 6;

/// 2^53. Integers up to this absolute value are exact in a 64-bit float.
const EXACT_INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// Returns the encoding of `json`. The panics of [`encode`] apply.
pub(crate) fn encode_value(json: &Json) -> Vec<u8> {
    let mut out = Vec::new();
    encode(json, &mut out);
    out
}

/// Appends `json` to `out`.
///
/// # Panics
/// If the encoded contents exceed the 4 GiB that a length can express. Callers bound the size of `json` far
/// below that, and its parser bounds the nesting.
pub fn encode(json: &Json, out: &mut Vec<u8>) {
    match json {
        Json::Null => out.push(NULL),
        Json::Bool(false) => out.push(FALSE),
        Json::Bool(true) => out.push(TRUE),
        Json::Number(number) => encode_f64(number.as_f64().unwrap_or_default(), out),
        Json::String(text) => {
            out.push(STRING);
            encode_text(text, out);
        }
        Json::Array(items) => encode_container(ARRAY, items.len(), out, |out| {
            items.iter().for_each(|item| encode(item, out));
        }),
        Json::Object(members) => encode_container(OBJECT, members.len(), out, |out| {
            encode_members(members, out);
        }),
    }
}

/// Appends a scalar. An array or object is written as null.
pub(crate) fn encode_scalar(value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Null | Value::Array(_) | Value::Object(_) => out.push(NULL),
        Value::Bool(flag) => out.push(if flag { TRUE } else { FALSE }),
        Value::Number(number) => encode_f64(number, out),
        Value::String(text) => {
            out.push(STRING);
            encode_text(text, out);
        }
    }
}

fn encode_f64(number: f64, out: &mut Vec<u8>) {
    out.push(NUMBER);
    // Adding zero turns negative zero into zero and changes nothing else.
    out.extend((number + 0.0).to_le_bytes());
}

fn encode_container(tag: u8, count: usize, out: &mut Vec<u8>, write_contents: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let length_at = out.len();
    out.extend([0; 4]);
    out.extend(encode_length(count));
    let start = out.len();
    write_contents(out);
    let bytes = encode_length(out.len() - start);
    out[length_at..length_at + 4].copy_from_slice(&bytes);
}

fn encode_members(members: &Map<String, Json>, out: &mut Vec<u8>) {
    // With serde_json's feature `preserve_order` the map has the order of the source.
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_unstable_by_key(|(key, _)| *key);
    for (key, member) in sorted {
        encode_text(key, out);
        encode(member, out);
    }
}

fn encode_text(text: &str, out: &mut Vec<u8>) {
    out.extend(encode_length(text.len()));
    out.extend(text.as_bytes());
}

fn encode_length(length: usize) -> [u8; 4] {
    let length = u32::try_from(length).expect("sources of values are bounded far below 4 GiB");
    length.to_le_bytes()
}

/// A value that borrows from its encoded bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Number(f64),
    String(&'a str),
    Array(Array<'a>),
    Object(Object<'a>),
}

impl<'a> Value<'a> {
    /// Decodes the value at the start of `bytes`. Returns `None` if they are malformed. The contents of
    /// arrays and objects are decoded only when they are read.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        Decoder(bytes).value()
    }

    /// Returns whether the value at the start of `bytes` is equal to this one. The bytes of a text are not decoded.
    pub fn is_encoded_as(self, bytes: &[u8]) -> bool {
        let Value::String(text) = self else { return Value::decode(bytes) == Some(self) };
        let mut decoder = Decoder(bytes);
        let is_text = decoder.u8() == Some(STRING);
        let length = decoder.u32().map(|length| length as usize);
        is_text && length == Some(text.len()) && decoder.take(text.len()) == Some(text.as_bytes())
    }

    /// Returns the value at a dotted path: members of objects by key, items of arrays by index.
    pub fn get_path(self, path: &str) -> Option<Self> {
        path.split('.').try_fold(self, |value, part| match value {
            Value::Object(object) => object.get(part),
            Value::Array(array) => array.iter().nth(part.parse().ok()?),
            _ => None,
        })
    }

    /// Converts the value to JSON. Allocates.
    pub fn to_json(self) -> Json {
        self.to_json_bounded(VALUE_NESTING_MAX)
    }

    fn to_json_bounded(self, nesting_left: usize) -> Json {
        match self {
            Value::Null => Json::Null,
            Value::Bool(flag) => Json::Bool(flag),
            Value::Number(number) => number_to_json(number),
            Value::String(text) => Json::from(text),
            Value::Array(_) | Value::Object(_) if nesting_left == 0 => Json::Null,
            Value::Array(array) => array.iter().map(|item| item.to_json_bounded(nesting_left - 1)).collect(),
            Value::Object(object) => object
                .iter()
                .map(|(key, member)| (key.to_owned(), member.to_json_bounded(nesting_left - 1)))
                .collect(),
        }
    }
}

fn number_to_json(number: f64) -> Json {
    if number.fract() == 0.0 && number.abs() <= EXACT_INTEGER_MAX {
        Json::from(number as i64)
    } else {
        Json::from(number)
    }
}

/// An encoded array. Equal arrays have equal bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Array<'a> {
    items: &'a [u8],
    count: u32,
}

impl<'a> Array<'a> {
    pub fn len(self) -> usize {
        self.count as usize
    }

    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    pub fn iter(self) -> impl Iterator<Item = Value<'a>> {
        let mut items = Decoder(self.items);
        std::iter::from_fn(move || items.value())
    }
}

/// An encoded object with its members in ascending order of their keys. Equal objects have equal bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Object<'a> {
    members: &'a [u8],
    count: u32,
}

impl<'a> Object<'a> {
    pub fn len(self) -> usize {
        self.count as usize
    }

    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    pub fn iter(self) -> impl Iterator<Item = (&'a str, Value<'a>)> {
        let mut members = Decoder(self.members);
        std::iter::from_fn(move || Some((members.text()?, members.value()?)))
    }

    pub fn get(self, key: &str) -> Option<Value<'a>> {
        self.iter()
            .take_while(|(found, _)| *found <= key)
            .find_map(|(found, value)| (found == key).then_some(value))
    }
}

/// A decoder of little-endian data. Its methods consume the front of the buffer and return `None` if it is
/// too short.
#[derive(Clone, Copy, Debug)]
struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    fn value(&mut self) -> Option<Value<'a>> {
        Some(match self.u8()? {
            NULL => Value::Null,
            FALSE => Value::Bool(false),
            TRUE => Value::Bool(true),
            NUMBER => Value::Number(f64::from_le_bytes(self.array()?)),
            STRING => Value::String(self.text()?),
            ARRAY => {
                let (count, items) = self.container()?;
                Value::Array(Array { items, count })
            }
            OBJECT => {
                let (count, members) = self.container()?;
                Value::Object(Object { members, count })
            }
            _ => return None,
        })
    }

    fn container(&mut self) -> Option<(u32, &'a [u8])> {
        let bytes = self.u32()?;
        let count = self.u32()?;
        Some((count, self.take(bytes as usize)?))
    }

    fn text(&mut self) -> Option<&'a str> {
        let bytes = self.u32()?;
        std::str::from_utf8(self.take(bytes as usize)?).ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }
}
