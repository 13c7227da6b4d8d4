//! Conditions: GrowthBook's cases, the syntax that sites may use, evaluation, and explanations.

mod bounds;
mod bucket;
mod cases;
mod faults;
mod forged;
pub mod oracle;
mod properties;
mod sites;
mod tables;

use std::cell::Cell;
use std::collections::BTreeMap;

use parallax::testing::condition::program::{ArchivedProgram, Program, ProgramBuffer};
use parallax::testing::condition::{
    Audiences, Condition, ConditionError, Document, EncodedDocument, Evaluator, Field, FieldKind, Memo,
    NoAudiences, Patterns, References, Value, Vocabulary, encode, parse_lenient, parse_strict, verify,
};
use parallax::testing::nearest::nearest;
use serde_json::{Value as Json, json};

type Groups = BTreeMap<String, Vec<Json>>;

const DAY_MS: i64 = 86_400_000;

/// Returns whether the condition holds for the document, both read leniently, as GrowthBook does.
pub fn holds_leniently(condition: &Json, document: &Json, groups: &Groups) -> bool {
    let mut patterns = Vec::new();
    let condition = parse_lenient(condition, groups);
    let program = condition.compile(&mut patterns).expect("the program is small");
    run(&program, &patterns, document).expect("a compiled program is valid")
}

/// Verifies a program and runs it over a JSON document. Asserts that the trace gives the same result.
fn run(program: &Program, sources: &[String], document: &Json) -> Result<bool, &'static str> {
    let program = ProgramBuffer::new(program);
    let references = References { fields: 1, audiences: 0, patterns: sources.len(), params: 0 };
    verify(program.get(), &references)?;
    let bytes = encoded(document);
    let document = EncodedDocument { root: Value::decode(&bytes).expect("just encoded"), now_ms: 0 };
    let patterns = Patterns::new(sources).expect("the parser checked the patterns");
    let mut evaluator = Evaluator {
        document: &document,
        audiences: &NoAudiences,
        patterns: &patterns,
        params: &[],
        memo: &mut Memo::default(),
    };
    let holds = evaluator.holds(program.get());
    let (traced, leaf) = evaluator.trace(program.get());
    assert_eq!(holds, traced);
    leaf.and_then(|leaf| leaf.actual).map(Value::to_json);
    Ok(holds)
}

pub fn encoded(json: &Json) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(json, &mut bytes);
    bytes
}

/// A small site. Its fields are visits, a last visit, traits and events. It has two groups and any audiences.
#[derive(Default)]
struct Site {
    audiences: Vec<(&'static str, Json)>,
    groups: Groups,
}

const VISITS: u16 = 1;
const LAST_SEEN: u16 = 2;
const TRAITS: u16 = 3;
const EVENTS: u16 = 4;
/// The number of codes.
const FIELDS: usize = 5;

impl Site {
    fn new(audiences: &[(&'static str, Json)]) -> Self {
        let groups = json!({"staff": ["u1", "u2"], "plans": ["pro", "team"]});
        Site { audiences: audiences.to_vec(), groups: serde_json::from_value(groups).expect("groups") }
    }

    fn errors(&self, condition: &Json) -> Vec<ConditionError> {
        parse_strict(condition, self).err().unwrap_or_default()
    }

    fn read(&self, condition: &Json) -> Condition {
        parse_strict(condition, self).unwrap_or_else(|errors| panic!("{condition}: {errors:?}"))
    }

    fn conditions(&self) -> Vec<Condition> {
        let conditions = self.audiences.iter();
        conditions.map(|(_, source)| self.read(source)).collect()
    }

    fn holds(&self, condition: &Json, visitor: &Visitor) -> bool {
        self.explain(condition, visitor).0
    }

    /// Returns whether it holds, and the deciding test as `[path, operator, expected, actual]`.
    fn explain(&self, condition: &Json, visitor: &Visitor) -> (bool, Option<Json>) {
        let mut sources = Vec::new();
        let program = compiled(&self.read(condition), &mut sources);
        let audiences = CompiledAudiences::new(&self.conditions(), &mut sources);
        let patterns = Patterns::new(&sources).expect("the parser checked the patterns");
        let references = References {
            fields: FIELDS,
            audiences: audiences.programs.len(),
            patterns: sources.len(),
            params: 0,
        };
        for program in audiences.programs.iter().chain([&program]) {
            assert_eq!(verify(program.get(), &references), Ok(()));
        }
        let mut evaluator = Evaluator {
            document: visitor,
            audiences: &audiences,
            patterns: &patterns,
            params: &[],
            memo: &mut Memo::default(),
        };
        let holds = evaluator.holds(program.get());
        let (traced, leaf) = evaluator.trace(program.get());
        assert_eq!(holds, traced);
        let leaf = leaf.map(|leaf| {
            let actual = leaf.actual.map(Value::to_json);
            json!([leaf.path, leaf.operator, leaf.expected, actual])
        });
        (holds, leaf)
    }
}

fn compiled(condition: &Condition, sources: &mut Vec<String>) -> ProgramBuffer {
    ProgramBuffer::new(&condition.compile(sources).expect("the program is small"))
}

/// The programs of a site's audiences. Counts how often each is evaluated.
struct CompiledAudiences {
    programs: Vec<ProgramBuffer>,
    lookups: Vec<Cell<u32>>,
}

impl CompiledAudiences {
    fn new(conditions: &[Condition], sources: &mut Vec<String>) -> Self {
        let programs: Vec<_> = conditions.iter().map(|condition| compiled(condition, sources)).collect();
        Self { lookups: vec![Cell::new(0); programs.len()], programs }
    }
}

impl Audiences for CompiledAudiences {
    fn program(&self, index: u16) -> &ArchivedProgram {
        let lookups = &self.lookups[usize::from(index)];
        lookups.set(lookups.get() + 1);
        self.programs[usize::from(index)].get()
    }
}

impl Vocabulary for Site {
    fn field(&self, path: &str) -> Result<Field, Option<String>> {
        let (code, name, kind) = match path.split_once('.') {
            Some(("visitor", "visits")) => (VISITS, "", FieldKind::Any),
            Some(("visitor", "lastSeen")) => (LAST_SEEN, "", FieldKind::Time),
            Some(("traits", name)) => (TRAITS, name, FieldKind::Any),
            Some(("events", name)) => (EVENTS, name, FieldKind::History),
            _ => return Err(nearest(path, ["visitor.visits", "visitor.lastSeen"])),
        };
        let name = name.to_owned();
        Ok(Field { code, name, kind })
    }

    fn group(&self, name: &str) -> Option<&[Json]> {
        self.groups.get(name).map(Vec::as_slice)
    }

    fn group_names(&self) -> Vec<&str> {
        self.groups.keys().map(String::as_str).collect()
    }

    fn audience(&self, name: &str) -> Option<u16> {
        let index = self.audiences.iter().position(|(known, _)| *known == name)?;
        u16::try_from(index).ok()
    }

    fn audience_names(&self) -> Vec<&str> {
        self.audiences.iter().map(|(name, _)| *name).collect()
    }

    /// Parses a day of January 1970, such as "1970-01-02T00:00:00Z".
    fn time_ms(&self, text: &str) -> Option<i64> {
        let day = text.strip_prefix("1970-01-")?.strip_suffix("T00:00:00Z")?;
        let day: i64 = day.parse().ok()?;
        Some((day - 1) * DAY_MS)
    }
}

/// A visitor of that site. It keeps the last 16 times of an event.
struct Visitor {
    traits: Vec<u8>,
    visits: f64,
    last_seen_ms: Option<i64>,
    bought_ms: Vec<i64>,
    now_ms: i64,
}

impl Visitor {
    fn new(traits: &Json) -> Self {
        Visitor {
            traits: encoded(traits),
            visits: 1.0,
            last_seen_ms: None,
            bought_ms: Vec::new(),
            now_ms: 100 * DAY_MS,
        }
    }

    /// Returns a visitor who bought once a day, `times` times, the last time a day ago.
    fn with_purchases(times: i64) -> Self {
        let mut visitor = Visitor::new(&json!({}));
        let days_ago = (1..=times).rev();
        visitor.bought_ms = days_ago.map(|days| visitor.now_ms - days * DAY_MS).collect();
        visitor
    }
}

impl Document for Visitor {
    fn get(&self, code: u16, name: &str) -> Option<Value<'_>> {
        match code {
            VISITS => Some(Value::Number(self.visits)),
            LAST_SEEN => self.last_seen_ms.map(|ms| Value::Number(ms as f64)),
            TRAITS => Value::decode(&self.traits)?.get_path(name),
            _ => panic!("unexpected field {code} {name}"),
        }
    }

    fn count(&self, code: u16, name: &str, since_ms: Option<i64>) -> u64 {
        assert_eq!(code, EVENTS);
        let times: &[i64] = if name == "Bought It" { &self.bought_ms } else { &[] };
        match since_ms {
            None => times.len() as u64,
            Some(since) => {
                let kept = times.iter().rev().take(16);
                kept.filter(|time| **time >= since).count() as u64
            }
        }
    }

    fn now_ms(&self) -> i64 {
        self.now_ms
    }
}
