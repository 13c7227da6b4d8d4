//! An experiment key in several zones: all of them must have the same definition.

use parallax::testing::site::compile::compile;
use parallax::testing::site::source::read::read;
use serde_json::{Value, json};

use super::{SITE, files};

/// Compiles a page with a zone for each experiment. Returns the titles of the errors.
fn titles(experiments: &[Value]) -> Vec<String> {
    let zone = |experiment: &Value| json!({ "default": [], "variants": { "b": [], "c": [] }, "rules": [{ "experiment": experiment }] });
    let zones: serde_json::Map<String, Value> =
        experiments.iter().enumerate().map(|(i, experiment)| (format!("z{i}"), zone(experiment))).collect();
    let page = json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": zones } }).to_string();
    let files = files(&[SITE, ("routes/index.json", &page)]);
    let (source, diagnostics) = read(&files, &|_, _| {});
    let compiled = compile(&source, diagnostics, 1, &|_, _| {});
    let shown = compiled.err().map(|mistakes| mistakes.report(&files).diagnostics).unwrap_or_default();
    shown.into_iter().map(|placed| placed.diagnostic.title.expect("a title")).collect()
}

fn experiment(member: &str, value: Value) -> Value {
    let mut experiment = json!({
        "key": "e", "variants": ["default", "b"], "weights": [0.5, 0.5], "coverage": 1, "seed": "s",
        "namespace": ["n", 0, 0.5], "holdout": 0.1,
    });
    if !member.is_empty() {
        experiment[member] = value;
    }
    experiment
}

#[test]
fn zones_of_one_experiment_have_the_same_definition() {
    let first = || experiment("", Value::Null);
    assert_eq!(titles(&[first(), first()]), [""; 0]);
    for (member, value) in [
        ("variants", json!(["b", "default"])),
        ("variants", json!(["default", "c"])),
        ("weights", json!([0.4, 0.6])),
        ("coverage", json!(0.9)),
        ("seed", json!("t")),
        ("namespace", json!(["n", 0.5, 1])),
        ("holdout", json!(0)),
    ] {
        let title = format!("conflicting `{member}` of experiment `e`");
        assert_eq!(titles(&[first(), experiment(member, value)]), [title], "{member}");
        let other_key = experiment("key", json!("f"));
        assert_eq!(titles(&[first(), other_key]), [""; 0]);
    }
}

#[test]
fn zones_of_one_experiment_have_the_same_number_of_variants() {
    let short = json!({ "key": "e", "variants": ["default", "b"] });
    let long = json!({ "key": "e", "variants": ["default", "b", "c"] });
    assert_eq!(titles(&[short, long]), ["conflicting `variants` of experiment `e`"]);
}
