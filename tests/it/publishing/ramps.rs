//! The coverages of a phase: a ramp, and changes by publications.

use parallax::testing::limits::COVERAGES_KEPT_MAX;
use parallax::testing::site::catalog::phases::Phases;
use parallax::testing::site::catalog::phases_file::{decode, encode};
use serde_json::json;

use super::phases::{acme, experiment, observe, summary};

#[test]
fn a_change_of_the_coverage_goes_on_with_the_phase() {
    let with = |coverage: f64| {
        let mut experiment = experiment([0.5, 0.5], "s");
        experiment["coverage"] = json!(coverage);
        experiment
    };
    let mut phases = Phases::default();
    for (version, coverage) in [(1, 0.01), (2, 0.1), (3, 0.1), (4, 1.0), (5, 0.0)] {
        observe(&mut phases, &acme(version, &with(coverage)), version as i64 * 1_000);
    }
    let ramp = vec![(1_000, 0.01), (2_000, 0.1), (4_000, 1.0), (5_000, 0.0)];
    assert_eq!(summary(phases.of("acme", "e")), [(vec![0.5, 0.5], ramp)]);
    assert_eq!(decode(&encode(&phases)), Ok(phases));
}

#[test]
fn a_ramp_is_in_the_phase_with_its_times_and_a_later_publication_replaces_the_steps_to_come() {
    let ramp = |steps: &[(i64, f64)], to: Option<i64>| {
        let mut experiment = experiment([0.5, 0.5], "s");
        let time = |ms: i64| format!("1970-01-01T00:00:{:02}Z", ms / 1_000);
        let step = |(from_ms, share): &(i64, f64)| json!({ "from": time(*from_ms), "share": share });
        experiment["coverage"] = steps.iter().map(step).collect();
        to.into_iter().for_each(|to| experiment["to"] = json!(time(to)));
        experiment
    };
    let mut phases = Phases::default();
    let first = ramp(&[(1_000, 0.1), (3_000, 0.5), (9_000, 1.0)], Some(20_000));
    observe(&mut phases, &acme(1, &first), 2_000);
    let halves = vec![0.5, 0.5];
    let expected = vec![(2_000, 0.1), (3_000, 0.5), (9_000, 1.0)];
    assert_eq!(summary(phases.of("acme", "e")), [(halves.clone(), expected)]);
    assert_eq!(phases.of("acme", "e")[0].to_ms, Some(20_000));
    assert_eq!(decode(&encode(&phases)).as_ref(), Ok(&phases));
    // A restart changes nothing.
    let before = phases.clone();
    for now_ms in [2_500, 3_500] {
        observe(&mut phases, &acme(1, &first), now_ms);
        assert_eq!(phases, before, "{now_ms}");
    }
    observe(&mut phases, &acme(2, &ramp(&[(1_000, 0.2), (8_000, 0.4)], None)), 4_000);
    let expected = vec![(2_000, 0.1), (3_000, 0.5), (4_000, 0.2), (8_000, 0.4)];
    assert_eq!(summary(phases.of("acme", "e")), [(halves, expected)]);
    assert_eq!(phases.of("acme", "e")[0].to_ms, None);
    // A clock that was set back keeps the order.
    observe(&mut phases, &acme(1, &first), 1_500);
    let [phase] = phases.of("acme", "e") else { panic!("one phase") };
    assert!(phase.coverages.is_sorted_by_key(|coverage| coverage.from_ms), "{phase:?}");
    assert_eq!(decode(&encode(&phases)), Ok(phases));
}

#[test]
fn a_phase_with_too_many_coverages_keeps_the_first_and_the_newest() {
    let mut phases = Phases::default();
    for number in 1..=COVERAGES_KEPT_MAX as i64 + 1 {
        let mut experiment = experiment([0.5, 0.5], "s");
        experiment["coverage"] = json!(number as f64 / 100.0);
        observe(&mut phases, &acme(number as u64, &experiment), number);
        let [phase] = phases.of("acme", "e") else { panic!("one phase") };
        let dropped = (number as usize).saturating_sub(COVERAGES_KEPT_MAX);
        assert_eq!((phase.coverages.len(), phase.from_ms()), (number as usize - dropped, 1));
        assert_eq!(
            (phase.coverages.get(1).map(|one| one.from_ms), phase.coverage(number).from_ms),
            ((number > 1).then_some(2 + dropped as i64), number)
        );
    }
}
