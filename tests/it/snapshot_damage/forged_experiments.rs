//! Handmade experiments with a valid hash: their order, arms and metrics.

use parallax::testing::condition::seed_hash;
use parallax::testing::limits::{EVENT_NAME_CHARS_MAX, GUARDRAILS_MAX, RAMP_STEPS_MAX, SEED_CHARS_MAX};
use parallax::testing::site::snapshot::format::{
    CoverageStep, Experiment, Guardrail, Metrics, Namespace, NamespaceShare, Range, Site, phase_hash,
};

use super::forged::{assert_refused, open_site, site};
use crate::fuzz::snapshot::request_everything;

#[test]
fn unsorted_experiments_are_refused() {
    for key in ["e", "d"] {
        let experiment = || Experiment {
            key: key.into(),
            seed: "e".to_owned(),
            seed_hash: seed_hash("e"),
            arms: Vec::new(),
            weights: Vec::new(),
            coverages: vec![CoverageStep { from_ms: i64::MIN, share: 1.0 }],
            from_ms: None,
            to_ms: None,
            winner: None,
            namespace: None,
            holdout: 0.0,
            phase_hash: 0,
            metrics: Metrics::default(),
        };
        assert_refused(|site| site.experiments.push(experiment()), "the experiments are not sorted by key");
    }
}

#[test]
fn an_experiment_with_other_arms_than_its_weights_or_its_rules_is_refused() {
    let why = "a malformed arm, or another number of arms than of weights";
    assert_refused(|site| drop(site.experiments[0].arms.pop()), why);
    assert_refused(|site| site.experiments[0].arms.push("c".to_owned()), why);
    assert_refused(|site| site.experiments[0].arms[1] = "b,c".to_owned(), why);
    let why = "a rule refers to a missing variant, experiment or audience";
    let with_arms = |change: &dyn Fn(&mut Vec<String>), site: &mut Site| {
        change(&mut site.experiments[0].arms);
        set_phase_hash(&mut site.experiments[0]);
    };
    assert_refused(|site| with_arms(&|arms| arms[1] = "c".to_owned(), site), why);
    assert_refused(|site| with_arms(&|arms| arms.swap(0, 1), site), why);
}

#[test]
fn wrong_coverages_and_winners_of_an_experiment_are_refused() {
    let steps = |count: usize| -> Vec<CoverageStep> {
        (0..count as i64).map(|from_ms| CoverageStep { from_ms, share: 0.5 }).collect()
    };
    for count in [1, RAMP_STEPS_MAX - 1, RAMP_STEPS_MAX] {
        let mut site = site();
        site.experiments[0].coverages = steps(count);
        (site.experiments[0].winner, site.experiments[0].to_ms) = (Some(1), Some(0));
        request_everything(open_site(&site).expect("the snapshot opens"));
    }
    let why = "an experiment has no coverage, too many coverages, or unsorted ones";
    for wrong in [steps(0), steps(RAMP_STEPS_MAX + 1), vec![steps(1)[0]; 2]] {
        assert_refused(|site| site.experiments[0].coverages = wrong.clone(), why);
    }
    let why = "an experiment has a winner that is no arm, or a winner without an end";
    for (winner, to_ms) in [(2, Some(0)), (1, None)] {
        assert_refused(
            |site| (site.experiments[0].winner, site.experiments[0].to_ms) = (Some(winner), to_ms),
            why,
        );
    }
}

fn set_phase_hash(experiment: &mut Experiment) {
    let arms = experiment.arms.iter().map(String::as_str).zip(experiment.weights.iter().copied());
    experiment.phase_hash = phase_hash(&experiment.key, &experiment.seed, arms, experiment.holdout);
}

#[test]
fn a_share_that_is_not_from_0_to_1_is_refused() {
    let why = "a weight, the coverage or the holdout of an experiment is not from 0 to 1";
    let members: [fn(&mut Experiment) -> &mut f64; 3] = [
        |experiment| &mut experiment.weights[0],
        |experiment| &mut experiment.coverages[0].share,
        |experiment| &mut experiment.holdout,
    ];
    for share in members {
        for number in [0.0, 1.0] {
            let mut site = site();
            *share(&mut site.experiments[0]) = number;
            set_phase_hash(&mut site.experiments[0]);
            request_everything(open_site(&site).expect("the snapshot opens"));
        }
        for number in [-f64::MIN_POSITIVE, 1.0_f64.next_up(), f64::NAN] {
            assert_refused(|site| *share(&mut site.experiments[0]) = number, why);
        }
    }
}

#[test]
fn an_experiment_with_the_phase_hash_of_another_definition_is_refused() {
    let why = "the phase hash of an experiment is not that of its definition";
    assert_refused(|site| site.experiments[0].phase_hash ^= 1, why);
    assert_refused(|site| site.experiments[0].weights.swap_with_slice(&mut [0.25, 0.75]), why);
    assert_refused(|site| site.experiments[0].holdout = 0.5, why);
}

#[test]
fn a_namespace_with_other_experiments_than_those_that_refer_to_it_is_refused() {
    let share = |namespace| Some(NamespaceShare { namespace, range: Range { from: 0.0, to: 0.5 } });
    let with = |site: &mut Site, phase_hashes| {
        site.experiments[0].namespace = share(0);
        site.namespaces.push(Namespace { name: "n".to_owned(), phase_hashes });
    };
    let mut sound = site();
    let hash = sound.experiments[0].phase_hash;
    with(&mut sound, vec![hash]);
    request_everything(open_site(&sound).expect("the snapshot opens"));
    let why = "a namespace has other experiments than those that refer to it";
    for phase_hashes in [vec![], vec![hash, hash], vec![hash ^ 1]] {
        assert_refused(|site| with(site, phase_hashes.clone()), why);
    }
    let missing = |site: &mut Site| site.experiments[0].namespace = share(0);
    assert_refused(missing, "an experiment refers to a missing namespace");
}

#[test]
fn an_experiment_with_the_hash_of_another_seed_is_refused() {
    assert_refused(|site| site.experiments[0].seed_hash ^= 1, "is not that of its seed");
    assert_refused(|site| site.experiments[0].seed.push('f'), "is not that of its seed");
}

#[test]
fn a_seed_that_is_too_long_is_refused() {
    for length in [SEED_CHARS_MAX - 1, SEED_CHARS_MAX] {
        let mut site = site();
        let seed = "é".repeat(length);
        (site.experiments[0].seed_hash, site.experiments[0].seed) = (seed_hash(&seed), seed);
        set_phase_hash(&mut site.experiments[0]);
        request_everything(open_site(&site).expect("the snapshot opens"));
    }
    let with_longer = |site: &mut Site| site.experiments[0].seed = "é".repeat(SEED_CHARS_MAX + 1);
    assert_refused(with_longer, "a seed that is too long");
}

#[test]
fn malformed_metrics_of_an_experiment_are_refused() {
    let with = |change: &dyn Fn(&mut Metrics)| {
        let mut site = site();
        change(&mut site.experiments[0].metrics);
        site
    };
    let text = |text: &str| Some(text.to_owned());
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let rail = |goal: &str, margin| Guardrail { goal: goal.to_owned(), margin, lower_is_better: true };
    let valid: [&dyn Fn(&mut Metrics); 12] = [
        &|metrics| metrics.goal = text("Order Placed"),
        &|metrics| metrics.goal = text("page:/thanks"),
        &|metrics| (metrics.goal, metrics.value) = (text("event:page:x"), text("properties.revenue")),
        &|metrics| {
            (metrics.goal, metrics.value, metrics.cap) =
                (text("a"), text("properties.revenue"), text("p99.9"));
        },
        &|metrics| {
            (metrics.goal, metrics.value, metrics.cap) = (text("a"), text("properties.revenue"), text("none"))
        },
        &|metrics| metrics.guardrails = vec![rail("Refund", 1.0); GUARDRAILS_MAX - 1],
        &|metrics| metrics.guardrails = vec![rail("Refund", f64::MIN_POSITIVE); GUARDRAILS_MAX],
        &|metrics| metrics.planned = Some(2),
        &|metrics| metrics.planned = Some(1 << 53),
        &|metrics| metrics.window = text("1s"),
        &|metrics| metrics.window = text("14d"),
        &|metrics| metrics.segments = names(&["new", "device", "country", "source"]),
    ];
    for change in valid {
        request_everything(open_site(&with(change)).expect("the snapshot opens"));
    }
    let forged: [&dyn Fn(&mut Metrics); 23] = [
        &|metrics| metrics.goal = text(""),
        &|metrics| metrics.goal = text("event:"),
        &|metrics| metrics.goal = text("page:thanks"),
        &|metrics| metrics.goal = text("page:/thanks?a=1"),
        &|metrics| metrics.goal = Some("x".repeat(EVENT_NAME_CHARS_MAX + 1)),
        &|metrics| metrics.value = text("properties.revenue"),
        &|metrics| (metrics.goal, metrics.value) = (text("a"), text("revenue")),
        &|metrics| (metrics.goal, metrics.currency) = (text("a"), text("properties.currency")),
        &|metrics| (metrics.goal, metrics.value) = (text("page:/a"), text("properties.revenue")),
        &|metrics| (metrics.goal, metrics.value) = (text("a"), text("price")),
        &|metrics| {
            (metrics.goal, metrics.value, metrics.cap) = (text("a"), text("properties.revenue"), text("p100"))
        },
        &|metrics| metrics.guardrails = vec![rail("Refund", 0.1); GUARDRAILS_MAX + 1],
        &|metrics| metrics.guardrails = vec![rail("", 0.1)],
        &|metrics| metrics.guardrails = vec![rail("Refund", 0.0)],
        &|metrics| metrics.guardrails = vec![rail("Refund", 1.1)],
        &|metrics| metrics.guardrails = vec![rail("Refund", f64::NAN)],
        &|metrics| metrics.planned = Some(1),
        &|metrics| metrics.planned = Some((1 << 53) + 1),
        &|metrics| metrics.window = text("0d"),
        &|metrics| metrics.window = text("14 days"),
        &|metrics| metrics.segments = names(&["new", "device", "country", "source", "language"]),
        &|metrics| metrics.segments = names(&["new", "new"]),
        &|metrics| metrics.segments = names(&["browser"]),
    ];
    for change in forged {
        assert_refused(
            |site| change(&mut site.experiments[0].metrics),
            "the metrics of an experiment are malformed",
        );
    }
}
