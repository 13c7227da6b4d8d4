//! Evaluation of a program over a document.
//!
//! The input is a program, the document, and the site's audiences and patterns. The result is whether the
//! condition holds. For explanations it also has the last test that was evaluated. Only explanations
//! allocate. Recursion has a limit, every loop ends with the program's bytes, and a corrupt program never
//! holds.

use std::collections::HashMap;

use super::compare::{Text, compare, is_in};
use super::compile::{Check, CountBounds, Step, Steps};
use super::value::RawText;
use super::{Document, Operator, Patterns, Value};
use crate::limits::{AUDIENCES_MAX, EVALUATION_DEPTH_MAX};

/// The compiled audiences of a site.
pub trait Audiences {
    fn program(&self, index: u16) -> Option<&[u8]>;
}

impl<P: AsRef<[u8]>> Audiences for [P] {
    fn program(&self, index: u16) -> Option<&[u8]> {
        self.get(usize::from(index)).map(AsRef::as_ref)
    }
}

/// An evaluator for the conditions of one request.
pub struct Evaluator<'a, 'w, D: ?Sized, A: ?Sized> {
    pub document: &'a D,
    pub audiences: &'a A,
    pub patterns: &'a Patterns,
    /// The request's own memo, empty at its start.
    pub memo: &'w mut Memo,
}

/// The test that decided a condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecidingTest<'a> {
    /// The path as the author wrote it. Inside an `$elemMatch` it begins with the path of the array.
    pub path: &'a str,
    pub operator: &'static str,
    /// The operand as the author wrote it, with times in milliseconds.
    pub expected: Value<'a>,
    /// The value in the document, or `None` if it is missing.
    pub actual: Option<Value<'a>>,
}

impl<'a, D: Document + ?Sized, A: Audiences + ?Sized> Evaluator<'a, '_, D, A> {
    /// Returns whether the program's condition holds. Each audience is evaluated once, when it is first
    /// needed.
    pub fn holds(&mut self, program: &[u8]) -> bool {
        Evaluation {
            document: self.document,
            audiences: self.audiences,
            patterns: self.patterns,
            observer: self.memo,
        }
        .evaluate(program)
    }

    /// Returns whether a step holds. `None` if it is corrupt.
    pub(super) fn step_holds(&mut self, step: Step<'a>, depth: usize) -> Option<bool> {
        let Self { document, audiences, patterns, memo } = self;
        Evaluation { document: *document, audiences: *audiences, patterns, observer: *memo }.evaluate_step(
            step,
            Subject::Document,
            depth,
        )
    }

    /// Returns whether the condition holds, and the last test that was evaluated.
    ///
    /// No later test could change the result, and the earlier ones did not decide it. The test may belong to
    /// an audience, so `memo`, which has no tests, is not used. The test is `None` if the condition has no
    /// tests at all.
    pub fn trace(&mut self, program: &'a [u8]) -> (bool, Option<DecidingTest<'a>>) {
        let mut trace = Trace { last: None, audiences: HashMap::new() };
        let holds = Evaluation {
            document: self.document,
            audiences: self.audiences,
            patterns: self.patterns,
            observer: &mut trace,
        }
        .evaluate(program);
        (holds, trace.last)
    }
}

/// The audiences that a request has already evaluated, with their results.
#[derive(Clone, Debug)]
pub struct Memo {
    decided: [u64; AUDIENCES_MAX / 64],
    holds: [u64; AUDIENCES_MAX / 64],
}

impl Default for Memo {
    fn default() -> Self {
        Memo { decided: [0; AUDIENCES_MAX / 64], holds: [0; AUDIENCES_MAX / 64] }
    }
}

/// An observer of an evaluation, which also remembers the results of audiences.
trait Observer<'a> {
    fn on_test(&mut self, leaf: impl FnOnce() -> DecidingTest<'a>);
    fn recall(&mut self, audience: u16) -> Option<bool>;
    fn remember(&mut self, audience: u16, holds: bool);
}

impl<'a> Observer<'a> for Memo {
    fn on_test(&mut self, _: impl FnOnce() -> DecidingTest<'a>) {}

    fn recall(&mut self, audience: u16) -> Option<bool> {
        let (word, bit) = memo_bit(audience);
        (self.decided[word] & bit != 0).then_some(self.holds[word] & bit != 0)
    }

    fn remember(&mut self, audience: u16, holds: bool) {
        let (word, bit) = memo_bit(audience);
        self.decided[word] |= bit;
        self.holds[word] = if holds { self.holds[word] | bit } else { self.holds[word] & !bit };
    }
}

/// Returns the word and the bit of an audience. The index must be below [`AUDIENCES_MAX`], which the
/// evaluation checks.
fn memo_bit(audience: u16) -> (usize, u64) {
    (usize::from(audience) / 64, 1 << (audience % 64))
}

/// The trace of one explained evaluation.
struct Trace<'a> {
    last: Option<DecidingTest<'a>>,
    audiences: HashMap<u16, (bool, Option<DecidingTest<'a>>)>,
}

impl<'a> Observer<'a> for Trace<'a> {
    fn on_test(&mut self, leaf: impl FnOnce() -> DecidingTest<'a>) {
        self.last = Some(leaf());
    }

    fn recall(&mut self, audience: u16) -> Option<bool> {
        let (holds, leaf) = *self.audiences.get(&audience)?;
        self.last = leaf;
        Some(holds)
    }

    fn remember(&mut self, audience: u16, holds: bool) {
        self.audiences.insert(audience, (holds, self.last));
    }
}

/// The subject of a step.
#[derive(Clone, Copy)]
enum Subject<'a> {
    Document,
    Field { path: RawText<'a>, code: u16, name: RawText<'a> },
    Value { path: RawText<'a>, value: Option<Value<'a>> },
}

/// One evaluation. Its functions return `None` if the program is corrupt.
struct Evaluation<'a, 'w, D: ?Sized, A: ?Sized, W> {
    document: &'a D,
    audiences: &'a A,
    patterns: &'a Patterns,
    observer: &'w mut W,
}

impl<'a, D, A, W> Evaluation<'a, '_, D, A, W>
where
    D: Document + ?Sized,
    A: Audiences + ?Sized,
    W: Observer<'a>,
{
    fn evaluate(&mut self, program: &'a [u8]) -> bool {
        self.evaluate_one(Steps::new(program), Subject::Document, 0).unwrap_or(false)
    }

    fn evaluate_one(&mut self, mut steps: Steps<'a>, subject: Subject<'a>, depth: usize) -> Option<bool> {
        self.evaluate_step(steps.read()?, subject, depth)
    }

    fn evaluate_step(&mut self, step: Step<'a>, subject: Subject<'a>, depth: usize) -> Option<bool> {
        if depth == EVALUATION_DEPTH_MAX {
            return None;
        }
        let depth = depth + 1;
        match step {
            // A template is bound before it is evaluated.
            Step::Param => None,
            Step::Never => Some(false),
            Step::All(steps) => self.evaluate_until(false, steps, subject, depth),
            Step::Any(steps) => self.evaluate_until(true, steps, subject, depth),
            Step::Not(steps) => self.evaluate_one(steps, subject, depth).map(|holds| !holds),
            Step::Audience(index) => self.evaluate_audience(index, depth),
            Step::Field { path, code, name, test } => {
                self.evaluate_one(test, Subject::Field { path, code, name }, depth)
            }
            Step::Member { path, name, test } => {
                let value = self.subject_value(subject)?.and_then(|value| value.get_path(name));
                self.evaluate_one(test, Subject::Value { path, value }, depth)
            }
            Step::Size { path, test } => self.evaluate_size(path, test, subject, depth),
            Step::Element(test) => self.evaluate_element(test, subject, depth),
            Step::Test { operator, operand, check } => self.evaluate_test(operator, operand, &check, subject),
        }
    }

    /// Evaluates the steps until one has the result `end`, and returns `end`. Returns the opposite if none
    /// has it.
    fn evaluate_until(
        &mut self,
        end: bool,
        mut steps: Steps<'a>,
        subject: Subject<'a>,
        depth: usize,
    ) -> Option<bool> {
        while !steps.is_empty() {
            if self.evaluate_step(steps.read()?, subject, depth)? == end {
                return Some(end);
            }
        }
        Some(!end)
    }

    fn evaluate_audience(&mut self, index: u16, depth: usize) -> Option<bool> {
        if usize::from(index) >= AUDIENCES_MAX {
            return None;
        }
        if let Some(holds) = self.observer.recall(index) {
            return Some(holds);
        }
        let program = self.audiences.program(index)?;
        // Until it is evaluated, the audience does not hold. This ends a loop of audiences.
        self.observer.remember(index, false);
        let holds = self.evaluate_one(Steps::new(program), Subject::Document, depth)?;
        self.observer.remember(index, holds);
        Some(holds)
    }

    fn evaluate_size(
        &mut self,
        path: RawText<'a>,
        test: Steps<'a>,
        subject: Subject<'a>,
        depth: usize,
    ) -> Option<bool> {
        let Some(Value::Array(array)) = self.subject_value(subject)? else {
            return Some(false);
        };
        let value = Some(Value::Number(array.len() as f64));
        self.evaluate_one(test, Subject::Value { path, value }, depth)
    }

    fn evaluate_element(&mut self, test: Steps<'a>, subject: Subject<'a>, depth: usize) -> Option<bool> {
        let (path, Some(Value::Array(array))) = (subject.path(), self.subject_value(subject)?) else {
            return Some(false);
        };
        for value in array.iter() {
            if self.evaluate_one(test, Subject::Value { path, value: Some(value) }, depth)? {
                return Some(true);
            }
        }
        Some(false)
    }

    fn evaluate_test(
        &mut self,
        operator: Operator,
        expected: Value<'a>,
        check: &Check<'a>,
        subject: Subject<'a>,
    ) -> Option<bool> {
        if let Check::Count { within_ms, bounds } = check {
            return self.evaluate_count(expected, *within_ms, *bounds, subject);
        }
        let actual = self.subject_value(subject)?;
        self.report_test(subject, operator, expected, actual);
        let actual = actual.unwrap_or(Value::Null);
        let asks_for_it = matches!(operator, Operator::Regex | Operator::Regexi | Operator::InGroup);
        Some(match check {
            Check::Pattern { index } => self.matches(*index, actual) == asks_for_it,
            Check::Group { members } => is_in(actual, *members) == asks_for_it,
            Check::Within { ms } => self.is_within(actual, *ms),
            Check::Compare | Check::Count { .. } => compare(operator, actual, expected),
        })
    }

    fn evaluate_count(
        &mut self,
        expected: Value<'a>,
        within_ms: Option<i64>,
        bounds: CountBounds<'a>,
        subject: Subject<'a>,
    ) -> Option<bool> {
        let Subject::Field { code, name, .. } = subject else {
            return None;
        };
        let since_ms = within_ms.map(|ms| self.document.now_ms().saturating_sub(ms));
        let count = self.document.count(code, name.as_str(), since_ms);
        let actual = Some(Value::Number(count as f64));
        self.report_test(subject, Operator::Count, expected, actual);
        bounds.are_met_by(count)
    }

    fn matches(&self, index: usize, actual: Value) -> bool {
        Text::from_value(actual).is_some_and(|text| self.patterns.is_match(index, text.as_str()))
    }

    /// Returns whether a time is at most `ms` ago. Times in the future count as within.
    fn is_within(&self, actual: Value, ms: i64) -> bool {
        let since_ms = self.document.now_ms().saturating_sub(ms);
        matches!(actual, Value::Number(time_ms) if time_ms >= since_ms as f64)
    }

    fn report_test(
        &mut self,
        subject: Subject<'a>,
        operator: Operator,
        expected: Value<'a>,
        actual: Option<Value<'a>>,
    ) {
        let leaf =
            || DecidingTest { path: subject.path().as_str(), operator: operator.name(), expected, actual };
        self.observer.on_test(leaf);
    }

    /// Returns the value of the subject. The inner `None` means that it is missing.
    fn subject_value(&self, subject: Subject<'a>) -> Option<Option<Value<'a>>> {
        match subject {
            // Only a corrupt program tests the document itself.
            Subject::Document => None,
            Subject::Field { code, name, .. } => Some(self.document.get(code, name.as_str())),
            Subject::Value { value, .. } => Some(value),
        }
    }
}

impl<'a> Subject<'a> {
    fn path(self) -> RawText<'a> {
        match self {
            Subject::Document => RawText::default(),
            Subject::Field { path, .. } | Subject::Value { path, .. } => path,
        }
    }
}

/// An encoded object as a document. Names are dotted paths, codes are ignored, and there are no histories.
#[derive(Clone, Copy, Debug)]
pub struct EncodedDocument<'a> {
    pub root: Value<'a>,
    pub now_ms: i64,
}

impl Document for EncodedDocument<'_> {
    fn get(&self, _: u16, name: &str) -> Option<Value<'_>> {
        self.root.get_path(name)
    }

    fn count(&self, _: u16, _: &str, _: Option<i64>) -> u64 {
        0
    }

    fn now_ms(&self) -> i64 {
        self.now_ms
    }
}
