//! Names and operand shapes of the profile operations. `visitors::profile` applies the operations.

use super::document::Value;
use super::location::Location;
use super::members::{MemberName, Members};
use super::refusal::Refusal;
use crate::problem;

/// The shape of an operation's operand.
#[derive(Clone, Copy)]
enum OperandShape {
    /// `{key: anything}`
    Values,
    /// `[key]`
    Keys,
    /// `{key: number}`
    Numbers,
    /// `{key: [anything]}`
    Lists,
}

/// The operations in the order in which they are applied.
const OPERATIONS: [(MemberName, OperandShape); 7] = [
    (MemberName::Set, OperandShape::Values),
    (MemberName::SetOnce, OperandShape::Values),
    (MemberName::Unset, OperandShape::Keys),
    (MemberName::Increment, OperandShape::Numbers),
    (MemberName::Append, OperandShape::Values),
    (MemberName::Union, OperandShape::Lists),
    (MemberName::Remove, OperandShape::Lists),
];

impl OperandShape {
    fn expected(self) -> &'static str {
        match self {
            Self::Values => "an object of values by trait",
            Self::Keys => "an array of traits' names",
            Self::Numbers => "an object of numbers by trait",
            Self::Lists => "an object of arrays by trait",
        }
    }

    fn expected_item(self) -> &'static str {
        match self {
            Self::Values => "any value",
            Self::Keys => "a trait's name",
            Self::Numbers => "a number",
            Self::Lists => "an array",
        }
    }

    fn accepts(self, operand: Value<'_>) -> bool {
        match self {
            Self::Keys => operand.is_array(),
            // PHP writes an empty object as an empty array.
            _ => operand.is_object() || operand.is_empty_array(),
        }
    }

    fn accepts_item(self, value: Value<'_>) -> bool {
        match self {
            Self::Values => true,
            Self::Keys => value.as_str().is_some(),
            Self::Numbers => value.is_number(),
            Self::Lists => value.is_array(),
        }
    }
}

/// Returns whether the event has a profile operation.
pub(super) fn has_any(members: &Members<'_>) -> bool {
    OPERATIONS.iter().any(|(name, _)| members.get(*name).is_some())
}

/// Checks the operations of a profile event.
///
/// # Errors
/// `invalid_event`, with a pointer to the first invalid operation or value. Also if the event has no
/// operation.
pub(super) fn check<'d>(members: &Members<'d>, location: Location<'d>) -> Result<(), Refusal> {
    if !has_any(members) {
        let sentence = "The profile event has no operation; add 'set', 'setOnce', 'unset', 'increment', 'append', 'union' or 'remove'.";
        return Err(location.refuse_missing(problem::INVALID_EVENT, "set", sentence));
    }
    for (name, shape) in OPERATIONS {
        let Some(operation) = members.get(name) else { continue };
        if !shape.accepts(operation) {
            return Err(location.refuse(problem::INVALID_EVENT, operation, shape.expected()));
        }
        let values = operation.elements().chain(operation.members().map(|member| member.value));
        if let Some(wrong) = values.into_iter().find(|value| !shape.accepts_item(*value)) {
            return Err(location.refuse(problem::INVALID_EVENT, wrong, shape.expected_item()));
        }
    }
    Ok(())
}
