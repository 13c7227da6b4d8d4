//! The parser: JSON to the tree of a condition, with all errors found.
//!
//! The two entry points read the same syntax and differ in the treatment of errors. `parse_lenient` is
//! GrowthBook's: a test with an unknown operator, an unknown group or an invalid expression never holds
//! (`$notInGroup` of an unknown group always holds). `parse_strict` returns all errors at once. Its trees
//! respect the nesting limit, and the profile can decide all of their tests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use super::tree::{Condition, Node};
use super::{Field, FieldKind, Operator, Vocabulary};
use crate::limits::{CONDITION_NESTING_MAX, DIAGNOSTIC_TEXT_CHARS_MAX};
use crate::nearest::nearest;

/// The operators that a condition may have beside paths.
pub(super) const CONDITION_OPERATORS: [&str; 5] = ["$and", "$or", "$nor", "$not", "$audience"];

/// The expected path in place of one that has a `*`.
const STRAY_WILDCARD: &str =
    "a path of a known field, with `*` only at the end of the name of an event or page";

/// An author's error in a condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub struct ConditionError {
    /// A JSON pointer (RFC 6901) inside the condition.
    pub pointer: String,
    /// A noun phrase for the valid values.
    pub expected: String,
    /// The actual value, truncated to [`DIAGNOSTIC_TEXT_CHARS_MAX`] characters.
    pub actual: String,
    /// The most similar known name, if there is one.
    pub nearest: Option<String>,
}

impl ConditionError {
    fn message(&self) -> String {
        let nearest = self.nearest.as_ref();
        let hint = nearest.map_or(String::new(), |nearest| format!("; did you mean {nearest}?"));
        format!("{}: expected {}, found {}{hint}", self.pointer, self.expected, self.actual)
    }
}

/// Parses a condition of a site. Returns all errors at once, in the order of the parser.
pub fn parse_strict(source: &Json, vocabulary: &dyn Vocabulary) -> Result<Condition, Vec<ConditionError>> {
    let (condition, faults) = parse(source, vocabulary);
    if faults.is_empty() { Ok(condition) } else { Err(faults) }
}

/// Parses a condition as GrowthBook does. Every path is a field of code 0 and kind `Any`, with the whole path
/// as its name.
pub fn parse_lenient(source: &Json, groups: &BTreeMap<String, Vec<Json>>) -> Condition {
    parse(source, &AnyPathVocabulary { groups }).0
}

fn parse(source: &Json, vocabulary: &dyn Vocabulary) -> (Condition, Vec<ConditionError>) {
    let mut parser = Parser {
        vocabulary,
        errors: Vec::new(),
        audiences: BTreeSet::new(),
        pointer: String::new(),
        nesting: 0,
    };
    let root = parser.parse_condition(source, Scope::Document);
    (Condition { root, audiences: parser.audiences }, parser.errors)
}

/// The value whose members the paths of a condition name.
#[derive(Clone, Copy)]
enum Scope<'s> {
    Document,
    /// An element of the array at `path`.
    Element {
        path: &'s str,
    },
}

/// The value that a test is about.
#[derive(Clone, Copy)]
pub(super) struct Subject<'s> {
    path: &'s str,
    /// `None` after an unknown path, so that one error does not cause others.
    pub(super) kind: Option<FieldKind>,
}

impl Subject<'_> {
    fn accepts(self, operator: Operator) -> bool {
        self.kind.is_none_or(|kind| kind.accepts(operator))
    }

    /// Lists the valid operators, for the error of an unknown one that is similar to none of them.
    fn expected_names(self) -> String {
        let names: Vec<&str> = super::value_operators(self.kind.unwrap_or(FieldKind::Any)).collect();
        format!("an operator: one of {}", names.join(", "))
    }

    /// Describes the valid operators, for the error of one that the field does not accept.
    fn expected_operators(self) -> &'static str {
        match self.kind {
            None | Some(FieldKind::Any) => "an operator for a plain value",
            Some(FieldKind::Time) => "a comparison, $exists, $type or $within, since the field is a time",
            Some(FieldKind::History) => "$count, since the field is a history",
        }
    }
}

pub(super) struct Parser<'v> {
    pub(super) vocabulary: &'v dyn Vocabulary,
    errors: Vec<ConditionError>,
    audiences: BTreeSet<u16>,
    /// The JSON pointer to the current value.
    pointer: String,
    /// The number of nesting operators around the current value.
    nesting: usize,
}

// Conditions: objects of paths and other conditions.
impl Parser<'_> {
    fn parse_condition(&mut self, source: &Json, scope: Scope) -> Node {
        let Json::Object(members) = source else {
            return self.reject("an object that is a condition", source);
        };
        let members = members.iter();
        let nodes = members.map(|(key, operand)| self.at_token(key, |p| p.parse_member(key, operand, scope)));
        Node::all(nodes.collect())
    }

    fn parse_member(&mut self, key: &str, operand: &Json, scope: Scope) -> Node {
        match key {
            "$and" => self.parse_conditions(operand, scope, Node::all),
            "$or" => self.parse_conditions(operand, scope, Node::any),
            "$nor" => self.parse_conditions(operand, scope, |nodes| Node::not(Node::any(nodes))),
            "$not" => self.parse_nested(operand, |p| Node::not(p.parse_condition(operand, scope))),
            "$audience" => self.parse_audience(operand, scope),
            path => self.parse_field(path, operand, scope),
        }
    }

    fn parse_conditions(&mut self, source: &Json, scope: Scope, join: fn(Vec<Node>) -> Node) -> Node {
        let Json::Array(items) = source else {
            return self.reject("an array of conditions", source);
        };
        self.parse_nested(source, |p| {
            join(p.parse_each(items, |p, condition| p.parse_condition(condition, scope)))
        })
    }

    fn parse_audience(&mut self, operand: &Json, scope: Scope) -> Node {
        let (Json::String(name), Scope::Document) = (operand, scope) else {
            return self.reject("the name of an audience, outside of $elemMatch", operand);
        };
        let Some(index) = self.vocabulary.audience(name) else {
            let nearest = nearest(name, self.vocabulary.audience_names());
            return self.reject_with_hint("the name of an audience", name, nearest);
        };
        self.audiences.insert(index);
        Node::Audience(index)
    }

    fn parse_field(&mut self, path: &str, operand: &Json, scope: Scope) -> Node {
        match scope {
            Scope::Element { path: array } => self.parse_element_member(array, path, operand),
            Scope::Document => match self.vocabulary.field(path) {
                Ok(field) => {
                    let subject = Subject { path, kind: Some(field.kind) };
                    let test = Box::new(self.parse_test(operand, subject));
                    Node::Field { path: path.to_owned(), field, test }
                }
                Err(nearest) => self.reject_field(path, operand, nearest),
            },
        }
    }

    fn parse_element_member(&mut self, array_path: &str, name: &str, operand: &Json) -> Node {
        if name.starts_with('$') {
            self.reject_operator(name);
        }
        let path = format!("{array_path}.{name}");
        let test = self.parse_test(operand, Subject { path: &path, kind: Some(FieldKind::Any) });
        Node::Member { path, name: name.to_owned(), test: Box::new(test) }
    }

    fn reject_field(&mut self, path: &str, operand: &Json, nearest_path: Option<String>) -> Node {
        if path.starts_with('$') {
            self.reject_operator(path);
            return Node::Never;
        }
        let expected = if path.contains('*') {
            STRAY_WILDCARD.to_owned()
        } else if nearest_path.is_some() {
            "a path of a known field".to_owned()
        } else {
            self.vocabulary.expected_paths(path)
        };
        let never = self.reject_with_hint(&expected, path, nearest_path);
        self.parse_test(operand, Subject { path, kind: None });
        never
    }

    fn reject_operator(&mut self, name: &str) {
        let expected = "a path, or one of $and, $or, $nor, $not and $audience";
        self.reject_with_hint(expected, name, nearest(name, CONDITION_OPERATORS));
    }

    // Tests of one value.

    fn parse_test(&mut self, source: &Json, subject: Subject) -> Node {
        if let Some(param) = self.parse_param(Operator::LooseEq, source) {
            return param;
        }
        match source {
            Json::Object(members) if has_only_operators(members) => {
                let members = members.iter();
                let nodes = members
                    .map(|(key, operand)| self.at_token(key, |p| p.parse_operator(key, operand, subject)));
                Node::all(nodes.collect())
            }
            _ => self.parse_literal(source, subject),
        }
    }

    fn parse_literal(&mut self, source: &Json, subject: Subject) -> Node {
        let mixes = |members: &Map<String, Json>| members.keys().any(|key| is_operator(key));
        if source.as_object().is_some_and(mixes) {
            self.reject("operators only, or members only", source);
            // As in GrowthBook, this object is a literal like any other.
            let path = subject.path;
            return self.parse_comparison(Operator::LooseEq, source, Subject { path, kind: None });
        }
        if !subject.accepts(Operator::LooseEq) {
            return self.reject(subject.expected_operators(), source);
        }
        self.parse_comparison(Operator::LooseEq, source, subject)
    }

    fn parse_operator(&mut self, name: &str, operand: &Json, subject: Subject) -> Node {
        let Some(operator) = Operator::from_name(name) else {
            let names = Operator::NAMES.iter().map(|(_, name)| *name);
            let nearest = nearest(name, names);
            let expected =
                if nearest.is_some() { "an operator".to_owned() } else { subject.expected_names() };
            return self.reject_with_hint(&expected, name, nearest);
        };
        if !subject.accepts(operator) {
            return self.reject_with_hint(subject.expected_operators(), name, None);
        }
        match operator {
            Operator::Not => self.parse_nested(operand, |p| Node::not(p.parse_test(operand, subject))),
            Operator::ElemMatch => self.parse_elem_match(operand, subject.path),
            Operator::Size => self.parse_size(operand, subject.path),
            Operator::Regex | Operator::NotRegex => self.parse_pattern(operator, operand, false),
            Operator::Regexi | Operator::NotRegexi => self.parse_pattern(operator, operand, true),
            Operator::InGroup | Operator::NotInGroup => self.parse_group(operator, operand),
            Operator::Within => self.parse_within(operand),
            Operator::Count => self.parse_count(operand),
            _ => self.parse_comparison(operator, operand, subject),
        }
    }

    /// Parses an `$elemMatch`. As in GrowthBook, an object of operators tests the element itself. Any other
    /// object tests the members of the element.
    fn parse_elem_match(&mut self, operand: &Json, path: &str) -> Node {
        let Json::Object(members) = operand else {
            return self.reject("an object that is a condition on an element", operand);
        };
        self.parse_nested(operand, |p| {
            Node::Element(Box::new(if has_only_operators(members) {
                p.parse_test(operand, Subject { path, kind: Some(FieldKind::Any) })
            } else {
                p.parse_condition(operand, Scope::Element { path })
            }))
        })
    }

    fn parse_size(&mut self, operand: &Json, path: &str) -> Node {
        if !(operand.is_u64() || operand.as_object().is_some_and(has_only_operators)) {
            self.reject("a whole number, or operators on one", operand);
        }
        self.parse_nested(operand, |p| {
            let path = format!("{path}.$size");
            let test = p.parse_test(operand, Subject { path: &path, kind: Some(FieldKind::Any) });
            Node::Size { path, test: Box::new(test) }
        })
    }

    // The current position, and errors.

    pub(super) fn at_token<T>(&mut self, token: &str, parse: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(&token.replace('~', "~0").replace('/', "~1"));
        let parsed = parse(self);
        self.pointer.truncate(length);
        parsed
    }

    pub(super) fn parse_each<T>(&mut self, items: &[Json], parse: impl Fn(&mut Self, &Json) -> T) -> Vec<T> {
        let items = items.iter().enumerate();
        items.map(|(index, item)| self.at_token(&index.to_string(), |p| parse(p, item))).collect()
    }

    /// Parses the operand of a nesting operator, unless the nesting limit is reached.
    fn parse_nested(&mut self, operand: &Json, parse: impl FnOnce(&mut Self) -> Node) -> Node {
        if self.nesting == CONDITION_NESTING_MAX {
            return self.reject(&format!("at most {CONDITION_NESTING_MAX} nested operators"), operand);
        }
        self.nesting += 1;
        let node = parse(self);
        self.nesting -= 1;
        node
    }

    pub(super) fn check(&mut self, holds: bool, expected: &str, source: &Json) {
        if !holds {
            self.reject(expected, source);
        }
    }

    pub(super) fn reject(&mut self, expected: &str, source: &Json) -> Node {
        self.reject_with_hint(expected, &source.to_string(), None)
    }

    pub(super) fn reject_with_hint(
        &mut self,
        expected: &str,
        actual: &str,
        nearest_name: Option<String>,
    ) -> Node {
        self.errors.push(ConditionError {
            pointer: self.pointer.clone(),
            expected: expected.to_owned(),
            actual: truncate(actual),
            nearest: nearest_name,
        });
        Node::Never
    }
}

fn is_operator(key: &str) -> bool {
    key.starts_with('$')
}

pub(super) fn has_only_operators(members: &Map<String, Json>) -> bool {
    !members.is_empty() && members.keys().all(|key| is_operator(key))
}

fn truncate(text: &str) -> String {
    match text.char_indices().nth(DIAGNOSTIC_TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// GrowthBook's vocabulary: every path is known, and there are no audiences.
struct AnyPathVocabulary<'g> {
    groups: &'g BTreeMap<String, Vec<Json>>,
}

impl Vocabulary for AnyPathVocabulary<'_> {
    fn field(&self, path: &str) -> Result<Field, Option<String>> {
        Ok(Field { code: 0, name: path.to_owned(), kind: FieldKind::Any })
    }

    fn group(&self, name: &str) -> Option<&[Json]> {
        self.groups.get(name).map(Vec::as_slice)
    }

    fn group_names(&self) -> Vec<&str> {
        Vec::new()
    }
}
