//! Programs that `compile` never writes: valid ones agree with a naive evaluation, others are refused.

use parallax::testing::condition::program::{
    Accessor, Check, Constant, CountBound, FAILS, HOLDS, Operation, Program, ProgramBuffer, Successors, Test,
    TestSource,
};
use parallax::testing::condition::{Operator, References, verify};
use parallax::testing::limits::CONDITION_NESTING_MAX;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value as Json, json};

use super::properties::{document, scalar};
use super::{encoded, oracle, run};

/// An operation before its place in a program is known.
#[derive(Debug, Clone)]
struct Draft {
    test: DraftTest,
    /// Each selects one of the following operations of the same body, or an end.
    holds: Index,
    fails: Index,
}

#[derive(Debug, Clone)]
enum DraftTest {
    Always,
    IsArray(&'static str),
    Value { path: &'static str, is_length: bool, operator: Operator, operand: Json },
    AnyElement(&'static str, Vec<Draft>),
}

/// The operators of the generated tests, with their names for the naive evaluation.
const OPERATORS: [(Operator, &str); 8] = [
    (Operator::Eq, "$eq"),
    (Operator::Ne, "$ne"),
    (Operator::Gt, "$gt"),
    (Operator::Lte, "$lte"),
    (Operator::Vgte, "$vgte"),
    (Operator::In, "$in"),
    (Operator::Nini, "$nini"),
    (Operator::All, "$all"),
];

fn takes_list(operator: Operator) -> bool {
    matches!(operator, Operator::In | Operator::Nini | Operator::All)
}

fn drafts() -> impl Strategy<Value = Vec<Draft>> {
    let path = || select(vec!["a", "b", "", "a.0"]);
    let operator = select(OPERATORS.map(|(operator, _)| operator).to_vec());
    let value = (path(), any::<bool>(), operator, prop::collection::vec(scalar(), 1..3));
    let value = value.prop_map(|(path, is_length, operator, mut operands)| {
        let operand = if takes_list(operator) { operands.into() } else { operands.remove(0) };
        DraftTest::Value { path, is_length, operator, operand }
    });
    let leaf = prop_oneof![Just(DraftTest::Always), path().prop_map(DraftTest::IsArray), value];
    let successors = (any::<Index>(), any::<Index>());
    let draft = (leaf, successors.clone()).prop_map(|(test, (holds, fails))| Draft { test, holds, fails });
    let draft = draft.prop_recursive(3, 16, 4, move |inner| {
        let body = (path(), prop::collection::vec(inner, 1..4), successors.clone());
        body.prop_map(|(path, body, (holds, fails))| Draft {
            test: DraftTest::AnyElement(path, body),
            holds,
            fails,
        })
    });
    prop::collection::vec(draft, 1..5)
}

/// Appends the operations of a body, or of the whole program.
fn write(drafts: &[Draft], is_body: bool, operations: &mut Vec<Operation>) {
    let mut places: Vec<u32> = Vec::new();
    let mut at = operations.len();
    for draft in drafts {
        places.push(at as u32);
        at += draft.length();
    }
    for (number, draft) in drafts.iter().enumerate() {
        let targets = [&places[number + 1..], &[HOLDS, FAILS]].concat();
        let next = Successors { holds: *draft.holds.get(&targets), fails: *draft.fails.get(&targets) };
        let test = draft.test.to_test(is_body, operations.len());
        operations.push(Operation { test, next });
        if let DraftTest::AnyElement(_, body) = &draft.test {
            write(body, true, operations);
        }
    }
}

impl Draft {
    fn length(&self) -> usize {
        match &self.test {
            DraftTest::AnyElement(_, body) => 1 + body.iter().map(Self::length).sum::<usize>(),
            _ => 1,
        }
    }
}

impl DraftTest {
    fn to_test(&self, is_body: bool, at: usize) -> Test {
        let accessor = |path| match named(path, is_body) {
            path if !is_body => Accessor::Field { code: 0, name: path.into() },
            "" => Accessor::Element,
            path => Accessor::Member(path.into()),
        };
        let constants = |items: &[Json]| items.iter().map(constant).collect();
        match self {
            Self::Always => Test::Always,
            Self::IsArray(path) => Test::IsArray(accessor(path)),
            Self::Value { path, is_length, operator, operand } => {
                let check = match operand {
                    Json::Array(items) => Check::List(constants(items)),
                    single => Check::Constant(constant(single)),
                };
                let of = accessor(path);
                Test::Value { of, is_length: *is_length, operator: *operator, check, source: source() }
            }
            Self::AnyElement(path, body) => {
                let end = at + 1 + body.iter().map(Draft::length).sum::<usize>();
                Test::AnyElement { array: accessor(path), end: end as u32 }
            }
        }
    }
}

/// Returns the path that a test names. The empty path is the element of a body, which a document does not have.
fn named(path: &'static str, is_body: bool) -> &'static str {
    if path.is_empty() && !is_body { "c" } else { path }
}

fn constant(json: &Json) -> Constant {
    match json {
        Json::Null => Constant::Null,
        Json::Bool(flag) => Constant::Bool(*flag),
        Json::Number(number) => Constant::Number(number.as_f64().unwrap()),
        Json::String(text) => Constant::Text(text.as_str().into()),
        container => Constant::Container(encoded(container)),
    }
}

fn source() -> Box<TestSource> {
    Box::new(TestSource { path: "a".into(), operand: Vec::new() })
}

/// Evaluates drafts over `root`: the document, or the element of a body.
fn holds(drafts: &[Draft], is_body: bool, root: &Json) -> bool {
    let mut at = 0;
    loop {
        let following: Vec<usize> = (at + 1..drafts.len()).collect();
        let targets = [&following[..], &[HOLDS as usize, FAILS as usize]].concat();
        let chosen =
            if test_holds(&drafts[at].test, is_body, root) { drafts[at].holds } else { drafts[at].fails };
        match *chosen.get(&targets) {
            end if end == HOLDS as usize => return true,
            end if end == FAILS as usize => return false,
            next => at = next,
        }
    }
}

fn test_holds(test: &DraftTest, is_body: bool, root: &Json) -> bool {
    let lookup = |path| match named(path, is_body) {
        "" => root.clone(),
        path => root.pointer(&format!("/{}", path.replace('.', "/"))).cloned().unwrap_or_default(),
    };
    match test {
        DraftTest::Always => true,
        DraftTest::IsArray(path) => lookup(path).is_array(),
        DraftTest::AnyElement(path, body) => {
            lookup(path).as_array().is_some_and(|items| items.iter().any(|item| holds(body, true, item)))
        }
        DraftTest::Value { path, is_length, operator, operand } => {
            let mut actual = lookup(path);
            if *is_length {
                actual = actual.as_array().map(|items| items.len().into()).unwrap_or_default();
            }
            let name = OPERATORS.iter().find(|(known, _)| known == operator).unwrap().1;
            oracle::holds(&json!({ "x": { name: operand } }), &json!({ "x": actual }), &Default::default())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn valid_programs_agree_with_a_naive_evaluation(drafts in drafts(), document in document()) {
        let mut operations = Vec::new();
        write(&drafts, false, &mut operations);
        let program = Program { operations };
        prop_assert_eq!(run(&program, &[], &document), Ok(holds(&drafts, false, &document)));
    }

    #[test]
    fn damaged_programs_are_refused_or_evaluated(
        drafts in drafts(),
        document in document(),
        damage in prop::collection::vec((any::<Index>(), 0..6_u32, any::<[bool; 3]>()), 1..4),
    ) {
        let mut operations = Vec::new();
        write(&drafts, false, &mut operations);
        for (at, target, places) in damage {
            let operation = at.get_mut(&mut operations[..]);
            let [is_holds, is_fails, is_end] = places;
            if is_holds {
                operation.next.holds = target;
            }
            if is_fails {
                operation.next.fails = target;
            }
            if let (true, Test::AnyElement { end, .. }) = (is_end, &mut operation.test) {
                *end = target;
            }
        }
        let _ = run(&Program { operations }, &[], &document);
    }
}

/// Two fields, one audience, one pattern and two parameters.
const REFERENCES: References = References { fields: 2, audiences: 1, patterns: 1, params: 2 };

fn fault(operations: Vec<Operation>) -> Option<&'static str> {
    verify(ProgramBuffer::new(&Program { operations }).get(), &REFERENCES).err()
}

fn operation(test: Test, holds: u32, fails: u32) -> Operation {
    Operation { test, next: Successors { holds, fails } }
}

fn field(code: u16) -> Accessor {
    Accessor::Field { code, name: "a".into() }
}

fn value(of: Accessor, operator: Operator, check: Check) -> Operation {
    operation(Test::Value { of, is_length: false, operator, check, source: source() }, HOLDS, FAILS)
}

fn any_element(end: u32) -> Operation {
    operation(Test::AnyElement { array: field(0), end }, HOLDS, FAILS)
}

#[test]
fn operations_without_a_valid_successor_are_refused() {
    let always = |holds, fails| operation(Test::Always, holds, fails);
    let end = || always(HOLDS, FAILS);
    assert_eq!(fault(vec![always(1, FAILS), end()]), None);
    assert_eq!(fault(Vec::new()), Some("a condition has no operations"));
    let astray = Some("an operation of a condition has no valid successor");
    // To itself, to one before it, behind the last one, and far away.
    for target in [1, 0, 2, u32::MAX / 2, FAILS - 1] {
        assert_eq!(fault(vec![end(), always(target, FAILS)]), astray, "{target}");
        assert_eq!(fault(vec![end(), always(HOLDS, target)]), astray, "{target}");
    }
    // Into a body, out of a body, and from one body to another.
    let element = || operation(Test::IsArray(Accessor::Element), HOLDS, FAILS);
    let from_element = |target| operation(Test::IsArray(Accessor::Element), target, FAILS);
    assert_eq!(fault(vec![any_element(2), element(), end()]), None);
    assert_eq!(fault(vec![always(2, FAILS), any_element(3), element()]), astray);
    assert_eq!(fault(vec![operation(any_element(2).test, 1, FAILS), element()]), astray);
    assert_eq!(fault(vec![any_element(2), from_element(2), end()]), astray);
    assert_eq!(fault(vec![any_element(2), from_element(3), any_element(4), element()]), astray);
}

#[test]
fn bodies_that_end_at_a_wrong_place_or_nest_too_deep_are_refused() {
    let element = || operation(Test::IsArray(Accessor::Element), HOLDS, FAILS);
    let inner = |end| operation(Test::AnyElement { array: Accessor::Element, end }, HOLDS, FAILS);
    let wrong = Some("an $elemMatch has no operations, or too many");
    for end in [0, 1, 3, u32::MAX] {
        assert_eq!(fault(vec![any_element(end), element()]), wrong, "{end}");
    }
    assert_eq!(fault(vec![any_element(3), inner(4), element(), element()]), wrong);
    let nested = |depth: usize| {
        let end = depth as u32 + 1;
        let bodies = (0..depth).map(|at| if at == 0 { any_element(end) } else { inner(end) });
        fault(bodies.chain([element()]).collect())
    };
    assert_eq!(nested(CONDITION_NESTING_MAX), None);
    assert_eq!(nested(CONDITION_NESTING_MAX + 1), Some("a condition is nested too deep"));
}

#[test]
fn references_to_missing_things_are_refused() {
    let is_array = |of| operation(Test::IsArray(of), HOLDS, FAILS);
    let pattern = |index| value(field(0), Operator::Regex, Check::Pattern(index));
    let param = |index| value(field(0), Operator::Gte, Check::Param(index));
    let audience = |index| operation(Test::Audience(index), HOLDS, FAILS);
    let has_param = |bits| operation(Test::HasParam(bits), HOLDS, FAILS);
    let count = |code| {
        let bounds = vec![CountBound { operator: Operator::Gte, count: 1 }];
        let test = Test::Count { code, name: "a".into(), within_ms: 0, bounds, source: source() };
        operation(test, HOLDS, FAILS)
    };
    for valid in [is_array(field(1)), count(1), pattern(0), param(1), audience(0), has_param(3)] {
        assert_eq!(fault(vec![valid]), None);
    }
    for (forged, what) in [
        (is_array(field(2)), "or misplaced field"),
        (count(u16::MAX), "or misplaced field"),
        (pattern(1), "regular expression"),
        (param(2), "parameter"),
        (has_param(4), "parameter"),
        (has_param(u64::MAX), "parameter"),
        (audience(1), "or misplaced audience"),
    ] {
        assert_eq!(fault(vec![forged]).unwrap(), format!("a condition refers to a missing {what}"));
    }
    let outside = Some("a condition tests an element outside of an $elemMatch");
    assert_eq!(fault(vec![is_array(Accessor::Element)]), outside);
    assert_eq!(fault(vec![is_array(Accessor::Member("a".into()))]), outside);
    // An element has no fields and belongs to no audience.
    assert!(fault(vec![any_element(2), is_array(field(0))]).unwrap().contains("field"));
    assert!(fault(vec![any_element(2), audience(0)]).unwrap().contains("audience"));
}

#[test]
fn operators_with_a_wrong_operand_and_malformed_constants_are_refused() {
    let wrong = Some("a condition has an operator that does not accept its operand");
    for (operator, check) in [
        (Operator::In, Check::Constant(Constant::Null)),
        (Operator::Regex, Check::Constant(Constant::Null)),
        (Operator::ElemMatch, Check::Constant(Constant::Null)),
        (Operator::Eq, Check::List(Vec::new())),
        (Operator::InGroup, Check::List(Vec::new())),
        (Operator::In, Check::Group(Vec::new())),
        (Operator::Eq, Check::Pattern(0)),
        (Operator::Gt, Check::Within(1)),
        (Operator::In, Check::Param(0)),
    ] {
        assert_eq!(fault(vec![value(field(0), operator, check)]), wrong, "{operator:?}");
    }
    let count = |operator| {
        let bounds = vec![CountBound { operator, count: 1 }];
        let test = Test::Count { code: 0, name: "a".into(), within_ms: 0, bounds, source: source() };
        fault(vec![operation(test, HOLDS, FAILS)])
    };
    assert_eq!(count(Operator::Lt), None);
    assert_eq!(count(Operator::LooseEq), Some("a condition has an operator that takes no count"));
    let whole = encoded(&json!(["a"]));
    let malformed = [Vec::new(), vec![255], encoded(&json!("a")), whole[..whole.len() - 1].to_vec()];
    for bytes in malformed {
        let broken = Some("a condition has a malformed array or object");
        let constant = || Constant::Container(bytes.clone());
        assert_eq!(fault(vec![value(field(0), Operator::Eq, Check::Constant(constant()))]), broken);
        assert_eq!(fault(vec![value(field(0), Operator::In, Check::List(vec![constant()]))]), broken);
        assert_eq!(
            fault(vec![value(field(0), Operator::NotInGroup, Check::Group(vec![constant()]))]),
            broken
        );
    }
}
