//! Evaluation of a condition while the values of some fields are open.
//!
//! It is the three-valued logic of Kleene: a test of an open field is open. So a condition that names an open field
//! twice may count as open although every value gives the same result.

use super::Document;
use super::compile::{Step, Steps};
use super::evaluate::{Audiences, Evaluator};
use crate::limits::EVALUATION_DEPTH_MAX;

/// The result of a condition for all values of the open fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OpenResult {
    /// It does not hold with any values.
    No,
    /// It depends on the values.
    Open,
    /// It holds with all values.
    Yes,
}

impl OpenResult {
    fn negated(self) -> Self {
        match self {
            Self::No => Self::Yes,
            Self::Open => Self::Open,
            Self::Yes => Self::No,
        }
    }
}

impl From<bool> for OpenResult {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}

/// The results of the audiences of a site, by index. `None` for those that are not evaluated yet.
pub(crate) type AudienceResults = Vec<Option<OpenResult>>;

/// One evaluation. Its functions return `None` if the program is corrupt.
struct OpenEvaluation<'e, 'a, 'w, D: ?Sized, A: ?Sized> {
    evaluator: &'e mut Evaluator<'a, 'w, D, A>,
    is_open: &'e dyn Fn(u16) -> bool,
    audiences: &'e mut AudienceResults,
}

impl<'a, D: Document + ?Sized, A: Audiences + ?Sized> Evaluator<'a, '_, D, A> {
    /// Returns the result of the program's condition while the fields with the codes for which `is_open` returns true
    /// are open. `audiences` keeps the results of the audiences, which are evaluated once.
    pub(crate) fn holds_while_open(
        &mut self,
        program: &'a [u8],
        is_open: &dyn Fn(u16) -> bool,
        audiences: &mut AudienceResults,
    ) -> OpenResult {
        let mut evaluation = OpenEvaluation { evaluator: self, is_open, audiences };
        evaluation.evaluate_one(Steps::new(program), 0).unwrap_or(OpenResult::No)
    }
}

impl<'a, D: Document + ?Sized, A: Audiences + ?Sized> OpenEvaluation<'_, 'a, '_, D, A> {
    fn evaluate_one(&mut self, mut steps: Steps<'a>, depth: usize) -> Option<OpenResult> {
        self.evaluate_step(steps.read()?, depth)
    }

    fn evaluate_step(&mut self, step: Step<'a>, depth: usize) -> Option<OpenResult> {
        if depth == EVALUATION_DEPTH_MAX {
            return None;
        }
        let depth = depth + 1;
        match step {
            Step::All(steps) => self.evaluate_all(steps, depth),
            Step::Any(mut steps) => {
                let mut result = OpenResult::No;
                while !steps.is_empty() && result < OpenResult::Yes {
                    result = result.max(self.evaluate_step(steps.read()?, depth)?);
                }
                Some(result)
            }
            Step::Not(steps) => self.evaluate_one(steps, depth).map(OpenResult::negated),
            Step::Audience(index) => self.evaluate_audience(index, depth),
            Step::Field { code, .. } if (self.is_open)(code) => Some(OpenResult::Open),
            // The steps inside a field test its value, which is known.
            step => self.evaluator.step_holds(step, depth).map(OpenResult::from),
        }
    }

    fn evaluate_all(&mut self, mut steps: Steps<'a>, depth: usize) -> Option<OpenResult> {
        let mut result = OpenResult::Yes;
        while !steps.is_empty() && result > OpenResult::No {
            result = result.min(self.evaluate_step(steps.read()?, depth)?);
        }
        Some(result)
    }

    fn evaluate_audience(&mut self, index: u16, depth: usize) -> Option<OpenResult> {
        let at = usize::from(index);
        if let Some(result) = *self.audiences.get(at)? {
            return Some(result);
        }
        let program = self.evaluator.audiences.program(index)?;
        // Until it is evaluated, the audience does not hold. This ends a loop of audiences.
        self.audiences[at] = Some(OpenResult::No);
        let result = self.evaluate_one(Steps::new(program), depth)?;
        self.audiences[at] = Some(result);
        Some(result)
    }
}
