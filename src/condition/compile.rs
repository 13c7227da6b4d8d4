//! Compilation of a condition to a program.

use serde_json::Value as Json;

use super::Operator;
use super::program::{
    Accessor, Check, Constant, CountBound, FAILS, HOLDS, Operation, Program, ProgramBuffer, Successors, Test,
    TestSource,
};
use super::tree::{self, Condition, Node};
use super::value::encode_value;
use crate::limits::PROGRAM_BYTES_MAX;

/// The error for a condition whose program, including its groups, exceeds `PROGRAM_BYTES_MAX`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the condition has {bytes} bytes including its groups, the limit is {PROGRAM_BYTES_MAX}")]
pub struct ProgramTooLargeError {
    pub bytes: usize,
}

impl Condition {
    /// Returns the program of the condition. Adds its regular expressions to `patterns`, the site's table,
    /// unless the table has them already. [`super::Patterns::new`] builds the table.
    pub fn compile(&self, patterns: &mut Vec<String>) -> Result<Program, ProgramTooLargeError> {
        let mut writer = ProgramWriter { operations: Vec::new(), labels: Vec::new(), patterns };
        writer.write_optional(&self.root, None, Successors { holds: HOLDS, fails: FAILS }, HOLDS);
        let program = writer.finish();
        match ProgramBuffer::new(&program).size_bytes() {
            bytes if bytes > PROGRAM_BYTES_MAX => Err(ProgramTooLargeError { bytes }),
            _ => Ok(program),
        }
    }
}

/// The value to which the tests below a field, a member or an element apply.
struct Subject<'n> {
    path: &'n str,
    accessor: Accessor,
    /// True if the tests are about the length of the array.
    is_length: bool,
}

/// A writer of operations in their order.
///
/// An operation that is not written yet has a label: the index of its place in `labels`. Until the program is
/// finished, successors are labels, [`HOLDS`] or [`FAILS`].
struct ProgramWriter<'t> {
    operations: Vec<Operation>,
    /// The index of each label's operation.
    labels: Vec<u32>,
    patterns: &'t mut Vec<String>,
}

impl ProgramWriter<'_> {
    /// Writes the operations of a node. `subject` is the value that its tests are about.
    fn write_node(&mut self, node: &Node, subject: Option<&Subject<'_>>, successors: Successors) {
        match (node, subject) {
            (Node::Never, _) => self.write_constant(successors.fails),
            (Node::All(nodes), _) => self.write_all(nodes, subject, successors),
            (Node::Any(nodes), _) => self.write_any(nodes, subject, successors),
            (Node::Not(node), _) => {
                self.write_node(
                    node,
                    subject,
                    Successors { holds: successors.fails, fails: successors.holds },
                );
            }
            (Node::Audience(index), _) => self.write(Test::Audience(*index), successors),
            (Node::Field { path, field, test }, _) => {
                let accessor = Accessor::Field { code: field.code, name: field.name.as_str().into() };
                self.write_node(test, Some(&Subject { path, accessor, is_length: false }), successors);
            }
            (Node::Member { path, name, test }, _) => {
                let accessor = Accessor::Member(name.as_str().into());
                self.write_node(test, Some(&Subject { path, accessor, is_length: false }), successors);
            }
            (Node::Size { path, test }, Some(subject)) => self.write_size(path, test, subject, successors),
            (Node::Element(test), Some(subject)) => self.write_element(test, subject, successors),
            (Node::Test { operator, operand, check }, Some(subject)) => {
                self.write_test(*operator, operand, check, subject, successors);
            }
            (Node::Param { operator, index }, Some(subject)) => {
                self.write_value(*operator, Check::Param(*index), None, subject, successors);
            }
            // The parser creates these nodes only below a field, a member or an element.
            (Node::Size { .. } | Node::Element(_) | Node::Test { .. } | Node::Param { .. }, None) => {
                self.write_constant(successors.fails);
            }
        }
    }

    fn write_all(&mut self, nodes: &[Node], subject: Option<&Subject<'_>>, successors: Successors) {
        let Some((last, earlier)) = nodes.split_last() else { return self.write_constant(successors.holds) };
        for node in earlier {
            let following = self.add_label();
            let own = Successors { holds: following, fails: successors.fails };
            self.write_optional(node, subject, own, following);
            self.place_label(following);
        }
        self.write_optional(last, subject, successors, successors.holds);
    }

    fn write_any(&mut self, nodes: &[Node], subject: Option<&Subject<'_>>, successors: Successors) {
        let Some((last, earlier)) = nodes.split_last() else { return self.write_constant(successors.fails) };
        for node in earlier {
            let following = self.add_label();
            let own = Successors { holds: successors.holds, fails: following };
            self.write_optional(node, subject, own, following);
            self.place_label(following);
        }
        self.write_optional(last, subject, successors, successors.fails);
    }

    /// Writes a node that is left out if none of its parameters has a value. Evaluation then continues at
    /// `exit`.
    fn write_optional(
        &mut self,
        node: &Node,
        subject: Option<&Subject<'_>>,
        successors: Successors,
        exit: u32,
    ) {
        if node.vanishes() && !skips_itself(node, successors, exit) {
            let present = self.add_label();
            self.write(Test::HasParam(node.param_bits()), Successors { holds: present, fails: exit });
            self.place_label(present);
        }
        self.write_node(node, subject, successors);
    }

    fn write_size(&mut self, path: &str, test: &Node, subject: &Subject<'_>, successors: Successors) {
        if subject.is_length {
            // A length is a number.
            return self.write_constant(successors.fails);
        }
        let is_array = self.add_label();
        let own = Successors { holds: is_array, fails: successors.fails };
        self.write(Test::IsArray(subject.accessor.clone()), own);
        self.place_label(is_array);
        let length = Subject { path, accessor: subject.accessor.clone(), is_length: true };
        self.write_node(test, Some(&length), successors);
    }

    fn write_element(&mut self, test: &Node, subject: &Subject<'_>, successors: Successors) {
        if subject.is_length {
            return self.write_constant(successors.fails);
        }
        let at = self.operations.len();
        self.write(Test::AnyElement { array: subject.accessor.clone(), end: 0 }, successors);
        let element = Subject { path: subject.path, accessor: Accessor::Element, is_length: false };
        self.write_node(test, Some(&element), Successors { holds: HOLDS, fails: FAILS });
        let body_end = self.operations.len() as u32;
        if let Test::AnyElement { end, .. } = &mut self.operations[at].test {
            *end = body_end;
        }
    }

    fn write_test(
        &mut self,
        operator: Operator,
        operand: &Json,
        check: &tree::Check,
        subject: &Subject<'_>,
        successors: Successors,
    ) {
        let constants = |items: &[Json]| items.iter().map(Constant::new).collect();
        let (check, operand) = match check {
            tree::Check::Compare => match operand {
                Json::Array(items) if operator.takes_list() => (Check::List(constants(items)), None),
                _ => (Check::Constant(Constant::new(operand)), None),
            },
            tree::Check::Pattern { source } => (Check::Pattern(self.pattern_index(source)), Some(operand)),
            tree::Check::Group { members } => (Check::Group(constants(members)), Some(operand)),
            tree::Check::Within { ms } => (Check::Within(*ms), Some(operand)),
            tree::Check::Count { within_ms, bounds } => {
                return self.write_count(within_ms.unwrap_or(0), bounds, operand, subject, successors);
            }
        };
        self.write_value(operator, check, operand, subject, successors);
    }

    fn write_value(
        &mut self,
        operator: Operator,
        check: Check,
        operand: Option<&Json>,
        subject: &Subject<'_>,
        successors: Successors,
    ) {
        let test = Test::Value {
            of: subject.accessor.clone(),
            is_length: subject.is_length,
            operator,
            check,
            source: source(subject.path, operand),
        };
        self.write(test, successors);
    }

    fn write_count(
        &mut self,
        within_ms: i64,
        bounds: &[(Operator, u64)],
        operand: &Json,
        subject: &Subject<'_>,
        successors: Successors,
    ) {
        // Only fields have a history.
        let Accessor::Field { code, name } = &subject.accessor else {
            return self.write_constant(successors.fails);
        };
        let bounds = bounds.iter().map(|(operator, count)| CountBound { operator: *operator, count: *count });
        let test = Test::Count {
            code: *code,
            name: name.clone(),
            within_ms,
            bounds: bounds.collect(),
            source: source(subject.path, Some(operand)),
        };
        self.write(test, successors);
    }

    /// Writes an operation after which evaluation always continues at `target`.
    fn write_constant(&mut self, target: u32) {
        self.write(Test::Always, Successors { holds: target, fails: target });
    }

    fn write(&mut self, test: Test, successors: Successors) {
        self.operations.push(Operation { test, next: successors });
    }

    fn pattern_index(&mut self, source: &str) -> u32 {
        let known = self.patterns.iter().position(|known| known == source);
        let index = known.unwrap_or_else(|| {
            self.patterns.push(source.to_owned());
            self.patterns.len() - 1
        });
        index as u32
    }

    fn add_label(&mut self) -> u32 {
        self.labels.push(0);
        self.labels.len() as u32 - 1
    }

    /// Gives the label to the next operation.
    fn place_label(&mut self, label: u32) {
        self.labels[label as usize] = self.operations.len() as u32;
    }

    fn finish(self) -> Program {
        let Self { mut operations, labels, .. } = self;
        let index = |target| if target >= FAILS { target } else { labels[target as usize] };
        for operation in &mut operations {
            let Successors { holds, fails } = operation.next;
            operation.next = Successors { holds: index(holds), fails: index(fails) };
        }
        Program { operations }
    }
}

/// Returns whether a node that is left out already leads to `exit`, so that it needs no `HasParam` of its
/// own. The parts of an `$and` that are left out lead to `next.holds`, those of an `$or` to `next.fails`.
/// Returning false is always correct and costs one operation.
fn skips_itself(node: &Node, successors: Successors, exit: u32) -> bool {
    match node {
        Node::All(_) => exit == successors.holds,
        Node::Any(_) => exit == successors.fails,
        Node::Field { test, .. } | Node::Member { test, .. } => skips_itself(test, successors, exit),
        _ => false,
    }
}

fn source(path: &str, operand: Option<&Json>) -> Box<TestSource> {
    Box::new(TestSource { path: path.into(), operand: operand.map(encode_value).unwrap_or_default() })
}
