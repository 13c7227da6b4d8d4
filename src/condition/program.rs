//! Programs: the compiled form of conditions, as a snapshot file has it.
//!
//! A program is a list of operations. Each operation is one test, and names the operation that follows if the
//! test holds and the one that follows if it fails. So `$and`, `$or` and `$not` are no operations: they only
//! determine the order. Evaluation begins at the first operation and ends at [`HOLDS`] or [`FAILS`]. For
//! example, `{"visitor.visits": {"$gte": 3}, "$or": [{"country": "SE"}, {"locale": "sv"}]}` is:
//!
//! ```text
//!    test                     if it holds   if it fails
//! 0  visitor.visits $gte 3    1             FAILS
//! 1  country $eq "SE"         HOLDS         2
//! 2  locale $eq "sv"          HOLDS         FAILS
//! ```
//!
//! Operations follow each other in ascending order only, so every evaluation ends. An `$elemMatch` is one
//! operation and the operations of its body, which begin directly after it. They are evaluated for one element
//! after the other, end at [`HOLDS`] or [`FAILS`] too, and are not reachable from outside of the body.
//!
//! A condition of a content query may compare with parameters. A clause whose parameters have no value is left
//! out, so [`Test::HasParam`] precedes it.
//!
//! Programs have the constants and texts in the form in which they are compared. Operands are stored as the
//! author wrote them, except for a field that is a time: its operands are in milliseconds. Equal trees and
//! equal tables of patterns give equal programs.
//!
//! [`super::verify()`] checks the invariants when a file is opened. Evaluation relies on them.

use rkyv::util::AlignedVec;
use rkyv::{Archive, Serialize};
use serde_json::Value as Json;

use super::Operator;
use super::value::{Value, encode_value};

/// The condition holds, or the body of an `$elemMatch` for this element.
pub const HOLDS: u32 = u32::MAX;
/// The condition does not hold, or the body of an `$elemMatch` for this element.
pub const FAILS: u32 = u32::MAX - 1;

/// A compiled condition. It has at least one operation.
#[derive(Debug, Clone, PartialEq, Archive, Serialize)]
pub struct Program {
    pub operations: Vec<Operation>,
}

/// A test, and the operations that may follow it.
#[derive(Debug, Clone, PartialEq, Archive, Serialize)]
pub struct Operation {
    pub test: Test,
    pub next: Successors,
}

/// The indexes of two operations after the present one, or [`HOLDS`] or [`FAILS`].
#[derive(Debug, Clone, Copy, PartialEq, Archive, Serialize)]
pub struct Successors {
    pub holds: u32,
    pub fails: u32,
}

#[derive(Debug, Clone, PartialEq, Archive, Serialize)]
pub enum Test {
    /// Always holds. Both successors are the same, so the result is fixed at compilation: for an empty
    /// condition, or for an invalid one, which goes to [`FAILS`].
    Always,
    /// Holds if the visitor belongs to the audience with this index.
    Audience(u16),
    /// Holds if one of these parameters of a query has a value. Bit n is set for parameter n.
    HasParam(u64),
    /// Holds for an array. It precedes the tests of an array's length.
    IsArray(Accessor),
    /// Holds if the body holds for any element of the array. The body ends before the operation `end`.
    AnyElement { array: Accessor, end: u32 },
    /// Holds if the value, or the length of the array, passes the check.
    Value { of: Accessor, is_length: bool, operator: Operator, check: Check, source: Box<TestSource> },
    /// Holds if the occurrences in a history, in total or in the last `within_ms`, satisfy every bound. 0 ms
    /// is in total.
    Count { code: u16, name: Box<str>, within_ms: i64, bounds: Vec<CountBound>, source: Box<TestSource> },
}

/// The place of a value.
#[derive(Debug, Clone, PartialEq, Archive, Serialize)]
pub enum Accessor {
    /// A field of the document.
    Field { code: u16, name: Box<str> },
    /// The value at a dotted path in the element. Only in a body.
    Member(Box<str>),
    /// The element itself. Only in a body.
    Element,
}

/// The comparison of a value.
#[derive(Debug, Clone, PartialEq, Archive, Serialize)]
pub enum Check {
    /// With a constant.
    Constant(Constant),
    /// With a list: `$in`, `$all` and their variants.
    List(Vec<Constant>),
    /// With a regular expression: index in the site's table of patterns.
    Pattern(u32),
    /// With the members of a group.
    Group(Vec<Constant>),
    /// With the present time: at most so many milliseconds ago.
    Within(i64),
    /// With the value of a parameter.
    Param(u16),
}

/// A constant of a comparison.
#[derive(Debug, Clone, PartialEq, Archive, Serialize)]
#[rkyv(derive(PartialEq))]
pub enum Constant {
    Null,
    Bool(bool),
    Number(f64),
    Text(Box<str>),
    /// An array or an object in the encoding of [`super::value`], in which containers are compared.
    Container(Vec<u8>),
}

/// A comparison of a `$count`.
#[derive(Debug, Clone, PartialEq, Archive, Serialize)]
pub struct CountBound {
    pub operator: Operator,
    pub count: u64,
}

/// The author's text of a test. Only explanations read it.
#[derive(Debug, Clone, PartialEq, Archive, Serialize)]
pub struct TestSource {
    /// Inside an `$elemMatch` it begins with the path of the array.
    pub path: Box<str>,
    /// The operand in the encoding of [`super::value`]. Empty if the check has it.
    pub operand: Vec<u8>,
}

impl Program {
    /// Returns the program of a condition that always holds, or never.
    pub fn constant(holds: bool) -> Self {
        let end = if holds { HOLDS } else { FAILS };
        let next = Successors { holds: end, fails: end };
        Self { operations: vec![Operation { test: Test::Always, next }] }
    }
}

impl ArchivedProgram {
    /// Returns the indexes of the audiences that the condition names, in the order of its tests.
    pub(crate) fn audiences(&self) -> impl Iterator<Item = u16> {
        self.operations.iter().filter_map(|operation| match &operation.test {
            ArchivedTest::Audience(index) => Some(index.to_native()),
            _ => None,
        })
    }

    /// Returns the fields that the condition tests, in the order of its tests: the code and the name of each.
    pub fn fields(&self) -> impl Iterator<Item = (u16, &str)> {
        self.operations.iter().filter_map(|operation| match &operation.test {
            ArchivedTest::IsArray(ArchivedAccessor::Field { code, name })
            | ArchivedTest::AnyElement { array: ArchivedAccessor::Field { code, name }, .. }
            | ArchivedTest::Value { of: ArchivedAccessor::Field { code, name }, .. }
            | ArchivedTest::Count { code, name, .. } => Some((code.to_native(), &**name)),
            _ => None,
        })
    }

    /// Returns the members of the groups that the condition names, in the order of its tests.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &[ArchivedConstant]> {
        self.operations.iter().filter_map(|operation| match &operation.test {
            ArchivedTest::Value { check: ArchivedCheck::Group(members), .. } => Some(members.as_slice()),
            _ => None,
        })
    }
}

impl Constant {
    pub(super) fn new(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(flag) => Self::Bool(*flag),
            // Adding zero turns negative zero into zero and changes nothing else.
            Json::Number(number) => Self::Number(number.as_f64().unwrap_or_default() + 0.0),
            Json::String(text) => Self::Text(text.as_str().into()),
            Json::Array(_) | Json::Object(_) => Self::Container(encode_value(json)),
        }
    }
}

impl ArchivedConstant {
    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(flag) => Value::Bool(*flag),
            Self::Number(number) => Value::Number(number.to_native()),
            Self::Text(text) => Value::String(text),
            Self::Container(bytes) => Value::decode(bytes).unwrap_or(Value::Null),
        }
    }
}

/// A program outside of a snapshot file, in the same form.
pub struct ProgramBuffer(AlignedVec);

impl ProgramBuffer {
    pub fn new(program: &Program) -> Self {
        let archived = rkyv::to_bytes::<rkyv::rancor::Error>(program);
        Self(archived.expect("a program in memory fits an archive"))
    }

    /// Returns the program, which [`super::verify()`] has not checked.
    pub fn get(&self) -> &ArchivedProgram {
        let archived = rkyv::access::<ArchivedProgram, rkyv::rancor::Error>(&self.0);
        archived.expect("these bytes were archived as a program")
    }

    /// Returns the size of the program in a snapshot file.
    pub fn size_bytes(&self) -> usize {
        self.0.len()
    }
}
