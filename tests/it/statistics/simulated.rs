//! Simulated experiments with a look after each day: false alarms without a difference, and power with one.

use parallax::testing::insights::statistics::difference::{Interval, RelativeChange};
use parallax::testing::insights::statistics::metric::{ArmSums, MetricKind, TooEarly, compare_two};
use parallax::testing::insights::statistics::mismatch::test_any_time;
use parallax::testing::insights::statistics::moments::{MeanPair, Moments};

use super::{SETTINGS, rate};
use crate::dice::Dice;
use crate::harness::times;

pub(super) const DAYS: usize = 30;
/// New visitors of an arm on each day.
pub(super) const VISITORS_PER_DAY: u64 = 400;

/// A binomial distribution as a table of its cumulative probabilities.
pub(super) struct Binomial(Vec<f64>);

impl Binomial {
    pub(super) fn new(trials: u64, probability: f64) -> Self {
        let odds = probability / (1.0 - probability);
        let mut mass = (trials as f64 * (1.0 - probability).ln()).exp();
        let mut sum = 0.0;
        let cumulative = (0..=trials).map(|k| {
            sum += mass;
            mass *= odds * (trials - k) as f64 / (k + 1) as f64;
            sum
        });
        Self(cumulative.collect())
    }

    pub(super) fn draw(&self, dice: &mut Dice) -> u64 {
        let uniform = (dice.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        self.0.partition_point(|sum| *sum <= uniform) as u64
    }
}

/// Returns the number of experiments that are called better, and worse, on any day. `share` is the share of arm b in
/// the visitors.
fn count_alarms(experiments: usize, share: f64, rates: (f64, f64), seed: u64) -> (usize, usize) {
    let mut dice = Dice(seed);
    let per_day = [1.0 - share, share].map(|share| (2.0 * VISITORS_PER_DAY as f64 * share).round() as u64);
    let [of_a, of_b] = [(per_day[0], rates.0), (per_day[1], rates.1)].map(|(n, rate)| Binomial::new(n, rate));
    let (mut better, mut worse) = (0, 0);
    for _ in 0..experiments {
        let (mut a, mut b) = (0, 0);
        let (mut is_better, mut is_worse) = (false, false);
        for day in 1..=DAYS as u64 {
            a += of_a.draw(&mut dice);
            b += of_b.draw(&mut dice);
            let arms = [rate(per_day[0] * day, a), rate(per_day[1] * day, b)];
            let result =
                compare_two(MetricKind::Proportion, &arms[0], &arms[1], None, &SETTINGS).change.interval;
            is_better |= result.is_some_and(|interval| interval.low > 0.0);
            is_worse |= result.is_some_and(|interval| interval.high < 0.0);
        }
        better += usize::from(is_better);
        worse += usize::from(is_worse);
    }
    (better, worse)
}

/// Returns the number of experiments with an alarm on any day, if arm a gets this share of the visitors.
fn count_mismatches(experiments: usize, share: f64, seed: u64) -> usize {
    let mut dice = Dice(seed);
    let of_a = Binomial::new(2 * VISITORS_PER_DAY, share);
    let has_alarm = |_: &usize| {
        let mut arms = [0; 2];
        (0..DAYS).fold(false, |is_alarm, _| {
            let a = of_a.draw(&mut dice);
            arms = [arms[0] + a, arms[1] + 2 * VISITORS_PER_DAY - a];
            is_alarm | test_any_time(&[(arms.to_vec(), vec![0.5, 0.5])]).expect("a test").is_alarm
        })
    };
    (0..experiments).filter(has_alarm).count()
}

pub(super) fn percent(part: usize, of: usize) -> f64 {
    part as f64 * 100.0 / of as f64
}

#[test]
fn daily_looks_at_equal_arms_raise_few_false_alarms() {
    let experiments = times(400, 20_000);
    let mut seed = 100;
    for share in [0.5, 0.2, 0.1, 0.05] {
        for rate in [0.005, 0.01, 0.05, 0.2] {
            seed += 1;
            let (better, worse) = count_alarms(experiments, share, (rate, rate), seed);
            let [better, worse] = [better, worse].map(|count| percent(count, experiments));
            let line = format!("share {share}, rate {rate}: {better:.2} % better, {worse:.2} % worse");
            eprintln!("{line} of {experiments}");
            assert!(better <= 2.5 && worse <= 2.5, "{line}");
        }
    }
}

#[test]
fn a_lift_of_thirty_percent_is_found_within_thirty_days() {
    let experiments = times(200, 4_000);
    let (better, worse) = count_alarms(experiments, 0.5, (0.05, 0.065), 3);
    let [better, worse] = [better, worse].map(|count| percent(count, experiments));
    eprintln!("{better} % better, {worse} % worse of {experiments}");
    assert!(better >= 90.0 && worse <= 1.0, "{better} % better, {worse} % worse");
}

#[test]
fn daily_looks_at_an_even_split_raise_few_alarms_and_an_uneven_one_is_found() {
    let experiments = times(400, 20_000);
    let false_alarms = percent(count_mismatches(experiments, 0.5, 4), experiments);
    let found = percent(count_mismatches(experiments, 0.52, 5), experiments);
    eprintln!("{false_alarms} % false alarms, {found} % found of {experiments}");
    assert!(false_alarms <= 0.1, "{false_alarms} % false alarms");
    assert!(found >= 90.0, "{found} % found");
}

/// The share of visitors with an amount.
const BUYERS: f64 = 0.05;
/// New visitors of both arms on each day of an experiment about an amount.
const AMOUNT_VISITORS_PER_DAY: [u64; 2] = [800, 4_000];

/// An experiment about an amount. The values have a lognormal distribution.
#[derive(Debug, Clone, Copy)]
struct AmountExperiment {
    /// New visitors of both arms on each day.
    visitors_per_day: u64,
    /// The share of arm b in the visitors.
    share: f64,
    /// The standard deviation of the logarithm of a value.
    spread: f64,
    /// The relative change from the values of arm a to the values of arm b.
    lift: f64,
}

/// The results of simulated experiments about an amount.
#[derive(Debug, Default)]
struct Outcome {
    /// The percentage of experiments that are called better on any day.
    better: f64,
    /// The percentage of experiments that are called worse on any day.
    worse: f64,
    /// The percentage of looks that are too early because of the spread.
    spread: f64,
    /// The buyers of the smaller arm at the first interval of each experiment, in rising order.
    first: Vec<u64>,
}

impl Outcome {
    fn line(&self) -> String {
        let Self { better, worse, spread, first } = self;
        let median = first.get(first.len() / 2).copied().unwrap_or(0);
        let last = first.last().copied().unwrap_or(0);
        let count = first.len();
        format!(
            "{better:.2} % better, {worse:.2} % worse, {spread:.1} % of looks `spread`, first interval in {count} at {median} buyers (median), {last} (maximum)"
        )
    }
}

/// Returns a number of the lognormal distribution with this spread of its logarithm (Box and Muller).
fn lognormal(dice: &mut Dice, spread: f64) -> f64 {
    let mut uniform = || ((dice.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    let (radius, angle) = ((-2.0 * uniform().ln()).sqrt(), std::f64::consts::TAU * uniform());
    (4.0 + spread * radius * angle.cos()).exp()
}

fn amount_sums(visitors: u64, values: &[f64], cap: f64) -> ArmSums {
    let capped = || values.iter().map(|value| value.min(cap));
    ArmSums {
        visitors,
        converted: values.len() as u64,
        sum: capped().sum(),
        sum_of_squares: capped().map(|value| value * value).sum(),
    }
}

/// Returns the limit `p99` of the values of both arms.
fn cap_of(arms: &[Vec<f64>; 2]) -> f64 {
    let mut values: Vec<f64> = arms.iter().flatten().copied().collect();
    let rank = (values.len() * 99).div_ceil(100).min(values.len().saturating_sub(1));
    match rank {
        0 => f64::INFINITY,
        rank => *values.select_nth_unstable_by(rank - 1, f64::total_cmp).1,
    }
}

type Judge = fn(&[ArmSums; 2]) -> Result<Interval, TooEarly>;

/// Returns the interval of the relative change, or the reason why it is too early.
fn judge(arms: &[ArmSums; 2]) -> Result<Interval, TooEarly> {
    let result = compare_two(MetricKind::Mean, &arms[0], &arms[1], None, &SETTINGS);
    result.change.interval.ok_or(result.reason.unwrap_or(TooEarly::Baseline))
}

/// Like [`judge`], but each arm has its own variance only.
fn judge_alone(arms: &[ArmSums; 2]) -> Result<Interval, TooEarly> {
    judge(arms)?;
    let [a, b] = arms.map(|sums| Moments::of_mean(sums.visitors, sums.sum, sums.sum_of_squares));
    RelativeChange::of(&MeanPair::of(&a, &b), SETTINGS.method, SETTINGS.alpha)
        .interval
        .ok_or(TooEarly::Baseline)
}

/// Returns the outcome with the cap `p99`, and the outcome without a cap.
fn simulate_amounts(experiments: usize, of: &AmountExperiment, judge: Judge, seed: u64) -> [Outcome; 2] {
    let mut dice = Dice(seed);
    let per_day = [1.0 - of.share, of.share].map(|share| (of.visitors_per_day as f64 * share).round() as u64);
    let buyers = per_day.map(|visitors| Binomial::new(visitors, BUYERS));
    let factors = [1.0, 1.0 + of.lift];
    let mut outcomes = [Outcome::default(), Outcome::default()];
    for _ in 0..experiments {
        let mut values = [Vec::new(), Vec::new()];
        let mut is_called = [[false; 2]; 2];
        let mut first = [None; 2];
        for day in 1..=DAYS as u64 {
            for arm in 0..2 {
                let count = buyers[arm].draw(&mut dice);
                values[arm].extend((0..count).map(|_| factors[arm] * lognormal(&mut dice, of.spread)));
            }
            for (rule, cap) in [cap_of(&values), f64::INFINITY].into_iter().enumerate() {
                let arms = [0, 1].map(|arm| amount_sums(per_day[arm] * day, &values[arm], cap));
                let result = judge(&arms);
                is_called[rule][0] |= result.is_ok_and(|interval| interval.low > 0.0);
                is_called[rule][1] |= result.is_ok_and(|interval| interval.high < 0.0);
                outcomes[rule].spread += f64::from(u8::from(result == Err(TooEarly::Spread)));
                if result.is_ok() && first[rule].is_none() {
                    first[rule] = arms.iter().map(|sums| sums.converted).min();
                }
            }
        }
        for (rule, outcome) in outcomes.iter_mut().enumerate() {
            outcome.better += f64::from(u8::from(is_called[rule][0]));
            outcome.worse += f64::from(u8::from(is_called[rule][1]));
            outcome.first.extend(first[rule]);
        }
    }
    for outcome in &mut outcomes {
        outcome.first.sort_unstable();
        outcome.better *= 100.0 / experiments as f64;
        outcome.worse *= 100.0 / experiments as f64;
        outcome.spread *= 100.0 / (experiments * DAYS) as f64;
    }
    outcomes
}

#[test]
fn daily_looks_at_equal_amounts_raise_few_false_alarms_on_each_side() {
    let experiments = times(200, 20_000);
    // The few experiments of the short form vary more.
    let allowed_percent = if experiments < 20_000 { 4.0 } else { 2.5 };
    let mut seed = 1_000;
    for visitors_per_day in &AMOUNT_VISITORS_PER_DAY[..times(1, 2)] {
        let visitors_per_day = *visitors_per_day;
        for share in [0.5, 0.2, 0.1, 0.05] {
            for spread in [0.5, 0.75, 1.0, 1.5, 2.0] {
                seed += 1;
                let of = AmountExperiment { visitors_per_day, share, spread, lift: 0.0 };
                let outcomes = simulate_amounts(experiments, &of, judge, seed);
                for (outcome, cap) in outcomes.iter().zip(["p99", "none"]) {
                    let line = format!(
                        "{visitors_per_day} a day, share {share}, spread {spread}, cap {cap}: {}",
                        outcome.line()
                    );
                    eprintln!("{line}");
                    assert!(outcome.better <= allowed_percent && outcome.worse <= allowed_percent, "{line}");
                }
            }
        }
    }
}

#[test]
fn the_variance_of_a_small_arm_alone_would_raise_too_many_false_alarms() {
    let experiments = times(200, 20_000);
    let of = AmountExperiment { visitors_per_day: 4_000, share: 0.05, spread: 2.0, lift: 0.0 };
    for (judge, is_kept) in [(judge as Judge, true), (judge_alone, false)] {
        let [capped, uncapped] = simulate_amounts(experiments, &of, judge, 41);
        eprintln!("cap p99: {}; cap none: {}", capped.line(), uncapped.line());
        assert_eq!(
            capped.worse <= 2.5 && uncapped.worse <= 2.5,
            is_kept,
            "{} {}",
            capped.line(),
            uncapped.line()
        );
    }
}

#[test]
fn values_that_are_sixty_percent_higher_are_found_within_thirty_days() {
    let experiments = times(200, 20_000);
    let of = AmountExperiment { visitors_per_day: 2 * VISITORS_PER_DAY, share: 0.5, spread: 1.0, lift: 0.6 };
    let [capped, uncapped] = simulate_amounts(experiments, &of, judge, 42);
    eprintln!("cap p99: {}; cap none: {}", capped.line(), uncapped.line());
    assert!(capped.better >= 80.0 && capped.worse <= 1.0, "{}", capped.line());
}

#[test]
fn a_loss_in_a_small_arm_is_found_nearly_as_often_as_with_its_own_variance() {
    let experiments = times(100, 20_000);
    let of = AmountExperiment { visitors_per_day: 4_000, share: 0.1, spread: 1.0, lift: -0.2 };
    let [found, found_alone] = [judge as Judge, judge_alone].map(|judge| {
        let [capped, _] = simulate_amounts(experiments, &of, judge, 45);
        eprintln!("{}", capped.line());
        capped.worse
    });
    assert!(found >= 50.0 && found >= 0.8 * found_alone, "{found} % and {found_alone} %");
}

#[test]
fn the_first_interval_of_an_amount_needs_few_buyers() {
    let experiments = times(200, 20_000);
    for visitors_per_day in AMOUNT_VISITORS_PER_DAY {
        let of = AmountExperiment { visitors_per_day, share: 0.1, spread: 1.0, lift: 0.0 };
        let [capped, uncapped] = simulate_amounts(experiments, &of, judge, 43);
        eprintln!("{visitors_per_day} a day, cap p99: {}; cap none: {}", capped.line(), uncapped.line());
        assert!(capped.first.len() * 1_000 >= experiments * 999, "{}", capped.line());
        assert!(capped.first.last() <= Some(&150), "{}", capped.line());
    }
}

#[test]
fn a_wide_spread_without_a_cap_is_too_early() {
    let experiments = times(100, 20_000);
    let of = AmountExperiment { visitors_per_day: 800, share: 0.1, spread: 2.0, lift: 0.0 };
    let [_, uncapped] = simulate_amounts(experiments, &of, judge, 44);
    eprintln!("{}", uncapped.line());
    // On the other days there are too few visitors or buyers.
    assert!(uncapped.spread >= 50.0 && uncapped.first.len() * 20 <= experiments, "{}", uncapped.line());
}
