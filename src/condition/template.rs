//! Conditions with parameters: what they come apart into, and the template > a program.
//!
//! A clause whose parameter has no value is left out, and so is whatever then holds nothing any more: an alternative of an
//! `$or`, a `$not`, an `$elemMatch`. A condition of which nothing is left holds for everything.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::compare::{Text, number_of};
use super::compile::{ALL, ANY, COMPARE, ELEMENT, FIELD, MEMBER, NOT, PARAM, SIZE};
use super::tree::{Condition, Node};
use super::value::{Reader, Value, encode_scalar, length};
use super::{Field, Operator};
use crate::limits::EVALUATION_DEPTH_MAX;

/// What a conjunct says that does nothing but bound a field by a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound<'c> {
    /// The field's dotted path.
    pub path: &'c str,
    /// The parameter's index.
    pub param: u16,
    /// Whether the field is at or above it; else at or below.
    pub is_lower: bool,
}

impl Condition {
    /// Conditions that hold all together where this one holds.
    pub fn conjuncts(self) -> Vec<Condition> {
        let mut nodes = Vec::new();
        split(self.root, &mut nodes);
        let audiences = self.audiences;
        nodes.into_iter().map(|root| Condition { root, audiences: audiences.clone() }).collect()
    }

    /// The condition that holds where all of these do.
    pub fn all(conditions: impl IntoIterator<Item = Condition>) -> Condition {
        let mut joined = Condition { root: Node::Never, audiences: Default::default() };
        let nodes = conditions.into_iter().map(|condition| {
            joined.audiences.extend(condition.audiences);
            condition.root
        });
        joined.root = Node::All(nodes.collect());
        joined
    }

    /// Its parameters by index, and of each whether it is compared by nothing but equality.
    pub fn params(&self) -> BTreeMap<u16, bool> {
        let mut params = BTreeMap::new();
        self.root.each_param(&mut |operator, index| {
            let by_equality = matches!(operator, Operator::Is | Operator::Eq | Operator::Ne);
            *params.entry(index).or_insert(true) &= by_equality;
        });
        params
    }

    /// Whether nothing is left of it where none of its parameters has a value.
    pub fn vanishes(&self) -> bool {
        self.root.vanishes()
    }

    /// The members of the document that it looks at.
    pub fn members(&self) -> BTreeSet<&str> {
        let mut members = BTreeSet::new();
        self.root.each_field(&mut |field| {
            members.insert(field.name.split('.').next().unwrap_or(&field.name));
        });
        members
    }

    /// The same condition over a document that knows its fields by number: their places among `paths`, which grow where a
    /// field is new.
    pub fn numbered(mut self, paths: &mut Vec<String>) -> Condition {
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

    /// The bound that this condition is, if it is one.
    pub fn bound(&self) -> Option<Bound<'_>> {
        let Node::Field { field, test, .. } = &self.root else { return None };
        let Node::Param { operator, index } = **test else { return None };
        let is_lower = match operator {
            Operator::Gt | Operator::Gte => true,
            Operator::Lt | Operator::Lte => false,
            _ => return None,
        };
        Some(Bound { path: &field.name, param: index, is_lower })
    }

    /// Tells of each parameter that is compared by equality what it would have to be to equal what the document `root` has
    /// there: as text, as number, or both. Any other values are alike to this document.
    pub fn equals(&self, root: Value<'_>, tell: &mut dyn FnMut(u16, Json)) {
        self.root.equals(root, None, tell);
    }
}

fn split(node: Node, into: &mut Vec<Node>) {
    match node {
        Node::All(nodes) => nodes.into_iter().for_each(|node| split(node, into)),
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

    /// Fields stand in no field's test.
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

    fn equals(&self, root: Value<'_>, subject: Option<Value<'_>>, tell: &mut dyn FnMut(u16, Json)) {
        match (self, subject) {
            (Node::Never | Node::Audience(_) | Node::Test { .. }, _) => {}
            (Node::All(nodes) | Node::Any(nodes), _) => {
                nodes.iter().for_each(|node| node.equals(root, subject, tell));
            }
            (Node::Not(node), _) => node.equals(root, subject, tell),
            (Node::Field { field, test, .. }, _) => test.equals(root, root.at(&field.name), tell),
            (Node::Member { name, test, .. }, _) => {
                test.equals(root, subject.and_then(|value| value.at(name)), tell);
            }
            (Node::Size { test, .. }, Some(Value::Array(items))) => {
                test.equals(root, Some(Value::Number(items.len() as f64)), tell);
            }
            (Node::Element(test), Some(Value::Array(items))) => {
                items.iter().for_each(|item| test.equals(root, Some(item), tell));
            }
            (Node::Size { .. } | Node::Element(_), _) => {}
            (Node::Param { operator, index }, _) => {
                let actual = subject.unwrap_or(Value::Null);
                equal_to(*operator, actual).into_iter().flatten().for_each(|value| tell(*index, value));
            }
        }
    }
}

/// The values of a parameter that equal `actual`.
fn equal_to(operator: Operator, actual: Value<'_>) -> [Option<Json>; 2] {
    match operator {
        Operator::Is => {
            let text = Text::of(actual).map(|text| Json::from(text.as_str()));
            [text, number_of(actual).map(Json::from)]
        }
        Operator::Eq | Operator::Ne => [Some(actual.to_json()), None],
        _ => [None, None],
    }
}

/// Writes the program that `template` is for these values of its parameters into `out`, which is cleared; `None` where the
/// template is malformed.
pub fn bind(template: &[u8], values: &[Option<Value<'_>>], out: &mut Vec<u8>) -> Option<()> {
    out.clear();
    let mut binding = Binding { values, out };
    if !binding.step(&mut Reader(template), 0)? {
        binding.open(ALL);
    }
    Some(())
}

struct Binding<'v, 'o> {
    values: &'v [Option<Value<'v>>],
    out: &'o mut Vec<u8>,
}

impl Binding<'_, '_> {
    /// Copies the next step; false where it was left out. `None` where the template is malformed.
    fn step(&mut self, template: &mut Reader<'_>, depth: usize) -> Option<bool> {
        let whole = template.0;
        let tag = template.u8()?;
        let bytes = template.u32()? as usize;
        let mut body = Reader(template.take(bytes)?);
        if depth == EVALUATION_DEPTH_MAX {
            return None;
        }
        let begin = self.out.len();
        let length_at = self.open(tag);
        let stays = match tag {
            ALL | ANY => self.steps(body, depth + 1)?,
            NOT | ELEMENT => self.step(&mut body, depth + 1)?,
            FIELD | MEMBER | SIZE => {
                let texts = body;
                skip_names(tag, &mut body)?;
                self.out.extend(&texts.0[..texts.0.len() - body.0.len()]);
                self.step(&mut body, depth + 1)?
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
        let bytes = length(self.out.len() - length_at - 4);
        self.out[length_at..length_at + 4].copy_from_slice(&bytes);
        Some(true)
    }

    /// Copies all steps; false where there were some and all were left out.
    fn steps(&mut self, mut template: Reader<'_>, depth: usize) -> Option<bool> {
        let mut stay = template.is_empty();
        while !template.is_empty() {
            stay |= self.step(&mut template, depth)?;
        }
        Some(stay)
    }

    /// Begins a step; says where its length stands.
    fn open(&mut self, tag: u8) -> usize {
        self.out.push(tag);
        self.out.extend([0; 4]);
        self.out.len() - 4
    }
}

/// What stands before the step of a step that has names.
fn skip_names(tag: u8, body: &mut Reader<'_>) -> Option<()> {
    body.text()?;
    if tag == FIELD {
        body.u16()?;
    }
    if tag != SIZE {
        body.text()?;
    }
    Some(())
}
