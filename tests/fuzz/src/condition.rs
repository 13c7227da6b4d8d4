//! Any condition is read, compiled and evaluated without a panic, and any program is evaluated without one.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use parallax::testing::condition::{
    Condition, Document, EncodedDocument, Evaluator, Field, FieldKind, Memo, Patterns, Value, Vocabulary,
    encode, parse_lenient, parse_strict,
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

/// An odd first byte: the other bytes are a program. An even one: they are a condition in JSON.
pub fn condition(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    if kind & 1 == 1 {
        return run(bytes, &[]);
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
        run(&program, &sources);
    }
}

/// Evaluates a program and checks that explaining agrees with deciding.
fn run(program: &[u8], sources: &[String]) {
    let Ok(patterns) = Patterns::new(sources) else { return };
    let encoded =
        EncodedDocument { root: Value::decode(&DOCUMENT).expect("just encoded"), now_ms: 100 * 86_400_000 };
    let mut evaluator = Evaluator {
        document: &Visitor(encoded),
        // Audience 0 is the empty program. Audience 1 is the program itself.
        audiences: &[&[][..], program][..],
        patterns: &patterns,
        memo: &mut Memo::default(),
    };
    let holds = evaluator.holds(program);
    let (traced, leaf) = evaluator.trace(program);
    assert_eq!(holds, traced);
    if let Some(leaf) = leaf {
        leaf.expected.to_json();
        leaf.actual.map(Value::to_json);
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
        ["nobody", "itself"].iter().position(|known| *known == name).map(|index| index as u16)
    }

    fn audience_names(&self) -> Vec<&str> {
        vec!["nobody", "itself"]
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
