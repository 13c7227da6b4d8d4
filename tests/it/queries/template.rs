//! A condition whose parameters are bound to values equals the condition with the values in their place.

use parallax::testing::condition::{
    EncodedDocument, Evaluator, Field, FieldKind, Memo, Patterns, Value, Vocabulary, bind, parse_strict,
};
use proptest::prelude::*;
use proptest::sample::Index;
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

fn holds(program: &[u8], patterns: &[String], fields: &Json) -> bool {
    let fields = encoded(fields);
    let document = EncodedDocument { root: Value::decode(&fields).expect("just encoded"), now_ms: 0 };
    let patterns = Patterns::new(patterns).expect("valid regexes");
    let (audiences, memo) = (&[[0_u8; 0]; 0][..], &mut Memo::default());
    Evaluator { document: &document, audiences, patterns: &patterns, memo }.holds(program)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_bound_program_agrees_with_the_substituted_condition(
        written in condition(),
        values in values(),
        items in items(),
    ) {
        let condition = parse_strict(&written, &TestVocabulary).expect("generated conditions are valid");
        let (mut patterns, mut program) = (Vec::new(), b"of another request".to_vec());
        let template = condition.compile(&mut patterns).expect("below the size limit");
        prop_assert_eq!(bind(&template, &Values::of(&values).get(), &mut program), Some(()));
        let plain = substitute(&written, &values).unwrap_or(json!({}));
        for item in items {
            let expected = oracle::holds(&plain, &item["fields"], &Default::default());
            prop_assert_eq!(holds(&program, &patterns, &item["fields"]), expected, "{} of {}", plain, item);
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
        let (mut patterns, mut whole) = (Vec::new(), Vec::new());
        bind(&condition.compile(&mut patterns).expect("below the size limit"), &values.get(), &mut whole).expect("a valid template");
        let conjuncts = condition.into_conjuncts().into_iter().map(|conjunct| {
            let (mut program, template) = (Vec::new(), conjunct.compile(&mut patterns).expect("below the size limit"));
            bind(&template, &values.get(), &mut program).expect("a valid template");
            program
        });
        let conjuncts: Vec<Vec<u8>> = conjuncts.collect();
        for item in items {
            let all = conjuncts.iter().all(|program| holds(program, &patterns, &item["fields"]));
            prop_assert_eq!(holds(&whole, &patterns, &item["fields"]), all, "{}", item);
        }
    }

    #[test]
    fn any_bytes_are_bound_or_refused_and_evaluated_without_a_panic(
        written in condition(),
        values in values(),
        damage in prop::collection::vec((any::<Index>(), any::<u8>()), 0..5),
        cut in any::<Index>(),
        bytes in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let condition = parse_strict(&written, &TestVocabulary).expect("generated conditions are valid");
        let (mut patterns, mut program) = (Vec::new(), Vec::new());
        let mut template = condition.compile(&mut patterns).expect("below the size limit");
        let values = Values::of(&values);
        let cut = cut.index(template.len());
        prop_assert_eq!(bind(&template[..cut], &values.get(), &mut program), None, "cut at {}", cut);
        for (at, byte) in damage {
            let at = at.index(template.len());
            template[at] = byte;
        }
        for template in [template, bytes] {
            if bind(&template, &values.get(), &mut program).is_some() {
                holds(&program, &patterns, &json!({ "n": 1, "t": ["a"], "o": { "x": 2 } }));
            }
        }
    }
}

#[test]
fn a_template_over_the_depth_limit_is_refused() {
    const NOT: u8 = 3;
    let nested = |depth: u32| {
        (0..depth).fold(vec![0, 0, 0, 0, 0], |inner: Vec<u8>, _| {
            [&[NOT][..], &(inner.len() as u32).to_le_bytes(), &inner].concat()
        })
    };
    let bound = parallax::testing::limits::EVALUATION_DEPTH_MAX as u32;
    let is_bound = |depth| bind(&nested(depth), &[], &mut Vec::new()).is_some();
    assert_eq!([bound - 2, bound - 1, bound].map(is_bound), [true, true, false]);
}
