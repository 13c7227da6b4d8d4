//! Simulated experiments with a look after each day: false alarms without a difference, and power with one.

use parallax::testing::insights::statistics::metric::{MetricKind, Verdict, compare};
use parallax::testing::insights::statistics::mismatch::test_any_time;

use super::{SETTINGS, rate};
use crate::dice::Dice;
use crate::harness::times;

const DAYS: usize = 30;
/// New visitors of an arm on each day.
const VISITORS_PER_DAY: u64 = 400;

/// A binomial distribution as a table of its cumulative probabilities.
struct Binomial(Vec<f64>);

impl Binomial {
    fn new(trials: u64, probability: f64) -> Self {
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

    fn draw(&self, dice: &mut Dice) -> u64 {
        let uniform = (dice.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        self.0.partition_point(|sum| *sum <= uniform) as u64
    }
}

/// Returns the number of experiments that are called better, and worse, on any day.
fn count_alarms(experiments: usize, rates: (f64, f64), seed: u64) -> (usize, usize) {
    let mut dice = Dice(seed);
    let [of_a, of_b] = [rates.0, rates.1].map(|rate| Binomial::new(VISITORS_PER_DAY, rate));
    let (mut better, mut worse) = (0, 0);
    for _ in 0..experiments {
        let (mut visitors, mut a, mut b) = (0, 0, 0);
        let (mut is_better, mut is_worse) = (false, false);
        for _ in 0..DAYS {
            visitors += VISITORS_PER_DAY;
            a += of_a.draw(&mut dice);
            b += of_b.draw(&mut dice);
            let result = compare(MetricKind::Proportion, &[rate(visitors, a), rate(visitors, b)], &SETTINGS);
            let compared = &result.against[0];
            let verdict = compared.verdict(compared.p, SETTINGS.alpha);
            is_better |= verdict == Verdict::Better;
            is_worse |= verdict == Verdict::Worse;
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
            is_alarm | test_any_time(&arms, &[0.5, 0.5]).expect("a test").is_alarm
        })
    };
    (0..experiments).filter(has_alarm).count()
}

fn percent(part: usize, of: usize) -> f64 {
    part as f64 * 100.0 / of as f64
}

#[test]
fn daily_looks_at_equal_arms_raise_few_false_alarms() {
    let experiments = times(400, 20_000);
    for (rate, seed) in [(0.01, 1), (0.05, 2)] {
        let (better, worse) = count_alarms(experiments, (rate, rate), seed);
        let [better, worse] = [better, worse].map(|count| percent(count, experiments));
        eprintln!("rate {rate}: {better} % better, {worse} % worse of {experiments}");
        assert!(better <= 2.5 && worse <= 2.5, "rate {rate}: {better} % better, {worse} % worse");
    }
}

#[test]
fn a_lift_of_thirty_percent_is_found_within_thirty_days() {
    let experiments = times(200, 4_000);
    let (better, worse) = count_alarms(experiments, (0.05, 0.065), 3);
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
