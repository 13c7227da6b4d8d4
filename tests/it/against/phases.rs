//! A comparison agrees with the phases of the server and with the hashes of enrolments, for arbitrary pairs of definitions.

use parallax::testing::site::catalog::phases::Phases;
use parallax::testing::site::comparison::{ChangeKind, compare};
use parallax::testing::site::snapshot::open::{Snapshot, SnapshotBudget};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::harness::snapshot;

/// 2026-03-10T00:00:00Z.
const NOW_MS: i64 = 1_773_100_800_000;

fn open(experiment: &Value) -> Snapshot {
    let zone =
        json!({ "default": [], "variants": { "b": [], "c": [] }, "rules": [{ "experiment": experiment }] });
    let page = json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": { "z": zone } } });
    let site = r#"{"site":"acme","trackingId":"track_acme","name":"Acme"}"#;
    let bytes = snapshot(&[("site.json", site), ("routes/index.json", &page.to_string())], 1);
    Snapshot::open_bytes(&bytes, &SnapshotBudget::new(u64::MAX)).expect("a valid snapshot")
}

/// Returns an experiment with all members that decide an arm. Few values, so that members are often equal.
fn experiments() -> impl Strategy<Value = Value> {
    let arms = select(vec![
        json!([["default", 0.5], ["b", 0.5]]),
        json!([["b", 0.5], ["default", 0.5]]),
        json!([["default", 0.4], ["b", 0.6]]),
        json!([["default", 0.5], ["c", 0.5]]),
        json!([["default", 0.5], ["b", 0.25], ["c", 0.25]]),
    ]);
    let ramp = json!([{ "from": "2026-03-01T00:00:00Z", "share": 0.1 }, { "from": "2026-04-01T00:00:00Z", "share": 1 }]);
    let coverage = select(vec![json!(1), json!(0.1), json!(0), ramp]);
    let to = select(vec![
        json!({}),
        json!({ "to": "2026-03-01T00:00:00Z" }),
        json!({ "to": "2026-04-01T00:00:00Z" }),
    ]);
    (arms, select(vec!["e", "s"]), select(vec![0.0, 0.05]), coverage, to).prop_map(
        |(arms, seed, holdout, coverage, mut experiment)| {
            let column = |index: usize| -> Value {
                arms.as_array().expect("arms").iter().map(|arm| arm[index].clone()).collect()
            };
            experiment["key"] = json!("e");
            experiment["variants"] = column(0);
            experiment["weights"] = column(1);
            experiment["seed"] = json!(seed);
            experiment["holdout"] = json!(holdout);
            experiment["coverage"] = coverage;
            experiment
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_new_phase_is_one_of_the_server_and_ends_the_enrolments(before in experiments(), after in experiments()) {
        let [older, newer] = [&before, &after].map(open);
        let comparison = compare(Some(older.site()), newer.site(), NOW_MS);
        let has_new_phase =
            comparison.changes.iter().any(|change| change.kinds.contains(&ChangeKind::NewPhase));
        let mut phases = Phases::default();
        phases.observe(std::iter::once(older.site()), NOW_MS);
        phases.observe(std::iter::once(newer.site()), NOW_MS);
        prop_assert_eq!(has_new_phase, phases.of("acme", "e").len() == 2);
        let hash = |snapshot: &Snapshot| snapshot.site().experiments[0].phase_hash.to_native();
        prop_assert_eq!(has_new_phase, hash(&older) != hash(&newer));
        prop_assert_eq!(comparison.changes.is_empty(), before == after);
        prop_assert_eq!(comparison.unchanged_count, usize::from(before == after));
        for change in &comparison.changes {
            prop_assert_eq!(change.phase_members.is_empty(), !has_new_phase);
            let has_kind = |kind, member: &str| change.kinds.contains(&kind) == (before[member] != after[member]);
            prop_assert!(has_kind(ChangeKind::Ramped, "coverage"), "{:?}", change);
            prop_assert!(has_kind(ChangeKind::Rescheduled, "to"), "{:?}", change);
        }
    }
}
