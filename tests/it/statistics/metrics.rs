//! The comparison of arms: "too early", changes, verdicts, guardrails, mismatch and planned sizes.

use parallax::testing::insights::statistics::difference::{Difference, Interval, Method, RelativeChange};
use parallax::testing::insights::statistics::many::benjamini_hochberg;
use parallax::testing::insights::statistics::metric::{
    ArmSums, BUYERS_MIN, CONVERSIONS_MIN, Comparison, DOUBTFUL_VISITORS_MIN, GuardrailVerdict, MetricKind,
    MetricResult, Settings, TooEarly, VISITORS_MIN, Verdict, compare, has_too_many_doubtful, summarize,
};
use parallax::testing::insights::statistics::mismatch::{BAYES_FACTOR_MAX, Mismatch, test_any_time};
use parallax::testing::insights::statistics::moments::{MeanPair, Moments};
use parallax::testing::insights::statistics::sample_size::{Target, days_left, visitors_per_arm};

use super::{SETTINGS, rate};

fn compare_rates(arms: &[ArmSums]) -> MetricResult {
    compare(MetricKind::Proportion, arms, None, &SETTINGS)
}

fn verdict(of: &Comparison) -> Verdict {
    of.verdict(of.p, SETTINGS.alpha)
}

#[test]
fn the_interval_of_the_relative_change_is_that_of_the_published_example() {
    let result = compare_rates(&[rate(50_000, 2_500), rate(50_100, 2_715)]);
    let [compared] = &result.against[..] else { panic!("one comparison") };
    let interval = compared.interval.expect("an interval");
    for (actual, expected) in [
        (compared.estimate.expect("a change"), 0.083_832_3),
        (interval.low, -0.009_487_0),
        (interval.high, 0.186_363_1),
        (compared.p.expect("a p-value"), 0.151_474_2),
    ] {
        assert!((actual - expected).abs() < 5e-8, "{actual} is not {expected}");
    }
    assert_eq!(verdict(compared), Verdict::NotToldApart);
}

#[test]
fn an_interval_excludes_zero_exactly_if_the_p_value_is_below_the_error_rate() {
    let baseline = rate(10_000, 500);
    for method in [SETTINGS.method, Method::Fixed] {
        let mut seen = [0; 3];
        for converted in 300..800 {
            let settings = Settings { method, ..SETTINGS };
            let result =
                compare(MetricKind::Proportion, &[baseline, rate(10_000, converted)], None, &settings);
            let compared = &result.against[0];
            let interval = compared.interval.expect("an interval");
            let expected = match compared.p.expect("a p-value") < 0.05 {
                true if converted > 500 => Verdict::Better,
                true => Verdict::Worse,
                false => Verdict::NotToldApart,
            };
            assert_eq!(verdict(compared), expected, "{converted}");
            assert_eq!(interval.low > 0.0, expected == Verdict::Better, "{converted}");
            assert_eq!(interval.high < 0.0, expected == Verdict::Worse, "{converted}");
            seen[expected as usize] += 1;
        }
        assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
    }
}

#[test]
fn an_arm_below_a_bound_is_too_early_and_is_not_compared() {
    let enough = rate(1_000, 100);
    for (arm, reason) in [
        (rate(VISITORS_MIN - 1, 50), Some(TooEarly::Visitors)),
        (rate(VISITORS_MIN, 50), None),
        (rate(VISITORS_MIN + 1, 50), None),
        (rate(1_000, CONVERSIONS_MIN - 1), Some(TooEarly::Conversions)),
        (rate(1_000, CONVERSIONS_MIN), None),
        (rate(1_000, CONVERSIONS_MIN + 1), None),
        (rate(1_000, 1_000 - CONVERSIONS_MIN + 1), Some(TooEarly::NonConversions)),
        (rate(1_000, 1_000 - CONVERSIONS_MIN), None),
        (rate(1_000, 1_000 - CONVERSIONS_MIN - 1), None),
        (rate(0, 0), Some(TooEarly::Visitors)),
    ] {
        for (index, arms) in [[arm, enough, enough], [enough, arm, enough]].iter().enumerate() {
            let result = compare_rates(arms);
            let expected: Vec<_> = reason.iter().map(|reason| (index, *reason)).collect();
            assert_eq!(result.too_early, expected, "{arm:?}");
            for compared in &result.against {
                let is_early = reason.is_some() && (index == 0 || compared.arm == index);
                assert_eq!(compared.interval.is_none(), is_early, "{arm:?} {compared:?}");
                assert_eq!(compared.p.is_none(), is_early);
                assert_eq!(verdict(compared) == Verdict::TooEarly, is_early);
                let guardrail = compared.guardrail_verdict(0.5, false);
                assert_eq!(guardrail == GuardrailVerdict::TooEarly, is_early);
            }
        }
    }
}

#[test]
fn a_baseline_that_is_not_told_apart_from_zero_is_too_early() {
    // At this error rate, the interval of the mean of the baseline includes 0.
    let settings = Settings { alpha: 1e-9, ..SETTINGS };
    let arm = |sum: f64| ArmSums { visitors: 1_000, converted: 500, sum, sum_of_squares: 1e6 };
    let result = compare(MetricKind::Mean, &[arm(6_000.0), arm(24_000.0)], None, &settings);
    assert_eq!(result.too_early, [(1, TooEarly::Baseline)]);
    assert_eq!((result.against[0].interval, result.against[0].p), (None, None));
    assert!(result.against[0].estimate.is_some_and(|change| (change - 3.0).abs() < 1e-9));
    // Without any value there is not even an estimate.
    let none = compare(MetricKind::Mean, &[arm(0.0), arm(20_000.0)], None, &SETTINGS);
    assert_eq!((none.against[0].estimate, verdict(&none.against[0])), (None, Verdict::TooEarly));
}

#[test]
fn more_refunds_than_in_a_negative_baseline_are_a_negative_change() {
    let arm = |sum: f64| ArmSums { visitors: 10_000, converted: 5_000, sum, sum_of_squares: 60_000.0 };
    let result = compare(MetricKind::Mean, &[arm(-10_000.0), arm(-15_000.0)], None, &SETTINGS);
    let compared = &result.against[0];
    assert!((compared.estimate.expect("a change") + 0.5).abs() < 1e-12);
    let interval = compared.interval.expect("an interval");
    assert!(interval.low < -0.5 && -0.5 < interval.high && interval.high < 0.0, "{interval:?}");
    assert_eq!(verdict(compared), Verdict::Worse);
}

#[test]
fn a_guardrail_has_a_verdict_in_both_directions() {
    let comparison = |low, high| Comparison {
        arm: 1,
        estimate: Some((low + high) / 2.0),
        interval: Some(Interval { low, high }),
        p: Some(0.5),
        cuped: None,
    };
    for (low, high, higher_is_better, lower_is_better) in [
        (-0.01, 0.30, GuardrailVerdict::NoWorse, GuardrailVerdict::NotToldApart),
        (-0.30, 0.01, GuardrailVerdict::NotToldApart, GuardrailVerdict::NoWorse),
        (0.03, 0.30, GuardrailVerdict::NoWorse, GuardrailVerdict::Harmed),
        (-0.30, -0.03, GuardrailVerdict::Harmed, GuardrailVerdict::NoWorse),
        (-0.30, 0.30, GuardrailVerdict::NotToldApart, GuardrailVerdict::NotToldApart),
        // Worse, and surely by less than the margin.
        (-0.015, -0.005, GuardrailVerdict::NoWorse, GuardrailVerdict::NoWorse),
        // The margin itself is too much.
        (-0.02, 0.01, GuardrailVerdict::NotToldApart, GuardrailVerdict::NoWorse),
    ] {
        let compared = comparison(low, high);
        assert_eq!(compared.guardrail_verdict(0.02, false), higher_is_better, "{low} {high}");
        assert_eq!(compared.guardrail_verdict(0.02, true), lower_is_better, "{low} {high}");
    }
}

#[test]
fn the_verdict_of_a_secondary_metric_follows_its_adjusted_p_value() {
    let compared = Comparison { arm: 1, estimate: Some(0.1), interval: None, p: Some(0.03), cuped: None };
    let adjusted = benjamini_hochberg(&[compared.p, None, Some(0.9)]);
    assert_eq!(adjusted, [Some(0.06), None, Some(0.9)]);
    assert_eq!(compared.verdict(compared.p, 0.05), Verdict::Better);
    assert_eq!(compared.verdict(adjusted[0], 0.05), Verdict::NotToldApart);
    assert_eq!(compared.verdict(adjusted[1], 0.05), Verdict::TooEarly);
    assert_eq!(compared.verdict(Some(0.05), 0.05), Verdict::NotToldApart);
}

#[test]
fn an_arm_is_described_by_an_interval_of_its_own() {
    let summary = summarize(MetricKind::Proportion, &rate(1_000, 100), 0.05);
    let interval = summary.interval.expect("Wilson's interval");
    assert_eq!(summary.mean, Some(0.1));
    assert!((interval.low - 0.082_909).abs() < 1e-6 && (interval.high - 0.120_152).abs() < 1e-6);
    let values = ArmSums { visitors: 5, converted: 5, sum: 15.0, sum_of_squares: 55.0 };
    let summary = summarize(MetricKind::Mean, &values, 0.05);
    let interval = summary.interval.expect("Student's interval");
    // 1 2 3 4 5: mean 3, variance 2.5, t(0.975, 4) = 2.776445.
    assert!((interval.high - 4.963_243).abs() < 1e-6, "{interval:?}");
    for visitors in [0, 1] {
        let summary = summarize(MetricKind::Mean, &ArmSums { visitors, ..values }, 0.05);
        assert_eq!((summary.interval, summary.mean.is_some()), (None, visitors > 0));
    }
    assert_eq!(summarize(MetricKind::Proportion, &rate(0, 0), 0.05).mean, None);
}

fn test_of(observed: &[u64], weights: &[f64]) -> Option<Mismatch> {
    test_any_time(&[(observed.to_vec(), weights.to_vec())])
}

#[test]
fn the_periods_of_a_mismatch_multiply_their_bayes_factors() {
    let period = |observed: [u64; 2], weights: [f64; 2]| (observed.to_vec(), weights.to_vec());
    let periods = [
        period([30, 60], [0.25, 0.75]),
        period([700, 800], [0.5, 0.5]),
        // A period in which one arm is open tests nothing.
        period([9, 1], [1.0, 0.0]),
    ];
    let ln = |periods: &[_]| test_any_time(periods).expect("a test").ln_bayes_factor;
    let sum = ln(&periods[..1]) + ln(&periods[1..2]);
    assert!((ln(&periods) - sum).abs() < 1e-12);
    assert_eq!(test_any_time(&[]), None);
}

#[test]
fn a_mismatch_is_tested_over_the_arms_of_positive_weight() {
    let test = |observed: &[u64], weights: &[f64]| test_of(observed, weights).map(|test| test.p);
    let two = test(&[5_200, 4_800], &[0.5, 0.5]).expect("a test");
    assert!(two < 0.05, "{two}");
    assert_eq!(test(&[5_200, 700, 4_800], &[0.5, 0.0, 0.5]), Some(two));
    assert_eq!(test(&[5_200, 4_800], &[5.0, 5.0]), Some(two), "weights are shares of their sum");
    assert_eq!(test(&[5_200, 4_800], &[1.0, 0.0]), None);
    assert_eq!(test(&[], &[]), None);
    assert_eq!(test(&[0, 0], &[0.5, 0.5]), Some(1.0));
}

#[test]
fn a_mismatch_raises_the_alarm_above_its_bayes_factor() {
    let tests = (5_000..6_000).map(|visitors| test_of(&[visitors, 5_000], &[0.5, 0.5]).expect("a test"));
    let tests: Vec<_> = tests.collect();
    let first = tests.iter().position(|test| test.is_alarm).expect("an alarm");
    assert!(first > 100, "{first}");
    for (index, test) in tests.iter().enumerate() {
        assert_eq!(test.is_alarm, index >= first);
        assert_eq!(test.is_alarm, test.bayes_factor() > BAYES_FACTOR_MAX);
        assert_eq!(test.is_alarm, test.p < 0.001);
    }
    let certain = test_of(&[1_000_000, 0], &[0.5, 0.5]).expect("a test");
    assert_eq!((certain.bayes_factor(), certain.p), (f64::MAX, 0.0));
}

#[test]
fn doubtful_visitors_are_too_many_above_one_in_a_hundred_and_from_ten_on() {
    for (doubtful, exposed, expected) in [
        (0, 0, false),
        (10, 1_001, false),
        (10, 1_000, false),
        (10, 999, true),
        (29, 3_000, false),
        (30, 3_000, false),
        (31, 3_000, true),
        (DOUBTFUL_VISITORS_MIN - 1, 10, false),
        (DOUBTFUL_VISITORS_MIN, 10, true),
        (DOUBTFUL_VISITORS_MIN + 1, 11, true),
    ] {
        assert_eq!(has_too_many_doubtful(doubtful, exposed), expected, "{doubtful} of {exposed}");
    }
    assert!(has_too_many_doubtful(u64::MAX, u64::MAX));
}

#[test]
fn an_amount_is_too_early_below_its_number_of_buyers() {
    let arm = |converted: u64| ArmSums {
        visitors: 1_000,
        converted,
        sum: converted as f64 * 10.0,
        sum_of_squares: converted as f64 * 100.0,
    };
    for (buyers, is_early) in [(BUYERS_MIN - 1, true), (BUYERS_MIN, false), (BUYERS_MIN + 1, false)] {
        for (early_arm, arms) in [[arm(buyers), arm(500)], [arm(500), arm(buyers)]].iter().enumerate() {
            let result = compare(MetricKind::Mean, arms, None, &SETTINGS);
            let reasons: Vec<_> = is_early.then_some((early_arm, TooEarly::Buyers)).into_iter().collect();
            assert_eq!(result.too_early, reasons, "{buyers}");
            assert_eq!(result.against[0].p.is_none(), is_early, "{buyers}");
        }
    }
    // The shares of visitors keep their bound.
    assert_eq!(compare_rates(&[rate(1_000, BUYERS_MIN - 1), rate(1_000, 500)]).too_early, []);
}

#[test]
fn an_amount_is_too_early_while_its_values_differ_too_much_for_their_number() {
    // Each of the buyers has the value 10, except one with a large value.
    let arm = |buyers: u64, large: f64| ArmSums {
        visitors: 1_000,
        converted: buyers,
        sum: (buyers - 1) as f64 * 10.0 + large,
        sum_of_squares: (buyers - 1) as f64 * 100.0 + large * large,
    };
    for (sums, reason) in [
        (arm(BUYERS_MIN, 10.0), None),
        (arm(BUYERS_MIN, 11.0), Some(TooEarly::Spread)),
        (arm(BUYERS_MIN + 1, 11.0), None),
        (arm(200, 100.0), None),
        (arm(200, 1_000.0), Some(TooEarly::Spread)),
        (ArmSums { sum: f64::MAX, sum_of_squares: f64::INFINITY, ..arm(200, 10.0) }, Some(TooEarly::Spread)),
    ] {
        let even = arm(500, 10.0);
        for (early_arm, arms) in [[sums, even], [even, sums]].iter().enumerate() {
            let result = compare(MetricKind::Mean, arms, None, &SETTINGS);
            let reasons: Vec<_> = reason.map(|reason| (early_arm, reason)).into_iter().collect();
            assert_eq!(result.too_early, reasons, "{sums:?}");
            assert_eq!(result.against[0].p.is_none(), reason.is_some(), "{sums:?}");
        }
    }
}

#[test]
fn the_interval_of_an_amount_contains_the_interval_of_the_own_variances() {
    let large = ArmSums { visitors: 10_000, converted: 500, sum: 5_000.0, sum_of_squares: 120_000.0 };
    let mut seen = [0; 2];
    for sum in (200..1_200).step_by(10) {
        let sum = f64::from(sum);
        let small = ArmSums { visitors: 1_000, converted: 50, sum, sum_of_squares: sum * sum / 40.0 };
        for arms in [[large, small], [small, large]] {
            let [a, b] = arms.map(|sums| Moments::of_mean(sums.visitors, sums.sum, sums.sum_of_squares));
            let own = RelativeChange::of(&MeanPair::of(&a, &b), SETTINGS.method, SETTINGS.alpha)
                .interval
                .expect("an interval");
            let compared = compare(MetricKind::Mean, &arms, None, &SETTINGS).against[0];
            let interval = compared.interval.expect("an interval");
            assert!(
                interval.low <= own.low + 1e-12 && own.high - 1e-12 <= interval.high,
                "{sum} {interval:?} {own:?}"
            );
            let is_told_apart = compared.p.expect("a p-value") < SETTINGS.alpha;
            assert_eq!(is_told_apart, interval.low > 0.0 || interval.high < 0.0, "{sum} {interval:?}");
            seen[usize::from(is_told_apart)] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > 10), "{seen:?}");
}

#[test]
fn many_amounts_have_nearly_the_interval_of_their_own_variances() {
    let arm = |sum: f64| ArmSums { visitors: 20_000_000, converted: 1_000_000, sum, sum_of_squares: 4e8 };
    let arms = [arm(1e7), arm(1.01e7)];
    let [a, b] = arms.map(|sums| Moments::of_mean(sums.visitors, sums.sum, sums.sum_of_squares));
    let own = RelativeChange::of(&MeanPair::of(&a, &b), SETTINGS.method, SETTINGS.alpha)
        .interval
        .expect("an interval");
    let interval =
        compare(MetricKind::Mean, &arms, None, &SETTINGS).against[0].interval.expect("an interval");
    assert!(
        (interval.low - own.low).abs() < 1e-4 && (interval.high - own.high).abs() < 1e-4,
        "{interval:?} {own:?}"
    );
}

#[test]
fn an_arm_without_visitors_has_no_change() {
    for kind in [MetricKind::Proportion, MetricKind::Mean] {
        let baseline = ArmSums { visitors: 1_000, converted: 500, sum: 500.0, sum_of_squares: 500.0 };
        for arms in [[baseline, rate(0, 0)], [rate(0, 0), baseline]] {
            let compared = compare(kind, &arms, None, &SETTINGS).against[0];
            assert_eq!((compared.estimate, compared.interval, compared.p), (None, None, None));
            assert_eq!(verdict(&compared), Verdict::TooEarly);
        }
    }
}

#[test]
fn looks_at_any_time_need_a_fixed_factor_of_visitors() {
    let target = Target { rate: 0.05, lift: 0.1, alpha: 0.05, power: 0.8 };
    assert_eq!(visitors_per_arm(&target, Method::Fixed), Some(31_231));
    let anytime = [100, 5_000, 1_000_000].map(|planned| {
        visitors_per_arm(&target, Method::Anytime { planned }).expect("a number") as f64 / 31_231.0
    });
    assert_eq!(anytime, [anytime[0]; 3], "the factor depends on the error rate alone");
    assert!((anytime[0] - 2.40).abs() < 0.005, "{anytime:?}");
    for (rate, lift) in [(0.0, 0.1), (1.0, 0.1), (0.05, 0.0), (0.05, -1.0), (0.6, 1.0), (f64::NAN, 0.1)] {
        assert_eq!(visitors_per_arm(&Target { rate, lift, ..target }, Method::Fixed), None, "{rate} {lift}");
    }
    for (needed, smallest, per_day, expected) in [
        (100, 100, 0.0, Some(0)),
        (100, 99, 0.0, None),
        (100, 50, 25.0, Some(2)),
        (100, 50, 24.0, Some(3)),
        (100, 1_000, 24.0, Some(0)),
    ] {
        assert_eq!(days_left(needed, smallest, per_day), expected, "{needed} {smallest} {per_day}");
    }
}

#[test]
fn the_anytime_interval_is_as_much_wider_as_the_design_says() {
    for (day, expected) in [(1.0, 1.78), (12.0, 1.56), (30.0, 1.61)] {
        let arm = Moments { visitors: 400.0 * day, mean: 0.05, variance: 0.05 * 0.95 };
        let width = |method| {
            let difference = Difference::absolute(&MeanPair::of(&arm, &arm));
            let interval: Interval = difference.interval(method, 0.05).expect("an interval");
            interval.high - interval.low
        };
        let ratio = width(SETTINGS.method) / width(Method::Fixed);
        assert!((ratio - expected).abs() < 0.006, "day {day}: {ratio}");
    }
    // The relative change of equal arms is 0, and 0 is inside.
    let arm = Moments::of_proportion(12_000, 600);
    let change = RelativeChange::of(&MeanPair::of(&arm, &arm), SETTINGS.method, 0.05);
    assert_eq!(change.estimate, Some(0.0));
    assert!(change.interval.is_some_and(|interval| interval.low < 0.0 && interval.high > 0.0));
}
