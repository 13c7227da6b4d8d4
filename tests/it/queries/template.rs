//! A condition whose parameters have values equals the condition with the values in their place.

use parallax::testing::condition::program::{Program, ProgramBuffer};
use parallax::testing::condition::{
    Condition, EncodedDocument, Evaluator, Field, FieldKind, Memo, NoAudiences, Patterns, References, Value,
    Vocabulary, parse_strict, verify,
};
use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use super::collections::{PARAMS, condition, items, scalar};
use super::oracle::substitute;
use crate::condition::{encoded, oracle};

/// A vocabulary with any path, and with the parameters of the generated conditions.
struct TestVocabulary;

impl Vocabulary for TestVocabulary {
    fn field(&self, path: &str) -> Result<Field, Option<String>> {
        Ok(Field { code: 0, name: path.to_owned(), kind: FieldKind::Any })
    }

    fn group(&self, _: &str) -> Option<&[Json]> {
        None
    }

    fn group_names(&self) -> Vec<&str> {
        Vec::new()
    }

    fn param_names(&self) -> Option<Vec<&str>> {
        Some(PARAMS.to_vec())
    }
}

/// The encoded values of the parameters. A missing parameter has none.
struct Values(Vec<Option<Vec<u8>>>);

impl Values {
    fn of(values: &Map<String, Json>) -> Self {
        Self(PARAMS.iter().map(|name| values.get(*name).map(encoded)).collect())
    }

    fn get(&self) -> Vec<Option<Value<'_>>> {
        self.0.iter().map(|value| value.as_ref().and_then(|value| Value::decode(value))).collect()
    }
}

fn values() -> impl Strategy<Value = Map<String, Json>> {
    PARAMS.map(|_| prop::option::weighted(0.8, scalar(false))).prop_map(|values| {
        let given = PARAMS.into_iter().zip(values);
        given.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    })
}

fn holds(program: &Program, patterns: &[String], values: &Values, fields: &Json) -> bool {
    let program = ProgramBuffer::new(program);
    let references = References { fields: 1, audiences: 0, patterns: patterns.len(), params: PARAMS.len() };
    assert_eq!(verify(program.get(), &references), Ok(()));
    let fields = encoded(fields);
    let document = &EncodedDocument { root: Value::decode(&fields).expect("just encoded"), now_ms: 0 };
    let patterns = &Patterns::new(patterns).expect("valid regexes");
    let (params, memo) = (&values.get()[..], &mut Memo::default());
    Evaluator { document, audiences: &NoAudiences, patterns, params, memo }.holds(program.get())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_program_with_parameters_agrees_with_the_substituted_condition(
        written in condition(),
        values in values(),
        items in items(),
    ) {
        let condition = parse_strict(&written, &TestVocabulary).expect("generated conditions are valid");
        let mut patterns = Vec::new();
        let program = condition.compile(&mut patterns).expect("below the size limit");
        let plain = substitute(&written, &values).unwrap_or(json!({}));
        let values = Values::of(&values);
        for item in items {
            let expected = oracle::holds(&plain, &item["fields"], &Default::default());
            let holds = holds(&program, &patterns, &values, &item["fields"]);
            prop_assert_eq!(holds, expected, "{} of {}", plain, item);
        }
    }

    #[test]
    fn all_conjuncts_hold_exactly_if_their_condition_holds(
        written in condition(),
        values in values(),
        items in items(),
    ) {
        let condition = parse_strict(&written, &TestVocabulary).expect("generated conditions are valid");
        let values = Values::of(&values);
        let mut patterns = Vec::new();
        let whole = condition.compile(&mut patterns).expect("below the size limit");
        let conjuncts = condition.into_conjuncts();
        let mut compile = |conjunct: &Condition| conjunct.compile(&mut patterns).expect("below the size limit");
        let conjuncts: Vec<Program> = conjuncts.iter().map(&mut compile).collect();
        for item in items {
            let fields = &item["fields"];
            let all = conjuncts.iter().all(|program| holds(program, &patterns, &values, fields));
            prop_assert_eq!(holds(&whole, &patterns, &values, fields), all, "{}", item);
        }
    }
}
