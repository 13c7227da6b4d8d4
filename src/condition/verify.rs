//! Verification of a program, once, when the file that contains it is opened.
//!
//! A program from `compile` always passes. Evaluation of a verified program ends, recurses once for each
//! `$elemMatch` and each audience in a chain, and finds everything that the program refers to.

use super::program::{
    ArchivedAccessor, ArchivedCheck, ArchivedConstant, ArchivedOperation, ArchivedProgram, ArchivedTest,
    FAILS,
};
use super::tree::find_overlong;
use super::{Operator, Value};
use crate::limits::CONDITION_NESTING_MAX;

/// The numbers of things to which a program may refer by index.
#[derive(Clone, Copy, Debug)]
pub struct References {
    /// Codes of the document's fields.
    pub fields: usize,
    pub audiences: usize,
    pub patterns: usize,
    /// At most 64.
    pub params: usize,
}

/// Verifies a program.
///
/// # Errors
/// The first fault.
pub fn verify(program: &ArchivedProgram, references: &References) -> Result<(), &'static str> {
    let operations = &program.operations[..];
    fault_unless(!operations.is_empty(), "a condition has no operations")?;
    let bodies = find_bodies(operations)?;
    for (at, operation) in operations.iter().enumerate() {
        // Operations follow each other in ascending order, and within one body.
        let is_after = |target: u32| {
            target >= FAILS || target as usize > at && bodies.get(target as usize) == Some(&bodies[at])
        };
        let next = [operation.next.holds.to_native(), operation.next.fails.to_native()];
        fault_unless(next.into_iter().all(is_after), "an operation of a condition has no valid successor")?;
        Verifier { references, is_in_body: bodies[at].is_some() }.verify_test(&operation.test)?;
    }
    Ok(())
}

/// Verifies that audiences do not refer to each other in a cycle or in too long a chain.
///
/// # Errors
/// There is a cycle, or a chain that is too long.
pub fn verify_audiences<'p>(programs: impl Iterator<Item = &'p ArchivedProgram>) -> Result<(), &'static str> {
    let named: Vec<Vec<u16>> = programs.map(named_audiences).collect();
    let is_short = find_overlong(&named).is_none();
    fault_unless(is_short, "audiences refer to each other in a cycle or in too long a chain")
}

fn named_audiences(program: &ArchivedProgram) -> Vec<u16> {
    let tests = program.operations.iter().map(|operation| &operation.test);
    let index = |test: &ArchivedTest| match test {
        ArchivedTest::Audience(index) => Some(index.to_native()),
        _ => None,
    };
    tests.filter_map(index).collect()
}

/// Returns the innermost body of each operation, as the index of the operation that the body belongs to.
fn find_bodies(operations: &[ArchivedOperation]) -> Result<Vec<Option<usize>>, &'static str> {
    let mut bodies = Vec::with_capacity(operations.len());
    // The bodies around the present operation, with their ends.
    let mut around: Vec<(usize, usize)> = Vec::new();
    for (at, operation) in operations.iter().enumerate() {
        around.retain(|(_, end)| at < *end);
        bodies.push(around.last().map(|(owner, _)| *owner));
        if let ArchivedTest::AnyElement { end, .. } = &operation.test {
            let end = end.to_native() as usize;
            let limit = around.last().map_or(operations.len(), |(_, end)| *end);
            fault_unless(at + 1 < end && end <= limit, "an $elemMatch has no operations, or too many")?;
            fault_unless(around.len() < CONDITION_NESTING_MAX, "a condition is nested too deep")?;
            around.push((at, end));
        }
    }
    Ok(bodies)
}

struct Verifier<'r> {
    references: &'r References,
    is_in_body: bool,
}

impl Verifier<'_> {
    fn verify_test(&self, test: &ArchivedTest) -> Result<(), &'static str> {
        match test {
            ArchivedTest::Always => Ok(()),
            ArchivedTest::Audience(index) => {
                let is_known = usize::from(index.to_native()) < self.references.audiences;
                fault_unless(
                    is_known && !self.is_in_body,
                    "a condition refers to a missing or misplaced audience",
                )
            }
            ArchivedTest::HasParam(bits) => {
                let is_known = bits.to_native().checked_shr(self.references.params as u32).unwrap_or(0) == 0;
                fault_unless(is_known, "a condition refers to a missing parameter")
            }
            ArchivedTest::IsArray(array) | ArchivedTest::AnyElement { array, .. } => {
                self.verify_accessor(array)
            }
            ArchivedTest::Value { of, operator, check, .. } => {
                self.verify_accessor(of)?;
                self.verify_check(*operator, check)
            }
            ArchivedTest::Count { code, bounds, .. } => {
                self.verify_field(code.to_native())?;
                let are_known = bounds.iter().all(|bound| bound.operator.takes_count());
                fault_unless(are_known, "a condition has an operator that takes no count")
            }
        }
    }

    fn verify_accessor(&self, accessor: &ArchivedAccessor) -> Result<(), &'static str> {
        match accessor {
            ArchivedAccessor::Field { code, .. } => self.verify_field(code.to_native()),
            ArchivedAccessor::Member(_) | ArchivedAccessor::Element => {
                fault_unless(self.is_in_body, "a condition tests an element outside of an $elemMatch")
            }
        }
    }

    fn verify_field(&self, code: u16) -> Result<(), &'static str> {
        let is_known = usize::from(code) < self.references.fields;
        fault_unless(is_known && !self.is_in_body, "a condition refers to a missing or misplaced field")
    }

    fn verify_check(&self, operator: Operator, check: &ArchivedCheck) -> Result<(), &'static str> {
        use Operator::{InGroup, NotInGroup, NotRegex, NotRegexi, Regex, Regexi};
        let References { patterns, params, .. } = *self.references;
        let is_accepted = match check {
            ArchivedCheck::Constant(_) => operator.takes_value(),
            ArchivedCheck::List(_) => operator.takes_list(),
            ArchivedCheck::Pattern(_) => matches!(operator, Regex | Regexi | NotRegex | NotRegexi),
            ArchivedCheck::Group(_) => matches!(operator, InGroup | NotInGroup),
            ArchivedCheck::Within(_) => operator == Operator::Within,
            ArchivedCheck::Param(_) => operator.takes_value(),
        };
        fault_unless(is_accepted, "a condition has an operator that does not accept its operand")?;
        match check {
            ArchivedCheck::Constant(constant) => verify_constant(constant),
            ArchivedCheck::List(list) | ArchivedCheck::Group(list) => {
                list.iter().try_for_each(verify_constant)
            }
            ArchivedCheck::Pattern(index) => {
                let is_known = (index.to_native() as usize) < patterns;
                fault_unless(is_known, "a condition refers to a missing regular expression")
            }
            ArchivedCheck::Param(index) => {
                let is_known = usize::from(index.to_native()) < params;
                fault_unless(is_known, "a condition refers to a missing parameter")
            }
            ArchivedCheck::Within(_) => Ok(()),
        }
    }
}

fn verify_constant(constant: &ArchivedConstant) -> Result<(), &'static str> {
    let ArchivedConstant::Container(bytes) = constant else { return Ok(()) };
    let is_container = matches!(Value::decode(bytes), Some(Value::Array(_) | Value::Object(_)));
    fault_unless(is_container, "a condition has a malformed array or object")
}

fn fault_unless(holds: bool, fault: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(fault) }
}
