//! Properties that hold for any sums, hostile ones included.

use parallax::testing::insights::statistics::difference::{Method, RelativeChange};
use parallax::testing::insights::statistics::many::{benjamini_hochberg, holm};
use parallax::testing::insights::statistics::metric::{ArmSums, MetricKind, MetricResult, Settings, compare};
use parallax::testing::insights::statistics::mismatch::test_any_time;
use parallax::testing::insights::statistics::moments::{MeanPair, Moments};
use parallax::testing::insights::statistics::rates::wilson;
use parallax::testing::insights::statistics::sample_size::{Target, days_left, visitors_per_arm};
use proptest::prelude::*;

use super::rate;

fn any_count() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..20, 90_u64..200, 0_u64..1_000_000, any::<u64>()]
}

fn any_amount() -> impl Strategy<Value = f64> {
    prop_oneof![-1e6..1e6, Just(0.0), Just(1e-300), Just(f64::MAX), Just(f64::MIN), any::<f64>()]
}

fn any_sums() -> impl Strategy<Value = ArmSums> {
    let fields = (any_count(), any_count(), any_amount(), any_amount());
    fields.prop_map(|(visitors, converted, sum, sum_of_squares)| ArmSums {
        visitors,
        converted,
        sum,
        sum_of_squares,
    })
}

fn any_method() -> impl Strategy<Value = Method> {
    prop_oneof![Just(Method::Fixed), any_count().prop_map(|planned| Method::Anytime { planned })]
}

fn any_alpha() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.05), 1e-9..0.999]
}

/// Sums that real visitors can have: values with this mean and variance.
fn real_sums() -> impl Strategy<Value = ArmSums> {
    (100_u64..1_000_000, 0.1..0.9, -1e3..1e3, 0.0..1e6).prop_map(|(visitors, share, mean, variance)| {
        let n = visitors as f64;
        ArmSums {
            visitors,
            converted: (n * share) as u64,
            sum: n * mean,
            sum_of_squares: variance * (n - 1.0) + n * mean * mean,
        }
    })
}

/// Checks that every present number is finite, and that each interval contains its estimate.
fn check(result: &MetricResult) {
    let is_finite = |number: Option<f64>| number.is_none_or(f64::is_finite);
    for arm in &result.arms {
        assert!(is_finite(arm.mean), "{arm:?}");
        if let (Some(mean), Some(interval)) = (arm.mean, arm.interval) {
            assert!(interval.low.is_finite() && interval.high.is_finite(), "{arm:?}");
            assert!(interval.low <= mean && mean <= interval.high, "{arm:?}");
        }
    }
    for compared in &result.against {
        assert!(is_finite(compared.estimate), "{compared:?}");
        assert_eq!(compared.interval.is_some(), compared.p.is_some(), "{compared:?}");
        if let Some(interval) = compared.interval {
            let estimate = compared.estimate.expect("an interval has an estimate");
            assert!(interval.low.is_finite() && interval.high.is_finite(), "{compared:?}");
            assert!(interval.low <= estimate && estimate <= interval.high, "{compared:?}");
        }
        assert!(compared.p.is_none_or(|p| (0.0..=1.0).contains(&p)), "{compared:?}");
    }
}

fn is_close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1e-3)
}

fn change(a: &ArmSums, b: &ArmSums, method: Method) -> RelativeChange {
    let [a, b] = [a, b].map(|sums| Moments::of_mean(sums.visitors, sums.sum, sums.sum_of_squares));
    RelativeChange::of(&MeanPair::of(&a, &b), method, 0.05)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sums_give_a_number_that_is_not_finite(
        arms in prop::collection::vec(any_sums(), 0..4), baseline in 0_usize..4, alpha in any_alpha(), method in any_method()
    ) {
        for kind in [MetricKind::Proportion, MetricKind::Mean] {
            check(&compare(kind, &arms, None, &Settings { alpha, method, baseline }));
        }
    }

    #[test]
    fn exchanged_arms_give_the_reciprocal_interval(a in real_sums(), b in real_sums(), anytime in any::<bool>()) {
        let method = if anytime { Method::Anytime { planned: 5_000 } } else { Method::Fixed };
        let b = ArmSums { sum: b.sum.copysign(a.sum), ..b };
        let (there, back) = (change(&a, &b, method), change(&b, &a, method));
        if let (Some(there), Some(back)) = (there.interval, back.interval) {
            // The interval of 1 + R is mirrored to that of 1 / (1 + R). A negative baseline exchanges the ends.
            let sign = f64::signum(a.sum);
            let ratios = |low: f64, high: f64| if sign > 0.0 { (1.0 + low, 1.0 + high) } else { (1.0 - high, 1.0 - low) };
            let (there, back) = (ratios(there.low, there.high), ratios(back.low, back.high));
            prop_assert!(is_close(there.0 * back.1, 1.0) && is_close(there.1 * back.0, 1.0), "{there:?} {back:?}");
        }
    }

    #[test]
    fn the_unit_of_the_values_does_not_change_the_result(
        a in real_sums(), b in real_sums(), factor in prop_oneof![1e-6..1e6_f64, Just(0.01), Just(100.0)], mirrored in any::<bool>()
    ) {
        let factor = if mirrored { -factor } else { factor };
        let scaled = |sums: &ArmSums| ArmSums { sum: sums.sum * factor, sum_of_squares: sums.sum_of_squares * factor * factor, ..*sums };
        let method = Method::Anytime { planned: 5_000 };
        let (before, after) = (change(&a, &b, method), change(&scaled(&a), &scaled(&b), method));
        // Sums lose digits where the variance is small beside the mean, so such pairs are left out.
        prop_assume!([a, b].iter().all(|sums| {
            let moments = Moments::of_mean(sums.visitors, sums.sum, sums.sum_of_squares);
            moments.variance > 1e-4 * moments.mean * moments.mean
        }));
        prop_assert_eq!(before.interval.is_some(), after.interval.is_some());
        if let (Some(before), Some(after)) = (before.interval, after.interval) {
            let after = if mirrored { (-after.high, -after.low) } else { (after.low, after.high) };
            prop_assert!(is_close(before.low, after.0) && is_close(before.high, after.1), "{before:?} {after:?}");
        }
    }

    #[test]
    fn more_visitors_never_widen_the_description_of_an_arm(visitors in 1_u64..10_000, share in 0.0..1.0) {
        let converted = (visitors as f64 * share) as u64;
        let width = |times: u64| {
            let interval = wilson(visitors * times, converted * times, 0.05).expect("an interval");
            interval.high - interval.low
        };
        prop_assert!(width(4) <= width(1));
    }

    #[test]
    fn tests_of_splits_are_finite(
        observed in prop::collection::vec(any_count(), 0..5), weights in prop::collection::vec(any_amount(), 0..5)
    ) {
        if let Some(test) = test_any_time(&[(observed.clone(), weights.clone())]) {
            prop_assert!(test.ln_bayes_factor.is_finite() && test.bayes_factor().is_finite(), "{test:?}");
            prop_assert!((0.0..=1.0).contains(&test.p), "{test:?}");
        }
    }

    #[test]
    fn adjusted_p_values_keep_their_order_and_never_fall(
        p_values in prop::collection::vec(prop::option::of(0.0..=1.0_f64), 0..20)
    ) {
        for adjusted in [benjamini_hochberg(&p_values), holm(&p_values)] {
            prop_assert_eq!(adjusted.len(), p_values.len());
            for (p, adjusted_p) in p_values.iter().zip(&adjusted) {
                prop_assert_eq!(p.is_some(), adjusted_p.is_some());
                prop_assert!(p <= adjusted_p && *adjusted_p <= Some(1.0));
            }
            for (i, j) in (0..p_values.len()).flat_map(|i| (0..p_values.len()).map(move |j| (i, j))) {
                let is_before = p_values[i].zip(p_values[j]).is_some_and(|(p, q)| p < q);
                prop_assert!(!is_before || adjusted[i] <= adjusted[j]);
            }
        }
    }

    #[test]
    fn a_larger_change_needs_no_more_visitors(rate in 0.001..0.5_f64, lift in 0.01..0.9_f64, power in 0.5..0.99_f64) {
        let needed = |lift| visitors_per_arm(&Target { rate, lift, alpha: 0.05, power }, Method::Fixed);
        let (small, large) = (needed(lift / 2.0), needed(lift));
        prop_assert!(small.is_some() && large.is_some() && large <= small, "{small:?} {large:?}");
        prop_assert!(days_left(large.unwrap_or(0), 0, 1.0) == large);
    }

    #[test]
    fn the_variance_is_that_of_the_single_values(values in prop::collection::vec(-1e3..1e3_f64, 2..50)) {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let naive = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let squares = values.iter().map(|value| value * value).sum();
        let moments = Moments::of_mean(values.len() as u64, values.iter().sum(), squares);
        prop_assert!((moments.variance - naive).abs() <= 1e-6 * naive.max(1e-3), "{} is not {naive}", moments.variance);
    }
}

#[test]
fn arms_of_one_value_differ_for_certain_or_not_at_all() {
    let settings = super::SETTINGS;
    let arm = |value: f64| ArmSums {
        visitors: 1_000,
        converted: 500,
        sum: value * 1_000.0,
        sum_of_squares: value * value * 1_000.0,
    };
    let result = compare(MetricKind::Mean, &[arm(2.0), arm(2.0), arm(3.0)], None, &settings);
    assert_eq!(result.against[0].p, Some(1.0));
    assert_eq!(result.against[1].p, Some(0.0));
    let none = compare(MetricKind::Proportion, &[rate(0, 0), rate(0, 0)], None, &settings);
    check(&none);
}
