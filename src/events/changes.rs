//! The trait changes of an event in its fold input: operations with a trait name and an operand each.
//!
//! The module doc of `log/format.rs` specifies the encoding. Values keep their texts, so an encoded
//! value is at most one byte longer than its JSON, and reading one parses no JSON.

use serde_json::{Map, Number, Value as Json};

use super::document::Value;
use super::members::{MemberName, Members};
use crate::limits::{EVENT_NESTING_MAX, TRAIT_BYTES_MAX, TRAIT_NAME_BYTES_MAX};
use crate::record::RecordKind;
use crate::varint::{Decoder, put_number, put_sized};

/// The kind of a trait change. The numbers are part of the format of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Operation {
    Set = 0,
    SetOnce = 1,
    Unset = 2,
    Increment = 3,
    Append = 4,
    Union = 5,
    Remove = 6,
}

/// The operations in the order in which they are applied, and their members.
const OPERATIONS: [(Operation, MemberName); 7] = [
    (Operation::Set, MemberName::Set),
    (Operation::SetOnce, MemberName::SetOnce),
    (Operation::Unset, MemberName::Unset),
    (Operation::Increment, MemberName::Increment),
    (Operation::Append, MemberName::Append),
    (Operation::Union, MemberName::Union),
    (Operation::Remove, MemberName::Remove),
];

// The head of a value: the type in the upper three bits, and a length or a number in the lower five.
const CONSTANT: u8 = 0;
const NUMBER: u8 = 1;
const STRING: u8 = 2;
const ARRAY: u8 = 3;
const OBJECT: u8 = 4;
const LENGTH_BITS: u32 = 5;
/// The value of the lower bits if a varint with the length follows.
const LONG: u8 = (1 << LENGTH_BITS) - 1;
const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;

/// Length of a number's text. A longer number is written as the shortest text of its float, which has at most
/// 24 bytes.
const NUMBER_BYTES_MAX: usize = LONG as usize - 1;

/// Appends the changes of an identify or profile event. Appends nothing if there are none.
pub(super) fn write(kind: RecordKind, members: &Members<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    let mut skipped = 0;
    out.extend([0; 2]);
    let mut write_one = |operation, operand: Option<Value<'_>>| {
        if let Some(operand) = operand {
            skipped += write_operation(operation, operand, out);
        }
    };
    match kind {
        RecordKind::Identify => {
            let traits = members.get(MemberName::Traits).filter(|traits| traits.is_object());
            write_one(Operation::Set, traits)
        }
        _ => OPERATIONS.iter().for_each(|(operation, name)| write_one(*operation, members.get(*name))),
    }
    if skipped == 0 && out.len() == start + 2 {
        out.truncate(start);
    } else {
        out[start..start + 2].copy_from_slice(&skipped.to_le_bytes());
    }
}

/// Appends one operation on all its traits. Returns the number of traits that were skipped.
fn write_operation(operation: Operation, operand: Value<'_>, out: &mut Vec<u8>) -> u16 {
    let start = out.len();
    out.extend([operation as u8, 0, 0]);
    // An event has fewer than 2^16 members.
    let mut count = 0_u16;
    let mut skipped = 0;
    let unset = operand.elements().filter_map(Value::as_str).map(|name| (name, None));
    let others = operand.members().map(|member| (member.name, Some(member.value)));
    for (name, value) in unset.chain(others) {
        let is_kept = name.len() <= TRAIT_NAME_BYTES_MAX
            && value.is_none_or(|value| encoded_bytes(value).is_some_and(|bytes| bytes <= TRAIT_BYTES_MAX));
        if !is_kept {
            skipped += 1;
            continue;
        }
        count += 1;
        put_sized(out, name.as_bytes());
        value.into_iter().for_each(|value| write_value(value, out));
    }
    out[start + 1..start + 3].copy_from_slice(&count.to_le_bytes());
    if count == 0 {
        out.truncate(start);
    }
    skipped
}

/// Returns the length of a value in the encoding of `condition`, or `None` if it has a number that does not
/// fit a float.
fn encoded_bytes(value: Value<'_>) -> Option<usize> {
    if let Some(text) = value.as_str() {
        return Some(5 + text.len());
    }
    if value.is_array() {
        return value.elements().try_fold(9, |sum, element| Some(sum + encoded_bytes(element)?));
    }
    if value.is_object() {
        let add = |sum: usize, member: super::document::Member<'_>| {
            Some(sum + 4 + member.name.len() + encoded_bytes(member.value)?)
        };
        return value.members().try_fold(9, add);
    }
    if value.is_number() {
        return parse_number(value.source()).map(|_| 9);
    }
    Some(1)
}

fn parse_number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

fn write_value(value: Value<'_>, out: &mut Vec<u8>) {
    if let Some(text) = value.as_str() {
        put_head(out, STRING, text.len());
        out.extend_from_slice(text.as_bytes());
    } else if value.is_array() {
        put_head(out, ARRAY, value.len());
        value.elements().for_each(|element| write_value(element, out));
    } else if value.is_object() {
        put_head(out, OBJECT, value.members().count());
        for member in value.members() {
            put_sized(out, member.name.as_bytes());
            write_value(member.value, out);
        }
    } else if value.is_number() {
        write_number(value.source(), out);
    } else {
        let constant = value.as_bool().map_or(NULL, |is_true| if is_true { TRUE } else { FALSE });
        out.push(CONSTANT << LENGTH_BITS | constant);
    }
}

fn write_number(text: &str, out: &mut Vec<u8>) {
    let short =
        (text.len() > NUMBER_BYTES_MAX).then(|| format!("{:e}", parse_number(text).unwrap_or_default()));
    let text = short.as_deref().unwrap_or(text);
    put_head(out, NUMBER, text.len());
    out.extend_from_slice(text.as_bytes());
}

fn put_head(out: &mut Vec<u8>, value_type: u8, length: usize) {
    let low = u8::try_from(length).unwrap_or(LONG).min(LONG);
    out.push(value_type << LENGTH_BITS | low);
    if low == LONG {
        put_number(out, length as u64);
    }
}

/// The trait changes of an event, decoded one by one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Changes<'a> {
    /// Traits that the record has and the fold input leaves out: too long a name or value, or a number that does
    /// not fit a float.
    pub skipped: u16,
    content: Decoder<'a>,
    operation: Operation,
    /// Traits of the operation that were not read yet.
    remaining: u16,
}

/// One change of one trait.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change<'a> {
    pub operation: Operation,
    pub name: &'a str,
    /// The operand. Null for [`Operation::Unset`], which has none.
    pub operand: Json,
}

impl<'a> Changes<'a> {
    /// Reads the changes of a fold input. `None` means that there are none.
    pub(crate) fn new(content: Option<&'a [u8]>) -> Self {
        let mut content = Decoder(content.unwrap_or_default());
        let skipped = read_u16(&mut content).unwrap_or_default();
        Self { skipped, content, operation: Operation::Set, remaining: 0 }
    }

    fn begin_operation(&mut self) -> Option<()> {
        let number = self.content.byte()?;
        self.operation = OPERATIONS.get(usize::from(number))?.0;
        self.remaining = read_u16(&mut self.content)?;
        Some(())
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = Change<'a>;

    /// Reads the next change. A malformed one ends the iteration.
    fn next(&mut self) -> Option<Change<'a>> {
        while self.remaining == 0 {
            self.begin_operation()?;
        }
        self.remaining -= 1;
        let name = self.content.text()?;
        let operand = match self.operation {
            Operation::Unset => Json::Null,
            _ => read_value(&mut self.content, EVENT_NESTING_MAX)?,
        };
        Some(Change { operation: self.operation, name, operand })
    }
}

fn read_u16(decoder: &mut Decoder<'_>) -> Option<u16> {
    decoder.take(2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// Reads a value with at most `nesting_max` levels of arrays and objects.
fn read_value(decoder: &mut Decoder<'_>, nesting_max: usize) -> Option<Json> {
    let head = decoder.byte()?;
    let length = match head & LONG {
        LONG => usize::try_from(decoder.number()?).ok()?,
        short => usize::from(short),
    };
    let below = nesting_max.checked_sub(1);
    Some(match head >> LENGTH_BITS {
        CONSTANT => [Json::Null, Json::Bool(false), Json::Bool(true)].into_iter().nth(length)?,
        NUMBER => {
            let text = std::str::from_utf8(decoder.take(length)?).ok()?;
            Json::Number(Number::from_f64(parse_number(text)?)?)
        }
        STRING => Json::from(std::str::from_utf8(decoder.take(length)?).ok()?),
        // Every element takes a byte at least, so malformed bytes cannot cause a large allocation.
        ARRAY => Json::Array((0..length).map(|_| read_value(decoder, below?)).collect::<Option<_>>()?),
        OBJECT => {
            let mut member = || Some((decoder.text()?.to_owned(), read_value(decoder, below?)?));
            Json::Object((0..length).map(|_| member()).collect::<Option<Map<_, _>>>()?)
        }
        _ => return None,
    })
}
