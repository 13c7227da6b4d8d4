//! Every limit of conditions: one below, at and above it.

use parallax::testing::condition::program::ProgramBuffer;
use parallax::testing::condition::{Evaluator, Memo, Patterns, Value, find_overlong_chain, verify_audiences};
use parallax::testing::limits::{
    AUDIENCE_CHAIN_MAX, AUDIENCES_MAX, CONDITION_NESTING_MAX, DIAGNOSTIC_TEXT_CHARS_MAX, PATTERN_BYTES_MAX,
    PATTERN_DFA_BYTES_MAX, PATTERN_NFA_STATES_MAX, PATTERNS_MAX, PROGRAM_BYTES_MAX, TIMES_KEPT,
    VALUE_NESTING_MAX,
};
use serde_json::{Value as Json, json};

use super::{CompiledAudiences, Site, Visitor, compiled, encoded};

/// Returns a test that holds, nested in `levels` of the deepest operators, and a document for it.
fn nested(levels: usize) -> (Json, Json) {
    let mut test = json!({"$gt": 0, "$lt": 2});
    let mut value = json!(1);
    for _ in 0..levels {
        test = json!({"$elemMatch": {"a": test, "b": {"$exists": false}}, "$exists": true});
        value = json!([{"a": value}]);
    }
    (json!({"traits.a": test, "traits.b": null}), json!({"a": value}))
}

#[test]
fn operators_nest_at_most_sixteen_deep() {
    let site = Site::new(&[]);
    for levels in [CONDITION_NESTING_MAX - 1, CONDITION_NESTING_MAX] {
        let (condition, traits) = nested(levels);
        assert!(site.holds(&condition, &Visitor::new(&traits)), "{levels}");
    }
    let errors = site.errors(&nested(CONDITION_NESTING_MAX + 1).0);
    assert_eq!(errors.len(), 1);
    assert!(errors[0].pointer.ends_with("/$elemMatch"), "{}", errors[0]);
    assert!(errors[0].expected.contains("16"), "{}", errors[0]);
}

#[test]
fn a_windowed_count_is_limited_to_the_number_of_kept_times() {
    let site = Site::new(&[]);
    for operator in ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"] {
        let max = if matches!(operator, "$gte" | "$lt") { TIMES_KEPT } else { TIMES_KEPT - 1 };
        for bound in [max - 1, max, max + 1] {
            let windowed = json!({"events.a": {"$count": {operator: bound, "within": "7d"}}});
            let errors = site.errors(&windowed);
            assert_eq!(errors.is_empty(), bound <= max, "{windowed}: {errors:?}");
            let ever = json!({"events.a": {"$count": {operator: bound}}});
            assert_eq!(site.errors(&ever), [], "{ever}");
        }
    }
}

const NAMES: [&str; 10] = ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"];

/// Returns a chain of audiences. Each contains the next one and a test of almost the deepest nesting.
fn chain(length: usize) -> Site {
    let (deepest, _) = nested(CONDITION_NESTING_MAX - 1);
    let audience = |index: usize| {
        let condition = match index + 1 {
            next if next == length => deepest.clone(),
            next => json!({"$and": [deepest, {"$audience": NAMES[next]}]}),
        };
        (NAMES[index], condition)
    };
    Site::new(&(0..length).map(audience).collect::<Vec<_>>())
}

#[test]
fn audience_references_are_at_most_eight_deep() {
    for length in [AUDIENCE_CHAIN_MAX - 1, AUDIENCE_CHAIN_MAX] {
        let site = chain(length);
        assert_eq!(find_overlong_chain(&site.conditions()), None);
        let (_, traits) = nested(CONDITION_NESTING_MAX - 1);
        let visitor = Visitor::new(&traits);
        assert!(site.holds(&json!({"$audience": "a0"}), &visitor), "{length}");
    }
    let long = chain(AUDIENCE_CHAIN_MAX + 1);
    assert_eq!(find_overlong_chain(&long.conditions()), Some(0));
    assert_eq!(verified_audiences(&chain(AUDIENCE_CHAIN_MAX)), Ok(()));
    let fault = "audiences refer to each other in a cycle or in too long a chain";
    assert_eq!(verified_audiences(&long), Err(fault));
}

fn verified_audiences(site: &Site) -> Result<(), &'static str> {
    let audiences = CompiledAudiences::new(&site.conditions(), &mut Vec::new());
    verify_audiences(audiences.programs.iter().map(ProgramBuffer::get))
}

#[test]
fn a_cycle_of_audiences_is_found() {
    let site = Site::new(&[
        ("fine", json!({})),
        ("a", json!({"$audience": "b"})),
        ("b", json!({"$not": {"$audience": "a"}})),
        ("self", json!({"$audience": "self"})),
    ]);
    assert_eq!(find_overlong_chain(&site.conditions()), Some(1));
    assert_eq!(find_overlong_chain(&site.conditions()[..1]), None);
    assert!(verified_audiences(&site).is_err());
}

#[test]
fn the_memo_has_room_for_every_audience_of_a_site() {
    const NAMES: [&str; AUDIENCES_MAX] = ["x"; AUDIENCES_MAX];
    let last = AUDIENCES_MAX - 1;
    let mut audiences = NAMES.map(|name| (name, json!({})));
    audiences[last].0 = "last";
    let site = Site::new(&audiences);
    let audiences = CompiledAudiences::new(&site.conditions(), &mut Vec::new());
    let program = compiled(&site.read(&json!({"$audience": "last"})), &mut Vec::new());
    let mut evaluator = Evaluator {
        document: &Visitor::new(&json!({})),
        audiences: &audiences,
        patterns: &Patterns::new(&[""; 0]).unwrap(),
        params: &[],
        memo: &mut Memo::default(),
    };
    assert!(evaluator.holds(program.get()) && evaluator.holds(program.get()));
    assert_eq!(audiences.lookups[last].get(), 1);
}

#[test]
fn programs_have_a_size_limit() {
    let site = Site::new(&[]);
    let compiled = |letters: usize| {
        let condition = json!({"traits.a": "a".repeat(letters)});
        site.read(&condition).compile(&mut Vec::new())
    };
    let size = |letters| compiled(letters).map(|program| ProgramBuffer::new(&program).size_bytes());
    let largest = (0..PROGRAM_BYTES_MAX).rev().find(|letters| compiled(*letters).is_ok()).unwrap();
    // The parts of an archive are aligned, so some sizes do not occur.
    let size = size(largest).unwrap();
    assert!((PROGRAM_BYTES_MAX - 16..=PROGRAM_BYTES_MAX).contains(&size), "{size}");
    let error = compiled(largest + 1).unwrap_err();
    assert!(
        error.bytes > PROGRAM_BYTES_MAX && error.to_string().ends_with("the limit is 2097152"),
        "{error}"
    );
}

#[test]
fn regular_expressions_have_a_length_limit() {
    let site = Site::new(&[]);
    for bytes in [PATTERN_BYTES_MAX - 1, PATTERN_BYTES_MAX, PATTERN_BYTES_MAX + 1] {
        for operator in ["$regex", "$regexi"] {
            let condition = json!({"traits.a": {operator: format!("^{}", "a".repeat(bytes - 1))}});
            let errors = site.errors(&condition);
            assert_eq!(errors.is_empty(), bytes <= PATTERN_BYTES_MAX, "{bytes} {errors:?}");
        }
    }
}

#[test]
fn a_site_has_a_limited_number_of_regular_expressions() {
    for count in [PATTERNS_MAX - 1, PATTERNS_MAX, PATTERNS_MAX + 1] {
        let sources = vec!["a"; count];
        assert_eq!(Patterns::new(&sources).is_ok(), count <= PATTERNS_MAX, "{count}");
    }
}

#[test]
fn the_table_of_a_regular_expression_has_a_size_limit() {
    // Each additional letter doubles the number of states, and so the table.
    let table = |letters: usize| Patterns::new(&[format!("a[ab]{{{letters}}}c")]);
    let sizes: Vec<_> = (1..24).map_while(|letters| table(letters).ok()).collect();
    assert!((8..16).contains(&sizes.len()), "{}", sizes.len());
    let largest = sizes[sizes.len() - 1].memory_bytes();
    assert!((PATTERN_DFA_BYTES_MAX / 4..=PATTERN_DFA_BYTES_MAX).contains(&largest), "{largest}");
    let error = table(sizes.len() + 1).unwrap_err().to_string();
    assert_eq!(error, "regular expression 0: its automaton is too large; use smaller repetition counts");
}

#[test]
fn the_automaton_of_a_regular_expression_has_a_size_limit() {
    // The table is small, because each state of a letter has one successor.
    const OTHER_STATES: usize = 2;
    for states in [PATTERN_NFA_STATES_MAX - 1, PATTERN_NFA_STATES_MAX, PATTERN_NFA_STATES_MAX + 1] {
        let built = Patterns::new(&[format!("^a{{{}}}", states - OTHER_STATES)]);
        assert_eq!(built.is_ok(), states <= PATTERN_NFA_STATES_MAX, "{states}");
    }
}

#[test]
fn errors_quote_a_limited_part_of_the_text() {
    let site = Site::new(&[]);
    for length in [DIAGNOSTIC_TEXT_CHARS_MAX - 1, DIAGNOSTIC_TEXT_CHARS_MAX, DIAGNOSTIC_TEXT_CHARS_MAX + 1] {
        let path = "é".repeat(length);
        let actual = site.errors(&json!({path.as_str(): 1})).remove(0).actual;
        assert_eq!(actual == path, length <= DIAGNOSTIC_TEXT_CHARS_MAX, "{length}");
        assert!(actual.chars().count() <= DIAGNOSTIC_TEXT_CHARS_MAX + 1);
    }
}

#[test]
fn values_nest_as_deep_as_the_json_parser_allows() {
    for levels in [VALUE_NESTING_MAX - 1, VALUE_NESTING_MAX, VALUE_NESTING_MAX + 1] {
        let json = (1..levels).fold(json!([]), |inner, _| json!([inner]));
        let bytes = encoded(&json);
        let read = Value::decode(&bytes).unwrap().to_json();
        assert_eq!(read == json, levels <= VALUE_NESTING_MAX, "{levels}");
    }
}
