//! CUPED: the adjusted means against a regression, the interval against its promise, and the cases without an adjustment.

use parallax::testing::insights::statistics::cuped::{Adjustment, CupedSums};
use parallax::testing::insights::statistics::difference::{Difference, Method, RelativeChange};
use parallax::testing::insights::statistics::metric::{
    ArmSums, MetricKind, MetricResult, Settings, Verdict, compare,
};

use super::SETTINGS;
use super::simulated::{Binomial, DAYS, VISITORS_PER_DAY, percent};
use crate::dice::Dice;
use crate::harness::times;

/// One visitor: the metric since the exposure, the metric before it, and whether the visitor was active before it.
#[derive(Debug, Clone, Copy)]
struct Visitor {
    after: f64,
    before: f64,
    active: bool,
}

fn sums(visitors: impl Iterator<Item = Visitor>) -> CupedSums {
    visitors.fold(NOBODY, |sums, Visitor { after, before, active }| CupedSums {
        visitors: sums.visitors + 1.0,
        after: sums.after + after,
        after_squares: sums.after_squares + after * after,
        before: sums.before + before,
        before_squares: sums.before_squares + before * before,
        active: sums.active + f64::from(u8::from(active)),
        products: sums.products + after * before,
        after_of_active: sums.after_of_active + if active { after } else { 0.0 },
    })
}

const NOBODY: CupedSums = CupedSums {
    visitors: 0.0,
    after: 0.0,
    after_squares: 0.0,
    before: 0.0,
    before_squares: 0.0,
    active: 0.0,
    products: 0.0,
    after_of_active: 0.0,
};

/// Returns the visitors of an arm. `scale` multiplies the metric before the exposure.
fn arm(count: u64, number: u64, scale: f64) -> CupedSums {
    sums((0..count).map(|i| {
        let active = i % 3 != 0;
        let before = if active { ((i * 7 + number * 3) % 5) as f64 } else { 0.0 };
        let extra = if i * 13 % 4 == 0 { 3.0 } else { 0.0 };
        let activity = if active { 1.5 } else { 0.0 };
        let after = (i * 11 % 7) as f64 + 2.0 * before + activity + number as f64 * 0.4 + extra;
        Visitor { after, before: before * scale, active }
    }))
}

fn assert_close(actual: f64, expected: f64) {
    assert!((actual / expected - 1.0).abs() < 1e-9, "{actual} is not {expected}");
}

#[test]
fn the_adjusted_means_and_their_interval_are_those_of_a_regression() {
    // The factors by numpy.linalg.lstsq over the single visitors, with a constant for each arm. The variances by numpy.cov,
    // the p-value and the quantile by scipy.stats.t.
    let adjusted = Adjustment::of(&arm(211, 0, 1.0), &arm(190, 1, 1.0)).expect("both covariates vary");
    let means = adjusted.means;
    let [before, active] = adjusted.factors;
    assert!((before - 1.994_339_62).abs() < 5e-9 && (active - 1.555_849_83).abs() < 5e-9, "{adjusted:?}");
    for (actual, expected) in [
        (means.means[0], 7.387_708_177_340_888),
        (means.means[1], 7.790_492_497_795_119),
        (means.variances[0], 0.057_270_033_959_647_096),
        (means.variances[1], 0.060_943_626_537_405_29),
        (means.covariance, 0.030_405_249_075_497_465),
    ] {
        assert_close(actual, expected);
    }
    let difference = Difference::absolute(&means);
    assert_close(difference.estimate, 0.402_784_320_454_231_6);
    assert_close(difference.variance, 0.057_403_162_346_057_44);
    assert_close(difference.p_value(Method::Fixed, 0.05), 0.093_525_663_248_097_3);
    let change = RelativeChange::of(&means, Method::Fixed, 0.05);
    assert_close(change.estimate.expect("a change"), 0.054_520_875_863_725_45);
    // The quantile has fewer exact digits than the means.
    let interval = change.interval.expect("an interval");
    assert!((interval.low + 0.008_972_058_321_249_587).abs() < 1e-7, "{interval:?}");
    assert!((interval.high - 0.122_278_359_900_383_16).abs() < 1e-7, "{interval:?}");
}

#[test]
fn the_unit_of_a_covariate_does_not_change_the_result() {
    let adjusted = |scale| Adjustment::of(&arm(211, 0, scale), &arm(190, 1, scale)).expect("an adjustment");
    let (whole, cents) = (adjusted(1.0), adjusted(100.0));
    assert_close(cents.factors[0] * 100.0, whole.factors[0]);
    assert_close(cents.means.means[0], whole.means.means[0]);
    assert_close(cents.means.covariance, whole.means.covariance);
}

#[test]
fn an_adjusted_baseline_of_zero_has_no_relative_change() {
    // Nobody of the baseline converted, and its two adjustments cancel each other except for a rounding error.
    for (visitors, active, before, other) in [
        (2.0, 1.0, 0.0, [3.0, 3.0, 2.0, 1.0, 1.0, 1.0]),
        (2.0, 2.0, 0.0, [3.0, 3.0, 2.0, 1.0, 0.0, 1.0]),
        (2.0, 2.0, 2.0, [3.0, 3.0, 2.0, 1.0, 1.0, 1.0]),
        (2.0, 1.0, 0.0, [4.0, 2.0, 3.0, 2.0, 1.0, 1.0]),
    ] {
        let baseline = CupedSums { visitors, active, before, before_squares: before, ..NOBODY };
        let [visitors, after, active, before, products, after_of_active] = other;
        let squares = CupedSums { after_squares: after, before_squares: before, ..NOBODY };
        let compared = CupedSums { visitors, after, active, before, products, after_of_active, ..squares };
        let means = Adjustment::of(&baseline, &compared).expect("an adjustment").means;
        assert_eq!(means.means[0], 0.0, "{baseline:?}");
        assert_eq!(RelativeChange::of(&means, SETTINGS.method, 0.05).estimate, None);
    }
}

#[test]
fn without_two_different_covariates_a_comparison_is_not_adjusted() {
    let of = |before: fn(u64) -> f64, active: fn(u64) -> bool| {
        let visitor = move |i: u64| Visitor { after: (i % 3) as f64, before: before(i), active: active(i) };
        sums((0..500).map(visitor))
    };
    let varying = of(|i| (i % 5) as f64, |i| i % 5 != 0 || i % 2 == 0);
    assert!(Adjustment::of(&varying, &varying).is_some());
    let cases = [
        // No visitor was active.
        of(|_| 0.0, |_| false),
        // Visitors were active, but none had the metric.
        of(|_| 0.0, |i| i % 2 == 0),
        // All visitors were active.
        of(|i| (i % 5) as f64, |_| true),
        // All active visitors had the same metric, so the two covariates have the same information.
        of(|i| (i % 2) as f64 * 0.1, |i| i % 2 == 1),
        NOBODY,
        sums((0..1).map(|_| Visitor { after: 1.0, before: 1.0, active: true })),
    ];
    for case in cases {
        assert_eq!(Adjustment::of(&case, &case), None, "{case:?}");
        let arms = [case, case].map(|sums| of_mean(&sums));
        let with = compare(MetricKind::Mean, &arms, Some(&[case, case]), &SETTINGS);
        assert_eq!(with, compare(MetricKind::Mean, &arms, None, &SETTINGS));
    }
}

fn of_mean(sums: &CupedSums) -> ArmSums {
    ArmSums {
        visitors: sums.visitors as u64,
        converted: sums.visitors as u64 / 2,
        sum: sums.after,
        sum_of_squares: sums.after_squares,
    }
}

/// The kinds of visitors of a simulated site: their share, the metric before the exposure, whether they were active, and their
/// conversion rate.
const KINDS: [(f64, f64, bool, f64); 3] =
    [(0.6, 0.0, false, 0.02), (0.3, 0.0, true, 0.06), (0.1, 1.0, true, 0.45)];

/// The draws of one arm: the number of a day's visitors of each kind, and the number of them that convert. The
/// numbers are independent.
struct Draws(Vec<[Binomial; 2]>);

impl Draws {
    fn new(lift: f64) -> Self {
        let of_kind = |(share, _, _, rate): (f64, f64, bool, f64)| {
            let converting = rate * (1.0 + lift);
            // Visitors of a kind that convert and that do not convert are drawn independently.
            [converting, 1.0 - converting].map(|part| Binomial::new(4 * VISITORS_PER_DAY, share * part / 4.0))
        };
        Self(KINDS.into_iter().map(of_kind).collect())
    }

    fn add_day(&self, sums: &mut CupedSums, dice: &mut Dice) {
        for ([converting, others], (_, before, active, _)) in self.0.iter().zip(KINDS) {
            let converted = converting.draw(dice) as f64;
            let count = converted + others.draw(dice) as f64;
            sums.visitors += count;
            sums.after += converted;
            sums.after_squares += converted;
            sums.before += before * count;
            sums.before_squares += before * count;
            sums.active += if active { count } else { 0.0 };
            sums.products += before * converted;
            sums.after_of_active += if active { converted } else { 0.0 };
        }
    }
}

fn look(arms: &[CupedSums; 2]) -> MetricResult {
    let sums = arms.map(|arm| ArmSums {
        visitors: arm.visitors as u64,
        converted: arm.after as u64,
        sum: arm.after,
        sum_of_squares: arm.after_squares,
    });
    compare(MetricKind::Proportion, &sums, Some(arms), &Settings { alpha: 0.05, ..SETTINGS })
}

/// The results of simulated experiments with a look after each day, in percent.
struct Simulated {
    better: f64,
    worse: f64,
    /// The experiments whose interval missed the true change at any look.
    missed: f64,
    /// The mean of the variance ratios at the last look.
    variance_ratio: f64,
}

fn simulate(experiments: usize, lift: f64, seed: u64) -> Simulated {
    let mut dice = Dice(seed);
    let draws = [Draws::new(0.0), Draws::new(lift)];
    let (mut better, mut worse, mut missed, mut ratios) = (0, 0, 0, 0.0);
    for _ in 0..experiments {
        let mut arms = [NOBODY; 2];
        let (mut is_better, mut is_worse, mut is_missed, mut ratio) = (false, false, false, 0.0);
        for _ in 0..DAYS {
            arms.iter_mut().zip(&draws).for_each(|(arm, draws)| draws.add_day(arm, &mut dice));
            let compared = look(&arms).against[0];
            let verdict = compared.verdict(compared.p, SETTINGS.alpha);
            is_better |= verdict == Verdict::Better;
            is_worse |= verdict == Verdict::Worse;
            is_missed |=
                compared.interval.is_some_and(|interval| lift < interval.low || lift > interval.high);
            ratio = compared.cuped.and_then(|cuped| cuped.variance_ratio).expect("an adjustment");
        }
        better += usize::from(is_better);
        worse += usize::from(is_worse);
        missed += usize::from(is_missed);
        ratios += ratio;
    }
    let [better, worse, missed] = [better, worse, missed].map(|count| percent(count, experiments));
    Simulated { better, worse, missed, variance_ratio: ratios / experiments as f64 }
}

#[test]
fn daily_looks_at_an_adjusted_interval_keep_its_promise() {
    let experiments = times(100, 20_000);
    for (lift, seed) in [(0.0, 41), (0.2, 42)] {
        let Simulated { better, worse, missed, variance_ratio } = simulate(experiments, lift, seed);
        eprintln!(
            "lift {lift}: {better} % better, {worse} % worse, {missed} % missed, variance ratio {variance_ratio:.3} of {experiments}"
        );
        assert!(missed <= 5.0 && worse <= 2.5 && (lift > 0.0 || better <= 2.5), "lift {lift}");
        assert!((0.6..0.9).contains(&variance_ratio), "{variance_ratio}");
    }
}
