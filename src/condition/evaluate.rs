//! A program over a document > whether it holds, and which test decided it.
//!
//! In come a program's bytes, the document, the site's audiences and patterns; out goes one bit, or for explaining also the last test that was looked at. Nothing
//! allocates but explaining. Recursion has a bound, every loop ends with its bytes, and a program
//! that is corrupt holds for nobody.

use std::collections::HashMap;

use super::compare::{Text, compare, is_in};
use super::compile::{Bounds, Check, Step, Steps};
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

/// Decides the conditions of one request.
pub struct Evaluator<'a, 'w, D: ?Sized, A: ?Sized> {
    pub document: &'a D,
    pub audiences: &'a A,
    pub patterns: &'a Patterns,
    /// This request's, empty when it begins.
    pub memo: &'w mut Memo,
}

/// The test that decided a condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leaf<'a> {
    /// As the author wrote it; inside an `$elemMatch` behind the array's own path.
    pub path: &'a str,
    pub operator: &'static str,
    /// The operand as the author wrote it, times in milliseconds.
    pub expected: Value<'a>,
    /// What was found; `None` where nothing was.
    pub actual: Option<Value<'a>>,
}

impl<'a, D: Document + ?Sized, A: Audiences + ?Sized> Evaluator<'a, '_, D, A> {
    /// Whether the program's condition holds. An audience is evaluated when first asked for, and
    /// then remembered.
    pub fn holds(&mut self, program: &[u8]) -> bool {
        Walk {
            document: self.document,
            audiences: self.audiences,
            patterns: self.patterns,
            witness: self.memo,
        }
        .program(program)
    }

    /// The same, with the test that was looked at last: the others could not have changed the
    /// outcome, or would have had to be decided otherwise before it. It may lie in an audience, for
    /// which reason what `memo` knows is not used. `None` where the condition has no test at all.
    pub fn trace(&mut self, program: &'a [u8]) -> (bool, Option<Leaf<'a>>) {
        let mut trace = Trace { last: None, audiences: HashMap::new() };
        let holds = Walk {
            document: self.document,
            audiences: self.audiences,
            patterns: self.patterns,
            witness: &mut trace,
        }
        .program(program);
        (holds, trace.last)
    }
}

/// Which audiences one request has decided already, and how.
#[derive(Clone, Debug)]
pub struct Memo {
    decided: [u64; AUDIENCES_MAX / 64],
    held: [u64; AUDIENCES_MAX / 64],
}

impl Default for Memo {
    fn default() -> Self {
        Memo { decided: [0; AUDIENCES_MAX / 64], held: [0; AUDIENCES_MAX / 64] }
    }
}

/// What is told of the course of an evaluation, and remembers audiences.
trait Witness<'a> {
    fn looked_at(&mut self, leaf: impl FnOnce() -> Leaf<'a>);
    fn recall(&mut self, audience: u16) -> Option<bool>;
    fn remember(&mut self, audience: u16, holds: bool);
}

impl<'a> Witness<'a> for Memo {
    fn looked_at(&mut self, _: impl FnOnce() -> Leaf<'a>) {}

    fn recall(&mut self, audience: u16) -> Option<bool> {
        let (word, bit) = place(audience);
        (self.decided[word] & bit != 0).then_some(self.held[word] & bit != 0)
    }

    fn remember(&mut self, audience: u16, holds: bool) {
        let (word, bit) = place(audience);
        self.decided[word] |= bit;
        self.held[word] = if holds { self.held[word] | bit } else { self.held[word] & !bit };
    }
}

/// The audience is below [`AUDIENCES_MAX`]: it was looked for among the site's.
fn place(audience: u16) -> (usize, u64) {
    (usize::from(audience) / 64, 1 << (audience % 64))
}

/// The course of one explained evaluation.
struct Trace<'a> {
    last: Option<Leaf<'a>>,
    audiences: HashMap<u16, (bool, Option<Leaf<'a>>)>,
}

impl<'a> Witness<'a> for Trace<'a> {
    fn looked_at(&mut self, leaf: impl FnOnce() -> Leaf<'a>) {
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

/// What a step is about.
#[derive(Clone, Copy)]
enum Subject<'a> {
    Document,
    Field { path: RawText<'a>, code: u16, name: RawText<'a> },
    Value { path: RawText<'a>, value: Option<Value<'a>> },
}

/// One evaluation. Its functions give `None` where the program is corrupt.
struct Walk<'a, 'w, D: ?Sized, A: ?Sized, W> {
    document: &'a D,
    audiences: &'a A,
    patterns: &'a Patterns,
    witness: &'w mut W,
}

impl<'a, D, A, W> Walk<'a, '_, D, A, W>
where
    D: Document + ?Sized,
    A: Audiences + ?Sized,
    W: Witness<'a>,
{
    fn program(&mut self, program: &'a [u8]) -> bool {
        self.one(Steps::new(program), Subject::Document, 0).unwrap_or(false)
    }

    fn one(&mut self, mut steps: Steps<'a>, subject: Subject<'a>, depth: usize) -> Option<bool> {
        self.step(steps.read()?, subject, depth)
    }

    fn step(&mut self, step: Step<'a>, subject: Subject<'a>, depth: usize) -> Option<bool> {
        if depth == EVALUATION_DEPTH_MAX {
            return None;
        }
        let depth = depth + 1;
        match step {
            // A template is bound before it is evaluated.
            Step::Param => None,
            Step::Never => Some(false),
            Step::All(steps) => self.until(false, steps, subject, depth),
            Step::Any(steps) => self.until(true, steps, subject, depth),
            Step::Not(steps) => self.one(steps, subject, depth).map(|holds| !holds),
            Step::Audience(index) => self.audience(index, depth),
            Step::Field { path, code, name, test } => {
                self.one(test, Subject::Field { path, code, name }, depth)
            }
            Step::Member { path, name, test } => {
                let value = self.value(subject)?.and_then(|value| value.at(name));
                self.one(test, Subject::Value { path, value }, depth)
            }
            Step::Size { path, test } => self.size(path, test, subject, depth),
            Step::Element(test) => self.element(test, subject, depth),
            Step::Test { operator, operand, check } => self.test(operator, operand, &check, subject),
        }
    }

    /// Looks at the steps until one comes out as `end`, which then is the outcome.
    fn until(&mut self, end: bool, mut steps: Steps<'a>, subject: Subject<'a>, depth: usize) -> Option<bool> {
        while !steps.is_empty() {
            if self.step(steps.read()?, subject, depth)? == end {
                return Some(end);
            }
        }
        Some(!end)
    }

    fn audience(&mut self, index: u16, depth: usize) -> Option<bool> {
        if usize::from(index) >= AUDIENCES_MAX {
            return None;
        }
        if let Some(holds) = self.witness.recall(index) {
            return Some(holds);
        }
        let program = self.audiences.program(index)?;
        // An audience that comes upon itself is not its own member.
        self.witness.remember(index, false);
        let holds = self.one(Steps::new(program), Subject::Document, depth)?;
        self.witness.remember(index, holds);
        Some(holds)
    }

    fn size(
        &mut self,
        path: RawText<'a>,
        test: Steps<'a>,
        subject: Subject<'a>,
        depth: usize,
    ) -> Option<bool> {
        let Some(Value::Array(array)) = self.value(subject)? else {
            return Some(false);
        };
        let value = Some(Value::Number(array.len() as f64));
        self.one(test, Subject::Value { path, value }, depth)
    }

    fn element(&mut self, test: Steps<'a>, subject: Subject<'a>, depth: usize) -> Option<bool> {
        let (path, Some(Value::Array(array))) = (subject.path(), self.value(subject)?) else {
            return Some(false);
        };
        for value in array.iter() {
            if self.one(test, Subject::Value { path, value: Some(value) }, depth)? {
                return Some(true);
            }
        }
        Some(false)
    }

    fn test(
        &mut self,
        operator: Operator,
        expected: Value<'a>,
        check: &Check<'a>,
        subject: Subject<'a>,
    ) -> Option<bool> {
        if let Check::Count { within_ms, bounds } = check {
            return self.count(expected, *within_ms, *bounds, subject);
        }
        let actual = self.value(subject)?;
        self.looked_at(subject, operator, expected, actual);
        let actual = actual.unwrap_or(Value::Null);
        let asks_for_it = matches!(operator, Operator::Regex | Operator::Regexi | Operator::InGroup);
        Some(match check {
            Check::Pattern { index } => self.matches(*index, actual) == asks_for_it,
            Check::Group { members } => is_in(actual, *members) == asks_for_it,
            Check::Within { ms } => self.is_within(actual, *ms),
            Check::Compare | Check::Count { .. } => compare(operator, actual, expected),
        })
    }

    fn count(
        &mut self,
        expected: Value<'a>,
        within_ms: Option<i64>,
        bounds: Bounds<'a>,
        subject: Subject<'a>,
    ) -> Option<bool> {
        let Subject::Field { code, name, .. } = subject else {
            return None;
        };
        let since_ms = within_ms.map(|ms| self.document.now_ms().saturating_sub(ms));
        let count = self.document.count(code, name.as_str(), since_ms);
        let actual = Some(Value::Number(count as f64));
        self.looked_at(subject, Operator::Count, expected, actual);
        bounds.hold(count)
    }

    fn matches(&self, index: usize, actual: Value) -> bool {
        Text::of(actual).is_some_and(|text| self.patterns.is_match(index, text.as_str()))
    }

    /// Whether a time lies at most so far back. A time to come does.
    fn is_within(&self, actual: Value, ms: i64) -> bool {
        let since_ms = self.document.now_ms().saturating_sub(ms);
        matches!(actual, Value::Number(time_ms) if time_ms >= since_ms as f64)
    }

    fn looked_at(
        &mut self,
        subject: Subject<'a>,
        operator: Operator,
        expected: Value<'a>,
        actual: Option<Value<'a>>,
    ) {
        let leaf = || Leaf { path: subject.path().as_str(), operator: operator.name(), expected, actual };
        self.witness.looked_at(leaf);
    }

    /// The value that a step is about, `None` inside where there is none.
    fn value(&self, subject: Subject<'a>) -> Option<Option<Value<'a>>> {
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

/// An encoded object as a document: names are dotted paths, codes do not matter, there are no
/// histories.
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'a> {
    pub root: Value<'a>,
    pub now_ms: i64,
}

impl Document for Encoded<'_> {
    fn get(&self, _: u16, name: &str) -> Option<Value<'_>> {
        self.root.at(name)
    }

    fn count(&self, _: u16, _: &str, _: Option<i64>) -> u64 {
        0
    }

    fn now_ms(&self) -> i64 {
        self.now_ms
    }
}
