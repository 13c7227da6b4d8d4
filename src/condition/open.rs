//! Evaluation of a condition while the values of some fields are open.
//!
//! A test of an open field may hold or fail, so both operations after it are reached. The condition is open if both of
//! its ends are reached. Each test counts alone, as in the three-valued logic of Kleene: a condition that names an open
//! field twice may count as open although every value gives the same result.

use super::Document;
use super::evaluate::{Audiences, Evaluator};
use super::program::{ArchivedAccessor, ArchivedOperation, ArchivedProgram, ArchivedTest, FAILS, HOLDS};

/// The result of a condition for all values of the open fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenResult {
    /// It does not hold with any values.
    No,
    /// It depends on the values.
    Open,
    /// It holds with all values.
    Yes,
}

impl From<bool> for OpenResult {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}

/// The results of the audiences of a site, by index. `None` for those that are not evaluated yet.
pub(crate) type AudienceResults = Vec<Option<OpenResult>>;

struct OpenEvaluation<'e, 'a, 'w, D: ?Sized, A: ?Sized> {
    evaluator: &'e mut Evaluator<'a, 'w, D, A>,
    is_open: &'e dyn Fn(u16) -> bool,
    audiences: &'e mut AudienceResults,
}

impl<'a, D: Document + ?Sized, A: Audiences + ?Sized> Evaluator<'a, '_, D, A> {
    /// Returns the result of the program's condition while the fields with the codes for which `is_open` returns true
    /// are open. `audience_results` keeps the results of the audiences, which are evaluated once.
    pub(crate) fn holds_while_open(
        &mut self,
        program: &'a ArchivedProgram,
        is_open: &dyn Fn(u16) -> bool,
        audience_results: &mut AudienceResults,
    ) -> OpenResult {
        OpenEvaluation { evaluator: self, is_open, audiences: audience_results }.evaluate(&program.operations)
    }
}

impl<'a, D: Document + ?Sized, A: Audiences + ?Sized> OpenEvaluation<'_, 'a, '_, D, A> {
    fn evaluate(&mut self, operations: &'a [ArchivedOperation]) -> OpenResult {
        let mut is_reached = vec![false; operations.len()];
        is_reached[0] = true;
        let mut may_hold = false;
        let mut may_fail = false;
        // Every operation comes after those that lead to it.
        for (at, operation) in operations.iter().enumerate() {
            if !is_reached[at] {
                continue;
            }
            let result = self.test(operations, at);
            let holds = (result != OpenResult::No).then(|| operation.next.holds.to_native());
            let fails = (result != OpenResult::Yes).then(|| operation.next.fails.to_native());
            for next in [holds, fails].into_iter().flatten() {
                match next {
                    HOLDS => may_hold = true,
                    FAILS => may_fail = true,
                    next => is_reached[next as usize] = true,
                }
            }
        }
        match (may_hold, may_fail) {
            (true, true) => OpenResult::Open,
            (holds, _) => OpenResult::from(holds),
        }
    }

    fn test(&mut self, operations: &'a [ArchivedOperation], operation_index: usize) -> OpenResult {
        match &operations[operation_index].test {
            ArchivedTest::Audience(index) => self.audience(index.to_native()),
            test if field_code(test).is_some_and(self.is_open) => OpenResult::Open,
            // The body of an `$elemMatch` tests the elements of a known value.
            _ => self.evaluator.test_holds(operations, operation_index).into(),
        }
    }

    fn audience(&mut self, index: u16) -> OpenResult {
        if let Some(result) = self.audiences[usize::from(index)] {
            return result;
        }
        let result = self.evaluate(&self.evaluator.audiences.program(index).operations);
        self.audiences[usize::from(index)] = Some(result);
        result
    }
}

/// Returns the code of the field that a test outside of a body reads.
fn field_code(test: &ArchivedTest) -> Option<u16> {
    match test {
        ArchivedTest::IsArray(of)
        | ArchivedTest::AnyElement { array: of, .. }
        | ArchivedTest::Value { of, .. } => match of {
            ArchivedAccessor::Field { code, .. } => Some(code.to_native()),
            ArchivedAccessor::Member(_) | ArchivedAccessor::Element => None,
        },
        ArchivedTest::Count { code, .. } => Some(code.to_native()),
        ArchivedTest::Always | ArchivedTest::Audience(_) | ArchivedTest::HasParam(_) => None,
    }
}
