//! Profile operations: which there are, and what each must look like. What they do is the fold's.

use super::document::Value;
use super::members::{Members, Named};
use super::refusal::{Place, Refusal};
use crate::problem;

/// What an operation holds.
#[derive(Clone, Copy)]
enum Shape {
    /// `{key: anything}`
    Values,
    /// `[key]`
    Keys,
    /// `{key: number}`
    Numbers,
    /// `{key: [anything]}`
    Lists,
}

/// In the order in which they are applied.
const OPERATIONS: [(Named, Shape); 7] = [
    (Named::Set, Shape::Values),
    (Named::SetOnce, Shape::Values),
    (Named::Unset, Shape::Keys),
    (Named::Increment, Shape::Numbers),
    (Named::Append, Shape::Values),
    (Named::Union, Shape::Lists),
    (Named::Remove, Shape::Lists),
];

impl Shape {
    fn expected(self) -> &'static str {
        match self {
            Self::Values => "an object of values by trait",
            Self::Keys => "an array of traits' names",
            Self::Numbers => "an object of numbers by trait",
            Self::Lists => "an object of arrays by trait",
        }
    }

    fn expected_inside(self) -> &'static str {
        match self {
            Self::Values => "any value",
            Self::Keys => "a trait's name",
            Self::Numbers => "a number",
            Self::Lists => "an array",
        }
    }

    fn fits(self, operation: Value<'_>) -> bool {
        match self {
            Self::Keys => operation.is_array(),
            _ => operation.is_object(),
        }
    }

    fn fits_inside(self, value: Value<'_>) -> bool {
        match self {
            Self::Values => true,
            Self::Keys => value.string().is_some(),
            Self::Numbers => value.is_number(),
            Self::Lists => value.is_array(),
        }
    }
}

/// Whether there is an operation.
pub(super) fn any(members: &Members<'_>) -> bool {
    OPERATIONS.iter().any(|(name, _)| members.get(*name).is_some())
}

/// Checks the operations of a profile event.
///
/// # Errors
/// `invalid_event`, with a pointer to the first operation or value that is wrong, or that there is none.
pub(super) fn check<'d>(members: &Members<'d>, place: Place<'d>) -> Result<(), Refusal> {
    if !any(members) {
        let expected =
            "one of 'set', 'setOnce', 'unset', 'increment', 'append', 'union', 'remove' in a profile event";
        return Err(place.lacks(problem::INVALID_EVENT, "set", expected));
    }
    for (name, shape) in OPERATIONS {
        let Some(operation) = members.get(name) else { continue };
        if !shape.fits(operation) {
            return Err(place.refuse(problem::INVALID_EVENT, operation, shape.expected()));
        }
        let values = operation.elements().chain(operation.members().map(|member| member.value));
        if let Some(wrong) = values.into_iter().find(|value| !shape.fits_inside(*value)) {
            return Err(place.refuse(problem::INVALID_EVENT, wrong, shape.expected_inside()));
        }
    }
    Ok(())
}
