//! Compilation of a condition to a program, and the decoder of a program's steps.
//!
//! A program is one step. All numbers are little-endian. Texts and values are encoded as in [`super::value`].
//!
//! ```text
//! step = tag:u8 bytes:u32 body                    `bytes` is the body's length
//!   0 never
//!   1 all      step*                              holds if empty
//!   2 any      step*                              does not hold if empty
//!   3 not      step
//!   4 audience index:u16
//!   5 field    path:text code:u16 name:text step  tests the field's value
//!   6 member   path:text name:text step           tests the value at the dotted name in the value
//!   7 size     path:text step                     tests the number of the array's elements
//!   8 element  step                               tests each element of the array, holds if any does
//!   9 compare  operator:u8 operand:value
//!  10 pattern  operator:u8 operand:value index:u32             index in the site's table of patterns
//!  11 group    operator:u8 operand:value members:value
//!  12 within   operator:u8 operand:value ms:i64
//!  13 count    operator:u8 operand:value ms:i64 (operator:u8 bound:u64)*       ms 0: no time window
//!  14 param    operator:u8 index:u16             only in a template: compares with a parameter's value
//! ```
//!
//! Paths and operands are stored as the author wrote them, for explanations. The exception is a field that is
//! a time, where operands are stored in milliseconds. Equal trees and equal tables give equal programs.
//! Malformed bytes decode to `None`.

use serde_json::Value as Json;

use super::Operator;
use super::tree::{self, Condition, Node};
use super::value::{Array, Decoder, RawText, Value, encode, encode_length, encode_text};
use crate::limits::PROGRAM_BYTES_MAX;

const NEVER: u8 = 0;
pub(super) const ALL: u8 = 1;
pub(super) const ANY: u8 = 2;
pub(super) const NOT: u8 = 3;
const AUDIENCE: u8 = 4;
pub(super) const FIELD: u8 = 5;
pub(super) const MEMBER: u8 = 6;
pub(super) const SIZE: u8 = 7;
pub(super) const ELEMENT: u8 = 8;
pub(super) const COMPARE: u8 = 9;
const PATTERN: u8 = 10;
const GROUP: u8 = 11;
const WITHIN: u8 = 12;
const COUNT: u8 = 13;
pub(super) const PARAM: u8 = 14;

/// The error for a condition whose program, including its groups, exceeds `PROGRAM_BYTES_MAX`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the condition has {bytes} bytes including its groups, the limit is {PROGRAM_BYTES_MAX}")]
pub struct ProgramTooLargeError {
    pub bytes: usize,
}

impl Condition {
    /// Returns the program of the condition. Adds its regular expressions to `patterns`, the site's table,
    /// unless the table has them already. [`super::Patterns::new`] builds the table.
    pub fn compile(&self, patterns: &mut Vec<String>) -> Result<Vec<u8>, ProgramTooLargeError> {
        let mut writer = ProgramWriter { out: Vec::new(), patterns };
        writer.write_node(&self.root);
        match writer.out.len() {
            bytes if bytes > PROGRAM_BYTES_MAX => Err(ProgramTooLargeError { bytes }),
            _ => Ok(writer.out),
        }
    }
}

struct ProgramWriter<'t> {
    out: Vec<u8>,
    patterns: &'t mut Vec<String>,
}

impl ProgramWriter<'_> {
    fn write_node(&mut self, node: &Node) {
        match node {
            Node::Never => self.write_step(NEVER, |_| ()),
            Node::All(nodes) => self.write_step(ALL, |w| nodes.iter().for_each(|node| w.write_node(node))),
            Node::Any(nodes) => self.write_step(ANY, |w| nodes.iter().for_each(|node| w.write_node(node))),
            Node::Not(node) => self.write_step(NOT, |w| w.write_node(node)),
            Node::Audience(index) => self.write_step(AUDIENCE, |w| w.out.extend(index.to_le_bytes())),
            Node::Field { path, field, test } => self.write_step(FIELD, |w| {
                encode_text(path, &mut w.out);
                w.out.extend(field.code.to_le_bytes());
                encode_text(&field.name, &mut w.out);
                w.write_node(test);
            }),
            Node::Member { path, name, test } => self.write_step(MEMBER, |w| {
                encode_text(path, &mut w.out);
                encode_text(name, &mut w.out);
                w.write_node(test);
            }),
            Node::Size { path, test } => self.write_step(SIZE, |w| {
                encode_text(path, &mut w.out);
                w.write_node(test);
            }),
            Node::Element(test) => self.write_step(ELEMENT, |w| w.write_node(test)),
            Node::Test { operator, operand, check } => self.write_test(*operator, operand, check),
            Node::Param { operator, index } => self.write_step(PARAM, |w| {
                w.out.push(*operator as u8);
                w.out.extend(index.to_le_bytes());
            }),
        }
    }

    fn write_test(&mut self, operator: Operator, operand: &Json, check: &tree::Check) {
        let tag = match check {
            tree::Check::Compare => COMPARE,
            tree::Check::Pattern { .. } => PATTERN,
            tree::Check::Group { .. } => GROUP,
            tree::Check::Within { .. } => WITHIN,
            tree::Check::Count { .. } => COUNT,
        };
        self.write_step(tag, |w| {
            w.out.push(operator as u8);
            encode(operand, &mut w.out);
            w.write_check(check);
        });
    }

    fn write_check(&mut self, check: &tree::Check) {
        match check {
            tree::Check::Compare => (),
            tree::Check::Pattern { source } => {
                let index = self.pattern_index(source);
                self.out.extend(encode_length(index));
            }
            tree::Check::Group { members } => encode(&members[..].into(), &mut self.out),
            tree::Check::Within { ms } => self.out.extend(ms.to_le_bytes()),
            tree::Check::Count { within_ms, bounds } => {
                self.out.extend(within_ms.unwrap_or(0).to_le_bytes());
                for (operator, bound) in bounds {
                    self.out.push(*operator as u8);
                    self.out.extend(bound.to_le_bytes());
                }
            }
        }
    }

    fn pattern_index(&mut self, source: &str) -> usize {
        let known = self.patterns.iter().position(|known| known == source);
        known.unwrap_or_else(|| {
            self.patterns.push(source.to_owned());
            self.patterns.len() - 1
        })
    }

    fn write_step(&mut self, tag: u8, body: impl FnOnce(&mut Self)) {
        self.out.push(tag);
        let length_at = self.out.len();
        self.out.extend([0; 4]);
        body(self);
        let bytes = encode_length(self.out.len() - length_at - 4);
        self.out[length_at..length_at + 4].copy_from_slice(&bytes);
    }
}

/// A decoded step of a program. Its inner steps are not decoded yet.
pub(super) enum Step<'p> {
    Never,
    Param,
    All(Steps<'p>),
    Any(Steps<'p>),
    Not(Steps<'p>),
    Audience(u16),
    Field { path: RawText<'p>, code: u16, name: RawText<'p>, test: Steps<'p> },
    Member { path: RawText<'p>, name: &'p str, test: Steps<'p> },
    Size { path: RawText<'p>, test: Steps<'p> },
    Element(Steps<'p>),
    Test { operator: Operator, operand: Value<'p>, check: Check<'p> },
}

/// The arguments of an operator apart from its operand.
pub(super) enum Check<'p> {
    Compare,
    Pattern { index: usize },
    Group { members: Array<'p> },
    Within { ms: i64 },
    Count { within_ms: Option<i64>, bounds: CountBounds<'p> },
}

/// A sequence of encoded steps.
#[derive(Clone, Copy)]
pub(super) struct Steps<'p>(Decoder<'p>);

impl<'p> Steps<'p> {
    pub(super) fn new(program: &'p [u8]) -> Self {
        Steps(Decoder(program))
    }

    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn read(&mut self) -> Option<Step<'p>> {
        let tag = self.0.u8()?;
        let bytes = self.0.u32()?;
        let mut body = Decoder(self.0.take(bytes as usize)?);
        Some(match tag {
            NEVER => Step::Never,
            PARAM => Step::Param,
            ALL => Step::All(Steps(body)),
            ANY => Step::Any(Steps(body)),
            NOT => Step::Not(Steps(body)),
            AUDIENCE => Step::Audience(body.u16()?),
            FIELD => Step::Field {
                path: body.raw_text()?,
                code: body.u16()?,
                name: body.raw_text()?,
                test: Steps(body),
            },
            MEMBER => Step::Member { path: body.raw_text()?, name: body.text()?, test: Steps(body) },
            SIZE => Step::Size { path: body.raw_text()?, test: Steps(body) },
            ELEMENT => Step::Element(Steps(body)),
            test => Step::Test {
                operator: Operator::from_code(body.u8()?)?,
                operand: body.value()?,
                check: Check::read(test, body)?,
            },
        })
    }
}

impl<'p> Check<'p> {
    fn read(tag: u8, mut body: Decoder<'p>) -> Option<Self> {
        Some(match tag {
            COMPARE => Check::Compare,
            PATTERN => Check::Pattern { index: body.u32()? as usize },
            GROUP => match body.value()? {
                Value::Array(members) => Check::Group { members },
                _ => return None,
            },
            WITHIN => Check::Within { ms: body.i64()? },
            COUNT => {
                let within_ms = Some(body.i64()?).filter(|ms| *ms != 0);
                Check::Count { within_ms, bounds: CountBounds(body) }
            }
            _ => return None,
        })
    }
}

/// The comparisons of a `$count`.
#[derive(Clone, Copy)]
pub(super) struct CountBounds<'p>(Decoder<'p>);

impl CountBounds<'_> {
    /// Returns whether `count` satisfies every comparison.
    pub(super) fn are_met_by(mut self, count: u64) -> Option<bool> {
        while !self.0.is_empty() {
            let operator = Operator::from_code(self.0.u8()?)?;
            let bound = self.0.u64()?;
            let holds = match operator {
                Operator::Eq => count == bound,
                Operator::Ne => count != bound,
                Operator::Gt => count > bound,
                Operator::Gte => count >= bound,
                Operator::Lt => count < bound,
                Operator::Lte => count <= bound,
                _ => return None,
            };
            if !holds {
                return Some(false);
            }
        }
        Some(true)
    }
}
