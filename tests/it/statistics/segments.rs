//! Simulated experiments whose result is divided into segments, with a look after each day.

use parallax::testing::insights::statistics::many::{benjamini_hochberg, e_benjamini_hochberg};
use parallax::testing::insights::statistics::metric::{MetricKind, compare_two};

use super::simulated::{DAYS, VISITORS_PER_DAY, percent};
use super::{SETTINGS, rate};
use crate::dice::Dice;
use crate::harness::times;

/// The shares of the values of each dimension: devices, new visitors, countries and sources.
const SHARES: [&[f64]; 4] = [
    &[0.6, 0.35, 0.05],
    &[0.7, 0.3],
    &[0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05],
    &[0.4, 0.2, 0.2, 0.1, 0.05, 0.05],
];
const SEGMENTS: usize = 3 + 2 + 8 + 6;
const RATE: f64 = 0.05;

/// The visitors and the conversions of both arms in each segment.
type Segments = [[(u64, u64); 2]; SEGMENTS];

fn uniform(dice: &mut Dice) -> f64 {
    (dice.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns the index of a value that is drawn with these shares.
fn draw(shares: &[f64], dice: &mut Dice) -> usize {
    let mut rest = uniform(dice);
    let index = shares.iter().position(|share| {
        rest -= share;
        rest < 0.0
    });
    index.unwrap_or(0)
}

/// Adds the visitors of a day. Visitors with the first device convert more often in arm b by the factor 1 + `lift`.
fn add_day(segments: &mut Segments, lift: f64, dice: &mut Dice) {
    for visitor in 0..2 * VISITORS_PER_DAY {
        let arm = (visitor % 2) as usize;
        let values = SHARES.map(|shares| draw(shares, dice));
        let is_lifted = arm == 1 && values[0] == 0;
        let converts = uniform(dice) < if is_lifted { RATE * (1.0 + lift) } else { RATE };
        let mut first = 0;
        for (value, shares) in values.iter().zip(SHARES) {
            let (visitors, converted) = &mut segments[first + value][arm];
            *visitors += 1;
            *converted += u64::from(converts);
            first += shares.len();
        }
    }
}

/// Returns the indices of the segments whose arms are told apart.
fn discoveries(segments: &Segments, adjust: fn(&[Option<f64>]) -> Vec<Option<f64>>) -> Vec<usize> {
    let p_values = segments.map(|arms| {
        let [a, b] = arms.map(|(visitors, converted)| rate(visitors, converted));
        compare_two(MetricKind::Proportion, &a, &b, None, &SETTINGS).p
    });
    let adjusted = adjust(&p_values);
    (0..SEGMENTS).filter(|index| adjusted[*index].is_some_and(|p| p < SETTINGS.alpha)).collect()
}

/// The means over simulated experiments.
#[derive(Debug, Default)]
struct Outcome {
    /// The share of false discoveries when one stops at the first discovery, in percent.
    false_at_first: f64,
    /// The share of false discoveries at the last day, in percent.
    false_at_end: f64,
    /// The experiments in which the device with a difference is found until the last day, in percent.
    found: f64,
}

/// Simulates experiments. With a lift, the segments of the other devices have no difference. Without one, no segment has.
fn simulate(experiments: usize, lift: f64, seed: u64) -> Outcome {
    let mut dice = Dice(seed);
    let false_share = |found: &[usize]| {
        let is_false = |segment: &&usize| lift == 0.0 || [1, 2].contains(*segment);
        percent(found.iter().filter(is_false).count(), found.len().max(1))
    };
    let mut sums = Outcome::default();
    for _ in 0..experiments {
        let mut segments = [[(0, 0); 2]; SEGMENTS];
        let mut first = None;
        for _ in 0..DAYS {
            add_day(&mut segments, lift, &mut dice);
            let found = discoveries(&segments, e_benjamini_hochberg);
            first = first.or(Some(found).filter(|found| !found.is_empty()));
        }
        let end = discoveries(&segments, e_benjamini_hochberg);
        sums.false_at_first += first.map_or(0.0, |found| false_share(&found));
        sums.false_at_end += false_share(&end);
        sums.found += percent(usize::from(end.contains(&0)), 1);
    }
    let count = experiments as f64;
    Outcome {
        false_at_first: sums.false_at_first / count,
        false_at_end: sums.false_at_end / count,
        found: sums.found / count,
    }
}

#[test]
fn at_most_one_in_twenty_segments_that_are_told_apart_has_no_difference() {
    let experiments = times(200, 20_000);
    for (lift, seed) in [(0.0, 1), (0.3, 2), (0.6, 3)] {
        let outcome = simulate(experiments, lift, seed);
        eprintln!("lift {lift} in one of 19 segments: {outcome:.2?} of {experiments}");
        assert!(outcome.false_at_first <= 5.0 && outcome.false_at_end <= 5.0, "{lift}: {outcome:?}");
        assert!(lift < 0.6 || outcome.found >= 80.0, "{outcome:?}");
    }
}

#[test]
fn a_segment_that_is_too_early_counts_as_a_comparison_without_evidence() {
    let p_values = [Some(0.02), None, Some(0.03), None];
    assert_eq!(e_benjamini_hochberg(&p_values), [Some(0.06), None, Some(0.06), None]);
    assert_eq!(benjamini_hochberg(&p_values), [Some(0.03), None, Some(0.03), None]);
    assert_eq!(e_benjamini_hochberg(&[None, None]), [None, None]);
    assert_eq!(e_benjamini_hochberg(&[]), []);
}
