//! Analysis of conditions with parameters.
//!
//! A clause whose parameter has no value is left out (`Test::HasParam`). An operator without remaining
//! operands is left out too: an alternative of an `$or`, a `$not`, an `$elemMatch`. A condition without
//! remaining clauses holds for everything.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::compare::{Text, to_number};
use super::tree::{Condition, Node};
use super::value::Value;
use super::{Field, Operator};

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

    /// Calls `visit` for each parameter that is compared by equality, with each of its values that equals the
    /// value in the document `root`: as a text, as a number, or both. This document cannot distinguish any
    /// other values of the parameter.
    pub fn each_equal_value(&self, root: Value<'_>, visit: &mut dyn FnMut(u16, Json)) {
        self.root.each_equal_value(root, None, visit);
    }
}

fn split_conjuncts(node: Node, conjuncts: &mut Vec<Node>) {
    match node {
        Node::All(nodes) => nodes.into_iter().for_each(|node| split_conjuncts(node, conjuncts)),
        Node::Field { path, field, test } => match *test {
            Node::All(tests) => conjuncts.extend(tests.into_iter().map(|test| Node::Field {
                path: path.clone(),
                field: field.clone(),
                test: Box::new(test),
            })),
            test => conjuncts.push(Node::Field { path, field, test: Box::new(test) }),
        },
        node => conjuncts.push(node),
    }
}

impl Node {
    fn each_param(&self, visit: &mut dyn FnMut(Operator, u16)) {
        match self {
            Node::Never | Node::Audience(_) | Node::Test { .. } => {}
            Node::All(nodes) | Node::Any(nodes) => nodes.iter().for_each(|node| node.each_param(visit)),
            Node::Not(node) | Node::Element(node) => node.each_param(visit),
            Node::Field { test, .. } | Node::Member { test, .. } | Node::Size { test, .. } => {
                test.each_param(visit);
            }
            Node::Param { operator, index } => visit(*operator, *index),
        }
    }

    /// Returns a bit for each parameter.
    pub(super) fn param_bits(&self) -> u64 {
        let mut bits = 0;
        self.each_param(&mut |_, index| bits |= 1_u64.checked_shl(index.into()).unwrap_or(0));
        bits
    }

    /// Returns whether the node is left out if none of its parameters has a value.
    pub(super) fn vanishes(&self) -> bool {
        match self {
            Node::Never | Node::Audience(_) | Node::Test { .. } => false,
            Node::All(nodes) | Node::Any(nodes) => !nodes.is_empty() && nodes.iter().all(Node::vanishes),
            Node::Not(node) | Node::Element(node) => node.vanishes(),
            Node::Field { test, .. } | Node::Member { test, .. } | Node::Size { test, .. } => test.vanishes(),
            Node::Param { .. } => true,
        }
    }

    /// Visits the fields. The test of a field contains no other fields.
    fn each_field<'n>(&'n self, visit: &mut dyn FnMut(&'n Field)) {
        match self {
            Node::All(nodes) | Node::Any(nodes) => nodes.iter().for_each(|node| node.each_field(visit)),
            Node::Not(node) => node.each_field(visit),
            Node::Field { field, .. } => visit(field),
            _ => {}
        }
    }

    fn each_field_mut(&mut self, visit: &mut dyn FnMut(&mut Field)) {
        match self {
            Node::All(nodes) | Node::Any(nodes) => {
                nodes.iter_mut().for_each(|node| node.each_field_mut(visit))
            }
            Node::Not(node) => node.each_field_mut(visit),
            Node::Field { field, .. } => visit(field),
            _ => {}
        }
    }

    fn each_equal_value(
        &self,
        root: Value<'_>,
        subject: Option<Value<'_>>,
        visit: &mut dyn FnMut(u16, Json),
    ) {
        match self {
            Node::Never | Node::Audience(_) | Node::Test { .. } => {}
            Node::All(nodes) | Node::Any(nodes) => {
                nodes.iter().for_each(|node| node.each_equal_value(root, subject, visit));
            }
            Node::Not(node) => node.each_equal_value(root, subject, visit),
            Node::Field { field, test, .. } => test.each_equal_value(root, root.get_path(&field.name), visit),
            Node::Member { name, test, .. } => {
                test.each_equal_value(root, subject.and_then(|value| value.get_path(name)), visit);
            }
            Node::Size { test, .. } => {
                if let Some(Value::Array(items)) = subject {
                    test.each_equal_value(root, Some(Value::Number(items.len() as f64)), visit);
                }
            }
            Node::Element(test) => {
                if let Some(Value::Array(items)) = subject {
                    items.iter().for_each(|item| test.each_equal_value(root, Some(item), visit));
                }
            }
            Node::Param { operator, index } => {
                let actual = subject.unwrap_or(Value::Null);
                equal_values(*operator, actual).into_iter().flatten().for_each(|value| visit(*index, value));
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
