//! Optional values that the server ignores because it cannot use them. The event is recorded without them.
//!
//! A value is optional if the event means the same without it. A value that decides the meaning of the event, its visitor,
//! its time, or whether it may be recorded is not optional: the event is refused. One exception is a user ID without its
//! hash beside an anonymous ID, at a site that verifies user IDs: the event is recorded for the anonymous ID alone.

use super::document::Value;
use super::location::Location;
use super::refusal::Refusal;
use crate::json;
use crate::problem::{self, ProblemKind};

/// Ignored values that a receipt names. Further ones are only counted, so that 2,500 events with the same fault need
/// no megabytes.
pub const IGNORED_VALUES_NAMED_MAX: usize = 100;

/// The JSON type that a member must have.
#[derive(Clone, Copy)]
pub(super) enum JsonType {
    Object,
    String,
    Boolean,
}

impl JsonType {
    #[inline]
    pub(super) fn fits(self, value: Value<'_>) -> bool {
        match self {
            Self::Object => value.is_object(),
            Self::String => value.as_str().is_some(),
            Self::Boolean => value.as_bool().is_some(),
        }
    }

    pub(super) fn expected(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::String => "a string",
            Self::Boolean => "true or false",
        }
    }
}

/// The values of one request that were ignored, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct IgnoredValues {
    named: Vec<IgnoredValue>,
    /// The number of values that cannot be used.
    count: usize,
    /// The number of user IDs that are not verified.
    unverified_users: usize,
}

/// An ignored value.
#[derive(Debug, Clone)]
struct IgnoredValue {
    /// The index of its event. `None` if it belongs to the whole batch.
    index: Option<usize>,
    /// The reason, as for a refused value.
    reason: Refusal,
}

impl IgnoredValues {
    /// Removes all values, but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.named.clear();
        (self.count, self.unverified_users) = (0, 0);
    }

    /// Adds the values that are ignored in a batch as a whole.
    pub(super) fn add_of_batch(&mut self, batch_values: &Self) {
        self.named
            .extend(batch_values.named.iter().map(|value| IgnoredValue { index: None, ..value.clone() }));
        self.count += batch_values.count;
    }

    /// Adds a value.
    #[cold]
    pub(super) fn add<'d>(
        &mut self,
        location: Location<'d>,
        kind: &'static ProblemKind,
        value: Value<'d>,
        expected: &'static str,
    ) {
        self.count += 1;
        self.name(location, || location.refuse(kind, value, expected));
    }

    /// Adds the user ID of the event at `location`, which is not verified.
    ///
    /// # Errors
    /// `unverified_user`, if the event has no anon ID either.
    #[cold]
    pub(super) fn add_unverified_user(
        &mut self,
        location: Location<'_>,
        has_anon_id: bool,
    ) -> Result<(), Refusal> {
        self.unverified_users += 1;
        let refuse = |sentence| location.refuse_missing(problem::UNVERIFIED_USER, "userId", sentence);
        if !has_anon_id {
            return Err(refuse(
                "The user ID does not count, because 'context.userHash' is missing or wrong, and the event has no \
                 anonymous ID; add the hash, or 'anonId'.",
            ));
        }
        let sentence = "The user ID does not count, because 'context.userHash' is missing or wrong; the event is that of \
                        the anonymous ID.";
        self.name(location, || refuse(sentence));
        Ok(())
    }

    /// Adds a reason to the receipt, unless it has the maximum of them.
    fn name(&mut self, location: Location<'_>, refuse: impl FnOnce() -> Refusal) {
        if self.named.len() < IGNORED_VALUES_NAMED_MAX {
            self.named.push(IgnoredValue { index: Some(location.index.unwrap_or(0)), reason: refuse() });
        }
    }

    /// Returns the value if it has this type, and adds it otherwise. An empty array is the empty object of PHP, so it
    /// counts as missing.
    pub(super) fn typed<'d>(
        &mut self,
        json_type: JsonType,
        value: Option<Value<'d>>,
        location: Location<'d>,
    ) -> Option<Value<'d>> {
        let value = value?;
        if json_type.fits(value) {
            return Some(value);
        }
        if !value.is_empty_array() {
            self.add(location, problem::INVALID_EVENT, value, json_type.expected());
        }
        None
    }

    /// Returns the number of values that cannot be used.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of user IDs that are not verified.
    pub(super) fn unverified_users(&self) -> usize {
        self.unverified_users
    }

    /// Returns whether nothing was ignored.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0 && self.unverified_users == 0
    }

    /// Returns the approximate memory use, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let reasons = self.named.iter().map(|value| value.reason.memory_bytes());
        self.named.capacity() * size_of::<IgnoredValue>() + reasons.sum::<usize>()
    }

    /// Appends the member `warnings` of a receipt, after a comma. Appends nothing if there are no values.
    pub(super) fn write_member(&self, out: &mut Vec<u8>) {
        for (i, value) in self.named.iter().enumerate() {
            out.extend_from_slice(if i == 0 { b",\"warnings\":[" } else { b"," });
            out.extend_from_slice(b"{\"index\":");
            match value.index {
                Some(index) => json::write_number(out, index),
                None => out.extend_from_slice(b"null"),
            }
            out.push(b',');
            value.reason.write_members(out);
            out.push(b'}');
        }
        if !self.named.is_empty() {
            out.push(b']');
        }
    }
}
