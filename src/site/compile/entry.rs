//! An item of a collection, with its fields encoded for the evaluation of conditions.

use crate::condition::Value;
use crate::site::source::types;

/// An item, with its fields encoded for the evaluation of conditions.
pub(super) struct Entry<'s> {
    pub(super) item: &'s types::Item,
    pub(super) fields: Vec<u8>,
}

impl Entry<'_> {
    /// Returns the value at a dotted path of the fields.
    pub(super) fn get(&self, path: &str) -> Option<Value<'_>> {
        self.root().get_path(path)
    }

    pub(super) fn root(&self) -> Value<'_> {
        Value::decode(&self.fields).unwrap_or(Value::Null)
    }
}
