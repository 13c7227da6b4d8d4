//! Any condition is read, compiled and evaluated without a panic. Any program is refused or evaluated without one.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use parallax::testing::condition::program::{
    Accessor, ArchivedProgram, Check, Constant, CountBound, FAILS, HOLDS, Operation, Program, ProgramBuffer,
    Successors, Test, TestSource,
};
use parallax::testing::condition::{
    Audiences, Condition, Document, EncodedDocument, Evaluator, Field, FieldKind, Memo, Operator, Patterns,
    References, Value, Vocabulary, encode, parse_lenient, parse_strict, verify,
};
use serde_json::{Value as Json, json};

static GROUPS: LazyLock<BTreeMap<String, Vec<Json>>> =
    LazyLock::new(|| BTreeMap::from([("staff".to_owned(), vec![json!("u1"), json!(2), json!(null)])]));

static DOCUMENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let document = json!({
        "id": "u1", "n": 5, "m": -0.5, "text": "Hello, World", "yes": true, "none": null, "v": "1.2.3-beta.4",
        "list": [1, "b", null, [2], { "x": 2, "y": { "z": "w" } }], "empty": [], "o": { "p": { "q": [true, false] } },
        "seen": 86_400_000, "events": { "Bought It": [1, 2, 3] }, "a.b": 1,
    });
    let mut bytes = Vec::new();
    encode(&document, &mut bytes);
    bytes
});

/// An odd first byte: the other bytes become a program. An even one: they are a condition in JSON.
pub fn condition(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    if kind & 1 == 1 {
        return run(&program(bytes), &["a".to_owned()]);
    }
    let Ok(source) = serde_json::from_slice(bytes) else { return };
    compile_and_run(&parse_lenient(&source, &GROUPS));
    match parse_strict(&source, &Site) {
        Ok(condition) => compile_and_run(&condition),
        Err(errors) => assert!(errors.iter().all(|error| error.to_string().contains("expected "))),
    }
}

fn compile_and_run(condition: &Condition) {
    let mut sources = Vec::new();
    if let Ok(program) = condition.compile(&mut sources) {
        let archived = ProgramBuffer::new(&program);
        assert_eq!(verify(archived.get(), &references(&sources)), Ok(()));
        run(&program, &sources);
    }
}

/// Returns a program with an operation of each five bytes: test, place, operand, and two successors.
fn program(bytes: &[u8]) -> Program {
    let operations = bytes.chunks_exact(5).map(|bytes| {
        let target = |byte: u8| match byte {
            254 => FAILS,
            255 => HOLDS,
            at => u32::from(at),
        };
        let next = Successors { holds: target(bytes[3]), fails: target(bytes[4]) };
        Operation { test: test(bytes[0], bytes[1], bytes[2]), next }
    });
    Program { operations: operations.collect() }
}

fn test(kind: u8, place: u8, operand: u8) -> Test {
    const NAMES: [&str; 6] = ["n", "text", "list", "list.4", "o.p.q", "x"];
    const OPERATORS: [Operator; 12] = [
        Operator::LooseEq,
        Operator::Ne,
        Operator::Lt,
        Operator::In,
        Operator::Nini,
        Operator::Alli,
        Operator::Exists,
        Operator::Vgte,
        Operator::NotRegexi,
        Operator::NotInGroup,
        Operator::Within,
        Operator::ElemMatch,
    ];
    let name = NAMES[usize::from(place) % NAMES.len()];
    let of = match place >> 6 {
        0 | 1 => Accessor::Field { code: u16::from(place >> 4), name: name.into() },
        2 => Accessor::Member(name.into()),
        _ => Accessor::Element,
    };
    let constant = match operand % 5 {
        0 => Constant::Null,
        1 => Constant::Bool(true),
        2 => Constant::Number(f64::from(operand)),
        3 => Constant::Text(name.into()),
        _ => Constant::Container(vec![5, operand, 0, 0, 0, 1, 0, 0, 0, 1]),
    };
    let source = Box::new(TestSource { path: name.into(), operand: vec![operand] });
    let check = match kind >> 3 & 7 {
        0..=2 => Check::Constant(constant),
        3 => Check::List(vec![constant.clone(), constant]),
        4 => Check::Pattern(u32::from(operand)),
        5 => Check::Group(vec![constant]),
        6 => Check::Within(i64::from(operand)),
        _ => Check::Param(u16::from(operand)),
    };
    let operator = OPERATORS[usize::from(operand) % OPERATORS.len()];
    match kind & 7 {
        0 => Test::Always,
        1 => Test::Audience(u16::from(operand)),
        2 => Test::HasParam(u64::from(operand)),
        3 => Test::IsArray(of),
        4 => Test::AnyElement { array: of, end: u32::from(operand) },
        5 => {
            let bounds = vec![CountBound { operator, count: u64::from(operand) }];
            Test::Count { code: u16::from(place), name: name.into(), within_ms: 0, bounds, source }
        }
        _ => Test::Value { of, is_length: place & 1 == 1, operator, check, source },
    }
}

/// Two audiences and two parameters.
fn references(sources: &[String]) -> References {
    References { fields: 3, audiences: 2, patterns: sources.len(), params: 2 }
}

/// Evaluates a program, unless it is refused, and checks that explaining agrees with deciding.
fn run(program: &Program, sources: &[String]) {
    let program = ProgramBuffer::new(program);
    let Ok(patterns) = Patterns::new(sources) else { return };
    if verify(program.get(), &references(sources)).is_err() {
        return;
    }
    let root = Value::decode(&DOCUMENT).expect("just encoded");
    let mut evaluator = Evaluator {
        document: &Visitor(EncodedDocument { root, now_ms: 100 * 86_400_000 }),
        audiences: &AllAndNone([true, false].map(|holds| ProgramBuffer::new(&Program::constant(holds)))),
        patterns: &patterns,
        params: &[None, Some(Value::Number(5.0))],
        memo: &mut Memo::default(),
    };
    let holds = evaluator.holds(program.get());
    let (traced, leaf) = evaluator.trace(program.get());
    assert_eq!(holds, traced);
    leaf.and_then(|leaf| leaf.actual).map(Value::to_json);
}

/// An audience of all visitors, and one of none.
struct AllAndNone([ProgramBuffer; 2]);

impl Audiences for AllAndNone {
    fn program(&self, index: u16) -> &ArchivedProgram {
        self.0[usize::from(index)].get()
    }
}

const ANY: u16 = 0;
const SEEN: u16 = 1;
const EVENTS: u16 = 2;

/// The names that a strict condition may use.
struct Site;

impl Vocabulary for Site {
    fn field(&self, path: &str) -> Result<Field, Option<String>> {
        let (code, kind) = match path {
            "seen" => (SEEN, FieldKind::Time),
            _ if path.starts_with("events.") => (EVENTS, FieldKind::History),
            _ if path.starts_with('x') => return Err(Some("seen".to_owned())),
            _ => (ANY, FieldKind::Any),
        };
        Ok(Field { code, name: path.to_owned(), kind })
    }

    fn group(&self, name: &str) -> Option<&[Json]> {
        GROUPS.get(name).map(Vec::as_slice)
    }

    fn group_names(&self) -> Vec<&str> {
        vec!["staff"]
    }

    fn audience(&self, name: &str) -> Option<u16> {
        ["everybody", "nobody"].iter().position(|known| *known == name).map(|index| index as u16)
    }

    fn audience_names(&self) -> Vec<&str> {
        vec!["everybody", "nobody"]
    }

    fn time_ms(&self, text: &str) -> Option<i64> {
        text.strip_suffix('Z')?.parse().ok()
    }
}

/// The document. Every event happened three times, the last time now.
struct Visitor<'d>(EncodedDocument<'d>);

impl Document for Visitor<'_> {
    fn get(&self, _code: u16, name: &str) -> Option<Value<'_>> {
        self.0.get(ANY, name)
    }

    fn count(&self, _code: u16, _name: &str, since_ms: Option<i64>) -> u64 {
        match since_ms {
            None => 3,
            Some(since) => u64::from(since <= self.now_ms()),
        }
    }

    fn now_ms(&self) -> i64 {
        self.0.now_ms
    }
}
