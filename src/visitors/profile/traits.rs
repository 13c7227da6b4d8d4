//! Traits: values that a site sets for a visitor, each with the time of its last write.
//!
//! ```text
//! entry = length of the following bytes:number | name:sized | base - written:signed
//!         | value, as encoded by `condition`
//! ```
//!
//! Entries are sorted by name. An entry without a value is a trait that was unset. It stays in the profile,
//! so that an older write that arrives late does not set the trait again.
//!
//! # Results of writes that arrive in any order
//!
//! * `set` and `unset` apply unless they are older than the last write. Of two with the same time, the later
//!   to arrive applies.
//! * `setOnce` applies if the trait has no value. Of two, the first to arrive applies.
//! * `increment`, `append`, `union` and `remove` change the present value, even if they are older than its
//!   last write. The later of both times is kept. So increments add up in any order, and one that arrives
//!   after a newer `set` adds to the value of that `set`.
//! * None of them sets a trait again that was unset at a later time. They treat `null` as no value, as
//!   conditions do.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::FoldCounts;
use super::varint::{Decoder, put_number, put_signed, put_sized, signed_len, sized_len};
use crate::condition::{Value, encode_value};
use crate::events::changes::{Change, Changes, Operation};
use crate::limits::{TRAIT_BYTES_MAX, TRAIT_NAME_BYTES_MAX};

/// A trait of a profile being modified.
#[derive(Debug, Clone)]
pub(super) struct Trait<'a> {
    pub name: Cow<'a, str>,
    pub written_ms: i64,
    /// Empty if the trait was unset.
    value: Cow<'a, [u8]>,
}

/// A trait, decoded in place.
#[derive(Debug, Clone, Copy)]
pub(super) struct TraitRef<'a> {
    pub name: &'a str,
    written_ms: i64,
    pub value: &'a [u8],
}

impl<'a> TraitRef<'a> {
    fn decode(entry: &'a [u8], base_ms: i64) -> Option<Self> {
        let mut entry = Decoder(entry);
        let name = entry.text()?;
        let written_ms = base_ms.wrapping_sub(entry.signed()?);
        Some(Self { name, written_ms, value: entry.0 })
    }
}

/// Iterates over all entries of a section.
pub(super) fn entries<'a>(section: &'a [u8], base_ms: i64) -> impl Iterator<Item = TraitRef<'a>> {
    let mut section = Decoder(section);
    std::iter::from_fn(move || TraitRef::decode(section.sized()?, base_ms))
}

/// The reason why an operation changes nothing.
enum SkipReason {
    TypeMismatch,
    Redundant,
}

/// The new value of a trait, or the reason why it does not change.
type NewValue = Result<Json, SkipReason>;

/// The traits of a profile being modified. Sorted by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Traits<'a>(Vec<Trait<'a>>);

impl<'a> Traits<'a> {
    pub(super) fn decode(section: &'a [u8], base_ms: i64) -> Self {
        let owned = |lying: TraitRef<'a>| Trait {
            name: Cow::Borrowed(lying.name),
            written_ms: lying.written_ms,
            value: Cow::Borrowed(lying.value),
        };
        Self(entries(section, base_ms).map(owned).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Keeps the traits whose names `is_kept` accepts.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.0.retain(|entry| is_kept(&entry.name));
    }

    /// Applies the changes of an event in their order. Counts those that the fold input leaves out.
    pub(super) fn apply(&mut self, changes: Changes<'_>, at_ms: i64, counts: &mut FoldCounts) {
        counts.traits_too_large += u64::from(changes.skipped);
        for Change { operation, name, operand } in changes {
            match operation {
                Operation::Set => self.set_value(name, at_ms, encode_value(&operand), counts),
                Operation::Unset => self.set_value(name, at_ms, Vec::new(), counts),
                Operation::SetOnce => self.update(name, at_ms, counts, |standing| match standing {
                    Some(_) => Err(SkipReason::Redundant),
                    None => Ok(operand),
                }),
                Operation::Increment => self.update(name, at_ms, counts, |value| increment(value, operand)),
                Operation::Append => self.update(name, at_ms, counts, |value| append(value, operand)),
                Operation::Union => self.update(name, at_ms, counts, |value| union(value, operand)),
                Operation::Remove => self.update(name, at_ms, counts, |value| remove(value, operand)),
            }
        }
    }

    /// Writes a value that does not depend on the present one. Ignores a write older than the last one.
    fn set_value(&mut self, name: &str, at_ms: i64, value: Vec<u8>, counts: &mut FoldCounts) {
        let place = self.search(name);
        let is_late = place.is_ok_and(|place| at_ms < self.0[place].written_ms);
        if !is_late {
            self.put(place, name, at_ms, value, counts);
        }
    }

    /// Writes a value computed from the present one.
    fn update(
        &mut self,
        name: &str,
        at_ms: i64,
        counts: &mut FoldCounts,
        change: impl FnOnce(Option<Value<'_>>) -> NewValue,
    ) {
        let place = self.search(name);
        let found = place.ok().map(|place| &self.0[place]);
        let standing = found.and_then(|found| Value::decode(&found.value));
        let standing = standing.filter(|value| *value != Value::Null);
        let written_ms = found.map_or(at_ms, |found| found.written_ms);
        if standing.is_none() && at_ms < written_ms {
            return;
        }
        match change(standing) {
            Ok(value) => self.put(place, name, at_ms.max(written_ms), encode_value(&value), counts),
            Err(SkipReason::TypeMismatch) => counts.type_mismatches += 1,
            Err(SkipReason::Redundant) => {}
        }
    }

    fn search(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|found| (*found.name).cmp(name))
    }

    fn put(
        &mut self,
        position: Result<usize, usize>,
        name: &str,
        written_ms: i64,
        value: Vec<u8>,
        counts: &mut FoldCounts,
    ) {
        if value.len() > TRAIT_BYTES_MAX || name.len() > TRAIT_NAME_BYTES_MAX {
            counts.traits_too_large += 1;
            return;
        }
        let value = Cow::Owned(value);
        match position {
            Ok(position) => {
                self.0[position].written_ms = written_ms;
                self.0[position].value = value;
            }
            Err(position) => {
                let name = Cow::Owned(name.to_owned());
                self.0.insert(position, Trait { name, written_ms, value });
            }
        }
    }

    /// Merges the traits of another profile into these. The later write of each trait is kept, and of two
    /// at the same time this profile's.
    pub(super) fn merge(&mut self, other: Self) {
        for theirs in other.0 {
            match self.search(&theirs.name) {
                Ok(place) if self.0[place].written_ms >= theirs.written_ms => {}
                Ok(place) => self.0[place] = theirs,
                Err(place) => self.0.insert(place, theirs),
            }
        }
    }

    /// Returns the trait with the oldest write: its index, the time of that write, and its name.
    pub(super) fn least_recent(&self) -> Option<(usize, i64, &str)> {
        let recency = |(place, found): (usize, &'_ Trait<'a>)| (found.written_ms, place);
        let (written_ms, place) = self.0.iter().enumerate().map(recency).min()?;
        Some((place, written_ms, &self.0[place].name))
    }

    /// Removes a trait and returns its encoded length.
    pub(super) fn remove(&mut self, index: usize, base_ms: i64) -> usize {
        sized_len(self.0.remove(index).inner_len(base_ms))
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

fn increment(current_value: Option<Value<'_>>, operand: Json) -> NewValue {
    let operand = operand.as_f64().ok_or(SkipReason::TypeMismatch)?;
    let sum = match current_value {
        None => operand,
        Some(Value::Number(number)) => number + operand,
        Some(_) => return Err(SkipReason::TypeMismatch),
    };
    // An infinite sum is not a JSON number.
    serde_json::Number::from_f64(sum).map(Json::Number).ok_or(SkipReason::TypeMismatch)
}

fn append(current_value: Option<Value<'_>>, operand: Json) -> NewValue {
    let mut items = current_items(current_value)?;
    match operand {
        Json::Array(more) => items.extend(more),
        one => items.push(one),
    }
    Ok(Json::Array(items))
}

fn union(current_value: Option<Value<'_>>, operand: Json) -> NewValue {
    let mut items = current_items(current_value)?;
    for item in array_items(operand)? {
        if !contains_item(&items, &item) {
            items.push(item);
        }
    }
    Ok(Json::Array(items))
}

fn remove(current_value: Option<Value<'_>>, operand: Json) -> NewValue {
    let mut items = current_items(current_value)?;
    let operand = array_items(operand)?;
    let before = items.len();
    items.retain(|item| !contains_item(&operand, item));
    if items.len() == before { Err(SkipReason::Redundant) } else { Ok(Json::Array(items)) }
}

fn current_items(current_value: Option<Value<'_>>) -> Result<Vec<Json>, SkipReason> {
    match current_value {
        None => Ok(Vec::new()),
        Some(array @ Value::Array(_)) => array_items(array.to_json()),
        Some(_) => Err(SkipReason::TypeMismatch),
    }
}

fn array_items(value: Json) -> Result<Vec<Json>, SkipReason> {
    match value {
        Json::Array(items) => Ok(items),
        _ => Err(SkipReason::TypeMismatch),
    }
}

/// Returns whether `items` contains an equal item: 1 equals 1.0, and the order of object members does
/// not matter.
fn contains_item(items: &[Json], item: &Json) -> bool {
    let wanted = encode_value(item);
    items.iter().any(|item| encode_value(item) == wanted)
}
