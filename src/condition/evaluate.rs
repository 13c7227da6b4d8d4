//! Evaluation of a program over a document.
//!
//! The input is a verified program, the document, and the site's audiences and patterns. The result is whether
//! the condition holds. For explanations it also has the last test that was evaluated. Only explanations
//! allocate.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::compare::{Text, compare, compare_with_list, is_in};
use super::program::{
    ArchivedAccessor, ArchivedCheck, ArchivedCountBound, ArchivedOperation, ArchivedProgram, ArchivedTest,
    FAILS, HOLDS,
};
use super::{Document, Operator, Patterns, Value};
use crate::limits::AUDIENCES_MAX;

/// The compiled audiences of a site.
pub trait Audiences {
    /// Returns the program of an audience. The index is that of an operation in a verified program.
    fn program(&self, index: u16) -> &ArchivedProgram;
}

/// The audiences of conditions that name none.
pub struct NoAudiences;

impl Audiences for NoAudiences {
    fn program(&self, _: u16) -> &ArchivedProgram {
        unreachable!("a verified program names only audiences of its site")
    }
}

/// An evaluator for the conditions of one request. All programs must be verified.
pub struct Evaluator<'a, 'w, D: ?Sized, A: ?Sized> {
    pub document: &'a D,
    pub audiences: &'a A,
    pub patterns: &'a Patterns,
    /// The values of a query's parameters. Empty for other conditions.
    pub params: &'a [Option<Value<'a>>],
    /// The request's own memo, empty at its start.
    pub memo: &'w mut Memo,
}

/// The test that decided a condition.
#[derive(Clone, Debug, PartialEq)]
pub struct DecidingTest<'a> {
    /// The path as the author wrote it. Inside an `$elemMatch` it begins with the path of the array.
    pub path: &'a str,
    pub operator: &'static str,
    /// The operand as the author wrote it, with times in milliseconds.
    pub expected: Json,
    /// The value in the document, or `None` if it is missing.
    pub actual: Option<Value<'a>>,
}

impl<'a, D: Document + ?Sized, A: Audiences + ?Sized> Evaluator<'a, '_, D, A> {
    /// Returns whether the program's condition holds. Each audience is evaluated once, when it is first
    /// needed.
    pub fn holds(&mut self, program: &ArchivedProgram) -> bool {
        self.evaluation().run(&program.operations, 0, Value::Null)
    }

    /// Returns whether the visitor belongs to the audience.
    pub(crate) fn is_in_audience(&mut self, index: u16) -> bool {
        self.evaluation().audience_holds(index)
    }

    /// Returns whether the test of an operation outside of a body holds.
    pub(super) fn test_holds(&mut self, operations: &[ArchivedOperation], operation_index: usize) -> bool {
        self.evaluation().test_holds(operations, operation_index, Value::Null)
    }

    fn evaluation(&mut self) -> Evaluation<'_, '_, D, A, Memo> {
        Evaluation {
            document: self.document,
            audiences: self.audiences,
            patterns: self.patterns,
            params: self.params,
            observer: self.memo,
        }
    }

    /// Returns whether the condition holds, and the last test that was evaluated.
    ///
    /// No later test could change the result, and the earlier ones did not decide it. The test may belong to
    /// an audience, so `memo`, which has no tests, is not used. The test is `None` if the condition has no
    /// tests at all.
    pub fn trace(&mut self, program: &'a ArchivedProgram) -> (bool, Option<DecidingTest<'a>>) {
        let mut trace = Trace { last: None, audiences: HashMap::new() };
        let holds = Evaluation {
            document: self.document,
            audiences: self.audiences,
            patterns: self.patterns,
            params: self.params,
            observer: &mut trace,
        }
        .run(&program.operations, 0, Value::Null);
        (holds, trace.last.and_then(|(test, actual)| explain(test, actual)))
    }
}

/// Returns the description of an evaluated test. `None` for a test that the author did not write.
fn explain<'a>(test: &'a ArchivedTest, actual: Option<Value<'a>>) -> Option<DecidingTest<'a>> {
    let (operator, check, source) = match test {
        ArchivedTest::Value { operator, check, source, .. } => (*operator, Some(check), source),
        ArchivedTest::Count { source, .. } => (Operator::Count, None, source),
        _ => return None,
    };
    let expected = match check {
        Some(ArchivedCheck::Constant(constant)) => constant.value().to_json(),
        Some(ArchivedCheck::List(list)) => list.iter().map(|item| item.value().to_json()).collect(),
        _ => Value::decode(&source.operand).map_or(Json::Null, Value::to_json),
    };
    Some(DecidingTest { path: &source.path, operator: operator.name(), expected, actual })
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
    fn on_test(&mut self, test: &'a ArchivedTest, actual: Option<Value<'a>>);
    fn recall(&mut self, audience_index: u16) -> Option<bool>;
    fn remember(&mut self, audience_index: u16, holds: bool);
}

impl<'a> Observer<'a> for Memo {
    fn on_test(&mut self, _: &'a ArchivedTest, _: Option<Value<'a>>) {}

    fn recall(&mut self, audience_index: u16) -> Option<bool> {
        let (word, bit) = memo_bit(audience_index);
        (self.decided[word] & bit != 0).then_some(self.holds[word] & bit != 0)
    }

    fn remember(&mut self, audience_index: u16, holds: bool) {
        let (word, bit) = memo_bit(audience_index);
        self.decided[word] |= bit;
        self.holds[word] |= if holds { bit } else { 0 };
    }
}

/// Returns the word and the bit of an audience. Its index is below [`AUDIENCES_MAX`].
fn memo_bit(audience_index: u16) -> (usize, u64) {
    (usize::from(audience_index) / 64, 1 << (audience_index % 64))
}

/// A test that was evaluated, and the document's value.
type EvaluatedTest<'a> = (&'a ArchivedTest, Option<Value<'a>>);

/// The trace of one explained evaluation.
struct Trace<'a> {
    last: Option<EvaluatedTest<'a>>,
    audiences: HashMap<u16, (bool, Option<EvaluatedTest<'a>>)>,
}

impl<'a> Observer<'a> for Trace<'a> {
    fn on_test(&mut self, test: &'a ArchivedTest, actual: Option<Value<'a>>) {
        self.last = Some((test, actual));
    }

    fn recall(&mut self, audience_index: u16) -> Option<bool> {
        let (holds, last) = *self.audiences.get(&audience_index)?;
        self.last = last;
        Some(holds)
    }

    fn remember(&mut self, audience_index: u16, holds: bool) {
        self.audiences.insert(audience_index, (holds, self.last));
    }
}

/// One evaluation.
struct Evaluation<'a, 'w, D: ?Sized, A: ?Sized, W> {
    document: &'a D,
    audiences: &'a A,
    patterns: &'a Patterns,
    params: &'a [Option<Value<'a>>],
    observer: &'w mut W,
}

impl<'a, D, A, W> Evaluation<'a, '_, D, A, W>
where
    D: Document + ?Sized,
    A: Audiences + ?Sized,
    W: Observer<'a>,
{
    /// Evaluates the operations from `start_index` to the end of a condition, or of a body for one element.
    fn run(&mut self, operations: &'a [ArchivedOperation], start_index: usize, element: Value<'a>) -> bool {
        let mut at = start_index;
        loop {
            let holds = self.test_holds(operations, at, element);
            let next = &operations[at].next;
            match if holds { next.holds.to_native() } else { next.fails.to_native() } {
                HOLDS => return true,
                FAILS => return false,
                next => at = next as usize,
            }
        }
    }

    // Most conditions have one test. Calls of this function and of `passes` would cost as much as the test.
    #[inline(always)]
    fn test_holds(
        &mut self,
        operations: &'a [ArchivedOperation],
        operation_index: usize,
        element: Value<'a>,
    ) -> bool {
        let test = &operations[operation_index].test;
        match test {
            ArchivedTest::Always => true,
            ArchivedTest::Audience(index) => self.audience_holds(index.to_native()),
            ArchivedTest::HasParam(bits) => self.has_param(bits.to_native()),
            ArchivedTest::IsArray(of) => matches!(self.value(of, element), Some(Value::Array(_))),
            ArchivedTest::AnyElement { array, .. } => match self.value(array, element) {
                Some(Value::Array(items)) => {
                    items.iter().any(|item| self.run(operations, operation_index + 1, item))
                }
                _ => false,
            },
            ArchivedTest::Value { of, is_length, operator, check, .. } => {
                let mut actual = self.value(of, element);
                if *is_length {
                    actual = actual.and_then(length);
                }
                self.observer.on_test(test, actual);
                self.passes(check, *operator, actual.unwrap_or(Value::Null))
            }
            ArchivedTest::Count { code, name, within_ms, bounds, .. } => {
                let within_ms = Some(within_ms.to_native()).filter(|ms| *ms != 0);
                let since_ms = within_ms.map(|ms| self.document.now_ms().saturating_sub(ms));
                let count = self.document.count(code.to_native(), name, since_ms);
                self.observer.on_test(test, Some(Value::Number(count as f64)));
                bounds.iter().all(|bound| satisfies(count, bound))
            }
        }
    }

    fn audience_holds(&mut self, index: u16) -> bool {
        if let Some(holds) = self.observer.recall(index) {
            return holds;
        }
        let holds = self.run(&self.audiences.program(index).operations, 0, Value::Null);
        self.observer.remember(index, holds);
        holds
    }

    fn has_param(&self, mut param_bits: u64) -> bool {
        while param_bits != 0 {
            if self.params.get(param_bits.trailing_zeros() as usize).is_some_and(Option::is_some) {
                return true;
            }
            param_bits &= param_bits - 1;
        }
        false
    }

    fn value(&self, accessor: &'a ArchivedAccessor, element: Value<'a>) -> Option<Value<'a>> {
        match accessor {
            ArchivedAccessor::Field { code, name } => self.document.get(code.to_native(), name),
            ArchivedAccessor::Member(name) => element.get_path(name),
            ArchivedAccessor::Element => Some(element),
        }
    }

    #[inline(always)]
    fn passes(&self, check: &ArchivedCheck, operator: Operator, actual: Value<'_>) -> bool {
        let asks_for_it = matches!(operator, Operator::Regex | Operator::Regexi | Operator::InGroup);
        match check {
            ArchivedCheck::Constant(expected) => compare(operator, actual, expected.value()),
            ArchivedCheck::List(list) => compare_with_list(operator, actual, list),
            ArchivedCheck::Pattern(index) => self.matches(index.to_native() as usize, actual) == asks_for_it,
            ArchivedCheck::Group(members) => is_in(actual, members) == asks_for_it,
            ArchivedCheck::Within(ms) => self.is_within(actual, ms.to_native()),
            ArchivedCheck::Param(index) => {
                let expected = self.params.get(usize::from(index.to_native())).copied().flatten();
                expected.is_some_and(|expected| compare(operator, actual, expected))
            }
        }
    }

    fn matches(&self, pattern_index: usize, actual: Value<'_>) -> bool {
        Text::from_value(actual).is_some_and(|text| self.patterns.is_match(pattern_index, text.as_str()))
    }

    /// Returns whether a time is at most `within_ms` ago. Times in the future count as within.
    fn is_within(&self, actual: Value<'_>, within_ms: i64) -> bool {
        let since_ms = self.document.now_ms().saturating_sub(within_ms);
        matches!(actual, Value::Number(time_ms) if time_ms >= since_ms as f64)
    }
}

fn length(array: Value<'_>) -> Option<Value<'_>> {
    match array {
        Value::Array(items) => Some(Value::Number(items.len() as f64)),
        _ => None,
    }
}

fn satisfies(count: u64, bound: &ArchivedCountBound) -> bool {
    let limit = bound.count.to_native();
    match bound.operator {
        Operator::Eq => count == limit,
        Operator::Ne => count != limit,
        Operator::Gt => count > limit,
        Operator::Gte => count >= limit,
        Operator::Lt => count < limit,
        Operator::Lte => count <= limit,
        _ => false,
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
