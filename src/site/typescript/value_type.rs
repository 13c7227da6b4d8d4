//! The TypeScript type that a set of JSON values has in common.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use serde_json::Value;

use super::text::property_name;

/// The type of the values that were added: a union of JSON types.
#[derive(Debug, Default)]
pub struct ValueType {
    has_string: bool,
    has_number: bool,
    has_boolean: bool,
    has_null: bool,
    object: Option<ObjectType>,
    /// The type of the elements of all arrays.
    elements: Option<Box<ValueType>>,
}

/// The type of the objects that were added.
#[derive(Debug, Default)]
struct ObjectType {
    /// Number of the added objects.
    count: usize,
    members: BTreeMap<String, MemberType>,
}

/// The type of one member of the objects that were added.
#[derive(Debug)]
struct MemberType {
    /// Number of the members that were added before it.
    position: usize,
    /// Number of the objects that have it.
    count: usize,
    value: ValueType,
}

impl ValueType {
    /// Adds a value.
    pub fn add(&mut self, value: &Value) {
        match value {
            Value::String(_) => self.has_string = true,
            Value::Number(_) => self.has_number = true,
            Value::Bool(_) => self.has_boolean = true,
            Value::Null => self.has_null = true,
            Value::Object(members) => {
                let object = self.object.get_or_insert_default();
                object.count += 1;
                members.iter().for_each(|(name, value)| object.add_member(name, value));
            }
            Value::Array(values) => {
                let elements = self.elements.get_or_insert_default();
                values.iter().for_each(|value| elements.add(value));
            }
        }
    }

    /// Adds an object with these members.
    pub(super) fn add_object<'a>(&mut self, members: impl IntoIterator<Item = (&'a str, Value)>) {
        let object = self.object.get_or_insert_default();
        object.count += 1;
        members.into_iter().for_each(|(name, value)| object.add_member(name, &value));
    }

    /// Returns whether no value was added.
    pub(super) fn is_empty(&self) -> bool {
        self.alternatives() == 0
    }

    /// Returns the number of types in the union.
    fn alternatives(&self) -> usize {
        let simple = [self.has_string, self.has_number, self.has_boolean, self.has_null];
        let inner = [self.object.is_some(), self.elements.is_some()];
        simple.into_iter().chain(inner).filter(|is_present| *is_present).count()
    }
}

impl ObjectType {
    fn add_member(&mut self, name: &str, value: &Value) {
        let position = self.members.len();
        let new = || MemberType { position, count: 0, value: ValueType::default() };
        let member = self.members.entry(name.to_owned()).or_insert_with(new);
        member.count += 1;
        member.value.add(value);
    }
}

/// Writes the alternatives in a fixed order. A type without values is `never`.
impl Display for ValueType {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let simple =
            [(self.has_string, "string"), (self.has_number, "number"), (self.has_boolean, "boolean")];
        let mut separator = "";
        for (_, name) in simple.into_iter().filter(|(is_present, _)| *is_present) {
            write!(out, "{separator}{name}")?;
            separator = " | ";
        }
        if let Some(object) = &self.object {
            write!(out, "{separator}{object}")?;
            separator = " | ";
        }
        if let Some(elements) = &self.elements {
            match elements.alternatives() {
                2.. => write!(out, "{separator}({elements})[]")?,
                _ => write!(out, "{separator}{elements}[]")?,
            }
            separator = " | ";
        }
        if self.has_null {
            write!(out, "{separator}null")?;
        }
        if self.is_empty() { out.write_str("never") } else { Ok(()) }
    }
}

/// Writes the members in the order in which they occur first. A member that some objects lack is optional.
impl Display for ObjectType {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let mut members: Vec<_> = self.members.iter().collect();
        members.sort_by_key(|(_, member)| member.position);
        let mut separator = "{ ";
        for (name, member) in &members {
            let mark = if member.count < self.count { "?" } else { "" };
            write!(out, "{separator}{}{mark}: {}", property_name(name), member.value)?;
            separator = "; ";
        }
        out.write_str(if members.is_empty() { "{}" } else { " }" })
    }
}
