//! Profile operations: which there are, and what each must look like. What they do is the fold's.

use super::document::Value;
use super::members::Members;
use super::refusal::{Place, Refusal};
use crate::problem;

/// In the order in which they are applied.
pub(super) const OPERATIONS: [&str; 7] =
    ["set", "setOnce", "unset", "increment", "append", "union", "remove"];

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

const SHAPES: [Shape; OPERATIONS.len()] =
    [Shape::Values, Shape::Values, Shape::Keys, Shape::Numbers, Shape::Values, Shape::Lists, Shape::Lists];

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

/// Checks the operations of a profile event.
///
/// # Errors
/// `invalid_event`, with a pointer to the first operation or value that is wrong, or that there is none.
pub(super) fn check<'d>(members: &Members<'d>, place: Place<'d>) -> Result<(), Refusal> {
    if !members.has_operation() {
        let expected =
            "one of 'set', 'setOnce', 'unset', 'increment', 'append', 'union', 'remove' in a profile event";
        return Err(place.lacks(problem::INVALID_EVENT, "set", expected));
    }
    for (operation, shape) in members.operations.iter().zip(SHAPES) {
        let Some(operation) = *operation else { continue };
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
