//! JSON > the tree of a condition, and what is wrong with it.
//!
//! Both entrances read alike; they differ in what a mistake does. [`lenient`] is GrowthBook's: an
//! operator, group or expression it cannot make sense of holds for nothing (`$notInGroup` of an
//! unknown group for everything). [`strict`] refuses, naming every mistake at once. Trees from
//! `strict` hold to the bounds on nesting, and to what the profile can decide.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use super::tree::{Condition, Node};
use super::{Field, Kind, Operator, Vocabulary};
use crate::limits::{CONDITION_NESTING_MAX, FAULT_TEXT_CHARS_MAX};
use crate::nearest::nearest;

/// What may stand at a condition beside paths.
const CONDITION_OPERATORS: [&str; 5] = ["$and", "$or", "$nor", "$not", "$audience"];

/// One mistake of an author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: expected {expected}, but {came} came{}", self.hint())]
pub struct Fault {
    /// Where it stands: a JSON pointer (RFC 6901) inside the condition.
    pub pointer: String,
    /// What may stand there.
    pub expected: String,
    /// What stands there, shortened to [`FAULT_TEXT_CHARS_MAX`].
    pub came: String,
    /// The known word that is most like it, if one is.
    pub nearest: Option<String>,
}

impl Fault {
    fn hint(&self) -> String {
        self.nearest.as_ref().map_or(String::new(), |nearest| format!("; did you mean {nearest}?"))
    }
}

/// Reads a condition of a site; all its mistakes at once, in the order they are met.
pub fn strict(source: &Json, vocabulary: &dyn Vocabulary) -> Result<Condition, Vec<Fault>> {
    let (condition, faults) = read(source, vocabulary);
    if faults.is_empty() { Ok(condition) } else { Err(faults) }
}

/// Reads a condition as GrowthBook does. Every path is a field of code 0 and kind Any, its name the
/// whole path.
pub fn lenient(source: &Json, groups: &BTreeMap<String, Vec<Json>>) -> Condition {
    read(source, &AnyPath { groups }).0
}

fn read(source: &Json, vocabulary: &dyn Vocabulary) -> (Condition, Vec<Fault>) {
    let mut parser = Parser {
        vocabulary,
        faults: Vec::new(),
        audiences: BTreeSet::new(),
        pointer: String::new(),
        nesting: 0,
    };
    let root = parser.condition(source, Scope::Document);
    (Condition { root, audiences: parser.audiences }, parser.faults)
}

/// Whose members the paths of a condition name.
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
    /// `None` behind an unknown path: one mistake is not to bring forth others.
    pub(super) kind: Option<Kind>,
}

impl Subject<'_> {
    fn takes(self, operator: Operator) -> bool {
        use Operator::{Count, Eq, Exists, Gt, Gte, In, Is, Lt, Lte, Ne, Nin, Not, Type, Within};
        match self.kind {
            None => true,
            Some(Kind::Any) => !matches!(operator, Within | Count),
            Some(Kind::History) => matches!(operator, Count | Not),
            Some(Kind::Time) => matches!(
                operator,
                Is | Eq | Ne | Gt | Gte | Lt | Lte | In | Nin | Exists | Type | Not | Within
            ),
        }
    }

    /// What its operators are, for a fault.
    fn operators(self) -> &'static str {
        match self.kind {
            None | Some(Kind::Any) => "an operator that a plain value takes",
            Some(Kind::Time) => "a comparison, $exists, $type or $within, as a time takes",
            Some(Kind::History) => "$count, as a history takes",
        }
    }
}

pub(super) struct Parser<'v> {
    pub(super) vocabulary: &'v dyn Vocabulary,
    faults: Vec<Fault>,
    audiences: BTreeSet<u16>,
    /// Where the parser stands.
    pointer: String,
    /// Operators that hold what it looks at.
    nesting: usize,
}

/// Conditions: what paths and other conditions stand in.
impl Parser<'_> {
    fn condition(&mut self, source: &Json, scope: Scope) -> Node {
        let Json::Object(members) = source else {
            return self.never("an object: a condition", source);
        };
        let members = members.iter();
        let nodes = members.map(|(key, operand)| self.at(key, |p| p.member(key, operand, scope)));
        Node::all(nodes.collect())
    }

    fn member(&mut self, key: &str, operand: &Json, scope: Scope) -> Node {
        match key {
            "$and" => self.conditions(operand, scope, Node::all),
            "$or" => self.conditions(operand, scope, Node::any),
            "$nor" => self.conditions(operand, scope, |nodes| Node::not(Node::any(nodes))),
            "$not" => self.nested(operand, |p| Node::not(p.condition(operand, scope))),
            "$audience" => self.audience(operand, scope),
            path => self.field(path, operand, scope),
        }
    }

    fn conditions(&mut self, source: &Json, scope: Scope, join: fn(Vec<Node>) -> Node) -> Node {
        let Json::Array(items) = source else {
            return self.never("an array of conditions", source);
        };
        self.nested(source, |p| join(p.each(items, |p, condition| p.condition(condition, scope))))
    }

    fn audience(&mut self, operand: &Json, scope: Scope) -> Node {
        let (Json::String(name), Scope::Document) = (operand, scope) else {
            return self.never("the name of an audience, and not in an $elemMatch", operand);
        };
        let Some(index) = self.vocabulary.audience(name) else {
            let nearest = nearest(name, self.vocabulary.audience_names());
            return self.unknown("the name of an audience", name, nearest);
        };
        self.audiences.insert(index);
        Node::Audience(index)
    }

    fn field(&mut self, path: &str, operand: &Json, scope: Scope) -> Node {
        match scope {
            Scope::Element { path: array } => self.element_member(array, path, operand),
            Scope::Document => match self.vocabulary.field(path) {
                Ok(field) => {
                    let subject = Subject { path, kind: Some(field.kind) };
                    let test = Box::new(self.test(operand, subject));
                    Node::Field { path: path.to_owned(), field, test }
                }
                Err(nearest) => self.unknown_field(path, operand, nearest),
            },
        }
    }

    fn element_member(&mut self, array: &str, name: &str, operand: &Json) -> Node {
        if name.starts_with('$') {
            self.fault_operator(name);
        }
        let path = format!("{array}.{name}");
        let test = self.test(operand, Subject { path: &path, kind: Some(Kind::Any) });
        Node::Member { path, name: name.to_owned(), test: Box::new(test) }
    }

    fn unknown_field(&mut self, path: &str, operand: &Json, nearest: Option<String>) -> Node {
        if path.starts_with('$') {
            self.fault_operator(path);
            return Node::Never;
        }
        let never = self.unknown("a path that can be asked for", path, nearest);
        self.test(operand, Subject { path, kind: None });
        never
    }

    fn fault_operator(&mut self, name: &str) {
        let expected = "a path, or one of $and $or $nor $not $audience";
        self.unknown(expected, name, nearest(name, CONDITION_OPERATORS));
    }
}

/// Tests: what stands at one value.
impl Parser<'_> {
    fn test(&mut self, source: &Json, subject: Subject) -> Node {
        if let Some(param) = self.param(Operator::Is, source) {
            return param;
        }
        match source {
            Json::Object(members) if holds_operators(members) => {
                let members = members.iter();
                let nodes = members.map(|(key, operand)| self.at(key, |p| p.operator(key, operand, subject)));
                Node::all(nodes.collect())
            }
            _ => self.literal(source, subject),
        }
    }

    fn literal(&mut self, source: &Json, subject: Subject) -> Node {
        let mixes = |members: &Map<String, Json>| members.keys().any(|key| is_operator(key));
        if source.as_object().is_some_and(mixes) {
            self.never("operators only, or members only", source);
            // As in GrowthBook it is an object like any other.
            let path = subject.path;
            return self.compare(Operator::Is, source, Subject { path, kind: None });
        }
        if !subject.takes(Operator::Is) {
            return self.never(subject.operators(), source);
        }
        self.compare(Operator::Is, source, subject)
    }

    fn operator(&mut self, name: &str, operand: &Json, subject: Subject) -> Node {
        let Some(operator) = Operator::named(name) else {
            let names = Operator::NAMED.iter().map(|(_, name)| *name);
            return self.unknown("an operator", name, nearest(name, names));
        };
        if !subject.takes(operator) {
            return self.unknown(subject.operators(), name, None);
        }
        match operator {
            Operator::Not => self.nested(operand, |p| Node::not(p.test(operand, subject))),
            Operator::ElemMatch => self.elem_match(operand, subject.path),
            Operator::Size => self.size(operand, subject.path),
            Operator::Regex | Operator::NotRegex => self.pattern(operator, operand, false),
            Operator::Regexi | Operator::NotRegexi => self.pattern(operator, operand, true),
            Operator::InGroup | Operator::NotInGroup => self.group(operator, operand),
            Operator::Within => self.within(operand),
            Operator::Count => self.count(operand),
            _ => self.compare(operator, operand, subject),
        }
    }

    /// As in GrowthBook, an object of operators is about the element itself, any other one about
    /// its members.
    fn elem_match(&mut self, operand: &Json, path: &str) -> Node {
        let Json::Object(members) = operand else {
            return self.never("an object: a condition on an element", operand);
        };
        self.nested(operand, |p| {
            Node::Element(Box::new(if holds_operators(members) {
                p.test(operand, Subject { path, kind: Some(Kind::Any) })
            } else {
                p.condition(operand, Scope::Element { path })
            }))
        })
    }

    fn size(&mut self, operand: &Json, path: &str) -> Node {
        if !(operand.is_u64() || operand.as_object().is_some_and(holds_operators)) {
            self.never("a whole number, or operators on one", operand);
        }
        self.nested(operand, |p| {
            let path = format!("{path}.$size");
            let test = p.test(operand, Subject { path: &path, kind: Some(Kind::Any) });
            Node::Size { path, test: Box::new(test) }
        })
    }
}

/// Where the parser stands, and what it holds against it.
impl Parser<'_> {
    pub(super) fn at<T>(&mut self, token: &str, parse: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(&token.replace('~', "~0").replace('/', "~1"));
        let parsed = parse(self);
        self.pointer.truncate(length);
        parsed
    }

    pub(super) fn each<T>(&mut self, items: &[Json], parse: impl Fn(&mut Self, &Json) -> T) -> Vec<T> {
        let items = items.iter().enumerate();
        items.map(|(index, item)| self.at(&index.to_string(), |p| parse(p, item))).collect()
    }

    /// Reads what an operator holds, unless that many hold it already.
    fn nested(&mut self, source: &Json, parse: impl FnOnce(&mut Self) -> Node) -> Node {
        if self.nesting == CONDITION_NESTING_MAX {
            return self.never(&format!("at most {CONDITION_NESTING_MAX} levels"), source);
        }
        self.nesting += 1;
        let node = parse(self);
        self.nesting -= 1;
        node
    }

    pub(super) fn expect(&mut self, holds: bool, expected: &str, source: &Json) {
        if !holds {
            self.never(expected, source);
        }
    }

    pub(super) fn never(&mut self, expected: &str, source: &Json) -> Node {
        self.unknown(expected, &source.to_string(), None)
    }

    pub(super) fn unknown(&mut self, expected: &str, came: &str, nearest: Option<String>) -> Node {
        self.faults.push(Fault {
            pointer: self.pointer.clone(),
            expected: expected.to_owned(),
            came: shortened(came),
            nearest,
        });
        Node::Never
    }
}

fn is_operator(key: &str) -> bool {
    key.starts_with('$')
}

pub(super) fn holds_operators(members: &Map<String, Json>) -> bool {
    !members.is_empty() && members.keys().all(|key| is_operator(key))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(FAULT_TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// GrowthBook's vocabulary: paths are whatever is written, audiences there are none.
struct AnyPath<'g> {
    groups: &'g BTreeMap<String, Vec<Json>>,
}

impl Vocabulary for AnyPath<'_> {
    fn field(&self, path: &str) -> Result<Field, Option<String>> {
        Ok(Field { code: 0, name: path.to_owned(), kind: Kind::Any })
    }

    fn group(&self, name: &str) -> Option<&[Json]> {
        self.groups.get(name).map(Vec::as_slice)
    }

    fn group_names(&self) -> Vec<&str> {
        Vec::new()
    }
}
