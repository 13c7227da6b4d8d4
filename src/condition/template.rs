//! Conditions with parameters: analysis of the condition, and binding of a template to values.
//!
//! A clause whose parameter has no value is removed. An operator without remaining operands is removed too:
//! an alternative of an `$or`, a `$not`, an `$elemMatch`. A condition without remaining clauses holds for
//! everything.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::compare::{Text, to_number};
use super::compile::{ALL, ANY, COMPARE, ELEMENT, FIELD, MEMBER, NOT, PARAM, SIZE};
use super::tree::{Condition, Node};
use super::value::{Decoder, Value, encode_length, encode_scalar};
use super::{Field, Operator};
use crate::limits::EVALUATION_DEPTH_MAX;

/// A conjunct that only bounds a field by a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamBound<'c> {
    /// The field's dotted path.
    pub path: &'c str,
    /// The parameter's index.
    pub param: u16,
    /// True if the parameter is a lower bound of the field. Otherwise it is an upper bound.
    pub is_lower: bool,
}

impl Condition {
    /// Splits the condition into conjuncts. The condition holds if and only if all of them hold.
    pub fn into_conjuncts(self) -> Vec<Condition> {
        let mut nodes = Vec::new();
        split_conjuncts(self.root, &mut nodes);
        let audiences = self.audiences;
        nodes.into_iter().map(|root| Condition { root, audiences: audiences.clone() }).collect()
    }

    /// Returns the conjunction of the conditions.
    pub fn all(conditions: impl IntoIterator<Item = Condition>) -> Condition {
        let mut joined = Condition { root: Node::Never, audiences: Default::default() };
        let nodes = conditions.into_iter().map(|condition| {
            joined.audiences.extend(condition.audiences);
            condition.root
        });
        joined.root = Node::All(nodes.collect());
        joined
    }

    /// Returns the parameters by index. The value is whether all comparisons of the parameter are for
    /// equality.
    pub fn params(&self) -> BTreeMap<u16, bool> {
        let mut params = BTreeMap::new();
        self.root.each_param(&mut |operator, index| {
            let by_equality = matches!(operator, Operator::LooseEq | Operator::Eq | Operator::Ne);
            *params.entry(index).or_insert(true) &= by_equality;
        });
        params
    }

    /// Returns whether the condition is empty if none of its parameters has a value.
    pub fn vanishes(&self) -> bool {
        self.root.vanishes()
    }

    /// Returns the names of the top-level members of the document that the condition reads.
    pub fn member_names(&self) -> BTreeSet<&str> {
        let mut members = BTreeSet::new();
        self.root.each_field(&mut |field| {
            members.insert(field.name.split('.').next().unwrap_or(&field.name));
        });
        members
    }

    /// Converts the condition for a document with numbered fields. The code of a field becomes the index of
    /// its path in `paths`. New paths are appended.
    pub fn with_field_codes(mut self, paths: &mut Vec<String>) -> Condition {
        self.root.each_field_mut(&mut |field| {
            let path = std::mem::take(&mut field.name);
            let known = paths.iter().position(|known| *known == path);
            field.code = known.unwrap_or(paths.len()) as u16;
            if known.is_none() {
                paths.push(path);
            }
        });
        self
    }

    /// Returns the condition as a bound, if it is one.
    pub fn as_bound(&self) -> Option<ParamBound<'_>> {
        let Node::Field { field, test, .. } = &self.root else { return None };
        let Node::Param { operator, index } = **test else { return None };
        let is_lower = match operator {
            Operator::Gt | Operator::Gte => true,
            Operator::Lt | Operator::Lte => false,
            _ => return None,
        };
        Some(ParamBound { path: &field.name, param: index, is_lower })
    }

    /// Calls `tell` for each parameter that is compared by equality, with each of its values that equals the
    /// value in the document `root`: as a text, as a number, or both. This document cannot distinguish any
    /// other values of the parameter.
    pub fn each_equal_value(&self, root: Value<'_>, tell: &mut dyn FnMut(u16, Json)) {
        self.root.each_equal_value(root, None, tell);
    }
}

fn split_conjuncts(node: Node, into: &mut Vec<Node>) {
    match node {
        Node::All(nodes) => nodes.into_iter().for_each(|node| split_conjuncts(node, into)),
        Node::Field { path, field, test } => match *test {
            Node::All(tests) => into.extend(tests.into_iter().map(|test| Node::Field {
                path: path.clone(),
                field: field.clone(),
                test: Box::new(test),
            })),
            test => into.push(Node::Field { path, field, test: Box::new(test) }),
        },
        node => into.push(node),
    }
}

impl Node {
    fn each_param(&self, tell: &mut dyn FnMut(Operator, u16)) {
        match self {
            Node::Never | Node::Audience(_) | Node::Test { .. } => {}
            Node::All(nodes) | Node::Any(nodes) => nodes.iter().for_each(|node| node.each_param(tell)),
            Node::Not(node) | Node::Element(node) => node.each_param(tell),
            Node::Field { test, .. } | Node::Member { test, .. } | Node::Size { test, .. } => {
                test.each_param(tell);
            }
            Node::Param { operator, index } => tell(*operator, *index),
        }
    }

    fn vanishes(&self) -> bool {
        match self {
            Node::Never | Node::Audience(_) | Node::Test { .. } => false,
            Node::All(nodes) | Node::Any(nodes) => !nodes.is_empty() && nodes.iter().all(Node::vanishes),
            Node::Not(node) | Node::Element(node) => node.vanishes(),
            Node::Field { test, .. } | Node::Member { test, .. } | Node::Size { test, .. } => test.vanishes(),
            Node::Param { .. } => true,
        }
    }

    /// Visits the fields. The test of a field contains no other fields.
    fn each_field<'n>(&'n self, tell: &mut dyn FnMut(&'n Field)) {
        match self {
            Node::All(nodes) | Node::Any(nodes) => nodes.iter().for_each(|node| node.each_field(tell)),
            Node::Not(node) => node.each_field(tell),
            Node::Field { field, .. } => tell(field),
            _ => {}
        }
    }

    fn each_field_mut(&mut self, tell: &mut dyn FnMut(&mut Field)) {
        match self {
            Node::All(nodes) | Node::Any(nodes) => {
                nodes.iter_mut().for_each(|node| node.each_field_mut(tell))
            }
            Node::Not(node) => node.each_field_mut(tell),
            Node::Field { field, .. } => tell(field),
            _ => {}
        }
    }

    fn each_equal_value(&self, root: Value<'_>, subject: Option<Value<'_>>, tell: &mut dyn FnMut(u16, Json)) {
        match (self, subject) {
            (Node::Never | Node::Audience(_) | Node::Test { .. }, _) => {}
            (Node::All(nodes) | Node::Any(nodes), _) => {
                nodes.iter().for_each(|node| node.each_equal_value(root, subject, tell));
            }
            (Node::Not(node), _) => node.each_equal_value(root, subject, tell),
            (Node::Field { field, test, .. }, _) => {
                test.each_equal_value(root, root.get_path(&field.name), tell)
            }
            (Node::Member { name, test, .. }, _) => {
                test.each_equal_value(root, subject.and_then(|value| value.get_path(name)), tell);
            }
            (Node::Size { test, .. }, Some(Value::Array(items))) => {
                test.each_equal_value(root, Some(Value::Number(items.len() as f64)), tell);
            }
            (Node::Element(test), Some(Value::Array(items))) => {
                items.iter().for_each(|item| test.each_equal_value(root, Some(item), tell));
            }
            (Node::Size { .. } | Node::Element(_), _) => {}
            (Node::Param { operator, index }, _) => {
                let actual = subject.unwrap_or(Value::Null);
                equal_values(*operator, actual).into_iter().flatten().for_each(|value| tell(*index, value));
            }
        }
    }
}

/// Returns the parameter values that equal `actual`.
fn equal_values(operator: Operator, actual: Value<'_>) -> [Option<Json>; 2] {
    match operator {
        Operator::LooseEq => {
            let text = Text::from_value(actual).map(|text| Json::from(text.as_str()));
            [text, to_number(actual).map(Json::from)]
        }
        Operator::Eq | Operator::Ne => [Some(actual.to_json()), None],
        _ => [None, None],
    }
}

/// Clears `out` and writes the program of `template` for these parameter values. Returns `None` if the
/// template is malformed.
pub fn bind(template: &[u8], values: &[Option<Value<'_>>], out: &mut Vec<u8>) -> Option<()> {
    out.clear();
    let mut binding = Binder { values, out };
    if !binding.bind_step(&mut Decoder(template), 0)? {
        binding.begin_step(ALL);
    }
    Some(())
}

struct Binder<'v, 'o> {
    values: &'v [Option<Value<'v>>],
    out: &'o mut Vec<u8>,
}

impl Binder<'_, '_> {
    /// Copies the next step. Returns false if it was removed, `None` if the template is malformed.
    fn bind_step(&mut self, template: &mut Decoder<'_>, depth: usize) -> Option<bool> {
        let whole = template.0;
        let tag = template.u8()?;
        let bytes = template.u32()? as usize;
        let mut body = Decoder(template.take(bytes)?);
        if depth == EVALUATION_DEPTH_MAX {
            return None;
        }
        let begin = self.out.len();
        let length_at = self.begin_step(tag);
        let stays = match tag {
            ALL | ANY => self.bind_steps(body, depth + 1)?,
            NOT | ELEMENT => self.bind_step(&mut body, depth + 1)?,
            FIELD | MEMBER | SIZE => {
                let texts = body;
                skip_names(tag, &mut body)?;
                self.out.extend(&texts.0[..texts.0.len() - body.0.len()]);
                self.bind_step(&mut body, depth + 1)?
            }
            PARAM => {
                let operator = body.u8()?;
                let value = *self.values.get(usize::from(body.u16()?))?;
                self.out[begin] = COMPARE;
                self.out.push(operator);
                value.inspect(|value| encode_scalar(*value, self.out)).is_some()
            }
            _ => {
                self.out.truncate(begin);
                self.out.extend(&whole[..whole.len() - template.0.len()]);
                return Some(true);
            }
        };
        if !stays {
            self.out.truncate(begin);
            return Some(false);
        }
        let bytes = encode_length(self.out.len() - length_at - 4);
        self.out[length_at..length_at + 4].copy_from_slice(&bytes);
        Some(true)
    }

    /// Copies all steps. Returns false if there was at least one and all were removed.
    fn bind_steps(&mut self, mut template: Decoder<'_>, depth: usize) -> Option<bool> {
        let mut stay = template.is_empty();
        while !template.is_empty() {
            stay |= self.bind_step(&mut template, depth)?;
        }
        Some(stay)
    }

    /// Writes the header of a step and returns the offset of its length.
    fn begin_step(&mut self, tag: u8) -> usize {
        self.out.push(tag);
        self.out.extend([0; 4]);
        self.out.len() - 4
    }
}

/// Skips the path, code and name of a field, member or size step.
fn skip_names(tag: u8, body: &mut Decoder<'_>) -> Option<()> {
    body.text()?;
    if tag == FIELD {
        body.u16()?;
    }
    if tag != SIZE {
        body.text()?;
    }
    Some(())
}
