//! What a site says of a visitor: traits, each with the time of its last write.
//!
//! ```text
//! entry = bytes:number of what follows | name:sized | base - written:signed | value, as `condition` writes it
//! ```
//!
//! Entries ascend by their names. An entry without a value is a trait that was unset: it stays, so that an older write that comes
//! late does not bring the trait back.
//!
//! # What stands after writes in any order
//!
//! * `set` and `unset` count unless they are older than the last write; of two of one time the one that comes later counts.
//! * `setOnce` counts where nothing stands; of two the one that comes first.
//! * `increment`, `append`, `union` and `remove` change what stands, whatever its time, and the time becomes the later of both. So
//!   increments add up in any order; one that comes later than a newer `set` adds to what that set.
//! * None of them brings back a trait that was unset at a later time. To them `null` is nothing, as it is to conditions.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::Counted;
use super::varint::{Bytes, put_number, put_signed, put_sized, signed_len, sized_len};
use crate::condition::{self, Value};
use crate::limits::{TRAIT_BYTES_MAX, TRAIT_NAME_BYTES_MAX};
use crate::visitors::events::document;

/// One trait.
#[derive(Debug, Clone)]
pub(super) struct Trait<'a> {
    pub name: Cow<'a, str>,
    pub written_ms: i64,
    /// Empty where it was unset.
    value: Cow<'a, [u8]>,
}

/// One trait, where it lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lying<'a> {
    pub name: &'a str,
    written_ms: i64,
    pub value: &'a [u8],
}

impl<'a> Lying<'a> {
    fn read(entry: &'a [u8], base_ms: i64) -> Option<Self> {
        let mut entry = Bytes(entry);
        let name = entry.text()?;
        let written_ms = base_ms.wrapping_sub(entry.signed()?);
        Some(Self { name, written_ms, value: entry.0 })
    }
}

/// All entries of a section.
pub(super) fn entries<'a>(section: &'a [u8], base_ms: i64) -> impl Iterator<Item = Lying<'a>> {
    let mut section = Bytes(section);
    std::iter::from_fn(move || Lying::read(section.sized()?, base_ms))
}

/// Why an operation changes nothing.
enum Skipped {
    OfAnotherType,
    NothingToDo,
}

/// What becomes of a trait.
type Change = Result<Json, Skipped>;

/// The traits of a profile that is to change.
#[derive(Debug, Clone, Default)]
pub(super) struct Traits<'a>(Vec<Trait<'a>>);

impl<'a> Traits<'a> {
    pub(super) fn decode(section: &'a [u8], base_ms: i64) -> Self {
        let owned = |lying: Lying<'a>| Trait {
            name: Cow::Borrowed(lying.name),
            written_ms: lying.written_ms,
            value: Cow::Borrowed(lying.value),
        };
        Self(entries(section, base_ms).map(owned).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Sets what an identify says.
    pub(super) fn identify(&mut self, root: document::Value<'_>, at_ms: i64, counted: &mut Counted) {
        self.set(root.find("traits"), at_ms, counted);
    }

    /// Applies a profile event's operations, in their order.
    pub(super) fn operate(&mut self, root: document::Value<'_>, at_ms: i64, counted: &mut Counted) {
        self.set(root.find("set"), at_ms, counted);
        self.change_each(root.find("setOnce"), at_ms, counted, |standing, value| match standing {
            Some(_) => Err(Skipped::NothingToDo),
            None => Ok(value),
        });
        for name in root.find("unset").into_iter().flat_map(document::Value::elements) {
            name.string().into_iter().for_each(|name| self.write(name, at_ms, Vec::new(), counted));
        }
        self.change_each(root.find("increment"), at_ms, counted, increment);
        self.change_each(root.find("append"), at_ms, counted, append);
        self.change_each(root.find("union"), at_ms, counted, union);
        self.change_each(root.find("remove"), at_ms, counted, remove);
    }

    fn set(&mut self, values: Option<document::Value<'_>>, at_ms: i64, counted: &mut Counted) {
        for member in values.into_iter().flat_map(document::Value::members) {
            match json(member.value) {
                Some(value) => self.write(member.name, at_ms, encoded(&value), counted),
                None => counted.traits_too_large += 1,
            }
        }
    }

    fn change_each(
        &mut self,
        operation: Option<document::Value<'_>>,
        at_ms: i64,
        counted: &mut Counted,
        change: impl Fn(Option<Value<'_>>, Json) -> Change,
    ) {
        for member in operation.into_iter().flat_map(document::Value::members) {
            match json(member.value) {
                Some(operand) => self.change(member.name, at_ms, counted, |value| change(value, operand)),
                None => counted.traits_too_large += 1,
            }
        }
    }

    /// Writes a value that goes by nothing before it.
    fn write(&mut self, name: &str, at_ms: i64, value: Vec<u8>, counted: &mut Counted) {
        let place = self.place(name);
        let is_late = place.is_ok_and(|place| at_ms < self.0[place].written_ms);
        if !is_late {
            self.put(place, name, at_ms, value, counted);
        }
    }

    /// Writes a value that goes by what stands.
    fn change(
        &mut self,
        name: &str,
        at_ms: i64,
        counted: &mut Counted,
        change: impl FnOnce(Option<Value<'_>>) -> Change,
    ) {
        let place = self.place(name);
        let found = place.ok().map(|place| &self.0[place]);
        let standing = found.and_then(|found| Value::decode(&found.value));
        let standing = standing.filter(|value| *value != Value::Null);
        let written_ms = found.map_or(at_ms, |found| found.written_ms);
        if standing.is_none() && at_ms < written_ms {
            return;
        }
        match change(standing) {
            Ok(value) => self.put(place, name, at_ms.max(written_ms), encoded(&value), counted),
            Err(Skipped::OfAnotherType) => counted.operations_of_another_type += 1,
            Err(Skipped::NothingToDo) => {}
        }
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|found| (*found.name).cmp(name))
    }

    fn put(
        &mut self,
        place: Result<usize, usize>,
        name: &str,
        written_ms: i64,
        value: Vec<u8>,
        counted: &mut Counted,
    ) {
        if value.len() > TRAIT_BYTES_MAX || name.len() > TRAIT_NAME_BYTES_MAX {
            counted.traits_too_large += 1;
            return;
        }
        let value = Cow::Owned(value);
        match place {
            Ok(place) => {
                self.0[place].written_ms = written_ms;
                self.0[place].value = value;
            }
            Err(place) => {
                let name = Cow::Owned(name.to_owned());
                self.0.insert(place, Trait { name, written_ms, value });
            }
        }
    }

    /// Takes in what was written to another profile later. Of two writes of one time its own stays.
    pub(super) fn merge(&mut self, other: Self) {
        for theirs in other.0 {
            match self.place(&theirs.name) {
                Ok(place) if self.0[place].written_ms >= theirs.written_ms => {}
                Ok(place) => self.0[place] = theirs,
                Err(place) => self.0.insert(place, theirs),
            }
        }
    }

    /// When the trait that goes first was written, and its name.
    pub(super) fn least_recent(&self) -> Option<(usize, i64, &str)> {
        let recency = |(place, found): (usize, &'_ Trait<'a>)| (found.written_ms, place);
        let (written_ms, place) = self.0.iter().enumerate().map(recency).min()?;
        Some((place, written_ms, &self.0[place].name))
    }

    /// Lets a trait go. What it took.
    pub(super) fn let_go(&mut self, place: usize, base_ms: i64) -> usize {
        sized_len(self.0.remove(place).inner_len(base_ms))
    }

    pub(super) fn encode(&self, base_ms: i64, out: &mut Vec<u8>) {
        for found in &self.0 {
            put_number(out, found.inner_len(base_ms) as u64);
            put_sized(out, found.name.as_bytes());
            put_signed(out, base_ms.wrapping_sub(found.written_ms));
            out.extend_from_slice(&found.value);
        }
    }
}

impl Trait<'_> {
    fn inner_len(&self, base_ms: i64) -> usize {
        let written = signed_len(base_ms.wrapping_sub(self.written_ms));
        sized_len(self.name.len()) + written + self.value.len()
    }
}

/// The value that was sent; `None` where it holds a number that no float is.
fn json(value: document::Value<'_>) -> Option<Json> {
    serde_json::from_str(value.source()).ok()
}

fn encoded(value: &Json) -> Vec<u8> {
    let mut bytes = Vec::new();
    condition::encode(value, &mut bytes);
    bytes
}

fn increment(standing: Option<Value<'_>>, by: Json) -> Change {
    let by = by.as_f64().ok_or(Skipped::OfAnotherType)?;
    let sum = match standing {
        None => by,
        Some(Value::Number(number)) => number + by,
        Some(_) => return Err(Skipped::OfAnotherType),
    };
    // A sum beyond all floats is no number.
    serde_json::Number::from_f64(sum).map(Json::Number).ok_or(Skipped::OfAnotherType)
}

fn append(standing: Option<Value<'_>>, operand: Json) -> Change {
    let mut items = items(standing)?;
    match operand {
        Json::Array(more) => items.extend(more),
        one => items.push(one),
    }
    Ok(Json::Array(items))
}

fn union(standing: Option<Value<'_>>, operand: Json) -> Change {
    let mut items = items(standing)?;
    for item in listed(operand)? {
        if !holds(&items, &item) {
            items.push(item);
        }
    }
    Ok(Json::Array(items))
}

fn remove(standing: Option<Value<'_>>, operand: Json) -> Change {
    let (mut items, operand) = (items(standing)?, listed(operand)?);
    let before = items.len();
    items.retain(|item| !holds(&operand, item));
    if items.len() == before { Err(Skipped::NothingToDo) } else { Ok(Json::Array(items)) }
}

fn items(standing: Option<Value<'_>>) -> Result<Vec<Json>, Skipped> {
    match standing {
        None => Ok(Vec::new()),
        Some(array @ Value::Array(_)) => listed(array.to_json()),
        Some(_) => Err(Skipped::OfAnotherType),
    }
}

fn listed(value: Json) -> Result<Vec<Json>, Skipped> {
    match value {
        Json::Array(items) => Ok(items),
        _ => Err(Skipped::OfAnotherType),
    }
}

/// Whether an equal item is there: 1 is 1.0, and members have no order.
fn holds(items: &[Json], item: &Json) -> bool {
    let wanted = encoded(item);
    items.iter().any(|item| encoded(item) == wanted)
}
